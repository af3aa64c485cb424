"""The promises of a recorder that stores payloads: a part of ``recorders``."""

from __future__ import annotations

import os
import signal
from hashlib import sha256
from typing import Any

from interpreters.agents.agent import Agent
from interpreters.recording.recorder import KeepsPayloads, Recorder
from interpreters.recording.replay import replay
from interpreters.testing._promising import (
    LARGE,
    ODD,
    Make,
    RecorderError,
    expect,
    format_line,
    in_a_process,
    line_at,
    new_name,
    promise,
    read_lines,
    require,
    writing,
)
from interpreters.testing.fakes import ScriptedModel, call
from interpreters.tools.tool import tool


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
def _payloads(make: Make) -> None:
    name = new_name()
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
def _payloads_after_a_kill(make: Make) -> None:
    name = new_name()
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
    recorder = make(name)
    require(recorder.lock(False) is True, "lock() has to return True where a recording goes on")
    try:
        _bring(recorder, 2, first)  # in the place of a line whose payload other lines may name
        _bring(recorder, 3, second, True)
    finally:
        recorder.close()
    expect(make, name, list(map(line_at, range(4))), "after they were brought again")
    _expect_payloads(make, name, first | second | third, "after they were brought again")


@promise("each session has its own payloads, and nothing is brought after close()")
def _payloads_apart(make: Make) -> None:
    one, other = new_name(), new_name()
    if _make_payload_recorder(make, one) is None:
        return
    same, late = _name_payloads(b"the same"), _name_payloads(b"late")
    with writing(make, one) as recorder, writing(make, other) as second:
        _bring(recorder, 0, same)
        _bring(second, 0, same)
    try:
        _bring(recorder, 1, late)
    except Exception:  # whatever it is
        pass
    else:
        raise RecorderError("append_with() after close() has to raise an error")
    for name in (one, other):
        _expect_payloads(make, name, same, "beside another session with the same one")
        expect(make, name, [line_at(0)], "after append_with() was refused")
        keeper = _make_payload_recorder(make, name)
        assert keeper is not None
        require(keeper.payload(*late) is None, "what append_with() was refused must not be there")


@promise("large texts of a session come back, and where payloads are kept its lines are short")
def _large_texts(make: Make) -> None:
    name = new_name()
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
