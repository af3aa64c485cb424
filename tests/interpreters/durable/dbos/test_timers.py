"""A timer ends by the database's clock, so that a process with a wrong clock that dies makes nobody wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

pytest.importorskip("dbos", reason="needs the extra `dbos`")

from interpreters.durable.dbos import _context as dbos_context
from interpreters.durable.dbos._context import Cancellations, Steps
from interpreters.recording.store import StoreError


class Stored:
    """DBOS with its stored steps, and without a database."""

    workflow_id = "ada:run"

    def __init__(self) -> None:
        self.steps: list[Any] = []
        self.place = 0

    async def run_step_async(self, _options: Any, perform: Callable[[], Any]) -> Any:
        self.place += 1
        if self.place > len(self.steps):
            self.steps.append(perform())
        return self.steps[self.place - 1]


def waited(stored: Stored, seconds: float, now: Callable[[], float]) -> float:
    """How long an execution waits for the timer."""
    slept: list[float] = []

    async def sleep(left: float) -> None:
        slept.append(left)

    async def run() -> None:
        stored.place = 0
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(dbos_context, "DBOS", stored)
            patched.setattr(dbos_context.asyncio, "sleep", sleep)
            await Steps(run, (), Cancellations(), None, now).sleep("1.0.1", seconds)

    asyncio.run(run())
    return slept[-1]


@given(st.floats(0.0, 1e5), st.floats(-1e5, 1e5))
def test_it_waits_for_the_rest_and_never_for_longer_than_its_seconds(seconds: float, passed: float) -> None:
    """Whatever was stored: also if the clock was put back, or an earlier version stored its own process's time."""
    stored = Stored()

    assert waited(stored, seconds, lambda: 1000.0) == seconds
    again = waited(stored, seconds, lambda: 1000.0 + passed)
    assert again == pytest.approx(min(seconds, max(0.0, seconds - passed)), abs=1e-6)


def test_without_the_database_it_waits_for_its_seconds() -> None:
    def away() -> float:
        raise StoreError("it is away", store="the database")

    stored = Stored()
    waited(stored, 3.0, lambda: 1000.0)

    assert waited(stored, 3.0, away) == 3.0
