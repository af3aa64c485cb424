"""A command of another program, run by a keeper: a process that ends all processes of its command (``supervisor``)."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from runtime.children import in_memory, start as starting, supervisor
from runtime.children.ending import kill_group

CODE = in_memory.code_of(supervisor)

MARK = "COGSTEP_COMMAND"
"""A variable that all processes of a command inherit. It identifies them if their keeper was killed."""
SWEEP_SECONDS = 2.0
"""Seconds to search for the remaining processes of a dead keeper."""


class SupervisedCommand:
    """A command and its keeper, which waits for the request on its standard input and reports on its output.

    Args:
        folder: the working directory of the keeper and its command.
        environ: the environment of the keeper itself.
        descriptors: the descriptors named in its request.

    Raises:
        OSError: the system can't start it.
    """

    def __init__(self, folder: Path, environ: Mapping[str, str], descriptors: Sequence[int]) -> None:
        self.leader: int = 0
        """The process id of the command itself; 0 until it has started."""
        self.code: int | None = None
        """The exit code of the command itself, or minus the number of a signal."""
        self.failed: str = ""
        """Why the command could not be started."""
        self.over: bool = False
        """Whether it reported that no process of the command is left."""
        self.process: subprocess.Popen[bytes]
        self._mark = secrets.token_hex(16)
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self._code = CODE if in_memory.is_possible(CODE) else b""
        if self._code:
            command = [in_memory.PYTHON, *in_memory.FLAGS, "-c", in_memory.BOOT, "0", str(len(CODE))]
            self.process = starting.run(command, cwd=folder, env=dict(environ), pass_fds=tuple(descriptors), **pipes)
        else:  # slower by what it imports, and possible in a frozen program
            self.process = starting.start(
                supervisor.__name__, environ=environ, folder=str(folder), descriptors=descriptors, **pipes
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.control: IO[bytes] = self.process.stdin
        """Takes the request, then ``e`` to ask the command to end and ``k`` to kill it."""
        self.status: IO[bytes] = self.process.stdout
        """The keeper's reports; see ``hear``."""

    def request(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        pipes: Sequence[int | None],
        *,
        linger: float,
        grace: float,
    ) -> bytes:
        """Return what the keeper reads first: its own code, and the request for a command. The parts of that are those
        of ``supervisor.CommandSupervisor``.
        """
        request = {
            "command": in_memory.request_of(command),
            "environ": {**environ, MARK: self._mark},
            "pipes": pipes,
            "parent": os.getpid(),
            "linger": linger,
            "grace": grace,
        }
        data = json.dumps(request).encode()
        return self._code + f"{len(data):0{supervisor.LENGTH}}".encode() + data

    def hear(self, line: bytes) -> dict[str, Any]:
        """Take in one line of its reports, and return it decoded."""
        said: dict[str, Any] = json.loads(line)
        self.leader = said.get("began", self.leader)
        self.code = said.get("ended", self.code)
        self.failed = said.get("failed", self.failed)
        self.over = self.over or "over" in said or "failed" in said
        return said

    def sweep(self) -> None:
        """Wait for the keeper's end. If it was killed, kill the rest of the command, found by session and mark."""
        self.process.wait()
        if self.over:
            return
        if not supervisor.LINUX:
            if self.leader:
                kill_group(self.leader)
            return
        until = time.monotonic() + SWEEP_SECONDS
        while time.monotonic() < until:
            running = supervisor.processes()
            found = [one for one in running if (self.leader and one.session == self.leader) or self._marks(one.number)]
            for process in found:
                process.send(signal.SIGKILL)
            if not found:
                return
            time.sleep(supervisor.LOOK)

    def _marks(self, process: int) -> bool:
        try:
            return f"{MARK}={self._mark}".encode() in Path(f"/proc/{process}/environ").read_bytes()
        except OSError:
            return False
