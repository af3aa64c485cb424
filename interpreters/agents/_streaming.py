"""A turn's events without an event loop: ``for event in agent.stream(text)``.

The turn runs on its own thread and sends its events to the reader through a bounded queue.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from threading import get_ident
from types import TracebackType
from typing import Any

from cognition import CogstepError
from interpreters.agents._partial_answers import PartialAnswer
from interpreters.agents.base_agent import CLOSE_SECONDS
from interpreters.agents.results import RunResult
from interpreters.loop.interpreter import Interpreter
from interpreters.observing.events import Event, Inline
from runtime.threads.pool import ThreadPool

BEHIND = 64
"""Maximum number of unread events before the turn waits for the reader: some lines of text."""


class TurnEvents(Iterator[Event]):
    """The events of a turn, and its result. The turn starts when the first event is requested.

    A slow reader delays the model. Stopping early cancels the turn and waits for its end: at the end of a ``with``
    block, at ``close()``, or when the loop over it is left and the last reference is gone.
    """

    def __init__(
        self, interpreter: Interpreter, run: Callable[[], RunResult], given_up: Callable[[], RunResult]
    ) -> None:
        self._turn = StreamedTurn(interpreter, run, given_up)

    @property
    def result(self) -> RunResult:
        """The value ``run`` would have returned; available when the events have ended.

        Raises:
            CogstepError: the events have not ended yet; also any error that ``run`` would have raised.
        """
        if self._turn.error is not None:
            raise self._turn.error
        if self._turn.result is None:
            raise CogstepError("the turn has not ended yet; read its events to their end first")
        return self._turn.result

    def partials(self) -> Iterator[Any]:
        """Yield partial values of a structured answer instead of events: JSON data that grows, with a cut last string.

        Each reply restarts it. ``result.value`` is the complete, checked value.
        """
        answer = PartialAnswer()
        for event in self:
            yield from answer.take(event)

    def __next__(self) -> Event:
        event = self._turn.take()
        if event is not None:
            return event
        if self._turn.error is not None and not self._turn.left:
            raise self._turn.error
        raise StopIteration

    def close(self) -> None:
        """Cancel the turn if it has not ended, and wait for its end. A second call does nothing."""
        self._turn.abandon(CLOSE_SECONDS)

    def __enter__(self) -> TurnEvents:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self._turn.abandon(CLOSE_SECONDS)


class StreamedTurn:
    """The turn behind ``TurnEvents``. Its thread refers only to this object, so that the ``TurnEvents`` can be freed.

    It uses only queues and plain attributes: an interrupt in the reader's thread must not leave a lock held.
    """

    def __init__(
        self, interpreter: Interpreter, run: Callable[[], RunResult], given_up: Callable[[], RunResult]
    ) -> None:
        self.result: RunResult | None = None
        self.error: BaseException | None = None
        self.left = False
        self._interpreter = interpreter
        self._run = run
        self._given_up = given_up
        """Returns the turn's result if the effects it waited for were cancelled since."""
        self._events: SimpleQueue[Event | None] = SimpleQueue()
        """The unread events; None marks the end."""
        self._room: SimpleQueue[None] = SimpleQueue()
        """An entry for each event that may still be added."""
        for _ in range(BEHIND):
            self._room.put(None)
        self._ended: SimpleQueue[None] = SimpleQueue()
        self._pool: ThreadPool | None = None
        self._thread = 0
        self._over = False

    def take(self) -> Event | None:
        """Return the next event; None at the end."""
        if self._over or self.left:
            return None
        if self._pool is None:
            self._pool = ThreadPool()
            self._pool.start(self._drive)
        event = self._events.get()
        if event is None:
            self._over = True
        else:
            self._room.put(None)
        return event

    def abandon(self, seconds: float) -> None:
        """Cancel the turn if it has not ended, and wait for its end."""
        if self.left:
            return
        self.left = True
        if self._pool is not None and not self._over:
            stopped = self._interpreter.cancel("the stream was left")
            self._room.put(None)
            if self._thread != get_ident():  # else its own thread has dropped it
                with contextlib.suppress(Empty):
                    self._ended.get(timeout=seconds)
            if stopped and self.result is not None and self.result.pending:
                self.result = self._given_up()

    def _drive(self) -> None:
        self._thread = get_ident()
        observers, taker = self._interpreter.observers, Inline(self._add)
        observers.add(taker)
        try:
            self.result = self._run()
        except BaseException as error:  # raised where the events are read
            self.error = error
        finally:
            observers.remove(taker)
            self._events.put(None)
            self._ended.put(None)

    def _add(self, event: Event) -> None:
        if not self.left:
            self._room.get()
        if not self.left:
            self._events.put(event)
