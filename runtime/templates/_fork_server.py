"""A fork server for template processes: one process with all imports loaded, which forks them.

Starting Python takes a quarter of a second of CPU time, a fork takes some milliseconds. A template whose process ended
must start again, and a program may have many. The nest (this server) itself never receives a template.

    program ── "fork", a socket ──▶ nest ── forks ──▶ renderer, which holds that socket
    program ── "end", number ─────▶ nest, which kills, waits, and returns the exit status

Program and renderer then exchange frames: JSON in UTF-8 after a header of fixed size (``HEAD``). Nothing is ever
unpickled or evaluated.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import threading
from typing import Any

from runtime.children import start as starting
from runtime.errors import TemplateError

PROGRAM = "runtime.templates.renderer_process"
"""The module whose ``main`` the nest runs."""

ENVIRONMENT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH")
"""Environment variables that Python itself may need to start."""

START_SECONDS = 30.0
"""Seconds for Python to start; no template can delay it."""

GRACE = 5.0
"""Seconds for an answer of the nest, which has no other work."""

FORK, END = 0, 1
ASKED, ANSWERED = struct.Struct(">Bq"), struct.Struct(">q")
"""A request: the operation and the process. An answer: the number of a new process, or an exit status as in
``subprocess``.
"""

HEAD = struct.Struct(">IdQ")
"""The header of a frame:

- 4 bytes: length of the JSON
- 8 bytes: in a question, the limit of CPU seconds for the answer; in an answer, those used
- 8 bytes: in a question, the limit of characters for the rendered text; in an answer, the peak memory of the process in
  bytes
"""

LONGEST = 1 << 30
"""Bytes of a frame. A real conversation is never a gigabyte."""


def body_of(data: Any) -> bytes:
    """Return the JSON of a frame.

    Raises:
        TypeError, ValueError, RecursionError: the data is not JSON, or is nested too deeply.
    """
    # Text of users may hold half of a surrogate pair, which no JSON text can; ours can.
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def data_of(body: bytes | bytearray) -> Any:
    """Decode the JSON of a frame.

    Raises:
        ValueError, RecursionError: it is not JSON, or nested too deeply.
    """
    return json.loads(body.decode("utf-8", "surrogatepass"))


class ForkServer:
    """The fork server's process, and the connection to it. Thread-safe."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        # A signal may come in the middle of anything: this may be taken twice by one thread, and what is to be ended
        # then waits until the answer that is awaited has come.
        self._lock = threading.RLock()
        self._asking = False
        self._later: list[int] = []
        self._living: set[int] = set()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def fork(self, *, again: bool = True) -> tuple[int, socket.socket]:
        """Start a process and return its id and the connection to it. With ``again``, a server that has ended is
        replaced.

        Raises:
            TemplateError: the system can't.
        """
        with self._lock:
            ours, theirs = socket.socketpair()
            try:
                with theirs:
                    return self._ask(FORK, 0, theirs), ours
            except OSError as error:
                ours.close()
                self.close()  # perhaps somebody has ended it
                if again:
                    return self.fork(again=False)
                raise TemplateError(
                    "the chat template is none that cogstep knows, so it runs in a process of its own, and "
                    f"none can be started ({error.strerror or error}); see what holds the system back"
                ) from error

    def end(self, pid: int) -> int | None:
        """Kill one of its processes if it still runs, and return its exit status; None if unknown."""
        with self._lock:
            if self._connection is None:
                return None  # its processes have ended with it
            if self._asking:
                self._later.append(pid)
                return None
            try:
                return self._ask(END, pid)
            except OSError:
                self.close()
                return None

    def rest(self) -> None:
        """End the server if none of its processes still runs."""
        with self._lock:
            if not self._living and not self._asking:
                self.close()

    def close(self) -> None:
        with self._lock:
            process, connection = self._process, self._connection
            self._process = self._connection = None
            self._later.clear()
            self._living.clear()
            if connection is not None:
                connection.close()
            if process is not None:
                process.kill()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=GRACE)

    def forget(self) -> None:
        """Release the server in a forked copy of the program: it belongs to the original."""
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            self._process.returncode = 0  # else it would be waited for here
        self.__init__()  # type: ignore[misc]  # as new, lock and all

    def _ask(self, what: int, pid: int, theirs: socket.socket | None = None) -> int:
        answer = self._exchange(what, pid, theirs)
        if what == FORK and answer > 0:
            self._living.add(answer)
        while self._later:
            self._exchange(END, self._later.pop())
        if what == FORK and answer < 0:
            raise OSError(-answer, os.strerror(-answer))
        return answer

    def _exchange(self, what: int, pid: int, theirs: socket.socket | None = None) -> int:
        connection = self._connection or self._start()
        self._living.discard(pid)
        self._asking = True
        try:
            if theirs is None:
                connection.sendall(ASKED.pack(what, pid))
            else:
                socket.send_fds(connection, [ASKED.pack(what, pid)], [theirs.fileno()])
            (answer,) = ANSWERED.unpack(_receive(connection))
            return int(answer)
        except BaseException:  # the next answer would be that of this question
            self.close()
            raise
        finally:
            self._asking = False

    def _start(self) -> socket.socket:
        environ = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
        self._process, connection = starting.connect(PROGRAM, environ=environ, stderr=subprocess.DEVNULL)
        try:
            connection.settimeout(START_SECONDS)
            _receive(connection)  # its greeting
        except BaseException:
            connection.close()
            raise
        connection.settimeout(GRACE)
        self._connection = connection
        return connection


def _receive(connection: socket.socket) -> bytes:
    data = connection.recv(ANSWERED.size, socket.MSG_WAITALL)
    if len(data) < ANSWERED.size:
        raise ConnectionResetError(0, "it ended")
    return data


def serve(connection: socket.socket) -> socket.socket:
    """Run the server until it is closed. Returns in each forked process, with that process's connection.

    The server has no threads, so that a fork is complete.
    """
    living: set[int] = set()
    connection.sendall(ANSWERED.pack(0))
    while True:
        asked, descriptors, _, _ = socket.recv_fds(connection, ASKED.size, 1)
        if len(asked) < ASKED.size:
            os._exit(0)  # the program is gone, or wants no more
        what, pid = ASKED.unpack(asked)
        if what == FORK:
            try:
                answer = os.fork()
            except OSError as error:
                answer = -(error.errno or 1)
            if answer == 0:
                connection.close()
                return socket.socket(fileno=descriptors[0])
            if answer > 0:
                living.add(answer)
        elif pid in living:
            os.kill(pid, signal.SIGKILL)  # it may have ended already: its number is its own until it was waited for
            answer = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            living.discard(pid)
        else:
            answer = 0
        for descriptor in descriptors:
            os.close(descriptor)
        connection.sendall(ANSWERED.pack(answer))


FORK_SERVER = ForkServer()
