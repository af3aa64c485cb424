"""Sessions that complete, wait, fail and are refused, for tests of what an operator sees and does.

As a program it works at them until its input ends: ``python -m tests.interpreters.durable.operating URL``.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    import tests.interpreters.durable.sqlite  # noqa: F401 - before anything opens a database

import asyncio
import io
import json
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from typing import Any

import pytest

from cognition import CogstepError, Failure, UserMessage
from interpreters import LATER, ToolContext, tool
from interpreters.cli.main import main
from interpreters.durable._errors import DurableError
from interpreters.durable.dbos.sessions import DBOSSessions
from interpreters.durable.definition import DurableAgent, answer_input
from interpreters.durable.operations import STATUSES, DurableOperations, DurableRun
from interpreters.testing.fakes import FunctionModel, call
from tests.interpreters.hostile_text import HOSTILE

PATIENCE = 60.0

FAULT = f"the provider is away{HOSTILE['clear']}{HOSTILE['title']}\nsecond line"
"""What a failed turn has as its reason."""


async def _later(_request: Any) -> Any:
    return LATER


BROKEN = {"broken"}
"""The sessions whose prompt fails."""

HELD = {"left", "slow"}
"""The sessions whose tool ``hang`` waits until they are removed."""


def _break(context: ToolContext[None]) -> str:
    if context.session in BROKEN:
        raise ValueError("the prompt is broken")
    return "Be brief."


def agent_named(name: str = "helper", version: str = "1") -> DurableAgent:
    """A definition whose messages decide: ``pay`` asks, ``hang`` waits, ``fail`` fails; see ``BROKEN`` and ``HELD``."""

    @tool(approval=True)
    def pay(text: str) -> str:
        """Pay."""
        return f"paid {text}"

    @tool(idempotent=True)
    async def hang(context: ToolContext[None]) -> str:
        """Wait."""
        while context.session in HELD:
            await asyncio.sleep(0.01)
        return "waited"

    def answer(request: Any) -> Any:
        newest = request.messages[-1]
        if isinstance(newest, UserMessage) and newest.text.startswith("pay"):
            return call("pay", text=newest.text)
        if isinstance(newest, UserMessage) and newest.text.startswith("fail"):
            return Failure(FAULT, kind="fatal")
        if isinstance(newest, UserMessage) and newest.text.startswith("hang"):
            return call("hang")
        if isinstance(newest, UserMessage) and newest.text.startswith("delegate"):
            return call("spawn_worker", name="ann", objective="fail", tools=[])
        return "Done."

    return DurableAgent(
        name, FunctionModel(answer), [pay, hang], _break, version=version, approve=_later, features=("workers",)
    )


def tell(sessions: Any, submit: Callable[[str, Any], str]) -> dict[str, str]:
    """Send what completes, waits, fails and is refused, at sessions where a process works; return the runs' ids."""
    runs = {name: sessions.send(name, text) for name, text in (
        ("done", "Hi!"), ("failed", "fail"), ("broken", "Hi!"), ("waiting", "pay 1"), ("twice", "pay 2")
    )}  # fmt: skip
    assert sessions.result(runs["done"], PATIENCE).finished.outcome.text == "Done."
    assert sessions.result(runs["failed"], PATIENCE).finished.outcome.message == FAULT
    error = refusal(sessions, runs["broken"])
    assert "the prompt is broken" in error
    for name in ("waiting", "twice"):
        assert [one.effect_id for one in sessions.result(runs[name], PATIENCE).pending] == ["1.1.1"]
    answer = answer_input(next(iter(sessions.agents.values())), sessions.recorder("twice"), "1.1.1", True)
    runs["answer"], runs["refused"] = (submit("twice", answer) for _ in range(2))
    assert sessions.result(runs["answer"], PATIENCE).finished.outcome.text == "Done."
    assert "nothing waits for an answer under '1.1.1'" in refusal(sessions, runs["refused"])
    runs["held"] = sessions.send("waiting", "Hi!")
    return runs


def refusal(sessions: Any, run: str) -> str:
    """The error that a program gets for a run."""
    try:
        sessions.result(run, PATIENCE)
    except DurableError as error:
        return str(error)
    raise AssertionError(f"the run {run} succeeded")


def statuses(operations: DurableOperations, runs: dict[str, str]) -> dict[str, str]:
    """The status of each run."""
    found = {one.id: one.status for one in operations.runs(statuses=STATUSES)}
    return {name: found[run] for name, run in runs.items()}


def wait_until(holds: Callable[[], Any]) -> Any:
    """What a function returns as soon as that is true."""
    until = time.monotonic() + PATIENCE
    while not (found := holds()):
        assert time.monotonic() < until, "it has not come true"
        time.sleep(0.02)
    return found


def one_of(runs: Iterable[DurableRun], run: str) -> DurableRun:
    return next(one for one in runs if one.id == run)


