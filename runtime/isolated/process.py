"""One child process, seen from the parent: start, read its output, find out how it ended."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
from typing import IO

from runtime.children import start as starting
from runtime.children.ending import describe_end

CHILD = "runtime.isolated.child"

GRACE = 2.0
"""Seconds to wait after closing the connection, and again after a kill. A driver may block a process in the kernel even
then; such a process is left to the system.
"""

KEPT = 4096
"""Bytes of the last stderr output, searched for the reason of its end."""

TELLING = re.compile(r"assert|error|abort|terminat|fatal|exception|out of memory", re.IGNORECASE)
LONGEST_REASON = 300
"""Characters."""


class Child:
    """A started process and the connection to it. Used by one thread."""

    connection: socket.socket

    def __init__(self, module: str = CHILD) -> None:
        """Start it.

        Raises:
            OSError: the system cannot start it.
        """
        # A library may print; what it says is no concern of our terminal.
        self._process, self.connection = starting.connect(module, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert self._process.stdout is not None
        self.said: IO[bytes] = self._process.stdout
        """Its stdout and stderr. They must be read, or the process would block."""
        self._tail = b""
        self.connection.setblocking(False)
        os.set_blocking(self.said.fileno(), False)
        self._hung = ""

    @property
    def pid(self) -> int:
        """Its process id; the system may reuse it after ``end``."""
        return self._process.pid

    def listen(self) -> bool:
        """Read available stdout and stderr; return False once both are closed."""
        with contextlib.suppress(BlockingIOError):
            data = os.read(self.said.fileno(), 1 << 16)
            self._tail = (self._tail + data)[-KEPT:]
            return bool(data)
        return True

    def kill(self, hung: str = "") -> None:
        """Kill it now; ``hung`` describes the step that took too long."""
        self._hung = self._hung or hung
        self._process.kill()

    def end(self) -> str:
        """Kill it if it still runs, close everything, and return how it ended."""
        self.connection.close()
        code: int | None = None
        for _ in range(2):
            with contextlib.suppress(subprocess.TimeoutExpired):
                # What closed its connection is as good as ended, and how it ended is worth waiting for.
                code = self._process.wait(timeout=GRACE)
                break
            self._process.kill()
        tail = b""
        while tail != self._tail:
            tail = self._tail
            self.listen()
        self.said.close()
        return self._hung or _reason(code, self._tail.decode("utf-8", "replace"))


def _reason(code: int | None, tail: str) -> str:
    how = describe_end(code) + (", as the system does when memory runs out" if code == -signal.SIGKILL else "")
    lines = [line.strip() for line in tail.splitlines() if line.strip()]
    last = lines[-1] if lines else ""  # of Python's own tracebacks that is the error; native code goes on after it
    python = any(line.startswith("Traceback") for line in lines)
    said = last if python else next((line for line in lines if TELLING.search(line)), last)
    return f"the model's process {how}" + (f"; it said: {said[:LONGEST_REASON]}" if said else "")
