"""Behaviours of docs/concepts/behaviours.md that are about several parts of the core at once."""

from __future__ import annotations

import json
from itertools import permutations

import pytest
from hypothesis import given, strategies as st

from cognition import (
    AgentState,
    ApprovalGiven,
    CallModel,
    CallTool,
    CancelAsked,
    Cancelled,
    Failure,
    History,
    LimitReached,
    Limits,
    ModeChanged,
    ModelFailed,
    ProposedCall,
    Rejected,
    SessionClosed,
    ShutdownAsked,
    SpawnWorker,
    TimerFired,
    ToolReturned,
    TurnFinished,
    Usage,
    UserMessage,
    UserSpoke,
    WorkerFailed,
    WorkerFinished,
    from_data,
    to_data,
)
from cognition.context import fit, message_size
from cognition.steps.decisions import ModeSet
from cognition.steps.state import Window
from tests.cognition.session import DELETE, MULTIPLY, WRITE, Session, effect, engine_with, replied


def stored(session: Session) -> Session:
    """The session as another process reads it."""
    resumed = Session(session.engine)
    resumed.state = from_data(json.loads(json.dumps(to_data(session.state))), AgentState)
    return resumed


@pytest.mark.behaviour("B2")
def test_at_a_limit_the_user_s_word_still_comes_first() -> None:
    """While the final answer is awaited, a shutdown closes the session and a cancellation ends the turn as such."""
    for event, expected in ((ShutdownAsked(), SessionClosed()), (CancelAsked("enough"), None)):
        session = Session(engine_with(WRITE, limits=Limits(steps=1)))
        session(UserSpoke("Work"))
        session(replied("1.1.0", "", ProposedCall("write")))
        *_, final = session(ToolReturned(effect("1.1.1"), "ok"))
        assert isinstance(final, CallModel)
        assert final.purpose == "final_answer"

        _, end, *closed = session(event)

        assert isinstance(end, TurnFinished)
        assert isinstance(end.outcome, Cancelled)
        assert closed == ([] if expected is None else [expected])


@pytest.mark.behaviour("B8")
def test_another_call_between_equal_ones_breaks_the_row() -> None:
    """Looking again after something was changed is no loop, as long as it does not become a cycle itself."""
    session = Session(engine_with(MULTIPLY, WRITE))
    session(UserSpoke("Work"))
    for step, name in enumerate(("multiply", "multiply", "write", "multiply", "multiply"), 1):
        (ran,) = session(replied(f"1.{step}.0", "", ProposedCall(name)))
        assert isinstance(ran, CallTool)
        session(ToolReturned(effect(f"1.{step}.1"), "ok"))


@pytest.mark.behaviour("B16")
@given(st.lists(st.integers(1, 60), min_size=1, max_size=8), st.sampled_from([0.5, 1.0, 2.0]), st.integers(20, 200))
def test_trimming_what_was_trimmed_changes_nothing(sizes: list[int], scale: float, budget: int) -> None:
    """A window that fits is left where it is, so that a prompt's beginning stays the same from call to call."""
    history = History(UserMessage(f"m{number}", "x" * size) for number, size in enumerate(sizes, 1))
    window = Window(0, sum(map(message_size, history)), scale)

    once = fit(history, window, 10.0, budget)

    assert once is None or once == fit(history, once, 10.0, budget)


@pytest.mark.behaviour("B20")
def test_a_session_that_waits_for_the_user_is_stored_and_goes_on_once() -> None:
    """The answer may come days later and in another process; a second one finds nothing to answer."""
    session = Session(engine_with(DELETE))
    session(UserSpoke("Delete"))
    session(replied("1.1.0", "", ProposedCall("delete", {"path": "a"})))

    resumed = stored(session)
    (ran,) = resumed(ApprovalGiven(effect("1.1.1")))
    (again,) = resumed(ApprovalGiven(effect("1.1.1")))

    assert isinstance(ran, CallTool)
    assert ran.call.arguments == {"path": "a"}
    assert isinstance(again, Rejected)
    assert again.reason == "stale"


