"""The laws that a single step can break, as pure checks: each takes a step and returns a problem or None.

L5 and L6 have their own modules, ``_permission_laws`` and ``_budget_laws``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from attrs import evolve

from cognition.context.cut_note import note_for
from cognition.context.sections import briefing_size, insert_briefing, with_standing
from cognition.context.token_counts import bare_tokens, fixed_tokens
from cognition.context.window import (
    before_window,
    changed_size,
    end_of_asking,
    fit_or_smallest,
    longest_prompt,
    message_size,
    skipped_message,
    summary_message,
    system_size,
)
from cognition.steps.codec import from_data, to_data
from cognition.steps.config import AgentConfig
from cognition.steps.decisions import (
    EFFECT_TYPES,
    CallModel,
    CallTool,
    CancelEffect,
    Decision,
    Effect,
    Rejected,
    RetryPlanned,
    StartTimer,
)
from cognition.steps.inputs import Input
from cognition.steps.phases import Compacting
from cognition.steps.requests import ModelRequest
from cognition.steps.state import AgentState, Window
from cognition.steps.vocabulary import is_worker_tool
from cognition.testing._engine_under_test import UNREADABLE, EngineUnderTest, Found, Problem, batch_of
from cognition.testing._purity import PurityProbe
from cognition.testing._trace import contrast
from cognition.testing._world import Edge, World, belongs, count, failed_by, history_of
from cognition.values.history import History
from cognition.values.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage


def encoding(value: Any, kind: Any = None) -> str:
    """Return the JSON text of a value. Values with equal text are equal for every replay."""
    return json.dumps(to_data(value, kind))


def _encode_or_repr(value: Any) -> str:
    """Return ``encoding(value)``, or ``repr(value)`` if it can't be encoded (L8 reports that)."""
    try:
        return encoding(value)
    except UNREADABLE:
        return repr(value)


def read_back(value: Any, kind: Any) -> Any:
    """Return the value as a journal would restore it: equal, without shared parts.

    Raises:
        One of ``UNREADABLE``: it can't be encoded or decoded.
    """
    return from_data(json.loads(encoding(value, kind)), kind)


# ------------------------------------------------------------------------------------------------------------- L1 pure


def check_purity(subject: EngineUnderTest, world: World, event: Input) -> Found:
    """L1: repeating a step gives an equal transition. It does not change its arguments, and uses no other source."""
    state = world.state
    before = _encode_or_repr(state), _encode_or_repr(event)
    watch = PurityProbe()
    try:
        with watch:
            first = subject.engine.step(state, event)
        second = subject.engine.step(state, event)
    except Exception:  # L2's matter
        return None if watch.asked is None else Problem(str(watch.asked))
    if watch.asked is not None:
        return Problem(str(watch.asked))
    after = _encode_or_repr(state), _encode_or_repr(event)
    for what, old, new in zip(("state", "input"), before, after, strict=True):
        if old != new:
            return Problem(f"step changed its argument, the {what}:\n    before: {old:.300}\n    after:  {new:.300}")
    if first != second:
        return Problem(f"equal arguments gave transitions that differ in {contrast(first, second)}")
    return None


# ------------------------------------------------------------------------------------------------------------ L2 total


def check_totality(subject: EngineUnderTest, edge: Edge) -> Found:
    """L2: a step never raises; a misplaced input changes no state and is rejected once; effect ids are never reused."""
    if edge.error is not None:
        return Problem(f"step raised {edge.error}")
    decisions, place = edge.transition.decisions, belongs(edge.before, edge.input)
    rejections = sum(type(decision) is Rejected for decision in decisions)
    if rejections or not place:
        name = type(edge.input).__name__
        if place and hasattr(edge.input, "effect_id"):
            return Problem(f"{name} answers an effect in flight and was rejected")
        if rejections != 1 or len(decisions) != 1:
            return Problem(f"{name} does not belong here, and what was decided is not one Rejected and nothing else")
        state = edge.transition.next_state
        if state is not edge.before.state and state != edge.before.state:
            return Problem(f"{name} was rejected and changed the state")
        return None
    effects = [decision.effect_id for decision in decisions if isinstance(decision, EFFECT_TYPES)]
    known = {effect.effect_id for effect in (*edge.before.open, *edge.before.over)} if effects else set()
    for effect_id in effects:
        if effect_id in known:
            return Problem(f"the effect id {effect_id} is given a second time")
        known.add(effect_id)
    return None


# --------------------------------------------------------------------------------------------------------- L3 answered


