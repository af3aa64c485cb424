"""One child process from the parent's side: how it is started, what is read from it, how it ended."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from multiprocessing import spawn

from runtime.isolated.frozen import FLAG

CHILD = "runtime.isolated.child"
"""The module whose ``main`` the child runs."""

BOOT = (
    "import json, sys; from importlib import import_module; "
    "sys.path[:] = json.loads(sys.argv[1]); import_module(sys.argv[2]).main()"
)
"""What Python is told to run: nothing of the program that starts it, so that scripts need no
``if __name__ == "__main__"``, and a notebook or ``python -c`` will do; but modules are found where it finds them."""

GRACE = 2.0
"""Seconds for a process that has closed its connection, and again after it was killed: not even that ends one that a
driver holds in the kernel. Such a one is left to the system."""

KEPT = 4096
"""Bytes of the last that a process wrote to its stderr, among which the reason of its end is looked for."""

NAMES = {int(number): number.name for number in signal.Signals}

TELLING = re.compile(r"assert|error|abort|terminat|fatal|exception|out of memory", re.IGNORECASE)
LONGEST_REASON = 300
"""Characters."""


class Child:
    """A process that was started, and the connection to it. Used by one thread, which has to live as long as it does:
    Linux ends a child that asked for it with the *thread* that started it.
    """

    def __init__(self, module: str = CHILD, folder: str | None = None) -> None:
        """Start it, in a folder if there is one.

        Raises:
            OSError: the system can't.
        """
        self.connection, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = subprocess.Popen(
                    _command(module, theirs.fileno()),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,  # a library may print; what it says is no concern of our terminal
                    stderr=subprocess.STDOUT,
                    cwd=folder,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,  # else Ctrl-C on our terminal would be its end as well
                )
            except BaseException:
                self.connection.close()
                raise
        assert self._process.stdout is not None
        self.said = self._process.stdout
        """What it writes to stdout and stderr. It has to be read, else the process would wait."""
        self._tail = b""
        self.connection.setblocking(False)
        os.set_blocking(self.said.fileno(), False)
        self._hung = ""

    @property
    def pid(self) -> int:
        """Its number; another process may have it after ``end``."""
        return self._process.pid

    def listen(self) -> bool:
        """Read what it has written to stdout and stderr; False once it has closed both."""
        with contextlib.suppress(BlockingIOError):
            data = os.read(self.said.fileno(), 1 << 16)
            self._tail = (self._tail + data)[-KEPT:]
            return bool(data)
        return True

    def kill(self, hung: str = "") -> None:
        """End it now; ``hung`` says what it was that took too long."""
        self._hung = self._hung or hung
        self._process.kill()

    def end(self) -> str:
        """Kill it if it still runs, close everything, and say how it ended."""
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


def _command(module: str, connection: int) -> list[str]:
    end = [str(connection), str(os.getpid())]
    if getattr(sys, "frozen", False):
        return [sys.executable, FLAG, module, *end]
    path = [os.path.abspath(place) for place in sys.path]
    # -P: before sys.path is set, nothing is imported from the working directory.
    return [os.fsdecode(spawn.get_executable()), "-P", "-c", BOOT, json.dumps(path), module, *end]


def _reason(code: int | None, tail: str) -> str:
    """How a process ended, in words."""
    if code is None:
        how = "can't be ended: the kernel holds it"
    elif code >= 0:
        how = f"ended with code {code}"
    else:
        how = f"was killed by {NAMES.get(-code, f'signal {-code}')}"
        if -code == signal.SIGKILL:
            how += ", as the system does when memory runs out"
    lines = [line.strip() for line in tail.splitlines() if line.strip()]
    last = lines[-1] if lines else ""  # of Python's own tracebacks that is the error; native code goes on after it
    python = any(line.startswith("Traceback") for line in lines)
    said = last if python else next((line for line in lines if TELLING.search(line)), last)
    return f"the model's process {how}" + (f"; it said: {said[:LONGEST_REASON]}" if said else "")
