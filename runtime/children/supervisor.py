"""Run one program, such as a shell's command, and make sure that all its processes end.

Runs as a process of its own, from memory (``in_memory``), between the calling program and the command. To start fast,
it imports nothing else from this project. Its input is a JSON request, preceded by its length in ``LENGTH`` digits, and
then single letters: ``e`` asks the command to end, ``k`` kills it. The end of the input means that the calling program
is gone, and also asks the command to end. Its output is one JSON object per line with the status of the command.

On Linux all processes of the command stay descendants of this process, even after forks, ``setsid`` or the death of a
parent: orphans become its children (``PR_SET_CHILD_SUBREAPER``). So the command is over when this process has no more
children. Until then it finds the remaining processes in ``/proc``. On other systems it knows only the command's process
group.
"""

import json
import os
import select
import signal
import sys
import time
from contextlib import suppress
from typing import Any, NamedTuple

DIE_WITH_PARENT = 1
"""``PR_SET_PDEATHSIG`` from Linux's ``prctl.h``."""
TAKE_ORPHANS = 36
"""``PR_SET_CHILD_SUBREAPER`` from Linux's ``prctl.h``."""
OFTENEST_VICTIM = "500"
"""OOM score, up to 1000, as for our other child processes: if memory runs out, the kernel kills a command before the
calling program.
"""

LENGTH = 9
"""Digits of the length before a request, in bytes."""
LOOK = 0.02
"""Seconds between two scans for processes to kill."""
STUBBORN_SECONDS = 2.0
"""Seconds to keep killing. Processes that are left then belong to another user or hang in the kernel."""
NAMED = 10
"""Remaining processes that are listed by name."""

FIRST = 20
"""The least number of a descriptor for an input, as in ``in_memory``."""

LINUX = sys.platform == "linux"


def main() -> None:
    size = _read_exactly(LENGTH)
    request = _read_exactly(int(size)) if len(size) == LENGTH else b""
    if request:  # else the program has gone before it could ask
        CommandSupervisor(json.loads(request)).keep()


def _read_exactly(size: int) -> bytes:
    data = b""
    while len(data) < size and (more := os.read(0, size - len(data))):
        data += more
    return data


class CommandSupervisor:
    """Runs one command.

    Args:
        request: a dictionary with these keys:

            - ``command``: its words. ``{"input": data}`` becomes the number of a descriptor, from which the program
              reads these bytes, here in base64.
            - ``environ``: its environment variables.
            - ``pipes``: the descriptors for its input, output and errors; the first may be None for no input.
            - ``parent``: the process id of the caller.
            - ``linger``: seconds that remaining processes may run after the shell has ended.
            - ``grace``: seconds between asking to end and killing.
    """

    def __init__(self, request: dict[str, Any]) -> None:
        self._request = request
        self._shell = 0
        """Process id of the command itself, the leader of its session and group."""
        self._linger_until: float | None = None
        """When what is left of the command is asked to end; None until the command itself has ended."""
        self._force_at: float | None = None
        """When all is killed; None until it is asked to end."""
        self._give_up_at: float | None = None
        self._wake, self._woken = os.pipe()

    def keep(self) -> None:
        """Start the command and wait until all its processes have ended."""
        for end in (self._wake, self._woken):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda _number, _frame: None)  # it only wakes ``select``
        if LINUX:
            _prctl(TAKE_ORPHANS, 1)
            _prctl(DIE_WITH_PARENT, signal.SIGTERM)
        if os.getppid() != self._request["parent"] or not self._start():  # it went before the lines above
            return
        listening = [0, self._wake]
        while self._reap():
            now = time.monotonic()
            due = self._look(now)
            ready, _, _ = select.select(listening, [], [], None if due is None else max(0.0, due - now))
            if self._wake in ready and signal.SIGTERM in os.read(self._wake, 4096):
                self._ask()
            if 0 in ready:
                letters = os.read(0, 64)
                if not letters:
                    listening.remove(0)
                self._ask()
                if b"k" in letters:
                    self._force_at = time.monotonic()
        _report({"over": True})

    def _start(self) -> bool:
        failed, failing = os.pipe()
        self._shell = os.fork()
        if not self._shell:
            _exec_command(self._request, failing)
        os.close(failing)
        _close(self._request["pipes"])
        number = os.read(failed, 16)  # empty as soon as the other program runs, since this pipe closes with that
        os.close(failed)
        if number:
            os.waitpid(self._shell, 0)
            _report({"failed": os.strerror(int(number))})
            return False
        _report({"began": self._shell})
        return True

    def _reap(self) -> bool:
        """Collect ended processes. Returns whether any process is left."""
        while True:
            try:
                process, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return not LINUX and _is_group_alive(self._shell)
            if not process:
                return True
            if process == self._shell:
                self._linger_until = time.monotonic() + self._request["linger"]
                _report({"ended": os.waitstatus_to_exitcode(status)})

    def _look(self, now: float) -> float | None:
        """Do the work that is due. Returns the time of the next check; None to wait for a message or signal."""
        if self._linger_until is not None and self._force_at is None:
            if now < self._linger_until:
                return self._linger_until if LINUX else now + LOOK
            _report({"left": _labels()})
            self._ask()
        if self._force_at is None:
            return None
        if now < self._force_at:
            return self._force_at if LINUX else now + LOOK
        self._give_up_at = self._give_up_at or now + STUBBORN_SECONDS
        if now > self._give_up_at:
            _report({"survived": _labels(), "over": True})
            os._exit(0)
        self._kill()
        return now + LOOK

    def _ask(self) -> None:
        """Ask all processes to end, and set the time for killing them."""
        if self._force_at is not None:
            return
        self._force_at = time.monotonic() + self._request["grace"]
        for process in descendants(os.getpid()):
            process.send(signal.SIGTERM)
            process.send(signal.SIGCONT)  # what is stopped would not hear of it
        self._send_group(signal.SIGTERM)

    def _kill(self) -> None:
        # Stopped first, since what runs might begin others faster than they are found.
        stopped: set[int] = set()
        while found := [process for process in descendants(os.getpid()) if process.number not in stopped]:
            for process in found:
                process.send(signal.SIGSTOP)
                stopped.add(process.number)
        for process in descendants(os.getpid()):
            process.send(signal.SIGKILL)
        self._send_group(signal.SIGKILL)

    def _send_group(self, number: int) -> None:
        if not LINUX or not os.path.isdir("/proc/self"):
            with suppress(OSError):  # nobody is in it any more
                os.killpg(self._shell, number)


