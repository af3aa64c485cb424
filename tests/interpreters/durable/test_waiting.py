"""A message that comes while the turn waits for answers is kept until the turn is over, on every engine."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from cognition import UserMessage, UserSpoke
from interpreters import LATER, tool
from interpreters.durable.definition import DurableAgent
from interpreters.durable.run import run_durably
from interpreters.durable.serialization import RunOutcome, input_text
from interpreters.loop.errors import PendingError
from interpreters.testing.durable import MemoryContext, MemoryEngine
from interpreters.testing.fakes import FunctionModel, call
from tests.interpreters.databases import needs_postgres, postgres

ROOT = Path(__file__).resolve().parents[3]
needs = {name: pytest.mark.skipif(find_spec(name) is None, reason=f"needs {name}") for name in ("dbos", "temporalio")}


@tool(approval=True)
def pay(text: str) -> str:
    """Pay."""
    return f"paid {text}"


async def later(_request: Any) -> Any:
    return LATER


def answer(request: Any) -> Any:
    newest = request.messages[-1]
    is_payment = isinstance(newest, UserMessage) and newest.text.startswith("pay")
    return call("pay", text=newest.text) if is_payment else "Done."


def payer() -> DurableAgent:
    return DurableAgent("payer", FunctionModel(answer), [pay], approve=later)


def law(engine: str, url: str, folder: Path) -> str:
    """What the program says that sends, answers, cancels and kills by chance."""
    command = [sys.executable, "-m", "tests.interpreters.durable.waiting", engine, url, str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout


@needs["dbos"]
@pytest.mark.slow
def test_every_acknowledged_message_is_worked_on_once_on_sqlite(tmp_path: Path) -> None:
    assert "each worked on once" in law("dbos", f"sqlite:///{tmp_path}/sessions.db", tmp_path)


@needs["dbos"]
@needs_postgres
@pytest.mark.slow
def test_every_acknowledged_message_is_worked_on_once_on_postgresql(tmp_path: Path) -> None:
    from tests.interpreters.durable.test_dbos import new_database

    assert "each worked on once" in law("dbos", new_database("waiting"), tmp_path)


def test_a_message_that_comes_too_early_stores_and_records_nothing() -> None:
    """So that its run may be executed again: by the same id, once the turn is over."""

    async def story() -> tuple[dict[int, Any], int, int, RunOutcome, RunOutcome]:
        engine, agent = MemoryEngine(), payer()
        asked = await engine.run(agent, "ada", UserSpoke("pay 1"))
        before = len(engine.sessions["ada"])

        def hear() -> Any:
            process = engine._process
            context = MemoryContext(engine, process, agent, "early")
            event = input_text(UserSpoke("And now?"))
            return run_durably(agent, "ada", event, context, process.taker(engine), queued=True)

        for _ in range(3):
            with pytest.raises(PendingError, match=r"AskApproval 1\.1\.1"):
                await hear()
        kept, recorded = dict(engine.steps_of("early")), len(engine.sessions["ada"])
        from interpreters.loop.program.program import read_answer

        ended = await engine.run(agent, "ada", read_answer(asked.pending[0], True, {"pay": pay}))
        return kept, before, recorded, ended, RunOutcome.read(await hear())

    kept, before, recorded, ended, heard = asyncio.run(story())

    assert (kept, recorded) == ({}, before)
    assert [one.finished and getattr(one.finished.outcome, "text", "") for one in (ended, heard)] == ["Done.", "Done."]
    assert (ended.turn, heard.turn) == (1, 2)


@needs["temporalio"]
@pytest.mark.parametrize("moves", [["pay", "send", "answer"], ["pay", "pay", "send", "cancel"]])
def test_on_temporal_every_message_is_heard_once_and_in_order(moves: list[str]) -> None:
    """Whatever comes while a turn waits for an approval; and the recorded history replays."""
    heard, said = asyncio.run(_on_temporal(moves))

    assert heard == said


async def _on_temporal(moves: list[str]) -> tuple[list[str], list[str]]:
    from temporalio.client import WorkflowHistory
    from temporalio.worker import Replayer

    from interpreters.durable.temporal.workflow import (
        SessionWorkflow,
        activities,
        beginning,
        cancellation,
        message,
        reply,
    )
    from tests.interpreters.durable.temporal_histories import History, Listening

    agent, said = payer(), list[str]()
    history = History(SessionWorkflow, beginning(agent), activities(agent))

    async def pending() -> Any:
        return RunOutcome.read(await history.query("status")).pending

    for number, move in enumerate(moves):
        if move in ("send", "pay"):
            said.append(f"{move} {number}")
            await history.signal("put", message(agent, said[-1]))
        elif waiting := await pending():
            await history.signal("put", reply(agent, waiting[0], True) if move == "answer" else cancellation(agent))
    while waiting := await pending():
        await history.signal("put", reply(agent, waiting[0], True))
    await history.replay()
    runner = Listening()
    await Replayer(workflows=[SessionWorkflow], unsandboxed_workflow_runner=runner).replay_workflow(
        WorkflowHistory(history.name, history.events), raise_on_replay_failure=False
    )
    messages = runner.instance._object._state.history
    return [one.text for one in messages if isinstance(one, UserMessage)], said


@needs["dbos"]
@needs_postgres
class TestDBOSQueues:
    """The queues of runs that wait, in PostgreSQL, without a process that works."""

    def test_only_the_process_that_has_a_run_may_put_it_aside(self) -> None:
        from interpreters.durable.dbos._waiting import keep_waiting
        from tests.interpreters.durable.test_dbos import left_behind

        with dbos_sessions() as sessions:
            run, client, own = left_behind(sessions, "aside")
            keep_waiting(client, run, "payer", "another process")
            before = queue_of(sessions, run)
            keep_waiting(client, run, "payer", own)

            assert (before, queue_of(sessions, run)) == (("PENDING", "cogstep.payer"), WAITS)
            keep_waiting(client, run, "payer", own)
            assert queue_of(sessions, run) == WAITS

    def test_what_is_held_and_released_keeps_its_place(self) -> None:
        from interpreters.durable.dbos._runs import in_order
        from interpreters.durable.dbos._waiting import hold, release

        with dbos_sessions() as sessions:
            client = sessions._connect()
            runs = [sessions.send("held", f"{number}") for number in range(3)]
            other = sessions.send("held-not", "Hi!")
            hold(client, "held")
            held = [queue_of(sessions, run) for run in (*runs, other)]
            runs.append(sessions.send("held", "behind"))
            release(client, "held")

            assert held == [WAITS, WAITS, WAITS, READY]
            assert [one.workflow_id for one in in_order(sessions._runs("held", ["ENQUEUED"]))] == runs
            assert {queue_of(sessions, run) for run in runs} == {READY}

    def test_a_cancellation_drops_no_message_and_comes_before_them(self) -> None:
        from interpreters.durable.dbos._runs import in_order
        from tests.interpreters.durable.test_dbos import begin

        with dbos_sessions() as sessions:
            running, *behind = [sessions.send("stopped", f"{number}") for number in range(3)]
            begin(sessions._connect(), running, "elsewhere")
            closing = sessions.cancel("stopped")
            again = sessions.cancel("stopped")

            status = {one.workflow_id: one.status for one in sessions._runs("stopped")}
            assert status == {running: "CANCELLED", **dict.fromkeys((closing, again, *behind), "ENQUEUED")}
            order = [one.workflow_id for one in in_order(sessions._runs("stopped", ["ENQUEUED"]))]
            assert order == [closing, again, *behind]
            assert [queue_of(sessions, one) for one in (closing, *behind)] == [READY, WAITS, WAITS]

    def test_a_waiting_run_says_what_it_waits_for(self) -> None:
        from interpreters.durable.dbos._waiting import hold
        from tests.interpreters.durable.test_dbos import begun

        with dbos_sessions() as sessions:
            run = sessions.send("asked", "Hi!")
            hold(sessions._connect(), "asked")
            begun(sessions.store, f"dbos {sessions.version} payer")
            with pytest.raises(TimeoutError, match="the turn before it waits for answers"):
                sessions.result(run, 0)

    def test_what_nobody_released_is_released_once_nothing_runs(self) -> None:
        """As where an operator cancels the run of an answer in the engine's tables."""
        from interpreters.durable.dbos._waiting import hold, release_forgotten

        with dbos_sessions() as sessions:
            client = sessions._connect()
            gone, left = sessions.send("forgotten", "a"), sessions.send("forgotten", "b")
            alone = sessions.send("asked-alone", "c")
            for one in ("forgotten", "asked-alone"):
                hold(client, one)
            release_forgotten(client)
            before = queue_of(sessions, left)
            client.cancel_workflow(gone)
            release_forgotten(client)

            assert (before, queue_of(sessions, left), queue_of(sessions, alone)) == (WAITS, READY, WAITS)


