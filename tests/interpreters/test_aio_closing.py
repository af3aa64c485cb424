"""Closing an ``AsyncAgent``, which may itself be cancelled: the turn is closed on file, and nothing stays taken."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from pathlib import Path
from typing import Any

import pytest

from cognition import Cancelled, Idle, ToolMessage
from interpreters import AgentClosedError, AsyncAgent, replay, tool
from interpreters.recording.journal import Journal, JournalWriteError
from interpreters.recording.journal.errors import unwritten_error
from interpreters.recording.journal.locking import is_being_written
from interpreters.testing.fakes import ScriptedModel, call
from tests.cognition.told import MAY_HAVE_HAPPENED
from tests.interpreters.loops import run
from tests.interpreters.signs import PATIENCE
from tests.interpreters.test_aio_cancel import count_suspensions


class Busy:
    """A session in the middle of its turn: one call is awaited, another runs on a thread."""

    def __init__(self, journal: Path) -> None:
        self.journal = journal
        self.running = 0
        self.both = asyncio.Event()
        self.release = threading.Event()
        loop = asyncio.get_running_loop()

        def begun() -> None:
            self.running += 1
            if self.running == 2:
                self.both.set()

        @tool(read_only=True)
        async def wait() -> None:
            begun()
            try:
                await loop.create_future()
            finally:
                await asyncio.sleep(0)

        @tool(read_only=True)
        def work() -> None:
            loop.call_soon_threadsafe(begun)
            assert self.release.wait(PATIENCE)

        model = ScriptedModel([[call("wait"), call("work")]])
        self.agent = AsyncAgent(model, [wait, work], journal=journal, session="s", fsync="record")


@pytest.mark.behaviour("C13c")
@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_close_that_is_cancelled_at_any_await_closes_the_turn(
    times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, or again and again: it goes on up when all is done."""
    monkeypatch.setattr("interpreters.recording.journal._writer.os.fsync", lambda descriptor: None)
    left: list[threading.Event] = []

    async def close(stop: int | None) -> int:
        session = Busy(tmp_path / f"{times} {stop}.jsonl")
        loop, points = asyncio.get_running_loop(), 0
        closing: asyncio.Task[None] | None = None

        def tick() -> None:
            nonlocal points
            if closing is not None:
                points += 1
                if stop is not None and stop <= points < stop + times:
                    loop.call_soon(closing.cancel)

        count_suspensions(loop, tick)
        turn = loop.create_task(session.agent.run("Go!"))
        await session.both.wait()
        closing = loop.create_task(session.agent.close())
        try:
            await closing
        except asyncio.CancelledError:
            assert stop is not None
        loop.set_task_factory(None)
        where = f"cancelled {times} times from {stop} on"
        assert Cancelled("the agent was closed") == (await turn).outcome, where
        assert Idle() == session.agent.state.phase, where
        assert not is_being_written(session.journal), where
        report = replay(session.journal).raise_for_divergence()
        assert (1, session.agent.state) == (report.turns, report.state), where
        session.release.set()
        left.append(session.release)
        return points

    total = run(close(None))
    assert total > 3
    for stop in range(1, total + 1):
        run(close(stop))


@pytest.mark.behaviour("C13c")
def test_a_close_that_is_cancelled_twice_says_so_and_leaves_nothing_open(tmp_path: Path) -> None:
    """As ``asyncio.timeout`` around it does, and a group that gives up meanwhile."""

    async def main() -> None:
        session = Busy(tmp_path / "s.jsonl")
        turn = asyncio.create_task(session.agent.run("Go!"))
        await session.both.wait()
        closing = asyncio.create_task(session.agent.close())
        for _ in range(2):
            await asyncio.sleep(0)
            closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert Cancelled("the agent was closed") == (await turn).outcome
        assert replay(session.journal).raise_for_divergence().turns == 1
        assert not is_being_written(session.journal)
        session.release.set()

    run(main())


@pytest.mark.behaviour("C13c")
def test_a_close_that_is_cancelled_does_not_wait_for_a_task_that_heeds_nothing(tmp_path: Path) -> None:
    """The turn stands closed on file before its tasks have ended; that is what is waited for."""

    async def main() -> None:
        running, release = asyncio.Event(), asyncio.Event()

        @tool
        async def stubborn() -> None:
            running.set()
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue

        path = tmp_path / "s.jsonl"
        agent = AsyncAgent(ScriptedModel([call("stubborn")]), [stubborn], journal=path)
        turn = asyncio.create_task(agent.run("Go!"))
        await running.wait()
        closing = asyncio.create_task(agent.close())
        while agent.state.phase != Idle():
            await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert not turn.done()
        assert not is_being_written(path)
        report = replay(path).raise_for_divergence()
        assert [m.content for m in report.state.history if isinstance(m, ToolMessage)] == [MAY_HAVE_HAPPENED]
        release.set()
        assert Cancelled("the agent was closed") == (await turn).outcome

    run(main())