@pytest.mark.behaviour("B21", "I7")
def test_budgets_count_on_through_retries_workers_and_a_resume() -> None:
    """What was used before a session was stored is used after it was read, whoever used it."""
    limits = Limits(steps=3, output_tokens=30, workers=1)
    session = Session(engine_with(MULTIPLY, features=("workers",), limits=limits))
    session(UserSpoke("Work"))
    session(ModelFailed(effect("1.1.0"), Failure("reset", kind="transient"), usage=Usage(0, 4)))
    session(TimerFired(effect("1.1.1")))
    worker = ProposedCall("spawn_worker", {"name": "a", "objective": "look"})
    session(replied("1.1.2", "", worker, usage=Usage(0, 6)))

    resumed = stored(session)
    resumed(WorkerFinished(effect("1.1.3"), "found", Usage(0, 15)))
    used = resumed.state.spent
    resumed = stored(resumed)
    resumed(replied("1.2.0", "", ProposedCall("multiply"), usage=Usage(0, 5)))

    assert (used.steps, used.tool_calls, used.workers, used.usage.output_tokens) == (1, 1, 1, 25)
    end = resumed.decisions[-1]
    assert isinstance(end, TurnFinished)
    assert (end.outcome, end.usage) == (LimitReached("output_tokens"), Usage(0, 30))


def spawn(name: str, *after: str) -> ProposedCall:
    return ProposedCall("spawn_worker", {"name": name, "objective": f"do {name}", "after": list(after)})


DIAMOND = (spawn("top"), spawn("left", "top"), spawn("right", "top"), spawn("bottom", "left", "right"))


@pytest.mark.behaviour("B23", "B24")
@pytest.mark.parametrize("order", list(permutations(("left", "right"))))
def test_a_diamond_of_workers_runs_in_the_order_of_its_needs(order: tuple[str, ...]) -> None:
    """Both sides at once, the bottom after both with their results, whichever side is done first."""
    session = Session(engine_with(features=("workers",)))
    session(UserSpoke("Go"))
    (top,) = session(replied("1.1.0", "", *DIAMOND))
    sides = session(WorkerFinished(effect("1.1.1"), "T"))
    ids = {side.worker.name: side.effect_id for side in sides if isinstance(side, SpawnWorker)}
    assert session(WorkerFinished(ids[order[0]], order[0])) == ()
    (bottom,) = session(WorkerFinished(ids[order[1]], order[1]))

    assert isinstance(top, SpawnWorker)
    assert list(ids) == ["left", "right"]
    assert isinstance(bottom, SpawnWorker)
    assert bottom.context == (("left", "left"), ("right", "right"))
    session(WorkerFinished(bottom.effect_id, "B"))
    assert session.results == [("T", "ok"), ("left", "ok"), ("right", "ok"), ("B", "ok")]


@pytest.mark.behaviour("B23", "B24")
def test_a_side_that_fails_leaves_the_other_and_takes_what_needs_it() -> None:
    session = Session(engine_with(features=("workers",)))
    session(UserSpoke("Go"))
    session(replied("1.1.0", "", *DIAMOND))
    session(WorkerFinished(effect("1.1.1"), "T"))
    session(WorkerFailed(effect("1.1.2"), "lost"))
    (again,) = session(WorkerFinished(effect("1.1.3"), "R"))

    assert isinstance(again, CallModel)
    assert [status for _, status in session.results] == ["ok", "error", "ok", "error"]
    assert "'bottom' is cancelled because 'left', which it needs, did not succeed" in session.results[3][0]


@pytest.mark.behaviour("B23")
@pytest.mark.parametrize("calls", [(spawn("a", "a"),), (spawn("a", "b"), spawn("b", "a"))])
def test_workers_that_would_wait_for_each_other_are_never_started(calls: tuple[ProposedCall, ...]) -> None:
    """A worker may need those before it in the reply only, so that there is no circle to wait in."""
    session = Session(engine_with(features=("workers",)))
    session(UserSpoke("Go"))
    decisions = session(replied("1.1.0", "", *calls))

    assert not any(isinstance(decision, SpawnWorker) for decision in decisions)
    assert {status for _, status in session.results} == {"error"}


@pytest.mark.behaviour("B25", "I8")
def test_a_worker_gets_the_mode_of_its_parent_at_that_moment_and_a_change_is_told() -> None:
    """When the parent may do less, ``ModeSet`` says so for those at work, and those to come get less."""
    session = Session(engine_with(WRITE, features=("workers",)))
    session(ModeChanged("auto"))
    session(UserSpoke("Go"))
    (first,) = session(replied("1.1.0", "", spawn("a"), spawn("b", "a")))
    told = session(ModeChanged("default"))
    (second,) = session(WorkerFinished(effect("1.1.1"), "A"))

    assert isinstance(first, SpawnWorker)
    assert first.mode == "auto"
    assert told == (ModeSet("default"),)
    assert isinstance(second, SpawnWorker)
    assert second.mode == "default"
