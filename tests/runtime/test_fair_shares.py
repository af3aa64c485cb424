"""Many agents on one model: one's many requests don't keep another's one waiting, and no queue grows without end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import cycle
from typing import Any

import pytest
from hypothesis import given, strategies as st

from cognition import Failure, ModelRequest
from cognition.steps.retry import RETRIED, classify
from interpreters import Agent, AsyncAgent
from interpreters.loop.program.program import Program
from interpreters.testing.fakes import ScriptedModel
from runtime import Done, Generation, ModelServer, Runtime, load_model
from runtime.errors import ModelSpecError
from runtime.scheduling.owners import ALL_OWNERS, OpenRequests, new_owner, owned_by, owner_or
from tests.runtime.asking import ask, reply
from tests.runtime.conftest import installed_or_skip

PLACES = [
    pytest.param((backend, isolate), marks=getattr(pytest.mark, backend), id=f"{'isolated ' * isolate}{backend}")
    for backend in ("llama", "mlx")
    for isolate in (False, True)
]
LIMIT = 60


@pytest.fixture(scope="module", params=PLACES)
def model(request: pytest.FixtureRequest) -> Iterator[Runtime]:
    backend, isolate = request.param
    installed_or_skip(backend)
    with load_model(backend=backend, isolate=isolate, queue_limit=LIMIT, context_tokens=256) as loaded:
        yield loaded


def end_of(generation: Generation) -> Done:
    *_, done = generation
    assert isinstance(done, Done)
    return done


def open_requests(model: Any) -> OpenRequests:
    """Where a runtime counts them."""
    counted: OpenRequests = getattr(model, "_open", None) or model._submitter._open
    return counted


def test_one_request_is_not_kept_behind_many_of_another_agent(model: Runtime) -> None:
    """It is among the first to be answered, though it came last."""
    many, one = new_owner(), new_owner()
    with owned_by(many):
        generations = [model.submit(ask(max_tokens=2, temperature=0.0)) for _ in range(LIMIT)]
    with owned_by(one):
        late = model.submit(ask(max_tokens=2))
    ends = [end_of(generation) for generation in (*generations, late)]
    waited = [done.timings.time_to_first_token or 0.0 for done in ends]

    assert [done.failure for done in ends] == [None] * (LIMIT + 1)
    assert sum(time < waited[-1] for time in waited[:-1]) < LIMIT * 3 // 4


def test_a_full_queue_says_so_at_once_and_takes_more_when_one_is_over(model: Runtime) -> None:
    """Of a kind that an agent tries again, and only to whom it belongs."""
    many, counted = new_owner(), open_requests(model)
    for _ in range(LIMIT):  # as if so many had been submitted: a fast model would have answered some by now
        counted.begin(many)
    with owned_by(many):
        refused = reply(model, ask(max_tokens=1))
    others = reply(model, ask(max_tokens=1))
    for _ in range(LIMIT):
        counted.end(many)
    with owned_by(many):
        ends = [end_of(one) for one in [model.submit(ask(max_tokens=1)) for _ in range(LIMIT)]]
        again = reply(model, ask(max_tokens=1))

    assert refused.failure is not None
    assert (refused.finish_reason, refused.failure.kind, refused.failure.code) == ("error", "rate_limit", "queue_full")
    assert f"{LIMIT} requests of this agent" in refused.failure.message
    assert classify(refused.failure) in RETRIED
    assert [done.failure for done in (others, *ends, again)] == [None] * (LIMIT + 2)


def test_cancelled_requests_leave_the_queue(model: Runtime) -> None:
    """Those that have not begun too; what comes next finds room."""
    with owned_by(new_owner()):
        for _ in range(2):
            generations = [model.submit(ask(max_tokens=200)) for _ in range(LIMIT)]
            for generation in generations:
                generation.cancel()
            ends = [end_of(generation) for generation in generations]

            assert {done.finish_reason for done in ends} <= {"cancelled", "stop", "length"}


@pytest.mark.llama
def test_users_of_a_server_are_owners(model: Runtime) -> None:
    """Each has a queue of its own on the model that they share."""
    installed_or_skip("llama")
    with ModelServer() as server:
        first, second = (server.acquire(backend="llama", queue_limit=1, context_tokens=256) for _ in range(2))
        running = first.submit(ask(max_tokens=200))
        refused, other = reply(first, ask(max_tokens=1)), reply(second, ask(max_tokens=1))
        running.cancel()

    assert refused.failure is not None
    assert other.failure is None


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_of_nothing_is_refused(limit: int) -> None:
    """It is checked where it enters."""
    with pytest.raises(ModelSpecError, match="queue_limit must be at least 1"):
        load_model(queue_limit=limit)


class Owners(ScriptedModel):
    """Notes for whom it is asked."""

    def __init__(self) -> None:
        super().__init__(cycle(["Hello."]))
        self.seen: list[int] = []

    def submit(self, request: ModelRequest):  # type: ignore[no-untyped-def]  # as its base
        self.seen.append(owner_or(0))
        return super().submit(request)


def test_each_session_is_an_owner() -> None:
    """Two agents on one model are two; what one of them asks again is the same one's."""
    model = Owners()
    with Agent(model) as first, Agent(model) as second:
        first.run("Hi")
        first.run("Hi")
        second.run("Hi")

    assert model.seen[0] == model.seen[1] != model.seen[2]
    assert 0 not in model.seen
    assert owner_or(0) == 0


def test_each_session_under_asyncio_is_an_owner() -> None:
    """There the model is asked in the session's own task."""
    model = Owners()

    async def converse() -> None:
        async with AsyncAgent(model) as first, AsyncAgent(model) as second:
            await first.run("Hi")
            await second.run("Hi")

    asyncio.run(converse())

    assert model.seen[0] != model.seen[1]
    assert 0 not in model.seen


def test_workers_count_as_their_parent() -> None:
    """However many an agent spawns, it gets one turn of several agents."""
    program = Program(ScriptedModel([]))

    assert program.for_worker("w", ()).owner == program.owner != Program(ScriptedModel([])).owner


@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=120), st.integers(1, 4))
def test_no_more_are_open_than_may_be(steps: list[tuple[int, bool]], limit: int) -> None:
    """Of one owner, and of all; what is over makes room, and nobody is refused without a reason."""
    counted, opened = OpenRequests(limit), list[int]()
    for owner, begins in steps:
        if begins:
            full: Failure | None = counted.begin(owner)
            room = opened.count(owner) < limit and len(opened) < ALL_OWNERS * limit
            assert (full is None) is room
            opened += [owner] * room
        elif owner in opened:
            counted.end(owner)
            opened.remove(owner)
