"""Whatever a handle waits for has a deadline: a host that hangs is an error, and nothing of it is left behind."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cognition import Completed, Usage, to_data
from interpreters import events, fakes
from interpreters.hosting import AgentHandle, AgentHost, HostDiedError, HostTimeoutError, QueueChannel, _protocol as say
from interpreters.hosting._agent_host import FAULTS
from interpreters.hosting._protocol import line_of, read_request
from interpreters.recording.journal import locking
from runtime.children import start as starting
from runtime.children.line_pipe import LONGEST_REASON
from runtime.protocol.model import ModelInfo
from tests.interpreters.hosting.common import host_of
from tests.interpreters.signs import PATIENCE

SOON = 0.02
"""Seconds to wait for what never comes."""


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """Those that hosts are started in."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(make(*arguments, **options))
        return started[-1]

    starting.run(["true"]).wait()  # the thread that starts processes stays
    make = subprocess.Popen
    monkeypatch.setattr("interpreters.hosting._agent_host.subprocess.Popen", start)
    return started


SILENT = "import sys; sys.stdin.read(); import time; time.sleep(600)"
WITH_A_CHILD = (
    f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); {SILENT}"
)
CHATTY = "import itertools\nfor n in itertools.count(): print('loading', n, flush=True)"


@pytest.mark.slow
@pytest.mark.parametrize(("program", "wait"), [(SILENT, SOON), (WITH_A_CHILD, 0.5)])
def test_a_process_that_is_never_ready_is_ended(
    program: str, wait: float, processes: list[subprocess.Popen[bytes]]
) -> None:
    """With what it has started, which would hold its output open."""
    before = set(threading.enumerate())
    with pytest.raises(HostTimeoutError, match=rf"no answer to start within {wait:g} seconds") as caught:
        AgentHost.in_process(command=(sys.executable, "-c", program), start_wait=wait)

    assert caught.value.seconds == wait
    assert [process.returncode for process in processes] == [-signal.SIGKILL]
    assert set(threading.enumerate()) <= before  # an idle one of before may have ended


@pytest.mark.slow
def test_a_process_that_says_no_end_of_other_things_is_ended(processes: list[subprocess.Popen[bytes]]) -> None:
    """It is no host."""
    with pytest.raises(HostDiedError, match=r"said what can't be right .*no JSON"):
        AgentHost.in_process(command=(sys.executable, "-c", CHATTY))

    assert [process.returncode for process in processes] == [-signal.SIGKILL]


DEAF = """
import json, os, signal, sys, time
start = json.loads(sys.stdin.readline())
told = {"type": "started", "id": start["id"], "model": "m", "backend": "b", "context_tokens": 4096}
print(json.dumps(told), flush=True)
time.sleep(600)
"""


@pytest.mark.slow
def test_a_process_that_does_not_end_is_ended(
    processes: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hears neither that it is to end nor that nobody is there any more; whoever waits for it is told."""
    monkeypatch.setattr("interpreters.hosting._agent_host.CLOSE_SECONDS", 0.05)
    host = AgentHost.in_process(command=(sys.executable, "-c", DEAF))
    asked = threading.Event()
    send = host.send
    monkeypatch.setattr(host, "send", lambda request: (send(request), asked.set()))
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(host.open, "a")
        assert asked.wait(PATIENCE)
        host.close()
        with pytest.raises(HostDiedError, match="killed by SIGKILL"):
            opening.result(PATIENCE)
    assert [process.returncode for process in processes] == [-signal.SIGKILL]


def test_a_thread_whose_model_hangs_is_not_waited_for() -> None:
    """No thread can be ended from outside: it goes when its model comes back, and closes it if it was handed over."""
    release = threading.Event()
    closed: list[bool] = []

    class Hanging(fakes.GeneratedModel):
        def describe(self) -> ModelInfo:
            assert release.wait(PATIENCE)
            return super().describe()

        def close(self) -> None:
            closed.append(True)

    before = set(threading.enumerate())
    with pytest.raises(HostTimeoutError, match="no answer to start"):
        AgentHost.in_thread(Hanging([]), owns_model=True, answer_wait=SOON)
    release.set()
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE)

    assert closed == [True]
    assert set(threading.enumerate()) <= before


def test_a_session_that_does_not_begin_is_given_up_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its journal is on a disk that hangs. Should that end, nothing of it is left."""
    path, back = tmp_path / "a.jsonl", threading.Event()
    open_private = locking.open_private
    monkeypatch.setattr(locking, "open_private", lambda *given: (back.wait(PATIENCE), open_private(*given))[1])
    before = set(threading.enumerate())
    with host_of("Hello.", "Again.", answer_wait=SOON) as host:
        with pytest.raises(HostTimeoutError, match="no answer to init"):
            host.open("a", journal=path)
        assert "a" not in host
        host.answer_wait = PATIENCE
        assert host.open("b").run("Hi!").text == "Hello."
        assert host.open("a").run("Hi!").text == "Again."  # the name is free
        back.set()
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE)

    assert host.faults == []
    assert set(threading.enumerate()) <= before


