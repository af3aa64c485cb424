"""Summaries where tokens are counted: what is asked, and what is shown then, is never more than was told."""

from __future__ import annotations

from math import ceil

import pytest
from attrs import evolve
from hypothesis import example, given, strategies as st

from cognition import History
from cognition.context import CutNote, fit, message_size, summary_request, visible_messages, with_summary
from cognition.context.summaries import INSTRUCTION
from cognition.context.window import SUMMARY_NOTE, summary_message
from cognition.steps.state import Summary, Window
from cognition.values.counts import EDGE, PIECE, TemplateCosts, most_tokens
from cognition.values.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage

ASKING = 260
COSTS = TemplateCosts(50, user=5, reply=6, call=7, result=8, cut=30, bare=40, asking=ASKING, estimate=16.0, model="a")
TEXTS = st.lists(st.sampled_from(("word ", "3.14159 ", "日本語", "🎉", "\n")), max_size=9).flatmap(
    lambda parts: st.integers(1, 60).map(lambda times: "".join(parts) * times)
)


def true_tokens(text: str) -> int:
    """As a tokenizer has them that knows English words, and of all else the bytes."""
    return ceil(sum(0.25 if letter.isascii() and not letter.isdigit() else most_tokens(letter) for letter in text))


def stamped(message: Message) -> Message:
    """With the tokens that an interpreter would have counted."""
    if isinstance(message, ToolMessage):
        pieces = [message.content[start : start + PIECE] for start in range(0, len(message.content), PIECE)]
        return evolve(message, tokens=(8, *map(true_tokens, pieces)))
    size = 6 + true_tokens(message.text)
    for call in getattr(message, "calls", ()):
        size += 7 + true_tokens(call.name + call.arguments_json)
    return evolve(message, tokens=(size,))


def conversation(turns: list[tuple[str, str, str]]) -> History:
    messages: list[Message] = []
    for number, (asked, result, answer) in enumerate(turns):
        call = ToolCall(f"c{number}", "read", '{"n": 1}')
        messages += [
            UserMessage(f"u{number}", asked),
            AssistantMessage(f"a{number}", "", "", (call,)),
            ToolMessage(f"r{number}", call.id, "read", result),
            AssistantMessage(f"b{number}", answer),
        ]
    return History(list(map(stamped, messages)))


@given(st.lists(st.tuples(TEXTS, TEXTS, TEXTS), min_size=1, max_size=5), st.integers(100, 4000), st.booleans())
@example([("word " * 60, "日本語" * 900, "🎉" * 90)], 900, False)
@example([("日本語" * 300, "word " * 300, "3.14159 " * 90)] * 3, 1500, True)
def test_the_request_for_a_summary_is_within_its_room_and_has_no_more_than_it_says(
    turns: list[tuple[str, str, str]], room: int, again: bool
) -> None:
    history = conversation(turns)
    summary = Summary("TASK: 日本語.", 0, None, 0, (30,)) if again else Summary()

    asking = summary_request(history, Window(summary=summary), len(history), float(room), 2000.0, COSTS)

    if asking is None:
        return
    assert sum(asking.tokens) <= room
    behind = asking.text.partition("The conversation:\n")[2]
    assert true_tokens(behind) <= sum(asking.tokens) - COSTS.user - ASKING
    assert ("TASK: 日本語." in behind) is again


def test_a_request_for_a_summary_has_the_tokens_of_its_instruction_and_of_each_message() -> None:
    """Of a message its title, its line breaks, and its text."""
    history = History([UserMessage("u", "Buy plums."), AssistantMessage("a", "Done.")])

    asking = summary_request(history, Window(), 2, 4000.0, 2000.0, COSTS)

    assert asking is not None
    behind = "## user\nBuy plums.\n\n## assistant\nDone.\n"
    assert asking.text.endswith(f"The conversation:\n{behind}")
    assert asking.tokens == (COSTS.user + ASKING + len(behind) + 1,)


