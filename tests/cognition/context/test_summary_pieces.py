"""Where a piece of a conversation ends that one request for a summary covers, and what such a summary changes."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import example, given, strategies as st

from cognition.context import CutNote, end_of_piece, message_size, visible_messages
from cognition.context.cut_note import SKIPPED
from cognition.context.summaries import NOTE_OF_CUT, with_earlier_summary
from cognition.context.window import (
    STALE_RESULT,
    SUMMARY_NOTE,
    end_of_asking,
    shorten,
    skipped_message,
    summary_message,
)
from cognition.steps.state import Summary, Window
from cognition.values.counts import EDGE, TemplateCosts
from cognition.values.history import History
from cognition.values.messages import AssistantMessage, Message, ToolMessage, UserMessage

COSTS = TemplateCosts(50, user=5, reply=6, call=7, result=8, cut=30, bare=40, asking=250, estimate=16.0, model="a")
TITLES = {"user": "user", "note": "note", "reply": "assistant", "result": "result of read"}
SO_FAR = "TASK: read all."
"""Its message takes a whole number of tokens."""


def title_size(kind: str) -> int:
    """The characters of an entry beside its text: its title, two line breaks, and one behind the entry."""
    return len(f"## {TITLES[kind]}\n\n") + 1


def message_of(kind: str, place: int, tokens: int) -> Message:
    """A message that takes so many tokens of a request, if three characters are a token."""
    text = "x" * (3 * tokens - title_size(kind))
    if kind == "reply":
        return AssistantMessage(f"m{place}", text)
    if kind == "result":
        return ToolMessage(f"m{place}", f"c{place}", "read", text)
    return UserMessage(f"m{place}", text, "user" if kind == "user" else "engine")


def history_of(*messages: tuple[str, int]) -> History:
    return History(message_of(kind, place, tokens) for place, (kind, tokens) in enumerate(messages))


def front_size(summary: Summary) -> float:
    """The tokens that the summary so far takes of a request."""
    return (len(SUMMARY_NOTE.format(text=summary.text)) + title_size("note")) / 3 if summary.text else 0.0


def ends_of_pieces(history: History, window: Window, until: int) -> list[int]:
    """Where a piece may end: before a turn, before a step that was left out or is the newest turn's, and at the end."""
    asking = [place for place, one in enumerate(history) if isinstance(one, UserMessage) and one.origin == "user"]
    newest = max([place for place in asking if place >= window.first], default=window.summary.asked)
    first_step = 0 if newest is None else newest
    while first_step < len(history) and isinstance(history[first_step], UserMessage):
        first_step += 1
    begin = window.summary.messages if window.summary.text else 0
    steps = [
        place
        for place, one in enumerate(history)
        if isinstance(one, AssistantMessage) and (place <= window.first or place > first_step)
    ]
    return [place for place in sorted({*asking, *steps}) if begin < place < until] + [until]


MESSAGES = st.lists(st.tuples(st.sampled_from(tuple(TITLES)), st.integers(10, 40)), min_size=1, max_size=12).map(
    lambda messages: [("user", 12), *messages]
)


@given(MESSAGES, st.integers(0, 12), st.integers(0, 12), st.integers(0, 12), st.integers(0, 400))
@example([("user", 12), ("reply", 20), ("result", 30), ("reply", 12), ("user", 12)], 3, 0, 9, 62)
@example([("user", 12), ("reply", 20), ("result", 30), ("reply", 12), ("user", 12)], 3, 0, 9, 61)
@example([("user", 12), ("reply", 20), ("user", 12), ("reply", 20), ("reply", 20)], 2, 2, 9, 110)
def test_a_piece_is_the_longest_that_fits_or_else_the_shortest(
    messages: list[tuple[str, int]], first: int, done: int, until: int, room: int
) -> None:
    history = history_of(*messages)
    first = min(first, len(history) - 1)
    until = min(until, len(history))
    done = min(done, until)
    summary = Summary(SO_FAR, done) if done else Summary()
    window = Window(first, summary=summary)

    found = end_of_piece(history, window, until, float(room))

    begin, taken, fitting = done, front_size(summary), []
    ends = ends_of_pieces(history, window, until)
    for end in ends:
        taken += sum(tokens for _, tokens in messages[begin:end])
        begin = end
        if taken <= room:
            fitting.append(end)
    assert found == (fitting[-1] if fitting else ends[0])


TURNS_OF_STEPS = (
    ("user", 10),
    ("reply", 20),
    ("result", 30),
    ("reply", 10),
    ("user", 10),
    ("reply", 20),
    ("reply", 10),
)


