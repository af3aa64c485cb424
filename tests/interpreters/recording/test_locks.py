"""One writer a session, for as long as there is one: a crash, a fork or a dropped object never keeps it locked."""

from __future__ import annotations

import asyncio
import fcntl
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cognition import ConfigError, EchoEngine, UserSpoke
from interpreters import Agent, AsyncAgent, replay, tool
from interpreters.hosting import AgentHost, ModelChoice
from interpreters.recording.journal import Journal, JournalLockedError, JournalWriteError, locking
from interpreters.recording.journal.locking import FEWEST, LockedFile, is_being_written
from interpreters.testing.fakes import ScriptedModel, call
from tests.interpreters.journals import small

ROOT = Path(__file__).resolve().parents[3]

# ------------------------------------------------------------------------------------------------ forks, for real

FORKING = """
import multiprocessing, os, signal, sys
from interpreters import Agent, fakes, tool

def outlive(depth):
    if depth and os.fork():
        os._exit(0)
    print(os.getpid(), flush=True)
    os.close(1)  # whoever reads this process's output need not wait for that one's end
    os.close(2)
    signal.pause()

@tool
def work(how: str) -> str:
    if how == "multiprocessing":
        multiprocessing.get_context("fork").Process(target=outlive, args=(0,)).start()
    elif os.fork() == 0:
        outlive(how == "a grandchild")
    signal.pause()

model = fakes.ScriptedModel([fakes.call("work", how=sys.argv[2])])
if sys.argv[3] == "sync":
    Agent(model, [work], journal=sys.argv[1]).run("Go!")
else:
    import asyncio
    from interpreters import AsyncAgent
    asyncio.run(AsyncAgent(model, [work], journal=sys.argv[1]).run("Go!"))
"""


@tool
def work(how: str) -> str:
    return how


@pytest.mark.behaviour("R13b")
@pytest.mark.parametrize("how", ["os.fork", "multiprocessing", "a grandchild"])
@pytest.mark.parametrize("kind", ["sync", "asyncio"])
def test_a_killed_process_leaves_no_lock_with_what_it_forked(tmp_path: Path, how: str, kind: str) -> None:
    """The child lives on, and the session goes on elsewhere."""
    path = tmp_path / "s.jsonl"
    command = [sys.executable, "-W", "ignore", "-c", FORKING, str(path), how, kind]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        orphan = int(parent.stdout.readline())
        try:
            with pytest.raises(JournalLockedError):
                Agent.resume(path, ScriptedModel([]), [work])
            parent.kill()
            parent.wait()
            os.kill(orphan, 0)  # it is there

            with Agent.resume(path, ScriptedModel(["Nobody knows."]), [work]) as agent:
                assert agent.resume_turn().text == "Nobody knows."
        finally:
            parent.kill()
            os.kill(orphan, signal.SIGKILL)


