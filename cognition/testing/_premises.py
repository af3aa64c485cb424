"""The premises of the laws: what a search must have reached, so that a law's silence means that the law holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, get_args

from attrs import fields, frozen

from cognition.base.errors import ConfigError
from cognition.steps.config import Limits
from cognition.steps.decisions import (
    CallJudged,
    CallModel,
    CallTool,
    Compacted,
    ContextAssembled,
    LimitHit,
    TurnFinished,
)
from cognition.steps.inputs import ApprovalRefused, ModelFailed, UserSpoke
from cognition.steps.state import AgentState
from cognition.testing._engine_under_test import batch_of
from cognition.testing._world import Edge, answered_effect, granted_by, history_of, is_rejected
from cognition.values.messages import ToolMessage
from cognition.values.outcomes import Failed, LimitReached

Part = Literal["model", "tools", "policy", "limits", "context"]
"""A part that an engine may lack: it calls no model, runs no tools, judges no calls, has no limits, or keeps requests
in no size.
"""
PARTS: tuple[Part, ...] = get_args(Part)

BUDGETS = frozenset(field.name for field in fields(Limits))
"""The limits that a turn adds up."""

Reached = Callable[[Edge], bool]


@frozen
class Premise:
    """Something that a search must have reached before it says anything about a law."""

    text: str
    """A sentence in the past tense."""
    reached: Reached
    """Whether a step reached it. Asked of accepted inputs only, or of rejected ones only."""
    needs: tuple[Part, ...] = ()
    """Parts of an engine without which nothing can reach it."""
    rejected: bool = False
    """Whether it is about rejected inputs."""


def _spoke(edge: Edge) -> bool:
    return type(edge.input) is UserSpoke


def _finished(edge: Edge) -> bool:
    return any(type(decision) is TurnFinished for decision in edge.transition.decisions)


def _model_answered(edge: Edge) -> bool:
    return isinstance(answered_effect(edge.before, edge.input), CallModel)


def _tool_answered(edge: Edge) -> bool:
    return isinstance(answered_effect(edge.before, edge.input), CallTool)


def _model_called(edge: Edge) -> bool:
    return any(type(decision) is CallModel for decision in edge.transition.decisions)


def _model_in_flight(edge: Edge) -> bool:
    return edge.after.in_turn and any(type(effect) is CallModel for effect in edge.after.open)


def _tool_in_flight(edge: Edge) -> bool:
    return edge.after.in_turn and any(type(effect) is CallTool for effect in edge.after.open)


def _any(_edge: Edge) -> bool:
    return True


def _while_a_tool_ran(edge: Edge) -> bool:
    return any(type(effect) is CallTool for effect in edge.before.open)


def _model_called_with_result(edge: Edge) -> bool:
    return any(
        type(decision) is CallModel and any(isinstance(one, ToolMessage) for one in decision.request.messages)
        for decision in edge.transition.decisions
    )


def _runs(edge: Edge) -> list[CallTool]:
    """Return the calls that a step runs; empty if the state has its own class, which L4 and L5 do not read."""
    state: object = edge.transition.next_state
    if not isinstance(state, AgentState):
        return []
    return [decision for decision in edge.transition.decisions if isinstance(decision, CallTool)]


def _ran(edge: Edge) -> bool:
    return bool(_runs(edge))


def _ran_of_several(edge: Edge) -> bool:
    history = history_of(edge.transition.next_state)
    return any(len(batch_of(history, one.call)) > 1 for one in _runs(edge))


def _ran_approved(edge: Edge) -> bool:
    runs = _runs(edge)
    granted = granted_by(edge.before, edge.input) if runs else ()
    return any(one.call in granted for one in runs)


def _refused(edge: Edge) -> bool:
    if isinstance(edge.input, ApprovalRefused):
        return True
    if any(isinstance(one, CallJudged) and one.action == "deny" for one in edge.transition.decisions):
        return True
    new = history_of(edge.transition.next_state)[len(history_of(edge.before.state)) :]
    return any(isinstance(one, ToolMessage) and one.status == "refused" for one in new)


def _limited(edge: Edge) -> bool:
    for one in edge.transition.decisions:
        reached = one.outcome if isinstance(one, TurnFinished) else one
        if isinstance(reached, LimitHit | LimitReached) and reached.limit in BUDGETS:
            return True
    return False


def _crowded(edge: Edge) -> bool:
    history = history_of(edge.transition.next_state)
    for one in edge.transition.decisions:
        match one:
            case ContextAssembled(dropped=dropped, shortened=shortened) if dropped or shortened:
                return True
            case CallModel(request=request) if len(request.messages) < len(history):
                return True
            case Compacted():
                return True
            case TurnFinished(outcome=Failed(kind="context_overflow")) if not isinstance(edge.input, ModelFailed):
                return True
            case _:
                pass
    return False


MESSAGE = Premise("a message was accepted", _spoke)
REPLY = Premise("a model call was answered", _model_answered, ("model",))
RESULT = Premise("a running tool was answered", _tool_answered, ("tools",))
RESULT_SENT = Premise("the model was called with the result of a call", _model_called_with_result, ("model", "tools"))

PREMISES: Mapping[str, tuple[Premise, ...]] = {
    "L1": (MESSAGE, REPLY, RESULT),
    "L2": (
        MESSAGE,
        Premise("an input that did not belong was rejected", _any, rejected=True),
        Premise("an input that did not belong was rejected while a tool ran", _while_a_tool_ran, ("tools",), True),
    ),
    "L3": (RESULT_SENT,),
    "L4": (Premise("a call ran that was not the only one of its reply", _ran_of_several, ("tools",)),),
    "L5": (
        Premise("a call ran", _ran, ("tools",)),
        Premise("a call ran that the user had approved", _ran_approved, ("tools", "policy")),
        Premise("a call was denied or refused", _refused, ("tools", "policy")),
    ),
    "L6": (
        Premise("a turn ended", _finished),
        RESULT,
        Premise("a limit was reached", _limited, ("model", "limits")),
    ),
    "L7": (
        Premise("a cancellation arrived while the model was called", _model_in_flight, ("model",)),
        Premise("a cancellation arrived while a tool ran", _tool_in_flight, ("tools",)),
    ),
    "L8": (MESSAGE, REPLY, RESULT),
    "L9": (
        Premise("the model was called", _model_called, ("model",)),
        RESULT_SENT,
        Premise("the conversation was too long for a request", _crowded, ("model", "context")),
    ),
    "L10": (
        MESSAGE,
        Premise("benign answers were given from a model call on", _model_in_flight, ("model",)),
        Premise("benign answers were given from a running tool on", _tool_in_flight, ("tools",)),
    ),
}
"""What a search must reach, for each law. L7 and L10 check every situation: they cancel and answer in each."""


def checked_without(without: Iterable[str]) -> frozenset[str]:
    """Return the parts and laws that an engine does not have.

    Raises:
        ConfigError: a word is neither.
    """
    words = (without,) if isinstance(without, str) else tuple(without)
    for word in words:
        if word not in PARTS and word not in PREMISES:
            known = ", ".join(map(repr, PARTS))
            raise ConfigError(f"without={word!r}: an engine may lack {known}, or name a law (L1 to L10)")
    return frozenset(words)


class Coverage:
    """Counts how often the steps of a search reach each of some premises."""

    def __init__(self, premises: Sequence[Premise], without: frozenset[str] = frozenset()) -> None:
        self.premises, self.without = tuple(premises), without
        self.counts = [0] * len(self.premises)
        self._accepted = [(place, one) for place, one in enumerate(self.premises) if not one.rejected]
        self._rejected = [(place, one) for place, one in enumerate(self.premises) if one.rejected]

    def see(self, edge: Edge) -> None:
        """Count a step.

        Raises:
            ConfigError: it uses a part that the engine is said to lack.
        """
        if edge.error is not None:
            return
        rejected = is_rejected(edge.transition)
        for place, premise in self._rejected if rejected else self._accepted:
            if premise.reached(edge):
                self.counts[place] += 1
        if self.without and not rejected:
            self._check_lacking(edge)

    def _check_lacking(self, edge: Edge) -> None:
        for decision in edge.transition.decisions:
            if isinstance(decision, CallTool) and "tools" in self.without:
                raise ConfigError(f"without='tools', and the engine runs {decision.call.name!r}: leave out that word")
            if isinstance(decision, CallModel) and "model" in self.without:
                raise ConfigError("without='model', and the engine calls a model: leave out that word")

    def add(self, counts: Sequence[int]) -> None:
        self.counts = [one + more for one, more in zip(self.counts, counts, strict=True)]
