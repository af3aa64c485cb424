"""Turns of very many steps: their oldest steps go, a note says so, and the turn goes on."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from cognition import AgentState, CallModel, CallTool, Compacting, ProposedCall, ToolReturned, UserSpoke
from cognition.context import before_window, fit, message_size, visible_messages
from cognition.context.window import SKIPPED_ID, skipped_message, summary_message
from cognition.steps.config import Limits
from cognition.steps.decisions import ContextAssembled, TurnFinished
from cognition.steps.state import NO_SUMMARY, Summary, Window
from cognition.testing._edge_laws import find_unpaired
from cognition.values.counts import EDGE, TemplateCosts
from cognition.values.messages import AssistantMessage, Message, UserMessage
from cognition.values.outcomes import Completed, Failed
from tests.cognition.context.test_window import READ, SCALES, conversation, whole
from tests.cognition.session import Session, engine_with, replied

STEPS = st.lists(st.lists(st.integers(0, 600), min_size=1, max_size=3), min_size=1, max_size=14)
"""Of one turn, the lengths of the results of each step."""
COSTS = TemplateCosts(50, user=5, reply=6, call=7, result=8, cut=30, bare=40, asking=250, estimate=16.0, model="a")
MANY = Limits(steps=500, tool_calls=None)


@given(STEPS, st.integers(0, 300), SCALES, st.integers(0, 200), st.integers(60, 1500), st.booleans())
@pytest.mark.behaviour("K18c")
def test_what_is_shown_of_a_long_turn_fits_and_says_what_is_missing(
    steps: list[list[int]], asked: int, scale: float, fixed: int, budget: int, earlier: bool
) -> None:
    """The user's message and the newest step stay, pairs are whole, and the note has the number of what is gone."""
    history = conversation([*([(20, [[50]], True)] if earlier else []), (asked, steps, False)])

    window = fit(history, whole(history, scale), fixed, budget)

    if window is None:
        return
    messages = list(visible_messages(history, window))
    assert (fixed + sum(map(message_size, messages))) * scale <= budget + 1e-6
    assert window.size == pytest.approx(sum(map(message_size, messages)))
    assert find_unpaired(messages) is None
    newest = max(place for place, one in enumerate(history) if isinstance(one, AssistantMessage))
    assert [one.id for one in messages[newest - len(history) :]] == [one.id for one in history[newest:]]
    users = [one for one in history if isinstance(one, UserMessage)]
    assert users[-1] in messages
    notes = [one for one in messages if one.id == SKIPPED_ID]
    front = before_window(history, window)
    if notes:
        assert notes == [skipped_message(window.summary)] == [front[-1]]
        assert str(window.summary.skipped) in notes[0].text  # type: ignore[union-attr]  # the user's role
        begun = list(history).index(users[-1]) + 1
        assert window.summary.skipped == window.first - begun
        assert isinstance(history[window.first], AssistantMessage)
    assert fit(history, window, fixed, budget) == window


@given(STEPS, st.integers(0, 300), SCALES, st.integers(60, 1500), st.integers(1, 1500))
@pytest.mark.behaviour("K18b")
def test_a_larger_budget_leaves_no_more_steps_out(
    steps: list[list[int]], asked: int, scale: float, budget: int, more: int
) -> None:
    history = conversation([(asked, steps, False)])

    small, large = (fit(history, whole(history, scale), 0, room) for room in (budget, budget + more))

    if small is not None:
        assert large is not None
        assert large.first <= small.first


def many_steps(count: int, length: int, **config: Any) -> Session:
    """A turn that has made so many steps, each with a result of this length."""
    session = Session(engine_with(READ, limits=MANY, **{"context_tokens": 1200, **config}))
    session(UserSpoke("Read all of it."))
    for _ in range(count):
        step(session, length)
    return session


def step(session: Session, length: int) -> None:
    (asked,) = [decision for decision in session.decisions if isinstance(decision, CallModel)]
    call = ProposedCall("read", f'{{"page": {session.state.counters.step}}}')
    session(replied(asked.effect_id, "", call))
    (running,) = [decision for decision in session.decisions if isinstance(decision, CallTool)]
    session(ToolReturned(running.effect_id, "x" * length))


@pytest.mark.behaviour("K18c")
def test_a_turn_of_two_hundred_steps_is_answered() -> None:
    """Without a summary. It used to end as a context overflow where calls alone filled the context."""
    session = many_steps(200, 90)
    (asked,) = [decision for decision in session.decisions if isinstance(decision, CallModel)]

    assert [one.id for one in asked.request.messages][:2] == ["m1", SKIPPED_ID]
    (report,) = [decision for decision in session.decisions if isinstance(decision, ContextAssembled)]
    assert report.dropped == session.state.window.summary.skipped
    assert report.turns == 0
    session(replied(asked.effect_id, "All is read."))
    (finished,) = [decision for decision in session.decisions if isinstance(decision, TurnFinished)]
    assert finished.outcome == Completed("All is read.")


def test_steps_go_many_at_once_so_that_the_beginning_stays() -> None:
    """Between two cuts every request goes on from the one before."""
    session = many_steps(100, 90, context_tokens=4096)
    kept = 0
    for _ in range(60):
        before = list(_request(session))
        step(session, 90)
        kept += list(_request(session))[: len(before)] == before

    assert kept >= 50