def in_child(work: Callable[[], object]) -> int:
    """Do something in a forked child; 0 if it came to its end."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.behaviour("R13b")
def test_a_forked_child_never_writes_its_parent_s_recording(tmp_path: Path) -> None:
    """Neither by going on nor by closing: the parent has its lock and its file as before."""
    path = tmp_path / "s.jsonl"
    with Agent(ScriptedModel(iter(lambda: "Hi!", None)), journal=path) as agent:
        agent.run("Hi?")
        before = path.read_bytes()

        def go_on() -> None:
            with pytest.raises(JournalWriteError, match="forked from the one that writes"):
                agent.run("And here?")
            agent.close()
            gc.collect()

        assert in_child(go_on) == 0
        assert before == path.read_bytes()
        with pytest.raises(JournalLockedError):
            Agent.resume(path, ScriptedModel([]))
        assert agent.run("Again?").text == "Hi!"
    assert replay(path).raise_for_divergence().turns == 2


def test_closing_gives_the_lock_back_though_a_child_was_forked_before(tmp_path: Path) -> None:
    """Also a child that knows of nothing, as one that C code forked."""
    path = tmp_path / "s.jsonl"
    agent = Agent(ScriptedModel([]), journal=path)
    copy = os.dup(agent._journal._files._file.descriptor)  # type: ignore[union-attr]  # there is one
    agent.close()
    try:
        Agent.resume(path, ScriptedModel([])).close()
    finally:
        os.close(copy)


def test_a_session_recorded_in_a_child_has_its_own_lock(tmp_path: Path) -> None:
    path = tmp_path / "child.jsonl"
    with Agent(ScriptedModel([]), journal=tmp_path / "parent.jsonl"):
        assert in_child(lambda: small(path)) == 0
    assert replay(path).turns == 1


def test_forks_and_openings_at_the_same_time_leave_no_lock(tmp_path: Path) -> None:
    """Each child waits until the parent has closed what it opened meanwhile, which is then free."""
    path = small(tmp_path / "s.jsonl")

    def open_it() -> None:
        journal, reader = Journal.reopen(path)
        with journal, reader:
            pass

    ready, go = os.pipe(), os.pipe()
    opened = 0
    stop = threading.Event()

    def open_and_close() -> None:
        nonlocal opened
        while not stop.is_set():
            open_it()
            opened += 1

    thread = threading.Thread(target=open_and_close)
    thread.start()
    children = []
    try:
        for _ in range(20):
            child = os.fork()
            if child == 0:
                os.close(go[1])
                os.write(ready[1], b".")
                os.read(go[0], 1)
                os._exit(0)
            children.append(child)
            os.read(ready[0], 1)
    finally:
        stop.set()
        thread.join()
        try:
            open_it()  # while all the children live
        finally:
            for end in (*ready, *go):
                os.close(end)
            for child in children:
                os.waitpid(child, 0)
    assert opened > 0


# ------------------------------------------------------------------------------------------------------ what is dropped


def drop_an_agent(path: Path) -> None:
    agent = Agent(ScriptedModel(["Hi!"]), journal=path)
    agent.run("Hi?")


def drop_an_async_agent(path: Path) -> None:
    async def main() -> None:
        agent = AsyncAgent(ScriptedModel(["Hi!"]), journal=path)
        await agent.run("Hi?")

    asyncio.run(main())


def drop_in_a_cycle(path: Path) -> None:
    agent: Any = Agent(ScriptedModel(["Hi!"]), journal=path)
    agent.run("Hi?")
    agent.itself = agent


def drop_in_a_cycle_of_the_program_s(path: Path) -> None:
    seen: list[Any] = []
    agent = Agent(ScriptedModel(["Hi!"]), journal=path, observers=[lambda event: seen.append((event, agent))])
    agent.run("Hi?")


def drop_a_stream_that_was_left(path: Path) -> None:
    async def main() -> None:
        agent = AsyncAgent(ScriptedModel(["Hi!"]), journal=path)
        async with agent.stream("Hi?") as events:
            async for _ in events:
                pass

    asyncio.run(main())


def drop_after_a_failed_turn(path: Path) -> None:
    def fail(request: Any) -> Any:
        raise ConfigError("no model today")

    agent = Agent(ScriptedModel(["Hi!", fail]), journal=path)
    agent.run("Hi?")
    with pytest.raises(ConfigError):
        agent.run("And now?")


def drop_a_resumed_one(path: Path) -> None:
    drop_an_agent(path)
    Agent.resume(path, ScriptedModel([]))


def drop_a_fork(path: Path) -> None:
    drop_an_agent(path.with_name("other.jsonl"))
    Agent.fork(path.with_name("other.jsonl"), ScriptedModel(["Hi!"]), journal=path).run("Hi?")


def drop_a_host(path: Path) -> None:
    AgentHost.in_thread(ScriptedModel(["Hi!"])).open("a", journal=path).run("Hi?")


def drop_a_host_that_holds_itself(path: Path) -> None:
    host: Any = AgentHost.in_thread(ScriptedModel(["Hi!"]))
    host.itself = host
    host.open("a", journal=path).run("Hi?")


def drop_a_host_in_a_process(path: Path) -> None:
    choice = ModelChoice(factory="script", arguments={"replies": ["Hi!"]})
    host = AgentHost.in_process(choice, factories={"script": "tests.interpreters.hosting.models:scripted"})
    host.open("a", journal=path).run("Hi?")


DROPPED = [
    drop_an_agent,
    drop_an_async_agent,
    drop_a_stream_that_was_left,
    drop_in_a_cycle,
    drop_in_a_cycle_of_the_program_s,
    drop_after_a_failed_turn,
    drop_a_resumed_one,
    drop_a_fork,
    drop_a_host,
    drop_a_host_that_holds_itself,
    drop_a_host_in_a_process,
]


@pytest.mark.behaviour("R13b")
@pytest.mark.parametrize("drop", DROPPED, ids=lambda drop: drop.__name__)
def test_what_is_dropped_without_being_closed_gives_its_lock_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drop: Callable[[Path], None]
) -> None:
    """Before anybody is told that another session is writing; what it acknowledged is on file."""
    path = tmp_path / "s.jsonl"
    monkeypatch.syspath_prepend(str(ROOT))  # a host in a process finds its model there
    drop(path)

    with Agent.resume(path, ScriptedModel(["Again!"])) as agent:
        assert [message.text for message in agent.state.history[:2]] == ["Hi?", "Hi!"]  # type: ignore[union-attr]
        assert agent.run("And now?").text == "Again!"
    assert replay(path).raise_for_divergence().turns >= 2


AT_ONCE = [drop_an_agent, drop_an_async_agent, drop_a_stream_that_was_left, drop_a_resumed_one, drop_a_fork]
"""Those for which no garbage has to be collected."""


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(sys.platform != "linux", reason="/proc says which descriptors are open")
@pytest.mark.parametrize("drop", AT_ONCE, ids=lambda drop: drop.__name__)
def test_a_hundred_dropped_agents_leave_no_descriptor(tmp_path: Path, drop: Callable[[Path], None]) -> None:
    """Though nobody collects the garbage, and without a warning (which would be an error here)."""
    gc.collect()
    gc.disable()
    try:
        before = descriptors()
        for number in range(100):
            folder = tmp_path / str(number)
            folder.mkdir()
            drop(folder / "s.jsonl")
        assert descriptors() == before
    finally:
        gc.enable()


@pytest.mark.skipif(sys.platform != "linux", reason="/proc says which descriptors are open")
@pytest.mark.parametrize("drop", [drop_in_a_cycle, drop_in_a_cycle_of_the_program_s], ids=lambda drop: drop.__name__)
def test_agents_that_hold_themselves_leave_few_descriptors(tmp_path: Path, drop: Callable[[Path], None]) -> None:
    """They go with the garbage, which is collected before their files are many, also where Python collects none."""
    gc.collect()
    gc.disable()
    try:
        before = descriptors()
        for number in range(3 * FEWEST):
            drop(tmp_path / f"{number}.jsonl")
        assert descriptors() - before <= 2 * FEWEST
        gc.collect()
        assert descriptors() <= before
    finally:
        gc.enable()


@pytest.mark.parametrize("drop", AT_ONCE, ids=lambda drop: drop.__name__)
def test_an_agent_that_nobody_holds_gives_its_lock_back_at_once(tmp_path: Path, drop: Callable[[Path], None]) -> None:
    """No garbage has to be collected for it."""
    path = tmp_path / "s.jsonl"
    gc.disable()
    try:
        drop(path)
        assert not is_being_written(path)
    finally:
        gc.enable()


def test_an_agent_that_could_not_be_made_holds_no_lock(tmp_path: Path) -> None:
    """Not even while its error is looked at."""

    async def observe(event: Any) -> None: ...

    with pytest.raises(ConfigError, match="needs an AsyncAgent") as caught:
        Agent(ScriptedModel([]), journal=tmp_path / "s.jsonl", observers=[observe])
    assert caught.tb is not None
    assert not is_being_written(tmp_path / "s.jsonl")


def test_an_agent_dropped_while_a_call_of_it_still_runs_gives_its_lock_back(tmp_path: Path) -> None:
    """A tool that does not heed its cancellation holds the session's inner parts, and not its recording."""
    path = tmp_path / "s.jsonl"
    go, begun = threading.Event(), threading.Event()

    @tool(timeout=0.01)
    def dawdle() -> str:
        begun.set()
        go.wait()
        return "late"

    agent = Agent(ScriptedModel([call("dawdle"), "It took too long."]), [dawdle], journal=path)
    assert agent.run("Go!").text == "It took too long."
    begun.wait()
    try:
        del agent
        Agent.resume(path, ScriptedModel([]), [dawdle]).close()
    finally:
        go.set()


