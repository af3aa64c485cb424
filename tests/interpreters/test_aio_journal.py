"""The journal under asyncio: the disk is waited for on another thread."""

from __future__ import annotations

import asyncio
import threading
from queue import SimpleQueue
from typing import Any

import pytest

from interpreters import (
    AsyncAgent,
    events,
    replay,
)
from interpreters.fakes import ScriptedModel
from interpreters.journal import JournalWriteError
from interpreters.threads import in_thread
from tests.interpreters.loops import run
from tests.interpreters.signs import PATIENCE


@pytest.mark.parametrize("fsync", ["record", "turn"])
def test_the_disk_is_waited_for_on_another_thread(fsync: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that hangs holds up the session that writes, before its effects, and no other on the loop."""
    hangs, goes_on = SimpleQueue[threading.Thread](), threading.Event()

    def slow(descriptor: int) -> None:
        hangs.put(threading.current_thread())
        assert goes_on.wait(PATIENCE)

    async def main() -> Any:
        told: list[str] = []
        async with (
            AsyncAgent(
                ScriptedModel(["one"]),
                journal=tmp_path / "s.jsonl",
                fsync=fsync,
                observers=[events.Inline(lambda event: told.append(type(event).__name__))],
            ) as recorded,
            AsyncAgent(ScriptedModel(["two"])) as other,
        ):
            monkeypatch.setattr("interpreters.journal.writing.os.fsync", slow)
            turn = asyncio.create_task(recorded.run("Hi!"))
            thread = await in_thread(lambda: hangs.get(timeout=PATIENCE))
            text = (await other.run("Hi!")).text
            before = list(told)
            goes_on.set()
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
                patch.setattr("interpreters.journal.writing.os.fsync", broken)
                with pytest.raises(JournalWriteError, match="No space left"):
                    await agent.run("Hi!")
                asked = len(model.requests)
            return asked, (await agent.run("Hi!")).text

    assert run(main()) == (0, "one")
    assert replay(tmp_path / "s.jsonl").raise_for_divergence().turns == 1
