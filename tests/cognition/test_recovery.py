"""After a failure: what a context overflow teaches about sizes, and which attempt the next one is."""

from __future__ import annotations

import pytest

from cognition import (
    CallModel,
    Failed,
    Failure,
    GenerationOptions,
    LimitHit,
    Limits,
    ModelFailed,
    ProposedCall,
    RetryPlanned,
    RetryPolicy,
    StartTimer,
    TimerFired,
    ToolReturned,
    TurnFinished,
    Usage,
    UserSpoke,
)
from cognition.context import fixed_size
from cognition.steps.retry import delay
from tests.cognition.session import WRITE, Session, effect, engine_with, replied

BUDGET = 900


def overflow(needed: int | None = None, available: int | None = None) -> Failure:
    return Failure("too long", kind="context_overflow", needed_tokens=needed, available_tokens=available)


def after_three_turns(**config: object) -> Session:
    """A session whose prompt is nearly full, in its fourth turn; its model call is ``4.1.0``."""
    session = Session(engine_with(context_tokens=BUDGET + 100, options=GenerationOptions(max_tokens=100), **config))
    for turn in (1, 2, 3):
        session(UserSpoke("x" * 300))
        session(replied(f"{turn}.1.0", "y" * 300))
    session(UserSpoke("Hello"))
    return session


@pytest.mark.parametrize(
    ("failure", "tokens"),
    [
        (overflow(1200), 1200),
        (overflow(1200, 2000), 1200),
        (overflow(1200, BUDGET // 2), 2400),
        (overflow(), 1.5 * BUDGET),
    ],
)
def test_an_overflow_corrects_the_estimate_by_what_the_runtime_says(failure: Failure, tokens: float) -> None:
    """The prompt had so many tokens of the budget's kind: less room than thought counts as a longer prompt.

    Without a figure half as much again as the budget is assumed, so that something is dropped in any case.
    """
    session = after_three_turns()
    estimate = fixed_size(session.engine.config) + session.state.window.size

    session(ModelFailed(effect("4.1.0"), failure))

    assert tokens / estimate == pytest.approx(session.state.window.scale)


def test_an_overflow_never_makes_the_estimate_smaller_in_the_first_edition() -> None:
    session = after_three_turns(edition=1)
    scale = session.state.window.scale

    session(ModelFailed(effect("4.1.0"), overflow(10)))

    assert scale == session.state.window.scale


def test_an_overflow_counts_as_an_attempt_and_is_mended_once() -> None:
    session = after_three_turns(retry=RetryPolicy(attempts=3))

    plan, again = session(ModelFailed(effect("4.1.0"), overflow(1000)))
    planned, timer = session(ModelFailed(effect("4.1.1"), Failure("reset", kind="transient")))
    session(TimerFired(effect("4.1.2")))
    (end,) = session(ModelFailed(effect("4.1.3"), Failure("reset", kind="transient")))

    assert plan == RetryPlanned("context_overflow", "too long", 2, 0.0)
    assert isinstance(again, CallModel)
    assert again.effect_id == "4.1.1"
    assert isinstance(planned, RetryPlanned)
    assert (planned.attempt, planned.seconds) == (3, delay(RetryPolicy(), "transient", 3, 4, None))
    assert StartTimer(effect("4.1.2"), planned.seconds) == timer
    assert end == TurnFinished(Failed("transient", "reset"), Usage())


def test_an_overflow_after_a_retry_is_mended_too_but_not_twice_in_the_first_edition() -> None:
    session = after_three_turns(edition=1)
    session(ModelFailed(effect("4.1.0"), Failure("busy", status=503)))
    session(TimerFired(effect("4.1.1")))

    plan, _ = session(ModelFailed(effect("4.1.2"), overflow(1000)))
    session(ModelFailed(effect("4.1.3"), Failure("busy", status=503)))
    session(TimerFired(effect("4.1.4")))
    (end,) = session(ModelFailed(effect("4.1.5"), overflow(1000)))

    assert isinstance(plan, RetryPlanned)
    assert plan.attempt == 3
    assert end == TurnFinished(Failed("context_overflow", "too long"), Usage())


def test_an_overflow_at_the_end_of_a_budget_is_not_mended() -> None:
    session = after_three_turns(limits=Limits(input_tokens=50))

    hit, _ = session(ModelFailed(effect("4.1.0"), overflow(1000), usage=Usage(50)))

    assert hit == LimitHit("input_tokens", "the limit of 50 input tokens is reached")


@pytest.mark.parametrize(
    ("failure", "kind"), [(Failure("?", status=429), "rate_limit"), (Failure("?", status=503), "transient")]
)
def test_a_wait_is_that_of_the_failures_kind(failure: Failure, kind: str) -> None:
    session = Session(engine_with())
    session(UserSpoke("Hello"))

    _, timer = session(ModelFailed(effect("1.1.0"), failure))

    assert StartTimer(effect("1.1.1"), delay(RetryPolicy(), kind, 2, 1, None)) == timer  # type: ignore[arg-type]


def test_the_size_of_a_real_prompt_corrects_the_estimate_but_not_that_of_a_final_answer() -> None:
    """The final answer's prompt has no tools in it, and so says nothing about the others."""
    session = Session(engine_with(WRITE, limits=Limits(steps=1)))
    session(UserSpoke("x" * 300))
    estimate = fixed_size(session.engine.config) + session.state.window.size

    session(replied("1.1.0", "", ProposedCall("write"), usage=Usage(100, 1)))
    session(ToolReturned(effect("1.1.1"), "ok"))
    session(replied("1.2.0", "Done.", usage=Usage(5000, 1)))

    assert 100 / estimate == pytest.approx(session.state.window.scale)


def test_a_runtime_that_counts_no_tokens_corrects_nothing() -> None:
    session = Session(engine_with())
    session(UserSpoke("x" * 300))

    session(replied("1.1.0", "Hi.", usage=Usage(0, 1)))

    assert session.state.window.scale == 1.0
    session(UserSpoke("y"))
    session(replied("2.1.0", "Hi.", usage=Usage(1, 1)))
    assert session.state.window.scale < 1.0
