"""One process of a program: started, fed its prompt, read until it ends, interrupted and killed.

Guarantees for any program:

- It is a child like any other (``runtime.children``): its own session, a trimmed environment, an absolute path, only
  the standard descriptors. On Linux it ends with this program (``command_of``).
- Its prompt is written while its output is read, so neither side waits for the other. Both outputs are read to their
  ends; the beginning and the end of stderr are stored.
- It is interrupted, and later killed, if it takes too long, is silent for too long, or is cancelled. All child
  processes in its process group end with it, also after a normal exit.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from math import inf
from multiprocessing import spawn
from typing import IO, Any, Literal

from attrs import define, field, frozen

from runtime.children import start as starting
from runtime.children.boot import DIE_WITH_PARENT
from runtime.children.ending import kill_group
from runtime.programs.options import ProgramOptions

CHUNK = 1 << 16
"""Bytes of one read or write."""
KEPT_FIRST, KEPT_LAST = 2_000, 6_000
"""Bytes of stderr to store: some programs report an error first, others last."""
POLL = 0.2
"""Interval of checking for the end of a process, on systems without a notification."""
KILLED = 5.0
"""Seconds, at least, to wait for the end of a killed process. A busy machine needs more than a short grace; a process
that hangs in the kernel never ends.
"""
DRAIN = 1.0
"""Seconds to read the remaining output of an ended process. All other processes with its outputs open are already
killed.
"""

CANT_START = 126

BECOME = f"""
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl({DIE_WITH_PARENT}, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):  # it went before the line above
    os._exit(0)
signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores these, and the program would too
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
try:
    os.execv(sys.argv[2], sys.argv[2:])
except OSError as error:
    os.write(2, f"{{sys.argv[2]}} can't be started: {{error.strerror}}".encode("utf-8", "replace"))
    os._exit({CANT_START})
"""
"""A few lines of Python that tie a process to this one, before it becomes the program.

