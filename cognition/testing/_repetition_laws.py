"""L6, for calls that repeat: a pure check of one step, from the messages of the turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen

from cognition.base.repetition import LONGEST_CYCLE, fingerprint
from cognition.context.tool_results import EDITED_NOTE
from cognition.steps.decisions import CallModel, LimitHit, TurnFinished
from cognition.steps.state import AgentState
from cognition.testing._engine_under_test import EngineUnderTest, Found, Problem
from cognition.testing._world import Edge, is_rejected
from cognition.values.history import History
from cognition.values.messages import AssistantMessage, ToolCall, ToolMessage
from cognition.values.outcomes import LimitReached

CALL_HOOKS = frozenset(("before_tool", "after_tool", "worker_stop"))
"""Hooks that may change a call, or a result's text, unseen by the messages."""

EDITED = EDITED_NOTE.partition("{")[0]


@frozen
class Round:
    """A call and its result, as the messages show them."""

    call: str | None
    """None: the user changed its arguments."""
    result: tuple[str, str] | None
    """Status and text. None: it was shortened, or had pictures."""


@frozen
class Rounds:
    """The calls of a turn."""

    calls: tuple[Round, ...]
    """Newest first."""
    new: int
    """How many of them are of the newest reply that has calls."""
    answered: bool
    """Whether there is a reply without calls behind it."""


def check_repetitions(subject: EngineUnderTest, edge: Edge) -> Found:
    """L6: a turn ends as a loop only if calls repeated with their results, and does if the model has seen all but the
    last round of them.
    """
    config = subject.config
    state: object = edge.transition.next_state  # an engine may have a state of its own
    if config is None or config.edition == 1 or not isinstance(state, AgentState) or is_rejected(edge.transition):
        return None
    claimed, called = _says_loop(edge), _calls_with_tools(edge)
    if not (claimed or called) or CALL_HOOKS.intersection(config.hooks):
        return None
    repeats = config.limits.repeats
    polling = frozenset(name for name, tool in subject.tools.items() if tool.polls)
    rounds = rounds_of(state.history, polling)
    if claimed and (repeats is None or not any(_rows(rounds.calls, repeats, _may_be_equal))):
        return Problem("the turn ends as a loop, and no calls gave the same results as often as they may")
    if called and repeats is not None and not rounds.answered:
        for length, row in enumerate(_rows(rounds.calls, repeats, _are_equal), 1):
            if row and row - rounds.new >= length * (repeats - 1):
                times = f"{row // length} times in a row"
                return Problem(f"the model is called with tools, and its calls gave the same results {times}")
    return None


def _says_loop(edge: Edge) -> bool:
    """Return whether a step reports that a turn ends as a loop."""
    for one in edge.transition.decisions:
        reached = one.outcome if isinstance(one, TurnFinished) else one
        if isinstance(reached, LimitHit | LimitReached) and reached.limit == "loop":
            return True
    return False


def _calls_with_tools(edge: Edge) -> bool:
    """Return whether the model is called and may call tools. A text protocol has them in the system prompt."""
    return any(
        isinstance(one, CallModel)
        and (bool(one.request.tools) or (one.request.protocol != "native" and one.purpose in ("answer", "repair")))
        for one in edge.transition.decisions
    )


def rounds_of(history: History, polling: frozenset[str]) -> Rounds:
    """Return the turn's calls since the latest one of a tool that polls."""
    found: list[Round] = []
    results: list[ToolMessage] = []
    new, answered, pictures = -1, False, False
    for message in reversed(history):
        if isinstance(message, ToolMessage):
            results.append(message)
        elif isinstance(message, AssistantMessage):
            calls = {call.id: call for call in message.calls}
            answered = answered or (new < 0 and not results)
            for result in results:
                if result.name in polling:
                    return Rounds(tuple(found), len(found) if new < 0 else new, answered)
                found.append(_round(calls.get(result.call_id), result, pictures))
            new = len(found) if results and new < 0 else new
            results, pictures = [], False
        elif message.origin == "user":
            break
        else:
            pictures = pictures or bool(message.parts)
    return Rounds(tuple(found), max(new, 0), answered)


def _round(call: ToolCall | None, result: ToolMessage, pictures: bool) -> Round:
    known = None
    if call is not None and EDITED not in result.content:
        try:
            known = fingerprint(call.name, call.arguments)
        except (ValueError, RecursionError):  # of an engine that does not look at arguments
            known = f"{call.name} {call.arguments_json}"
    return Round(known, None if result.left_out or pictures else (result.status, result.content))


Same = Callable[[Round, Round], bool]


def _may_be_equal(one: Round, other: Round) -> bool:
    if one.call is None or other.call is None:
        return True
    return one.call == other.call and (one.result is None or other.result is None or one.result == other.result)


def _are_equal(one: Round, other: Round) -> bool:
    return one == other and one.call is not None and one.result is not None


def _rows(rounds: Sequence[Round], repeats: int, same: Same) -> list[int]:
    """Return for cycles of each length how many of the newest calls are a row of them; 0 for less than ``repeats``."""
    found = []
    for length in range(1, LONGEST_CYCLE + 1):
        row = length
        while row < len(rounds) and same(rounds[row], rounds[row - length]):
            row += 1
        found.append(row if length * repeats <= row <= len(rounds) else 0)
    return found
