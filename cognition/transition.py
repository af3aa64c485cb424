"""The value that one step of an engine gives."""

from __future__ import annotations

from attrs import frozen

from cognition.decisions import Decision
from cognition.state import AgentState


@frozen
class Transition:
    """The state after an input and what is to be done, in order."""

    next_state: AgentState
    decisions: tuple[Decision, ...] = ()
