"""What a ``Recorder`` promises, each promise as a test: for programs that keep their sessions elsewhere than in files.

    @pytest.mark.parametrize("promise", PROMISES, ids=str)
    def test_my_recorder_keeps_its_promises(promise, tmp_path):
        promise.check(lambda name: SqliteRecorder(tmp_path / "sessions.db", name))

The function gives the recorder of a session by its name: equal names are the same place, and other names are others.
"""

from __future__ import annotations

import os
import signal
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import Any

from attrs import frozen

from cognition import CogstepError, Completed, ToolSpec
from interpreters.agents.agent import Agent
from interpreters.program.later import LATER
from interpreters.recording.recorder import Recorder
from interpreters.recording.replaying import replay
from interpreters.testing.fakes import ScriptedModel, call
from interpreters.tools.failures import describe
from interpreters.tools.tool import tool

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


def _promise(text: str) -> Callable[[Callable[[Make], None]], Callable[[Make], None]]:
    def declare(check: Callable[[Make], None]) -> Callable[[Make], None]:
        PROMISES.append(Promise(text, check))
        return check

    return declare


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise RecorderError(what)


def _new_name() -> str:
    """A name that no promise has used, in this process or another."""
    return f"promise-{os.getpid()}-{next(_numbers)}"


def _line(number: int) -> bytes:
    return b'{"seq":%d}\n' % number


@contextmanager
def _writing(make: Make, name: str, lines: int = 0) -> Iterator[Recorder]:
    recorder = make(name)
    _require(isinstance(recorder, Recorder), f"{recorder!r} lacks something that a Recorder has")
    _require(recorder.lock(True) is True, "lock() has to return True where nobody else has the place")
    try:
        for number in range(lines):
            recorder.append(number, _line(number), False)
        yield recorder
    finally:
        recorder.close()


@contextmanager
def _going_on(make: Make, name: str) -> Iterator[Recorder]:
    """A recording of three lines that was closed, and goes on."""
    with _writing(make, name, 3):
        pass
    recorder = make(name)
    _require(recorder.lock(False) is True, "lock() has to return True where a recording goes on")
    try:
        yield recorder
    finally:
        recorder.close()


def _read(make: Make, name: str) -> list[bytes]:
    """What somebody else reads."""
    return list(make(name).lines())


def _expect(make: Make, name: str, lines: list[bytes], when: str) -> None:
    found = _read(make, name)
    for number, (one, other) in enumerate(zip(lines, found, strict=False)):
        _require(isinstance(other, bytes), f"line {number} is of the type {type(other).__name__}, and not bytes")
        _require(one == other, f"line {number} is {_shown(other)} {when}, and {_shown(one)} was appended")
    _require(len(lines) == len(found), f"there are {len(found)} lines {when}, and {len(lines)} were appended")


def _shown(line: bytes) -> str:
    return repr(line) if len(line) < 100 else f"{line[:50]!r}... ({len(line)} bytes)"


def _in_a_process(work: Callable[[], object], ends_by: int = 0) -> None:
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
    _require(ended == ends_by, f"a process that uses the recorder failed; what it raised was printed ({ended})")


# ------------------------------------------------------------------------------------------------------ the promises


@_promise("where nothing is recorded there are no lines, and to look changes nothing")
def _nothing(make: Make) -> None:
    name = _new_name()
    for _ in range(2):
        _expect(make, name, [], "before anything was recorded")
    with _writing(make, name):
        _expect(make, name, [], "while nothing was appended")
    _expect(make, name, [], "after nothing was appended")


@_promise("what was appended is read back to the byte, in the order of its numbers")
def _read_back(make: Make) -> None:
    name = _new_name()
    with _writing(make, name) as recorder:
        lines = [*ODD, *map(_line, range(len(ODD), 120))]
        for number, line in enumerate(lines):
            recorder.append(number, line, number % 7 == 0)
        _expect(make, name, lines, "while it is written")
    _expect(make, name, lines, "after it was closed")


@_promise("each place is its own: other names have other lines and other writers")
def _apart(make: Make) -> None:
    one, other = _new_name(), _new_name()
    with _writing(make, one, 3), _writing(make, other, 2) as second:
        second.append(2, b"other\n", False)
    _expect(make, one, [_line(0), _line(1), _line(2)], "beside another place")
    _expect(make, other, [_line(0), _line(1), b"other\n"], "beside another place")


@_promise("a recording goes on where it ended")
def _goes_on(make: Make) -> None:
    name = _new_name()
    with _going_on(make, name) as recorder:
        _require(list(recorder.lines()) == [_line(0), _line(1), _line(2)], "its own lines have to be there")
        recorder.append(3, _line(3), True)
    _expect(make, name, list(map(_line, range(4))), "after it went on")


@_promise("a line takes the place of what stands under its number, and of what stands behind it")
def _again(make: Make) -> None:
    name = _new_name()
    with _going_on(make, name) as recorder:
        # As after a crash, or an interrupt, that left a line of which the session knows nothing.
        recorder.append(2, b"instead\n", False)
        recorder.append(3, _line(3), False)
    _expect(make, name, [_line(0), _line(1), b"instead\n", _line(3)], "after line 2 was appended again")


