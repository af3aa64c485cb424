"""Budgets of tokens and cost: what they leave for a reply, and what happens to one that exceeds them."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from cognition import (
    CallModel,
    CompactionAsked,
    Completed,
    Failure,
    GenerationOptions,
    LimitHit,
    LimitReached,
    Limits,
    ModelFailed,
    NotCompacted,
    ProposedCall,
    ToolReturned,
    ToolSpec,
    TurnFinished,
    Usage,
    UserSpoke,
)
from tests.cognition.session import WRITE, Session, effect, engine_with, replied

LOOK = ToolSpec("look", read_only=True)


def asked(session: Session, text: str = "Hello") -> CallModel:
    call = session(UserSpoke(text))[-1]
    assert isinstance(call, CallModel)
    return call


def outcome(session: Session, *inputs: object) -> object:
    (*_, end) = [decision for event in inputs for decision in session(event)]  # type: ignore[arg-type]  # inputs
    assert isinstance(end, TurnFinished)
    return end.outcome


@given(budget=st.integers(1, 6000), own=st.none() | st.integers(1, 4000), used=st.integers(0, 50))
def test_a_reply_may_have_what_is_left_of_the_budget(budget: int, own: int | None, used: int) -> None:
    session = Session(
        engine_with(LOOK, limits=Limits(output_tokens=budget + used), options=GenerationOptions(max_tokens=own))
    )
    asked(session)
    session(replied("1.1.0", "", ProposedCall("look"), usage=Usage(0, used)))

    call = session(ToolReturned(effect("1.1.1"), "a"))[-1]

    assert isinstance(call, CallModel)
    most = call.request.options.max_tokens
    assert most == (min(budget, own) if own is not None else most)
    assert most is None or most <= budget
    assert most is not None or budget > 3000, "a small budget is always said"


def test_what_the_budget_leaves_is_no_more_than_the_options_allow() -> None:
    session = Session(engine_with(limits=Limits(output_tokens=100), options=GenerationOptions(max_tokens=20)))

    assert asked(session).request.options.max_tokens == 20


@pytest.mark.parametrize("budget", ["output_tokens", "session_output_tokens"])
def test_a_reply_that_exceeds_its_budget_ends_the_turn_and_is_kept(budget: str) -> None:
    """38 tokens of a runtime that does not know ``max_tokens``: they are no complete answer within 8."""
    session = Session(engine_with(limits=Limits(**{budget: 8})))  # type: ignore[arg-type]  # parametrised
    assert asked(session).request.options.max_tokens == 8

    end = outcome(session, replied("1.1.0", "A long answer.", usage=Usage(0, 38)))

    assert end == LimitReached(budget, "A long answer.")  # type: ignore[arg-type]  # parametrised
    assert session.state.history[-1].text == "A long answer."  # type: ignore[union-attr]  # of a reply


def test_the_calls_of_a_reply_that_exceeds_its_budget_do_not_run() -> None:
    session = Session(engine_with(WRITE, limits=Limits(output_tokens=8)))
    asked(session)

    hit, end = session(replied("1.1.0", "", ProposedCall("write"), usage=Usage(0, 9)))

    assert hit == LimitHit("output_tokens", "the limit of 8 output tokens is reached")
    assert end == TurnFinished(LimitReached("output_tokens"), Usage(0, 9))
    assert session.results == [("Not run: the limit of 8 output tokens is reached.", "error")]


def test_a_reply_that_uses_the_budget_up_and_is_whole_is_an_answer() -> None:
    session = Session(engine_with(limits=Limits(output_tokens=8)))
    asked(session)

    assert outcome(session, replied("1.1.0", "Done.", usage=Usage(0, 8))) == Completed("Done.")


@pytest.mark.parametrize("tokens", [8, 0], ids=["counted", "not counted"])
def test_a_reply_that_its_budget_cut_ends_at_the_budget(tokens: int) -> None:
    session = Session(engine_with(limits=Limits(output_tokens=8)))
    asked(session)

    end = outcome(session, replied("1.1.0", "A long", finish_reason="length", usage=Usage(0, tokens)))

    assert end == LimitReached("output_tokens", "A long")


def test_a_final_answer_that_exceeds_its_budget_ends_at_the_budget() -> None:
    session = Session(engine_with(WRITE, limits=Limits(tool_calls=1, output_tokens=20)))
    asked(session)
    session(replied("1.1.0", "", ProposedCall("write"), ProposedCall("write", {"n": 2}), usage=Usage(0, 5)))
    session(ToolReturned(effect("1.1.1"), "ok"))

    end = outcome(session, replied("1.2.0", "All of it.", ProposedCall("write"), usage=Usage(0, 30)))

    assert end == LimitReached("output_tokens", "All of it.")


@pytest.mark.parametrize(
    ("limits", "usage", "limit"),
    [
        (Limits(session_input_tokens=50), Usage(30), "session_input_tokens"),
        (Limits(session_output_tokens=50), Usage(0, 30), "session_output_tokens"),
        (Limits(session_cost=0.5), Usage(cost=0.3), "session_cost"),
    ],
)
def test_a_budget_of_the_session_counts_all_turns(limits: Limits, usage: Usage, limit: str) -> None:
    session = Session(engine_with(limits=limits))
    asked(session)
    assert outcome(session, replied("1.1.0", "One.", usage=usage)) == Completed("One.")
    asked(session)
    assert outcome(session, replied("2.1.0", "Two.", usage=usage)) == LimitReached(limit, "Two.")  # type: ignore[arg-type]

    hit, end = session(UserSpoke("Once more"))

    assert isinstance(hit, LimitHit)
    assert end == TurnFinished(LimitReached(limit), Usage())  # type: ignore[arg-type]  # parametrised


def test_no_summary_is_asked_for_beyond_a_budget_of_the_session() -> None:
    session = Session(engine_with(limits=Limits(session_cost=0.5)))
    asked(session)
    session(replied("1.1.0", "One.", usage=Usage(cost=0.6)))

    (told,) = session(CompactionAsked())

    assert told == NotCompacted("the limit of 0.5 session cost is reached")


def test_usage_of_any_size_is_compared() -> None:
    """A runtime's report may have more digits than a float."""
    session = Session(engine_with(limits=Limits(output_tokens=8, session_output_tokens=9)))
    asked(session)

    assert outcome(session, replied("1.1.0", "Done.", usage=Usage(0, 10**400))) == LimitReached(
        "output_tokens", "Done."
    )


def test_in_edition_1_the_request_says_nothing_of_the_budget_and_an_overrun_is_an_answer() -> None:
    session = Session(engine_with(limits=Limits(output_tokens=8), edition=1))

    assert asked(session).request.options.max_tokens is None
    assert outcome(session, replied("1.1.0", "Long.", usage=Usage(0, 38))) == Completed("Long.")


@pytest.mark.parametrize("edition", [1, 2])
def test_no_smaller_request_is_sent_when_the_time_is_over(edition: int) -> None:
    session = Session(engine_with(limits=Limits(seconds=5.0), edition=edition))
    asked(session)

    end = outcome(session, ModelFailed(effect("1.1.0"), Failure("too long", "context_overflow"), at=6.0))

    assert end == LimitReached("seconds")
