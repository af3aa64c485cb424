"""Telling observers what happens: from transitions and from the stream to events."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from cognition import (
    AgentState,
    ApprovalGiven,
    ApprovalRefused,
    AskApproval,
    AskUser,
    CallModel,
    CallTool,
    CancelEffect,
    ConfigError,
    ContextAssembled,
    Decision,
    EffectId,
    HookReturned,
    Input,
    LimitHit,
    MemoryRecalled,
    ModeSet,
    PlanChanged,
    PlanReviewed,
    QuestionAnswered,
    Recall,
    Rejected,
    Remember,
    RetryPlanned,
    ReviewPlan,
    RunHook,
    SpawnWorker,
    TasksChanged,
    Thinking,
    ToolCall,
    ToolFailed,
    ToolMessage,
    ToolReturned,
    Transition,
    TurnFinished,
    Usage,
    UserSpoke,
    Waiting,
    WorkerFailed,
    WorkerFinished,
    WorkerStalled,
)
from cognition.decisions import EFFECT_TYPES, Effect
from interpreters import events
from interpreters.crew import worker_session
from interpreters.delivery import PATIENCE, Delivery, on_threads, wait_for
from interpreters.events import Event, Inline, Observer
from interpreters.tools import is_async
from interpreters.workers import Workers
from runtime.constrained.nodes import Weakened

if TYPE_CHECKING:
    from interpreters.delivery_tasks import Tasks

LOG = logging.getLogger("cogstep")
NONE: frozenset[str] = frozenset()


class Observers:
    """The observers of one session, and where it stands. Told by the thread or task that drives the session.

    An observer that raises, or falls too far behind, is dropped with a warning, to the others and to the log: it never
    harms the run. ``delivery`` says how observers are called without waiting for them.

    Args:
        observers: who is told.
        session: its name, for the tags.
        shown: whether somebody may have read what was told; None: if there is an observer. False is for observers that
            only watch.
        threads: where observers are called; None for threads of their own.
        weakened: tools with what of their schemas calls are not held to, which is told first.
        warnings: what else is told first; it goes to the log at once.
        tasks: makes what calls ``async def`` observers, once there is one; None where there is no event loop.

    Raises:
        ConfigError: an observer is an ``async def``, and there is no event loop.
    """

    def __init__(
        self,
        observers: Iterable[Observer],
        session: str,
        *,
        shown: bool | None = None,
        weakened: Mapping[str, tuple[Weakened, ...]] | None = None,
        warnings: tuple[str, ...] = (),
        threads: Workers | None = None,
        tasks: Callable[[], Tasks] | None = None,
    ) -> None:
        self._threads = threads
        self._own_threads: Workers | None = None
        self._new_tasks = tasks
        self.tasks: Tasks | None = None
        """Calls the observers that are ``async def``; None while there was none."""
        self.deliveries: tuple[Delivery, ...] = ()
        """To the observers that nobody waits for."""
        self._observers: tuple[tuple[Observer, Callable[[Event], object]], ...] = tuple(
            (observer, self._reach(observer)) for observer in observers
        )
        self._shown = shown
        self._weakened = dict(weakened or {})
        """What is yet to be told; and the warnings that are."""
        self._untold = warnings
        for message in warnings:
            LOG.warning("%s", message)
        self._session = session
        self._sequence = 0
        self._place = (0, 0, 1)
        self._step = (0, 0)
        """The newest step that was told of."""
        self._open: dict[EffectId, tuple[Effect, float]] = {}
        """Effects under way, and since when."""
        self._reported = NONE
        """Calls of this turn whose result was told."""
        self._warned: set[str] = set()
        """What every reply may say again, and was told."""

    def _reach(self, observer: Observer) -> Callable[[Event], object]:
        """What is called to tell an observer of an event."""
        if isinstance(observer, Inline):
            return observer.observer
        if is_async(observer):
            if self._new_tasks is None:
                raise ConfigError("an observer that is an async function needs an AsyncAgent")
            if self.tasks is None:
                self.tasks = self._new_tasks()
            delivery = Delivery(observer, self.tasks.start)
        else:
            if self._threads is None:
                self._threads = self._own_threads = Workers()
            delivery = Delivery(observer, on_threads(self._threads))
        self.deliveries += (delivery,)
        return delivery.put

    def __bool__(self) -> bool:
        """Whether anybody listens; whoever makes events in a loop asks first."""
        return bool(self._observers)

    def add(self, observer: Observer) -> None:
        """Tell one more, from the next event on."""
        self._observers = (*self._observers, (observer, self._reach(observer)))

    def remove(self, observer: Observer) -> None:
        """Tell one no longer."""
        self._observers = tuple(other for other in self._observers if other[0] != observer)
        self.deliveries = tuple(other for other in self.deliveries if other.observer != observer)

    def wait(self) -> None:
        """Until the observers have seen everything, or the patience with them is over."""
        if self.deliveries:
            wait_for(self.deliveries)

    def close(self) -> None:
        """The session ends. What an observer has not seen by now, it may never see."""
        self._collect()
        if self._own_threads is not None:
            hanging = any(delivery.is_late for delivery in self.deliveries)
            self._own_threads.close(0.0 if hanging else PATIENCE)
        elif self._threads is not None:
            self._threads.dismiss()

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
        self._collect()
        for observer, tell in self._observers:
            try:
                tell(event)
            except Exception as error:  # an observer's fault stays with the observer
                self._drop(observer, event, error)

    def warn_once(self, messages: Iterable[str]) -> None:
        """What each reply of a session may say again is told with the first."""
        for message in messages:
            if message not in self._warned:
                self._warned.add(message)
                self.warn(message)

    def warn(self, message: str) -> None:
        LOG.warning("%s", message)
        self.emit(events.WarningRaised, message=message)

    def _collect(self) -> None:
        """Drop the observers that failed elsewhere meanwhile."""
        for delivery in self.deliveries:
            if delivery.failure is not None:
                self._drop(delivery.observer, *delivery.failure)

    def _drop(self, observer: Observer, event: Event, error: BaseException) -> None:
        self._observers = tuple(other for other in self._observers if other[0] is not observer)
        self.deliveries = tuple(other for other in self.deliveries if other.observer is not observer)
        LOG.debug("observer %r failed", observer, exc_info=error)
        self.warn(
            f"an observer was dropped because it failed on {type(event).__name__}: {type(error).__name__}: {error}"
        )

    def take_up(self, state: AgentState, effects: Iterable[Effect]) -> None:
        """A resumed session begins here, with these effects under way; nothing is told of what was before."""
        self._move(state)
        self._step = self._place[:2]
        self._open = {effect.effect_id: (effect, 0.0) for effect in effects}

    def transition(self, before: AgentState, event: Input, transition: Transition) -> None:
        """Tell of a step: first what the input settled, then what was decided."""
        if not self._observers:
            return
        while self._weakened:
            tool = next(iter(self._weakened))
            self.emit(events.ToolWeakened, tool=tool, keywords=self._weakened.pop(tool))
        while self._untold:
            message, *rest = self._untold
            self._untold = tuple(rest)
            self.emit(events.WarningRaised, message=message)
        after, decisions = transition.next_state, transition.decisions
        if decisions and isinstance(decisions[0], Rejected):  # it changed nothing, and what is open stays open
            return
        identity: EffectId | None = getattr(event, "effect_id", None)
        effect, started = (None, 0.0) if identity is None else self._open.pop(identity, (None, 0.0))
        seconds = max(event.at - started, 0.0) if started else 0.0
        if effect is not None:
            self._answered(effect, event, seconds)
        self._finished_unrun(before, after, event.at)
        self._move(after)
        if isinstance(event, UserSpoke):
            self.emit(events.TurnStarted, text=event.text)
        used = after.spent.usage
        if used != before.spent.usage and used != Usage():
            self.emit(events.UsageUpdated, used=used)
        for decision in decisions:
            if isinstance(decision, EFFECT_TYPES):
                self._open[decision.effect_id] = (decision, event.at)
            self._decision(before, after, decision, event.at)

    def _move(self, state: AgentState) -> None:
        phase = state.phase
        attempt = phase.attempt.number if isinstance(phase, Thinking | Waiting) else self._place[2]
        self._place = (state.counters.turn, state.counters.step, attempt)

    def _answered(self, effect: Effect, event: Input, seconds: float) -> None:
        """What an input says of the effect that it answers."""
        match effect, event:
            case CallTool(call=call), ToolReturned(content=content):
                self._finished(call, "ok", content, seconds)
            case CallTool(call=call), ToolFailed(message=content):
                self._finished(call, "error", content, seconds)
            case AskApproval(call=call), ApprovalGiven(always=always):
                self.emit(events.ApprovalAnswered, call=call, approved=True, reason="", always=always)
            case AskApproval(call=call), ApprovalRefused(reason=reason, always=always):
                self.emit(events.ApprovalAnswered, call=call, approved=False, reason=reason, always=always)
            case AskUser(questions=questions), QuestionAnswered(answers=answers):
                self.emit(events.QuestionsAnswered, questions=questions, answers=answers)
            case ReviewPlan(plan=plan), PlanReviewed(approved=approved, feedback=feedback):
                self.emit(events.PlanReviewed, plan=plan, approved=approved, feedback=feedback)
            case RunHook(point=point, call=hooked), HookReturned(verdict=verdict, reason=reason):
                self.emit(
                    events.HookFinished, point=point, call=hooked, verdict=verdict, reason=reason, seconds=seconds
                )
            case Recall(query=query), MemoryRecalled(items=items):
                self.emit(events.MemoryRecalled, query=query, items=items, seconds=seconds)
            case SpawnWorker(), WorkerFinished(text=text, usage=usage):
                self._worker_finished(effect, "finished", text, usage, seconds)
            case SpawnWorker(), WorkerFailed(message=text, usage=usage):
                self._worker_finished(effect, "failed", text, usage, seconds)
            case SpawnWorker(), WorkerStalled(message=text, usage=usage):
                self._worker_finished(effect, "stalled", text, usage, seconds)
            case _:  # of the model's reply the stream has told; a timer's end shows in what follows
                pass

    def _finished(self, call: ToolCall, status: str, content: str, seconds: float) -> None:
        self._reported |= {call.id}
        self.emit(events.ToolFinished, call_id=call.id, name=call.name, status=status, content=content, seconds=seconds)

    def _worker_finished(self, effect: SpawnWorker, status: str, text: str, usage: Usage, seconds: float) -> None:
        self.emit(
            events.WorkerFinished,
            name=effect.worker.name,
            worker_session=worker_session(self._session, effect),
            status=status,
            text=text,
            usage=usage,
            seconds=seconds,
        )

    def _finished_unrun(self, before: AgentState, after: AgentState, now: float) -> None:
        """Calls that got their result without a tool's answer: refused, cancelled, unknown, over a limit."""
        for position in range(len(before.history), len(after.history)):
            message = after.history[position]
            if isinstance(message, ToolMessage) and message.call_id not in self._reported:
                begun = [
                    started
                    for effect, started in self._open.values()
                    if isinstance(effect, CallTool) and effect.call.id == message.call_id
                ]
                self.emit(
                    events.ToolFinished,
                    call_id=message.call_id,
                    name=message.name,
                    status=message.status,
                    content=message.content.removeprefix("Error: "),
                    seconds=now - begun[0] if begun else 0.0,
                )

    def _decision(self, before: AgentState, after: AgentState, decision: Decision, now: float) -> None:
        match decision:
            case ContextAssembled(dropped=dropped, tokens=tokens, budget=budget):
                if dropped > before.window.first:
                    kind = events.ContextCompacted if _overflowed(before, after) else events.ContextTrimmed
                    self.emit(kind, dropped=dropped, tokens=tokens, budget=budget)
            case CallModel(purpose=purpose, request=request):
                if self._step != self._place[:2]:
                    self._step = self._place[:2]
                    self.emit(events.StepStarted)
                self.emit(events.ModelCallStarted, purpose=purpose, messages=len(request.messages))
            case CallTool(call=call):
                self.emit(events.ToolStarted, call=call)
            case AskApproval(call=call, reason=reason):
                self.emit(events.ApprovalAsked, call=call, reason=reason)
            case AskUser(questions=questions):
                self.emit(events.QuestionsAsked, questions=questions)
            case ReviewPlan(plan=plan):
                self.emit(events.PlanProposed, plan=plan)
            case RunHook(point=point, call=hooked):
                self.emit(events.HookStarted, point=point, call=hooked)
            case Recall(query=query):
                self.emit(events.MemorySearched, query=query)
            case SpawnWorker(worker=worker):
                self.emit(events.WorkerStarted, worker=worker, worker_session=worker_session(self._session, decision))
            case CancelEffect(effect_id=identity):
                effect, started = self._open.pop(identity, (None, now))
                if isinstance(effect, SpawnWorker):
                    self._worker_finished(effect, "cancelled", "", Usage(), now - started)
            case RetryPlanned(kind=failure, message=message, attempt=attempt, seconds=seconds):
                self.emit(events.RetryPlanned, kind=failure, message=message, number=attempt, seconds=seconds)
            case LimitHit(limit=limit, detail=detail):
                self.emit(events.LimitHit, limit=limit, detail=detail)
            case Remember(text=text):
                self.emit(events.NoteTaken, text=text)
            case TasksChanged(tasks=tasks):
                self.emit(events.TasksChanged, tasks=tasks)
            case PlanChanged(plan=changed):
                self.emit(events.PlanChanged, plan=changed)
            case ModeSet(mode=mode):
                self.emit(events.ModeChanged, mode=mode)
            case TurnFinished(outcome=outcome, usage=usage):
                self._open.clear()
                self._reported = NONE
                self.emit(events.TurnFinished, outcome=outcome, usage=usage)
            case _:  # a timer, and the end of the session, show in what comes before and after
                pass


def _overflowed(before: AgentState, after: AgentState) -> bool:
    """Whether the model itself had found the request too long."""
    return (
        isinstance(after.phase, Thinking)
        and after.phase.attempt.trimmed
        and not (isinstance(before.phase, Thinking | Waiting) and before.phase.attempt.trimmed)
    )
