"""How a conversation becomes the text of a request for a summary: its entries, their cuts, and where history is cut."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import pytest
from attrs import evolve

from cognition.context import CutNote, cutting_point, summary_request
from cognition.context.summaries import (
    INSTRUCTION,
    LEFT_OUT,
    MOST_DIGITS,
    NOTE_OF_CUT,
    Entry,
    _cut_entry,
    _entry,
    _even,
    _fitting,
    _format_message,
    _newest_asking,
    _shorten_entries,
    summary_budget,
    summary_options,
)
from cognition.context.window import prompt_budget, shorten
from cognition.steps.config import AgentConfig, GenerationOptions
from cognition.steps.state import Summary, Window
from cognition.values.content import Image, TextPart
from cognition.values.counts import EDGE, TemplateCosts
from cognition.values.history import History
from cognition.values.messages import AssistantMessage, Message, ResultStatus, ToolCall, ToolMessage, UserMessage

ASKING = 260
COSTS = TemplateCosts(50, user=5, reply=6, call=7, result=8, cut=30, bare=40, asking=ASKING, estimate=16.0, model="a")
BESIDES = COSTS.user + ASKING
TITLE = len("## user\n\n") + 1
"""The characters that an entry of the user takes without its text."""


# ------------------------------------------------------------------------------------------------- sharing the room


@pytest.mark.parametrize(
    ("lengths", "characters", "most"),
    [
        ([], 0.0, inf),
        ([], -1.0, -inf),
        ([10, 10], 20.0, inf),
        ([10, 10], 19.0, 9.5),
        ([20, 10], 28.0, 18.0),
        ([5, 40, 5, 30], 50.0, 20.0),
    ],
)
def test_texts_share_the_room_and_what_a_short_one_leaves_goes_to_the_long_ones(
    lengths: list[int], characters: float, most: float
) -> None:
    assert _even(lengths, characters) == most


def test_entries_that_just_fit_stay_whole() -> None:
    entries = [Entry("user", "x" * 10)]

    assert _shorten_entries(entries, TITLE + 10.0) == entries
    assert _shorten_entries(entries, TITLE + 9.0) is None


def test_results_are_shortened_before_anything_else() -> None:
    """The title of a result has 20 characters with its marks and line breaks."""
    asked, result = Entry("user", "x" * 300), Entry("result of read", "y" * 1000, result=True)

    fitting = _shorten_entries([asked, result], TITLE + 20 + 300 + 200.0)

    assert fitting == [asked, evolve(result, text=shorten("y" * 1000, 200 - NOTE_OF_CUT))]


def test_texts_are_shortened_to_the_fewest_characters_that_may_be_shown() -> None:
    entries = [Entry("user", "x" * 300), Entry("user", "y" * 300)]

    assert _shorten_entries(entries, 2 * TITLE + 199.0) is None
    assert _shorten_entries(entries, 2 * TITLE + 200.0) == [
        Entry("user", shorten("x" * 300, 100 - NOTE_OF_CUT)),
        Entry("user", shorten("y" * 300, 100 - NOTE_OF_CUT)),
    ]


def left_out(number: int) -> Entry:
    return Entry("note", f"[... {number} earlier messages are left out here ...]", most=len(LEFT_OUT) + MOST_DIGITS)


def numbered(count: int) -> list[Entry]:
    return [Entry("user", str(number) * 300) for number in range(count)]


def cut_to(entries: Sequence[Entry], limit: int) -> list[Entry]:
    return [evolve(entry, text=shorten(entry.text, limit - NOTE_OF_CUT)) for entry in entries]


def test_of_three_entries_the_oldest_goes_and_a_note_says_so() -> None:
    entries = numbered(3)
    room = 3 * TITLE + len(left_out(1).text) + 2 * 110

    assert _fitting(entries, room, summarised=False) == [left_out(1), *cut_to(entries[1:], 110)]


def test_a_quarter_of_the_entries_goes_at_once() -> None:
    """Without one of the eight entries the other seven would still fit."""
    entries = numbered(8)
    room = 8 * TITLE + len(left_out(1).text) + 7 * 100

    assert _fitting(entries, room, summarised=False) == [
        left_out(2),
        *cut_to(entries[2:], (room - 7 * TITLE - len(left_out(2).text)) // 6),
    ]


def test_a_summary_stays_before_the_note_on_what_is_left_out() -> None:
    summary, entries = Entry("note", "TASK: all."), numbered(2)
    room = 3 * TITLE + len(summary.text) + len(left_out(1).text) + 110

    assert _fitting([summary, *entries], room, summarised=True) == [summary, left_out(1), *cut_to(entries[1:], 110)]
    assert _fitting([summary, *entries], 100.0, summarised=True) is None


# ------------------------------------------------------------------------------------------------------- one message


def test_pictures_follow_the_text_each_on_a_line() -> None:
    """The lines with the pictures are not the user's words."""
    picture = Image.of(b"GIF89a")
    lines = f"\n[{picture}]\n[{picture}]"

    entry, markup = _format_message(UserMessage("u", "", parts=(TextPart("Look."), picture, picture)))

    assert entry == Entry("user", f"Look.{lines}")
    assert markup == len(lines)


