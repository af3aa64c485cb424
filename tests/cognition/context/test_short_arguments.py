"""Long arguments of the model's own calls: shortened in requests like results, and never in history."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from cognition import (
    AssistantMessage,
    CallModel,
    CallTool,
    History,
    Limits,
    ProposedCall,
    TemplateCosts,
    ToolCall,
    ToolMessage,
    ToolReturned,
    ToolSpec,
    UserMessage,
    UserSpoke,
)
from cognition.context import CutNote, fit, fit_or_smallest, fixed_size, message_size, shorten_message, visible_messages
from cognition.context._short_arguments import AROUND_A_KEY, LEFT_OUT, shorten_arguments, written_length
from cognition.context.window import OLD_RESULT, STALE_RESULT
from cognition.steps.state import Window
from cognition.testing._edge_laws import _is_shown
from cognition.values.counts import most_tokens
from cognition.values.messages import Message
from tests.cognition.session import Session, engine_with, replied

WRITE = ToolSpec("write")
COSTS = TemplateCosts(
    50, user=5, reply=6, call=7, result=8, cut=30, bare=40, asking=250, estimate=16.0, model="a", skipped=23
)
CUTTING = CutNote(arguments=True)
COUNTING = CutNote(tokens=30, user=5, skipped=23, reply=6, call=7, arguments=True)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=12,
)
ARGUMENTS = st.dictionaries(st.text(max_size=9), VALUES, max_size=5)


def texts_of(value: Any) -> list[str]:
    if isinstance(value, dict | list):
        return [text for one in (value.values() if isinstance(value, dict) else value) for text in texts_of(one)]
    return [value] if isinstance(value, str) else []


@given(ARGUMENTS, st.integers(0, 600))
def test_shortened_arguments_are_an_object_with_the_ends_of_its_texts(value: dict[str, Any], limit: int) -> None:
    text = json.dumps(value)

    short = shorten_arguments(text, limit)

    assert len(short) <= len(text)
    if len(text) <= limit:
        assert short == text
    shown = json.loads(short)
    assert isinstance(shown, dict)
    if short != text and set(shown) != {LEFT_OUT}:
        assert len(short) <= max(limit, 0) * 6 + 2, "escapes alone make it longer than the limit"
        for one, whole in zip(texts_of(shown), texts_of(value), strict=True):
            head, _, rest = one.partition("\n[... ")
            assert whole == one or (whole.startswith(head) and whole.endswith(rest.partition(" ...]\n")[2]))


@pytest.mark.parametrize("text", ["no JSON " * 100, json.dumps(["x" * 900]), "[" * 900])
def test_what_is_no_object_stays(text: str) -> None:
    assert shorten_arguments(text, 100) == text


def test_long_texts_share_the_room_and_short_values_stay() -> None:
    value = {"path": "a.py", "old": "x" * 3000, "new": "y" * 5000, "count": 3}

    shown = json.loads(shorten_arguments(json.dumps(value), 400))

    assert (shown["path"], shown["count"]) == ("a.py", 3)
    assert len(shown["old"]) == len(shown["new"])
    assert shown["old"].count("characters of this argument are left out here") == 1


def test_many_small_values_are_replaced_by_a_note() -> None:
    text = json.dumps({"rows": list(range(1000))})

    assert json.loads(shorten_arguments(text, 100)) == {
        LEFT_OUT: f"[... {len(text)} characters of these arguments are left out here for want of room ...]"
    }


@given(ARGUMENTS)
def test_no_way_of_writing_arguments_has_more_bytes_than_their_bound(value: dict[str, Any]) -> None:
    text = json.dumps(value, ensure_ascii=False)

    ways = [text, json.dumps(value), json.dumps(value, indent=2, ensure_ascii=False)]

    assert all(most_tokens(way) <= written_length(text) for way in ways)
    assert written_length('{"a": "b"}') == len('{\n    "a": "b"\n}') + AROUND_A_KEY


def wrote(*lengths: int, tokens: bool = False) -> AssistantMessage:
    """A reply that writes files of this many characters."""
    calls = [ToolCall(f"c{n}", "write", json.dumps({"path": "a.py", "text": "x" * n})) for n in lengths]
    message = AssistantMessage("m", "", "", tuple(calls))
    return (
        evolve(message, tokens=(6 + sum([7 + len(call.arguments_json) // 2 for call in calls]),)) if tokens else message
    )


@given(st.lists(st.integers(0, 3000), max_size=4), st.integers(0, 900), st.booleans())
def test_a_shortened_call_is_never_larger_and_the_rest_of_its_reply_is_the_same(
    lengths: list[int], limit: int, tokens: bool
) -> None:
    message = wrote(*lengths, tokens=tokens)

    short = shorten_message(message, limit, COUNTING if tokens else CUTTING)

    assert message_size(short) <= message_size(message)
    assert _is_shown(short, message)
    assert shorten_message(message, limit) == message, "not in the first edition"
    if tokens and short != message:
        (call,) = [call for call in short.calls if call == short.calls[0]][:1]  # type: ignore[union-attr]  # a reply
        assert sum(short.tokens) > written_length(call.arguments_json)


@pytest.mark.parametrize(
    "change",
    [
        lambda calls: calls[:-1],
        lambda calls: (evolve(calls[0], name="other"), *calls[1:]),
        lambda calls: (evolve(calls[0], arguments_json='{"text": "' + "y" * 999 + '"}'), *calls[1:]),
    ],
)
def test_the_law_sees_calls_that_are_not_those_of_history(change: Any) -> None:
    message = wrote(300, 300)

    assert not _is_shown(evolve(message, calls=change(message.calls)), message)


STEPS = st.lists(st.tuples(st.integers(0, 6000), st.integers(0, 1500)), min_size=1, max_size=6)


@given(STEPS, st.integers(0, 300), st.integers(100, 4000), st.booleans())
def test_what_is_shown_fits_and_the_newest_step_is_shortened_last(
    steps: list[tuple[int, int]], fixed: int, budget: int, tokens: bool
) -> None:
    note = COUNTING if tokens else CUTTING
    messages: list[Message] = [UserMessage("u", "Go.", tokens=(9,) if tokens else ())]
    for place, (length, result) in enumerate(steps):
        counts = (8, *[25] * -(-result // 100)) if tokens else ()
        messages += [
            wrote(length, tokens=tokens),
            ToolMessage(f"r{place}", f"c{length}", "write", "y" * result, tokens=counts),
        ]
    history = History(messages)
    begun = Window(0, sum(map(message_size, history)))

    window = fit(history, begun, fixed, budget, note)
    smallest = fit_or_smallest(history, begun, fixed, budget, note)

    for one in (window, smallest):
        if one is not None:
            shown = list(visible_messages(history, one, note))
            assert one.size == pytest.approx(sum(map(message_size, shown)))
            assert all(end > one.first for end, _ in one.cuts)
    if window is None:
        assert fit(history, begun, fixed, budget) is None, "it never shows less than without"
        return
    assert smallest == window
    assert fixed + window.size <= budget + 1e-6
    shown = list(visible_messages(history, window, note))
    if shown[-2] != history[-2]:
        assert all(_short(one) for one in shown[1:-2]), "the others are short already"


def _short(message: Message) -> bool:
    if isinstance(message, ToolMessage):
        return len(message.content) <= OLD_RESULT + 80
    return not isinstance(message, AssistantMessage) or len(message.calls[0].arguments_json) <= STALE_RESULT


def test_a_window_that_is_made_smaller_again_never_shows_more() -> None:
    history = History([UserMessage("u", "Go."), wrote(6000), ToolMessage("r", "c6000", "write", "y" * 3000)])
    window = Window(0, sum(map(message_size, history)))
    for budget in (1200, 700, 300, 200, 100):
        smaller = fit_or_smallest(history, window, 0, budget, CUTTING)
        assert smaller.size < window.size
        window = smaller


def run(session: Session, *arguments: dict[str, Any], tokens: tuple[int, ...] = ()) -> CallModel:
    """A turn of one reply with these calls, whose tool has run; the model call behind it."""
    session(UserSpoke("Write it."))
    (asked,) = [one for one in session.decisions if isinstance(one, CallModel)]
    calls = [ProposedCall("write", one) for one in arguments]
    session(replied(asked.effect_id, "", *calls, tokens=tokens))
    while running := [one for one in session.decisions if isinstance(one, CallTool)]:
        for one in running:
            session(ToolReturned(one.effect_id, "ok", (8, 1) if tokens else ()))
    (asked,) = [one for one in session.decisions if isinstance(one, CallModel)]
    return asked


@pytest.mark.parametrize("counted", [False, True])
def test_a_long_call_of_the_models_own_does_not_end_the_turn(counted: bool) -> None:
    """2,697 tokens of arguments at 4,096."""
    session = Session(engine_with(WRITE, system="x" * 3000, context_tokens=4096))
    if counted:
        session.state = evolve(
            session.state, costs=evolve(COSTS, fixed=1000, estimate=fixed_size(session.engine.config))
        )
    text = "word " * 2400

    asked = run(session, {"path": "a.py", "text": text}, tokens=(2697,) if counted else ())

    (reply,) = [one for one in asked.request.messages if isinstance(one, AssistantMessage)]
    assert len(reply.calls[0].arguments_json) <= STALE_RESULT
    assert reply.calls[0].arguments["path"] == "a.py"
    kept = session.state.history[1]
    assert isinstance(kept, AssistantMessage)
    assert kept.calls[0].arguments["text"] == text, "history keeps it whole"
    session(replied(asked.effect_id, "Done."))
    assert session.engine.build_prompt(session.state).messages[1] == reply


def test_a_hundred_small_calls_in_one_reply_do_not_end_the_turn() -> None:
    session = Session(engine_with(WRITE, context_tokens=4096, limits=Limits(tool_calls=None)))
    session.state = evolve(session.state, costs=COSTS)

    asked = run(session, *({"page": page} for page in range(100)), tokens=(2200,))

    assert len(asked.request.messages) == 102


def test_the_note_on_omitted_steps_is_counted() -> None:
    """It is 23 tokens, and has 88 bytes."""
    assert COUNTING.skipping(12) == (5 + 23,)
    assert evolve(COUNTING, skipped=0).skipping(12) == (5 + 89,)
