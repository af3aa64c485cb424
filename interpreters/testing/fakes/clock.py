"""Time for tests: it passes when somebody waits for it, and at once."""

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
from interpreters.threads.pool import PoolThread

Letter = TypeVar("Letter")

ROUNDS = 10
"""The rounds of the event loop that pass before time does, so that tasks which only await each other come to an end."""

STILL = 30
"""The looks, each after ``LOOK`` seconds, at which all threads of tools have to stand where they stood: what a tool
waits for does not come by itself then, and time may pass. Looks and not seconds, so that a busy machine gives more."""
LOOK = 0.001


class FakeClock:
    """A clock that stands still until somebody waits: then the time has passed at once. For both interpreters.

    While a tool is at work on a thread of its own time stands still too, since none that merely runs is ever late.

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
        with _Watch() as watch:
            while True:
                try:
                    return mailbox.get(timeout=LOOK) if watch.goes_on() else mailbox.get_nowait()
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
                rests = 0 if watch.goes_on() else rests + 1
                if not rests:
                    await asyncio.sleep(LOOK)
                if await _comes_by_itself(wake):
                    return
        self._pass(seconds)

    def _pass(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.advance(seconds)


async def _comes_by_itself(wake: asyncio.Future[None]) -> bool:
    """Whether what is waited for comes by what the event loop has to do at this time."""
    for _ in range(ROUNDS):
        if wake.done():
            return True
        await asyncio.sleep(0)
    return wake.done()


WATCHING: dict[int, int] = {}
"""The threads that watch others, such as those of workers: they wait too, however often they look."""

STOOD: dict[int, tuple[int, int]] = {}
"""Where threads stood when they were last watched to the end. One that still stands there isn't watched again: a tool
that waits for ever, of this session or another one, would hold up each wait that follows."""


class _Watch:
    """Watches the threads of tools until all of them wait for something, or there is none."""

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

    def goes_on(self) -> bool:
        """Take a look; whether there is reason to take another one."""
        places = _places()
        seen = {thread: place for thread, place in places.items() if STOOD.get(thread) != place}
        self._left = 0 if not seen else STILL if seen != self._seen else self._left - 1
        self._seen = seen
        if not self._left:
            STOOD.clear()
            STOOD.update(places)
        return self._left > 0


def _places() -> dict[int, tuple[int, int]]:
    """Where each thread of a tool is in its code; without those that wait for a job."""
    watching = set(WATCHING.values())
    busy = [
        thread
        for thread in threading.enumerate()
        if isinstance(thread, PoolThread) and thread.ident not in watching and not thread.idle()
    ]
    frames = _frames() if busy else {}
    found = {thread.ident or 0: (thread, frames.get(thread.ident or 0)) for thread in busy}
    return {number: _place(thread, frame) for number, (thread, frame) in found.items()}


LOOKING = threading.RLock()
"""Held while garbage is not collected for a look; for those who look, and for nobody else."""

if sys.version_info < (3, 12) and hasattr(os, "register_at_fork"):
    os.register_at_fork(before=LOOKING.acquire, after_in_parent=LOOKING.release, after_in_child=LOOKING.release)


def _frames() -> dict[int, FrameType]:
    """Where all threads are.

    Before 3.12, Python holds its list of threads while it makes this, and may collect garbage in between. Whatever
    needs that list then waits for ever with all of Python: the end of a ``threading.local``, or, where code runs for
    garbage and another thread gets its turn, the beginning or end of a thread. (python/cpython#106883)
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
    """Whether the system says that a thread computes, or would if the machine had time for it, or waits for a disk.

    Where no such file is, as on macOS, the looks alone have to do.
    """
    try:
        status = Path(f"/proc/self/task/{thread.native_id}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] in {"R", "D"}
