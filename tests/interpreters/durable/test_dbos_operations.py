"""What an operator sees of sessions on DBOS, and does about it, without a definition of the agent."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cognition import CogstepError, Completed, ToolMessage
from interpreters import replay
from interpreters.cli.main import main
from interpreters.durable.operations import STATUSES
from tests.interpreters.databases import PASSWORD, needs_postgres, postgres
from tests.interpreters.durable.operating import (
    BROKEN,
    FAULT,
    HELD,
    PATIENCE,
    TOLD,
    agent_named,
    answer_and_what_waits_behind,
    cancel_a_turn_and_a_message,
    one_of,
    refusal,
    statuses,
    tell,
    wait_until,
)
from tests.interpreters.hostile_text import offences

pytest.importorskip("dbos", reason="needs the extra `dbos`")

import psycopg

from interpreters.durable.dbos import operations as dbos_operations
from interpreters.durable.dbos.operations import DBOSOperations
from interpreters.durable.dbos.sessions import DBOSSessions
from interpreters.recording.store import StoreError

ROOT = Path(__file__).resolve().parents[3]

NUMBERS = itertools.count()

Told = tuple[DBOSSessions, dict[str, str]]


@pytest.fixture(scope="class")
def url() -> str:
    return new_database()


def new_database() -> str:
    """The URL of one in which no other test has left a run: the workers of other tests would take these."""
    name = f"operated_{next(NUMBERS)}"
    with psycopg.connect(postgres().url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return postgres().url.rpartition("/")[0] + f"/{name}"


@pytest.fixture(scope="class")
def told(url: str) -> Iterator[Told]:
    """Sessions at which this process works, and the runs of a story."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("interpreters.durable.dbos.sessions.LOOKED_AFTER_EVERY", 0.05)
        patched.setattr(dbos_operations, "SETTLED", 1.0)
        with DBOSSessions(agent_named(), url) as sessions, sessions.worker():
            yield sessions, tell(sessions, lambda session, event: sessions._enqueue(session, event, None, None))


@pytest.fixture(scope="class")
def operations(told: Told, url: str) -> Iterator[DBOSOperations]:
    with DBOSOperations(url) as one:
        yield one