READY = ("ENQUEUED", "cogstep.payer")
WAITS = ("ENQUEUED", "cogstep-waits.payer")


def dbos_sessions() -> Any:
    from interpreters.durable.dbos.sessions import DBOSSessions

    return DBOSSessions(payer(), postgres().url)


def queue_of(sessions: Any, run: str) -> tuple[str, str]:
    (found,) = sessions._connect().list_workflows(workflow_ids=[run])
    return found.status, found.queue_name


@pytest.mark.skipif(find_spec("restate") is None, reason="needs restate")
class TestRestate:
    @pytest.mark.slow
    def test_every_acknowledged_message_is_worked_on_once(self, server: Any, tmp_path: Path) -> None:
        assert "each worked on once" in law("restate", f"sqlite:///{tmp_path}/sessions.db", tmp_path)

    def test_an_answer_overtakes_messages_where_the_process_can_and_is_sent_as_before_where_it_can_not(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from interpreters.durable.restate import _client

        paths: list[str] = []

        def called(_method: str, _base: str, path: str, *_: Any) -> _client.HttpReply:
            paths.append(path)
            if path.endswith("/answer/send"):
                return _client.HttpReply(404, b'{"message":"there is no handler"}')
            return _client.HttpReply(200, b'{"invocationId":"inv_1"}')

        monkeypatch.setattr(_client, "_call", called)
        found = _client.RestateServer.at("http://a:1", "http://a:2").send("s", "k", "{}", "", _client.ANSWER)

        assert (found, paths) == ("inv_1", ["/s/k/answer/send", "/s/k/run/send"])

    @pytest.mark.parametrize(("handlers", "forced"), [(["run"], [False, True]), (["run", "answer"], [False])])
    def test_an_address_of_an_earlier_version_is_read_again(
        self, handlers: list[str], forced: list[bool], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from interpreters.durable.restate import _client

        asked: list[bool] = []

        def called(_method: str, _base: str, _path: str, body: bytes, *_: Any) -> _client.HttpReply:
            asked.append(bool(json.loads(body).get("force")))
            service = {"name": "cogstep.a", "handlers": [{"name": one} for one in handlers]}
            return _client.HttpReply(200, json.dumps({"services": [service]}).encode())

        monkeypatch.setattr(_client, "_call", called)
        _client.RestateServer.at("http://a:1", "http://a:2").register("http://here:1", ["cogstep.a"])

        assert asked == forced

    @pytest.mark.parametrize("waits", [False, True])
    def test_only_a_run_that_has_begun_is_at_work(self, waits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        """One that waits for the end of a turn, or behind another one, is no part of the turn that is cancelled.

        Nor is a message that a process has just begun to look at, while the turn waits for answers.
        """
        from interpreters.durable.restate import _client

        own, versioned = "cogstep.a", _client.versioned_name("a", "1")
        rows = [
            {"id": "running", "target_service_name": own, "target_handler_name": "run", "status": "suspended"},
            {"id": "of-running", "target_service_name": versioned, "status": "running", "invoked_by_id": "running"},
            {"id": "answer", "target_service_name": own, "target_handler_name": "answer", "status": "suspended"},
            {"id": "of-answer", "target_service_name": versioned, "status": "running", "invoked_by_id": "answer"},
            {"id": "asleep", "target_service_name": own, "target_handler_name": "run", "status": "suspended"},
            {"id": "inbox", "target_service_name": own, "target_handler_name": "run", "status": "pending"},
            {"id": "behind", "target_service_name": own, "target_handler_name": "run", "status": "suspended"},
            {"id": "of-behind", "target_service_name": versioned, "status": "pending", "invoked_by_id": "behind"},
        ]

        def called(_method: str, _base: str, _path: str, body: bytes, *_: Any) -> _client.HttpReply:
            found = [{"key": _client.PENDING}] * waits if b"FROM state" in body else rows
            return _client.HttpReply(200, json.dumps({"rows": found}).encode())

        monkeypatch.setattr(_client, "_call", called)
        found = _client.RestateServer.at("http://a:1", "http://a:2").invocations("a", "ada")

        at_work = {one["id"]: one["at_work"] for one in found}
        others = dict.fromkeys(("asleep", "inbox", "behind"), False)
        assert at_work == {"running": not waits, "answer": True} | others
