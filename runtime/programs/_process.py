"""One process of a program: started, fed its prompt, read until it ends, interrupted and killed.

Guarantees for any program:

- It is a child like any other (``runtime.children``): its own session, a trimmed environment, an absolute path, only
  the standard descriptors. On Linux it ends with this program (``child``).
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
from collections.abc import Callable, Iterator
from typing import IO, Literal

from attrs import define, field, frozen

from runtime.children import start as starting
from runtime.children.ending import kill_group
from runtime.programs._tether import command_of

CHUNK = 1 << 16
"""Bytes of one read or write."""
KEPT_FIRST, KEPT_LAST = 2_000, 6_000
"""Bytes of stderr to store: some programs report an error first, others last."""
POLL = 0.2
"""Interval of checking for the end of a process, on systems without a notification."""
DRAIN = 1.0
"""Seconds to read the remaining output of an ended process. All other processes with its outputs open are already
killed.
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
class ProcessTimeouts:
    """Seconds, as in ``ProgramOptions``."""

    deadline: float | None
    silence: float | None
    grace: float


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

    def __init__(self, timeouts: ProcessTimeouts) -> None:
        self._timeouts = timeouts
        self.cancelled: bool = False
        self._lock = threading.RLock()  # a garbage collection may cancel in the middle of anything
        self._wake: int | None = None
        self._stopping: How | None = None
        self._kill_at: float | None = None
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
            process = starting.run(
                command_of(launch.path, launch.arguments),
                env=launch.environ,
                cwd=launch.folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            try:
                return self._attend(process, launch.prompt, on_output, woken)
            except BaseException:
                kill_group(process.pid)
                process.wait()
                raise
            finally:
                for stream in (process.stdin, process.stdout, process.stderr):
                    if stream is not None:
                        with contextlib.suppress(OSError):  # of a pipe whose other end is gone
                            stream.close()
        finally:
            with self._lock:
                self._wake = None
                os.close(wake)
            os.close(woken)

    def _attend(
        self, process: subprocess.Popen[bytes], prompt: bytes, on_output: Callable[[bytes], Reaction], woken: int
    ) -> ProcessEnd:
        stdin, stdout, stderr = process.stdin, process.stdout, process.stderr
        assert stdin is not None
        assert stdout is not None
        assert stderr is not None
        for stream in (stdin, stdout, stderr):
            os.set_blocking(stream.fileno(), False)
        began = heard = time.monotonic()
        left = memoryview(prompt)
        ended: float | None = None
        with _pidfd(process.pid) as pidfd, selectors.DefaultSelector() as selector:
            selector.register(woken, selectors.EVENT_READ)
            selector.register(stdout, selectors.EVENT_READ)
            selector.register(stderr, selectors.EVENT_READ)
            if pidfd is not None:
                selector.register(pidfd, selectors.EVENT_READ)
            if left:
                selector.register(stdin, selectors.EVENT_WRITE)
            else:
                stdin.close()
            reading = 2
            while ended is None or (reading and time.monotonic() < ended + DRAIN):
                now = time.monotonic()
                if ended is None and not self._enforce_timeouts(process, now, began, heard):
                    return ProcessEnd(self._stopping or "itself", None, self._stderr.text())
                for key, _ in selector.select(self._wait(now, began, heard, ended, polled=pidfd is None)):
                    if key.fileobj == pidfd:
                        selector.unregister(key.fileobj)
                        ended = self._kill_group(process)
                    elif key.fileobj == woken:
                        os.read(woken, CHUNK)
                    elif key.fileobj is stdin:
                        left = self._write(stdin, left)
                        heard = time.monotonic()
                        if not left:
                            selector.unregister(stdin)
                            with contextlib.suppress(OSError):
                                stdin.close()
                    else:
                        stream = stdout if key.fileobj is stdout else stderr
                        data = _read(stream)
                        heard = time.monotonic()
                        if data is None:
                            selector.unregister(stream)
                            reading -= 1
                        elif stream is stderr:
                            self._stderr.feed(data)
                        else:
                            self._act_on(process, on_output(data))
                if pidfd is None and ended is None and process.poll() is not None:
                    ended = self._kill_group(process)
        return ProcessEnd(self._stopping or "itself", process.wait(), self._stderr.text())

    def _kill_group(self, process: subprocess.Popen[bytes]) -> float:
        """Kill all that the ended process has left running. Its process id stays reserved until it is reaped."""
        kill_group(process.pid)
        return time.monotonic()

    def _act_on(self, process: subprocess.Popen[bytes], reaction: Reaction) -> None:
        if reaction == "over" and self._over_at is None:
            self._over_at = time.monotonic()
        elif reaction in ("stop", "kill"):
            self._stop(process, "stopped", at_once=reaction == "kill")

    def _enforce_timeouts(self, process: subprocess.Popen[bytes], now: float, began: float, heard: float) -> bool:
        """End the process if it is time; return False if not even a kill ends it."""
        timeouts = self._timeouts
        if self._stopping is None:
            if self._over_at is not None:
                if now >= self._over_at + timeouts.grace:
                    self._stop(process, "lingering")
            elif self.cancelled:
                self._stop(process, "cancelled")
            elif timeouts.deadline is not None and now >= began + timeouts.deadline:
                self._stop(process, "deadline")
            elif timeouts.silence is not None and now >= heard + timeouts.silence:
                self._stop(process, "silence")
        if self._kill_at is not None and now >= self._kill_at:
            if self._killed:
                return False
            self._kill(process, now)
        return True

    def _stop(self, process: subprocess.Popen[bytes], why: How, *, at_once: bool = False) -> None:
        now = time.monotonic()
        if self._stopping is None:
            self._stopping = why
            if not at_once:
                kill_group(process.pid, signal.SIGINT)
                self._kill_at = now + self._timeouts.grace
        if at_once and not self._killed:
            self._kill(process, now)

    def _kill(self, process: subprocess.Popen[bytes], now: float) -> None:
        kill_group(process.pid)
        self._killed = True
        self._kill_at = now + self._timeouts.grace

    def _wait(self, now: float, began: float, heard: float, ended: float | None, *, polled: bool) -> float | None:
        """Return the seconds until the next timeout."""
        timeouts, times = self._timeouts, list[float]()
        if ended is not None:
            times.append(ended + DRAIN)
        elif self._stopping is not None:
            times += [self._kill_at] if self._kill_at is not None else []
        elif self._over_at is not None:
            times.append(self._over_at + timeouts.grace)
        else:
            times += [] if timeouts.deadline is None else [began + timeouts.deadline]
            times += [] if timeouts.silence is None else [heard + timeouts.silence]
        if polled and ended is None:
            times.append(now + POLL)
        return max(min(times) - now, 0.0) if times else None

    @staticmethod
    def _write(stdin: IO[bytes], left: memoryview) -> memoryview:
        try:
            return left[os.write(stdin.fileno(), left[:CHUNK]) :]
        except BlockingIOError:
            return left
        except OSError:  # it reads no more: what it says, and how it ends, tells why
            return left[:0]


def _read(stream: IO[bytes]) -> bytes | None:
    try:
        return os.read(stream.fileno(), CHUNK) or None
    except BlockingIOError:
        return b""


@contextlib.contextmanager
def _pidfd(pid: int) -> Iterator[int | None]:
    """Yield a descriptor that becomes readable when the process ends, before it is reaped; None if unsupported."""
    descriptor = None
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # a kernel before 5.3
            descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)
