"""Keeps one program, such as a shell's command: starts it, waits for it, and sees to it that no process of it is left.

Runs as a program of its own, ``python -I -S keeper.py``, between the program that wants a command and the command.
Nothing of this project is imported here, so that it starts fast. On its input it reads the request, which is JSON
behind its length in ``LENGTH`` digits, and then letters: ``e`` asks the command to end, ``k`` ends it at once. The end
of its input means that the program has gone, and asks the command to end too. On its output it writes one JSON object
a line: what became of the command.

On Linux every process that the command begins stays below this one, whoever forks, calls ``setsid`` or loses its
parent: what is orphaned is given to this process (``PR_SET_CHILD_SUBREAPER``). So the command is over when this process
has no child any more, and until then all that is left is found by going through ``/proc``. Elsewhere only the command's
process group is known.
"""

import json
import os
import select
import signal
import sys
import time
from typing import Any

DIE_WITH_PARENT = 1
"""``PR_SET_PDEATHSIG`` of Linux's ``prctl.h``."""
TAKE_ORPHANS = 36
"""``PR_SET_CHILD_SUBREAPER``, likewise."""
OFTENEST_VICTIM = "500"
"""Of 1000, as for our other children: where memory runs out, a command goes before the program that began it."""

LENGTH = 9
"""Digits before a request: its bytes."""
LOOK = 0.02
"""Seconds between two looks for what is to be killed."""
STUBBORN_SECONDS = 2.0
"""How long killing is tried: what is left then is not ours to kill (another user's), or the kernel holds it."""
NAMED = 10
"""Processes that are named, of those that were left."""

LINUX = sys.platform == "linux"


def main() -> None:
    size = _exactly(LENGTH)
    request = _exactly(int(size)) if len(size) == LENGTH else b""
    if request:  # else the program has gone before it could ask
        Keeper(json.loads(request)).keep()


def _exactly(size: int) -> bytes:
    """So many bytes of the input; fewer where it ends."""
    data = b""
    while len(data) < size and (more := os.read(0, size - len(data))):
        data += more
    return data


class Keeper:
    """One command.

    Args:
        request: ``command`` (its words), ``environ``, ``pipes`` (the descriptors that become its input, output and
            errors, of which the first may be None for no input), ``parent`` (the process that asks), ``linger`` (the
            seconds that the rest may go on for when the shell has ended), ``grace`` (the seconds between asking to end
            and killing).
    """

    def __init__(self, request: dict[str, Any]) -> None:
        self._request = request
        self._pipes: list[int | None] = request["pipes"]
        self._shell = 0
        """The process of the command itself, which leads its session and its group."""
        self._shell_ended = False
        self._asked = False
        self._force_at: float | None = None
        self._give_up_at: float | None = None
        self._linger_until: float | None = None
        self._wake, self._woken = os.pipe()

    def keep(self) -> None:
        """Start the command and wait until nothing of it is left."""
        for end in (self._wake, self._woken):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, _nothing)
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
            if self._wake in ready and signal.SIGTERM in _emptied(self._wake):
                self._ask()
            if 0 in ready:
                letters = os.read(0, 64)
                if not letters:
                    listening.remove(0)
                self._ask()
                if b"k" in letters:
                    self._force_at = time.monotonic()
        _say({"over": True})

    def _start(self) -> bool:
        failed, failing = os.pipe()
        self._shell = os.fork()
        if not self._shell:
            _become(self._request, self._pipes, failing)
        os.close(failing)
        _close(self._pipes)
        number = os.read(failed, 16)  # empty as soon as the other program runs, since this pipe closes with that
        os.close(failed)
        if number:
            os.waitpid(self._shell, 0)
            _say({"failed": os.strerror(int(number))})
            return False
        _say({"began": self._shell})
        return True

    def _reap(self) -> bool:
        """Take in who has ended. Whether anybody is left."""
        while True:
            try:
                process, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return not LINUX and _group_lives(self._shell)
            if not process:
                return True
            if process == self._shell:
                self._shell_ended = True
                self._linger_until = time.monotonic() + self._request["linger"]
                _say({"ended": os.waitstatus_to_exitcode(status)})

    def _look(self, now: float) -> float | None:
        """Do what is due. When to look again; None if nothing is to be done until somebody says something."""
        if self._shell_ended and not self._asked and self._linger_until is not None:
            if now < self._linger_until:
                return self._linger_until if LINUX else now + LOOK
            _say({"left": _labels()})
            self._ask()
        if self._force_at is None:
            return None
        if now < self._force_at:
            return self._force_at if LINUX else now + LOOK
        if self._give_up_at is None:
            self._give_up_at = now + STUBBORN_SECONDS
        if now > self._give_up_at:
            _say({"survived": _labels(), "over": True})
            os._exit(0)
        self._kill()
        return now + LOOK

    def _ask(self) -> None:
        """Ask all of it to end, and note when it will be killed."""
        if self._asked:
            return
        self._asked = True
        self._force_at = time.monotonic() + self._request["grace"]
        for process in below(os.getpid()):
            process.send(signal.SIGTERM)
            process.send(signal.SIGCONT)  # what is stopped would not hear of it
        self._send_group(signal.SIGTERM)

    def _kill(self) -> None:
        # Stopped first, since what runs might begin others faster than they are found.
        stopped: set[int] = set()
        while found := [process for process in below(os.getpid()) if process.number not in stopped]:
            for process in found:
                process.send(signal.SIGSTOP)
                stopped.add(process.number)
        for process in below(os.getpid()):
            process.send(signal.SIGKILL)
        self._send_group(signal.SIGKILL)

    def _send_group(self, number: int) -> None:
        if not LINUX or not os.path.isdir("/proc/self"):
            try:
                os.killpg(self._shell, number)
            except OSError:  # nobody is in it any more
                return


