"""What is done about inputs that do not belong: the state stays equal, and one ``Rejected`` says why."""

from __future__ import annotations

from cognition.decisions import Rejected, RejectReason
from cognition.ids import EffectId, parse_effect_id
from cognition.inputs import Input
from cognition.phases import Closed
from cognition.state import AgentState
from cognition.transition import Transition


def reject(state: AgentState, event: Input, detail: str) -> Transition:
    """The transition that changes nothing."""
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
