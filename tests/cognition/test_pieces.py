"""Summaries of all that was said: each begins where the last one ended, in pieces that fit into a request."""

from __future__ import annotations

import re
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings, strategies as st

from cognition import (
    AgentState,
    CallModel,
    CallTool,
    Compacted,
    Compacting,
    CompactionAsked,
    Failure,
    Input,
    Limits,
    LLMEngine,
    ModelFailed,
    NotCompacted,
    ProposedCall,
    TemplateCosts,
    ToolMessage,
    ToolReturned,
    ToolSpec,
    TurnFinished,
    Usage,
    UserMessage,
    UserSpoke,
    from_data,
    to_data,
)
from cognition.context import end_of_piece, fixed_size, message_size, visible_messages
from cognition.engine._setup import Setup
from cognition.steps.config import AgentConfig
from cognition.steps.state import Summary, Window
from cognition.testing import laws
from cognition.testing._search import Walk
from tests.cognition.context.test_window import TURNS, conversation
from tests.cognition.session import Session, engine_with, replied

READ = ToolSpec("read", read_only=True)
FACT = re.compile(r"FACT-\d+")
ROOMY = Limits(steps=300)
COSTS = TemplateCosts(50, user=5, reply=6, call=7, result=8, cut=30, bare=40, asking=250, estimate=16.0, model="a")


def faithful(call: CallModel) -> str:
    """A summary with each fact of the request once."""
    texts = [one.content if isinstance(one, ToolMessage) else one.text for one in call.request.messages]
    return "TASK: " + " ".join(dict.fromkeys(FACT.findall("\n".join(texts)))) + "."


def answer(session: Session, number: int, reading: int = 0) -> None:
    """A turn that tells a fact, with the summaries on its way."""
    events: list[Input] = [UserSpoke(f"FACT-{number} " + "word " * 150)]
    left = reading
    while events:
        session(events.pop(0))
        for one in session.decisions:
            if isinstance(one, CallModel) and one.purpose == "summary":
                events.append(replied(one.effect_id, faithful(one)))
            elif isinstance(one, CallModel):
                left -= 1
                calls = [ProposedCall("read", {"n": left})] if left >= 0 else []
                events.append(replied(one.effect_id, "" if calls else "Noted. " * 40, *calls))
            elif isinstance(one, CallTool):
                events.append(ToolReturned(one.effect_id, f"FACT-{number}{left} " + "y" * 900))


def compact(session: Session) -> list[Any]:
    """Summarise on request; what was reported."""
    session(CompactionAsked())
    reported = []
    while isinstance(session.state.phase, Compacting):
        (call,) = [one for one in session.decisions if isinstance(one, CallModel)]
        session(replied(call.effect_id, faithful(call)))
        reported += [one for one in session.decisions if isinstance(one, Compacted | NotCompacted)]
    return reported


@pytest.mark.parametrize(("edition", "whole"), [(1, False), (2, True), (3, True)])
@pytest.mark.parametrize("counted", [False, True])
def test_a_summary_on_request_has_what_the_window_had_left_out(edition: int, whole: bool, counted: bool) -> None:
    """20 facts in 20 turns at 2,048 tokens: it used to keep those of the last turns."""
    session = Session(engine_with(READ, context_tokens=2048, compact_at=None, edition=edition))
    if counted:
        costs = evolve(COSTS, estimate=fixed_size(session.engine.config))
        session.state = evolve(session.state, costs=costs)
    for number in range(20):
        answer(session, number)
    assert session.state.window.first > 0

    reported = compact(session)

    facts = FACT.findall(session.state.window.summary.text)
    assert (facts == [f"FACT-{number}" for number in range(20)]) is whole
    assert all(isinstance(one, Compacted) for one in reported)
    if whole:
        assert len(session.state.history) - 1 <= sum(one.messages for one in reported) <= len(session.state.history)
        assert len(reported) > 1
        session(CompactionAsked())
        assert isinstance(session.decisions[-1], NotCompacted), "there is nothing new"


def test_a_summary_in_a_turn_begins_where_the_last_one_ended() -> None:
    """One failed in between, and the window made room."""
    session = Session(engine_with(READ, context_tokens=2048, compact_at=None))
    for number in range(12):
        answer(session, number)
    first = session.state.window.first
    session.engine = LLMEngine(evolve(session.engine.config, compact_at=0.5, limits=ROOMY))
    assert first > 0

    for number in range(12, 20):
        answer(session, number)

    facts = FACT.findall(session.state.window.summary.text)
    assert facts == [f"FACT-{number}" for number in range(len(facts))]
    assert len(facts) > 12