TOLD = {
    "done": "completed",
    "failed": "failed",
    "broken": "refused",
    "waiting": "waiting",
    "twice": "completed",
    "answer": "completed",
    "refused": "refused",
    "held": "queued",
}
"""The statuses of the runs of ``tell``."""


def work(url: str) -> None:
    """Work at sessions on DBOS until the input ends."""
    with DBOSSessions(agent_named(), url) as sessions, sessions.worker():
        print("ready", flush=True)
        sys.stdin.read()


def durable(*arguments: str) -> Any:
    """What the command prints, as JSON; it runs in this process, which works at nothing."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        code = main(["durable", *arguments])
    assert code == 0, arguments
    return [json.loads(line) for line in printed.getvalue().splitlines()]


def command(*engine: str, sessions: Any) -> None:
    """Ask, answer, cancel, retry, drain and clear by the command, while another process works."""
    own = (*engine, "--json")
    run = sessions.send("ada", "pay 1")
    assert sessions.result(run, PATIENCE).pending
    (waiting,) = durable("list", "--status", "waiting", *own)
    assert (waiting["id"], waiting["waits_for"][0]["effect_id"]) == (run, "1.1.1")
    (answered,) = durable("answer", "ada", "1.1.1", "yes", *own)
    assert sessions.result(answered["run"], PATIENCE).finished.outcome.text == "Done."
    asked = sessions.send("bob", "pay 2")
    sessions.result(asked, PATIENCE)
    (closed,) = durable("cancel", "bob", "--reason", "enough", *own)
    assert sessions.result(closed["run"], PATIENCE).finished.outcome.reason == "enough"
    failed = sessions.send("carl", "fail")
    assert sessions.result(failed, PATIENCE).finished.outcome.message == FAULT
    (again,) = durable("retry", failed, *own)
    assert sessions.result(again["run"], PATIENCE).turn == 2
    assert [one["status"] for one in durable("list", "--status", "failed", "--session", "carl", *own)][:1] == ["failed"]
    assert durable("versions", *own)[0]["sessions"] == 3
    assert durable("health", *own)[0]["ok"]
    if "--restate" not in engine:
        assert durable("drain", *own)[0]["running"] == []
        queued = sessions.send("ada", "Hi!")
        assert durable("show", queued, *own)[0]["run"]["reason"] == "the agent helper is drained"
        durable("drain", "--undo", *own)
        sessions.result(queued, PATIENCE)
    time.sleep(0.1)
    assert durable("clear", "--older-than", "0m", *own)[0]["deleted"] >= 2


def main_on_dbos(url: str) -> None:
    """Work in a process of its own, and command from this one."""
    arguments = [sys.executable, "-m", "tests.interpreters.durable.operating", url, "--work"]
    worker = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert worker.stdout is not None
        assert worker.stdout.readline()
        with DBOSSessions(agent_named(), url) as sessions:
            command("--store", url, sessions=sessions)
    finally:
        worker.kill()
        worker.communicate()
    print("as commanded")


def answer_and_what_waits_behind(sessions: Any, operations: DurableOperations) -> None:
    """An answer continues the turn, and then the message behind it is worked on."""
    sessions.result(sessions.send("answered", "pay 3"), PATIENCE)
    behind = sessions.send("answered", "Hi!")
    with pytest.raises(CogstepError, match=r"nothing waits for an answer under '9\.9\.9'"):
        operations.answer("answered", "9.9.9", True)
    with pytest.raises(CogstepError, match="there is no run and no session 'nobody'"):
        operations.answer("nobody", "1.1.1", True)
    run = operations.answer("answered", "1.1.1", True)

    assert sessions.result(run, PATIENCE).turn == 1
    assert sessions.result(behind, PATIENCE).turn == 2
    assert operations.runs("answered") == []


def cancel_a_turn_and_a_message(sessions: Any, operations: DurableOperations) -> None:
    """A waiting turn is closed, a queued message is taken back, and the next one is worked on."""
    asked = sessions.send("cancelled", "pay 4")
    sessions.result(asked, PATIENCE)
    behind, last = (sessions.send("cancelled", text) for text in ("never", "Hi!"))
    wait_until(lambda: "answers" in one_of(operations.runs("cancelled"), behind).reason)
    assert operations.cancel(behind) == behind
    closing = operations.cancel(asked, "a wrong invoice")

    assert sessions.result(closing, PATIENCE).finished.outcome.reason == "a wrong invoice"
    assert sessions.result(last, PATIENCE).turn == 2
    assert one_of(operations.runs("cancelled"), behind).status == "cancelled"
    for target, said in ((behind, "has ended"), (last, "has ended"), ("nobody", "no session 'nobody'")):
        with pytest.raises(CogstepError, match=said):
            operations.cancel(target)


if __name__ == "__main__":
    (work if "--work" in sys.argv else main_on_dbos)(sys.argv[1])
