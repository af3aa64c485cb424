"""Where a session under asyncio waits: letters that came, and what wakes it when one comes."""

from __future__ import annotations

import asyncio
from collections import deque

from interpreters.clock import Clock
from interpreters.letters import Letter


class Mailbox:
    """A queue that is read by one task, filled in its event loop or from any thread."""

    def __init__(self) -> None:
        self._letters: deque[Letter] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.Future[None] | None = None

    def belongs_to(self, loop: asyncio.AbstractEventLoop) -> None:
        """The loop that reads it from now on."""
        self._loop = loop

    def take(self) -> Letter | None:
        """The oldest letter, if there is one."""
        return self._letters.popleft() if self._letters else None

    async def wait(self, clock: Clock, seconds: float | None) -> None:
        """Until a letter comes, or so many seconds have passed. To be called while there is none."""
        wake = self._wake = asyncio.get_running_loop().create_future()
        try:
            await clock.wait(wake, seconds)
        finally:
            self._wake = None

    def post(self, letter: Letter) -> None:
        """Add a letter, in the loop that reads it."""
        self._letters.append(letter)
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def send(self, letter: Letter) -> None:
        """Add a letter, from any thread or a signal handler."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self.post, letter)
