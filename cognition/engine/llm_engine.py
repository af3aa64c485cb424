"""The central pure function: ``step(state, input) -> Transition``.

This module must not know of models, tools, files, clocks, threads or randomness. An interpreter carries out its
decisions, and their results arrive as later inputs.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from cognition.base.errors import CogstepError
from cognition.base.protocols import AttributeProtocolMeta
from cognition.context.window import visible_messages
from cognition.engine._table import CLOSED, HANDLERS, TABLE
from cognition.engine.draft import Draft, Setup
from cognition.engine.handlers.rejection import reject
from cognition.steps.config import AgentConfig
from cognition.steps.decisions import (
    AskApproval,
    AskUser,
    CallModel,
    CallTool,
    Effect,
    Recall,
    ReviewPlan,
    RunHook,
    SpawnWorker,
    StartTimer,
)
from cognition.steps.inputs import Input
from cognition.steps.phases import PHASE_TYPES, Closed, Compacting, Thinking, Waiting
from cognition.steps.requests import ModelRequest
from cognition.steps.state import AgentState
from cognition.steps.transition import Transition
from cognition.values.messages import ToolCall


@runtime_checkable
class CognitiveEngine(Protocol, metaclass=AttributeProtocolMeta):
    """The interface of an agent's logic: one pure function. Nothing else is required."""

    def step(self, state: AgentState, input: Input | None) -> Transition:
        """Return the state after an input, and the decisions to carry out now.

        ``input`` is None to ask for decisions without an input. Equal arguments give equal transitions, and neither
        argument changes.
        """
        ...  # a protocol's method has no body


class LLMEngine:
    """An agent on a language model with tools, as the transition table describes it.

    >>> from cognition import AgentConfig, AgentState, LLMEngine, UserSpoke
    >>> engine = LLMEngine(AgentConfig(system="Be brief."))
    >>> transition = engine.step(AgentState(), UserSpoke("Hello"))
    >>> [type(decision).__name__ for decision in transition.decisions]
    ['ContextAssembled', 'CallModel']
    """

    def __init__(self, config: AgentConfig | None = None) -> None:
        self.config: AgentConfig = config or AgentConfig()
        self._setup = Setup(self.config)
        if type(self).requires_approval is not LLMEngine.requires_approval:
            self._setup.asks = self.requires_approval

    def step(self, state: AgentState, input: Input | None) -> Transition:
        """See ``CognitiveEngine.step``.

        Raises:
            CogstepError: ``input`` is not of an input type. Every input gives a transition.
        """
        if input is None:
            return Transition(state)
        kind, phase = type(input), type(state.phase)
        handler = HANDLERS.get((kind, phase))
        if handler is not None:
            return handler(self._setup, state, input)
        row = TABLE.get(kind)
        if row is None or phase not in PHASE_TYPES:
            raise CogstepError(
                f"step takes a state and an input, not {phase.__name__} and {kind.__name__}; "
                "the inputs are in cognition.steps.inputs"
            )
        return reject(state, input, CLOSED if phase is Closed else row.otherwise)

    @property
    def effects(self) -> tuple[type[Effect], ...]:
        """The effects possible with this configuration. An interpreter must support all of them."""
        config = self.config
        kinds: list[type[Effect]] = [CallModel, CallTool, AskApproval, StartTimer]
        if "questions" in config.features:
            kinds.append(AskUser)
        if "plan" in config.features:
            kinds.append(ReviewPlan)
        if "memory" in config.features or config.recall_first:
            kinds.append(Recall)
        if "workers" in config.features:
            kinds.append(SpawnWorker)
        if config.hooks:
            kinds.append(RunHook)
        return tuple(kinds)

    def build_prompt(self, state: AgentState) -> ModelRequest:
        """Return the request of this state, or the request if the model were called now."""
        setup, phase = self._setup, state.phase
        if isinstance(phase, Compacting) and (asking := Draft(setup, state).request_of(phase)):
            return asking[0]
        purpose = phase.attempt.purpose if isinstance(phase, Thinking | Waiting) else "answer"
        note = setup.note_with(state.costs)
        window = Draft(setup, state).fitting_window() or state.window
        return setup.request(
            visible_messages(state.history, window, note),
            purpose,
            called=state.spent.called,
            returns=state.returns,
            system=state.system,
            briefing=state.briefing,
            most=Draft(setup, state).most_output(),
        )

    def requires_approval(self, call: ToolCall, state: AgentState | None = None) -> bool:
        """Return whether the user is asked before this call runs.

        A subclass may return True for more calls; the user is then asked about these too. An override can't remove a
        question, and has no effect on calls that policy denies; use rules for that. It must be as pure as ``step``.
        """
        tool = self._setup.tools.get(call.name)
        remembered = state.remembered if state is not None else ()
        mode = state.mode if state is not None else "default"
        return tool is not None and self.config.policy.judge(call, tool, remembered, mode).action == "ask"