def find_unpaired(messages: Sequence[Message]) -> str | None:
    """Return a problem unless each call's one result follows directly, in call order."""
    due: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            if not due:
                return f"there is a result of {message.call_id}, which no call before it waits for"
            if message.call_id != due[0]:
                return f"the result of {message.call_id} stands where that of {due[0]} is due"
            due.pop(0)
            continue
        if due:
            return f"{due[0]} has no result"
        if isinstance(message, AssistantMessage):
            due = [call.id for call in message.calls]
    return f"{due[0]} has no result" if due else None


def check_results(subject: EngineUnderTest, edge: Edge) -> Found:
    """L3: in each request every call of a reply has exactly one result, directly after it and in call order."""
    for decision in edge.transition.decisions:
        if isinstance(decision, CallModel) and (problem := find_unpaired(tuple(decision.request.messages))):
            return Problem(f"in the request of {decision.effect_id}, {problem}")
    return None


# ---------------------------------------------------------------------------------------------------------- L4 ordered


def check_order(subject: EngineUnderTest, edge: Edge) -> Found:
    """L4: a call runs after all earlier calls of its reply, and only once.

    Exceptions: calls that may run together may overlap if all calls between them may too, and a tool may permit
    repetition.
    """
    state = edge.transition.next_state
    if not isinstance(state, AgentState):
        return None  # of a state class of its own nobody can tell in which order the calls stand
    if (failed := failed_by(edge.before, edge.input)) and (problem := _waits(subject, edge, failed)):
        return Problem(problem)
    if CallTool not in map(type, edge.transition.decisions):
        return None
    history = state.history
    turn = count(edge.before, edge.input)
    ran = list(turn.ran) if turn is not None else []
    answered = getattr(edge.input, "effect_id", None)
    open_ = [(one.effect_id, call) for one in edge.before.open if (call := _call_of(one)) and one.effect_id != answered]
    for decision in edge.transition.decisions:
        if isinstance(decision, CallTool):
            call = decision.call
            batch = [other.id for other in batch_of(history, call)]
            if not batch:
                return Problem(f"{call.id} runs and stands in no reply of the history")
            if problem := _runs_again(subject, edge.before, call, [other.id for other in ran].count(call.id)):
                return Problem(problem)
            for _, other in open_:
                if not _together(subject, history, call, other):
                    return Problem(f"{call.id} runs while {other.id} is open, and not all may run together")
            for other_call in ran:
                behind = other_call.id in batch and batch.index(other_call.id) > batch.index(call.id)
                if behind and not _together(subject, history, call, other_call):
                    return Problem(f"{call.id} runs after {other_call.id}, which stands behind it in the reply")
            ran.append(call)
        if isinstance(decision, CancelEffect):
            open_ = [(effect_id, other) for effect_id, other in open_ if effect_id != decision.effect_id]
        elif isinstance(decision, EFFECT_TYPES) and (asked := _call_of(decision)) is not None:
            open_.append((decision.effect_id, asked))
    return None


def _runs_again(subject: EngineUnderTest, before: World, call: ToolCall, times: int) -> str | None:
    if not times:
        return None
    if call.id not in [other.id for other in before.failed]:
        return f"{call.id} runs a second time, and did not fail in a way that may pass"
    tool = subject.tools.get(call.name)
    if subject.config is None or tool is None:
        return None
    if not tool.repeatable:
        return f"{call.id} runs a second time, and {call.name!r} must not"
    if times > len(tool.retries):
        return f"{call.id} runs a further time after {times}, and the plan of {call.name!r} is {list(tool.retries)}"
    return None


def _waits(subject: EngineUnderTest, edge: Edge, failed: ToolCall) -> str | None:
    plans = [decision for decision in edge.transition.decisions if isinstance(decision, RetryPlanned)]
    tool = subject.tools.get(failed.name)
    if tool is None or not plans or plans[0].call_id != failed.id:
        return None
    ran = [] if edge.before.turn is None else [call.id for call in edge.before.turn.ran]
    plan, times = tool.retries, ran.count(failed.id)
    if times > len(plan) or plans[0].seconds != plan[times - 1]:
        return f"{failed.id} is to run again after {plans[0].seconds:g} seconds, and its tool's plan is {list(plan)}"
    timers = [decision.seconds for decision in edge.transition.decisions if isinstance(decision, StartTimer)]
    return None if timers == [plans[0].seconds] else f"{failed.id} is to run again, and the timers are {timers}"


def _call_of(effect: Effect) -> ToolCall | None:
    call: ToolCall | None = getattr(effect, "call", None)
    return call


def _together(subject: EngineUnderTest, history: History, one: ToolCall, other: ToolCall) -> bool:
    """Return whether two calls are in a contiguous run of calls that may run in parallel; True without a configuration.

    Workers may run in parallel: each has its own state and its own policy.
    """
    if subject.config is None:
        return True
    batch = batch_of(history, one)
    places = sorted(place for place, call in enumerate(batch) if call.id in (one.id, other.id))
    if len(places) != 2:
        return False
    between = [subject.tools.get(call.name) for call in batch[places[0] : places[1] + 1]]
    return all(tool is not None and (tool.runs_beside or is_worker_tool(tool)) for tool in between)