@_promise("one writer at a time: another one is told at once, in this process and in others, and reading is free")
def _one_writer(make: Make) -> None:
    name = _new_name()

    def look() -> None:
        refused = make(name)
        _require(refused.lock(False) is False, "lock() has to return False while somebody else has the place")
        _expect(make, name, [_line(0)], "while somebody else writes")
        refused.close()

    with _writing(make, name, 1) as recorder:
        look()
        _in_a_process(look)
        recorder.append(1, _line(1), False)  # who was refused, and closed what it had, has given nothing free
        other = make(name)
        _require(other.lock(False) is False, "who was refused must not give free what another one has")
        other.close()
        _require(recorder.lock(False) is False, "a recorder that has the place already does not get it twice")
        look_again = make(name)
        _require(look_again.lock(False) is False, "to ask for the place twice must not give it free")
        look_again.close()
    with _writing(make, name) as recorder:
        recorder.append(2, _line(2), False)
    _in_a_process(lambda: _writes(make, name, 3))
    _expect(make, name, list(map(_line, range(4))), "after three writers")


def _writes(make: Make, name: str, number: int) -> None:
    with _writing(make, name) as recorder:
        recorder.append(number, _line(number), False)


@_promise("a second close does nothing, and nothing is appended after it")
def _closed(make: Make) -> None:
    name = _new_name()
    recorder = make(name)
    recorder.close()  # before it was opened
    with _writing(make, name, 1) as recorder:
        pass
    with _writing(make, name):
        recorder.close()  # which gives nothing free: another one has it by now
        other = make(name)
        _require(other.lock(False) is False, "a second close() must not give free what another one has")
        other.close()
        try:
            recorder.append(1, _line(1), False)
        except Exception:  # whatever it is
            pass
        else:
            raise RecorderError("append() after close() has to raise an error")
    _expect(make, name, [_line(0)], "after append() was refused")


@_promise("a writer that is killed leaves all that it has appended, and its place is free")
def _killed(make: Make) -> None:
    name = _new_name()

    def writes_and_dies() -> None:
        recorder = make(name)
        recorder.lock(True)
        for number in range(5):
            recorder.append(number, _line(number), number == 2)
        os.kill(os.getpid(), signal.SIGKILL)

    _in_a_process(writes_and_dies, signal.SIGKILL)
    _expect(make, name, list(map(_line, range(5))), "after a kill")
    _writes(make, name, 5)
    _expect(make, name, list(map(_line, range(6))), "after a kill and another writer")


@_promise("it is written and closed by other threads than the one that locked it, one at a time")
def _threads(make: Make) -> None:
    name = _new_name()
    recorder = make(name)
    _require(recorder.lock(True) is True, "lock() has to return True where nobody else has the place")
    failed: list[Exception] = []

    def elsewhere(work: Callable[[], None]) -> None:
        def run() -> None:
            try:
                work()
            except Exception as error:  # told below
                failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()

    for number in range(4):
        elsewhere(partial(recorder.append, number, _line(number), number % 2 == 0))
    elsewhere(recorder.close)
    _require(not failed, f"on another thread it raised {failed[:1]!r}")
    _expect(make, name, list(map(_line, range(4))), "after other threads have written")
    _writes(make, name, 4)


@_promise("a line of megabytes is kept as any other")
def _large(make: Make) -> None:
    name = _new_name()
    line = b'{"a":"' + b"0123456789abcdef" * (LARGE // 16) + b'"}\n'
    with _writing(make, name, 1) as recorder:
        recorder.append(1, line, True)
        recorder.append(2, _line(2), False)
    _expect(make, name, [_line(0), line, _line(2)], "after a large one")


@_promise("a session is recorded, waits, goes on in another process, replays, and is forked")
def _session(make: Make) -> None:
    name, forked = _new_name(), _new_name()

    @tool(approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    tools: list[Any] = [pay, ToolSpec("order")]
    script = [[call("pay", amount=3), call("order")]]

    def asks() -> None:
        with Agent(ScriptedModel(script), tools, approve=lambda request: LATER, journal=make(name)) as agent:
            _require(len(agent.run("Pay and order.").pending) == 1, "the approval has to be pending")
            os.kill(os.getpid(), signal.SIGKILL)

    def answers() -> None:
        with Agent.resume(make(name), ScriptedModel(["Done."]), tools) as agent:
            (approval,) = agent.pending
            (order,) = agent.answer(approval.effect_id, True).pending
            result = agent.answer(order.effect_id, "on its way")
            _require(result.outcome == Completed("Done."), f"the turn ended otherwise: {result.outcome!r}")
            _require([made.content for made in result.calls] == ["paid 3", "on its way"], "the results are others")

    _in_a_process(asks, signal.SIGKILL)
    _in_a_process(answers)
    report = replay(make(name))
    _require(report.same and not report.foreign, f"it does not replay: {report.divergence or report.foreign}")
    with Agent.fork(make(name), ScriptedModel(["Yes."]), tools, journal=make(forked)) as agent:
        _require(agent.run("Is it paid?").text == "Yes.", "a fork has to go on")
    _require(replay(make(forked)).same, "a fork does not replay")
    try:
        Agent(ScriptedModel([]), journal=make(name)).close()
    except CogstepError:
        pass
    else:
        raise RecorderError("a recording was begun where one is already: lines() has to give it")
