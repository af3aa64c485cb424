"""Calls on hosts: never more at a time than a host has slots, over all processes, and none but calls have one."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from sqlalchemy import func, insert, inspect, select, text

from cognition import Completed, Failure, GenerationOptions, History, ModelRequest, UserMessage, UserSpoke
from interpreters import tool
from interpreters.durable.definition import DurableAgent
from interpreters.durable.model_hosts._slots import Slots, calls
from interpreters.durable.model_hosts.hosted_model import HostedModel, make_host_adapter
from interpreters.durable.model_hosts.hosts import LEFT_ALONE, HostStates, ModelHost, rank_hosts
from interpreters.recording.store import SqlStore, StoreError
from interpreters.testing.durable import MemoryEngine
from interpreters.testing.fakes import FunctionModel, Reply, call
from runtime.protocol.model import Done, Generation, ModelInfo
from tests.interpreters.databases import needs_postgres, postgres

ROOT = Path(__file__).resolve().parents[3]
REQUEST = ModelRequest("", History((UserMessage("m1", "Hi!"),)), (), GenerationOptions())
GONE = Failure("it can't be connected to", "offline", code="connect")
NUMBERS = itertools.count(1)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=needs_postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/sessions.db" if request.param == "sqlite" else postgres().url


@pytest.fixture
def host() -> str:
    """A name that no other test has: they share a PostgreSQL."""
    return f"host-{next(NUMBERS)}"


class Counted:
    """A model that counts how many replies it makes at a time; each goes on once three are made."""

    def __init__(self) -> None:
        self.now = self.most = self.all = 0
        self.three = asyncio.Barrier(3)

    async def answer(self, _request: Any) -> Any:
        self.now += 1
        self.all += 1
        self.most = max(self.most, self.now)
        await self.three.wait()
        self.now -= 1
        return "Hello."


async def end_of(model: HostedModel) -> Done:
    *_, done = [output async for output in model.stream(REQUEST)]
    assert isinstance(done, Done)
    return done


def rows(store: SqlStore, host: str) -> int:
    found = select(func.count()).select_from(calls).where(calls.c.host == host)
    return int(store.database.run(lambda connection: connection.execute(found).scalar_one()))


def test_no_more_calls_are_at_a_host_than_it_has_slots_and_nothing_is_left_behind(url: str, host: str) -> None:
    counted, store = Counted(), SqlStore(url)
    places, slots = HostStates([ModelHost(host, FunctionModel(counted.answer), 3)]), Slots(store)

    async def run() -> None:
        await asyncio.gather(*(end_of(HostedModel(places, slots, f"session-{number}")) for number in range(12)))

    asyncio.run(run())
    slots.take(host, 1).came.result(60)  # behind all others, and so alone

    assert (counted.most, counted.all) == (3, 12)
    assert rows(store, host) == 1


def test_a_call_that_is_cancelled_while_it_waits_ends_so_and_keeps_nobody_up(url: str, host: str) -> None:
    slots = Slots(SqlStore(url))
    model = HostedModel(HostStates([ModelHost(host, FunctionModel(lambda _request: "Hello."))]), slots, "ada")
    before = slots.take(host, 1)
    assert before.came.result(60)

    async def run() -> tuple[Any, Any]:
        cancelled = model.stream(REQUEST)
        first = asyncio.ensure_future(anext(cancelled))  # type: ignore[call-overload]
        left = asyncio.ensure_future(end_of(model))
        await asyncio.sleep(0)
        cancelled.cancel()
        left.cancel()
        done = await first
        await asyncio.gather(left, return_exceptions=True)
        slots.free(before)
        return done, await end_of(model)

    done, after = asyncio.run(run())

    assert (done.finish_reason, after.finish_reason) == ("cancelled", "stop")
    assert [output.text for output in model.submit(REQUEST) if isinstance(output, Done)] == ["Hello."]


def test_neither_a_tool_nor_a_worker_nor_a_run_holds_a_slot(tmp_path: Path) -> None:
    """With the only slot held by one of them, the run would wait for itself."""
    slots = Slots(SqlStore(f"sqlite:///{tmp_path}/sessions.db"))

    @tool
    async def look() -> str:
        """Look."""
        own = slots.take("a", 1)
        assert await asyncio.wrap_future(own.came)
        slots.free(own)
        return "seen"

    def answer(request: Any) -> Any:
        asked = len(request.messages)
        if "look around" in request.messages[0].text:
            return [call("look"), call("spawn_worker", name="ann", objective="Be brief.")] if asked == 1 else "Done."
        return Reply("It is done.")

    agent = DurableAgent("looker", FunctionModel(answer), [look], features=("workers",))
    places = HostStates([ModelHost("a", agent.model)])
    own = agent.on(HostedModel(places, slots, "ada"))
    ended = asyncio.run(asyncio.wait_for(MemoryEngine().run(own, "ada", UserSpoke("look around")), 120))

    assert ended.finished is not None
    assert ended.finished.outcome == Completed("Done.")


def test_a_host_that_can_not_be_reached_is_left_alone_and_then_tried_by_one_call(tmp_path: Path) -> None:
    now, reached, asked = [0.0], [False], list[str]()

    def host(name: str, first: bool) -> ModelHost:
        def answer(_request: Any) -> Any:
            asked.append(name)
            return "Hello." if reached[0] or not first else GONE

        return ModelHost(name, FunctionModel(answer))

    own, other = rank_hosts("ada", ["a", "b"])
    places = HostStates([host(own, True), host(other, False)], clock=lambda: now[0])
    model = HostedModel(places, Slots(SqlStore(f"sqlite:///{tmp_path}/sessions.db")), "ada")

    def said() -> list[str]:
        asked.clear()
        asyncio.run(end_of(model))
        return asked

    assert asyncio.run(end_of(model)).failure == GONE  # which the core tries again
    assert (said(), said()) == ([other], [other])
    now[0] += LEFT_ALONE
    assert said() == [own]
    assert said() == [other]
    now[0] += LEFT_ALONE
    reached[0] = True
    assert (said(), said()) == ([own], [own])


class Counting:
    """A model that counts, as long as its host is there."""

    def __init__(self, name: str) -> None:
        self.model = FunctionModel(lambda _request: "Hello.", name=name)
        self.here = True

    def describe(self) -> ModelInfo:
        info = self.model.describe()
        return info if self.here else evolve(info, features=(*info.features, "estimated_counts"))

    def count_tokens(self, _request: ModelRequest) -> int:
        return 7 if self.here else 1000

    def count_texts(self, texts: Sequence[str]) -> Sequence[int]:
        return [1] * len(texts) if self.here else ()

    def submit(self, request: ModelRequest) -> Generation:
        return self.model.submit(request)

    def close(self) -> None:
        pass


def test_while_a_host_is_away_another_one_counts(tmp_path: Path) -> None:
    models = {name: Counting(name) for name in "ab"}
    places = HostStates([ModelHost(name, model) for name, model in models.items()])
    own, other = rank_hosts("ada", models)
    model = HostedModel(places, Slots(SqlStore(f"sqlite:///{tmp_path}/sessions.db")), "ada")

    def counted() -> tuple[Any, ...]:
        info = model.describe()
        estimated = "estimated_counts" in info.features
        return model.count_tokens(REQUEST), model.count_texts(["a", "b"]), info.name, estimated

    assert counted() == (7, [1, 1], own, False)
    models[own].here = False
    assert counted() == (7, [1, 1], other, False)
    models[other].here = False
    assert counted()[1:] == ((), own, True)


HOLD = """
import sys, time
import tests.interpreters.durable.sqlite  # noqa: F401 - before anything opens a database
from interpreters.durable.model_hosts._slots import Slots
from interpreters.recording.store import SqlStore, StoreError

