"""Commands that outlive their call. Each has a thread that reads its output."""

from __future__ import annotations

import threading
import time
from itertools import count
from typing import Any

from interpreters.toolbox.shell.command import LATE, LOOK, Command
from interpreters.tools.context import ToolContext
from interpreters.tools.tool import ToolError

AT_ONCE = 16
"""Commands that may run in the background at the same time."""
REMEMBERED = 64
"""Ended commands whose output can still be read."""


class Job:
    """A command in the background."""

    def __init__(self, text: str, command: Command, limit: float | None) -> None:
        self.text = text
        """The command line."""
        self.command = command
        self.ended = threading.Event()
        self._limit = limit
        threading.Thread(target=self._run, name="cogstep shell", daemon=True).start()

    def _run(self) -> None:
        try:
            self.command.run(None, self._limit)
        finally:
            self.command.output.close()
            self.ended.set()

    def wait(self, seconds: float, context: ToolContext[Any] | None = None) -> None:
        """Wait until it has ended, the time is over, or the call is cancelled."""
        until = time.monotonic() + seconds
        while not self.ended.is_set() and (left := until - time.monotonic()) > 0:
            self.ended.wait(min(left, LOOK))
            if context is not None:
                context.check()

    @property
    def stands(self) -> str:
        """Its status in a few words."""
        if self.ended.is_set():
            return "which has ended already"
        return f"running for {time.monotonic() - self.command.begun:.0f} s"

    def read(self) -> str:
        """Return the output since the last read, and its status."""
        over = self.ended.is_set()  # asked first: what comes after this is for the next time
        return told(self.command, *self.command.output.take(last=over))


class Jobs:
    """The background commands of one shell, by name: ``shell-1``, ``shell-2``, ..."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._numbers = count(1)

    def check_room(self) -> None:
        """Check that another command may run.

        Raises:
            ToolError: too many are running.
        """
        running = [name for name, job in list(self._jobs.items()) if not job.ended.is_set()]
        if len(running) >= AT_ONCE:
            raise ToolError(f"{AT_ONCE} commands run in the background already; end one first: {', '.join(running)}")

    def add(self, text: str, command: Command, limit: float | None) -> str:
        """Let it run in the background, and return its name. ``text`` is the command line."""
        name = f"shell-{next(self._numbers)}"
        self._jobs[name] = Job(text, command, limit)
        ended = [one for one, job in list(self._jobs.items()) if job.ended.is_set()]
        for one in ended[:-REMEMBERED]:
            self._jobs.pop(one, None)
        return name

    def job(self, name: str) -> Job:
        """Return the command with this name.

        Raises:
            ToolError: there is no such command.
        """
        job = self._jobs.get(name)
        if job is None:
            known = ", ".join(list(self._jobs)) or "none was started"
            raise ToolError(f"no command runs in the background as {name!r}; known are: {known}")
        return job

    def kill(self, name: str) -> str:
        """End a command, wait for it, and return its output since the last read and its status.

        Raises:
            ToolError: there is no such command.
        """
        job = self.job(name)
        job.command.end("KillShell ended it")
        job.wait(2 * LATE)
        return job.read()

    def end(self) -> None:
        """Ask all commands to end, without waiting."""
        for job in list(self._jobs.values()):
            job.command.end("the shell was closed")

    def close(self) -> None:
        """End all commands and wait for them."""
        self.end()
        for job in list(self._jobs.values()):
            job.wait(2 * LATE)


def told(command: Command, text: str, note: str) -> str:
    """Return the output, followed by a line with the command's status and a note on the output."""
    gap = "" if not text or text.endswith("\n") else "\n"
    return f"{text}{gap}{command.report(note)}"
