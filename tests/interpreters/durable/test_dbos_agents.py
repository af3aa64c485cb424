"""Processes that share a database and have not the same agents, as while a further agent is being deployed."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from interpreters.durable.definition import DurableAgent
from interpreters.testing.fakes import FunctionModel
from tests.interpreters.databases import needs_postgres, postgres

pytest.importorskip("dbos", reason="needs the extra `dbos`")

from dbos._error import DBOSWorkflowConflictIDError

from interpreters.durable.dbos import _context as dbos_context
from interpreters.durable.dbos._runs import (
    TOLD_EVERY,
    OrphanedRuns,
    Unattended,
    WorkerProcess,
    agent_of,
    live_workers,
    poll_interval,
    process_name,
    queue_before,
    queue_of,
)
from interpreters.durable.dbos.sessions import DBOSSessions
from interpreters.recording.store import SqlStore
from tests.interpreters.durable.test_dbos import ROOT, begun, new_database


def agent(name: str, version: str = "1") -> DurableAgent:
    return DurableAgent(name, FunctionModel(lambda _request: f"{name} says hello."), version=version)


AS_PROGRAM = """
import sys
import tests.interpreters.durable.sqlite  # noqa: F401 - before anything opens a database
from interpreters.durable.dbos.sessions import DBOSSessions
from tests.interpreters.durable.test_dbos_agents import agent
with DBOSSessions(agent(sys.argv[2]), sys.argv[1]).worker():
    print(flush=True)
    sys.stdin.read()
