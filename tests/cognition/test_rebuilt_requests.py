"""A request that a runtime refuses as too long: how often it is built smaller, and what follows the last time."""

from __future__ import annotations

from itertools import pairwise

import pytest
from attrs import evolve

from cognition import (
    CallModel,
    Failed,
    Failure,
    FellBack,
    LimitHit,
    Limits,
    ModelFailed,
    RetryPlanned,
    TurnFinished,
    Usage,
    UserSpoke,
)
from cognition.context import fixed_size, message_size
from cognition.engine.handlers.model import REBUILDS, REFUSED
from cognition.steps.phases import ModelAttempt, Thinking
from tests.cognition.session import Session, engine_with, replied

TOO_LONG = Failure("too long", kind="context_overflow", needed_tokens=3585)
"""A token more than the budget."""
TURNS = 24


def after_turns(count: int = TURNS, **config: object) -> Session:
    """At the first model call of a turn, behind turns of some 150 tokens each; at the time 100."""
    session = Session(engine_with(context_tokens=4096, **config))
    for turn in range(1, count + 1):
        session(UserSpoke("x" * 400))
        session(replied(f"{turn}.1.0", "Yes."))
    session(UserSpoke("Go on.", at=100.0))
    return session


def refuse(session: Session, failure: Failure = TOO_LONG, at: float = 110.0, **more: object) -> tuple[object, ...]:
    """The runtime refuses the newest request; what was decided on it."""
    assert isinstance(session.state.phase, Thinking)
    return session(ModelFailed(session.state.phase.effect_id, failure, at=at, **more))  # type: ignore[arg-type]


def shown(session: Session) -> float:
    (call,) = [one for one in session.decisions if isinstance(one, CallModel)]
    return sum(map(message_size, call.request.messages))


def attempt_of(session: Session) -> ModelAttempt:
    assert isinstance(session.state.phase, Thinking)
    return session.state.phase.attempt


def test_a_request_is_built_smaller_three_times_though_more_could_be_left_out() -> None:
    """Each time a quarter of what is shown goes."""
    session = after_turns(limits=Limits(seconds=50.0))
    sizes = [shown(session)]

    for number in range(1, REBUILDS + 1):
        plan, call = refuse(session)
        assert plan == RetryPlanned("context_overflow", "too long", number + 1, 0.0)
        assert isinstance(call, CallModel)
        assert (call.effect_id, call.seconds) == (f"{TURNS + 1}.1.{number}", 40.0), "the same step"
        assert attempt_of(session) == ModelAttempt(number=number + 1, rebuilt=number)
        sizes.append(shown(session))

    assert all(later < one for one, later in pairwise(sizes))
    assert len(session.state.history) - session.state.window.first > 2, "another turn could go"
    (end,) = refuse(session)
    assert end == TurnFinished(Failed("context_overflow", REFUSED.format(message="too long")), Usage())


def test_in_the_first_edition_a_request_is_trimmed_once() -> None:
    session = after_turns(edition=1, limits=Limits(seconds=50.0))

    plan, call = refuse(session)

    assert plan == RetryPlanned("context_overflow", "too long", 2, 0.0)
    assert isinstance(call, CallModel)
    assert (call.effect_id, call.seconds) == (f"{TURNS + 1}.1.1", 40.0)
    assert attempt_of(session) == ModelAttempt(number=2, trimmed=True)


def test_in_the_first_edition_too_another_model_is_tried_if_nothing_can_be_left_out() -> None:
    session = after_turns(0, edition=1, models=("b",), fallback=("b",), limits=Limits(seconds=50.0))

    fell, call = refuse(session)

    assert fell == FellBack("", "b", "context_overflow", "too long")
    assert isinstance(call, CallModel)
    assert (call.effect_id, call.model, call.seconds) == ("1.1.1", "b", 40.0)
    assert attempt_of(session) == ModelAttempt(model="b")


def test_each_refusal_makes_the_scale_exact() -> None:
    session = after_turns()
    estimate = fixed_size(session.engine.config) + session.state.window.size

    refuse(session)

    assert session.state.window.scale == pytest.approx(3585 / estimate)


def test_another_model_is_tried_with_the_scale_of_before_if_nothing_can_be_left_out() -> None:
    """Its attempts count from the first one, and so do its requests that are built smaller."""
    session = after_turns(0, models=("b",), fallback=("b",), limits=Limits(seconds=50.0))
    before = session.state.window

    fell, call = refuse(session)

    assert fell == FellBack("", "b", "context_overflow", "too long")
    assert isinstance(call, CallModel)
    assert (call.effect_id, call.model, call.seconds) == ("1.1.1", "b", 40.0)
    assert attempt_of(session) == ModelAttempt(model="b")
    assert session.state.window == before
    (end,) = refuse(session)
    assert isinstance(end, TurnFinished)
    assert end.outcome == Failed("context_overflow", REFUSED.format(message="too long"))


def test_another_model_is_tried_after_three_smaller_requests_and_gets_three_of_its_own() -> None:
    session = after_turns(TURNS, models=("b",), fallback=("b",))
    tried = []
    while isinstance(session.state.phase, Thinking):
        tried.append(attempt_of(session))
        refuse(session, evolve(TOO_LONG, needed_tokens=3600))

    own = [ModelAttempt(number=number + 1, rebuilt=number) for number in range(REBUILDS + 1)]
    assert tried[: REBUILDS + 1] == own
    assert tried[REBUILDS + 1 :] == [evolve(one, model="b") for one in own[: len(tried) - REBUILDS - 1]]
    assert len(tried) > REBUILDS + 2


def test_the_scale_that_ended_a_turn_is_kept_by_estimates() -> None:
    """By estimates the next prompt is sent in any case, and its reply corrects them."""
    session = after_turns(0)

    refuse(session)

    estimate = fixed_size(session.engine.config) + session.state.window.size
    assert session.state.window.scale == pytest.approx(3585 / estimate)
    assert session.state.window.slack == 0.0


def test_nothing_is_built_smaller_beyond_a_budget() -> None:
    session = after_turns(limits=Limits(input_tokens=50))

    hit, end = refuse(session, usage=Usage(50))

    assert hit == LimitHit("input_tokens", "the limit of 50 input tokens is reached")
    assert isinstance(end, TurnFinished)
    assert session.state.window.scale == 1.0
