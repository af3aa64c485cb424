"""A recorder that may have to wait does so on a thread: the loop of an ``AsyncAgent`` goes on meanwhile."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Literal

import pytest

from interpreters import AsyncAgent, replay
from interpreters.recording.store import SqlStore, _sql_recorder as store_recorder
from interpreters.testing.fakes import ScriptedModel, call
from tests.interpreters.databases import needs_postgres, postgres
from tests.interpreters.recording.sqlite_recorder import SqliteRecorder
from tests.interpreters.simple_tools import multiply


class Slow(SqliteRecorder):
    may_wait = True
    threads: set[int]
    closed_by: set[int]

    def append(self, number: int, line: bytes, force: bool) -> None:
        if number:  # the header is written where the agent is made
            self.threads.add(threading.get_ident())
        super().append(number, line, force)

    def close(self) -> None:
        self.closed_by.add(threading.get_ident())
        super().close()


@pytest.mark.parametrize("fsync", ["turn", "never"])
@pytest.mark.parametrize("may_wait", [True, False])
def test_no_line_is_kept_in_the_loop_by_a_recorder_that_may_wait(
    may_wait: bool, fsync: Literal["turn", "never"], tmp_path: Path
) -> None:
    recorder = Slow(tmp_path / "s.db", "s")
    recorder.threads, recorder.closed_by, recorder.may_wait = set(), set(), may_wait

    async def turn() -> None:
        model = ScriptedModel([call("multiply", a=6, b=7), "42."])
        async with AsyncAgent(model, [multiply], journal=recorder, fsync=fsync) as agent:
            assert (await agent.run("6 * 7?")).text == "42."

    asyncio.run(turn())
    for threads in (recorder.threads, recorder.closed_by):
        assert (threading.get_ident() in threads) is not may_wait
    assert replay(recorder).raise_for_divergence().turns == 1


def test_sqlite_may_wait_while_it_is_slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = SqlStore(f"sqlite:///{tmp_path}/s.db").recorder("a")
    assert recorder.lock(True)
    for number, (limit, expected) in enumerate([(60.0, False), (-1.0, True), (60.0, False)]):
        monkeypatch.setattr(store_recorder, "SLOW", limit)
        recorder.append(number, b"%d\n" % number, False)
        assert recorder.may_wait is expected
    recorder.close()


@needs_postgres
def test_a_server_may_always_wait(tmp_path: Path) -> None:
    assert SqlStore(postgres().url).recorder(str(tmp_path)).may_wait