def test_a_note_of_the_engine_is_not_the_users() -> None:
    assert _format_message(UserMessage("u", "Go on.", "engine")) == (Entry("note", "Go on."), 0)


@pytest.mark.parametrize(
    ("status", "title"),
    [("ok", "result of read"), ("error", "result of read (error)"), ("refused", "result of read (refused)")],
)
def test_a_result_has_its_tool_in_the_title_and_its_status_unless_all_is_well(status: ResultStatus, title: str) -> None:
    message = ToolMessage("r", "c", "read", "Plums.", status)

    assert _format_message(message) == (Entry(title, "Plums.", result=True), 0)


def test_the_name_of_a_tool_is_cut_to_64_characters() -> None:
    entry, _ = _format_message(ToolMessage("r", "c", "n" * 70, ""))

    assert entry.title == "result of " + "n" * 64


def test_a_reply_has_the_tokens_that_were_counted_and_a_token_for_each_byte_of_our_own_words() -> None:
    """For each call these are ``calls ()`` and a line break. Without costs nothing is counted."""
    message = AssistantMessage("a", "word " * 20, "", (ToolCall("c", "read"),), tokens=(30,))
    text = "word " * 20 + "\ncalls read({})"

    assert _entry(message, COSTS) == Entry("assistant", text, tokens=(30,), most=30 + len("calls ()\n") + EDGE)
    assert _entry(message, None) == Entry("assistant", text)


def test_a_short_reply_has_no_more_tokens_than_bytes() -> None:
    assert _entry(AssistantMessage("a", "Done.", tokens=(30,)), COSTS) == Entry("assistant", "Done.", False, (30,), 5)


# ------------------------------------------------------------------------------------------------------ cutting texts


def test_a_text_of_just_the_limit_is_not_cut() -> None:
    entry = Entry("user", "x" * 200)

    assert _cut_entry(entry, 200.0) is entry


def test_a_cut_text_that_nobody_has_counted_stays_uncounted() -> None:
    entry = Entry("user", "x" * 400)

    assert _cut_entry(entry, 200.0) == evolve(entry, text=shorten("x" * 400, 200 - NOTE_OF_CUT))


def test_a_cut_result_has_the_tokens_of_its_ends_and_of_the_note() -> None:
    """150 characters remain, 112 at the beginning and 37 at the end. Each letter has two bytes, and all of a cut piece
    may stand on the side that remains.
    """
    text = "\u00e9" * 400
    entry = Entry("result of read", text, result=True, tokens=(8, 200, 20, 30, 25), most=291)
    note = "\n[... 251 characters left out ...]\n"

    cut = _cut_entry(entry, 200.0)

    assert cut.text == "\u00e9" * 112 + note + "\u00e9" * 37
    assert cut == evolve(entry, text=cut.text, most=200 + 20 + 25 + len(note) + 2 * EDGE)


def test_a_cut_text_has_at_most_its_own_tokens_and_those_of_the_note() -> None:
    text = "word " * 80
    entry = Entry("user", text, tokens=(60,), most=60 + EDGE)

    cut = _cut_entry(entry, 200.0)

    assert cut == evolve(entry, text=shorten(text, 200 - NOTE_OF_CUT), most=60 + EDGE + NOTE_OF_CUT + 2 * EDGE)


# --------------------------------------------------------------------------------------------------------- the request


def asking_for(text: str, room: float, budget: float = 2000.0, costs: TemplateCosts | None = COSTS) -> UserMessage:
    message = summary_request(History([UserMessage("u", text)]), Window(), 1, room, budget, costs)
    assert message is not None
    return message


def test_the_engine_asks_for_a_summary_of_fifty_words_at_least() -> None:
    """An eighth of the budget, where that is more."""
    assert asking_for("Hi.", 2000.0, 8.0) == asking_for("Hi.", 2000.0, 407.0)
    assert "fewer than 50 words" in asking_for("Hi.", 2000.0, 8.0).text
    assert "fewer than 51 words" in asking_for("Hi.", 2000.0, 408.0).text
    assert asking_for("Hi.", 2000.0).origin == "engine"


def test_a_counted_request_may_take_exactly_its_room() -> None:
    behind = "## user\nBuy plums.\n"

    asking = asking_for("Buy plums.", BESIDES + len(behind) + 1.0)

    assert asking.text.endswith(f"The conversation:\n{behind}")
    assert asking.tokens == (BESIDES + len(behind) + 1,)