"""


@contextmanager
def process(url: str, name: str) -> Iterator[None]:
    """Another process, which has one agent, until it is killed."""
    command = [sys.executable, "-c", AS_PROGRAM, url, name]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as one:
        try:
            assert one.stdout is not None
            one.stdout.readline()
            yield
        finally:
            one.kill()


def said(sessions: DBOSSessions, run: str) -> Any:
    finished = sessions.result(run, timeout=60).finished
    return finished and finished.outcome


@needs_postgres
@pytest.mark.slow
def test_a_process_leaves_a_run_to_one_that_has_its_agent(caplog: pytest.LogCaptureFixture) -> None:
    """It ended it with an error that it has no such agent; also a run that comes behind one of another agent."""
    url = new_database("two_agents")
    with DBOSSessions(agent("old"), url) as before, DBOSSessions([agent("old"), agent("new")], url) as after:
        known = after.send("ada", "Hi!", agent="old")
        behind = after.send("ada", "Hi!", agent="new")
        alone = after.send("bob", "Hi!", agent="new")
        with before.worker():
            assert "old says" in str(said(before, known))
            with pytest.raises(TimeoutError, match="no process at work has the agent new in version 1-1; start one"):
                after.result(alone, timeout=0.5)
            assert [one.absent for one in after.versions()] == [("new",)]
            with pytest.raises(TimeoutError):
                after.result(behind, timeout=0.5)
        assert "this process has no agent new" in caplog.text
        with after.worker():
            assert [one.absent for one in after.versions()] == [()]
            assert "new says" in str(said(after, alone))
            assert "new says" in str(said(after, behind))


@needs_postgres
@pytest.mark.slow
def test_a_session_goes_to_and_fro_between_processes_that_have_one_agent_each() -> None:
    """What waited behind another agent's run was taken by that one's process for ever, and held the session up."""
    url = new_database("one_agent_each")
    with DBOSSessions([agent("old"), agent("new")], url) as sessions, DBOSSessions(agent("old"), url) as own:
        names = ["old", "new", "old"]
        runs = [sessions.send("ada", "Hi!", agent=name) for name in names]
        with process(url, "new"), own.worker():
            assert [str(said(sessions, run)).count(f"{name} says") for name, run in zip(names, runs, strict=True)] == [
                1,
                1,
                1,
            ]
        turns = sessions.transcript("ada", agent="old").turns
        assert [name in str(turn) for name, turn in zip(names, turns, strict=True)] == [True] * 3


@needs_postgres
def test_what_waits_in_the_queue_of_an_agent_that_nobody_has_or_of_before_is_moved_to_its_own() -> None:
    """It was waited for, though a process that has its agent was at work."""
    with DBOSSessions([agent("gone", "moved"), agent("here", "moved")], new_database("moved")) as sessions:
        client, first = sessions._connect(), sessions.send("moves", "Hi!", agent="gone")
        runs = [sessions.send("moves", "Hi!", agent=name) for name in ("here", "gone")]
        before = sessions.send("moves-too", "Hi!", agent="here")
        stays = sessions.send("stays", "Hi!", agent="gone")
        client.cancel_workflow(first)
        rows = client._sys_db.tables.workflow_status
        with client._sys_db.engine.begin() as connection:
            connection.execute(rows.update().where(rows.c.workflow_uuid == before).values(queue_name="cogstep"))
        begun(sessions.store, "dbos 1-moved here")

        Unattended().look(client, sessions.store)

        found = {one.workflow_id: agent_of(one) for one in client.list_workflows(status="ENQUEUED", load_input=False)}
        assert [found[run] for run in (*runs, before, stays)] == ["here", "here", "here", "gone"]
        for session in ("moves", "moves-too", "stays"):
            sessions.cancel(session, agent="here")


@needs_postgres
def test_a_workers_run_is_given_on_at_each_look_by_a_process_without_its_agent() -> None:
    """It was kept for longer each time, up to half a minute in which nobody else could take it."""
    with DBOSSessions(agent("absent", "worked"), postgres().url) as sessions:
        client, run = sessions._connect(), sessions.send("worked", "Hi!")
        rows = client._sys_db.tables.workflow_status
        worker, me = f"{run}/1.2.1", sessions.store.join("dbos 1-worked other")
        with client._sys_db.engine.begin() as connection:
            connection.execute(rows.update().where(rows.c.workflow_uuid == run).values(workflow_uuid=worker))
        left = OrphanedRuns(sessions.store, me)
        for _ in range(4):
            with client._sys_db.engine.begin() as connection:
                taken = rows.update().where(rows.c.workflow_uuid == worker).values(status="PENDING", executor_id=me)
                connection.execute(taken)
            with pytest.raises(DBOSWorkflowConflictIDError), patch.object(dbos_context, "DBOS"):
                asyncio.run(left.check_place(sessions._connect, worker, "absent", ["other"]))
            left.resume(client)
            assert client.list_workflows(workflow_ids=[worker])[0].status == "ENQUEUED"
        client.cancel_workflow(worker)
        sessions.store.join("")


@needs_postgres
def test_of_two_runs_of_a_session_in_two_queues_the_later_one_waits_behind_the_earlier() -> None:
    """Two programs had sent in the same moment, and both runs went on at once."""
    with DBOSSessions([agent("one", "both"), agent("two", "both")], postgres().url) as sessions:
        client = sessions._connect()
        with patch.object(sessions, "_runs", return_value=[]):  # neither sees the other's
            earlier, later = (sessions.send("both", "Hi!", agent=name) for name in ("one", "two"))
        assert queue_before(client, earlier) == ""
        assert queue_before(client, later) == queue_of("one")
        rows = client._sys_db.tables.workflow_status
        with client._sys_db.engine.begin() as connection:
            taken = rows.update().where(rows.c.workflow_uuid == later).values(status="PENDING", executor_id="me")
            connection.execute(taken)
        left = OrphanedRuns(sessions.store, "me")
        left.give_up(later, queue_of("one"))
        left.hand_over(client)
        (found,) = client.list_workflows(workflow_ids=[later], load_input=False)
        assert (found.status, agent_of(found), queue_before(client, later)) == ("ENQUEUED", "one", "")
        sessions.cancel("both", agent="one")


@needs_postgres
def test_what_waits_for_an_agent_that_no_process_has_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    with DBOSSessions([agent("old", "agents"), agent("new", "agents")], postgres().url) as sessions:
        sessions.send("waits-for-new", "Hi!", agent="new")
        sessions.send("waits-for-new", "And?", agent="new")
        begun(sessions.store, "dbos 1-agents old,older")
        unattended = Unattended()
        for _ in range(2 * TOLD_EVERY):
            unattended.look(sessions._connect(), sessions.store)
        assert [one.message for one in caplog.records if "1-agents" in one.message] == [
            "2 runs wait for the agent new in version 1-agents, which no process at work has; start one that has it, "
            "or fork their sessions"
        ]
        begun(sessions.store, "dbos 1-agents new")
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            for _ in range(TOLD_EVERY):
                unattended.look(sessions._connect(), sessions.store)
        assert not [one.message for one in caplog.records if "1-agents" in one.message]
        sessions.cancel("waits-for-new", agent="new")


@pytest.mark.parametrize("names", [["a"], ["b.c", "a"], [f"{'x' * 60}{number}" for number in range(4)], []])
def test_a_process_tells_its_agents_by_its_name_or_may_have_any(names: list[str], tmp_path: Any) -> None:
    store = SqlStore(f"sqlite:///{tmp_path}/store.db")
    store.join(process_name("1-2", names))
    (one,) = live_workers(store)

    assert all(one.runs("1-2", name) for name in (*names, ""))
    assert not one.runs("1-1", "")
    if 0 < len(names) < 3:
        assert one == WorkerProcess("1-2", frozenset(names))
        assert not one.runs("1-2", "other")


@pytest.mark.parametrize("agents", [1, 2, 5, 6, 50, 1000])
def test_a_process_with_many_agents_looks_at_their_queues_no_more_than_fifty_times_a_second(agents: int) -> None:
    """With fifty agents it spent a core on that, while it had nothing to do."""
    assert agents / poll_interval(agents) <= 50 + 1e-9
    assert poll_interval(1) == 0.1
