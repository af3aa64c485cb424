"""Commands that run on when their call has ended, each read by a thread of its own."""

from __future__ import annotations

import threading
import time
from itertools import count
from typing import Any

from interpreters.toolbox.shell.running import LATE, LOOK, Command
from interpreters.tools.context import ToolContext
from interpreters.tools.tool import ToolError

AT_ONCE = 16
"""Commands that may run in the background at the same time."""
REMEMBERED = 64
"""Commands that have ended and can still be asked for."""


class Job:
    """A command in the background."""

    def __init__(self, text: str, command: Command, limit: float | None) -> None:
        self.text = text
        """What the shell was given."""
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
        """Until it has ended, or so long, or until the call is cancelled."""
        until = time.monotonic() + seconds
        while not self.ended.is_set() and (left := until - time.monotonic()) > 0:
            self.ended.wait(min(left, LOOK))
            if context is not None:
                context.check()

    @property
    def stands(self) -> str:
        """How it stands, in a few words."""
        if self.ended.is_set():
            return "which has ended already"
        return f"running for {time.monotonic() - self.command.begun:.0f} s"

    def read(self) -> str:
        """What it has printed since the last time, and how it stands."""
        over = self.ended.is_set()  # asked first: what comes after this is for the next time
        return told(self.command, *self.command.output.take(last=over))


class Jobs:
    """The commands in the background of one shell, by their names: ``shell-1``, ``shell-2``, ..."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._numbers = count(1)

    def check_room(self) -> None:
        """See that one more may run.

        Raises:
            ToolError: there are too many.
        """
        running = [name for name, job in list(self._jobs.items()) if not job.ended.is_set()]
        if len(running) >= AT_ONCE:
            raise ToolError(f"{AT_ONCE} commands run in the background already; end one first: {', '.join(running)}")

    def add(self, text: str, command: Command, limit: float | None) -> str:
        """Let it run; gives its name. ``text`` is what the shell was given."""
        name = f"shell-{next(self._numbers)}"
        self._jobs[name] = Job(text, command, limit)
        ended = [one for one, job in list(self._jobs.items()) if job.ended.is_set()]
        for one in ended[:-REMEMBERED]:
            self._jobs.pop(one, None)
        return name

    def job(self, name: str) -> Job:
        """The command of a name.

        Raises:
            ToolError: there is none.
        """
        job = self._jobs.get(name)
        if job is None:
            known = ", ".join(list(self._jobs)) or "none was started"
            raise ToolError(f"no command runs in the background as {name!r}; known are: {known}")
        return job

    def kill(self, name: str) -> str:
        """End a command and wait for it; what it had printed since the last time, and how it ended.

        Raises:
            ToolError: there is none of this name.
        """
        job = self.job(name)
        job.command.end("KillShell ended it")
        job.wait(2 * LATE)
        return job.read()

    def end(self) -> None:
        """Ask all to end, and don't wait for it."""
        for job in list(self._jobs.values()):
            job.command.end("the shell was closed")

    def close(self) -> None:
        """End all, and wait for it."""
        self.end()
        for job in list(self._jobs.values()):
            job.wait(2 * LATE)


def told(command: Command, text: str, note: str) -> str:
    """What was printed with what became of the command behind it, on a line of its own, and a note on the output."""
    gap = "" if not text or text.endswith("\n") else "\n"
    return f"{text}{gap}{command.report(note)}"
