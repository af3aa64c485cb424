"""Steps on DBOS: where their work is done, and what comes of them where the event loop ends."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from cognition import UserSpoke
from interpreters.durable.definition import DurableAgent
from interpreters.testing.durable import MemoryEngine
from interpreters.testing.fakes import FunctionModel

pytest.importorskip("dbos", reason="needs the extra `dbos`")

from dbos._error import DBOSWorkflowCancelledError

from interpreters.durable.dbos import _context as dbos_steps

around: contextvars.ContextVar[str] = contextvars.ContextVar("around", default="")
"""Stands for what DBOS knows a run's code by."""


class Engine:
    """Is to do a step on a thread, which a test does in its place."""

    workflow_id = "ada:1"

    def __init__(self) -> None:
        self.perform: Callable[[], str] | None = None

    async def run_step_async(self, _options: Any, perform: Callable[[], str]) -> str:
        """Leave the first step to the test, and do the others."""
        if self.perform is not None:
            return await asyncio.to_thread(perform)
        self.perform = perform
        return ""


def stepped(monkeypatch: pytest.MonkeyPatch, loop: asyncio.AbstractEventLoop) -> Callable[[], str]:
    """What the thread of a step does that is asked for in this loop."""
    engine = Engine()
    monkeypatch.setattr(dbos_steps, "DBOS", engine)
    monkeypatch.setattr(dbos_steps, "LOOKED_EVERY", 0.01)

    async def work() -> str:
        return "done"

    steps = dbos_steps.Steps(work, (), dbos_steps.Cancellations())
    loop.run_until_complete(steps.step("begin", work))
    assert engine.perform is not None
    return engine.perform


def test_a_step_that_finds_the_loop_ended_fails_with_nothing_that_dbos_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.new_event_loop()
    perform = stepped(monkeypatch, loop)
    loop.close()

    with pytest.raises(DBOSWorkflowCancelledError):
        perform()


def test_a_step_does_not_wait_for_a_loop_that_ended_before_it_began_it(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.new_event_loop()
    perform = stepped(monkeypatch, loop)
    raised: list[BaseException] = []

    def step() -> None:
        try:
            perform()
        except DBOSWorkflowCancelledError as error:
            raised.append(error)

    thread = threading.Thread(target=step, daemon=True)
    thread.start()
    while not loop._ready:  # type: ignore[attr-defined]
        thread.join(0.001)
    loop.close()
    thread.join(10)

    assert raised


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("first", [True, False])
def test_what_a_tool_does_with_dbos_is_no_step_of_the_run_in_any_execution(
    monkeypatch: pytest.MonkeyPatch, first: bool, alone: bool
) -> None:
    engine = Engine()
    engine.perform = str
    monkeypatch.setattr(dbos_steps, "DBOS", engine)

    async def work() -> str:
        return around.get()

    async def run() -> str:
        around.set("a run")
        steps = dbos_steps.Steps(work, (), dbos_steps.Cancellations())
        steps._is_first = first
        return await steps.step("1.1.1", work, alone=alone)

    assert asyncio.run(run()) == ""


def test_what_an_observer_does_with_the_engine_is_no_step_of_the_run() -> None:
    seen: list[str] = []

    async def watch(_event: Any) -> None:
        seen.append(around.get())

    agent = DurableAgent(
        "tester", FunctionModel(lambda _: "Hi."), observers=[lambda _: seen.append(around.get()), watch]
    )

    async def run() -> None:
        around.set("a run")
        await MemoryEngine().run(agent, "ada", UserSpoke("Hi!"))

    asyncio.run(run())

    assert set(seen) == {""}


def test_what_a_cancelled_tool_does_in_its_end_may_take_longer_than_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, looks, cleaned = Engine(), 0, []
    engine.perform = str

    async def cancelled(**_: Any) -> list[Any]:
        nonlocal looks
        looks += 1
        return [SimpleNamespace(workflow_id=engine.workflow_id)]

    async def work() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            seen = looks
            while looks < seen + 2:
                await asyncio.sleep(0.001)
            cleaned.append(looks)
        return ""

    monkeypatch.setattr(engine, "list_workflows_async", cancelled, raising=False)
    monkeypatch.setattr(dbos_steps, "DBOS", engine)
    monkeypatch.setattr(dbos_steps, "LOOKED_EVERY", 0.001)

    async def run() -> None:
        steps = dbos_steps.Steps(work, (), dbos_steps.Cancellations())
        with pytest.raises(DBOSWorkflowCancelledError):
            await steps.step("1.1.1", work)

    asyncio.run(run())

    assert cleaned


@pytest.mark.parametrize("first", [True, False])
def test_a_tool_that_returns_though_it_is_cancelled_does_not_keep_a_process_at_work(
    monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    engine, begun = Engine(), asyncio.Event()
    engine.perform = str
    monkeypatch.setattr(dbos_steps, "DBOS", engine)

    async def work() -> str:
        begun.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "all that I have"

    async def run() -> None:
        steps = dbos_steps.Steps(work, (), dbos_steps.Cancellations())
        steps._is_first = first
        step = asyncio.create_task(steps.step("1.1.1", work, alone=True))
        await begun.wait()
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step

    asyncio.run(run())


@pytest.mark.parametrize(
    ("message", "error", "is_logged"),
    [
        ("Error executing workflow s-1:a: Event loop is closed", None, False),
        ("Error executing workflow s-1:a: no such table", None, True),
        ("Exception encountered in asynchronous workflow:", dbos_steps.RunFailedError("limit", "{}"), False),
        ("Exception encountered in asynchronous workflow:", ValueError("no"), True),
    ],
)
def test_what_is_no_fault_is_not_logged(message: str, error: Exception | None, is_logged: bool) -> None:
    """A run that DBOS takes while a process leaves is handed over, and a failed run tells its caller why."""
    raised = None if error is None else (type(error), error, None)
    record = logging.LogRecord("dbos", logging.ERROR, "", 0, message, (), raised)

    assert dbos_steps.should_log(record) == is_logged
