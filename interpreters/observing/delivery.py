"""Bringing events to observers without waiting for them.

Each observer has a queue. A thread of a pool (of an ``async def`` observer: a task) takes what lies there, one event
after another and in order; it is at work only while there is something to take. So an observer that is slow, or never
comes back, delays neither the model nor the tools nor the other observers.

To wake a thread costs 0.05 ms, ten times what it costs to make an event and to put it in. So a thread that has found
its queue empty stays for ``LINGER`` seconds: what comes meanwhile wakes nobody, and is handed over together.

The queue is bounded:

- Up to ``ROOM`` events wait as they are.
- Then pieces of a text, of reasoning, or of arguments are joined with the piece before them, and a tool's progress
  replaces the one before it: nothing is lost but the cuts, and the tags are those of the newest piece.
- An observer that is ``FAR_BEHIND`` events behind is dropped with a warning, like one that raises.

The session waits for observers, and for at most ``PATIENCE`` seconds, in two places: before it asks the user something,
so that what led to the question has been shown, and at the end of a turn. One that was too slow there is not waited
for again until it has caught up.
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
from interpreters.threads.pool import ThreadPool

ROOM = 1000
"""The number of events that wait for an observer as they are: half a minute of a fast model."""

FAR_BEHIND = 10_000
"""The number of waiting events, some megabytes, after which an observer is dropped."""

LINGER = 0.005
"""Seconds that a thread waits for further events before it goes; nobody sees that an event is so much late."""

ENOUGH = ROOM // 10
"""The number of waiting events for which a thread that lingers is woken after all."""

PATIENCE = 2.0
"""Seconds that a question, or the end of a turn, waits for observers that are at work."""


class TooSlowError(Exception):
    """An observer is further behind than there is memory for."""


class Delivery:
    """The queue before one observer.

    Events are put in by one thread at a time and taken out by one at a time. No lock is taken: an interrupt, such as
    Ctrl-C, may come at any place where events are put in. Each operation on a queue is one step; whoever puts an event
    in looks afterwards whether anybody is at work, and whoever rests looks afterwards whether anything was put in.

    Args:
        observer: is called with each event, by one thread or task at a time.
        start: begins a job elsewhere; it is given ``work``.
    """

    def __init__(self, observer: Observer, start: Start) -> None:
        self.observer = observer
        self._start = start
        self._events: deque[Event] = deque()
        self._turns: deque[None] = deque([None])
        """Holds one token: a thread or task takes it to hand events over, and puts it back at its end."""
        self._at_work = False
        """Whether a thread or task hands events over, or was started to."""
        self.failure: tuple[Event, BaseException] | None = None
        """The event on which the observer failed, and its error. It is told nothing after that."""
        self._when_idle: deque[Callable[[], object]] = deque()
        self._late = False
        self._lingers = False
        """Whether the thread at work has handed over all there was, and waits for further events."""
        self._bell: SimpleQueue[None] = SimpleQueue()
        """Ends that wait."""

    @property
    def is_late(self) -> bool:
        """Whether the session has waited longer than ``PATIENCE`` for this observer."""
        return self._late

    def put(self, event: Event) -> None:
        """Add an event. Called where the session runs; never waits."""
        if self.failure is not None:
            return
        if len(self._events) >= ROOM and self._joined(event):
            return
        if len(self._events) >= FAR_BEHIND:
            self.fail(event, TooSlowError(f"it is {FAR_BEHIND} events behind"))
            return
        self._events.append(event)
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
        """Have the thread that is at work go as soon as the queue is empty."""
        if not self.when_idle(_nothing):
            self._hurry()

    def _hurry(self) -> None:
        """Have a thread that lingers go on at once."""
        if self._lingers:
            self._bell.put(None)

    def when_idle(self, call: Callable[[], object]) -> bool:
        """Call back once the queue is empty; False if it is now, or if the observer was too slow before."""
        if self._late or self.failure is not None or not self._is_busy():
            return False
        self._when_idle.append(call)
        self._hurry()
        return self._is_busy()  # if it is not by now, the call may be made or not

    def _is_busy(self) -> bool:
        return (self._at_work and not self._lingers) or bool(self._events)

    def rest(self) -> None:
        """Note that no thread or task could be started; the next event tries again."""
        self._at_work = False

    def note_late(self) -> None:
        """Note that the session has waited longer than ``PATIENCE`` for this observer."""
        self._late = self._at_work

    def work(self, may_linger: Callable[[], bool] = bool) -> None:
        """Hand events over until the queue is empty, and with ``may_linger`` until it stays so. Called on a thread."""
        if not self.come():
            return
        while True:
            if not self._events and self.failure is None and may_linger():
                self._linger()
            event = self.next()
            if event is None:
                return
            try:
                self.observer(event)
            except BaseException as error:  # whatever it is, it is the observer's
                self.fail(event, error)

    def _linger(self) -> None:
        """Wait for further events, unless somebody waits for the queue to be empty."""
        self._lingers, self._late = True, False
        # Looked at after that is noted: whoever adds to one of these looks afterwards whether somebody lingers.
        if not self._when_idle and len(self._events) < ENOUGH:
            with suppress(Empty):
                self._bell.get(timeout=LINGER)
        self._lingers = False

    def come(self) -> bool:
        """Take the right to hand events over; False if another thread or task has it."""
        try:
            self._turns.pop()
        except IndexError:
            return False
        self._at_work = True
        return True

    def next(self) -> Event | None:
        """The next event to hand over. None if the queue is empty, and the right to hand over is then given back."""
        while True:
            try:
                event = self._events.popleft()
            except IndexError:
                self._at_work = self._late = False
                self._turns.append(None)
                while self._when_idle:
                    self._when_idle.popleft()()
                if not self._events or not self.come():  # else something was put in meanwhile
                    return None
            else:
                if self.failure is None:
                    return event

    def fail(self, event: Event, error: BaseException) -> None:
        """Note that the observer failed: it gets no more events."""
        self.failure = self.failure or (event, error)
        self._events.clear()

    def _joined(self, event: Event) -> bool:
        """Join an event with the newest one in the queue, where both are pieces of the same thing."""
        joined = join(self._events[-1], event)
        if joined is not None:
            self._events[-1] = joined
        return joined is not None


def _nothing() -> None:
    """Called when a queue is empty that is only to be empty."""


def join(first: Event, second: Event) -> Event | None:
    """Two pieces of the same thing as one, or None if they are not that."""
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
"""Starts a thread or task that hands an observer's events over."""


def on_threads(threads: ThreadPool) -> Start:
    """Starts deliveries on threads of a pool, each in the ``contextvars`` context of the session."""

    def start(delivery: Delivery) -> None:
        context = contextvars.copy_context()
        threads.start(partial(context.run, delivery.work, threads.has_room))

    return start


def wait_for(deliveries: Iterable[Delivery]) -> None:
    """Wait until these observers have been told everything, ``PATIENCE`` seconds at most."""
    deadline = time.monotonic() + PATIENCE
    for delivery in deliveries:
        idle: SimpleQueue[None] = SimpleQueue()
        if delivery.when_idle(partial(idle.put, None)):
            try:
                idle.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                delivery.note_late()