class Silent:
    """A host that says only what a test makes it say."""

    def __init__(self) -> None:
        ours, self.channel = QueueChannel.pair()
        self.host = AgentHost(ours, on_gone=lambda: "the line was cut")

    def open(self, key: str) -> AgentHandle:
        """The session of this name, which it says is ready."""
        with ThreadPoolExecutor(1) as pool:
            opening = pool.submit(self.host.open, key)
            begin = self.heard()
            if isinstance(begin, say.Start):
                self.say(say.Started(begin.id, "m", "b", 32_768))
                begin = self.heard()
            assert isinstance(begin, say.Init)
            assert begin.config.context_tokens == 32_768
            self.say(say.Ready(begin.id, key))
            return opening.result(PATIENCE)

    def say(self, *notices: say.Notice) -> None:
        for notice in notices:
            self.channel.send(line_of(notice))

    def heard(self) -> say.Request:
        return read_request(self.channel.receive() or "")

    def __enter__(self) -> Silent:
        return self

    def __exit__(self, *_: object) -> None:
        self.channel.close()
        self.host._reader.join(PATIENCE)


def read_in_a_thread(handle: Any) -> Any:
    with handle.stream("Go!") as stream:
        handle.cancel("enough")
        return list(stream)


def read_in_a_loop(handle: Any) -> Any:
    async def read() -> Any:
        async with handle.stream("Go!") as stream:
            asyncio.get_running_loop().call_soon(handle.cancel, "enough")  # while it is waited for
            return [event async for event in stream]

    return asyncio.run(read())


@pytest.mark.parametrize("read", [read_in_a_thread, read_in_a_loop])
def test_a_cancelled_turn_that_the_host_does_not_end_ends_all_the_same(read: Callable[[Any], Any]) -> None:
    """And what comes of it late is not seen in the next one."""
    with Silent() as silent:
        handle = silent.open("a")
        silent.host.answer_wait = SOON

        with pytest.raises(HostTimeoutError, match=r"did not end the cancelled turn within 0\.02 seconds"):
            read(handle)
        silent.say(say.TurnEnded("a", 1, Completed("late"), Usage(), (), 1))
        with handle.stream("Hi!") as stream:
            silent.say(say.TurnEnded("a", 1, Completed("later"), Usage(), (), 1))
            silent.say(say.TurnEnded("a", 2, Completed("Hello."), Usage(), (), 2))
            assert list(stream) == []
        assert stream.result.text == "Hello."
        for ask in (handle.reset, lambda: handle.set_mode("careful"), handle.dispose):
            with pytest.raises(HostTimeoutError, match="no answer to"):
                ask()
        with pytest.raises(HostTimeoutError, match="no answer to init"):
            silent.host.open("b")
        heard = [silent.heard() for _ in range(8)]
        assert [type(request).__name__ for request in heard] == [
            "RunTurn", "Cancel", "RunTurn", "Reset", "SetMode", "Dispose", "Init", "Dispose",
        ]  # fmt: skip


def test_a_turn_that_nobody_cancelled_may_take_as_long_as_it_likes() -> None:
    """It is waited for until its host says that it has ended, or ends."""
    with Silent() as silent:
        handle = silent.open("a")
        silent.host.answer_wait = SOON
        stream = handle.stream("Go!")
        silent.channel.close()
        with pytest.raises(HostDiedError, match="the line was cut"):
            list(stream)


def test_a_second_session_of_a_name_sees_nothing_of_the_first_one() -> None:
    """Not even where the first one was still in a turn of the same number when it was given up."""
    with Silent() as silent:
        first = silent.open("a")
        stream = first.stream("Go!")
        silent.host.answer_wait = SOON
        with pytest.raises(HostTimeoutError):
            first.dispose()
        silent.host.answer_wait = PATIENCE
        for expected in (say.RunTurn, say.Dispose):
            assert isinstance(silent.heard(), expected)
        second = silent.open("a").stream("Hi!")
        first_end = Completed("of the first")
        late = events.Event("a", 1, 1, 1, 1, events.TextDelta("of the first"))
        silent.say(say.EventHappened("a", stream.number, to_data(late)))
        silent.say(say.TurnEnded("a", stream.number, first_end, Usage(), (), 1))
        silent.say(say.TurnEnded("a", second.number, Completed("of the second"), Usage(), (), 1))

        assert (list(second), second.result.text) == ([], "of the second")
        assert ([late], first_end) == (list(stream), stream.result.outcome)


def test_a_host_that_says_no_end_of_faults_fills_no_memory() -> None:
    """The newest of it is kept, to be looked at."""
    with Silent() as silent:
        for number in range(3 * FAULTS):
            silent.say(say.Faulted(f"loading {number}"))
        silent.open("a")
        assert len(silent.host.faults) == FAULTS
        silent.say(say.Faulted("x" * 100_000))
    assert (len(silent.host.faults), len(silent.host.faults[-1])) == (FAULTS, LONGEST_REASON)
