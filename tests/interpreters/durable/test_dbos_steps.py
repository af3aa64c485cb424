"""Steps on DBOS whose event loop ends, as when a process stops to work at sessions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

import tests.interpreters.durable.sqlite  # noqa: F401 - before anything opens a database
from interpreters.durable import dbos_steps
from interpreters.durable.dbos_context import DBOSWorkflowCancelledError


class Engine:
    """Is to do a step on a thread, which a test does in its place."""

    workflow_id = "ada:1"

    def __init__(self) -> None:
        self.perform: Callable[[], str] | None = None

    async def run_step_async(self, _options: Any, perform: Callable[[], str]) -> str:
        """Leave what is to be done to the test."""
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
