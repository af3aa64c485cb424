"""``Limits.seconds`` within a model call: how long it may take, what becomes of it then, and of a wait for another."""

from __future__ import annotations

import pytest
from attrs import evolve

from cognition import (
    ApprovalGiven,
    AssistantMessage,
    CallModel,
    Cancelled,
    Failure,
    HookReturned,
    LimitHit,
    LimitReached,
    Limits,
    ModelFailed,
    ModelInterrupted,
    ProposedCall,
    RetryPlanned,
    SpawnWorker,
    StartTimer,
    TimerFired,
    ToolReturned,
    TurnFinished,
    Usage,
    UserSpoke,
)
from tests.cognition.session import DELETE, WRITE, Session, effect, engine_with, replied, worker

MINUTE = Limits(seconds=60.0)


def seconds_of(*decisions: object) -> list[float | None]:
    return [decision.seconds for decision in decisions if isinstance(decision, CallModel)]


def test_a_call_may_take_what_is_left_of_the_turn() -> None:
    """A retry counts, a tool counts, and a person's time does not."""
    session = Session(engine_with(DELETE, WRITE, limits=MINUTE))
    assert seconds_of(*session(UserSpoke("Go", at=100.0))) == [60.0]
    session(ModelFailed(effect("1.1.0"), Failure("busy", kind="transient"), at=110.0))
    assert seconds_of(*session(TimerFired(effect("1.1.1"), at=112.0))) == [48.0]
    session(replied("1.1.2", "", ProposedCall("delete"), at=115.0))
    session(ApprovalGiven(effect("1.1.3"), at=1115.0))

    again = session(ToolReturned(effect("1.1.4"), "ok", at=1116.0))

    assert seconds_of(*again) == [44.0]


@pytest.mark.parametrize(("at", "left"), [(159.0, 1.0), (159.5, 0.5), (159.9375, 0.0625)])
def test_the_last_part_of_a_second_is_not_made_longer(at: float, left: float) -> None:
    """Neither for the next model call nor for a worker."""
    session = Session(engine_with(WRITE, limits=MINUTE, features=("workers",)))
    session(UserSpoke("Go", at=100.0))

    assert seconds_of(*session(replied("1.1.0", at=at))) == [left]
    (spawn,) = session(replied("1.2.0", "", worker("a"), at=at))
    assert isinstance(spawn, SpawnWorker)
    assert spawn.limits.seconds == left


@pytest.mark.parametrize(("steps", "purpose"), [(9, "repair"), (1, "final_answer")])
def test_an_answer_is_corrected_in_what_is_left_of_the_turn(steps: int, purpose: str) -> None:
    """By the call that corrects it, or by the last one that the limit of steps allows."""
    session = Session(engine_with(WRITE, limits=Limits(steps=steps, seconds=60.0)))
    session(UserSpoke("How many?", '{"type": "integer"}', at=100.0))

    *_, again = session(replied("1.1.0", "many", objection="it is no number", at=115.0))

    assert isinstance(again, CallModel)
    assert (again.purpose, again.seconds) == (purpose, 45.0)


def test_without_a_limit_a_call_has_no_deadline() -> None:
    assert seconds_of(*Session(engine_with())(UserSpoke("Go", at=100.0))) == [None]


@pytest.mark.parametrize("at", [50.0, float("nan"), float("inf"), float("-inf")])
def test_whatever_clocks_say_a_call_has_a_time_that_it_can_have(at: float) -> None:
    """A clock may be set back, and a recording may hold any number."""
    session = Session(engine_with(WRITE, limits=MINUTE))
    session(UserSpoke("Go", at=100.0))

    given = seconds_of(*session(replied("1.1.0", at=at)))

    assert all(seconds is not None and 0.0 <= seconds <= 60.0 for seconds in given)


@pytest.mark.parametrize("text", ["", "It is"])
@pytest.mark.parametrize("at", [159.9, 160.0, 200.0])
def test_a_call_that_took_the_rest_of_the_turns_time_ends_it_with_what_had_arrived(text: str, at: float) -> None:
    """By whatever clock: who carried it out says that it was late."""
    session = Session(engine_with(WRITE, limits=MINUTE))
    session(UserSpoke("Go", at=100.0))

    hit, end = session(ModelInterrupted(effect("1.1.0"), text, Usage(9, 3), late=True, at=at))

    assert hit == LimitHit("seconds", "the limit of 60 seconds is reached")
    assert end == TurnFinished(LimitReached("seconds", text), Usage(9, 3))
    kept = [one for one in session.state.history if isinstance(one, AssistantMessage)]
    assert kept == ([AssistantMessage("m2", text, interrupted=True)] if text else [])


@pytest.mark.parametrize(("limits", "late"), [(MINUTE, False), (Limits(), True), (Limits(), False)])
def test_a_call_that_ends_otherwise_is_no_matter_of_time(limits: Limits, late: bool) -> None:
    session = Session(engine_with(limits=limits))
    session(UserSpoke("Go"))

    (end,) = session(ModelInterrupted(effect("1.1.0"), "It is", late=late))

    assert end == TurnFinished(Cancelled("the model call was interrupted", "It is"), Usage())


def test_of_a_text_protocol_the_user_gets_the_answer_as_far_as_it_had_come() -> None:
    session = Session(engine_with(WRITE, protocol="short_keys", limits=MINUTE))
    session(UserSpoke("Go"))

    _, end = session(ModelInterrupted(effect("1.1.0"), '{"f": "It is 3 k', late=True))

    assert end == TurnFinished(LimitReached("seconds", "It is 3 k"), Usage())


def test_no_wait_for_another_attempt_is_longer_than_the_turn() -> None:
    session = Session(engine_with(limits=Limits(seconds=10.0)))
    session(UserSpoke("Go", at=100.0))
    busy = Failure("busy", kind="rate_limit", retry_after=25.0)

    planned, timer = session(ModelFailed(effect("1.1.0"), busy, at=104.0))

    assert isinstance(planned, RetryPlanned)
    assert isinstance(timer, StartTimer)
    assert (planned.seconds, timer.seconds) == (6.0, 6.0)
    hit, end = session(TimerFired(effect("1.1.1"), at=110.0))
    assert isinstance(hit, LimitHit)
    assert end == TurnFinished(LimitReached("seconds"), Usage())


@pytest.mark.parametrize("hooks", [(), ("before_tool",)])
def test_a_worker_has_what_is_left_of_its_parents_time(hooks: tuple[str, ...]) -> None:
    session = Session(engine_with(WRITE, limits=MINUTE, features=("workers",), hooks=hooks))
    session(UserSpoke("Go", at=100.0))
    decided = session(replied("1.1.0", "", worker("a"), at=120.0))
    if hooks:
        decided = session(HookReturned(effect("1.1.1"), at=125.0))

    (spawn,) = decided

    assert isinstance(spawn, SpawnWorker)
    assert spawn.limits.seconds == (35.0 if hooks else 40.0)


def test_a_worker_that_somebody_approved_has_the_time_that_was_left_when_it_was_asked_about() -> None:
    session = Session(engine_with(WRITE, limits=MINUTE, features=("workers",)))
    session(UserSpoke("Go", at=100.0))
    session(replied("1.1.0", "", evolve(worker("a"), confirm=True), at=120.0))

    (spawn,) = session(ApprovalGiven(effect("1.1.1"), at=1120.0))

    assert isinstance(spawn, SpawnWorker)
    assert spawn.limits.seconds == 40.0
