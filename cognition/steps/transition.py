"""The return value of an engine's step."""

from __future__ import annotations

from attrs import frozen

from cognition.steps.decisions import Decision
from cognition.steps.state import AgentState


@frozen
class Transition:
    """The state after an input, and the decisions to carry out, in order."""

    next_state: AgentState
    decisions: tuple[Decision, ...] = ()
