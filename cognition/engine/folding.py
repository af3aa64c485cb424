"""The state that a sequence of inputs leads to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cognition.engine.llm_engine import CognitiveEngine
from cognition.steps.inputs import Input
from cognition.steps.state import AgentState
from cognition.steps.transition import Transition


def transitions(
    engine: CognitiveEngine, inputs: Iterable[Input], start: AgentState | None = None
) -> Iterator[Transition]:
    """Yield the transition of each input."""
    state = AgentState() if start is None else start
    for event in inputs:
        transition = engine.step(state, event)
        yield transition
        state = transition.next_state


def fold(engine: CognitiveEngine, inputs: Iterable[Input], start: AgentState | None = None) -> AgentState:
    """Return the state after all inputs, without calling a model or a tool."""
    state = AgentState() if start is None else start
    for transition in transitions(engine, inputs, state):
        state = transition.next_state
    return state
