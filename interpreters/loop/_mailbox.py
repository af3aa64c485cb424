"""Where inputs of an asyncio session arrive: its mailbox, and the changes that are handed in between its runs.

Those are a mode, forgotten approvals or a given-up turn. They may arrive on any thread and may have to wait for the
disk or for the session's loop. Later inputs wait for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable
from typing import TypeVar, get_args

from interpreters.loop.driver import Driver
from interpreters.loop.interpreter import Interpreter
from interpreters.loop.mailbox_messages import HandedInput, MailboxMessage
from interpreters.tools.offloading import mark_seen, run_to_end

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


class IdleChanges:
    """Take inputs in order, each exactly once, even if a run begins or ends in the meantime.

    Args:
        driver: driver of the session.
        mailbox: mailbox of the session; it knows the session's loop.
        session: returns the object that runs the session, or None once it is gone.
    """

    __slots__ = ("_driver", "_left", "_mailbox", "_outside", "_session", "_task")

    def __init__(self, driver: Driver, mailbox: Mailbox, session: Callable[[], Interpreter | None]) -> None:
        self._driver = driver
        self._mailbox = mailbox
        self._session = session
        self._left: deque[HandedInput] = deque()
        self._outside = threading.Lock()
        """Keeps loops from taking the session while another thread hands in an input directly."""
        self._task: asyncio.Task[None] | None = None

    def _is_running(self) -> bool:
        session = self._session()
        return session is not None and session.current_turn is not None

    def hand_in(self, event: HandedInput) -> None:
        """Queue or take an input. Safe from any thread."""
        if self._is_running() and not self._left:  # else behind those
            self._mailbox.send(event)
            if not self._is_running() and (
                loop := self._mailbox.running_loop()
            ):  # it has ended, and may not have read this
                loop.call_soon_threadsafe(self.begin)
        elif not self._is_here():
            self._hand_in_from_outside(event)
        else:
            if not self._is_running():
                self._adopt_loop()
            if self._left or self._mailbox or self._driver.waits(event):
                self._left.append(event)
                self.begin()
            else:
                self._driver.advance(event)

    async def ready(self) -> None:
        """Wait, in the session's loop, until all inputs are on disk. A failed write is tried again."""
        if self._is_running():
            return
        self._adopt_loop()
        self._take_unread()
        if not self._left and self._task is None:
            return
        await self._finish()
        if self._left:
            self.begin()
            if self._task is not None:
                await self._finish()
                self._task.result()

    def begin(self) -> None:
        """Take the remaining inputs in a task, or pass them to the run that has begun."""
        if self._is_running():
            while self._left:  # taken away last, since another thread looks whether there is anything
                self._mailbox.post(self._left[0])
                self._left.popleft()
            return
        self._take_unread()
        if self._left and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._take())
            self._task.add_done_callback(mark_seen)

    def _is_here(self) -> bool:
        """Whether a loop runs on this thread and no other loop owns the session."""
        try:
            return self._mailbox.running_loop() in (None, asyncio.get_running_loop())
        except RuntimeError:
            return False

    def _adopt_loop(self) -> None:
        with self._outside:
            self._mailbox.set_loop(asyncio.get_running_loop())

    def _hand_in_from_outside(self, event: HandedInput) -> None:
        """Pass the input to the session's loop, or take it on this thread if no loop runs."""
        with self._outside:
            self._left.append(event)
            loop = self._mailbox.running_loop()
            if loop is None:
                if not self._is_running():
                    self._take_unread()
                while self._left:
                    self._driver.advance(self._left[0])
                    self._left.popleft()
                return
        with contextlib.suppress(RuntimeError):  # it was closed meanwhile: the next one does it
            loop.call_soon_threadsafe(self.begin)

    def _take_unread(self) -> None:
        """Put inputs that the last run did not read before later inputs. Call it only between runs."""
        if self._mailbox:
            self._left.extendleft(reversed(self._mailbox.take_unread(get_args(HandedInput))))

    async def _take(self) -> None:
        for _ in range(len(self._left)):  # those that come meanwhile hold nothing up
            before = self._driver.state
            try:
                await self._driver.advance_async(self._left[0], run_to_end)
            except BaseException:
                if self._driver.state is not before:  # broken off when it was on the disk
                    self._left.popleft()
                raise
            self._left.popleft()

    async def _finish(self) -> None:
        while self._task is not None and not self._task.done():
            await asyncio.wait([self._task])
