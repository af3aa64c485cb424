"""The time as an interpreter sees it: what inputs are stamped with, and how long is waited for the next one."""

from __future__ import annotations

import time
from queue import Empty, SimpleQueue
from typing import Protocol, TypeVar

Letter = TypeVar("Letter")

LONGEST_WAIT = 0.5
"""Seconds of one wait for the system. Python runs a signal's handler when a wait ends or is interrupted; a signal that
comes in the microseconds before the wait begins interrupts nothing, and would be seen at the next letter only."""


class Clock(Protocol):
    """Where an interpreter gets its time from; ``fakes.FakeClock`` is another one."""

    def time(self) -> float:
        """Seconds since the epoch."""

    def monotonic(self) -> float:
        """Seconds since some moment; never goes back."""

    def receive(self, mailbox: SimpleQueue[Letter], seconds: float | None) -> Letter | None:
        """The next letter, or None: at the latest after so many seconds, but whoever waits looks again anyway.

        Without ``seconds`` there is no latest moment.
        """


class SystemClock:
    """The machine's clock."""

    def time(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def receive(self, mailbox: SimpleQueue[Letter], seconds: float | None) -> Letter | None:
        try:
            return mailbox.get(timeout=LONGEST_WAIT if seconds is None else min(max(seconds, 0.0), LONGEST_WAIT))
        except Empty:
            return None