@pytest.mark.parametrize(
    ("first", "room", "end"),
    [
        (0, 70.0, 4),
        (0, 69.0, 4),
        (0, 80.0, 4),
        (0, 99.0, 4),
        (0, 100.0, 6),
        (0, 109.0, 6),
        (0, 110.0, 7),
        (3, 60.0, 3),
        (3, 59.0, 1),
        (3, 70.0, 4),
        (3, 100.0, 6),
        (3, 10.0, 1),
        (3, 9.0, 1),
        (2, 60.0, 1),
        (0, -1.0, 4),
    ],
)
def test_a_piece_ends_before_a_turn_or_a_step_that_the_window_left_out(first: int, room: float, end: int) -> None:
    """The newest turn begins at 4, and its second step at 6. Before the window each step may be an end."""
    assert end_of_piece(history_of(*TURNS_OF_STEPS), Window(first), 7, room) == end


def test_no_piece_ends_behind_the_messages_to_summarise() -> None:
    history = history_of(*TURNS_OF_STEPS)

    assert [end_of_piece(history, Window(7), until, 1.0) for until in (1, 2, 7)] == [1, 1, 1]
    assert [end_of_piece(history, Window(7), until, 1e6) for until in (1, 2, 7)] == [1, 2, 7]


def test_each_step_of_a_conversation_without_a_question_may_be_an_end() -> None:
    history = history_of(("reply", 20), ("reply", 20), ("reply", 20))

    assert [end_of_piece(history, Window(0), 3, room) for room in (0.0, 39.0, 40.0, 60.0)] == [1, 1, 2, 3]


def test_a_piece_begins_where_the_summary_so_far_ends_and_makes_room_for_it() -> None:
    history = history_of(*TURNS_OF_STEPS)
    summary = Summary(SO_FAR, 1)
    window, taken = Window(7, summary=summary), front_size(summary)

    assert end_of_piece(history, window, 7, taken + 60.0) == 4
    assert end_of_piece(history, window, 7, taken + 50.0) == 3
    assert end_of_piece(history, window, 7, taken + 49.0) == 3
    assert end_of_piece(history, evolve(window, summary=evolve(summary, text="")), 7, 60.0) == 3, "none is shown"


def test_the_question_of_a_turn_that_is_summarised_in_part_takes_its_room() -> None:
    """Its ten tokens are shown again before the steps, unless the piece begins with it."""
    history = history_of(("user", 10), ("note", 10), ("reply", 20), ("reply", 20), ("reply", 20))
    summary = Summary(SO_FAR, 3, asked=0)
    window, taken = Window(3, summary=summary), front_size(summary)

    assert end_of_piece(history, window, 5, taken + 60.0) == 5
    assert end_of_piece(history, window, 5, taken + 59.0) == 4
    whole = evolve(window, summary=Summary(asked=0))
    assert end_of_piece(history, whole, 5, 80.0) == 5
    assert end_of_piece(history, whole, 5, 79.0) == 4
    beginning = evolve(window, summary=evolve(summary, messages=1))
    assert end_of_piece(history, beginning, 5, taken + 79.0) == 4, "of its notes those that are not summarised"
    assert end_of_piece(history, beginning, 5, taken + 80.0) == 5


def test_only_a_long_result_takes_less_room_than_all_of_its_text() -> None:
    """400 characters of it, and a note among them."""
    long = "x" * 3000
    shown = len(shorten(long, STALE_RESULT - NOTE_OF_CUT)) + title_size("result")
    history = History([UserMessage("u", "x"), AssistantMessage("a", ""), ToolMessage("r", "c", "read", long)])
    history = history.append(AssistantMessage("b", "")).append(AssistantMessage("d", ""))
    room = (1 + title_size("user") + 2 * title_size("reply") + shown) / 3

    assert end_of_piece(history, Window(9), 4, room + 0.01) == 4
    assert end_of_piece(history, Window(9), 4, room - 0.01) == 3
    asked = History([UserMessage("u", long), AssistantMessage("a", ""), AssistantMessage("b", "")])
    room = (3000 + title_size("user") + title_size("reply")) / 3
    assert end_of_piece(asked, Window(9), 3, room + 0.01) == 2
    assert end_of_piece(asked, Window(9), 3, room - 0.01) == 1


