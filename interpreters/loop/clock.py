"""Clocks of interpreters: timestamps of inputs, and waiting for the next letter."""

from __future__ import annotations

import time
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    import asyncio

Message = TypeVar("Message")

LONGEST_WAIT = 0.5
"""Maximum seconds of one system wait.

Python runs a signal handler when a wait ends or is interrupted. A signal just before the wait interrupts nothing;
without this limit its handler would run only at the next letter.
"""


class Clock(Protocol):
    """The source of time of an interpreter. ``fakes.FakeClock`` implements it for tests."""

    def time(self) -> float:
        """Return seconds since the epoch."""

    def monotonic(self) -> float:
        """Return seconds since an arbitrary moment; never decreases."""

    def receive(self, mailbox: SimpleQueue[Message], seconds: float | None) -> Message | None:
        """Return the next letter, or None after at most ``seconds``.

        None may come earlier, so that the caller can look again. ``seconds`` None means no time limit.
        """

    async def wait(self, wake: asyncio.Future[None], seconds: float | None) -> None:
        """Wait under asyncio for ``wake`` or until ``seconds`` have passed. Does not change ``wake``."""


class SystemClock:
    """The system clock."""

    monotonic: staticmethod[[], float] = staticmethod(time.monotonic)
    time: staticmethod[[], float] = staticmethod(time.time)  # behind the other, since it hides the module here

    def receive(self, mailbox: SimpleQueue[Message], seconds: float | None) -> Message | None:
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