Only Linux can end a process together with its parent in all cases, and only the process itself can request it. So on
Linux it starts as a Python that does so and then executes the program, with the same process id. This takes 20 ms and
imports nothing of ours, which would take thirty times as long. On other systems, and in frozen programs, the program
starts directly.
"""

Reaction = Literal["more", "over", "stop", "kill"]
"""Reaction to an output: continue; wait for the end after a complete reply; interrupt; kill immediately."""

How = Literal["itself", "cancelled", "deadline", "silence", "stopped", "lingering"]
"""Why a process ended: normally, cancelled, too slow, silent for too long, stopped by its reader, or still running
after the complete reply.
"""


@frozen
class Launch:
    """The start parameters of a process."""

    path: str
    """Absolute."""
    arguments: list[str]
    environ: dict[str, str] = field(repr=False)
    folder: str
    prompt: bytes = field(repr=False)


@frozen
class ProcessEnd:
    """How a process ended."""

    how: How
    code: int | None
    """Its exit code, or the negative signal number. None if it never started, or if not even SIGKILL ends it."""
    stderr: str = ""


@define
class _StreamEnds:
    """The beginning and the end of a stream."""

    first: bytes = b""
    last: bytes = b""

    def feed(self, data: bytes) -> None:
        room = KEPT_FIRST - len(self.first)
        self.first += data[:room]
        self.last = (self.last + data[room:])[-KEPT_LAST:] if room < len(data) else self.last

    def text(self) -> str:
        return (self.first + self.last).decode("utf-8", "replace").strip()


class RunningProcess:
    """One process. ``run`` is called once, on the thread of its reply; ``cancel`` on any, at any time."""

    def __init__(self, options: ProgramOptions) -> None:
        self._options = options
        self.cancelled: bool = False
        self._lock = threading.RLock()  # a garbage collection may cancel in the middle of anything
        self._wake: int | None = None
        self._stopping: How | None = None
        self._kill_at = inf
        self._killed = False
        self._over_at: float | None = None
        self._stderr = _StreamEnds()

    def cancel(self) -> None:
        """End the process soon; does nothing after its end."""
        with self._lock:
            self.cancelled = True
            if self._wake is not None:
                with contextlib.suppress(BlockingIOError):  # full of wakes that nobody has seen yet
                    os.write(self._wake, b"!")

    def run(self, launch: Launch, on_output: Callable[[bytes], Reaction]) -> ProcessEnd:
        """Start it and serve it until it has ended.

        Args:
            launch: the start parameters.
            on_output: called with each piece of its stdout.

        Raises:
            OSError: the system cannot start it.
        """
        woken, wake = os.pipe()
        os.set_blocking(wake, False)
        with self._lock:
            self._wake = wake
        try:
            if self.cancelled:
                return ProcessEnd("cancelled", None)
            command = command_of(launch.path, launch.arguments)
            pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
            process = starting.run(command, env=launch.environ, cwd=launch.folder, bufsize=0, **pipes)
            streams = [stream for stream in (process.stdin, process.stdout, process.stderr) if stream is not None]
            streams += _open_end(process.pid)
            try:
                return self._attend(process, streams, launch.prompt, on_output, woken)
            except BaseException:
                kill_group(process.pid)
                process.wait()
                raise
            finally:
                for stream in streams:
                    stream.close()
        finally:
            with self._lock:
                self._wake = None
                os.close(wake)
            os.close(woken)

    def _attend(
        self,
        process: subprocess.Popen[bytes],
        streams: list[IO[bytes]],
        prompt: bytes,
        on_output: Callable[[bytes], Reaction],
        woken: int,
    ) -> ProcessEnd:
        stdin, stdout, stderr, *end = streams
        for stream in streams:
            os.set_blocking(stream.fileno(), False)
        began = heard = time.monotonic()
        left = memoryview(prompt)
        ended: float | None = None
        with selectors.DefaultSelector() as selector:
            selector.register(woken, selectors.EVENT_READ)
            selector.register(stdin, selectors.EVENT_WRITE)
            for stream in (stdout, stderr, *end):
                selector.register(stream, selectors.EVENT_READ)
            reading = 2
            while ended is None or (reading and time.monotonic() < ended + DRAIN):
                now = time.monotonic()
                if ended is None:
                    due, why = self._next_end(began, heard)
                    if due <= now:
                        if self._killed:  # not even that ends it
                            return ProcessEnd(self._stopping or "itself", None, self._stderr.text())
                        self._end(process, why, at_once=self._stopping is not None)
                        due = self._kill_at
                    due = due if end else min(due, now + POLL)
                else:
                    due = ended + DRAIN
                for key, _ in selector.select(None if due == inf else max(due - now, 0.0)):
                    if key.fileobj in end:
                        selector.unregister(key.fileobj)
                        ended = _kill_rest(process)
                    elif key.fileobj == woken:
                        os.read(woken, CHUNK)
                    elif key.fileobj is stdin:
                        heard = time.monotonic()
                        try:
                            left = left[stdin.write(left[:CHUNK]) or 0 :]
                        except OSError:  # it reads no more: what it says, and how it ends, tells why
                            left = left[:0]
                        if not left:
                            selector.unregister(stdin)
                            stdin.close()
                    else:
                        stream = stdout if key.fileobj is stdout else stderr
                        data: bytes | None = stream.read(CHUNK)
                        heard = time.monotonic()
                        if data == b"":
                            selector.unregister(stream)
                            reading -= 1
                        elif stream is stderr:
                            self._stderr.feed(data or b"")
                        elif data:
                            reaction = on_output(data)
                            if reaction == "over":
                                self._over_at = self._over_at or heard
                            elif reaction != "more":
                                self._end(process, "stopped", at_once=reaction == "kill")
                if not end and ended is None and process.poll() is not None:
                    ended = _kill_rest(process)
        return ProcessEnd(self._stopping or "itself", process.wait(), self._stderr.text())

    def _next_end(self, began: float, heard: float) -> tuple[float, How]:
        """Return when the process must be interrupted or killed, and why."""
        if self._stopping is not None:
            return self._kill_at, self._stopping
        options = self._options
        if self._over_at is not None:
            return self._over_at + options.grace, "lingering"
        if self.cancelled:
            return -inf, "cancelled"
        deadline = inf if options.deadline is None else began + options.deadline
        silence = inf if options.silence is None else heard + options.silence
        return (deadline, "deadline") if deadline <= silence else (silence, "silence")

    def _end(self, process: subprocess.Popen[bytes], why: How, *, at_once: bool) -> None:
        """Interrupt the process, and all in its group; or kill them. The first reason counts."""
        if self._killed or (self._stopping is not None and not at_once):
            return
        self._stopping = self._stopping or why
        self._killed = at_once
        grace = self._options.grace
        self._kill_at = time.monotonic() + (max(grace, KILLED) if at_once else grace)
        kill_group(process.pid, signal.SIGKILL if at_once else signal.SIGINT)


def _kill_rest(process: subprocess.Popen[bytes]) -> float:
    """Kill all that the ended process has left running. Its process id stays reserved until it is reaped."""
    kill_group(process.pid)
    return time.monotonic()


def command_of(path: str, arguments: Sequence[str]) -> list[str]:
    """Return the command that starts a program at an absolute path."""
    if sys.platform != "linux" or getattr(sys, "frozen", False):
        return [path, *arguments]
    return [os.fsdecode(spawn.get_executable()), "-I", "-S", "-c", BECOME, str(os.getpid()), path, *arguments]


def _open_end(pid: int) -> list[IO[bytes]]:
    """Return a file that becomes readable when the process ends, before it is reaped; none if that is unsupported."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # a kernel before 5.3
            return [os.fdopen(os.pidfd_open(pid), "rb", 0)]
    return []
