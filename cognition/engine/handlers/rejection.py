"""Reject inputs that do not fit: the state stays equal, and one ``Rejected`` gives the reason."""

from __future__ import annotations

from cognition.base.ids import EffectId, parse_effect_id
from cognition.steps.decisions import Rejected, RejectReason
from cognition.steps.inputs import Input
from cognition.steps.phases import Closed
from cognition.steps.state import AgentState
from cognition.steps.transition import Transition


def reject(state: AgentState, event: Input, detail: str) -> Transition:
    """Return the transition that changes nothing."""
    effect_id: EffectId | None = getattr(event, "effect_id", None)
    return Transition(state, (Rejected(_reason(state, effect_id), type(event).__name__, detail, effect_id),))


def _reason(state: AgentState, effect_id: EffectId | None) -> RejectReason:
    if isinstance(state.phase, Closed):
        return "closed"
    if effect_id is None:
        return "out_of_phase"
    counters = state.counters
    parsed = parse_effect_id(effect_id)
    decided = parsed is not None and parsed < (counters.turn, counters.step, counters.index)
    return "stale" if decided else "foreign"
