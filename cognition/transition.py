"""The return value of an engine's step."""

from __future__ import annotations

from attrs import frozen

from cognition.decisions import Decision
from cognition.state import AgentState


@frozen
class Transition:
    """The state after an input, and the decisions to carry out, in order."""

    next_state: AgentState
    decisions: tuple[Decision, ...] = ()
