"""One command, from its start to the end of all its processes."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cognition.base.display import shown_name
from interpreters.toolbox.shell._output import CommandOutput, Ticker
from interpreters.toolbox.shell.environment import environment
from interpreters.tools.context import ToolContext
from interpreters.tools.tool import ToolError
from runtime.children.ending import signal_name
from runtime.children.start import without_loader
from runtime.children.supervised_command import SupervisedCommand
from runtime.children.supervisor import STUBBORN_SECONDS

LOOK = 0.1
"""Seconds between two checks for a cancellation, and between two progress reports."""
LINGER = 0.5
"""Seconds for the remaining processes of an ended command to end on their own."""
GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL."""
LATE = GRACE + STUBBORN_SECONDS + 1.0
"""Seconds after which a keeper that was asked to end its command must itself be stopped or dead."""
OWN = "cogstep-sandbox "
"""The process that keeps a sandbox of Landlock, which ends with its command. Its number follows."""
CHUNK = 1 << 16
"""Bytes per read: the capacity of a pipe."""


class Command:
    """A running command. One thread calls ``step``; any thread may call ``end``.

    Args:
        words: the program and its arguments.
        environ: its environment variables.
        folder: its working directory.
        output: receives its output.

    Raises:
        ToolError: it can't be started.
    """

    def __init__(self, words: Sequence[str], environ: Mapping[str, str], folder: Path, output: CommandOutput) -> None:
        self.output = output
        self.ticker: Ticker = Ticker()
        self.begun: float = time.monotonic()
        self.seconds: float = 0.0
        self.reason: str = ""
        """Why we ended it; empty if it ended on its own."""
        self._lock = threading.RLock()  # which a garbage collection within may need again
        self._over = False
        self._notes: list[str] = []
        self._late_at: float | None = None
        self._said = b""
        self._reading, writing = os.pipe()
        try:
            os.set_blocking(self._reading, False)
            self._keeper = SupervisedCommand(folder, without_loader(environment(), folder), (writing,))
        except OSError as error:
            os.close(self._reading)
            raise ToolError(f"the command can't be started in {folder}: {error.strerror}") from error
        except BaseException:
            os.close(self._reading)
            raise
        finally:
            os.close(writing)
        self._control, self._status = self._keeper.control.fileno(), self._keeper.status.fileno()
        self._poll = select.poll()
        for descriptor in (self._reading, self._status):
            self._poll.register(descriptor, select.POLLIN)
        pipes = (None, writing, writing)
        try:
            self._send(self._keeper.request(words, environ, pipes, linger=LINGER, grace=GRACE))
        except BaseException:
            self.abandon()
            raise

    # ------------------------------------------------------------------------------------------------ while it runs

    def step(self, seconds: float) -> bool:
        """Process events, waiting at most ``seconds`` for the first. Returns whether any process of the command is
        left.
        """
        if self._over:
            return False
        for descriptor, _ in self._poll.poll(seconds * 1000):
            if descriptor == self._reading:
                if not self._read():
                    self._poll.unregister(self._reading)
            elif data := os.read(self._status, CHUNK):
                self._hear(data)
            else:
                self._finish()
                return False
        if self._late_at is not None and time.monotonic() > self._late_at:
            self._keeper.process.kill()  # somebody has stopped it; what it kept is found by its mark
        return True

    def run(self, context: ToolContext[Any] | None, limit: float | None) -> None:
        """Run until it has ended. The time limit and a cancellation of the call end it."""
        told = self.begun
        try:
            while self.step(LOOK if context is not None else 10 * LOOK):
                now = time.monotonic()
                if context is not None and context.cancelled:
                    self.end("the call was cancelled")
                elif limit is not None and now - self.begun > limit:
                    self.end(f"it ran longer than {limit:g} s")
                if context is not None and now - told >= LOOK:
                    told = now
                    if text := self.ticker.take():
                        context.progress(text)
        except BaseException:  # an interrupt: don't leave it behind
            self.abandon()
            raise
        if context is not None and (text := self.ticker.take(last=True)):
            context.progress(text)

    def end(self, reason: str, *, at_once: bool = False) -> None:
        """Ask all its processes to end, and kill the others later; the following steps notice it. The first reason
        counts.
        """
        with self._lock:
            if self._over:
                return
            if at_once or self._late_at is None:
                self.reason = self.reason or reason
                self._late_at = time.monotonic() + LATE
                self._send(b"k" if at_once else b"e")

    def abandon(self) -> None:
        """Kill all its processes and wait for their end."""
        self.end("it was given up", at_once=True)
        while self.step(LOOK):
            pass

    def _send(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._control, data) :]
        except BrokenPipeError:  # the keeper has ended, and the next step sees it
            return

    def _read(self) -> bool:
        """Read some output. Returns whether more may come."""
        try:
            data = os.read(self._reading, CHUNK)
        except BlockingIOError:
            return True
        self.output.add(data)
        self.ticker.add(data)
        return bool(data)

    def _hear(self, data: bytes) -> None:
        *lines, self._said = (self._said + data).split(b"\n")
        for line in lines:
            said = self._keeper.hear(line)
            if left := [name for name in said.get("left", ()) if not name.startswith(OWN)]:
                self._notes.append(
                    f"what it left running was ended: {_names(left)}; "
                    "run in the background what is to go on after its command"
                )
            if said.get("survived"):
                self._notes.append(f"these processes can't be ended: {_names(said['survived'])}")

    # -------------------------------------------------------------------------------------------------- when it ended

    def _finish(self) -> None:
        """Clean up after the keeper has ended: kill remaining processes, read the rest of the output, close the
        descriptors.
        """
        with self._lock:
            self._keeper.sweep()
            if not self._keeper.over and self.code is None:
                self._notes.append("the process that kept it was killed, and all of it was ended")
            left = self.output.total + (1 << 20)  # a pipe holds less; who can't be ended may write on for ever
            before = -1
            while before < self.output.total < left:
                before = self.output.total
                self._read()
            self._over = True
            self.seconds = time.monotonic() - self.begun
            os.close(self._reading)
            self._keeper.control.close()
            self._keeper.status.close()

    @property
    def code(self) -> int | None:
        """The exit code of its shell, or minus the number of a signal."""
        return self._keeper.code

    @property
    def over(self) -> bool:
        """Whether no process of it is left."""
        return self._over

    def check_started(self) -> None:
        """Check that it has started.

        Raises:
            ToolError: it has not.
        """
        if self._keeper.failed:
            self.output.close()
            raise ToolError(
                f"the command can't be started: {self._keeper.failed}; a long one has to be written to a file"
            )

    def report(self, note: str = "") -> str:
        """Return one line in brackets: how it ended, or that it still runs, with notes on it and on its output."""
        notes = [*self._notes, note] if note else self._notes
        if not self._over:
            return f"[{'; '.join([f'it is still running, after {time.monotonic() - self.begun:.0f} s', *notes])}]"
        parts = [f"stopped, since {self.reason}"] if self.reason else []
        if self.code is not None:
            parts.append(f"exit code {self.code}" if self.code >= 0 else f"ended by {signal_name(-self.code)}")
        # Short durations have the same text, so that equal results stay equal.
        parts.append("under 1 s" if self.seconds < 1 else f"{self.seconds:.1f} s")
        return f"[{'; '.join([', '.join(parts), *notes])}]"


def _names(names: Sequence[str]) -> str:
    return ", ".join(map(shown_name, names))
