"""The time as interpreters see it: what inputs are stamped with, and how long is waited for the next one."""

from __future__ import annotations

import time
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    import asyncio

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
        """The next letter; None after ``seconds`` at the latest, and perhaps sooner, so that the caller looks again.

        With None as ``seconds`` there is no time limit.
        """

    async def wait(self, wake: asyncio.Future[None], seconds: float | None) -> None:
        """``receive`` under asyncio: waits for ``wake``, which it does not change, or until ``seconds`` have passed."""


class SystemClock:
    """The machine's clock."""

    monotonic = staticmethod(time.monotonic)
    time = staticmethod(time.time)  # behind the other, since it hides the module here

    def receive(self, mailbox: SimpleQueue[Letter], seconds: float | None) -> Letter | None:
        try:
            return mailbox.get(timeout=LONGEST_WAIT if seconds is None else min(max(seconds, 0.0), LONGEST_WAIT))
        except Empty:
            return None

    async def wait(self, wake: asyncio.Future[None], seconds: float | None) -> None:
        if seconds is None:
            await wake
            return
        timer = wake.get_loop().call_later(max(seconds, 0.0), _done, wake)
        try:
            await wake
        finally:
            timer.cancel()


SYSTEM_CLOCK = SystemClock()


def _done(wake: asyncio.Future[None]) -> None:
    if not wake.done():
        wake.set_result(None)
