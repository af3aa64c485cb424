"""The mailbox of an asyncio session: its letters, and the future that wakes the session."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TypeVar

from interpreters.loop.mailbox_messages import MailboxMessage

Kind = TypeVar("Kind")


class Mailbox:
    """A queue with one reading task. Its event loop or any thread may fill it."""

    def __init__(self) -> None:
        self._letters: deque[MailboxMessage] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.Future[None] | None = None

    def set_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Set the loop that reads the mailbox from now on."""
        self._loop = loop

    def running_loop(self) -> asyncio.AbstractEventLoop | None:
        """Return the loop that reads the mailbox, or None if it is not running. Safe from any thread."""
        loop = self._loop
        return loop if loop is not None and loop.is_running() else None

    def take(self) -> MailboxMessage | None:
        return self._letters.popleft() if self._letters else None

    def __len__(self) -> int:
        return len(self._letters)

    def take_unread(self, kind: tuple[type[Kind], ...]) -> list[Kind]:
        """Remove and return the letters of these types, oldest first."""
        if not self._letters:  # as nearly always
            return []
        letters = [self._letters.popleft() for _ in range(len(self._letters))]
        self._letters.extendleft(letter for letter in reversed(letters) if not isinstance(letter, kind))
        return [letter for letter in letters if isinstance(letter, kind)]

    def alarm(self) -> asyncio.Future[None]:
        """Return a future that is done when the next letter arrives. Call it only while the mailbox is empty."""
        wake = self._wake = asyncio.get_running_loop().create_future()
        return wake

    def post(self, letter: MailboxMessage) -> None:
        """Add a letter, in the loop that reads the mailbox."""
        self._letters.append(letter)
        self._ring()

    def send(self, letter: MailboxMessage) -> None:
        """Add a letter behind all earlier ones. Safe from any thread or a signal handler."""
        self._letters.append(letter)
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._ring)

    def _ring(self) -> None:
        wake, self._wake = self._wake, None
        if wake is not None and not wake.done():
            wake.set_result(None)