class Process:
    """A process as it was found, which is another one if the system gives its number anew."""

    def __init__(self, number: int, parent: int, session: int, begun: str, name: str) -> None:
        self.number = number
        self.parent = parent
        self.session = session
        self.begun = begun
        self.name = name

    @property
    def label(self) -> str:
        return f"{self.name} ({self.number})"

    def send(self, signal_number: int) -> None:
        """Send it a signal, and nobody who has its number by now."""
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


def processes() -> list[Process]:
    """All that run, as far as this system lists them; those that have ended and wait for their parent are left out."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    found = (_process(int(name)) for name in names if name.isdigit())
    return [process for process in found if process is not None]


def below(ancestor: int) -> list[Process]:
    """The processes whose parent, or parent's parent, and so on, is this one."""
    if not LINUX:
        return []
    children: dict[int, list[Process]] = {}
    for process in processes():
        children.setdefault(process.parent, []).append(process)
    found = list(children.get(ancestor, ()))
    for process in found:  # it grows meanwhile
        found += children.get(process.number, ())
    return found


def _labels() -> list[str]:
    """What is left, by name; of many only some, and how many more there are."""
    names = [process.label for process in below(os.getpid())] or ["of no known name"]  # it was replaced meanwhile
    return names if len(names) <= NAMED else [*names[:NAMED], f"and {len(names) - NAMED} more"]


def _process(number: int) -> "Process | None":
    try:
        with open(f"/proc/{number}/stat", "rb") as file:
            text = file.read().decode("utf-8", "backslashreplace")
    except OSError:
        return None
    start, end = text.find("("), text.rfind(")")  # a name may hold either
    fields = text[end + 2 :].split()
    if len(fields) < 20 or fields[0] in "ZX":
        return None
    return Process(number, int(fields[1]), int(fields[3]), fields[19], text[start + 1 : end])


def _become(request: dict[str, Any], pipes: "list[int | None]", failing: int) -> None:
    """In the new process: be the command."""
    try:
        os.setsid()
        if LINUX:
            _prctl(DIE_WITH_PARENT, signal.SIGKILL)
            try:
                with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
                    file.write(OFTENEST_VICTIM)
            except OSError:  # a container may forbid it
                pass
        nothing = os.open(os.devnull, os.O_RDWR)
        for number, pipe in enumerate(pipes):
            os.dup2(nothing if pipe is None else pipe, number)
        _close(pipes)
        signal.set_wakeup_fd(-1)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            try:
                signal.signal(number, signal.SIG_DFL)
            except (OSError, ValueError):  # the C library keeps some for itself
                continue
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        words = [os.fsencode(word) for word in request["command"]]
        os.execve(words[0], words, request["environ"])
    except OSError as error:
        os.write(failing, str(error.errno).encode())
    finally:
        os._exit(127)


def _close(pipes: "list[int | None]") -> None:
    """Close what was handed over, each once, but for the places where it belongs."""
    for pipe in set(pipes):
        if pipe is not None and pipe > 2:
            os.close(pipe)


def _prctl(option: int, value: int) -> None:
    import ctypes  # takes a while, and only this process needs it, not the program that it works for

    try:
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
    except (OSError, AttributeError):
        return


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except OSError:
        return False
    return True


def _emptied(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:
        return b""


def _nothing(number: int, frame: object) -> None:
    """A signal only wakes ``select``."""


def _say(value: dict[str, object]) -> None:
    try:
        os.write(1, (json.dumps(value) + "\n").encode())
    except OSError:  # nobody listens any more, and there is still something to end
        return


if __name__ == "__main__":
    main()
