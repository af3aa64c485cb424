"""Order, hosts, cancellations and versions on DBOS: ``python -m tests.interpreters.durable.several URL``.

The process of the older version is started here as ``... several URL 1``, and works until its input ends.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from threading import Event
from typing import Any
from unittest.mock import patch

import pytest
from dbos._sys_db import SystemDatabase

import tests.interpreters.durable.sqlite  # noqa: F401 - before anything opens a database
from cognition import Cancelled, Limits
from interpreters import replay, tool
from interpreters.durable._errors import DurableError
from interpreters.durable.dbos.sessions import DBOSSessions
from interpreters.durable.definition import DurableAgent
from interpreters.durable.model_hosts.hosts import preferred_host
from interpreters.recording.store._sql_recorder import SqlRecorder
from interpreters.testing.fakes import FunctionModel, call
from tests.interpreters.durable.two_slots import Host

DOZING: list[str] = []
TICKED: list[int] = []
LOOKED: list[str] = []
"""The runs of which DBOS has looked for a step."""


@tool
async def doze(name: str) -> str:
    """Doze for long."""
    DOZING.append(name)
    await asyncio.sleep(60)
    return "well slept"


@tool
async def tick(number: int) -> str:
    """Tick."""
    TICKED.append(number)
    return f"tick {number}"


def agent(version: str, name: str = "dozer") -> DurableAgent:
    def answer(request: Any) -> Any:
        said = getattr(request.messages[-1], "text", "")
        asked = request.messages[0].text
        if asked.startswith("tick") and len(request.messages) < 2 * int(asked.split()[1]):
            return call("tick", number=len(request.messages))
        return call("doze", name=said) if said == "doze" and len(request.messages) % 2 else f"{name} {version}"

    limits = Limits(steps=10**4, tool_calls=10**4)
    return DurableAgent("dozer", FunctionModel(answer), [doze, tick], version=version, limits=limits, compact_at=None)


def text(sessions: DBOSSessions, run: str) -> str:
    finished = sessions.result(run).finished
    assert finished is not None
    return getattr(finished.outcome, "text", "")


def main(url: str) -> None:
    count_lookups()
    old = subprocess.Popen(
        [sys.executable, "-m", "tests.interpreters.durable.several", url, "1"], stdin=subprocess.PIPE
    )
    hosts = [Host("a"), Host("b")]
    with DBOSSessions(agent("1"), url) as before, DBOSSessions(agent("2"), url) as after:
        assert text(before, before.send("ada", "Hi!")) == "dozer 1"
        with after.worker():
            assert text(after, after.send("bob", "Hi!")) == "dozer 2"
            assert text(after, after.send("ada", "Hi again!")) == "dozer 1"  # by the version that began it
            cancelled(after)
            cancelled_at_work(after)
            looked_for_once(after)
            in_order(after)
            alone(after, before)
        asyncio.run(in_a_loop(after))
    assert old.stdin is not None
    old.stdin.close()
    assert old.wait(30) == 0
    with DBOSSessions(agent("1"), url, hosts=[one.named for one in hosts]) as spread, spread.worker():
        runs = {name: spread.send(name, "Hi!") for name in map("session-{}".format, range(10))}
        for name, run in runs.items():
            assert text(spread, run) == preferred_host(name, "ab")
    assert [one.most for one in hosts] == [2, 2]
    removed(url)
    print("all of it")


def removed(url: str) -> None:
    """What was sent when there were other hosts is done on those that there are."""
    names = [f"later-{number}" for number in range(4)]
    assert {preferred_host(name, "ab") for name in names} == {"a", "b"}
    with DBOSSessions(agent("1"), url, hosts=[Host("a").named, Host("b").named]) as before:
        runs = [before.send(name, "Hi!") for name in names]
    with DBOSSessions(agent("1"), url, hosts=[Host("b").named]) as after, after.worker():
        assert [text(after, run) for run in runs] == ["b"] * len(runs)


def cancelled(sessions: DBOSSessions) -> None:
    run = sessions.send("cid", "doze")
    while "doze" not in DOZING:
        time.sleep(0.05)
    first, second = (sessions.result(closing) for closing in [sessions.cancel("cid", "enough") for _ in range(2)])
    assert first.finished is not None
    assert isinstance(first.finished.outcome, Cancelled)
    assert second.finished is None  # the first one closed the turn
    with pytest.raises(DurableError, match="was cancelled"):
        sessions.result(run)
    assert text(sessions, sessions.send("cid", "Hi!")) == "dozer 2"
    assert replay(sessions.recorder("cid")).same


def cancelled_at_work(sessions: DBOSSessions) -> None:
    """Where ``cancel`` returns between the end of one call and the record of the next one, that one does not begin."""
    append, returned = SqlRecorder.append, Event()
    ticked: list[int] = []

    def cancelled_before(self: SqlRecorder, number: int, line: bytes, force: bool) -> None:
        if self.session == "tim" and len(TICKED) == 3 and b'"call_tool"' in line and not returned.is_set():
            with patch.object(sessions, "_enqueue"):  # nobody takes the session over meanwhile
                sessions.cancel("tim")
            ticked.append(len(TICKED))
            returned.set()
        append(self, number, line, force)

    with patch.object(SqlRecorder, "append", cancelled_before):
        run = sessions.send("tim", "tick 4000")
        assert returned.wait(30)
        with pytest.raises(DurableError, match="was cancelled"):
            sessions.result(run)
        closing = sessions.result(sessions.cancel("tim"))
    assert isinstance(getattr(closing.finished, "outcome", None), Cancelled)
    assert ticked == [len(TICKED)]
    assert replay(sessions.recorder("tim")).same


def looked_for_once(sessions: DBOSSessions) -> None:
    """Of a run that nobody executed before, DBOS looks for the first step alone."""
    LOOKED.clear()
    run = sessions.send("tom", "tick 8")
    assert text(sessions, run)
    assert LOOKED.count(run) == 1


def count_lookups() -> None:
    look = SystemDatabase._check_operation_execution_txn

    def counted(self: Any, workflow_id: str, *rest: Any) -> Any:
        LOOKED.append(workflow_id)
        return look(self, workflow_id, *rest)

    SystemDatabase._check_operation_execution_txn = counted  # type: ignore[method-assign]


def alone(sessions: DBOSSessions, other: DBOSSessions) -> None:
    """A second worker of a process is refused, and the first one works on; a forked child has its own connections."""
    with pytest.raises(DurableError, match="works at sessions already"), other.worker():
        pass
    child = os.fork()
    if not child:
        sent = sessions.send("eve", "from the child")
        os._exit(0 if sent else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert text(sessions, sessions.send("eve", "from the parent")) == "dozer 2"
    assert len(sessions.transcript("eve").turns) == 2


async def in_a_loop(sessions: DBOSSessions) -> None:
    """Where an event loop runs, as in a web server, a worker begins and ends."""
    with sessions.worker():
        run = await asyncio.to_thread(sessions.send, "fay", "Hi!")
        assert (await asyncio.to_thread(sessions.result, run)).finished is not None


def in_order(sessions: DBOSSessions) -> None:
    """Messages of one second are worked at in the order in which they came."""
    said = [f"message {number}" for number in range(6)]
    runs = [sessions.send("dora", text) for text in said]
    for run in runs:
        sessions.result(run)
    turns = sessions.transcript("dora").turns
    assert [turn.entries[0].message.text for turn in turns] == said  # type: ignore[union-attr]  # users' messages


def work(url: str, version: str) -> None:
    with DBOSSessions(agent(version), url) as sessions, sessions.worker():
        sys.stdin.read()


if __name__ == "__main__":
    if len(sys.argv) > 2:
        work(*sys.argv[1:])
    else:
        main(sys.argv[1])
