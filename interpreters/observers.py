"""Telling observers what happens: from transitions and from the stream to events."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from cognition import (
    AgentState,
    AskApproval,
    CallModel,
    CallTool,
    ContextAssembled,
    Decision,
    EffectId,
    Input,
    LimitHit,
    Rejected,
    RetryPlanned,
    Thinking,
    ToolCall,
    ToolFailed,
    ToolMessage,
    ToolReturned,
    Transition,
    TurnFinished,
    UserSpoke,
    Waiting,
)
from interpreters import events
from interpreters.events import Event, Observer

LOG = logging.getLogger("cogstep")


class Observers:
    """The observers of one session. Called on the thread that drives the session, so they need no locks.

    An observer that raises is dropped with a warning, to the others and to the log: it never harms the run.
    """

    def __init__(self, observers: Iterable[Observer], session: str, *, shown: bool | None = None) -> None:
        self._observers = tuple(observers)
        self._shown = shown
        self._session = session
        self._sequence = 0
        self._place = (0, 0, 1)
        self._running: dict[EffectId, tuple[ToolCall, float]] = {}
        self._reported: set[str] = set()

    def __bool__(self) -> bool:
        """Whether anybody listens; whoever makes events in a loop asks first."""
        return bool(self._observers)

    def add(self, observer: Observer) -> None:
        """Tell one more, from the next event on."""
        self._observers = (*self._observers, observer)

    def remove(self, observer: Observer) -> None:
        """Tell one no longer."""
        self._observers = tuple(other for other in self._observers if other != observer)

    @property
    def shown(self) -> bool:
        """Whether somebody may have read what was told; ``shown=False`` is for observers that only watch."""
        return bool(self._observers) if self._shown is None else self._shown

    def emit(self, kind: type[Event], /, **fields: Any) -> None:
        """Tell everybody of one event, tagged with where the session stands."""
        if not self._observers:
            return
        turn, step, attempt = self._place
        self._sequence += 1
        self.forward(
            kind(session=self._session, turn=turn, step=step, attempt=attempt, sequence=self._sequence, **fields)
        )

    def forward(self, event: Event) -> None:
        """Tell everybody of an event as it is: a worker's, with the tags of its own session."""
        for observer in self._observers:
            try:
                observer(event)
            except Exception as error:  # an observer's fault stays with the observer
                self._drop(observer, event, error)

    def warn(self, message: str) -> None:
        LOG.warning("%s", message)
        self.emit(events.WarningRaised, message=message)

    def _drop(self, observer: Observer, event: Event, error: Exception) -> None:
        self._observers = tuple(other for other in self._observers if other is not observer)
        LOG.debug("observer %r failed", observer, exc_info=error)
        self.warn(
            f"an observer was dropped because it failed on {type(event).__name__}: {type(error).__name__}: {error}"
        )

    def transition(self, before: AgentState, event: Input, transition: Transition) -> None:
        """Tell of a step: first what the input settled, then what was decided."""
        if not self._observers:
            return
        if isinstance(event, ToolReturned):
            self._finished(event.effect_id, event.at, "ok", event.content)
        elif isinstance(event, ToolFailed):
            self._finished(event.effect_id, event.at, "error", event.message)
        self._finished_unrun(before, transition.next_state, event.at)
        self._move(transition.next_state)
        if isinstance(event, UserSpoke) and not any(isinstance(d, Rejected) for d in transition.decisions):
            self.emit(events.TurnStarted, text=event.text)
        for decision in transition.decisions:
            self._decision(before, decision, event.at)

    def _move(self, state: AgentState) -> None:
        phase = state.phase
        attempt = phase.attempt.number if isinstance(phase, Thinking | Waiting) else self._place[2]
        self._place = (state.counters.turn, state.counters.step, attempt)

    def _finished(self, effect_id: EffectId, now: float, status: str, content: str) -> None:
        running = self._running.pop(effect_id, None)
        if running is None:  # a late result of a call that was cancelled: it has been told already
            return
        call, started = running
        self._reported.add(call.id)
        self.emit(
            events.ToolFinished, call_id=call.id, name=call.name, status=status, content=content, seconds=now - started
        )

    def _finished_unrun(self, before: AgentState, after: AgentState, now: float) -> None:
        """Calls that got their result without a tool's answer: refused, cancelled, unknown, over a limit."""
        for position in range(len(before.history), len(after.history)):
            message = after.history[position]
            if isinstance(message, ToolMessage) and message.call_id not in self._reported:
                started = [begun for call, begun in self._running.values() if call.id == message.call_id]
                self.emit(
                    events.ToolFinished,
                    call_id=message.call_id,
                    name=message.name,
                    status=message.status,
                    content=message.content.removeprefix("Error: "),
                    seconds=now - started[0] if started else 0.0,
                )

    def _decision(self, before: AgentState, decision: Decision, now: float) -> None:
        match decision:
            case ContextAssembled(dropped=dropped, tokens=tokens, budget=budget):
                if dropped > before.window.first:
                    self.emit(events.ContextTrimmed, dropped=dropped, tokens=tokens, budget=budget)
            case CallModel(purpose=purpose, request=request):
                self.emit(events.ModelCallStarted, purpose=purpose, messages=len(request.messages))
            case CallTool(effect_id=effect_id, call=call):
                self._running[effect_id] = (call, now)
                self.emit(events.ToolStarted, call=call)
            case AskApproval(call=call, reason=reason):
                self.emit(events.ApprovalAsked, call=call, reason=reason)
            case RetryPlanned(kind=kind, message=message, attempt=attempt, seconds=seconds):
                self.emit(events.RetryPlanned, kind=kind, message=message, number=attempt, seconds=seconds)
            case LimitHit(limit=limit, detail=detail):
                self.emit(events.LimitHit, limit=limit, detail=detail)
            case TurnFinished(outcome=outcome, usage=usage):
                self._running.clear()
                self._reported.clear()
                self.emit(events.TurnFinished, outcome=outcome, usage=usage)
            case _:  # the others are for interpreters, not for people
                pass
