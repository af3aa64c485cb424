"""How the newest step is shortened: first the arguments of its calls, then its results, as far as necessary."""

from __future__ import annotations

import json

import pytest
from attrs import evolve
from hypothesis import example, given, strategies as st

from cognition.context import CutNote, fit, fit_or_smallest, message_size, shorten_message, visible_messages
from cognition.context.window import (
    LEAST_RESULT,
    OLD_RESULT,
    STALE_RESULT,
    Cuts,
    _longest_part,
    _shorten_newest,
    _shorten_newest_calls,
)
from cognition.steps.state import Window
from cognition.values.history import History
from cognition.values.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage

ARGUMENTS = CutNote(tokens=30, user=5, skipped=23, reply=6, call=7, arguments=True)
PLAIN = CutNote(tokens=30, user=5)


def written(characters: int, call_id: str = "c") -> ToolCall:
    """A call that writes a text, with so many characters of arguments."""
    return ToolCall(call_id, "write", json.dumps({"text": "x" * (characters - len('{"text": ""}'))}))


def reply_of(place: int, *calls: ToolCall, tokens: int = 0) -> AssistantMessage:
    return AssistantMessage(f"a{place}", "", "", calls, tokens=(tokens,) if tokens else ())


def result_of(place: int, *pieces: int) -> ToolMessage:
    """A counted result with these tokens in each hundred characters."""
    return ToolMessage(f"r{place}", "c", "write", "y" * (100 * len(pieces)), tokens=(8, *pieces))


ASKED = UserMessage("u", "Go.", tokens=(4,))
TWO_STEPS = History(
    [
        ASKED,
        reply_of(1, written(1000), tokens=500),
        result_of(1, *[10] * 10),
        reply_of(2, written(1000), tokens=500),
        result_of(2, *[10] * 10),
    ]
)
"""A turn of two calls with a thousand characters of arguments, and results of the same length."""


def size_of(history: History, window: Window, note: CutNote) -> float:
    return sum(map(message_size, visible_messages(history, window, note)))


def whole(history: History = TWO_STEPS, cuts: Cuts = (), note: CutNote = ARGUMENTS, first: int = 0) -> Window:
    window = Window(first, 0.0, 2.0, cuts, turns=3, slack=5.0)
    return evolve(window, size=size_of(history, window, note))


# --------------------------------------------------------------------------------------------------------- newest calls


@pytest.mark.parametrize(
    ("cuts", "most", "expected"),
    [
        ((), 400, ((4, 400),)),
        ((), OLD_RESULT, ()),
        (((4, 300),), 400, ((4, 300),)),
        (((4, 500),), 400, ((4, 400),)),
        (((4, 50),), 400, ((4, 50),)),
        (((5, 250),), 400, ((5, 250),)),
        (((5, 400),), 400, ((5, 400),)),
        (((5, 700),), 400, ((4, 400), (5, 700))),
        (((4, 300), (5, 700)), 400, ((4, 300), (5, 700))),
        (((4, 500), (5, 400)), 400, ((5, 400),)),
    ],
)
def test_newest_calls_get_a_limit_beside_those_of_other_messages(cuts: Cuts, most: int, expected: Cuts) -> None:
    """A smaller limit of before stays, and so do limits of results; rows with the same limit are one."""
    older = (4 if (most == OLD_RESULT) else 3, OLD_RESULT)
    window = whole(cuts=((3, OLD_RESULT), *cuts))

    cut = _shorten_newest_calls(TWO_STEPS, window, 3, ARGUMENTS, most)

    rows = (older, *expected)
    assert cut == evolve(window, cuts=rows, size=size_of(TWO_STEPS, evolve(window, cuts=rows), ARGUMENTS))


def test_messages_that_are_all_as_short_as_possible_stay() -> None:
    window = whole(cuts=((5, OLD_RESULT),))

    assert _shorten_newest_calls(TWO_STEPS, window, 3, ARGUMENTS, 400) == window


def test_no_row_ends_where_the_window_begins() -> None:
    """There the newest step is the first message shown."""
    window = whole(first=3)

    assert _shorten_newest_calls(TWO_STEPS, window, 3, ARGUMENTS, 400).cuts == ((4, 400),)
    assert _shorten_newest_calls(TWO_STEPS, whole(first=2), 3, ARGUMENTS, 400).cuts == ((3, OLD_RESULT), (4, 400))


# ------------------------------------------------------------------------------------------------------ the newest step

