"""Budgets hold on every way through a turn: time wherever the model would be called again, tokens from every source."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve

from cognition import (
    ApprovalGiven,
    ApprovalRefused,
    CallModel,
    CallTool,
    Cancelled,
    Completed,
    Failed,
    Failure,
    HookReturned,
    Input,
    LimitHit,
    LimitReached,
    Limits,
    MalformedToolCall,
    MemoryRecalled,
    ModelFailed,
    ModelInterrupted,
    ModelReplied,
    PlanReviewed,
    ProposedCall,
    QuestionAnswered,
    TimerFired,
    ToolFailed,
    ToolReturned,
    ToolSpec,
    TurnFinished,
    Usage,
    UserSpoke,
    WorkerFailed,
    WorkerFinished,
    WorkerStalled,
)
from tests.cognition.session import DELETE, WRITE, Session, effect, engine_with, replied

Answer = Callable[[float], Input]
"""What happened, at a time."""

WRITING = replied("1.1.0", "", ProposedCall("write"))
DELETING = replied("1.1.0", "", ProposedCall("delete"))
ASKING = replied("1.1.0", "", ProposedCall("ask_user", {"questions": [{"question": "?", "options": ["a", "b"]}]}))
PLANNING = replied("1.1.0", "", ProposedCall("submit_plan", {"steps": ["a"]}))
RECALLING = replied("1.1.0", "", ProposedCall("recall", {"query": "a"}))
SPAWNING = replied("1.1.0", "", ProposedCall("spawn_worker", {"name": "a", "objective": "b"}))
FIRST = effect("1.1.1")
BUSY = ModelFailed(effect("1.1.0"), Failure("busy", kind="transient"))
LONG = Failure("too long", kind="context_overflow", needed_tokens=5000)
BAD = (MalformedToolCall("{", "cut"),)

WAYS: dict[str, tuple[dict[str, Any], list[Input], Answer]] = {
    "an empty reply": ({}, [], lambda at: replied("1.1.0", at=at)),
    "an unreadable reply": ({}, [], lambda at: replied("1.1.0", malformed=BAD, at=at)),
    "an overflow": ({}, [], lambda at: ModelFailed(effect("1.1.0"), LONG, at=at)),
    "a timer": ({}, [BUSY], lambda at: TimerFired(FIRST, at=at)),
    "a result": ({}, [WRITING], lambda at: ToolReturned(FIRST, "x", at=at)),
    "a failure": ({}, [WRITING], lambda at: ToolFailed(FIRST, "x", at=at)),
    "a recollection": ({}, [RECALLING], lambda at: MemoryRecalled(FIRST, at=at)),
    "a recollection before the answer": ({"recall_first": True}, [], lambda at: MemoryRecalled(effect("1.0.0"), at=at)),
    "a worker": ({}, [SPAWNING], lambda at: WorkerFinished(FIRST, "x", at=at)),
    "a failed worker": ({}, [SPAWNING], lambda at: WorkerFailed(FIRST, "x", at=at)),
    "a stalled worker": ({}, [SPAWNING], lambda at: WorkerStalled(FIRST, at=at)),
    "a hook before the turn": ({"hooks": ("user_message",)}, [], lambda at: HookReturned(effect("1.0.0"), at=at)),
    "a hook before a call": ({"hooks": ("before_tool",)}, [WRITING], lambda at: HookReturned(FIRST, at=at)),
    "a hook that refuses a call": (
        {"hooks": ("before_tool",)},
        [WRITING],
        lambda at: HookReturned(FIRST, "refuse", at=at),
    ),
    "a hook after a call": (
        {"hooks": ("after_tool",)},
        [WRITING, ToolReturned(FIRST, "x")],
        lambda at: HookReturned(effect("1.1.2"), at=at),
    ),
    "a hook at the end": (
        {"hooks": ("stop",)},
        [replied("1.1.0", "Done.")],
        lambda at: HookReturned(FIRST, "go_on", at=at),
    ),
}

BY_PERSONS: dict[str, tuple[ModelReplied, Answer]] = {
    "an approval": (DELETING, lambda at: ApprovalGiven(FIRST, at=at)),
    "a refusal": (DELETING, lambda at: ApprovalRefused(FIRST, at=at)),
    "an answer": (ASKING, lambda at: QuestionAnswered(FIRST, (("a",),), at=at)),
    "a review": (PLANNING, lambda at: PlanReviewed(FIRST, True, at=at)),
}


@pytest.mark.parametrize("way", BY_PERSONS)
@pytest.mark.parametrize("later", [-50.0, 0.0, 50.0, 1e6])
@pytest.mark.parametrize(("worked", "over"), [(9.0, False), (10.0, True)])
def test_time_that_only_a_person_takes_does_not_count(way: str, later: float, worked: float, over: bool) -> None:
    """The turn goes on after the answer, whenever it comes, and has as much time left as when the person was asked."""
    asking, answer = BY_PERSONS[way]
    session = Session(engine_with(WRITE, DELETE, limits=Limits(seconds=10.0), features=("questions", "plan")))
    session(UserSpoke("Go", at=100.0))
    session(evolve(asking, at=104.0))

    (*_, first) = session(answer(104.0 + later))
    assert isinstance(first, CallTool | CallModel)
    began = 104.0 + max(later, 0.0)
    ended = began + worked - 4.0
    answered = ToolReturned(first.effect_id, "x", at=ended)
    if isinstance(first, CallModel):
        answered = replied(first.effect_id, "", ProposedCall("write"), at=ended)
    decisions = session(answered)

    assert over == any(isinstance(decision, LimitHit) for decision in decisions)


def test_time_that_a_person_takes_beside_a_call_that_runs_counts() -> None:
    peek, look = ToolSpec("peek", read_only=True, approval=True), ToolSpec("look", read_only=True)
    session = Session(engine_with(peek, look, limits=Limits(seconds=10.0)))
    session(UserSpoke("Go", at=100.0))
    session(replied("1.1.0", "", ProposedCall("look"), ProposedCall("peek"), at=101.0))
    session(ToolReturned(FIRST, "x", at=109.0))

    decisions = session(ApprovalGiven(effect("1.1.2"), at=200.0))

    assert [CallTool] == [type(decision) for decision in decisions]
    assert any(isinstance(one, LimitHit) for one in session(ToolReturned(decisions[0].effect_id, "y", at=201.0)))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("at", "over"), [(109.0, False), (110.0, True)])
def test_when_the_time_is_over_nothing_more_is_begun(way: str, at: float, over: bool) -> None:
    """Whatever happened last: at the limit to the second the turn ends, and not before (law L6)."""
    config, before, answer = WAYS[way]
    features = ("questions", "plan", "memory", "workers")
    session = Session(engine_with(WRITE, DELETE, limits=Limits(seconds=10.0), features=features, **config))
    session(UserSpoke("Go", at=100.0))
    for event in before:
        session(event)

    decisions = session(answer(at))

    detail = "the limit of 10 seconds is reached"
    usage = session.state.spent.usage
    expected = (LimitHit("seconds", detail), TurnFinished(LimitReached("seconds"), usage))
    assert over == (expected == decisions[-2:])
    if not over:
        assert not any(isinstance(decision, LimitHit | TurnFinished) for decision in decisions[:-1])


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        (replied("2.2.0", "Done.", usage=Usage(4, 2, 1, 0.5)), Completed("Done.")),
        (
            ModelFailed(effect("2.2.0"), Failure("no", kind="fatal"), usage=Usage(4, 2, 1, 0.5)),
            Failed("fatal", "no"),
        ),
        (
            ModelInterrupted(effect("2.2.0"), "Half", Usage(4, 2, 1, 0.5)),
            Cancelled("the model call was interrupted", "Half"),
        ),
    ],
)
def test_a_turn_costs_what_all_its_model_calls_and_workers_cost(end: Input, outcome: Any) -> None:
    """However it ends; and a session what all its turns cost."""
    session = Session(engine_with(features=("workers",)))
    session(UserSpoke("Before"))
    session(replied("1.1.0", "Yes.", usage=Usage(7, 7, 7, 7.0)))
    session(UserSpoke("Go"))
    session(replied("2.1.0", "", *SPAWNING.calls, usage=Usage(10, 20, 5, 0.25)))
    session(WorkerFinished(effect("2.1.1"), "A", Usage(100, 200, 50, 1.0)))

    (finished,) = session(end)

    assert TurnFinished(outcome, Usage(114, 222, 56, 1.75)) == finished
    assert session.state.total == Usage(121, 229, 63, 8.75)


def test_an_approval_ends_a_row_of_refusals_and_so_does_a_new_turn() -> None:
    session = Session(engine_with(DELETE, limits=Limits(refusals=2)))
    session(UserSpoke("Delete"))
    session(replied("1.1.0", "", *(ProposedCall("delete", {"n": n}) for n in range(3))))

    session(ApprovalRefused(effect("1.1.1")))
    (run,) = session(ApprovalGiven(effect("1.1.2")))
    session(ToolReturned(effect("1.1.3"), "gone"))
    decisions = session(ApprovalRefused(effect("1.1.4")))

    assert isinstance(run, CallTool)
    assert not any(isinstance(decision, LimitHit) for decision in decisions)
    assert session.state.spent.refusals == 1
    session(replied("1.2.0", "One was deleted."))
    session(UserSpoke("Again"))
    assert session.state.spent.refusals == 0


def test_a_step_that_uses_nothing_shares_what_was_used() -> None:
    """A tool's result takes nothing from a turn's budgets: the new state holds the very value of the old one."""
    session = Session(engine_with(WRITE, limits=Limits(repeats=None)))
    session(UserSpoke("Work", at=1.0))
    session(replied("1.1.0", "", ProposedCall("write")))
    before = session.state.spent
    session(ToolReturned(effect("1.1.1"), "ok", at=2.0))
    assert session.state.spent is before
    session(replied("1.2.0", "Done."))
    assert session.state.spent != before
