"""Processes that share a database and have not the same agents, as while a further agent is being deployed."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from interpreters.durable.definition import DurableAgent
from interpreters.testing.fakes import FunctionModel
from tests.interpreters.databases import needs_postgres, postgres

pytest.importorskip("dbos", reason="needs the extra `dbos`")

from interpreters.durable.dbos import DBOSSessions
from interpreters.durable.dbos_versions import TOLD_EVERY, Unattended, Working, at_work, process_name
from interpreters.recording.store import SqlStore
from tests.interpreters.durable.test_dbos import begun, new_database


def agent(name: str, version: str = "1") -> DurableAgent:
    return DurableAgent(name, FunctionModel(lambda _request: f"{name} says hello."), version=version)


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
def test_what_waits_for_an_agent_that_no_process_has_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    with DBOSSessions([agent("old", "agents"), agent("new", "agents")], postgres().url) as sessions:
        sessions.send("waits-for-new", "Hi!", agent="new")
        sessions.send("waits-for-new", "And?", agent="new")
        begun(sessions.store, "dbos 1-agents old,older")
        unattended = Unattended()
        for _ in range(2 * TOLD_EVERY):
            unattended.look(sessions._connected(), sessions.store)
        assert [one.message for one in caplog.records if "1-agents" in one.message] == [
            "2 runs wait for the agent new in version 1-agents, which no process at work has; start one that has it, "
            "or fork their sessions"
        ]
        begun(sessions.store, "dbos 1-agents new")
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            for _ in range(TOLD_EVERY):
                unattended.look(sessions._connected(), sessions.store)
        assert not [one.message for one in caplog.records if "1-agents" in one.message]
        sessions.cancel("waits-for-new", agent="new")


@pytest.mark.parametrize("names", [["a"], ["b.c", "a"], [f"{'x' * 60}{number}" for number in range(4)], []])
def test_a_process_tells_its_agents_by_its_name_or_may_have_any(names: list[str], tmp_path: Any) -> None:
    store = SqlStore(f"sqlite:///{tmp_path}/store.db")
    store.join(process_name("1-2", names))
    (one,) = at_work(store)

    assert all(one.does("1-2", name) for name in (*names, ""))
    assert not one.does("1-1", "")
    if 0 < len(names) < 3:
        assert one == Working("1-2", frozenset(names))
        assert not one.does("1-2", "other")