def test_a_counted_piece_fits_beside_the_instruction_and_the_markers_of_its_message() -> None:
    """A message has its counted tokens and those of a split word, and its title a token for each byte."""
    history = History(
        [
            UserMessage("u", "word " * 100, tokens=(50,)),
            AssistantMessage("a", "word " * 100, tokens=(60,)),
            AssistantMessage("b", "word " * 100, tokens=(70,)),
        ]
    )
    around = COSTS.user + COSTS.asking
    two = around + (50 + EDGE + title_size("user")) + (60 + EDGE + title_size("reply"))

    assert end_of_piece(history, Window(9), 3, float(two), COSTS) == 2
    assert end_of_piece(history, Window(9), 3, two - 1.0, COSTS) == 1
    assert end_of_piece(history, Window(9), 3, two + 70.0 + EDGE + title_size("reply"), COSTS) == 3
    summary = Summary("word " * 60, 1, tokens=(90,))
    front = around + (90 + EDGE + title_size("note")) + (60 + EDGE + title_size("reply"))
    assert end_of_piece(history, Window(9, summary=summary), 3, front + 100.0, COSTS) == 3
    assert end_of_piece(history, Window(9, summary=summary), 3, front + 10.0, COSTS) == 2
    three = front + (70 + EDGE + title_size("reply"))
    assert end_of_piece(history, Window(9, summary=summary), 3, float(three), COSTS) == 3
    assert end_of_piece(history, Window(9, summary=summary), 3, three - 1.0, COSTS) == 2


# ------------------------------------------------------------------------------- a summary of what was left out already


STEPS = History(
    [
        UserMessage("u", "Go.", tokens=(4,)),
        UserMessage("n", "Note.", "engine", tokens=(5,)),
        *[AssistantMessage(f"a{step}", "Hm.", tokens=(10 + step,)) for step in range(4)],
        UserMessage("v", "Thanks.", tokens=(6,)),
    ]
)
NOTE = CutNote(tokens=30, user=5, skipped=23)


def window_of(summary: Summary, first: int = 5) -> Window:
    """A window with everything else that a window may have."""
    window = Window(first, 0.0, 2.0, ((6, 400),), summary, 3, 7.0)
    return evolve(window, size=float(sum(map(message_size, visible_messages(STEPS, window, NOTE)))))


@pytest.mark.parametrize(("until", "skipped"), [(1, 3), (2, 3), (3, 2), (4, 1), (5, 0)])
def test_a_note_stands_for_the_steps_between_an_earlier_summary_and_the_window(until: int, skipped: int) -> None:
    """The question at 0 and the note at 1 are shown. By a summary of the steps up to the window none is missing."""
    window = window_of(Summary("TASK: old.", 1, 0, 2, (40,), 3, (28,)))

    moved = with_earlier_summary(STEPS, window, until, Summary("TASK: all.", tokens=(4,)), COSTS, NOTE)

    told = (5 + 23,) if skipped else ()
    tokens = (COSTS.user + len(SUMMARY_NOTE.format(text="TASK: all.")),)
    summary = Summary("TASK: all.", until, 0, len(STEPS), tokens, skipped, told)
    assert moved == evolve(window, summary=summary, size=moved.size, slack=0.0)
    shown = list(visible_messages(STEPS, moved, NOTE))
    assert moved.size == sum(map(message_size, shown)) == tokens[0] + 4 + 5 + sum(told) + 13 + 6
    assert shown[:3] == [summary_message(summary), STEPS[0], STEPS[1]]
    assert (skipped_message(summary) in shown) is bool(skipped)


def test_an_earlier_summary_and_its_note_have_their_counted_tokens() -> None:
    """A long summary those of its reply; a note that nobody has counted a token for each byte."""
    window, text = window_of(Summary(asked=0)), "word " * 100

    moved = with_earlier_summary(STEPS, window, 3, Summary(text, tokens=(125,)), COSTS, evolve(NOTE, skipped=0))

    assert moved.summary.tokens == (COSTS.user + len(SUMMARY_NOTE.format(text="")) + 125 + EDGE,)
    assert moved.summary.skipped_tokens == (5 + len(SKIPPED.format(2)),)


def test_an_earlier_summary_before_a_window_that_begins_with_a_turn_leaves_no_note() -> None:
    window = window_of(Summary(), first=6)

    moved = with_earlier_summary(STEPS, window, 2, Summary("TASK: all."), None, NOTE)

    summary = Summary("TASK: all.", 2, None, len(STEPS))
    assert moved == evolve(window, summary=summary, size=moved.size, slack=0.0)
    assert moved.size == pytest.approx(window.size + message_size(summary_message(summary)))


@given(st.integers(1, 5), st.integers(0, 2), st.booleans(), st.booleans())
def test_the_size_behind_an_earlier_summary_is_that_of_what_is_shown(
    until: int, skipped: int, before: bool, counted: bool
) -> None:
    old = Summary("TASK: old.", 1, 0, 2, (40,), skipped, (28,)) if before else Summary(asked=0)

    moved = with_earlier_summary(
        STEPS, window_of(old), until, Summary("TASK: all."), COSTS if counted else None, NOTE if counted else CutNote()
    )

    assert moved.size == pytest.approx(sum(map(message_size, visible_messages(STEPS, moved, NOTE))))
    assert moved.summary.skipped == 5 - max(end_of_asking(STEPS, 0), until)
