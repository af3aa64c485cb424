"""``/context``: show the model's last request in a chat."""

from __future__ import annotations

from cognition import AgentState, CallModel, CancelEffect, ContextAssembled, ContextChosen, LLMEngine
from interpreters.agents.agent import Agent
from interpreters.cli.reports.context_report import Line, request_lines
from interpreters.observing.events import (
    Event,
    ModelCalled,
    ModelFailed,
    ModelInterrupted,
    ModelReplied,
    UserSpoke,
)
from interpreters.recording.context_report import report_of
from interpreters.recording.recorded_requests import OPEN, RecordedRequest, ending_of


class LastRequest:
    """An observer that remembers an agent's newest request, as the agent's state at that moment.

    Call it synchronously (``Inline``), since it reads the agent's state during the event.

    Attributes:
        agent: the agent, once it exists.
    """

    def __init__(self) -> None:
        self.agent: Agent | None = None
        self._last: tuple[ModelCalled, AgentState, ContextAssembled | None] | None = None
        self._assembled: ContextAssembled | None = None
        """For the request that is about to be made."""
        self._chosen: ContextChosen | None = None
        self._ending = OPEN
        self._count = 0

    def __call__(self, event: Event) -> None:
        agent = self.agent
        if agent is None or event.session != agent.session:  # a worker has a context of its own
            return
        match event.value:
            case UserSpoke():
                self._chosen = None
            case ContextChosen() as chosen:
                self._chosen = chosen
            case ContextAssembled() as assembled:
                self._assembled = assembled
            case ModelCalled() as called:
                self._last, self._ending = (called, agent.state, self._assembled), OPEN
                self._assembled = None
                self._count += 1
            case ModelReplied() | ModelFailed() | ModelInterrupted() | CancelEffect() as answer:
                if self._last is not None:
                    self._ending = ending_of(self._last[0].effect_id, answer, self._ending)
            case _:
                pass

    def lines(self) -> list[Line]:
        """Return the newest request as lines, or one line if there is no request yet."""
        agent = self.agent
        if agent is None or self._last is None:
            return [("the model was not asked yet", "dim")]
        called, state, shown = self._last
        call = CallModel(called.effect_id, called.purpose, LLMEngine(agent.config).build_prompt(state))
        request = RecordedRequest(self._count, 0, 0.0, call, state, shown, self._chosen, same=True, ending=self._ending)
        return list(request_lines(report_of(request, agent.config)))
