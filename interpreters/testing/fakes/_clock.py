"""Time for tests: it passes immediately when the program waits for it."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
from itertools import count
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Self, TypeVar

from interpreters.loop.clock import SystemClock
from runtime.threads.pool import PoolThread

Message = TypeVar("Message")

ROUNDS = 10
"""Rounds of the event loop before time passes, so that tasks that only await each other can finish."""

STILL = 30
"""Number of checks, ``LOOK`` seconds apart, without a movement of any tool thread.

After that a tool's wait can only end by time, so time may pass. Checks instead of seconds give a busy machine more
time.
"""
LOOK = 0.001


class FakeClock:
    """A clock that moves only when the program waits: then the time passes immediately. For both interpreters.

    While a tool is working on its own thread, time does not pass either, so a running tool is never late.

    >>> clock = FakeClock()
    >>> clock.advance(60)
    >>> clock.time()
    60.0
    """

    def __init__(self, start: float = 0.0) -> None:
        self.now: float = start
        self.waits: list[float] = []
        """The seconds of each wait, in order."""

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass without a wait, such as the time that a tool takes."""
        self.now += max(seconds, 0.0)

    def receive(self, mailbox: SimpleQueue[Message], seconds: float | None) -> Message | None:
        if seconds is None:  # no time limit: only another thread can end this wait
            return SystemClock().receive(mailbox, None)
        with _Watch() as watch:
            while True:
                try:
                    return mailbox.get(timeout=LOOK) if watch.check() else mailbox.get_nowait()
                except Empty:
                    if watch.is_over:
                        break
        self._pass(seconds)
        return None

    async def wait(self, wake: asyncio.Future[None], seconds: float | None) -> None:
        if seconds is None:
            await wake
            return
        rests = 0
        with _Watch() as watch:
            # A thread hands over its result before it rests, so what a look misses is in the loop by then. Twice, since
            # what was handed over may have set others to work.
            while rests < 2:
                rests = 0 if watch.check() else rests + 1
                if not rests:
                    await asyncio.sleep(LOOK)
                if await _ends_by_itself(wake):
                    return
        self._pass(seconds)

    def _pass(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.advance(seconds)


async def _ends_by_itself(wake: asyncio.Future[None]) -> bool:
    """Whether the event loop's current work ends the wait."""
    for _ in range(ROUNDS):
        if wake.done():
            return True
        await asyncio.sleep(0)
    return wake.done()


WATCHING: dict[int, int] = {}
"""The threads that watch others, such as those of workers: they count as waiting, although they keep checking."""

STOOD: dict[int, tuple[int, int]] = {}
"""The places of threads at the end of the last watch. A thread still at the same place isn't watched again: a tool that
waits for ever, in any session, would delay each following wait.
"""


class _Watch:
    """Watches the threads of tools until all of them wait."""

    def __init__(self) -> None:
        self._left = STILL
        self._seen: dict[int, tuple[int, int]] = {}

    def __enter__(self) -> Self:
        WATCHING[id(self)] = threading.get_ident()
        return self

    def __exit__(self, *_: object) -> None:
        del WATCHING[id(self)]

    @property
    def is_over(self) -> bool:
        return self._left <= 0

    def check(self) -> bool:
        """Check the threads; return whether another check is needed."""
        places = _places()
        seen = {thread: place for thread, place in places.items() if STOOD.get(thread) != place}
        self._left = 0 if not seen else STILL if seen != self._seen else self._left - 1
        self._seen = seen
        if not self._left:
            STOOD.clear()
            STOOD.update(places)
        return self._left > 0


def _places() -> dict[int, tuple[int, int]]:
    """Return the place of each tool thread in its code, without idle threads."""
    watching = set(WATCHING.values())
    busy = [
        thread
        for thread in threading.enumerate()
        if isinstance(thread, PoolThread) and thread.ident not in watching and not thread.idle()
    ]
    frames = _frames() if busy else {}
    return {thread.ident or 0: _place(thread, frames.get(thread.ident or 0)) for thread in busy}


LOOKING = threading.RLock()
"""Held while garbage collection is off for a check; only this module uses it."""

if sys.version_info < (3, 12) and hasattr(os, "register_at_fork"):
    os.register_at_fork(before=LOOKING.acquire, after_in_parent=LOOKING.release, after_in_child=LOOKING.release)


def _frames() -> dict[int, FrameType]:
    """Return the current frames of all threads.

    Before 3.12, Python holds its lock on the list of threads during this call, and may collect garbage in between. Any
    code that needs that list then deadlocks all of Python: the end of a ``threading.local``, or the start or end of a
    thread while code runs for garbage collection. (python/cpython#106883)
    """
    if sys.version_info >= (3, 12):
        return sys._current_frames()
    with LOOKING:
        collects = gc.isenabled()
        try:
            gc.disable()
            return sys._current_frames()
        finally:
            if collects:
                gc.enable()


def _place(thread: PoolThread, frame: FrameType | None) -> tuple[int, int]:
    if _is_running(thread):
        return id(frame), -next(MOVES)  # it has not come to rest, so this is no place that it stands at
    return id(frame), 0 if frame is None else frame.f_lasti


MOVES = count(1)


def _is_running(thread: PoolThread) -> bool:
    """Whether, for the system, a thread is running, ready to run, or waiting for a disk.

    On systems without this file, such as macOS, only the repeated checks apply.
    """
    try:
        status = Path(f"/proc/self/task/{thread.native_id}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] in {"R", "D"}
