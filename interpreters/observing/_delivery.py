"""Deliver events to observers without waiting for them.

Each observer has a queue. A pool thread (for an ``async def`` observer: a task) takes events from it, in order and one
at a time. It runs only while the queue contains events. So a slow or blocked observer delays neither the model, the
tools nor other observers.

Waking a thread costs 0.05 ms, ten times as much as making an event and queueing it. So a thread with an empty queue
waits ``LINGER`` seconds before it ends. Events that arrive in this time wake no thread and are delivered together.

The queue is bounded:

- Up to ``ROOM`` events wait unchanged.
- Beyond that, a piece of text, reasoning or arguments is joined with the piece before it. A tool's progress replaces
  its previous progress. No text is lost, and the joined event has the tags of the newest piece.
- An observer that is ``FAR_BEHIND`` events behind is dropped with a warning, like an observer that raises.

The session waits for observers, at most ``PATIENCE`` seconds, in two places: before it asks the user something, so that
the events before the question are shown, and at the end of a turn. It does not wait again for an observer that was too
slow until that observer has caught up.
"""

from __future__ import annotations

import contextvars
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue

from attrs import evolve

from interpreters.observing.events import ArgumentsDelta, Event, Observer, ReasoningDelta, TextDelta, ToolProgress
from runtime.threads.pool import ThreadPool

ROOM = 1000
"""Events that wait for an observer unchanged: half a minute of a fast model."""

FAR_BEHIND = 10_000
"""Waiting events (some megabytes) at which an observer is dropped."""

LINGER = 0.005
"""Seconds that a thread waits for further events before it ends. A user does not notice this delay."""

ENOUGH = ROOM // 10
"""Waiting events that wake a lingering thread early."""

PATIENCE = 2.0
"""Seconds that a question, or the end of a turn, waits for busy observers."""


class TooSlowError(Exception):
    """An observer is too far behind for its queue."""


