"""Budgets, limits and loop guards: what ends a turn that its model would go on with."""

from __future__ import annotations

import pytest

from cognition import (
    ApprovalGiven,
    ApprovalRefused,
    CallModel,
    Failure,
    HookReturned,
    LimitHit,
    LimitReached,
    Limits,
    ModelFailed,
    ProposedCall,
    TimerFired,
    ToolReturned,
    ToolSpec,
    TurnFinished,
    Usage,
    UserSpoke,
)
from tests.cognition.session import DELETE, MULTIPLY, WRITE, Session, effect, engine_with, replied


@pytest.mark.behaviour("B2")
def test_calls_beyond_the_limit_are_answered_but_not_run() -> None:
    session = Session(engine_with(MULTIPLY, limits=Limits(tool_calls=2)))
    session(UserSpoke("Work"))
    session(replied("1.1.0", "", *(ProposedCall("multiply", {"n": n}) for n in range(4))))
    session(ToolReturned(effect("1.1.1"), "a"))

    hit, final = session(ToolReturned(effect("1.1.2"), "b"))

    assert hit == LimitHit("tool_calls", "the limit of 2 tool calls is reached")
    assert isinstance(final, CallModel)
    assert session.results[2:] == [("Not run: the limit of 2 tool calls is reached.", "error")] * 2


@pytest.mark.parametrize("cycle", [1, 2, 3])
@pytest.mark.behaviour("B8")
def test_in_edition_1_a_loop_of_calls_is_ended_with_a_result_that_says_so(cycle: int) -> None:
    """The third repetition of a call, or of a cycle of two or three, is not run, whatever the results are."""
    session = Session(engine_with(WRITE, edition=1))
    session(UserSpoke("Work"))
    step = 0
    for step in range(1, 3 * cycle):
        session(replied(f"1.{step}.0", "", ProposedCall("write", f'{{"n": {step % cycle}, "z": 1}}')))
        session(ToolReturned(effect(f"1.{step}.1"), f"ok {step}"))

    hit, final = session(replied(f"1.{step + 1}.0", "", ProposedCall("write", f'{{"z":1,"n":{(step + 1) % cycle}}}')))

    assert hit == LimitHit("loop", "the same calls were repeated")
    assert isinstance(final, CallModel)
    assert session.results[-1] == ("Not run: the same calls were repeated.", "error")
    (end,) = session(replied(f"1.{step + 2}.0", "I give up."))
    assert end == TurnFinished(LimitReached("loop", "I give up."), Usage())


@pytest.mark.behaviour("B3")
def test_refusals_in_a_row_end_the_turn() -> None:
    session = Session(engine_with(DELETE, limits=Limits(refusals=2)))
    session(UserSpoke("Delete"))
    session(replied("1.1.0", "", *(ProposedCall("delete", {"n": n}) for n in range(3))))
    session(ApprovalRefused(effect("1.1.1")))

    hit, end = session(ApprovalRefused(effect("1.1.2")))

    assert hit == LimitHit("refusals", "the limit of 2 refusals is reached")
    assert end == TurnFinished(LimitReached("refusals"), Usage())
    assert session.results[-1][0] == "Not run: the limit of 2 refusals is reached."


@pytest.mark.parametrize(
    ("limit", "value", "usage"),
    [
        ("input_tokens", 50, Usage(50)),
        ("output_tokens", 5, Usage(0, 5)),
        ("cost", 0.5, Usage(cost=0.5)),
        ("seconds", 10.0, Usage()),
    ],
)
def test_a_budget_that_is_used_up_ends_the_turn_before_the_next_call(limit: str, value: float, usage: Usage) -> None:
    """The calls of the reply that used it up are answered without being run."""
    session = Session(engine_with(WRITE, limits=Limits(**{limit: value})))  # type: ignore[arg-type]  # parametrised
    session(UserSpoke("Work", at=100.0))

    hit, end = session(replied("1.1.0", "", ProposedCall("write"), usage=usage, at=110.0))

    detail = f"the limit of {value:g} {limit.replace('_', ' ')} is reached"
    assert LimitHit(limit, detail) == hit  # type: ignore[arg-type]  # parametrised
    assert TurnFinished(LimitReached(limit), usage) == end  # type: ignore[arg-type]  # parametrised
    assert [(f"Not run: {detail}.", "error")] == session.results


