"""Ctrl-C and SIGTERM: the first signal cancels the current turn and keeps everything, a second one exits immediately.

Handlers run on the main thread between two instructions of any code. So they only set flags and call ``cancel``, which
is designed for it. This module takes no locks and writes through no buffers.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NoReturn

from interpreters.cli._errors import INTERRUPTED, TERMINATED, Terminated
from interpreters.cli.screen.terminal import ERASE_LINE, RESET


class Interrupts:
    """The signals of one command."""

    def __init__(self, *, restore: bool = False) -> None:
        self.terminated: bool = False
        """SIGTERM has arrived: the command ends after the turn."""
        self._cancel: Callable[[], bool] | None = None
        self._asked = 0
        self._asking = False
        self._elsewhere = False
        """Another program has the terminal."""
        self._raised = False
        """A signal was raised as an exception, and the command is ending."""
        self._restore = restore
        """Whether stderr is a terminal whose colour and last line must be reset on exit."""

    @contextlib.contextmanager
    def install(self) -> Iterator[Interrupts]:
        """Handle signals until the end of the block."""
        before = {number: signal.signal(number, self._handle) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def turn(self, cancel: Callable[[], bool]) -> Iterator[None]:
        """In this block the first signal calls ``cancel``. It returns False if no turn is running."""
        self._asked, self._raised = 0, False
        self._cancel = cancel
        try:
            yield
        finally:
            self._cancel = None

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        """In this block signals are raised as exceptions, even during a turn, since the command waits for a line."""
        self._asking, self._raised = True, False
        try:
            yield
        finally:
            self._asking = False

    @contextlib.contextmanager
    def give_to_program(self) -> Iterator[None]:
        """In this block another program, such as an editor, handles Ctrl-C. SIGTERM is raised."""
        self._elsewhere = True
        try:
            yield
        finally:
            self._elsewhere = False

    def cancel(self) -> None:
        """Cancel the current turn, if any."""
        if self._cancel is not None:
            self._cancel()

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self._elsewhere and number == signal.SIGINT:
            return
        self._asked += 1
        self.terminated = self.terminated or number == signal.SIGTERM
        if self._cancel is not None and not self._asking:
            if self._asked > 1:
                self._leave(number)
            if self._cancel():
                return
        if self._raised:  # what it left is closed meanwhile, a model say
            self._leave(number)
        self._raised = not self._asking
        # At a prompt or a question, while a model loads, in the moment before or after a turn: nothing to cancel.
        raise Terminated if number == signal.SIGTERM else KeyboardInterrupt

    def _leave(self, number: int) -> NoReturn:
        """Exit immediately, since a tool or native code may hang.

        Nothing is lost: the recording is written line by line, without Python's buffers.
        """
        if self._restore:
            with contextlib.suppress(OSError):
                os.write(2, (ERASE_LINE + RESET).encode())
        os._exit(TERMINATED if number == signal.SIGTERM else INTERRUPTED)
