"""Helpers for checking the promises of ``recorders``."""

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
"""Returns the recorder of a session by its name, as another program would create it."""

PATIENCE = 60

LARGE = 8 << 20
"""Bytes of a large line: sessions may contain large texts, and a line may have 64 MiB."""

ODD = (
    b'{"a":"\\u0000 \\\\ \' \\" % ? :name $1"}\n',
    '{"a":"\u00e4 \u2028 \U0001f44d \ufeff \r"}\n'.encode(),
    b'{"a":"\xed\xa0\xbd"}\n',  # half of a surrogate pair, which no UTF-8 has: a model's reply may be cut there
    b"\n",
)
"""Lines that a store might alter. They are bytes, not text."""


class RecorderError(AssertionError):
    """A recorder breaks a promise. It is an assertion error, since it fails a test."""


@frozen
class Promise:
    """A behaviour required of every recorder."""

    text: str
    _check: Callable[[Make, str], None]

    def check(self, make: Make) -> None:
        """Check that recorders fulfil it.

        Raises:
            RecorderError: they don't; the message has the observation.
        """
        try:
            self._check(make, new_name())
        except RecorderError:
            raise
        except Exception as error:
            raise RecorderError(f"the recorder failed where {self.text}: {describe(error)}") from error

    def __str__(self) -> str:
        return self.text


PROMISES: list[Promise] = []

_numbers = count()


def promise(text: str) -> Callable[[Callable[[Make, str], None]], Callable[[Make, str], None]]:
    """Return a decorator that declares a promise, with the function as its check: it gets a name not used before."""

    def declare(check: Callable[[Make, str], None]) -> Callable[[Make, str], None]:
        PROMISES.append(Promise(text, check))
        return check

    return declare


def require(holds: bool, what: str) -> None:
    """Raise an error unless ``holds``.

    Raises:
        RecorderError: with the message ``what``.
    """
    if not holds:
        raise RecorderError(what)


def new_name() -> str:
    """Return a name that no promise has used, in any process."""
    return f"promise-{os.getpid()}-{next(_numbers)}"


def line_at(number: int) -> bytes:
    """Return the line to append for a number."""
    return b'{"seq":%d}\n' % number


@contextmanager
def writing(make: Make, name: str, lines: int = 0) -> Iterator[Recorder]:
    """Yield a locked recorder with some lines; close it at the end of the block."""
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
def reopen(make: Make, name: str) -> Iterator[Recorder]:
    """Yield a reopened recorder whose recording has three lines."""
    with writing(make, name, 3):
        pass
    with continuing(make, name) as recorder:
        yield recorder


@contextmanager
def continuing(make: Make, name: str) -> Iterator[Recorder]:
    """Yield a recorder that has a recording's place again; close it at the end of the block."""
    recorder = make(name)
    require(recorder.lock(False) is True, "lock() has to return True where a recording goes on")
    try:
        yield recorder
    finally:
        recorder.close()


def read_lines(make: Make, name: str) -> list[bytes]:
    """Return the lines seen by another reader."""
    return list(make(name).lines())


def expect(make: Make, name: str, lines: list[bytes], when: str) -> None:
    """Check that other readers see these lines; raises as ``require``."""
    found = read_lines(make, name)
    for number, (one, other) in enumerate(zip(lines, found, strict=False)):
        require(isinstance(other, bytes), f"line {number} is of the type {type(other).__name__}, and not bytes")
        require(one == other, f"line {number} is {format_line(other)} {when}, and {format_line(one)} was appended")
    require(len(lines) == len(found), f"there are {len(found)} lines {when}, and {len(lines)} were appended")


def format_line(line: bytes) -> str:
    return repr(line) if len(line) < 100 else f"{line[:50]!r}... ({len(line)} bytes)"


def in_a_process(work: Callable[[], object], ends_by: int = 0) -> None:
    """Run work in a child process, and check that it ends by this signal, or normally for 0."""
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