class ProcessInfo(NamedTuple):
    """A process at one point in time. Another process may later reuse its number; ``begun`` tells them apart."""

    number: int
    parent: int
    session: int
    begun: str
    name: str

    @property
    def label(self) -> str:
        return f"{self.name} ({self.number})"

    def send(self, signal_number: int) -> None:
        """Send it a signal, but never to another process that reuses its number."""
        try:
            held = os.pidfd_open(self.number)
        except (AttributeError, OSError):  # it has gone; or this system knows no such handles
            held = None
        try:
            now = _process(self.number)
            if now is None or now.begun != self.begun:
                return
            if held is None:
                os.kill(self.number, signal_number)
            else:
                signal.pidfd_send_signal(held, signal_number)
        except OSError:  # it has gone, or it is not ours to send to
            return
        finally:
            if held is not None:
                os.close(held)


def processes() -> list[ProcessInfo]:
    """Return all running processes that this system lists, without zombies."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    found = (_process(int(name)) for name in names if name.isdigit())
    return [process for process in found if process is not None]


def descendants(ancestor: int) -> list[ProcessInfo]:
    """Return all descendants of a process."""
    if not LINUX:
        return []
    children: dict[int, list[ProcessInfo]] = {}
    for process in processes():
        children.setdefault(process.parent, []).append(process)
    found = list(children.get(ancestor, ()))
    for process in found:  # it grows meanwhile
        found += children.get(process.number, ())
    return found


def _labels() -> list[str]:
    """Return the names of the remaining processes. A long list is cut and ends with the number of the others."""
    names = [process.label for process in descendants(os.getpid())] or ["of no known name"]  # it was replaced meanwhile
    return names if len(names) <= NAMED else [*names[:NAMED], f"and {len(names) - NAMED} more"]


def _process(number: int) -> "ProcessInfo | None":
    try:
        with open(f"/proc/{number}/stat", "rb") as file:
            text = file.read().decode("utf-8", "backslashreplace")
    except OSError:
        return None
    start, end = text.find("("), text.rfind(")")  # a name may hold either
    fields = text[end + 2 :].split()
    if len(fields) < 20 or fields[0] in "ZX":
        return None
    return ProcessInfo(number, int(fields[1]), int(fields[3]), fields[19], text[start + 1 : end])


def _exec_command(request: dict[str, Any], failing: int) -> None:
    try:
        os.setsid()
        if LINUX:
            _prctl(DIE_WITH_PARENT, signal.SIGKILL)
            with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
                file.write(OFTENEST_VICTIM)  # a container may forbid it
        nothing = os.open(os.devnull, os.O_RDWR)
        for number, pipe in enumerate(request["pipes"]):
            os.dup2(nothing if pipe is None else pipe, number)
        _close(request["pipes"])
        signal.set_wakeup_fd(-1)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            with suppress(OSError, ValueError):  # the C library keeps some for itself
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        words = [os.fsencode(one if isinstance(one, str) else _input(one["input"])) for one in request["command"]]
        os.execve(words[0], words, request["environ"])
    except OSError as error:
        os.write(failing, str(error.errno).encode())
    finally:
        os._exit(127)


def _input(text: str) -> str:
    """Return the number of a descriptor with these bytes."""
    from binascii import a2b_base64
    from fcntl import F_DUPFD, fcntl

    data = memoryview(a2b_base64(text))
    file = os.memfd_create("cogstep")
    while data:
        data = data[os.write(file, data) :]
    os.lseek(file, 0, os.SEEK_SET)
    number = fcntl(file, F_DUPFD, FIRST)
    os.close(file)
    return str(number)


def _close(pipes: "list[int | None]") -> None:
    """Close the passed descriptors, except standard input, output and errors."""
    for pipe in set(pipes):
        if pipe is not None and pipe > 2:
            os.close(pipe)


def _prctl(option: int, value: int) -> None:
    import ctypes  # takes a while, and only this process needs it, not the program that it works for

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _is_group_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except OSError:
        return False
    return True


def _report(value: dict[str, object]) -> None:
    with suppress(OSError):  # nobody listens any more, and there is still something to end
        os.write(1, (json.dumps(value) + "\n").encode())