slots = Slots(SqlStore(sys.argv[1]))
assert slots.take(sys.argv[2], 2).came.result(60)
assert slots.take(sys.argv[2], 2).came.result(60)
slots.take(sys.argv[2], 2)
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture
def holder(url: str, host: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLD, url, host]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


@pytest.mark.slow
def test_what_a_killed_process_held_and_waited_for_is_free(url: str, host: str, holder: subprocess.Popen[str]) -> None:
    slots = Slots(SqlStore(url))
    ticket = slots.take(host, 2)
    os.kill(holder.pid, signal.SIGKILL)

    assert ticket.came.result(60)
    assert slots.take(host, 2).came.result(60)


def test_a_process_that_was_taken_for_dead_queues_up_again(tmp_path: Path) -> None:
    store = SqlStore(f"sqlite:///{tmp_path}/sessions.db")
    slots, others = Slots(store), Slots(store)
    assert others.take("a", 1).came.result(60)
    waiting = slots.take("a", 1)
    while rows(store, "a") < 2:
        pass
    store.database.run(lambda connection: connection.execute(calls.delete()))

    assert waiting.came.result(60)


def test_tables_of_another_version_are_refused_before_a_process_works_and_left_as_they_are(tmp_path: Path) -> None:
    """A call would wait for its slot without end: the thread that asks for it takes every fault for a passing one."""
    store = SqlStore(f"sqlite:///{tmp_path}/sessions.db")
    places = HostStates([ModelHost("a", FunctionModel(lambda _request: "Hello."))])
    make_host_adapter(places, store)
    store.database.run(lambda connection: connection.execute(text("UPDATE cogstep_slots SET version = 2")))
    store.database.run(lambda connection: connection.execute(text("DROP TABLE cogstep_calls")))

    with pytest.raises(StoreError, match=r"schema version 2 and this cogstep knows version 1.*Nothing was changed"):
        make_host_adapter(places, store)
    assert not store.database.run(lambda connection: inspect(connection).has_table("cogstep_calls"))
    make_host_adapter(HostStates(()), store)


def test_what_a_dead_process_has_left_goes_when_another_one_begins(tmp_path: Path) -> None:
    """Also where nobody waits for a slot."""
    store = SqlStore(f"sqlite:///{tmp_path}/sessions.db")
    places = HostStates([ModelHost("a", FunctionModel(lambda _request: "Hello."))])
    make_host_adapter(places, store)
    own = store.join()
    for number, holder in enumerate([own, "gone:1", "gone:1", "gone:2"]):
        row = {"host": "a", "number": number, "holder": holder, "taker": "t"}
        store.database.run(lambda connection, row=row: connection.execute(insert(calls).values(row)))  # type: ignore[misc]

    make_host_adapter(places, store)
    left = store.database.run(lambda connection: list(connection.execute(select(calls.c.holder)).scalars()))
    assert left == [own]