@pytest.mark.behaviour("C13c")
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("record", [1, 2, 3, 4])
def test_a_close_that_is_cancelled_while_a_record_is_written_closes_the_turn(
    record: int, times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever it is: with the first one the turn stands on file, and has not begun anywhere else."""

    async def main() -> None:
        @tool(read_only=True)
        async def look() -> str:
            return "seen"

        path = tmp_path / "s.jsonl"
        agent = AsyncAgent(ScriptedModel(iter([call("look"), "Done."])), [look], journal=path, fsync="record")
        loop, written = asyncio.get_running_loop(), 0
        under_way, release = asyncio.Event(), threading.Event()

        def slow_disk(descriptor: int) -> None:
            nonlocal written
            written += 1
            if written == record:
                loop.call_soon_threadsafe(under_way.set)
                assert release.wait(PATIENCE)

        monkeypatch.setattr("interpreters.recording.journal._writer.os.fsync", slow_disk)
        turn = asyncio.create_task(agent.run("Go!"))
        await under_way.wait()
        closing = asyncio.create_task(agent.close())
        for _ in range(times):
            await asyncio.sleep(0.01)
            closing.cancel()
        await asyncio.sleep(0.01)
        release.set()
        with pytest.raises(asyncio.CancelledError):
            await closing
        await turn
        assert Idle() == agent.state.phase
        assert not is_being_written(path)
        report = replay(path).raise_for_divergence()
        assert (1, agent.state) == (report.turns, report.state)

    run(main())


@pytest.mark.behaviour("C13c")
def test_a_cancelled_close_whose_turn_can_t_be_written_lets_go_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The cancellation goes on; that the turn stayed open is in the log."""

    async def main() -> None:
        session = Busy(tmp_path / "s.jsonl")
        turn = asyncio.create_task(session.agent.run("Go!"))
        await session.both.wait()

        def fail(journal: Journal, *_: Any) -> None:
            raise unwritten_error(OSError(28, "there is no room"), journal.path)

        monkeypatch.setattr(Journal, "write", fail)
        session.agent.cancel()
        with pytest.raises(JournalWriteError, match="no room"):
            await turn
        closing = asyncio.create_task(session.agent.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert not is_being_written(session.journal)
        session.release.set()

    run(main())
    assert "while closing the agent, which was cancelled" in caplog.text


@pytest.mark.behaviour("C13c")
@pytest.mark.parametrize("fsync", ["never", "record"])
def test_a_close_that_begins_at_any_await_of_a_turn_and_is_cancelled_closes_it(
    fsync: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the turn's first record is still on its way to the disk, or a mode that was set before it."""
    monkeypatch.setattr("interpreters.recording.journal._writer.os.fsync", lambda descriptor: None)

    @tool
    def note() -> str:
        return "noted"

    async def turn(stop: int | None, again: bool) -> int:
        journal = tmp_path / f"{stop} {again}.jsonl"
        loop, points = asyncio.get_running_loop(), 0
        ending: list[asyncio.Task[None]] = []

        async def close() -> None:
            closing = loop.create_task(agent.close())
            for _ in range(2 if again else 1):
                await asyncio.sleep(0)
                closing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await closing

        def tick() -> None:
            nonlocal points
            points += 1
            if points == stop:
                loop.call_soon(lambda: ending.append(loop.create_task(close())))

        model = ScriptedModel(itertools.cycle([call("note"), "Noted."]))
        hooks: Any = {"session_start": lambda request: None, "stop": lambda request: None}
        agent = AsyncAgent(model, [note], journal=journal, session="s", fsync=fsync, hooks=hooks)
        agent.set_mode("careful")
        count_suspensions(loop, tick)
        running = loop.create_task(agent.run("Go!"))
        await asyncio.wait([running])
        loop.set_task_factory(None)
        if stop is None:
            await agent.close()
        while stop is not None and not ending:
            await asyncio.sleep(0)
        for task in ending:
            await task
        where = f"closed at {stop}, cancelled {'twice' if again else 'once'}"
        error = running.exception()
        assert error is None or isinstance(error, AgentClosedError), where
        assert Idle() == agent.state.phase or agent.pending, where  # what can be answered later stays open
        assert not is_being_written(journal), where
        report = replay(journal).raise_for_divergence()
        assert report.state == agent.state, where
        return points

    total = run(turn(None, False))
    assert total > 5
    for stop in range(1, total + 1):
        for again in (False, True):
            run(turn(stop, again))