def test_a_request_of_many_long_texts_is_shortened_until_it_fits() -> None:
    """By estimates, all of it would fit: a character of Chinese has three bytes, and no fewer tokens here."""
    history = conversation([("日本語" * 300, "日本語" * 300, "日本語" * 300)] * 3)
    plain = History([evolve(message, tokens=()) for message in history])

    estimated = summary_request(plain, Window(), len(plain), 4000.0, 4000.0)
    counted = summary_request(history, Window(), len(history), 4000.0, 4000.0, COSTS)

    assert estimated is not None
    assert counted is not None
    assert len(counted.text) < len(estimated.text)
    assert 2000 < sum(counted.tokens) <= 4000
    assert counted.text.startswith(INSTRUCTION.format(words=500))


@pytest.mark.parametrize(("tokens", "most"), [((), len("TASK: all.")), ((4,), 4 + EDGE), ((-1,), len("TASK: all."))])
def test_a_summary_has_the_tokens_of_its_reply(tokens: tuple[int, ...], most: int) -> None:
    """Or a token for each of its bytes, where nobody has counted it, or nobody can have."""
    history = conversation([("a", "b", "c")] * 3)
    size = sum(map(message_size, history))

    window = with_summary(history, Window(0, size), 8, Summary("TASK: all.", tokens=tokens), COSTS)

    words = len(SUMMARY_NOTE.format(text=""))
    assert window.summary.tokens == (COSTS.user + words + min(most, len("TASK: all.")),)
    assert summary_message(window.summary).tokens == window.summary.tokens
    assert window.size == sum(map(message_size, visible_messages(history, window)))
    assert window.turns == 2


def test_a_long_summary_that_was_counted_has_fewer_tokens_than_bytes() -> None:
    history = conversation([("a", "b", "c")] * 3)
    text = "word " * 100

    window = with_summary(history, Window(0, 99.0), 8, Summary(text, tokens=(125,)), COSTS)

    assert window.summary.tokens == (COSTS.user + len(SUMMARY_NOTE.format(text="")) + 125 + EDGE,)


def test_what_was_too_high_is_forgotten_where_something_goes() -> None:
    """Nobody knows of which messages it was."""
    history = conversation([("word " * 40, "word " * 40, "word")] * 4)
    size = sum(map(message_size, history))

    kept = fit(history, Window(0, size, slack=50.0), 0.0, int(size) - 40)
    moved = fit(history, Window(0, size, slack=50.0), 0.0, int(size) - 60)

    assert kept == Window(0, size, slack=50.0)
    assert moved is not None
    assert moved.slack == 0.0
    assert moved.first > 0


def test_a_summary_that_finds_no_room_leaves_a_counted_note_in_its_place() -> None:
    steps = [message for number in range(5) for message in conversation([("", "x" * 90, "")])[1:3]]
    messages = [evolve(one, id=f"m{place}") for place, one in enumerate(steps)]
    history = History([stamped(UserMessage("u", "Read.")), *messages])
    summary = Summary("TASK: read.", 7, asked=0, tried=7, tokens=(900,))
    window = Window(7, 0.0, summary=summary)
    window = evolve(window, size=sum(map(message_size, visible_messages(history, window))))
    note = CutNote(tokens=30, user=5)

    fitting = fit(history, window, 40.0, 300, note)

    assert fitting is not None
    assert (fitting.summary.text, fitting.summary.tokens, fitting.summary.messages) == ("", (), 0)
    assert fitting.summary.skipped == fitting.first - 1 == 6
    assert fitting.summary.skipped_tokens == note.skipping(6) != ()
    assert fitting.size == sum(map(message_size, visible_messages(history, fitting)))


def test_the_longest_note_is_as_long_as_any() -> None:
    note = CutNote("ReadOutput")
    result = ToolMessage("m", "call-99999-999-99", "read", "x" * 100)

    assert len(note.longest) >= len(note.of(result, 9_999_999))
    assert len(CutNote().longest) < len(note.longest)