def test_time_that_ran_out_while_waiting_ends_the_turn() -> None:
    session = Session(engine_with(limits=Limits(seconds=5.0)))
    session(UserSpoke("Hello", at=100.0))
    session(ModelFailed(effect("1.1.0"), Failure("x", kind="offline"), at=101.0))

    hit, end = session(TimerFired(effect("1.1.1"), at=105.0))

    assert isinstance(hit, LimitHit)
    assert end == TurnFinished(LimitReached("seconds"), Usage())


def test_time_that_ran_out_beside_a_question_to_the_user_lets_nothing_run() -> None:
    """An approval comes too late when the turn's time is over; neither that call nor the next one runs (law L6)."""
    look, peek = ToolSpec("look", read_only=True), ToolSpec("peek", read_only=True, approval=True)
    session = Session(engine_with(look, peek, WRITE, limits=Limits(seconds=5.0)))
    session(UserSpoke("Clean up", at=100.0))
    calls = (ProposedCall("look"), ProposedCall("peek"), ProposedCall("write"))
    session(replied("1.1.0", "", *calls, at=101.0))
    session(ToolReturned(effect("1.1.1"), "x", at=105.0))

    decisions = session(ApprovalGiven(effect("1.1.2"), at=105.0))

    detail = "the limit of 5 seconds is reached"
    assert (LimitHit("seconds", detail), TurnFinished(LimitReached("seconds"), Usage())) == decisions
    assert [("x", "ok"), *[(f"Not run: {detail}.", "error")] * 2] == session.results


def test_time_that_runs_out_between_two_calls_lets_the_second_one_not_run() -> None:
    session = Session(engine_with(WRITE, limits=Limits(seconds=5.0)))
    session(UserSpoke("Work", at=100.0))
    session(replied("1.1.0", "", ProposedCall("write"), ProposedCall("write", {"n": 2}), at=101.0))

    decisions = session(ToolReturned(effect("1.1.1"), "ok", at=105.0))

    assert [LimitHit, TurnFinished] == [type(d) for d in decisions]
    assert session.results == [("ok", "ok"), ("Not run: the limit of 5 seconds is reached.", "error")]


def test_a_call_that_was_approved_after_others_used_up_the_limit_does_not_run() -> None:
    """Calls that are asked about count when they start, not when they are proposed (law L6)."""
    peek = ToolSpec("peek", read_only=True, approval=True)
    session = Session(engine_with(peek, MULTIPLY, limits=Limits(tool_calls=1)))
    session(UserSpoke("Work"))
    session(replied("1.1.0", "", ProposedCall("peek"), ProposedCall("multiply")))
    session(ToolReturned(effect("1.1.2"), "ok"))

    hit, final = session(ApprovalGiven(effect("1.1.1")))

    assert hit == LimitHit("tool_calls", "the limit of 1 tool calls is reached")
    assert isinstance(final, CallModel)
    assert final.purpose == "final_answer"
    assert session.results[0] == ("Not run: the limit of 1 tool calls is reached.", "error")


def test_calls_that_a_hook_looked_at_after_others_used_up_the_limit_do_not_run() -> None:
    session = Session(engine_with(MULTIPLY, limits=Limits(tool_calls=1), hooks=("before_tool",)))
    session(UserSpoke("Work"))
    session(replied("1.1.0", "", ProposedCall("multiply"), ProposedCall("multiply", {"n": 2})))
    session(HookReturned(effect("1.1.1")))

    session(HookReturned(effect("1.1.2")))
    hit, _ = session(ToolReturned(effect("1.1.3"), "ok"))

    assert hit == LimitHit("tool_calls", "the limit of 1 tool calls is reached")
    assert session.results[1] == ("Not run: the limit of 1 tool calls is reached.", "error")
