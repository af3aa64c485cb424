"""What the promises of ``recorders`` are checked with."""

from __future__ import annotations

import os
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

from attrs import frozen

from interpreters.recording.recorder import Recorder
from interpreters.tools.failures import describe

Make = Callable[[str], Recorder]
"""Gives the recorder of a session by its name, as another program would make it."""

PATIENCE = 60
"""Seconds after which a process that this started is ended."""

LARGE = 8 << 20
"""Bytes of a line that is large: a session's texts may be, and a line may have 64 MiB."""

ODD = (
    b'{"a":"\\u0000 \\\\ \' \\" % ? :name $1"}\n',
    '{"a":"\u00e4 \u2028 \U0001f44d \ufeff \r"}\n'.encode(),
    b'{"a":"\xed\xa0\xbd"}\n',  # half of a surrogate pair, which no UTF-8 has: a model's reply may be cut there
    b"\n",
)
"""Lines of which a store may make something else. They are bytes, and not text."""


class RecorderError(AssertionError):
    """A recorder breaks a promise. An assertion, since it is a test that fails by it."""


@frozen
class Promise:
    """Something that every recorder does."""

    text: str
    """The promise, in a sentence."""
    _check: Callable[[Make], None]

    def check(self, make: Make) -> None:
        """See that recorders keep it.

        Raises:
            RecorderError: they don't; says what was seen.
        """
        try:
            self._check(make)
        except RecorderError:
            raise
        except Exception as error:
            raise RecorderError(f"the recorder failed where {self.text}: {describe(error)}") from error

    def __str__(self) -> str:
        return self.text


PROMISES: list[Promise] = []
"""All that is promised."""

_numbers = count()


def promise(text: str) -> Callable[[Callable[[Make], None]], Callable[[Make], None]]:
    """Declare a promise by the function that sees whether it is kept."""

    def declare(check: Callable[[Make], None]) -> Callable[[Make], None]:
        PROMISES.append(Promise(text, check))
        return check

    return declare


def require(holds: bool, what: str) -> None:
    """See that something holds.

    Raises:
        RecorderError: it does not; ``what`` says which.
    """
    if not holds:
        raise RecorderError(what)


def new_name() -> str:
    """A name that no promise has used, in this process or another."""
    return f"promise-{os.getpid()}-{next(_numbers)}"


def line_at(number: int) -> bytes:
    """The line that is appended under a number."""
    return b'{"seq":%d}\n' % number


@contextmanager
def writing(make: Make, name: str, lines: int = 0) -> Iterator[Recorder]:
    """A recorder that has its place, with some lines, until the end of the block."""
    recorder = make(name)
    require(isinstance(recorder, Recorder), f"{recorder!r} lacks something that a Recorder has")
    require(recorder.lock(True) is True, "lock() has to return True where nobody else has the place")
    try:
        for number in range(lines):
            recorder.append(number, line_at(number), False)
        yield recorder
    finally:
        recorder.close()


@contextmanager
def going_on(make: Make, name: str) -> Iterator[Recorder]:
    """A recording of three lines that was closed, and goes on."""
    with writing(make, name, 3):
        pass
    recorder = make(name)
    require(recorder.lock(False) is True, "lock() has to return True where a recording goes on")
    try:
        yield recorder
    finally:
        recorder.close()


def read_lines(make: Make, name: str) -> list[bytes]:
    """What somebody else reads."""
    return list(make(name).lines())


def expect(make: Make, name: str, lines: list[bytes], when: str) -> None:
    """See that others read these lines; raises as ``require``."""
    found = read_lines(make, name)
    for number, (one, other) in enumerate(zip(lines, found, strict=False)):
        require(isinstance(other, bytes), f"line {number} is of the type {type(other).__name__}, and not bytes")
        require(one == other, f"line {number} is {shown(other)} {when}, and {shown(one)} was appended")
    require(len(lines) == len(found), f"there are {len(found)} lines {when}, and {len(lines)} were appended")


def shown(line: bytes) -> str:
    """A line as errors show it."""
    return repr(line) if len(line) < 100 else f"{line[:50]!r}... ({len(line)} bytes)"


def in_a_process(work: Callable[[], object], ends_by: int = 0) -> None:
    """Do something in a process of its own, which ends by this signal, or in order."""
    with warnings.catch_warnings():  # that other threads run here, of which the child has none: it needs none of them
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            signal.alarm(PATIENCE)
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    ended = os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    require(ended == ends_by, f"a process that uses the recorder failed; what it raised was printed ({ended})")
