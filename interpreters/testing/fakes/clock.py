"""Time for tests: it passes when somebody waits for it, and at once."""

from __future__ import annotations

import asyncio
from queue import Empty, SimpleQueue
from typing import TypeVar

from interpreters.loop.clock import SystemClock

Letter = TypeVar("Letter")

ROUNDS = 10
"""The rounds of the event loop that pass before time does, so that tasks which only await each other come to an end."""


class FakeClock:
    """A clock that stands still until somebody waits: then the time has passed at once. For both interpreters.

    >>> clock = FakeClock()
    >>> clock.advance(60)
    >>> clock.time()
    60.0
    """

    def __init__(self, start: float = 0.0) -> None:
        self.now = start
        self.waits: list[float] = []
        """The seconds of each wait, in order."""

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass that nobody waited for, such as the time that a tool takes."""
        self.now += max(seconds, 0.0)

    def receive(self, mailbox: SimpleQueue[Letter], seconds: float | None) -> Letter | None:
        if seconds is None:  # no time limit: only another thread can end this wait
            return SystemClock().receive(mailbox, None)
        try:
            return mailbox.get_nowait()
        except Empty:
            self._pass(seconds)
            return None

    async def wait(self, wake: asyncio.Future[None], seconds: float | None) -> None:
        if seconds is None:
            await wake
            return
        for _ in range(ROUNDS):
            if wake.done():
                return
            await asyncio.sleep(0)
        self._pass(seconds)

    def _pass(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.advance(seconds)
