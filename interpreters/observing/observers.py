"""Make events from transitions and from the stream, and pass them to observers."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, nullcontext, suppress
from functools import partial
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
from cognition.base.display import LONGEST_LINE, shown_name
from cognition.steps.decisions import Effect
from interpreters.observing import events
from interpreters.observing._delivery import PATIENCE, Delivery, on_threads, wait_for
from interpreters.observing._surrounding import Context, Surrounding
from interpreters.observing.events import Event, EventValue, Inline, Observer
from interpreters.observing.step_events import events_of
from interpreters.tools.log_lines import Hides, hidden_line, log_error
from interpreters.tools.tool import is_async
from runtime.constrained.nodes import Weakened
from runtime.threads.pool import ThreadPool

if TYPE_CHECKING:
    from interpreters.observing.async_delivery import Tasks

LOG = logging.getLogger("cogstep")
MESSAGES = (UserMessage, AssistantMessage, ToolMessage)

Reveal = Callable[[Message], Message]
"""Returns a message with the real texts in place of the recording's placeholders for secrets."""


NO_CONTEXT: Context = nullcontext()


class _All(ExitStack):
    """Several contexts as one. Whatever one of them raises at its beginning is left out: it affects no run."""

    def __init__(self, contexts: Iterable[Callable[[], Context]]) -> None:
        super().__init__()
        self._contexts = contexts

    def __enter__(self) -> _All:
        for make in self._contexts:
            with suppress(Exception):
                self.enter_context(make())
        return self


def _is_or_wraps(observer: Observer, other: object) -> bool:
    return observer is other or (isinstance(observer, Inline) and observer.observer is other)


