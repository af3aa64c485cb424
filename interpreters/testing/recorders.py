"""The promises of a ``Recorder``, each as a test: for programs that store their sessions elsewhere than in files.

    @pytest.mark.parametrize("promise", PROMISES, ids=str)
    def test_my_recorder_keeps_its_promises(promise, tmp_path):
        promise.check(lambda name: SqliteRecorder(tmp_path / "sessions.db", name))

The function returns the recorder of a session by its name: equal names are the same recording, different names are
different recordings. The promises about payloads apply only to recorders that store them (``KeepsPayloads``).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from typing import Any

from cognition import CogstepError, Completed, ToolSpec
from interpreters.agents.agent import Agent
from interpreters.loop.program.pending import LATER
from interpreters.recording.recorder import KeepsPayloads, Recorder
from interpreters.recording.replay import replay
from interpreters.testing._promising import (
    LARGE,
    ODD,
    PROMISES as PROMISES,
    Make as Make,
    Promise as Promise,
    RecorderError as RecorderError,
    continuing,
    expect,
    format_line,
    in_a_process,
    line_at,
    new_name,
    promise,
    read_lines,
    reopen,
    require,
    writing,
)
from interpreters.testing.fakes import ScriptedModel, call
from interpreters.tools.tool import tool


@promise("where nothing is recorded there are no lines, and to look changes nothing")
def _nothing(make: Make, name: str) -> None:
    for _ in range(2):
        expect(make, name, [], "before anything was recorded")
    with writing(make, name):
        expect(make, name, [], "while nothing was appended")
    expect(make, name, [], "after nothing was appended")


@promise("what was appended is read back to the byte, in the order of its numbers")
def _read_back(make: Make, name: str) -> None:
    with writing(make, name) as recorder:
        lines = [*ODD, *map(line_at, range(len(ODD), 120))]
        for number, line in enumerate(lines):
            recorder.append(number, line, number % 7 == 0)
        expect(make, name, lines, "while it is written")
    expect(make, name, lines, "after it was closed")


@promise("each place is its own: other names have other lines and other writers")
def _apart(make: Make, one: str) -> None:
    other = new_name()
    with writing(make, one, 3), writing(make, other, 2) as second:
        second.append(2, b"other\n", False)
    expect(make, one, [line_at(0), line_at(1), line_at(2)], "beside another place")
    expect(make, other, [line_at(0), line_at(1), b"other\n"], "beside another place")


@promise("a recording goes on where it ended")
def _goes_on(make: Make, name: str) -> None:
    with reopen(make, name) as recorder:
        require(list(recorder.lines()) == [line_at(0), line_at(1), line_at(2)], "its own lines have to be there")
        recorder.append(3, line_at(3), True)
    expect(make, name, list(map(line_at, range(4))), "after it went on")


@promise("a line takes the place of what stands under its number, and of what stands behind it")
def _again(make: Make, name: str) -> None:
    with reopen(make, name) as recorder:
        # As after a crash, or an interrupt, that left a line of which the session knows nothing.
        recorder.append(2, b"instead\n", False)
        recorder.append(3, line_at(3), False)
    expect(make, name, [line_at(0), line_at(1), b"instead\n", line_at(3)], "after line 2 was appended again")


@promise("one writer at a time: another one is told at once, in this process and in others, and reading is free")
def _one_writer(make: Make, name: str) -> None:

    def look() -> None:
        refused = make(name)
        require(refused.lock(False) is False, "lock() has to return False while somebody else has the place")
        expect(make, name, [line_at(0)], "while somebody else writes")
        refused.close()

    with writing(make, name, 1) as recorder:
        look()
        in_a_process(look)
        recorder.append(1, line_at(1), False)  # who was refused, and closed what it had, has given nothing free
        _expect_locked(make, name, "who was refused must not give free what another one has")
        require(recorder.lock(False) is False, "a recorder that has the place already does not get it twice")
        _expect_locked(make, name, "to ask for the place twice must not give it free")
    with writing(make, name) as recorder:
        recorder.append(2, line_at(2), False)
    in_a_process(lambda: _writes(make, name, 3))
    expect(make, name, list(map(line_at, range(4))), "after three writers")


def _expect_locked(make: Make, name: str, why: str) -> None:
    other = make(name)
    require(other.lock(False) is False, why)
    other.close()


def _expect_error(work: Callable[[], object], why: str) -> None:
    try:
        work()
    except Exception:  # whatever it is
        return
    raise RecorderError(why)


def _writes(make: Make, name: str, number: int) -> None:
    with writing(make, name) as recorder:
        recorder.append(number, line_at(number), False)


@promise("a second close does nothing, and nothing is appended after it")
def _closed(make: Make, name: str) -> None:
    recorder = make(name)
    recorder.close()  # before it was opened
    with writing(make, name, 1) as recorder:
        pass
    with writing(make, name):
        recorder.close()  # which gives nothing free: another one has it by now
        _expect_locked(make, name, "a second close() must not give free what another one has")
        _expect_error(lambda: recorder.append(1, line_at(1), False), "append() after close() has to raise an error")
    expect(make, name, [line_at(0)], "after append() was refused")


@promise("a writer that is killed leaves all that it has appended, and its place is free")
def _killed(make: Make, name: str) -> None:

    def writes_and_dies() -> None:
        recorder = make(name)
        recorder.lock(True)
        for number in range(5):
            recorder.append(number, line_at(number), number == 2)
        os.kill(os.getpid(), signal.SIGKILL)

    in_a_process(writes_and_dies, signal.SIGKILL)
    expect(make, name, list(map(line_at, range(5))), "after a kill")
    _writes(make, name, 5)
    expect(make, name, list(map(line_at, range(6))), "after a kill and another writer")


@promise("it is written and closed by other threads than the one that locked it, one at a time")
def _threads(make: Make, name: str) -> None:
    recorder = make(name)
    require(recorder.lock(True) is True, "lock() has to return True where nobody else has the place")

    def elsewhere(work: Callable[[], None]) -> None:
        with ThreadPoolExecutor(1) as thread:
            error = thread.submit(work).exception()
        require(error is None, f"on another thread it raised {[error]!r}")

    for number in range(4):
        elsewhere(partial(recorder.append, number, line_at(number), number % 2 == 0))
    elsewhere(recorder.close)
    expect(make, name, list(map(line_at, range(4))), "after other threads have written")
    _writes(make, name, 4)


@promise("a line of megabytes is kept as any other")
def _large(make: Make, name: str) -> None:
    line = b'{"a":"' + b"0123456789abcdef" * (LARGE // 16) + b'"}\n'
    with writing(make, name, 1) as recorder:
        recorder.append(1, line, True)
        recorder.append(2, line_at(2), False)
    expect(make, name, [line_at(0), line, line_at(2)], "after a large one")


# ------------------------------------------------------------------------------------------------ of large texts


def _make_payload_recorder(make: Make, name: str) -> KeepsPayloads | None:
    recorder = make(name)
    return recorder if isinstance(recorder, KeepsPayloads) else None


def _name_payloads(*contents: bytes) -> dict[str, bytes]:
    return {sha256(content).hexdigest(): content for content in contents}


def _bring(recorder: Recorder, number: int, payloads: dict[str, bytes], force: bool = False) -> None:
    assert isinstance(recorder, KeepsPayloads)
    recorder.append_with(number, line_at(number), payloads, force)


def _expect_payloads(make: Make, name: str, payloads: dict[str, bytes], when: str) -> None:
    keeper = _make_payload_recorder(make, name)
    assert keeper is not None
    for one, content in payloads.items():
        found = keeper.payload(one)
        require(found is not None, f"the payload {one} is not there {when}")
        require(isinstance(found, bytes), f"a payload is of the type {type(found).__name__}, and not bytes")
        require(
            found == content, f"the payload {one} is {format_line(found or b'')} {when}, not {format_line(content)}"
        )


@promise("payloads that a line brings are read back to the byte, by anybody, and a name without one gives None")
def _payloads(make: Make, name: str) -> None:
    keeper = _make_payload_recorder(make, name)
    if keeper is None:
        return
    (nobody,) = _name_payloads(b"nobody's")
    require(keeper.payload(nobody) is None, "payload() has to return None where nothing is recorded")
    brought = _name_payloads(b"", *ODD, b"0123456789abcdef" * (LARGE // 16))
    with writing(make, name, 1) as recorder:
        _bring(recorder, 1, brought)
        recorder.append(2, line_at(2), False)
        _expect_payloads(make, name, brought, "while it is written")
        in_a_process(lambda: _expect_payloads(make, name, brought, "in another process"))
    _expect_payloads(make, name, brought, "after it was closed")
    expect(make, name, list(map(line_at, range(3))), "where one has brought payloads")
    require(keeper.payload(nobody) is None, "payload() has to return None for a name that nothing was brought under")


@promise("a writer that is killed leaves the payloads of all its lines, and whoever goes on may bring them again")
def _payloads_after_a_kill(make: Make, name: str) -> None:
    if _make_payload_recorder(make, name) is None:
        return
    first, second, third = _name_payloads(b"0" * 99), _name_payloads(b"1" * 99, b"2" * 99), _name_payloads(b"3" * 99)

    def writes_and_dies() -> None:
        recorder = make(name)
        recorder.lock(True)
        _bring(recorder, 0, first)
        _bring(recorder, 1, second, True)
        _bring(recorder, 2, third)
        os.kill(os.getpid(), signal.SIGKILL)

    in_a_process(writes_and_dies, signal.SIGKILL)
    expect(make, name, list(map(line_at, range(3))), "after a kill")
    _expect_payloads(make, name, first | second | third, "after a kill")
    with continuing(make, name) as recorder:
        _bring(recorder, 2, first)  # in the place of a line whose payload other lines may name
        _bring(recorder, 3, second, True)
    expect(make, name, list(map(line_at, range(4))), "after they were brought again")
    _expect_payloads(make, name, first | second | third, "after they were brought again")


@promise("each session has its own payloads, and nothing is brought after close()")
def _payloads_apart(make: Make, one: str) -> None:
    other = new_name()
    if _make_payload_recorder(make, one) is None:
        return
    same, late = _name_payloads(b"the same"), _name_payloads(b"late")
    with writing(make, one) as recorder, writing(make, other) as second:
        _bring(recorder, 0, same)
        _bring(second, 0, same)
    _expect_error(lambda: _bring(recorder, 1, late), "append_with() after close() has to raise an error")
    for name in (one, other):
        _expect_payloads(make, name, same, "beside another session with the same one")
        expect(make, name, [line_at(0)], "after append_with() was refused")
        keeper = _make_payload_recorder(make, name)
        assert keeper is not None
        require(keeper.payload(*late) is None, "what append_with() was refused must not be there")


@promise("large texts of a session come back, and where payloads are kept its lines are short")
def _large_texts(make: Make, name: str) -> None:
    page = "A page. \ud83d \u00e9\n" * 9000
    script: list[Any] = [call("read"), "It is read."]

    @tool(read_only=True)
    def read() -> str:
        """Read."""
        return page

    def reads() -> None:
        with Agent(ScriptedModel(script, context_tokens=10**6), [read], "Be brief.", journal=make(name)) as agent:
            agent.run("Read: " + page)
            os.kill(os.getpid(), signal.SIGKILL)

    in_a_process(reads, signal.SIGKILL)
    with Agent.resume(make(name), ScriptedModel(script, context_tokens=10**6), [read]) as agent:
        require(agent.run("Again.").calls[0].content == page, "the tool's result is another")
    report = replay(make(name))
    require(report.same and report.turns == 2, f"it does not replay: {report.divergence or report.turns}")
    if _make_payload_recorder(make, name) is not None:
        longest = max(map(len, read_lines(make, name)))
        require(longest < 16_384, f"a line has {longest} bytes: its texts should be payloads")


# ------------------------------------------------------------------------------------------------ of whole sessions


@promise("a session is recorded, waits, goes on in another process, replays, and is forked")
def _session(make: Make, name: str) -> None:
    forked = new_name()

    @tool(approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    tools: list[Any] = [pay, ToolSpec("order")]
    script = [[call("pay", amount=3), call("order")]]

    def asks() -> None:
        with Agent(ScriptedModel(script), tools, approve=lambda request: LATER, journal=make(name)) as agent:
            require(len(agent.run("Pay and order.").pending) == 1, "the approval has to be pending")
            os.kill(os.getpid(), signal.SIGKILL)

    def answers() -> None:
        with Agent.resume(make(name), ScriptedModel(["Done."]), tools) as agent:
            (approval,) = agent.pending
            (order,) = agent.answer(approval.effect_id, True).pending
            result = agent.answer(order.effect_id, "on its way")
            require(result.outcome == Completed("Done."), f"the turn ended otherwise: {result.outcome!r}")
            require([made.content for made in result.calls] == ["paid 3", "on its way"], "the results are others")

    in_a_process(asks, signal.SIGKILL)
    in_a_process(answers)
    report = replay(make(name))
    require(report.same and not report.foreign, f"it does not replay: {report.divergence or report.foreign}")
    with Agent.fork(make(name), ScriptedModel(["Yes."]), tools, journal=make(forked)) as agent:
        require(agent.run("Is it paid?").text == "Yes.", "a fork has to go on")
    require(replay(make(forked)).same, "a fork does not replay")
    try:
        Agent(ScriptedModel([]), journal=make(name)).close()
    except CogstepError:
        pass
    else:
        raise RecorderError("a recording was begun where one is already: lines() has to give it")