@needs_postgres
class TestLooking:
    """Nothing here changes anything."""

    def test_each_run_is_listed_by_what_became_of_it(self, told: Told, operations: DBOSOperations) -> None:
        wait_until(lambda: statuses(operations, told[1]) == TOLD)

    def test_the_engine_s_own_table_has_failed_and_refused_runs_as_errors(self, told: Told) -> None:
        sessions, runs = told
        own = {one.workflow_id: one for one in sessions._connect().list_workflows(workflow_ids=list(runs.values()))}

        found = {name: own[run].status for name, run in runs.items() if TOLD[name] != "queued"}
        failed = {name for name, status in TOLD.items() if status in ("failed", "refused")}
        assert found == {name: "ERROR" if name in failed else "SUCCESS" for name in found}
        assert "the prompt is broken" in str(own[runs["broken"]].error)

    def test_a_run_says_why_and_what_it_waits_for(self, told: Told, operations: DBOSOperations) -> None:
        runs = told[1]
        found = wait_until(lambda: one.status == "queued" and found if (found := operations.runs()) and (
            one := one_of(found, runs["held"])) else None)  # fmt: skip

        assert one_of(found, runs["failed"]).reason == f"the turn failed: fatal: {FAULT}"
        assert "the prompt is broken" in one_of(found, runs["broken"]).reason
        waiting = one_of(found, runs["waiting"])
        assert waiting.reason == "waits for a person: approval of pay 1.1.1"
        assert [(one.effect_id, one.kind, one.tool) for one in waiting.waits_for] == [("1.1.1", "approval", "pay")]
        assert (waiting.session, waiting.agent, waiting.version) == ("waiting", "helper", "1-1")
        assert one_of(found, runs["held"]).reason == "the turn before it waits for answers"
        assert {one.attempts >= 1 for one in found if one.id in runs.values()} == {True}
        assert {one.age >= (one.ended or 0.0) >= 0.0 for one in found} == {True}

    def test_completed_runs_are_left_out_and_each_choice_holds(self, told: Told, operations: DBOSOperations) -> None:
        runs = told[1]
        assert runs["done"] not in {one.id for one in operations.runs()}
        for status in STATUSES:
            assert {one.status for one in operations.runs(statuses=[status])} <= {status}
        own = operations.runs("twice", statuses=STATUSES)
        assert [one.id for one in own] == [runs[name] for name in ("refused", "answer", "twice")]
        assert [one.id for one in operations.runs("twice", statuses=STATUSES, newest=1)] == [runs["refused"]]
        bounded = operations.runs(newest=0)
        assert {one.status for one in bounded} <= {"queued", "running", "waiting"}
        assert runs["waiting"] in {one.id for one in bounded}

    def test_a_run_is_shown_with_its_steps(self, told: Told, operations: DBOSOperations) -> None:
        details = operations.run(told[1]["done"])

        assert (details.run.status, details.run.engine_status) == ("completed", "SUCCESS")
        assert [step.name for step in details.steps] == ["begin", "1.1.0"]
        with pytest.raises(CogstepError, match="there is no run 'nobody:1'"):
            operations.run("nobody:1")

    def test_versions_say_what_still_needs_them(self, told: Told, operations: DBOSOperations) -> None:
        (one,) = operations.versions()

        assert (one.version, one.agents, one.processes, one.absent) == ("1-1", ("helper",), 1, ())
        assert one.sessions >= 4
        assert "waiting" in one.open

    def test_health_counts_every_run(self, told: Told, operations: DBOSOperations) -> None:
        health = operations.health()

        assert (health.ok, health.problems, health.workers, health.drained) == (True, (), 1, ())
        counts = dict(health.counts)
        listed = operations.runs(statuses=STATUSES, newest=1000)
        assert counts == {status: sum(one.status == status for one in listed) for status in STATUSES}
        assert 'cogstep_durable_runs{engine="dbos",status="refused"} 2\n' in operations.metrics_text()

    def test_the_command_prints_all_of_it_and_no_text_steers_the_terminal(
        self, told: Told, url: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        runs = told[1]

        def said(*arguments: str) -> str:
            assert main(["durable", *arguments, "--store", url]) == 0
            printed = capsys.readouterr()
            assert offences(printed.out.encode(), "utf-8", on_terminal=False, lines=True) == []
            assert PASSWORD not in printed.out + printed.err
            return printed.out

        heads, *rows = [line.split() for line in said("list", "--all").splitlines()]
        assert heads == ["status", "age", "tries", "session", "agent", "version", "run", "reason"]
        assert {row[6]: row[0] for row in rows if row[6] in runs.values()} == {runs[name]: TOLD[name] for name in runs}
        as_json = [json.loads(line) for line in said("list", "--status", "failed", "--json").splitlines()]
        assert [(one["id"], one["status"]) for one in as_json] == [(runs["failed"], "failed")]
        assert r"\x1b[2J" in said("show", runs["failed"])
        assert "cogstep durable answer waiting 1.1.1" in said("show", runs["waiting"])
        assert "1-1" in said("versions")
        assert said("health").startswith("healthy\n")
        assert "cogstep_durable_up" in said("metrics")

    def test_a_database_that_goes_away_is_a_problem_and_no_exception(
        self, told: Told, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with DBOSOperations(url) as operations:

            def away(*_: Any) -> Any:
                raise StoreError("the database can not be used", store="store")

            monkeypatch.setattr(dbos_operations, "RunView", away)
            health = operations.health()

            assert (health.ok, health.counts) == (False, ())
            assert "the database can not be used" in health.problems[0]
            assert operations.metrics_text().splitlines()[2] == 'cogstep_durable_up{engine="dbos"} 0'


@needs_postgres
class TestActing:
    def test_a_worker_that_fails_is_told_to_its_parent(self, told: Told) -> None:
        """Though the engine stores its run as failed."""
        sessions = told[0]
        ended = sessions.result(sessions.send("delegated", "delegate"), PATIENCE)
        (worker,) = [name for name in sessions.store.names() if name.startswith("delegated/")]

        assert ended.finished is not None
        assert ended.finished.outcome == Completed("Done.")
        told_by = [one for one in replay(sessions.recorder("delegated")).state.history if isinstance(one, ToolMessage)]
        assert "the worker failed: the provider is away" in told_by[0].content
        assert replay(sessions.recorder(worker)).same

    def test_an_answer_continues_the_turn_and_then_what_waits_behind_it(
        self, told: Told, operations: DBOSOperations
    ) -> None:
        answer_and_what_waits_behind(told[0], operations)

    def test_a_waiting_turn_is_closed_and_a_queued_message_is_taken_back(
        self, told: Told, operations: DBOSOperations
    ) -> None:
        cancel_a_turn_and_a_message(told[0], operations)

    def test_a_refused_run_is_executed_again_under_its_own_id(self, told: Told, operations: DBOSOperations) -> None:
        sessions = told[0]
        BROKEN.add("repaired")
        run = sessions.send("repaired", "Hi!")
        assert "the prompt is broken" in refusal(sessions, run)
        BROKEN.discard("repaired")

        assert operations.retry(run) == run
        assert sessions.result(run, PATIENCE).turn == 1
        with pytest.raises(CogstepError, match="has completed: send a new message"):
            operations.retry(run)
        with pytest.raises(CogstepError, match="there is no run"):
            operations.retry("nobody:1")

    def test_a_turn_that_was_left_open_continues(self, told: Told, operations: DBOSOperations) -> None:
        """As after a cancellation in the engine's own console, which closes no turn."""
        sessions = told[0]
        HELD.add("left")
        run = sessions.send("left", "hang")
        wait_until(lambda: len(sessions._connect().list_workflow_steps(run)) >= 2)
        with pytest.raises(CogstepError, match="is running: there is nothing to retry"):
            operations.retry(run)
        sessions._connect().cancel_workflow(run)
        HELD.discard("left")
        wait_until(lambda: operations._is_interrupted("left"))
        again = operations.retry(run)

        assert again != run
        assert sessions.result(again, PATIENCE).turn == 1
        assert one_of(operations.runs("left"), run).status == "cancelled"

    def test_a_drain_waits_for_running_runs_and_lets_none_begin(self, told: Told, operations: DBOSOperations) -> None:
        sessions = told[0]
        HELD.add("slow")
        slow = sessions.send("slow", "hang")
        wait_until(lambda: one_of(operations.runs("slow"), slow).status == "running")
        try:
            late = operations.drain("helper", timeout=0.3)
            assert (late.agents, [one.id for one in late.running]) == (("helper",), [slow])
            HELD.discard("slow")
            assert operations.drain().running == ()
            assert sessions.result(slow, 0).turn == 1
            queued = sessions.send("drained", "Hi!")
            with pytest.raises(TimeoutError):
                sessions.result(queued, 0.5)
            assert one_of(operations.runs("drained"), queued).reason == "the agent helper is drained"
            health = operations.health(late=0.0)
            assert (health.ok, health.drained) == (True, ("helper",))
            with pytest.raises(
                CogstepError, match="no process has worked for an agent 'nobody' here; there are helper"
            ):
                operations.drain("nobody")
        finally:
            HELD.discard("slow")
            assert operations.undrain() == ("helper",)
        assert sessions.result(queued, PATIENCE).turn == 1

    def test_ended_runs_are_deleted_by_their_age(self, told: Told, operations: DBOSOperations) -> None:
        sessions = told[0]
        old, new = (sessions.send("aged", "Hi!") for _ in range(2))
        sessions.result(new, PATIENCE)
        client = sessions._connect()
        rows = client._sys_db.tables.workflow_status
        with client._sys_db.engine.begin() as connection:
            connection.execute(rows.update().where(rows.c.workflow_uuid == old).values(completed_at=1000))

        assert operations.clear(86_400 * 365.0) == 1
        assert [one.id for one in operations.runs("aged", statuses=STATUSES)] == [new]


@needs_postgres
def test_without_a_process_health_says_so_and_a_new_one_stays_drained() -> None:
    url = new_database()
    with pytest.raises(CogstepError, match="DBOS has no data in") as caught:
        DBOSOperations(url)
    assert PASSWORD not in str(caught.value)
    with DBOSSessions(agent_named(), url) as sessions:
        run = sessions.send("ada", "Hi!")
    with DBOSSessions(agent_named(), url) as sessions, DBOSOperations(url) as operations:
        health = operations.health()
        assert (health.ok, health.workers) == (False, 0)
        assert health.problems == ("1 runs wait: no process works at sessions; start a worker",)
        assert 'cogstep_durable_healthy{engine="dbos"} 0\n' in operations.metrics_text()
        with sessions.worker():
            sessions.result(run, PATIENCE)
            assert operations.drain(timeout=0.0).agents == ("helper",)
        with sessions.worker():
            later = sessions.send("ada", "Hi!")
            with pytest.raises(TimeoutError):
                sessions.result(later, 1.0)
            operations.undrain()
            sessions.result(later, PATIENCE)


def test_a_store_that_is_not_there_is_named_and_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for where in (f"sqlite:///{tmp_path}/s.db", "postgresql://ada:secret-word@127.0.0.1:1/agents"):
        assert main(["durable", "list", "--store", where]) == 2
        said = capsys.readouterr().err
        assert said.startswith("cogstep: ")
        assert "secret-word" not in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=needs_postgres)])
def test_an_operator_works_from_another_process_than_the_worker(kind: str, tmp_path: Path) -> None:
    """On both databases, by the command."""
    url = f"sqlite:///{tmp_path}/sessions.db" if kind == "sqlite" else new_database()
    said = subprocess.run(
        [sys.executable, "-m", "tests.interpreters.durable.operating", url],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert said.returncode == 0, said.stdout + said.stderr
    assert said.stdout.splitlines()[-1] == "as commanded"
