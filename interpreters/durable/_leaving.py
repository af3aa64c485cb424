"""A process that stops to work at sessions: its running steps end and are stored, and nothing further is decided.

A decision that is recorded may count as carried out, so a process that ends between the two gives up a call that must
not happen twice. So each step that ends while the process leaves is held back, before its answer decides anything.
Once all runs only have such steps, timers and workers, the process can end, and another one continues.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from cognition import ConfigError

DRAIN = 10.0
"""Seconds that leaving waits for running steps by default."""

SETTLED = 0.2
"""Seconds for which nothing may be at work: between two steps of a run, there is an instant without any."""


@contextmanager
def first_signal(*numbers: int) -> Iterator[Callable[[], None]]:
    """Catch signals in this block, and return a function that waits for the first of them.

    They are not blocked: programs that a tool starts would inherit that, and ignore the signals.

    Raises:
        ConfigError: this is not the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        raise ConfigError("only the main thread of a program can wait for signals: elsewhere, use worker()")
    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    def note(*_: object) -> None:
        with suppress(BlockingIOError):
            os.write(writer, b"!")

    def wait() -> None:
        os.read(reader, 1)

    before = {number: signal.signal(number, note) for number in numbers}
    try:
        yield wait
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reader)
        os.close(writer)


class Leaving:
    """The state of a process that works at sessions. The methods are thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._runs: set[Activity] = set()
        self._held: set[asyncio.Future[None]] = set()
        self.has_begun = False
        self._is_over = False

    @contextmanager
    def activity(self) -> Iterator[Activity]:
        """The activity of a run that is executed in this block."""
        one = Activity(self)
        with self._changed:
            self._runs.add(one)
        try:
            yield one
        finally:
            with self._changed:
                self._runs.discard(one)
                self._changed.notify_all()

    def wait(self, seconds: float) -> bool:
        """Begin to leave, and wait until no run has a step at work; return False if that takes too long."""
        until = time.monotonic() + seconds
        with self._changed:
            self.has_begun = True
            while True:
                if not self._changed.wait_for(self._is_quiet, max(0.0, until - time.monotonic())):
                    return False
                if not self._changed.wait_for(lambda: not self._is_quiet(), SETTLED if self._runs else 0.0):
                    return True

    def is_busy(self) -> bool:
        """Whether a step is at work in any run."""
        with self._changed:
            return any(one.is_at_work() for one in self._runs)

    def end(self) -> None:
        """Cancel the steps that are held back: the process ends."""
        with self._changed:
            self._is_over, held = True, list(self._held)
        for one in held:
            loop = one.get_loop()
            if not loop.is_closed():
                loop.call_soon_threadsafe(one.cancel)

    def _is_quiet(self) -> bool:
        return all(one.is_quiet() for one in self._runs)

    @contextmanager
    def change(self) -> Iterator[None]:
        with self._changed:
            yield
            self._changed.notify_all()

    async def hold(self) -> None:
        """Wait for ``end``, and be cancelled by it."""
        held: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._changed:
            if self._is_over:
                raise asyncio.CancelledError
            self._held.add(held)
        try:
            await held
        finally:
            with self._changed:
                self._held.discard(held)


class Activity:
    """The calls of one execution of a run."""

    def __init__(self, leaving: Leaving | None = None) -> None:
        self._leaving = leaving or Leaving()
        self._at_work = 0
        self._resting = 0

    @property
    def is_leaving(self) -> bool:
        return self._leaving.has_begun

    def is_quiet(self) -> bool:
        """Whether the run has calls, and none of them is at work."""
        return self._resting > 0 and self._at_work == 0

    def is_at_work(self) -> bool:
        """Whether a step of the run is at work."""
        return self._at_work > 0

    @contextmanager
    def work(self) -> Iterator[None]:
        """A step is at work in this block."""
        with self._leaving.change():
            self._at_work += 1
        try:
            yield
        finally:
            with self._leaving.change():
                self._at_work -= 1

    @contextmanager
    def rest(self) -> Iterator[None]:
        """A call only waits in this block: for a timer, or for a run of its own."""
        with self._leaving.change():
            self._resting += 1
        try:
            yield
        finally:
            with self._leaving.change():
                self._resting -= 1

    async def hold_back(self) -> None:
        """Keep a step that has ended from returning, if the process leaves."""
        if self.is_leaving:
            with self.rest():
                await self._leaving.hold()