class Observers:
    """The observers of one session. The thread or task that drives the session calls it.

    An observer that raises, or falls too far behind, is dropped with a warning to the log and to the other observers.
    It never affects the run. See ``_delivery`` for how observers are called without waiting.

    Args:
        observers: receive every event.
        session: the session's name, for the events.
        shown: whether a user may have read the events. None means: if there is an observer. Pass False for observers
            that only watch.
        threads: the pool to call observers on; None for an own pool.
        weakened: the tools whose schemas sampling does not fully enforce, with the omitted keywords. Emitted first.
        warnings: logged immediately, and emitted after ``weakened``.
        surrounding: observers of the session that started this one, for the contexts of its effects.
        tasks: creates the ``Tasks`` for ``async def`` observers on demand; None without an event loop.

    Raises:
        ConfigError: an observer is an ``async def``, but there is no event loop.
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
        surrounding: tuple[Surrounding, ...] = (),
        tasks: Callable[[], Tasks] | None = None,
    ) -> None:
        self.hides: Hides | None = None
        """Removes secrets from what is logged. Events contain them: they are for the program's own observers."""
        self._threads = threads
        self._own_threads: ThreadPool | None = None
        self._new_tasks = tasks
        self.tasks: Tasks | None = None
        """Calls the ``async def`` observers; None until the first one is added."""
        self.deliveries: tuple[Delivery, ...] = ()
        """The queues of all observers that are not ``Inline``."""
        self._observers: tuple[tuple[Observer, Callable[[Event], object]], ...] = tuple(
            (observer, self._reach(observer)) for observer in observers
        )
        self._outer = surrounding
        self.surrounding: tuple[Surrounding, ...] = ()
        """The observers whose contexts surround the effects of the session."""
        self._find_surrounding()
        self._shown = shown
        self._weakened = dict(weakened or {})
        """Weakened tools not yet emitted; ``_untold`` contains such warnings."""
        self._untold = deque(warnings)
        for message in warnings:
            LOG.warning("%s", shown_name(message, LONGEST_LINE))
        self._session = session
        self._sequence = 0
        self._place = (0, 0, 1)
        self._causes: dict[EffectId, BaseException] = {}
        """Exceptions of tools whose failures are not yet emitted."""
        self._warned: set[str] = set()
        """Warnings about replies that were already emitted."""

    def _reach(self, observer: Observer) -> Callable[[Event], object]:
        """Return the callable that passes an event to an observer."""
        if isinstance(observer, Inline):
            return observer.observer
        if is_async(observer):
            if self._new_tasks is None:
                raise ConfigError("an observer that is an async function needs an AsyncAgent")
            if self.tasks is None:
                self.tasks = self._new_tasks()
            delivery = Delivery(observer, self.tasks.start, keeps_context=False)
        else:
            if self._threads is None:
                self._threads = self._own_threads = ThreadPool()
            delivery = Delivery(observer, on_threads(self._threads))
        self.deliveries += (delivery,)
        return delivery.put

    def _find_surrounding(self) -> None:
        own = [one.observer if isinstance(one, Inline) else one for one, _ in self._observers]
        self.surrounding = (*self._outer, *(one for one in own if isinstance(one, Surrounding)))
        if self.surrounding:
            for delivery in self.deliveries:
                delivery.keeps_context = True

    def within(self, effect: Effect | None = None, session: str | None = None) -> Context:
        """Return the context for carrying out an effect; None for the turn, or for this session."""
        if not self.surrounding:
            return NO_CONTEXT
        name = self._session if session is None else session
        return _All([partial(one.within, name, effect) for one in self.surrounding])

    def begin(self, event: Event) -> Context:
        """Have the surrounding observers begin an event. Return the event's context."""
        if not self.surrounding:
            return NO_CONTEXT
        contexts: list[Callable[[], Context]] = []
        for one in self.surrounding:
            try:
                contexts.append(one.begin(event))
            except Exception as error:  # an observer's fault stays with the observer
                self._outer = tuple(other for other in self._outer if other is not one)
                self._drop(one, event, error)
        return _All(contexts)

    def __bool__(self) -> bool:
        """Return whether there is an observer. Check it before making events in a loop."""
        return bool(self._observers)

    def add(self, observer: Observer) -> None:
        """Add an observer. It receives all later events."""
        self._observers = (*self._observers, (observer, self._reach(observer)))
        self._find_surrounding()

    def remove(self, observer: Observer) -> None:
        """Remove an observer. It receives no later events."""
        self._observers = tuple(other for other in self._observers if other[0] != observer)
        self.deliveries = tuple(other for other in self.deliveries if other.observer != observer)
        self._find_surrounding()

    def wait(self) -> None:
        """Wait until the observers have received every event, at most ``PATIENCE`` seconds."""
        if self.deliveries:
            wait_for(self.deliveries)

    def close(self) -> None:
        """End with the session. Observers may never receive the events that are still queued."""
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
        """Whether a user may have read the events. ``shown=False`` is for observers that only watch."""
        return bool(self._observers) if self._shown is None else self._shown

    def emit(self, value: EventValue) -> None:
        """Emit a value as an event at the session's current place."""
        if not self._observers:
            return
        turn, step, attempt = self._place
        self._sequence += 1
        event = Event(self._session, turn, step, attempt, self._sequence, value)
        if self._causes and isinstance(value, ToolFailed):
            event = event.caused_by(self._causes.pop(value.effect_id, None))
        self.forward(event)

    def note_cause(self, effect_id: EffectId, error: BaseException) -> None:
        """Record a tool's exception for the event of its failure."""
        if self._observers:
            self._causes[effect_id] = error

    def forward(self, event: Event) -> None:
        """Pass on an event unchanged: a worker's event, with the tags of its own session."""
        self._collect()
        with self.begin(event):
            for observer, tell in self._observers:
                try:
                    tell(event)
                except Exception as error:  # an observer's fault stays with the observer
                    self._drop(observer, event, error)

    def warn_once(self, messages: Iterable[str]) -> None:
        """Warn about each message once per session, even if every reply repeats it."""
        for message in messages:
            if message not in self._warned:
                self._warned.add(message)
                self.warn(message)

    def warn(self, message: str) -> None:
        LOG.warning("%s", shown_name(hidden_line(message, self.hides), LONGEST_LINE))
        self.emit(events.WarningRaised(message))

    def _collect(self) -> None:
        """Drop the observers that have failed on other threads or tasks."""
        for delivery in self.deliveries:
            if delivery.failure is not None:
                self._drop(delivery.observer, *delivery.failure)

    def _drop(self, observer: Observer, event: Event, error: BaseException) -> None:
        self._observers = tuple(other for other in self._observers if not _is_or_wraps(other[0], observer))
        self.deliveries = tuple(other for other in self.deliveries if other.observer is not observer)
        self._find_surrounding()
        log_error(logging.DEBUG, f"observer {observer!r} failed", error, self.hides)
        what = type(event.value).__name__
        self.warn(f"an observer was dropped because it failed on {what}: {type(error).__name__}: {error}")

    def transition(self, before: AgentState, event: Input, transition: Transition, reveal: Reveal) -> None:
        """Emit the events of a step, with revealed messages."""
        if not self._observers:
            return
        while self._weakened:
            tool = next(iter(self._weakened))
            self.emit(events.ToolWeakened(tool, self._weakened.pop(tool)))
        while self._untold:
            self.emit(events.WarningRaised(self._untold.popleft()))
        here: AgentState | None = None
        for state, value in events_of(before, event, transition):
            if state is not here:
                self.take_up(state)
                here = state
            self.emit(reveal(value) if isinstance(value, MESSAGES) else value)

    def take_up(self, state: AgentState) -> None:
        """Continue at this state: of a step, or of a resumed session, whose past is not emitted."""
        turn, step, attempt = state.counters.turn, state.counters.step, self._place[2]
        if isinstance(state.phase, Thinking | Waiting):
            attempt = state.phase.attempt.number
        elif isinstance(state.phase, Compacting):
            attempt = state.phase.number
        elif (turn, step) != self._place[:2]:
            attempt = 1
        self._place = (turn, step, attempt)