OLDER_CUT = ((3, OLD_RESULT),)
CALLS = message_size(shorten_message(TWO_STEPS[3], OLD_RESULT, ARGUMENTS))
"""The tokens of the newest reply with short arguments."""
OTHERS = size_of(TWO_STEPS, Window(0, cuts=OLDER_CUT), ARGUMENTS) - 500 - 108
"""Those of the messages before it."""


def test_results_stay_if_short_arguments_are_enough() -> None:
    """The older messages are short already."""
    window = whole(cuts=OLDER_CUT)
    enough = OTHERS + CALLS + 108

    cut = _shorten_newest(TWO_STEPS, window, enough, ARGUMENTS)

    assert cut == evolve(window, size=enough, cuts=((4, OLD_RESULT),))


def test_results_are_shortened_if_short_arguments_are_not_enough() -> None:
    """By a token: 299 characters would fit by the estimate, and three of their pieces and the end are counted."""
    window = whole(cuts=OLDER_CUT)
    room = OTHERS + CALLS + 107

    cut = _shorten_newest(TWO_STEPS, window, room, ARGUMENTS)

    limit = (107 - 8) * 3
    assert cut.cuts == ((4, OLD_RESULT), (5, limit))
    assert cut.size == OTHERS + CALLS + message_size(shorten_message(TWO_STEPS[4], limit, ARGUMENTS)) <= room
    assert (cut.first, cut.scale, cut.turns, cut.slack) == (0, 2.0, 3, 5.0)


@pytest.mark.parametrize("arguments", [OLD_RESULT, STALE_RESULT])
def test_a_longer_limit_for_arguments_stays_beside_the_one_for_results(arguments: int) -> None:
    window = whole(cuts=OLDER_CUT)
    calls = message_size(shorten_message(TWO_STEPS[3], arguments, ARGUMENTS))

    cut = _shorten_newest(TWO_STEPS, window, OTHERS + calls + 107, ARGUMENTS, arguments)

    rows = ((3, OLD_RESULT), (4, arguments), (5, 297)) if arguments > OLD_RESULT else ((4, OLD_RESULT), (5, 297))
    assert cut.cuts == rows


def test_arguments_stay_whole_by_a_note_that_does_not_shorten_them() -> None:
    window = whole(cuts=((3, 400),), note=PLAIN)
    others = size_of(TWO_STEPS, window, PLAIN) - 108

    cut = _shorten_newest(TWO_STEPS, window, others + 107, PLAIN)

    assert cut.cuts == ((4, OLD_RESULT), (5, 297)), "and the rows before are replaced"
    assert cut.size == others + message_size(shorten_message(TWO_STEPS[4], 297, PLAIN))


def test_results_keep_their_length_if_even_the_fewest_characters_are_too_many() -> None:
    """Only the arguments are short then."""
    window = whole(cuts=OLDER_CUT)
    fewest = message_size(shorten_message(TWO_STEPS[4], LEAST_RESULT, ARGUMENTS))

    kept = _shorten_newest(TWO_STEPS, window, OTHERS + CALLS + fewest - 1, ARGUMENTS)
    shown = _shorten_newest(TWO_STEPS, window, OTHERS + CALLS + fewest, ARGUMENTS)

    assert kept == evolve(window, size=OTHERS + CALLS + 108, cuts=((4, OLD_RESULT),))
    assert shown.cuts[0] == (4, OLD_RESULT)
    assert shown.size == OTHERS + CALLS + fewest


def test_in_the_smallest_window_a_result_has_only_the_note() -> None:
    window = whole(cuts=OLDER_CUT)

    cut = _shorten_newest(TWO_STEPS, window, 1.0, ARGUMENTS, least=0)

    assert cut.cuts == ((4, OLD_RESULT), (5, 0))
    assert cut.size == OTHERS + CALLS + message_size(shorten_message(TWO_STEPS[4], 0, ARGUMENTS))


def test_a_step_without_results_is_only_its_calls() -> None:
    history = TWO_STEPS[:4]
    window = whole(History(history), OLDER_CUT)

    for least in (LEAST_RESULT, 0):
        cut = _shorten_newest(History(history), window, 1.0, ARGUMENTS, least=least)
        assert cut.cuts == ((4, OLD_RESULT),)
        assert cut.size == OTHERS + CALLS


DENSE = History([ASKED, reply_of(1, written(20), tokens=20), result_of(1, *[100] * 10)])
"""A result with a token for each character."""


