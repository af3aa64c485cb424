"""A turn's sections in its requests: which messages they stand in, and at what price."""

from __future__ import annotations

import pytest
from hypothesis import example, given, strategies as st

from cognition import AssistantMessage, History, Image, Message, TextPart, UserMessage
from cognition.context.sections import briefing_size, insert_briefing, with_passing, with_standing
from cognition.context.window import message_size
from cognition.values.candidates import Briefing
from cognition.values.history import CHUNK

BOTH = Briefing("<identity>\nAda\n</identity>", "<memory>\nplums\n</memory>")
DOT = Image.of(b"GIF89a\x01\x00\x01\x00\x00\x00\x00;")


def conversation(count: int, newest: int) -> list[Message]:
    """Messages of which the one at ``newest`` is the user's, and so are some before it."""
    messages: list[Message] = []
    for number in range(count):
        if number == newest or (number < newest and number % 3 == 0):
            messages.append(UserMessage(f"m{number}", f"text {number}"))
        elif number % 2:
            messages.append(UserMessage(f"m{number}", "a note", "engine"))
        else:
            messages.append(AssistantMessage(f"m{number}", "Yes."))
    return messages


@given(st.integers(1, 200), st.integers(0, 199), st.integers(0, 150))
@example(CHUNK + 2, CHUNK - 1, 0)  # the last of those that are stored together
def test_the_newest_message_of_the_user_and_no_other_has_it_in_front(count: int, newest: int, dropped: int) -> None:
    newest, dropped = min(newest, count - 1), min(dropped, newest, count - 1)
    messages = conversation(count, newest)
    shown = list(insert_briefing(History(messages).drop(dropped), BOTH))

    expected = messages[dropped:]
    message = messages[newest]
    assert isinstance(message, UserMessage)
    expected[newest - dropped] = with_passing(message, BOTH.passing)
    assert shown == expected


def test_requests_of_a_turn_share_their_messages() -> None:
    """So that a journal names them at a constant price."""
    history = History(conversation(100, 50))
    first = insert_briefing(history, BOTH)
    second = insert_briefing(history.append(*conversation(100, -1)), BOTH)

    assert second.continues(first)


@given(st.sampled_from([BOTH, Briefing(BOTH.standing), Briefing(passing=BOTH.passing), Briefing()]), st.booleans())
def test_what_it_adds_to_a_prompt_is_never_more_than_its_size(briefing: Briefing, pictures: bool) -> None:
    message = UserMessage("m1", "Hello", parts=(TextPart("Hello"), DOT) if pictures else ())
    added = message_size(insert_briefing(History([message]), briefing)[0]) - message_size(message)
    added += (len(with_standing("Be kind.", briefing)) - len("Be kind.")) / 3

    assert added <= briefing_size(briefing) + 1e-9


def test_where_it_stands() -> None:
    message = UserMessage("m1", "Hello")

    assert with_standing("Be kind.", BOTH) == "Be kind.\n\n<identity>\nAda\n</identity>"
    assert with_standing("", BOTH) == BOTH.standing
    assert with_standing("Be kind.", None) == with_standing("Be kind.", Briefing()) == "Be kind."
    assert with_passing(message, "plums").text == "plums\n\nHello"
    pictured = with_passing(UserMessage("m1", "", parts=(DOT,)), "plums")
    assert pictured.parts == (TextPart("plums\n\n"), DOT)


@pytest.mark.parametrize("briefing", [None, Briefing(), Briefing("x")])
def test_without_one_messages_are_what_they_are(briefing: Briefing | None) -> None:
    history = History([UserMessage("m1", "Hello")])

    assert insert_briefing(history, briefing) is history
    assert insert_briefing(History([UserMessage("m1", "a note", "engine")]), BOTH)[0].text == "a note"  # type: ignore[union-attr]  # it is the user's
    assert briefing_size(None) == 0.0
