"""Where a session under asyncio waits: letters that came, and what wakes it when one comes."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TypeVar

from interpreters.loop.letters import Letter

Kind = TypeVar("Kind")


class Mailbox:
    """A queue that is read by one task, filled in its event loop or from any thread."""

    def __init__(self) -> None:
        self._letters: deque[Letter] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.Future[None] | None = None

    def belongs_to(self, loop: asyncio.AbstractEventLoop) -> None:
        """Say which loop reads it from now on."""
        self._loop = loop

    def runs_in(self) -> asyncio.AbstractEventLoop | None:
        """The loop that reads it, if that runs. From any thread."""
        loop = self._loop
        return loop if loop is not None and loop.is_running() else None

    def take(self) -> Letter | None:
        """The oldest letter, if there is one."""
        return self._letters.popleft() if self._letters else None

    def __len__(self) -> int:
        return len(self._letters)

    def unread(self, kind: tuple[type[Kind], ...]) -> list[Kind]:
        """Take out the letters of some kinds, oldest first."""
        if not self._letters:  # as nearly always
            return []
        letters = [self._letters.popleft() for _ in range(len(self._letters))]
        self._letters.extendleft(letter for letter in reversed(letters) if not isinstance(letter, kind))
        return [letter for letter in letters if isinstance(letter, kind)]

    def alarm(self) -> asyncio.Future[None]:
        """A future that is done when the next letter comes. To be called while the mailbox is empty."""
        wake = self._wake = asyncio.get_running_loop().create_future()
        return wake

    def post(self, letter: Letter) -> None:
        """Add a letter, in the loop that reads it."""
        self._letters.append(letter)
        self._ring()

    def send(self, letter: Letter) -> None:
        """Add a letter, from any thread or a signal handler. It stands behind all that was added before."""
        self._letters.append(letter)
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._ring)

    def _ring(self) -> None:
        wake, self._wake = self._wake, None
        if wake is not None and not wake.done():
            wake.set_result(None)