def test_a_counted_text_that_fits_stays_whole() -> None:
    """It is first tried with three characters to a token."""
    asking = asking_for("x" * 400, BESIDES + 500.0)

    assert asking.text == INSTRUCTION.format(words=250) + "## user\n" + "x" * 400 + "\n"


def test_a_dense_text_is_shortened_by_the_share_that_is_too_much_and_by_a_tenth_at_least() -> None:
    """800 tokens and ten around them have 310 as their room. 930 characters are tried, then 310/810 of them, of which
    the text has 345. Its 294 and the note are 339 tokens with those around them: less than a tenth too much. So a
    tenth goes, and the text has 310, less 50 for the note.
    """
    asking = asking_for("x" * 800, BESIDES + 310.0)

    assert asking.text.partition("The conversation:\n")[2] == f"## user\n{shorten('x' * 800, 260)}\n"
    assert asking.tokens == (BESIDES + 305,)


# ------------------------------------------------------------------------------------------------ where history is cut


def history_of(*sizes: tuple[str, int]) -> tuple[History, Window]:
    """Messages of these kinds and tokens, with a window that shows them all."""
    messages: list[Message] = []
    for place, (kind, size) in enumerate(sizes):
        if kind == "user":
            messages.append(UserMessage(f"m{place}", "Go.", tokens=(size,)))
        elif kind == "reply":
            messages.append(AssistantMessage(f"m{place}", "Done.", tokens=(size,)))
        else:
            messages.append(ToolMessage(f"m{place}", "c", "read", "page", tokens=(size,)))
    return History(messages), Window(0, float(sum(size for _, size in sizes)))


def test_turns_are_kept_if_together_they_take_just_a_fifth_of_the_budget() -> None:
    history, window = history_of(("user", 15), ("reply", 15), ("user", 5), ("reply", 5), ("user", 10))

    assert cutting_point(history, window, 100.0) == 2
    assert cutting_point(history, window, 99.0) == 4


def test_messages_of_just_a_tenth_of_the_budget_are_worth_a_summary() -> None:
    history, window = history_of(("user", 5), ("reply", 5), ("user", 10))

    assert cutting_point(history, window, 100.0) == 2
    assert cutting_point(history, window, 101.0) is None


def test_the_newest_turn_is_not_split_before_its_first_step() -> None:
    history, window = history_of(("user", 50), ("reply", 50), ("user", 10), ("reply", 10), ("result", 10))

    assert cutting_point(history, window, 100.0) == 2


def test_the_message_of_a_split_turn_stays_and_takes_its_room() -> None:
    """Only the nine tokens of the first step would go."""
    history, window = history_of(("user", 10), ("reply", 5), ("result", 4), ("reply", 5), ("result", 5))

    assert cutting_point(history, window, 100.0) is None
    assert cutting_point(history, window, 90.0) == 3


LONG_RESULT: tuple[Message, ...] = (
    UserMessage("u0", "Go.", tokens=(100,)),
    AssistantMessage("a0", "Done.", tokens=(50,)),
    UserMessage("u1", "Read.", tokens=(2,)),
    AssistantMessage("a1", "", "", (ToolCall("c", "read"),), tokens=(2,)),
    ToolMessage("r1", "c", "read", "x" * 1000, tokens=(8, *[20] * 10)),
    AssistantMessage("b1", "It is x.", tokens=(1,)),
    UserMessage("u2", "Thanks.", tokens=(1,)),
)
"""A turn with a result of 1,000 characters, between two short ones."""


def test_a_shortened_result_counts_with_the_note_that_it_is_shown_with() -> None:
    """Cut to 400 characters, it has 134 tokens with a note of 30, and 180 if the note has a token for each byte."""
    window = Window(0, 300.0, cuts=((5, 400),))

    assert cutting_point(History(LONG_RESULT), window, 700.0, CutNote(tokens=30)) == 2
    assert cutting_point(History(LONG_RESULT), window, 700.0) == 6


def test_nothing_of_an_empty_conversation_is_summarised() -> None:
    assert cutting_point(History(), Window(), 100.0) is None


def test_the_newest_question_of_a_split_turn_is_the_one_that_stays_before_the_window() -> None:
    history, _ = history_of(("user", 1), ("user", 1), ("reply", 1))

    assert _newest_asking(history, Window(2, summary=Summary("TASK: all.", asked=0))) == 0
    assert _newest_asking(history, Window(1, summary=Summary("TASK: all."))) == 1


def test_a_request_leaves_room_for_its_summary_where_replies_are_short() -> None:
    config = AgentConfig(context_tokens=4096, options=GenerationOptions(max_tokens=100))

    assert summary_budget(config) == 4096 - int(0.25 * prompt_budget(config)) < prompt_budget(config)


def test_a_summary_is_no_checked_answer() -> None:
    options = GenerationOptions(response_format='{"type": "integer"}', response_checked=True)

    found = summary_options(AgentConfig(options=options))

    assert (found.response_format, found.response_checked) == ("", False)
