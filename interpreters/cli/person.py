"""The person at the terminal, who is asked what a session wants to know. Each question is a function of its own module.

Ctrl-C or SIGTERM at a question keep it in the recording, where ``cogstep resume`` asks it again. Without a recording
they cancel the turn, and so does Ctrl-C in a chat, which goes on.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import termios
from collections.abc import Callable
from typing import TypeVar

from cognition.shown import shown_name
from interpreters.cli.errors import Terminated
from interpreters.cli.interrupts import Interrupts
from interpreters.cli.offering import somebody_is_here
from interpreters.cli.pieces import Style
from interpreters.cli.previewing import columns_of, wrapped
from interpreters.cli.screen import Output
from interpreters.cli.stores import name_of, typed
from interpreters.cli.terminal import err

T = TypeVar("T")


class Person:
    """Whoever reads the output of a command and types at its terminal, if anybody does."""

    def __init__(self, options: argparse.Namespace, output: Output, interrupts: Interrupts) -> None:
        recording = options.file if options.command == "resume" else options.record
        self.recording = None if recording is None else name_of(recording)
        """Where what is not answered waits; None: nowhere."""
        self.typed = "" if recording is None else typed(recording, options)
        """How another command names it, for a shell."""
        self.is_here: bool = somebody_is_here(options)
        self.unasked: dict[str, None] = {}
        """The tools of which a call was refused in this turn, since nobody is here."""
        self.output = output
        self.interrupts = interrupts
        self.goes_on = options.command == "chat"
        """Whether there is a prompt to come back to."""

    @property
    def columns(self) -> int:
        """How wide the terminal is."""
        return columns_of(err())

    def tell(self, text: str, style: Style) -> None:
        """A line of any length, between questions, none of whose rows can pass for one."""
        rows = wrapped(shown_name(text, None), "", self.columns)
        self.output.attempt(lambda: err().write_lines(((row, style) for row in rows), whole=True))

    def forget_typed(self) -> None:
        """Throw away what was typed before a question stands there: it is no answer to what nobody has seen."""
        with contextlib.suppress(OSError, ValueError, AttributeError, termios.error):  # no terminal that can do it
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)

    def line(self, prompt: str) -> str:
        """What is typed behind a prompt, without the blanks around it; for what ``asked`` reads besides.

        Raises:
            EOFError: the input has ended.
            KeyboardInterrupt, Terminated: as ``asked`` catches them.
        """
        err().write(prompt)
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line.strip()

    def asked(
        self, what: str, prompt: str | Callable[[], str], read: Callable[[str], T | None], *, nobody: T, stopped: T
    ) -> T:
        """What the person answers, asked until it is an answer.

        Args:
            what: waits if the question is interrupted.
            prompt: stands before the answer.
            read: reads what was typed, and may ask more by ``line``; None for what is no answer.
            nobody: the answer where the input ends.
            stopped: the answer where the turn is cancelled for Ctrl-C.

        Raises:
            KeyboardInterrupt, Terminated: the question waits in the recording, and the command is to end.
        """
        try:
            with self.interrupts.asking():
                while True:
                    answer = read(self.line(prompt() if callable(prompt) else prompt))
                    if answer is not None:
                        return answer
        except EOFError:
            return nobody
        except (KeyboardInterrupt, Terminated) as stop:
            err().write("\n")
            if self.recording is not None and (not self.goes_on or isinstance(stop, Terminated)):
                told = f"{what} waits in {self.recording} for your answer; go on with: cogstep resume {self.typed}"
                self.output.note(told, "dim")
                raise  # which leaves the turn open, and ends the command
            self.interrupts.cancel()
            return stopped