@given(st.integers(1, 1031))
@example(1031)
def test_of_a_dense_result_as_many_characters_are_shown_as_fit(room: int) -> None:
    """Whole, the messages have 1,032 tokens. A character more would be too much."""
    cut = _shorten_newest(DENSE, whole(DENSE, note=PLAIN), float(room), PLAIN)

    def size_with(limit: int) -> float:
        return 24 + message_size(shorten_message(DENSE[2], limit, PLAIN))

    if not cut.cuts:
        assert size_with(LEAST_RESULT) > room
        return
    (row, (end, limit)) = cut.cuts
    assert (row, end) == ((2, OLD_RESULT), 3)
    assert cut.size == size_with(limit) <= room
    assert limit >= LEAST_RESULT
    assert size_with(limit + 1) > room


def test_two_results_get_the_same_limit_and_a_short_one_stays() -> None:
    messages: list[Message] = [ASKED, reply_of(1, written(20), tokens=20)]
    history = History([*messages, result_of(1, *[10] * 3), result_of(2, *[10] * 20), result_of(3, *[10] * 20)])
    window = whole(history, note=PLAIN)
    room = 24 + 3 * 8 + 300.0

    cut = _shorten_newest(history, window, room, PLAIN)

    assert cut.cuts == ((2, OLD_RESULT), (5, (900 - 300) // 2))
    assert cut.size == 24 + 38 + 2 * message_size(shorten_message(history[3], 300, PLAIN))


# ------------------------------------------------------------------------------------------------------------ the whole


@given(st.integers(0, 1300), st.booleans())
@example(0, True)
@example(520, True)
def test_a_window_that_fits_or_is_the_smallest_has_the_size_of_what_it_shows(budget: int, arguments: bool) -> None:
    note = ARGUMENTS if arguments else PLAIN
    window = Window(0, size_of(TWO_STEPS, Window(), note))

    smallest = fit_or_smallest(TWO_STEPS, window, 0.0, 0, note)
    fitting = fit_or_smallest(TWO_STEPS, window, 0.0, budget, note)

    assert fitting.size == size_of(TWO_STEPS, fitting, note)
    assert smallest.size <= fitting.size
    assert fitting.size <= budget or fitting.size == smallest.size
    assert fitting.size <= window.size


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_the_newest_result_takes_the_room_that_fixed_tokens_and_scale_leave(scale: float) -> None:
    window = Window(0, size_of(DENSE, Window(), PLAIN), scale)

    found = fit(DENSE, window, 30.0, int(600 * scale), PLAIN)

    assert found is not None
    assert found.size == 600 - 30


def test_the_smallest_window_is_made_for_the_room_that_the_scale_leaves() -> None:
    """Of 100 tokens 30 are fixed; at twice the tokens, 20 remain for the messages, beside which nothing is shown."""
    window = Window(0, size_of(DENSE, Window(), PLAIN), 2.0)

    found = fit_or_smallest(DENSE, window, 30.0, 400, PLAIN)

    room = 400 / 2 - 30
    shown = [limit for limit in range(1000) if 24 + message_size(shorten_message(DENSE[2], limit, PLAIN)) <= room]
    assert found.cuts == ((2, OLD_RESULT), (3, max(shown)))
    assert max(shown) < LEAST_RESULT


@pytest.mark.parametrize(("more", "shorter"), [(0, False), (1, True)])
def test_a_counted_call_is_shortened_only_if_its_bound_has_fewer_tokens(more: int, shorter: bool) -> None:
    """The bound of the shortened call has a token for each byte."""
    short = shorten_message(reply_of(1, written(1000), tokens=10**6), OLD_RESULT, ARGUMENTS)
    message = reply_of(1, written(1000), tokens=sum(short.tokens) + more)

    assert shorten_message(message, OLD_RESULT, ARGUMENTS) == (short if shorter else message)


@pytest.mark.parametrize(
    ("message", "longest"),
    [
        (ASKED, 0),
        (reply_of(1), 0),
        (reply_of(1, written(30), written(50), written(40)), 50),
        (result_of(1, 10, 10), 200),
    ],
)
def test_the_longest_part_is_a_result_or_the_longest_arguments(message: Message, longest: int) -> None:
    assert _longest_part(message, ARGUMENTS) == longest
    assert _longest_part(message, PLAIN) == (0 if isinstance(message, AssistantMessage) else longest)
