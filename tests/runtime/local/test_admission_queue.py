"""What waits to be prepared: however long its prompts are, what goes on isn't held up by them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from cognition import ModelRequest
from runtime.local import _admission_queue as entrance
from runtime.local._admission_queue import PREPARED_AT_ONCE, PREPARING, Pace
from runtime.local.handles import LocalRuntime
from runtime.scheduling.owners import new_owner, owned_by
from tests.runtime.asking import ask, reply
from tests.runtime.conftest import BACKENDS, load_or_skip
from tests.runtime.local.test_batching import asked, done, hold


class Clock:
    """One that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


SECONDS = st.integers(0, 3072).map(lambda number: number / 1024)
"""Of which sums are exact."""


@given(st.lists(st.tuples(st.lists(SECONDS, max_size=40), SECONDS, st.booleans())))
def test_preparing_takes_a_bounded_time_between_two_batches_and_half_of_all_time(
    rounds: list[tuple[list[float], float, bool]],
) -> None:
    """One request past the limit at the most; where nothing goes on, some can always be prepared."""
    clock = Clock()
    pace = Pace(clock)
    since_pause = 0.0
    for jobs, batch, busy in rounds:
        pace.next_round(busy=busy)
        assert busy or pace.open
        spent: list[float] = []
        for seconds in jobs:
            if not pace.open:
                break
            with pace:
                clock.now += seconds
            spent.append(seconds)
        assert sum(spent[:-1]) < PREPARING
        assert len(spent) <= PREPARED_AT_ONCE
        assert not (busy and spent) or clock.now - sum(spent) >= since_pause
        if sum(spent) >= PREPARING:
            since_pause = clock.now + sum(spent)
        clock.now += batch


@pytest.fixture(params=BACKENDS)
def model(request: pytest.FixtureRequest) -> Any:
    with load_or_skip(request.param) as loaded:
        yield loaded


def far_too_long(model: LocalRuntime, times: int = 40) -> ModelRequest:
    """A request with so many times the characters that the context hardly ever holds."""
    return asked("word 12; " * (times * 4 * model.describe().context_tokens))


def test_of_a_text_that_can_not_fit_the_beginning_is_tokenised(
    model: LocalRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is known from its beginning, and how long it is, about."""
    backend: Any = model._owner.call(lambda engine: engine._backend)
    tokenize, lengths = backend.tokenize, list[int]()

    def counted(text: str, *, special: bool) -> list[int]:
        lengths.append(len(text))
        return list(tokenize(text, special=special))

    monkeypatch.setattr(backend, "tokenize", counted)
    request = far_too_long(model)
    failure = reply(model, request).failure
    asked_for = max(lengths)
    monkeypatch.undo()
    exact = model.count_tokens(far_too_long(model, 4))

    assert failure is not None
    assert failure.kind == "context_overflow"
    assert failure.needed_tokens == pytest.approx(exact * 10, rel=0.1)
    assert asked_for <= 32 * model.describe().context_tokens


@pytest.mark.parametrize("text", ["\n" * 4000, " " * 9000, "a" * 20000])
def test_a_long_text_of_few_tokens_is_counted_as_a_whole(model: LocalRuntime, text: str) -> None:
    """What fits is never refused by its length."""
    fits = model.count_tokens(ask()) <= model.count_tokens(asked(text)) < model.describe().context_tokens
    failure = reply(model, asked(text, max_tokens=1)).failure

    assert (failure is None) is fits


def test_a_reply_goes_on_between_long_preparings(model: LocalRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where each one takes all the time there is for it, one is prepared in a round, and nobody is left there."""
    monkeypatch.setattr(entrance, "PREPARING", 1e-9)
    events: list[str] = []
    engine = model._owner.call(lambda engine: engine)
    prepare, evaluate = engine._prepare, engine._backend.evaluate

    def prepared(owner: int, one: Any) -> bool:
        events.append("prepare")
        return bool(prepare(owner, one))

    def evaluated(batch: Any) -> bool:
        events.append("batch")
        return bool(evaluate(batch))

    monkeypatch.setattr(engine, "_prepare", prepared)
    monkeypatch.setattr(engine._backend, "evaluate", evaluated)
    gate = hold(model)
    with owned_by(new_owner()):
        going = model.submit(asked("Go on.", max_tokens=60, temperature=0.0))
    with owned_by(new_owner()):
        long = [model.submit(asked(f"{number} word", max_tokens=1)) for number in range(6)]
    gate.set()
    ends = [done(generation) for generation in (going, *long)]
    monkeypatch.undo()

    assert all(end.failure is None for end in ends)
    assert events.count("prepare") == 7
    assert "prepare prepare" not in " ".join(events)
