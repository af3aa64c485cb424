"""The person at the terminal, who is asked what a session wants to know. Each question is a function of its own module.

Ctrl-C or SIGTERM at a question keep it in the recording, where ``cogstep resume`` asks it again. Without a recording
they cancel the turn, and so does Ctrl-C in a chat, which goes on.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable
from typing import TypeVar

from interpreters.cli.errors import Terminated
from interpreters.cli.interrupts import Interrupts
from interpreters.cli.screen import Output
from interpreters.cli.terminal import err

T = TypeVar("T")


class Person:
    """Whoever reads the output of a command and types at its terminal, if anybody does."""

    def __init__(self, options: argparse.Namespace, output: Output, interrupts: Interrupts) -> None:
        self.recording = recording_of(options)
        """Where what is not answered waits; None: nowhere."""
        self.is_here: bool = not options.json and sys.stdin.isatty() and err().is_terminal
        self.unasked: dict[str, None] = {}
        """The tools of which a call was refused in this turn, since nobody is here."""
        self.output = output
        self._interrupts = interrupts
        self.goes_on = options.command == "chat"
        """Whether there is a prompt to come back to."""

    def asked(self, what: str, prompt: str, read: Callable[[str], T | None], *, nobody: T, stopped: T) -> T:
        """What the person answers, asked until it is an answer.

        Args:
            what: waits if the question is interrupted.
            prompt: stands before the answer.
            read: reads what was typed; None for what is no answer.
            nobody: the answer where the input ends.
            stopped: the answer where the turn is cancelled for Ctrl-C.

        Raises:
            KeyboardInterrupt, Terminated: the question waits in the recording, and the command is to end.
        """
        try:
            with self._interrupts.asking():
                while True:
                    err().write(prompt)
                    line = sys.stdin.readline()
                    if not line:
                        return nobody
                    answer = read(line.strip())
                    if answer is not None:
                        return answer
        except (KeyboardInterrupt, Terminated) as stop:
            err().write("\n")
            if self.recording is not None and (not self.goes_on or isinstance(stop, Terminated)):
                told = shlex.quote(self.recording)
                self.output.note(f"{what} waits in {told} for your answer; go on with: cogstep resume {told}", "dim")
                raise  # which leaves the turn open, and ends the command
            self._interrupts.cancel()
            return stopped


def recording_of(options: argparse.Namespace) -> str | None:
    """The recording of a command's session; None for one that is not recorded."""
    recording: str | None = options.file if options.command == "resume" else options.record
    return recording
