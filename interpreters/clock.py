"""The time as an interpreter sees it: what inputs are stamped with, and how long is waited for the next one."""

from __future__ import annotations

import time
from queue import Empty, SimpleQueue
from typing import Protocol, TypeVar

Letter = TypeVar("Letter")


class Clock(Protocol):
    """Where an interpreter gets its time from; ``fakes.FakeClock`` is another one."""

    def time(self) -> float:
        """Seconds since the epoch."""

    def monotonic(self) -> float:
        """Seconds since some moment; never goes back."""

    def receive(self, mailbox: SimpleQueue[Letter], seconds: float | None) -> Letter | None:
        """The next letter; None when so many seconds pass without one. Without ``seconds`` it waits for ever."""


class SystemClock:
    """The machine's clock."""

    def time(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def receive(self, mailbox: SimpleQueue[Letter], seconds: float | None) -> Letter | None:
        try:
            # Longer waits than this overflow the platform's timeout; the caller looks again after each.
            return mailbox.get(timeout=None if seconds is None else min(max(seconds, 0.0), 1_000_000.0))
        except Empty:
            return None