class Delivery:
    """The queue of one observer.

    One thread at a time puts events in, and one at a time takes them out. There is no lock, because an interrupt such
    as Ctrl-C may arrive at any point of ``put``. Each queue operation is atomic. After putting an event in, ``put``
    checks that a worker is active; before it ends, a worker checks again for new events.

    Args:
        observer: called with each event, by one thread or task at a time.
        start: starts a thread or task that runs ``work``.
        keeps_context: whether the observer is called in a copy of the ``contextvars`` context that emitted the event,
            and not in that of the thread or task.
    """

    def __init__(self, observer: Observer, start: Start, *, keeps_context: bool = True) -> None:
        self.observer = observer
        self._start = start
        self._events: deque[tuple[Event, contextvars.Context | None]] = deque()
        """Each with the ``contextvars`` of its emission, if they are kept."""
        self.keeps_context = keeps_context
        self._turns: deque[None] = deque([None])
        """Holds one token. The thread or task that delivers events takes it, and puts it back at its end."""
        self._at_work = False
        """Whether a thread or task delivers events, or is about to start."""
        self.failure: tuple[Event, BaseException] | None = None
        """The event at which the observer failed, and its error. It receives no further events."""
        self._when_idle: deque[Callable[[], object]] = deque()
        self.is_late: bool = False
        """Whether the session has waited longer than ``PATIENCE`` for this observer."""
        self._lingers = False
        """Whether the worker thread has delivered all events and waits for further events."""
        self._bell: SimpleQueue[None] = SimpleQueue()
        """Ends that wait."""

    def put(self, event: Event) -> None:
        """Add an event. Called on the session's thread; never blocks."""
        if self.failure is not None:
            return
        if len(self._events) >= ROOM and (joined := join(self._events[-1][0], event)) is not None:
            self._events[-1] = joined, self._events[-1][1]
            return
        if len(self._events) >= FAR_BEHIND:
            self.fail(event, TooSlowError(f"it is {FAR_BEHIND} events behind"))
            return
        self._events.append((event, contextvars.copy_context() if self.keeps_context else None))
        if not self._at_work:
            try:
                self._at_work = True
                self._start(self)
            except BaseException:  # perhaps nobody comes; whoever does, finds that another one is at work
                self._at_work = False
                raise
        elif len(self._events) == ENOUGH:
            self._hurry()

    def dismiss(self) -> None:
        """Let the worker thread end as soon as the queue is empty."""
        if not self.when_idle(lambda: None):
            self._hurry()

    def _hurry(self) -> None:
        if self._lingers:
            self._bell.put(None)

    def when_idle(self, call: Callable[[], object]) -> bool:
        """Call back once the queue is empty. Returns False if it is already empty, or if the observer was too slow."""
        if self.is_late or self.failure is not None or not self._is_busy():
            return False
        self._when_idle.append(call)
        self._hurry()
        return self._is_busy()  # if it is not by now, the call may be made or not

    def _is_busy(self) -> bool:
        return (self._at_work and not self._lingers) or bool(self._events)

    def note_not_started(self) -> None:
        """Record that no thread or task could be started. The next event tries again."""
        self._at_work = False

    def note_late(self) -> None:
        """Record that the session has waited longer than ``PATIENCE`` for this observer."""
        self.is_late = self._at_work

    def work(self, may_linger: Callable[[], bool] = bool) -> None:
        """Deliver events until the queue is empty. Runs on a thread.

        Before it ends, it waits ``LINGER`` seconds for further events if ``may_linger()`` is true.
        """
        if not self.try_deliver():
            return
        while True:
            if not self._events and self.failure is None and may_linger():
                self._linger()
            if (found := self.next()) is None:
                return
            event, context = found
            try:
                if context is None:
                    self.observer(event)
                else:
                    context.run(self.observer, event)
            except BaseException as error:  # whatever it is, it is the observer's
                self.fail(event, error)

    def _linger(self) -> None:
        """Wait for further events, unless a caller waits for an empty queue."""
        self._lingers, self.is_late = True, False
        # Looked at after that is noted: whoever adds to one of these looks afterwards whether somebody lingers.
        if not self._when_idle and len(self._events) < ENOUGH:
            with suppress(Empty):
                self._bell.get(timeout=LINGER)
        self._lingers = False

    def try_deliver(self) -> bool:
        """Take the right to deliver events. Returns False if another thread or task has it."""
        try:
            self._turns.pop()
        except IndexError:
            return False
        self._at_work = True
        return True

    def next(self) -> tuple[Event, contextvars.Context | None] | None:
        """Return the next event, with its context if it was kept. If the queue is empty, give back the right to deliver
        and return None.
        """
        while True:
            try:
                found = self._events.popleft()
            except IndexError:
                self._at_work = self.is_late = False
                self._turns.append(None)
                while self._when_idle:
                    self._when_idle.popleft()()
                if not self._events or not self.try_deliver():  # else something was put in meanwhile
                    return None
            else:
                if self.failure is None:
                    return found

    def fail(self, event: Event, error: BaseException) -> None:
        """Record that the observer failed, and drop its queue."""
        self.failure = self.failure or (event, error)
        self._events.clear()


def join(first: Event, second: Event) -> Event | None:
    """Join two pieces of the same text into one event, or return None if they can't be joined."""
    one, two = first.value, second.value
    if type(one) is not type(two) or _place(first) != _place(second):
        return None
    if isinstance(one, TextDelta | ReasoningDelta) and isinstance(two, TextDelta | ReasoningDelta):
        return evolve(second, value=evolve(two, text=one.text + two.text))
    if isinstance(one, ArgumentsDelta) and isinstance(two, ArgumentsDelta) and one.index == two.index:
        return evolve(second, value=evolve(two, text=one.text + two.text))
    if isinstance(one, ToolProgress) and isinstance(two, ToolProgress) and one.effect_id == two.effect_id:
        return second
    return None


def _place(event: Event) -> tuple[str, int, int, int]:
    return event.session, event.turn, event.step, event.attempt


Start = Callable[[Delivery], object]
"""Starts a thread or task that delivers an observer's events."""


def on_threads(threads: ThreadPool) -> Start:
    """Return a ``Start`` for pool threads."""

    def start(delivery: Delivery) -> None:
        threads.start(partial(delivery.work, threads.has_room))

    return start


def wait_for(deliveries: Iterable[Delivery]) -> None:
    """Wait until these observers have received every event, at most ``PATIENCE`` seconds."""
    deadline = time.monotonic() + PATIENCE
    for delivery in deliveries:
        idle: SimpleQueue[None] = SimpleQueue()
        if delivery.when_idle(partial(idle.put, None)):
            try:
                idle.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                delivery.note_late()
