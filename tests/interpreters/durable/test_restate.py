"""Sessions on a real Restate server: the same decisions, cancels, versions, kills; and what is said without one."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from restate.server_context import ServerInvocationContext

from cognition import Cancelled, Completed, ConfigError, Failure, RetryPolicy
from interpreters import LATER, replay, tool
from interpreters.durable._errors import DurableError
from interpreters.durable.definition import DurableAgent
from interpreters.durable.model_hosts.hosts import ModelHost, preferred_host
from interpreters.durable.restate import _context as restate_context
from interpreters.durable.restate.sessions import RestateSessions
from interpreters.recording.journal import NotAJournalError
from interpreters.recording.store import SqlStore, StoreError
from interpreters.testing.fakes import FunctionModel, Reply, call
from tests.interpreters.durable.outside import agent_of
from tests.interpreters.durable.restate_kills import kills
from tests.interpreters.durable.restate_rig import MISSING, Server, Workers, free_port, running_server, server_program
from tests.interpreters.durable.stories import agents_of, suite, tell
from tests.interpreters.durable.two_slots import Host

needs_server = pytest.mark.skipif(server_program() is None, reason=MISSING)

PATIENCE = 60.0

WORKER = str(Path(__file__).with_name("restate_worker.py"))

_numbers = itertools.count()


@pytest.fixture
def store(tmp_path: Path) -> str:
    """The URL of a store."""
    return f"sqlite:///{tmp_path}/sessions.db"


@contextmanager
def serving(
    agent: DurableAgent, store: str, server: Server, hosts: Iterable[ModelHost] = ()
) -> Iterator[RestateSessions]:
    """The sessions of an agent, at which this process works."""
    sessions = RestateSessions(agent, store, ingress=server.ingress, admin=server.admin, hosts=hosts)
    with sessions.worker(f"http://127.0.0.1:{free_port()}"):
        yield sessions


def name() -> str:
    """Of an agent that no other test has: they share a server."""
    return f"tester-{next(_numbers)}"


@needs_server
def test_sessions_decide_what_they_decide_on_asyncio(server: Server, store: str) -> None:
    worlds, agents = agents_of(suite())
    sessions = RestateSessions(agents, store, ingress=server.ingress, admin=server.admin)
    with sessions.worker(f"http://127.0.0.1:{free_port()}"):
        tell(sessions, agents, worlds)

    recorded = [one for one in sessions.store.names() if one.partition("/")[0] == worlds[0].session]
    assert recorded == [worlds[0].session, f"{worlds[0].session}/1.3.2"]
    assert [replay(sessions.recorder(one)).same for one in recorded] == [True, True]


@needs_server
def test_twenty_sessions_run_side_by_side_and_each_in_its_order(server: Server, store: str) -> None:
    agent = DurableAgent(name(), FunctionModel(lambda request: f"{len(request.messages)} messages."))
    with serving(agent, store, server) as sessions:
        runs = [[sessions.send(f"s{one}", "Hi!") for _ in range(2)] for one in range(20)]
        ended = [[sessions.result(run, PATIENCE) for run in pair] for pair in runs]

    said = [[one.finished and one.finished.outcome for one in pair] for pair in ended]
    assert said == [[Completed("1 messages."), Completed("3 messages.")]] * 20


@needs_server
def test_each_session_goes_to_its_host_which_has_no_more_calls_than_slots(server: Server, store: str) -> None:
    agent = DurableAgent(name(), FunctionModel(lambda _: "on no host"))
    hosts, sessions_of = [Host("a"), Host("b")], [f"s{one}" for one in range(8)]
    with serving(agent, store, server, [one.named for one in hosts]) as sessions:
        runs = [sessions.send(one, "Hi!") for one in sessions_of]
        ended = [sessions.result(run, PATIENCE).finished for run in runs]

    assert [one and one.outcome for one in ended] == [Completed(preferred_host(one, "ab")) for one in sessions_of]
    assert [one.most for one in hosts] == [2, 2]


@needs_server
def test_what_is_sent_twice_under_one_key_is_heard_once(server: Server, store: str) -> None:
    with serving(DurableAgent(name(), FunctionModel(lambda _: "Hello.")), store, server) as sessions:
        runs = {sessions.send("ada", "Hi!", key="first") for _ in range(3)}
        sessions.result(runs.pop(), PATIENCE)

    assert runs == set()
    assert replay(sessions.recorder("ada")).turns == 1


@needs_server
def test_a_cancelled_session_begins_nothing_more_and_takes_the_next_message(server: Server, store: str) -> None:
    at_work, stopped = threading.Event(), threading.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        at_work.set()
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            stopped.set()
        return "waited"

    model = FunctionModel(lambda request: call("wait") if len(request.messages) == 1 else "Hello again.")
    with serving(DurableAgent(name(), model, [wait]), store, server) as sessions:
        run = sessions.send("ada", "Hi!")
        assert at_work.wait(PATIENCE)
        closing = sessions.result(sessions.cancel("ada", "enough"), PATIENCE)
        assert stopped.wait(PATIENCE)
        with pytest.raises(DurableError, match="the run was cancelled"):
            sessions.result(run, PATIENCE)
        after = sessions.result(sessions.send("ada", "And now?"), PATIENCE)

    assert closing.finished is not None
    assert closing.finished.outcome == Cancelled("enough")
    assert after.finished is not None
    assert after.finished.outcome == Completed("Hello again.")
    assert replay(sessions.recorder("ada")).same


@needs_server
def test_a_session_is_finished_by_the_version_that_began_it_and_others_begin_with_the_newest(
    server: Server, store: str
) -> None:
    @tool(approval=True)
    def pay(n: int) -> str:
        """Pay."""
        return f"paid {n}"

    def version(number: str) -> DurableAgent:
        def answer(request: Any) -> Any:
            return call("pay", n=1) if len(request.messages) == 1 else Reply(f"Done by version {number}.")

        return DurableAgent(agent, FunctionModel(answer), [pay], approve=lambda _: LATER, version=number)

    agent = name()
    with serving(version("1"), store, server) as old:
        old.result(old.send("ada", "Pay."), PATIENCE)
        with serving(version("2"), store, server) as new:
            (approval,) = new.result(new.send("bob", "Pay."), PATIENCE).pending
            results = [
                new.result(new.answer(session, str(approval.effect_id), True), PATIENCE) for session in ("ada", "bob")
            ]

    outcomes = [one.finished and one.finished.outcome for one in results]
    assert outcomes == [Completed("Done by version 1."), Completed("Done by version 2.")]


@needs_server
def test_a_session_that_other_logic_began_is_refused_with_the_difference(server: Server, store: str) -> None:
    agent = name()

    @tool
    def look() -> str:
        """Look."""
        return "seen"

    with serving(DurableAgent(agent, FunctionModel(lambda _: "Hello."), [look]), store, server) as sessions:
        sessions.result(sessions.send("ada", "Hi!"), PATIENCE)
    with serving(DurableAgent(agent, FunctionModel(lambda _: "Hello.")), store, server) as sessions:
        run = sessions.send("ada", "Hi!")
        with pytest.raises(DurableError, match=r"recorded with other tools \(look is missing\)"):
            sessions.result(run, PATIENCE)


@needs_server
def test_a_run_goes_on_once_the_database_is_back(server: Server, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    away = [True, True, False, True]

    def recorder(self: SqlStore, session: str, *, take_over: bool = False) -> Any:
        if take_over and away and away.pop():
            raise StoreError("it is away", store="the database")
        return there(self, session, take_over=take_over)

    there = SqlStore.recorder
    monkeypatch.setattr(SqlStore, "recorder", recorder)
    with serving(DurableAgent(name(), FunctionModel(lambda _: "Hello.")), store, server) as sessions:
        ended = sessions.result(sessions.send("ada", "Hi!"), PATIENCE)

    assert ended.finished is not None
    assert ended.finished.outcome == Completed("Hello.")
    assert len(away) < 3


@needs_server
def test_a_key_may_be_any_text(server: Server, store: str) -> None:
    with serving(DurableAgent(name(), FunctionModel(lambda _: "Hello.")), store, server) as sessions:
        runs = {sessions.send("Åda/日本?#%", "Hi!", key="schlüssel\n日" * 10_000) for _ in range(2)}
        ended = sessions.result(runs.pop(), PATIENCE)

    assert ended.turn == 1
    assert runs == set()


@needs_server
def test_a_misspelt_session_is_none_that_has_nothing_to_do(server: Server, store: str) -> None:
    with serving(DurableAgent(name(), FunctionModel(lambda _: "Hello.")), store, server) as sessions:
        for call_it in (sessions.cancel, sessions.resume_turn):
            with pytest.raises(NotAJournalError, match="nothing is recorded here"):
                call_it("nobody")

    assert list(sessions.store.names()) == []


@needs_server
def test_another_version_at_the_same_address_is_told_so(server: Server, store: str) -> None:
    agent, address = name(), f"http://127.0.0.1:{free_port()}"
    old, new = (
        RestateSessions(
            DurableAgent(agent, FunctionModel(lambda _: "Hello."), version=version),
            store,
            ingress=server.ingress,
            admin=server.admin,
        )
        for version in ("1", "2")
    )
    with old.worker(address):
        old.result(old.send("ada", "Hi!"), PATIENCE)
    with (
        pytest.raises(DurableError, match="another version, or other agents, need another address"),
        new.worker(address),
    ):
        pass


@needs_server
def test_a_process_that_has_worked_ends_at_sigterm(server: Server, store: str, tmp_path: Path) -> None:
    address = f"http://127.0.0.1:{free_port()}"
    workers = Workers([WORKER, str(tmp_path), store, server.ingress, server.admin, address], tmp_path / "log")
    try:
        process = workers.add()
        sessions = RestateSessions(agent_of(tmp_path), store, ingress=server.ingress, admin=server.admin)
        sessions.result(sessions.send("ada", "Hi!"), PATIENCE)
        process.terminate()

        assert process.wait(PATIENCE) == 0
    finally:
        workers.close()


@needs_server
def test_an_agent_that_nobody_serves_is_named(server: Server, store: str) -> None:
    agent = DurableAgent("nobody", FunctionModel(lambda _: "Hello."))
    sessions = RestateSessions(agent, store, ingress=server.ingress, admin=server.admin)

    with pytest.raises(DurableError, match="knows no 'nobody': start a process that serves this agent"):
        sessions.send("ada", "Hi!")
    with pytest.raises(DurableError, match="knows no run 'inv_"):
        sessions.result("inv_115oNPF1D1aq74IppkJ4EUbipPDT8OPci6", 1.0)


@needs_server
def test_exchanged_addresses_are_said_to_be(server: Server, store: str) -> None:
    agent = DurableAgent("exchanged", FunctionModel(lambda _: "Hello."))
    sessions = RestateSessions(agent, store, ingress=server.admin, admin=server.ingress)

    for call_it in (lambda: sessions.send("ada", "Hi!"), lambda: sessions.result("inv_1", 0)):
        with pytest.raises(DurableError, match="is the admin address of a Restate server, and was given as ingress"):
            call_it()
    for call_it in (lambda: sessions.cancel("ada"), lambda: sessions.serve(f"http://127.0.0.1:{free_port()}")):
        with pytest.raises(DurableError, match="is the ingress address of a Restate server, and was given as admin"):
            call_it()


def test_without_a_server_one_line_says_what_to_start(store: str) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    sessions = RestateSessions(
        DurableAgent("greeter", FunctionModel(lambda _: "Hello.")), store, ingress=nowhere, admin=nowhere
    )
    address = f"http://127.0.0.1:{free_port()}"

    for call_it in (
        lambda: sessions.send("ada", "Hi!"),
        lambda: sessions.result("inv_1", 1.0),
        lambda: sessions.cancel("ada"),
        lambda: sessions.serve(address),
    ):
        with pytest.raises(DurableError, match="no Restate server answers at") as caught:
            call_it()
        assert "start one (npx @restatedev/restate-server)" in str(caught.value)
        assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match="ingress has to be an address such as"):
        RestateSessions(sessions.agents.values(), store, ingress="localhost:8080")


@needs_server
@pytest.mark.slow
def test_processes_and_the_server_are_killed_and_every_session_finishes(tmp_path: Path) -> None:
    kills(4, 3, tmp_path, seed=3)


@needs_server
@pytest.mark.slow
def test_runs_of_an_address_that_is_gone_go_on_at_another_one(tmp_path: Path, store: str) -> None:
    with running_server(tmp_path / "restate") as server:
        sessions = RestateSessions(agent_of(tmp_path), store, ingress=server.ingress, admin=server.admin)
        address = f"http://127.0.0.1:{free_port()}"
        gone = Workers([WORKER, str(tmp_path), store, server.ingress, server.admin, address], tmp_path / "log")
        try:
            gone.add()
            run = sessions.send("ada", "Do it.")
            while not (tmp_path / "done").exists():  # what its first step of that kind leaves: it is bound by then
                time.sleep(0.001)
        finally:
            gone.close()
        later = sessions.send("bob", "Do it.")
        with sessions.worker(f"http://127.0.0.1:{free_port()}"):
            ended = [sessions.result(one, PATIENCE) for one in (run, later)]

    assert [len(one.pending) for one in ended] == [1, 1]


@needs_server
def test_a_timer_of_a_process_whose_clock_is_an_hour_ahead_does_not_take_an_hour(
    server: Server, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server is sent the end of the wait, by the clock of the process."""
    right, tries = ServerInvocationContext.sleep, []

    def an_hour_ahead(self: Any, delta: timedelta, *named: Any) -> Any:
        return right(self, delta + timedelta(hours=1), *named)

    def answer(_request: Any) -> Any:
        tries.append(1)
        return Failure("try again", kind="transient") if len(tries) == 1 else "Hello."

    monkeypatch.setattr(ServerInvocationContext, "sleep", an_hour_ahead)
    monkeypatch.setattr(restate_context, "LATE", 0.05)
    agent = DurableAgent(name(), FunctionModel(answer), retry=RetryPolicy(first_delay=0.05, longest_delay=0.05))
    with serving(agent, store, server) as sessions:
        ended = sessions.result(sessions.send("ada", "Hi!"), PATIENCE)

    assert ended.finished is not None
    assert ended.finished.outcome == Completed("Hello.")
    assert len(tries) == 2