# ------------------------------------------------------------------------------------------------- closing and writing


def test_a_journal_that_is_closed_while_it_is_written_is_closed_after_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its descriptor may be another file's as soon as it is closed: nothing is ever written there."""
    path = tmp_path / "s.jsonl"
    journal = Journal.create(path, session="s", engine=EchoEngine())
    write = os.write

    def close_first(descriptor: int, data: bytes) -> int:
        journal.close()
        assert is_being_written(path)
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", close_first)
    spoken = UserSpoke("Hi?")
    journal.write(spoken, EchoEngine().step(replay(path).state, spoken))
    monkeypatch.undo()

    assert (replay(path).records, is_being_written(path)) == (1, False)
    with pytest.raises(JournalWriteError, match="is closed"):
        journal.write(spoken, EchoEngine().step(replay(path).state, spoken))


def test_a_file_that_another_thread_closes_is_none_of_those_that_are_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a locked recording is called one that can't be locked."""
    monkeypatch.setattr(locking, "COLLECTIONS", 1)
    with LockedFile(tmp_path / "a", os.O_WRONLY | os.O_CREAT) as one, LockedFile(tmp_path / "a", os.O_WRONLY) as two:
        assert one.lock()
        closing = LockedFile(tmp_path / "b", os.O_WRONLY | os.O_CREAT)
        os.close(closing.descriptor)
        try:
            assert not two.lock()
        finally:
            closing.descriptor = -1


def test_a_disk_without_locks_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is writing it, and nothing would keep a second session from it."""

    def refuse(descriptor: int, how: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(JournalWriteError, match=r"can't be locked \(No locks available\).*another disk"):
        Agent(ScriptedModel([]), journal=tmp_path / "s.jsonl")
