"""What an operator sees of sessions on a Restate server, and does about it, without a definition of the agent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("restate", reason="needs the extra `restate`")

from cognition import CogstepError, Completed, ToolMessage
from interpreters import replay
from interpreters.cli.main import main
from interpreters.durable import run as durable_run
from interpreters.durable.operations import STATUSES
from interpreters.durable.restate.operations import RestateOperations
from interpreters.durable.restate.sessions import RestateSessions
from tests.interpreters.durable.operating import (
    BROKEN,
    FAULT,
    HELD,
    PATIENCE,
    TOLD,
    agent_named,
    answer_and_what_waits_behind,
    cancel_a_turn_and_a_message,
    command,
    one_of,
    refusal,
    statuses,
    tell,
    wait_until,
)
from tests.interpreters.durable.restate_rig import MISSING, Server, free_port, running_server, server_program
from tests.interpreters.hostile_text import offences

Told = tuple[RestateSessions, dict[str, str]]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('store')}/sessions.db"


@pytest.fixture(scope="module")
def told(server: Server, store: str) -> Iterator[Told]:
    """Sessions at which this process works, and the runs of a story."""
    sessions = RestateSessions(agent_named(), store, ingress=server.ingress, admin=server.admin)
    with sessions.worker(f"http://127.0.0.1:{free_port()}"):
        yield sessions, tell(sessions, lambda session, event: sessions.put(session, event))


@pytest.fixture
def operations(server: Server, store: str) -> RestateOperations:
    return RestateOperations(server.admin, store=store)


class TestLooking:
    """Nothing here changes anything."""

    def test_each_run_is_listed_by_what_became_of_it(self, told: Told, operations: RestateOperations) -> None:
        wait_until(lambda: statuses(operations, told[1]) == TOLD)

    def test_the_servers_own_table_has_failed_and_refused_runs_as_failures(self, told: Told, server: Server) -> None:
        sessions, runs = told
        rows = sessions._server.select("SELECT id, status, completion_result FROM sys_invocation")
        own = {row["id"]: row.get("completion_result", "") for row in rows}

        failed = {name for name, status in TOLD.items() if status in ("failed", "refused")}
        found = {name: own[run] for name, run in runs.items() if TOLD[name] != "queued"}
        assert found == {name: "failure" if name in failed else "success" for name in found}

    def test_a_run_says_why_and_what_it_waits_for(self, told: Told, operations: RestateOperations) -> None:
        runs = told[1]
        wait_until(lambda: one_of(operations.runs(), runs["held"]).status == "queued")
        found = operations.runs()

        assert one_of(found, runs["failed"]).reason == f"the turn failed: fatal: {FAULT}"
        assert "the prompt is broken" in one_of(found, runs["broken"]).reason
        waiting = one_of(found, runs["waiting"])
        assert waiting.reason == "waits for a person: approval of pay 1.1.1"
        assert (waiting.session, waiting.agent, waiting.version) == ("waiting", "helper", "1")
        assert one_of(found, runs["held"]).reason == "the turn before it waits for answers"
        assert {one.age >= (one.ended or 0.0) >= 0.0 for one in found} == {True}

    def test_completed_runs_are_left_out_and_each_choice_holds(self, told: Told, operations: RestateOperations) -> None:
        runs = told[1]
        assert runs["done"] not in {one.id for one in operations.runs()}
        for status in STATUSES:
            assert {one.status for one in operations.runs(statuses=[status])} <= {status}
        own = operations.runs("twice", statuses=STATUSES)
        assert {one.id for one in own} == {runs[name] for name in ("refused", "answer", "twice")}
        assert len(operations.runs("twice", statuses=STATUSES, newest=1)) == 1
        bounded = {one.id: one.status for one in operations.runs(newest=0)}
        assert set(bounded.values()) <= {"queued", "running", "waiting"}
        assert bounded[runs["waiting"]] == "waiting"

    def test_a_session_that_waits_longer_than_the_server_keeps_its_run_is_still_listed(
        self, told: Told, operations: RestateOperations
    ) -> None:
        sessions = told[0]
        run = sessions.send("lasting", "pay 9")
        sessions.result(run, PATIENCE)
        assert sessions._server.act(run, "purge") == {}
        (one,) = operations.runs("lasting")

        assert (one.id, one.status, [each.effect_id for each in one.waits_for]) == ("", "waiting", ["1.1.1"])

    def test_a_run_is_shown_with_its_steps(self, told: Told, operations: RestateOperations) -> None:
        details = operations.run(told[1]["done"])

        assert (details.run.status, details.run.engine_status) == ("completed", "completed")
        assert [step.name for step in details.steps] == ["begin", "1.1.0"]
        for nobody in ("inv_nobody", "", "it's"):
            with pytest.raises(CogstepError, match="there is no run"):
                operations.run(nobody)

    def test_versions_say_what_still_needs_them(self, told: Told, operations: RestateOperations) -> None:
        (one,) = operations.versions()

        assert (one.version, one.agents, one.processes, one.absent) == ("1", ("helper",), None, ())
        assert len(one.addresses) == 1
        assert one.sessions >= 4
        assert "waiting" in one.open

    def test_health_counts_every_run(self, told: Told, operations: RestateOperations) -> None:
        health = operations.health()

        assert (health.ok, health.problems, health.workers) == (True, (), None)
        listed = operations.runs(statuses=STATUSES, newest=1000)
        assert dict(health.counts) == {status: sum(one.status == status for one in listed) for status in STATUSES}
        assert 'cogstep_durable_runs{engine="restate",status="refused"} 2\n' in operations.metrics_text()

    def test_the_command_prints_all_of_it_and_no_text_steers_the_terminal(
        self, told: Told, server: Server, capsys: pytest.CaptureFixture[str]
    ) -> None:
        runs = told[1]

        def said(*arguments: str) -> str:
            assert main(["durable", *arguments, "--restate", server.admin]) == 0
            printed = capsys.readouterr().out
            assert offences(printed.encode(), "utf-8", on_terminal=False, lines=True) == []
            return printed

        rows = [line.split() for line in said("list", "--all").splitlines()]
        assert {row[6]: row[0] for row in rows if row[6] in runs.values()} == {runs[name]: TOLD[name] for name in runs}
        as_json = [json.loads(line) for line in said("list", "--status", "failed", "--json").splitlines()]
        assert runs["failed"] in {one["id"] for one in as_json}
        assert r"\x1b[2J" in said("show", runs["failed"])
        assert said("health").startswith("healthy\n")


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
        self, told: Told, operations: RestateOperations, server: Server
    ) -> None:
        with pytest.raises(CogstepError, match="an answer needs the recordings"):
            RestateOperations(server.admin).answer("answered", "1.1.1", True)
        answer_and_what_waits_behind(told[0], operations)

    def test_a_waiting_turn_is_closed_and_a_queued_message_is_taken_back(
        self, told: Told, operations: RestateOperations
    ) -> None:
        cancel_a_turn_and_a_message(told[0], operations)

    def test_a_refused_run_is_executed_again_as_a_new_one(self, told: Told, operations: RestateOperations) -> None:
        sessions = told[0]
        BROKEN.add("repaired")
        run = sessions.send("repaired", "Hi!")
        assert "the prompt is broken" in refusal(sessions, run)
        BROKEN.discard("repaired")
        again = operations.retry(run)

        assert again != run
        assert sessions.result(again, PATIENCE).turn == 1
        with pytest.raises(CogstepError, match="has completed: send a new message"):
            operations.retry(again)

    def test_a_turn_that_was_left_open_continues(self, told: Told, operations: RestateOperations) -> None:
        """As after a cancellation in the server's own console, which closes no turn."""
        sessions = told[0]
        HELD.add("left")
        run = sessions.send("left", "hang")
        wait_until(lambda: len(operations.run(run).steps) >= 3)
        with pytest.raises(CogstepError, match="is running: there is nothing to retry"):
            operations.retry(run)
        sessions._server.cancel(run)
        wait_until(lambda: one_of(operations.runs("left"), run).status == "cancelled")
        HELD.discard("left")
        wait_until(lambda: operations._is_interrupted("left"))
        again = operations.retry(run)

        assert sessions.result(again, PATIENCE).turn == 1

    def test_a_paused_run_continues_and_is_a_problem_until_then(
        self, told: Told, operations: RestateOperations, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its executions fail for a reason outside: the server repeats them, until somebody pauses it."""
        sessions, exists = told[0], durable_run._exists

        def away(recorder: Any) -> bool:
            if recorder.session == "shaky":
                raise OSError("the disk is away")
            return exists(recorder)

        with monkeypatch.context() as patched:
            patched.setattr(durable_run, "_exists", away)
            run = sessions.send("shaky", "Hi!")
            found = wait_until(lambda: one if (one := one_of(operations.runs(), run)).status == "retrying" else None)
            assert "the disk is away" in found.reason
            assert "failed and will be tried again" in operations.health().problems[0]
            inside = sessions._server.select(f"SELECT id FROM sys_invocation WHERE invoked_by_id = '{run}'")
            assert sessions._server.act(inside[0]["id"], "pause") is not None
            wait_until(lambda: one_of(operations.runs("shaky"), run).status == "paused")
            health = operations.health()
            assert (health.ok, "paused" in health.problems[0]) == (False, True)

        assert operations.retry(run) == run
        assert sessions.result(run, PATIENCE).turn == 1

    def test_a_drain_is_refused_with_the_other_way(self, server: Server, capsys: pytest.CaptureFixture[str]) -> None:
        for arguments in ((), ("--undo",)):
            assert main(["durable", "drain", "--restate", server.admin, *arguments]) == 2
            assert "End the processes with SIGTERM" in capsys.readouterr().err

    def test_ended_runs_are_deleted_by_their_age(self, told: Told, operations: RestateOperations) -> None:
        sessions = told[0]
        run = sessions.send("aged", "Hi!")
        sessions.result(run, PATIENCE)

        assert operations.clear(3600.0) == 0
        assert wait_until(lambda: operations.clear(0.0)) >= 1
        assert operations.runs("aged", statuses=STATUSES) == []


def test_without_a_server_health_says_so_and_commands_end_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    health = RestateOperations(nowhere).health()

    assert (health.ok, health.counts) == (False, ())
    assert "no Restate server answers at" in health.problems[0]
    assert main(["durable", "list", "--restate", nowhere]) == 2
    assert "no Restate server answers at" in capsys.readouterr().err
    assert main(["durable", "metrics", "--restate", nowhere]) == 0
    assert 'cogstep_durable_up{engine="restate"} 0\n' in capsys.readouterr().out


@pytest.mark.skipif(server_program() is None, reason=MISSING)
@pytest.mark.slow
def test_an_operator_works_by_the_command(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/sessions.db"
    with running_server(tmp_path / "restate") as server:
        sessions = RestateSessions(agent_named(), store, ingress=server.ingress, admin=server.admin)
        with sessions.worker(f"http://127.0.0.1:{free_port()}"):
            command("--restate", server.admin, "--store", store, sessions=sessions)