# ------------------------------------------------------------------------------------------------------ L7 cancellable


def check_cancelled_effects(subject: EngineUnderTest, edge: Edge) -> Found:
    """L7, for every step: cancelled effects were in flight."""
    if CancelEffect not in map(type, edge.transition.decisions):
        return None
    open_ = {effect.effect_id for effect in edge.before.open}
    for decision in edge.transition.decisions:
        if isinstance(decision, EFFECT_TYPES):
            open_.add(decision.effect_id)
        elif isinstance(decision, CancelEffect):
            if decision.effect_id not in open_:
                return Problem(f"{decision.effect_id} is cancelled and was not in flight")
            open_.discard(decision.effect_id)
    return None


# --------------------------------------------------------------------------------------------------------- L8 faithful


def check_input_encoding(subject: EngineUnderTest, edge: Edge) -> Found:
    """L8: the input survives JSON encoding and decoding unchanged."""
    return find_encoding_loss(edge.input, Input)


def check_decisions_encoding(subject: EngineUnderTest, edge: Edge) -> Found:
    """L8: the decisions survive JSON encoding and decoding unchanged."""
    losses = (find_encoding_loss(decision, Decision) for decision in edge.transition.decisions)
    return next(filter(None, losses), None)


def find_encoding_loss(value: Any, kind: Any) -> Found:
    """Return the difference or error of encoding a value as JSON and decoding it."""
    name = type(value).__name__
    try:
        back = read_back(value, kind)
    except UNREADABLE as error:
        return Problem(f"{name} can't be recorded: {type(error).__name__}: {error}")
    return None if back == value else Problem(f"{name} comes back from JSON changed: {contrast(value, back)}")


# ------------------------------------------------------------------------------------------------------------- L9 fits


def _is_users(message: Message) -> bool:
    return isinstance(message, UserMessage) and message.origin == "user"


def _is_shown(message: Message, whole: Message) -> bool:
    """Return whether ``message`` equals ``whole``, or is a tool result shortened to its two ends, or a reply with
    shorter arguments.
    """
    if message == whole:
        return True
    if isinstance(message, AssistantMessage) and isinstance(whole, AssistantMessage):
        same = evolve(message, calls=whole.calls, tokens=whole.tokens) == whole
        return same and len(message.calls) == len(whole.calls) and all(map(_is_cut, message.calls, whole.calls))
    if not isinstance(message, ToolMessage) or not isinstance(whole, ToolMessage):
        return False
    short, long, omitted = message.content, whole.content, message.left_out - whole.left_out
    head = _alike(short, long)
    both_ends = head + _alike(short[head:][::-1], long[head:][::-1]) >= len(long) - omitted
    same = evolve(message, content=long, tokens=whole.tokens, left_out=whole.left_out) == whole
    return both_ends and len(short) < len(long) and same


def _is_cut(call: ToolCall, whole: ToolCall) -> bool:
    """Return whether a call has the arguments of ``whole``, or shorter ones."""
    short = len(call.arguments_json) < len(whole.arguments_json)
    return call == whole or (short and evolve(call, arguments_json=whole.arguments_json) == whole)


def _alike(one: str, other: str) -> int:
    """Return the number of equal characters at the beginning."""
    pairs = zip(one, other, strict=False)
    return next((place for place, (left, right) in enumerate(pairs) if left != right), min(len(one), len(other)))


def check_request_size(subject: EngineUnderTest, edge: Edge) -> Found:
    """L9: each request fits the context, begins at a turn, and contains the system prompt and the newest user message
    whole.

    A request fits by its counts. By an estimate it fits, or is as small as possible. A request for a summary fits, and
    contains the system prompt; behind the conversation's prompt, it shows all that the summary replaces.
    """
    state = edge.transition.next_state
    for decision in edge.transition.decisions:
        if isinstance(decision, CallModel):
            request = decision.request
            problem = (_misfit_of_summary if decision.purpose == "summary" else _misfit)(subject, request, state)
            if problem:
                return Problem(f"the request of {decision.effect_id} {problem}")
    return None


