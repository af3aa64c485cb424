"""The journal under asyncio: the disk is waited for on another thread."""

from __future__ import annotations

import asyncio
import itertools
import threading
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from cognition import ModeChanged
from interpreters import AsyncAgent, events, replay, tool
from interpreters.recording.journal import JournalReader, JournalWriteError
from interpreters.testing.fakes import ScriptedModel, call
from interpreters.tools.offloading import run_in_thread
from tests.interpreters.loops import double, run
from tests.interpreters.signs import PATIENCE


class HangingDisk:
    """A disk that hangs until it is let go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hangs: SimpleQueue[threading.Thread] = SimpleQueue()
        self.goes_on = threading.Event()
        monkeypatch.setattr("interpreters.recording.journal._writer.os.fsync", self._force)

    def _force(self, descriptor: int) -> None:
        self.hangs.put(threading.current_thread())
        assert self.goes_on.wait(PATIENCE)


@pytest.mark.parametrize("fsync", ["record", "turn"])
def test_the_disk_is_waited_for_on_another_thread(fsync: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that hangs holds up the session that writes, before its effects, and no other on the loop."""

    async def main() -> Any:
        told: list[str] = []
        async with (
            AsyncAgent(
                ScriptedModel(["one"]),
                journal=tmp_path / "s.jsonl",
                fsync=fsync,
                observers=[events.Inline(lambda event: told.append(type(event.value).__name__))],
            ) as recorded,
            AsyncAgent(ScriptedModel(["two"])) as other,
        ):
            disk = HangingDisk(monkeypatch)
            turn = asyncio.create_task(recorded.run("Hi!"))
            thread = await run_in_thread(lambda: disk.hangs.get(timeout=PATIENCE))
            text = (await other.run("Hi!")).text
            before = list(told)
            disk.goes_on.set()
            return text, (await turn).text, thread is threading.current_thread(), before

    two, one, same_thread, before = run(main())
    assert (two, one, same_thread) == ("two", "one", False)
    assert before == ([] if fsync == "record" else before)
    assert "TurnFinished" not in before
    assert replay(tmp_path / "s.jsonl").raise_for_divergence().turns == 1


def test_a_disk_that_fails_on_another_thread_ends_the_run(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it does on the session's own: nothing is carried out, and the next run goes on."""

    def broken(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    async def main() -> Any:
        model = ScriptedModel(["one"])
        async with AsyncAgent(model, journal=tmp_path / "s.jsonl", fsync="record") as agent:
            with monkeypatch.context() as patch:
                patch.setattr("interpreters.recording.journal._writer.os.fsync", broken)
                with pytest.raises(JournalWriteError, match="No space left"):
                    await agent.run("Hi!")
                asked = len(model.requests)
            return asked, (await agent.run("Hi!")).text

    assert run(main()) == (0, "one")
    assert replay(tmp_path / "s.jsonl").raise_for_divergence().turns == 1


def test_a_mode_that_is_set_between_turns_does_not_hold_the_loop_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is forced to the disk on another thread; whatever comes next waits for it, and nothing else does."""

    async def main() -> Any:
        journal = tmp_path / "s.jsonl"
        model = ScriptedModel([call("pay", n=1), "Refused."])
        pay = tool(approval=True, name="pay")(double.function)
        async with (
            AsyncAgent(model, [pay], journal=journal, fsync="record") as recorded,
            AsyncAgent(ScriptedModel(["two"])) as other,
        ):
            disk = HangingDisk(monkeypatch)
            recorded.set_mode("auto")
            recorded.set_mode("careful")  # behind it
            turn = asyncio.create_task(recorded.run("Pay!"))
            thread = await run_in_thread(lambda: disk.hangs.get(timeout=PATIENCE))
            assert (await other.run("Hi!")).text == "two"
            assert (turn.done(), model.requests) == (False, [])
            disk.goes_on.set()
            result = await turn
            return thread is threading.current_thread(), [made.status for made in result.calls]

    assert run(main()) == (False, ["refused"])
    report = replay(tmp_path / "s.jsonl").raise_for_divergence()
    with JournalReader(tmp_path / "s.jsonl") as reader:
        inputs = [record.input for record in reader]
    assert [event.mode for event in inputs[:2] if isinstance(event, ModeChanged)] == ["auto", "careful"]
    assert report.state.mode == "careful"


@pytest.mark.parametrize("then", ["run", "close", "reset"])
def test_a_mode_that_can_not_be_written_holds_nowhere(
    then: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes next raises, and what comes after that tries again: no turn runs under the mode before."""

    def broken(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    async def main() -> Any:
        path = tmp_path / "s.jsonl"
        model = ScriptedModel(["Hello."])
        agent = AsyncAgent(model, journal=path, fsync="record", owns_model=False)
        with monkeypatch.context() as patch:
            patch.setattr("interpreters.recording.journal._writer.os.fsync", broken)
            agent.set_mode("careful")
            for _ in range(1 if then == "close" else 2):
                with pytest.raises(JournalWriteError, match="No space left"):
                    await (agent.run("Hi!") if then == "run" else getattr(agent, then)())
        assert (model.requests, replay(path).state.mode) == ([], "default")
        if then != "close":
            assert (await agent.run("Hi!")).text == "Hello."
            await agent.close()
            assert replay(path).state.mode == "careful"

    run(main())


def test_a_mode_is_set_also_where_the_loop_ends_before_the_disk_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next loop goes on with it; and without a loop there is none to hold up."""
    path = tmp_path / "s.jsonl"
    agent = AsyncAgent(ScriptedModel(["Hello."]), journal=path, fsync="record")

    async def leave() -> None:
        agent.set_mode("careful")

    asyncio.run(leave())
    agent.set_mode("default")
    assert agent.state.mode == "default"
    assert run(agent.run("Hi!")).text == "Hello."
    run(agent.close())
    with JournalReader(path) as reader:
        modes = [record.input.mode for record in reader if isinstance(record.input, ModeChanged)]
    assert modes == ["careful", "default"]


@pytest.mark.parametrize("fsync", ["record", "never"])
def test_a_mode_may_be_set_from_any_thread_at_any_time(fsync: Any, tmp_path: Path) -> None:
    """Also between two turns, and while one begins: each stands on file once, and in its order."""
    path = tmp_path / "s.jsonl"
    turns = 100 if fsync == "never" else 20
    agent = AsyncAgent(ScriptedModel(["Hello."] * turns), journal=path, fsync=fsync)
    over = threading.Event()
    given: list[Any] = []

    def change() -> None:
        for mode in itertools.cycle(["careful", "auto", "default"]):
            if over.is_set():
                return
            agent.set_mode(mode)
            given.append(mode)
            over.wait(0.0001 * (len(given) % 7) if fsync == "never" else 0.003 * (len(given) % 7))

    async def main() -> None:
        for _ in range(turns):
            await agent.run("Hi!")
            await asyncio.sleep(0.0005)
        over.set()
        await asyncio.to_thread(thread.join)
        await agent.close()

    thread = threading.Thread(target=change)
    thread.start()
    try:
        run(main())
    finally:
        over.set()
        thread.join()

    report = replay(path).raise_for_divergence()
    with JournalReader(path) as reader:
        assert [record.input.mode for record in reader if isinstance(record.input, ModeChanged)] == given
    assert report.turns == turns
