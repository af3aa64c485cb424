"""The user at the terminal, and asking questions there. Each kind of question has its own module.

Ctrl-C or SIGTERM at a question keep it in the recording, and ``cogstep resume`` asks it again. Without a recording they
cancel the turn. In a chat, Ctrl-C also cancels only the turn, and the chat continues.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import termios
from collections.abc import Callable
from typing import TypeVar

from cognition.base.display import shown_name
from interpreters.cli._errors import Terminated
from interpreters.cli.options.default_tools import has_user
from interpreters.cli.options.store_option import name_of, quote_for_command
from interpreters.cli.screen.output import Output
from interpreters.cli.screen.preview_lines import columns_of, wrap
from interpreters.cli.screen.styled import Style
from interpreters.cli.screen.terminal import err
from interpreters.cli.session.interrupts import Interrupts

T = TypeVar("T")


class Prompt:
    """The user who reads a command's output and types at its terminal, if there is one."""

    def __init__(self, options: argparse.Namespace, output: Output, interrupts: Interrupts) -> None:
        recording = options.file if options.command == "resume" else options.record
        self.recording: str | None = None if recording is None else name_of(recording)
        """Name of the recording that keeps unanswered questions; None without a recording."""
        self.typed: str = "" if recording is None else quote_for_command(recording, options)
        """Its name for another command, quoted for a shell."""
        self.is_here: bool = has_user(options)
        self.unasked: dict[str, None] = {}
        """The tools whose calls were refused in this turn because no user is there."""
        self.output = output
        self.interrupts = interrupts
        self.goes_on: bool = options.command == "chat"
        """Whether the command returns to a prompt."""

    @property
    def columns(self) -> int:
        """Width of the terminal."""
        return columns_of(err())

    def tell(self, text: str, style: Style) -> None:
        """Show a line of any length between questions. None of its rows can imitate a question."""
        rows = wrap(shown_name(text, None), "", self.columns)
        self.output.attempt(lambda: err().write_lines(((row, style) for row in rows), whole=True))

    def discard_typed(self) -> None:
        """Discard input typed before a question is shown: it can't be an answer to an unseen question."""
        with contextlib.suppress(OSError, ValueError, AttributeError, termios.error):  # no terminal that can do it
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)

    def line(self, prompt: str) -> str:
        """Read a line after a prompt, stripped. For additional input within ``ask``.

        Raises:
            EOFError: the input has ended. KeyboardInterrupt, Terminated: as caught by ``ask``.
        """
        err().write(prompt)
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line.strip()

    def ask(
        self, what: str, prompt: str | Callable[[], str], read: Callable[[str], T | None], *, nobody: T, stopped: T
    ) -> T:
        """Ask until the user gives a valid answer.

        Args:
            what: the name of the question, in the note that it waits.
            prompt: shown before the answer.
            read: parses the input, and may ask more with ``line``; returns None for an invalid answer.
            nobody: the answer at the end of input.
            stopped: the answer if Ctrl-C cancels the turn.

        Raises:
            KeyboardInterrupt, Terminated: the question waits in the recording, and the command must end.
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