def _request(session: Session) -> Any:
    (asked,) = [decision for decision in session.decisions if isinstance(decision, CallModel)]
    return asked.request.messages


def test_the_next_turn_has_no_note_once_the_long_one_is_left_out() -> None:
    session = many_steps(60, 90)
    (asked,) = [decision for decision in session.decisions if isinstance(decision, CallModel)]
    session(replied(asked.effect_id, "All is read."))

    session(UserSpoke("x" * 1000))

    assert [one.id for one in _request(session)] == [session.state.history[-1].id]
    assert session.state.window.summary == NO_SUMMARY


def test_a_turn_with_a_summary_leaves_later_steps_out_behind_it() -> None:
    """What the summary says stays, and the note counts only what has nothing in its place."""
    history = conversation([(30, [[90]] * 30, False)])
    summary = Summary("TASK: all.", 20, 0, 20)
    begun = Window(21, 0.0, 1.0, (), summary)
    window = evolve(begun, size=sum(map(message_size, visible_messages(history, begun))))

    later = fit(history, window, 0, 500)

    assert later is not None
    front = before_window(history, later)
    assert [one.id for one in front] == ["summary", "u0", SKIPPED_ID]
    assert later.summary.skipped == later.first - 21 > 0
    again = fit(history, later, 0, 300)
    assert again is not None
    assert again.summary.skipped == again.first - 21 > later.summary.skipped
    assert again.size == pytest.approx(sum(map(message_size, visible_messages(history, again))))


def test_a_note_that_takes_more_than_it_saves_is_not_put_there() -> None:
    history = conversation([(3, [[0], [221]], False)])

    window = fit(history, whole(history, 0.5), 0, 72)

    assert window is None or SKIPPED_ID not in [one.id for one in visible_messages(history, window)]


def test_without_a_message_of_the_users_no_step_goes() -> None:
    """A conversation that begins in the middle of a turn, as one that was handed in may."""
    messages: list[Message] = list(conversation([(3, [[90]] * 9, False)]))[1:]
    history = conversation([(3, [], False)]).drop(1)
    for message in messages:
        history = history.append(message)

    assert fit(history, whole(history), 0, 200) is None


def test_the_note_is_counted_where_tokens_are() -> None:
    """And again when another model goes on with the session."""
    session = Session(engine_with(READ, context_tokens=1200, limits=MANY))
    session(UserSpoke("Read all of it.", costs=COSTS, tokens=(9,)))
    while not session.state.window.summary.skipped:
        step(session, 90)
    (asked,) = [decision for decision in session.decisions if isinstance(decision, CallModel)]

    note = skipped_message(session.state.window.summary)
    assert note in list(asked.request.messages)
    assert note.tokens == (COSTS.user + len(note.text),)

    session(replied(asked.effect_id, "All is read."))
    session(UserSpoke("Thanks.", costs=evolve(COSTS, user=9, model="b"), tokens=(9,)))
    (asked,) = [decision for decision in session.decisions if isinstance(decision, CallModel)]
    assert [one.tokens for one in asked.request.messages if one.id == SKIPPED_ID] in ([], [(9 + len(note.text),)])


def test_a_summary_is_counted_anew_for_another_model() -> None:
    state = AgentState(
        conversation([(30, [[90]] * 30, True)]),
        window=Window(21, 900.0, 1.0, (), Summary("TASK: all.", 20, 0, 20, (7,), 3, (4,))),
        costs=COSTS,
    )
    session = Session(engine_with(READ, context_tokens=8000))
    session.state = state

    transition = session.engine.step(state, UserSpoke("On.", costs=evolve(COSTS, user=9, model="b"), tokens=(9,)))

    summary = transition.next_state.window.summary
    text = "What was said and done before, summarised, in place of the messages themselves:\nTASK: all."
    assert summary.tokens == (9 + len(text),)
    assert summary.skipped_tokens == (9 + len(skipped_message(summary).text),)
    window = transition.next_state.window
    assert window.size == sum(map(message_size, visible_messages(transition.next_state.history, window)))


def test_what_does_not_fit_at_all_by_its_counts_is_still_an_error() -> None:
    session = Session(engine_with(READ, context_tokens=600))

    session(UserSpoke("x" * 5000, costs=COSTS, tokens=(1300,)))

    (finished,) = [decision for decision in session.decisions if isinstance(decision, TurnFinished)]
    assert isinstance(finished.outcome, Failed)
    assert finished.outcome.kind == "context_overflow"


def test_a_summary_is_counted_by_the_tokens_of_the_reply() -> None:
    """Instead of a token a character, the bound of a text that nobody has counted."""
    session = Session(engine_with(READ, context_tokens=3000, compact_at=0.75, limits=MANY))
    session(UserSpoke("Read all of it.", costs=COSTS, tokens=(9,)))
    while not isinstance(phase := session.state.phase, Compacting):
        step(session, 90)

    session(evolve(replied(phase.effect_id, "TASK: " + "read on " * 50), tokens=(120,)))

    window = session.state.window
    text = summary_message(window.summary).text
    summary = window.summary.text
    assert window.summary.tokens == (COSTS.user + len(text) - len(summary) + 120 + EDGE,)
    assert window.size == sum(map(message_size, visible_messages(session.state.history, window)))