def test_the_pieces_of_a_turn_leave_it_a_step() -> None:
    session = Session(engine_with(READ, context_tokens=2048, compact_at=None))
    for number in range(20):
        answer(session, number)
    session.engine = LLMEngine(evolve(session.engine.config, compact_at=0.3, limits=Limits(steps=3)))

    session(UserSpoke("Go on. " + "word " * 150))
    summaries = 0
    while isinstance(session.state.phase, Compacting):
        (call,) = [one for one in session.decisions if isinstance(one, CallModel)]
        session(replied(call.effect_id, faithful(call)))
        summaries += 1

    assert summaries == 2
    (call,) = [one for one in session.decisions if isinstance(one, CallModel)]
    assert call.purpose == "answer"
    assert 0 < session.state.window.summary.messages < session.state.window.first


def test_a_piece_that_fails_ends_the_summary_and_the_others_stay() -> None:
    session = Session(engine_with(READ, context_tokens=2048, compact_at=None))
    for number in range(20):
        answer(session, number)
    session(CompactionAsked())
    (call,) = [one for one in session.decisions if isinstance(one, CallModel)]
    session(replied(call.effect_id, faithful(call)))
    (call,) = [one for one in session.decisions if isinstance(one, CallModel)]
    assert session.state == from_data(to_data(session.state), AgentState)
    assert session.engine.build_prompt(session.state) == call.request

    session(ModelFailed(call.effect_id, Failure("no", kind="fatal")))

    assert isinstance(session.decisions[-1], NotCompacted)
    done = session.state.window.summary.messages
    assert 0 < done < len(session.state.history)
    compact(session)
    assert FACT.findall(session.state.window.summary.text) == [f"FACT-{number}" for number in range(20)]


def test_a_piece_that_is_no_shorter_is_followed_by_the_rest_of_its_turn() -> None:
    """The question of the turn stays until all of the turn is summarised."""
    session = Session(engine_with(READ, context_tokens=2048, compact_at=None))
    session(UserSpoke("FACT-1"))
    session(replied("1.1.0", "", ProposedCall("read")))
    session(ToolReturned(session.decisions[-1].effect_id, "FACT-2"))  # type: ignore[union-attr, arg-type]  # the call
    session(replied("1.2.0", "FACT-3 " + "long " * 900))

    (done,) = compact(session)

    assert isinstance(done, Compacted)
    assert session.state.window.first == 4
    assert session.state.window.summary.text == "TASK: FACT-1 FACT-2 FACT-3."


def test_a_piece_is_not_asked_for_beyond_a_budget() -> None:
    session = Session(engine_with(READ, context_tokens=2048, compact_at=None, limits=ROOMY))
    for number in range(20):
        answer(session, number)
    limits = evolve(ROOMY, input_tokens=500)
    session.engine = LLMEngine(evolve(session.engine.config, compact_at=0.3, limits=limits))
    session(UserSpoke("Go on. " + "word " * 150))
    (call,) = [one for one in session.decisions if isinstance(one, CallModel)]
    assert call.purpose == "summary"

    session(replied(call.effect_id, faithful(call), usage=Usage(500)))

    assert [type(one) for one in session.decisions if not isinstance(one, Compacted)][-1] is TurnFinished


@given(TURNS, st.integers(0, 4), st.integers(100, 3000), st.booleans())
def test_pieces_end_with_turns_or_steps_and_reach_the_end(
    turns: list[tuple[int, list[list[int]], bool]], dropped: int, room: int, counted: bool
) -> None:
    history = conversation(turns)
    asking = [place for place, one in enumerate(history) if isinstance(one, UserMessage)]
    window, pieces = Window(asking[min(dropped, len(asking) - 1)]), 0
    costs = COSTS if counted else None

    while (done := window.summary.messages) < len(history):
        end = end_of_piece(history, window, len(history), room, costs)
        assert end > done
        assert end == len(history) or not hasattr(history[end], "call_id"), "a call is not parted from its result"
        window, pieces = evolve(window, summary=Summary("TASK: all.", end)), pieces + 1

    assert end_of_piece(history, Window(window.first), len(history), 10**9, costs) == len(history)


@settings(max_examples=30)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.sampled_from((1200, 2048, 4096)), st.booleans())
def test_every_law_holds_along_sessions_with_summaries_in_pieces(
    readings: list[int], context: int, between: bool
) -> None:
    config = AgentConfig(tools=(READ,), context_tokens=context, compact_at=None, limits=ROOMY)
    session = Session(LLMEngine(config))
    for number in range(6):
        answer(session, number, 4)
    engine = LLMEngine(evolve(config, compact_at=0.6))
    session.engine = engine
    walk = Walk([law for law in laws(engine, start=session.state) if law.name in ("L2", "L3", "L6", "L9", "L10")])
    note = Setup(config).note_with(None)

    class Taking(Session):
        def __call__(self, event: Input) -> Any:
            walk.take(event)
            return super().__call__(event)

    taken = Taking(engine)
    taken.state = session.state
    for number, reading in enumerate(readings, 6):
        answer(taken, number, reading)
        if between:
            compact(taken)
    shown = visible_messages(taken.state.history, taken.state.window, note)
    assert sum(map(message_size, shown)) == pytest.approx(taken.state.window.size)
