"""What is handed to a session under asyncio while no run of it is under way: a mode, what is
forgotten, a turn that is given up.

It may come from any thread, and may have to wait for the disk or for the session's loop. What comes next waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol, get_args

from interpreters.driver import Driver
from interpreters.loop.letters import HandedIn
from interpreters.loop.mailbox import Mailbox
from interpreters.threads.offloading import seen, to_its_end


class AtWork(Protocol):
    """Whoever runs the session."""

    @property
    def at_work(self) -> bool:
        """Whether a run is under way."""


class BetweenRuns:
    """Takes inputs in their order, each once, whether a run begins or ends meanwhile.

    Args:
        driver: of the session.
        mailbox: of the session; knows its loop.
        session: gives whoever runs it; None once nobody does any more.
    """

    __slots__ = ("_driver", "_left", "_mailbox", "_outside", "_session", "_task")

    def __init__(self, driver: Driver, mailbox: Mailbox, session: Callable[[], AtWork | None]) -> None:
        self._driver = driver
        self._mailbox = mailbox
        self._session = session
        self._left: deque[HandedIn] = deque()
        """Not on the disk yet."""
        self._outside = threading.Lock()
        """Held by a thread that hands something in while no loop has the session: until then none takes it."""
        self._task: asyncio.Task[None] | None = None
        """Takes what is left."""

    def _runs(self) -> bool:
        session = self._session()
        return session is not None and session.at_work

    def hand_in(self, event: HandedIn) -> None:
        """Have the session take an input. From any thread."""
        if self._runs() and not self._left:  # else behind those
            self._mailbox.send(event)
            if not self._runs() and (loop := self._mailbox.runs_in()):  # it has ended, and may not have read this
                loop.call_soon_threadsafe(self.begin)
        elif not self._is_here():
            self._hand_in_from_outside(event)
        else:
            if not self._runs():
                self._belongs_here()
            if self._left or self._mailbox or self._driver.waits(event):
                self._left.append(event)
                self.begin()
            else:
                self._driver.advance(event)

    async def ready(self) -> None:
        """Wait until all is on the disk, in the session's loop; a write that failed is tried again."""
        if self._runs():
            return
        self._belongs_here()
        self._take_unread()
        if not self._left and self._task is None:
            return
        await self._done()
        if self._left:
            self.begin()
            if self._task is not None:
                await self._done()
                self._task.result()

    def begin(self) -> None:
        """Take what is left: by a task, or by the run that has begun meanwhile."""
        if self._runs():
            while self._left:  # taken away last, since another thread looks whether there is anything
                self._mailbox.post(self._left[0])
                self._left.popleft()
            return
        self._take_unread()
        if self._left and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._take())
            self._task.add_done_callback(seen)

    def _is_here(self) -> bool:
        """Whether a loop runs on this thread, and no other has the session."""
        try:
            return self._mailbox.runs_in() in (None, asyncio.get_running_loop())
        except RuntimeError:
            return False

    def _belongs_here(self) -> None:
        """The session's loop is the one that runs on this thread. To be called while no run is under way."""
        with self._outside:
            self._mailbox.belongs_to(asyncio.get_running_loop())

    def _hand_in_from_outside(self, event: HandedIn) -> None:
        """On another thread than the session's loop, which takes it; or this thread, if there is none to hold up."""
        with self._outside:
            self._left.append(event)
            loop = self._mailbox.runs_in()
            if loop is None:
                if not self._runs():
                    self._take_unread()
                while self._left:
                    self._driver.advance(self._left[0])
                    self._left.popleft()
                return
        with contextlib.suppress(RuntimeError):  # it was closed meanwhile: the next one does it
            loop.call_soon_threadsafe(self.begin)

    def _take_unread(self) -> None:
        """What was handed in when a run had read its last letter comes before what is handed in after it. To be called
        while no run is under way.
        """
        if self._mailbox:
            self._left.extendleft(reversed(self._mailbox.unread(get_args(HandedIn))))

    async def _take(self) -> None:
        for _ in range(len(self._left)):  # those that come meanwhile hold nothing up
            before = self._driver.state
            try:
                await self._driver.advance_async(self._left[0], to_its_end)
            except BaseException:
                if self._driver.state is not before:  # broken off when it was on the disk
                    self._left.popleft()
                raise
            self._left.popleft()

    async def _done(self) -> None:
        while self._task is not None and not self._task.done():
            await asyncio.wait([self._task])