def _misfit_of_summary(subject: EngineUnderTest, request: ModelRequest, state: AgentState) -> str | None:
    phase, shown = getattr(state, "phase", None), tuple(request.messages)
    if not isinstance(phase, Compacting) or not phase.shares_prefix:
        return _too_large(subject, request, state, "summary")
    window = state.window
    history = insert_briefing(state.history, state.briefing)
    front = tuple(before_window(history, window))
    if window.first > window.summary.messages:
        return "asks behind a prompt for a summary of messages that it lacks"
    if shown[: len(front)] != front:
        return f"does not begin with what the prompt shows before the window, but with {shown[:1]}"
    part, whole = shown[len(front) : -1], history[window.first : phase.until]
    if len(part) != len(whole) or not all(map(_is_shown, part, whole)):
        return "does not show the messages that the summary is to replace"
    if _is_users(shown[-1]) or shown[-1].id in {message.id for message in history}:
        return f"does not end with the instruction but with {shown[-1]}"
    return _too_large(subject, request, state, "prefix")


def _misfit(subject: EngineUnderTest, request: ModelRequest, state: AgentState) -> str | None:
    shown, history = tuple(request.messages), history_of(state)
    briefing = getattr(state, "briefing", None)
    if briefing is not None:
        history = insert_briefing(history, briefing)
    newest = next(filter(_is_users, reversed(history)), None)
    if newest is not None and newest not in shown:
        return f"lacks the newest user message or a part of it: {newest}"
    of: object = state
    window = of.window if isinstance(of, AgentState) else Window()
    if window.summary.text:
        if shown[:1] != (summary_message(window.summary),):
            return f"does not begin with the summary of what it leaves out, but with {shown[:1]}"
        shown = shown[1:]
    first = shown[0] if shown else None
    if not isinstance(first, UserMessage) or first.origin != "user":
        return f"does not begin at a turn but with {first}"
    if not isinstance(state, AgentState):
        return None  # a class of its own: what it keeps, and how much of it is left out, nobody can tell
    asked = window.summary.asked
    if asked is not None:
        asking = history[asked : end_of_asking(history, asked)]
        if shown[: len(asking)] != asking or not isinstance(history[window.first], AssistantMessage):
            return "shows a part of a turn without the message that began it, or not from a reply on"
        shown = shown[len(asking) :]
        gone = window.first - max(asked + len(asking), window.summary.messages)
        if window.summary.skipped != gone:
            return f"leaves out {gone} messages of the turn, and counts {window.summary.skipped}"
        if gone:
            if shown[:1] != (skipped_message(window.summary),):
                return f"does not say that it leaves out {window.summary.skipped} messages of the turn"
            shown = shown[1:]
    whole = history[max(len(history) - len(shown), 0) :]
    if len(shown) > len(history) or not all(map(_is_shown, shown, whole)):
        return "leaves out messages between those that it shows, or shows what is not in history"
    # Behind the newest reply; those of a turn that failed before its results were answered are as old as that turn.
    read = [place for place, one in enumerate(whole) if isinstance(one, AssistantMessage) or _is_users(one)]
    unread = read[-1] + 1 if read else 0
    if shown[unread:] != whole[unread:] and any(map(_is_users, shown[1:])):
        return "shortens results that the model has not answered, and shows an older turn"
    return _too_large(subject, request, state)


def _too_large(
    subject: EngineUnderTest,
    request: ModelRequest,
    state: AgentState,
    kind: Literal["turn", "prefix", "summary"] = "turn",
) -> str | None:
    """Return a problem with the request's system prompt or size.

    ``kind``: a request of the turn, one for a summary behind the turn's prompt, or one without tools.
    """
    if subject.config is None or not isinstance(state, AgentState):
        return None
    briefing = state.briefing
    if request.system != with_standing(subject.config.prompt_with(state.system), briefing):
        return f"has another system prompt than the configuration and the newest message: {request.system!r}"
    costs, fixed = state.costs, changed_size(subject.fixed, subject.config, state.system)
    bare, of_turn = kind == "summary", kind == "turn"
    slack = state.window.slack if of_turn else 0.0
    if costs is not None:
        fixed = (bare_tokens if bare else fixed_tokens)(costs, fixed) + briefing_size(briefing)
    elif bare:
        fixed = system_size(request.system)
    elif briefing is not None:  # what stands in front of the newest message counts with it
        fixed += briefing_size(evolve(briefing, passing=""))
    scale = (state.window.summary.scale if bare else 0.0) or state.window.scale
    size = (fixed + sum(map(message_size, request.messages)) - slack) * scale
    most = longest_prompt(subject.config) if of_turn and subject.config.edition > 1 else subject.budget
    if int(size) <= most or (costs is None and of_turn and _is_smallest(subject.config, state)):
        return None
    return f"has about {int(size)} tokens, and {most} fit"


def _is_smallest(config: AgentConfig, state: AgentState) -> bool:
    """Return whether a request may exceed its budget by an estimate, and nothing more can be left out of it."""
    if config.edition == 1:
        return False
    window = fit_or_smallest(state.history, state.window, 0.0, 0, note_for(config))
    return window.size >= state.window.size - 1e-6  # sums of floats, added in another order
