"""Telling observers what happens: from transitions and from the stream to events."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from cognition import (
    AgentState,
    AssistantMessage,
    Compacting,
    ConfigError,
    EffectId,
    Input,
    Message,
    Thinking,
    ToolFailed,
    ToolMessage,
    Transition,
    UserMessage,
    Waiting,
)
from cognition.shown import LONGEST_LINE, shown_name
from interpreters.observing import events
from interpreters.observing.delivery import PATIENCE, Delivery, on_threads, wait_for
from interpreters.observing.events import Event, Inline, Observer, Told
from interpreters.observing.telling import told
from interpreters.threads.pool import ThreadPool
from interpreters.tools.tool import is_async
from runtime.constrained.nodes import Weakened

if TYPE_CHECKING:
    from interpreters.observing.delivery_tasks import Tasks

LOG = logging.getLogger("cogstep")
MESSAGES = (UserMessage, AssistantMessage, ToolMessage)

Reveal = Callable[[Message], Message]
"""Gives a message with the real texts where the recording has placeholders for secrets."""


class Observers:
    """The observers of one session, and where it stands. Told by the thread or task that drives the session.

    An observer that raises, or falls too far behind, is dropped with a warning, to the others and to the log: it never
    harms the run. ``delivery`` says how observers are called without waiting for them.

    Args:
        observers: are told of each event.
        session: the session's name, for the events.
        shown: whether a person may have read the events. None stands for whether there is an observer; False is for
            observers that only watch.
        threads: where observers are called; None for threads of their own.
        weakened: the tools to whose schemas calls are not wholly held, with the parts left out. It is told first.
        warnings: are told next, and go to the log at once.
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
        threads: ThreadPool | None = None,
        tasks: Callable[[], Tasks] | None = None,
    ) -> None:
        self._threads = threads
        self._own_threads: ThreadPool | None = None
        self._new_tasks = tasks
        self.tasks: Tasks | None = None
        """Calls the observers that are ``async def``; None until the first one comes."""
        self.deliveries: tuple[Delivery, ...] = ()
        """The queues before the observers that nobody waits for."""
        self._observers: tuple[tuple[Observer, Callable[[Event], object]], ...] = tuple(
            (observer, self._reach(observer)) for observer in observers
        )
        self._shown = shown
        self._weakened = dict(weakened or {})
        """The weakened tools that observers have yet to be told of; ``_untold`` are the warnings."""
        self._untold = warnings
        for message in warnings:
            LOG.warning("%s", shown_name(message, LONGEST_LINE))
        self._session = session
        self._sequence = 0
        self._place = (0, 0, 1)
        self._causes: dict[EffectId, BaseException] = {}
        """What tools raised whose failure is about to be told."""
        self._warned: set[str] = set()
        """Warnings of replies that observers were told of already."""

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
                self._threads = self._own_threads = ThreadPool()
            delivery = Delivery(observer, on_threads(self._threads))
        self.deliveries += (delivery,)
        return delivery.put

    def __bool__(self) -> bool:
        """Whether anybody listens; whoever makes events in a loop asks first."""
        return bool(self._observers)

    def add(self, observer: Observer) -> None:
        """Tell one more observer, from the next event on."""
        self._observers = (*self._observers, (observer, self._reach(observer)))

    def remove(self, observer: Observer) -> None:
        """Tell an observer of no more events."""
        self._observers = tuple(other for other in self._observers if other[0] != observer)
        self.deliveries = tuple(other for other in self.deliveries if other.observer != observer)

    def wait(self) -> None:
        """Wait until the observers have been told everything, ``PATIENCE`` seconds at most."""
        if self.deliveries:
            wait_for(self.deliveries)

    def close(self) -> None:
        """End with the session. What an observer has not seen by now, it may never see."""
        self._collect()
        for delivery in self.deliveries:
            delivery.dismiss()
        if self._own_threads is not None:
            hanging = any(delivery.is_late for delivery in self.deliveries)
            self._own_threads.close(0.0 if hanging else PATIENCE)
        elif self._threads is not None:
            self._threads.dismiss()

    @property
    def shown(self) -> bool:
        """Whether a person may have read the events; ``shown=False`` is for observers that only watch."""
        return bool(self._observers) if self._shown is None else self._shown

    def emit(self, value: Told) -> None:
        """Tell everybody of something that happens where the session stands."""
        if not self._observers:
            return
        turn, step, attempt = self._place
        self._sequence += 1
        event = Event(self._session, turn, step, attempt, self._sequence, value)
        if self._causes and isinstance(value, ToolFailed):
            event = event.caused_by(self._causes.pop(value.effect_id, None))
        self.forward(event)

    def note_cause(self, effect_id: EffectId, error: BaseException) -> None:
        """What a tool raised; the event of its failure will have it."""
        if self._observers:
            self._causes[effect_id] = error

    def forward(self, event: Event) -> None:
        """Tell everybody of an event as it is: a worker's, with the tags of its own session."""
        self._collect()
        for observer, tell in self._observers:
            try:
                tell(event)
            except Exception as error:  # an observer's fault stays with the observer
                self._drop(observer, event, error)

    def warn_once(self, messages: Iterable[str]) -> None:
        """Warn of each message once, though every reply of the session may bring it."""
        for message in messages:
            if message not in self._warned:
                self._warned.add(message)
                self.warn(message)

    def warn(self, message: str) -> None:
        LOG.warning("%s", shown_name(message, LONGEST_LINE))
        self.emit(events.WarningRaised(message))

    def _collect(self) -> None:
        """Drop the observers that failed elsewhere meanwhile."""
        for delivery in self.deliveries:
            if delivery.failure is not None:
                self._drop(delivery.observer, *delivery.failure)

    def _drop(self, observer: Observer, event: Event, error: BaseException) -> None:
        self._observers = tuple(other for other in self._observers if other[0] is not observer)
        self.deliveries = tuple(other for other in self.deliveries if other.observer is not observer)
        LOG.debug("observer %r failed", observer, exc_info=error)
        what = type(event.value).__name__
        self.warn(f"an observer was dropped because it failed on {what}: {type(error).__name__}: {error}")

    def take_up(self, state: AgentState) -> None:
        """Begin where a resumed session stands; nothing is told of what was before."""
        self._move(state)

    def transition(self, before: AgentState, event: Input, transition: Transition, reveal: Reveal) -> None:
        """Tell of a step, its messages with all that they hold."""
        if not self._observers:
            return
        while self._weakened:
            tool = next(iter(self._weakened))
            self.emit(events.ToolWeakened(tool, self._weakened.pop(tool)))
        while self._untold:
            message, *rest = self._untold
            self._untold = tuple(rest)
            self.emit(events.WarningRaised(message))
        here: AgentState | None = None
        for state, value in told(before, event, transition):
            if state is not here:
                self._move(state)
                here = state
            self.emit(reveal(value) if isinstance(value, MESSAGES) else value)

    def _move(self, state: AgentState) -> None:
        turn, step, attempt = state.counters.turn, state.counters.step, self._place[2]
        if isinstance(state.phase, Thinking | Waiting):
            attempt = state.phase.attempt.number
        elif isinstance(state.phase, Compacting):
            attempt = state.phase.number
        elif (turn, step) != self._place[:2]:
            attempt = 1
        self._place = (turn, step, attempt)
