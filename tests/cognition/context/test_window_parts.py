"""The parts of fitting a window: how results share the room, which steps go, and what stands in their place."""

from __future__ import annotations

import pytest
from attrs import evolve

from cognition.context import CutNote, message_size
from cognition.context.cut_note import CUT, SKIPPED
from cognition.context.window import (
    MESSAGE_TOKENS,
    OLD_RESULT,
    SKIPPED_ID,
    _drop_steps,
    _drop_turns,
    _share,
    _shorten_newest,
    _shorten_stale,
    _without_summary,
    before_window,
    fit,
    shorten_message,
    skipped_message,
    system_size,
)
from cognition.steps.state import Summary, Window
from cognition.values.counts import EDGE
from cognition.values.history import History
from cognition.values.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage

NOTE = CutNote(tokens=30, user=5)
LENGTH_OF_NOTE = len(CUT.format(1000, ""))


def test_a_system_prompt_has_a_token_for_three_characters_and_the_marks_of_two_messages() -> None:
    assert system_size("x" * 30) == 10 + 2 * MESSAGE_TOKENS


@pytest.mark.parametrize(
    ("lengths", "characters", "most"),
    [
        ([300, 300], 600.0, None),
        ([100, 900, 900], 1300.0, 600),
        ([300, 300], 401.0, 200),
        ([300, 300], 400.0, 200),
        ([300, 300], 399.0, None),
    ],
)
def test_long_results_share_what_the_short_ones_leave_if_it_is_of_use(
    lengths: list[int], characters: float, most: int | None
) -> None:
    """None if all of them fit whole, and None if less than 200 characters would remain of one."""
    assert _share(lengths, characters) == most


def asked_with(result: ToolMessage) -> History:
    """A turn of ten tokens and a result that the model has not answered."""
    return History(
        [
            UserMessage("u", "Go.", tokens=(4,)),
            AssistantMessage("a", "", "", (ToolCall("c", "read"),), tokens=(6,)),
            result,
        ]
    )


def result_of(*pieces: int) -> ToolMessage:
    return ToolMessage("r", "c", "read", "x" * (100 * len(pieces)), tokens=(8, *pieces))


def test_a_result_is_cut_to_three_characters_for_each_token_left_if_that_fits() -> None:
    """200 tokens less ten of the others and eight around the result are 182."""
    history, window = asked_with(result_of(*[10] * 30)), Window(0, 10 + 308.0)

    fitting = _shorten_newest(history, window, 200.0, NOTE)

    limit = 182 * 3
    assert fitting.cuts == ((2, OLD_RESULT), (3, limit))
    assert fitting.size == 10 + 8 + 40 + 20 + NOTE.tokens + 2 * EDGE, "four pieces before the note, and two behind it"


def test_a_result_that_takes_just_its_room_is_not_cut_again() -> None:
    """It is cut to three times 124 - 18. Of that two pieces stand before the note, and one behind it."""
    history, window = asked_with(result_of(*[20] * 10)), Window(0, 10 + 208.0)

    fitting = _shorten_newest(history, window, 124.0, NOTE)

    assert fitting.cuts == ((2, OLD_RESULT), (3, 318))
    assert fitting.size == 124.0


def test_a_result_that_was_cut_before_counts_as_it_was_shown() -> None:
    """With a note of 30 tokens. Cut to 850 characters, six pieces stood before it, and two behind it."""
    before = 8 + 60 + 20 + NOTE.tokens + 2 * EDGE
    history, window = asked_with(result_of(*[10] * 30)), Window(0, 10.0 + before, cuts=((3, 850),))

    fitting = _shorten_newest(history, window, 120.0, NOTE)

    assert fitting.cuts == ((2, OLD_RESULT), (3, (120 - 18) * 3))
    assert fitting.size == 10 + 8 + 20 + 10 + NOTE.tokens + 2 * EDGE


def test_the_length_of_a_dense_result_is_searched_for() -> None:
    """With a token for each character, 500 - 10 - 8 - 30 - 16 characters fit besides the note."""
    history, window = asked_with(result_of(*[100] * 10)), Window(0, 10 + 1008.0)

    fitting = _shorten_newest(history, window, 500.0, NOTE)

    assert fitting.cuts == ((2, OLD_RESULT), (3, 436 + LENGTH_OF_NOTE))
    assert fitting.size == 500.0


def test_no_more_steps_go_than_have_to() -> None:
    """Each step has 200 tokens, and without the first one the messages take just their room."""
    messages: list[Message] = [UserMessage("u", "Go.", tokens=(10,))]
    for step in range(3):
        messages.append(AssistantMessage(f"a{step}", "", "", (ToolCall(f"c{step}", "read"),), tokens=(100,)))
        messages.append(ToolMessage(f"r{step}", f"c{step}", "read", "page", tokens=(100,)))

    window = _drop_steps(History(messages), Window(0, 610.0), 410.0, NOTE)

    assert (window.first, window.summary.asked, window.summary.skipped) == (3, 0, 2)
    assert window.size == 410 + NOTE.user + len(SKIPPED.format(2))


def test_the_note_on_steps_that_are_left_out_is_the_engines() -> None:
    assert skipped_message(Summary(skipped=3, skipped_tokens=(9,))) == UserMessage(
        SKIPPED_ID, SKIPPED.format(3), "engine", tokens=(9,)
    )


def test_a_summary_that_goes_leaves_no_note_where_no_step_is_missing() -> None:
    history = History([UserMessage("u", "Go.", tokens=(10,)), AssistantMessage("a", "Done.", tokens=(20,))])
    summary = Summary("TASK: all.", 1, asked=0, tokens=(50,))

    window = _without_summary(history, Window(1, 80.0, summary=summary), NOTE)

    assert window == Window(1, 30.0, summary=Summary(asked=0))
    assert sum(map(message_size, before_window(history, window))) == 10


def test_a_summary_between_turns_that_goes_leaves_nothing() -> None:
    history = History([UserMessage("u", "Go.", tokens=(10,)), AssistantMessage("a", "Done.", tokens=(20,))])

    window = _without_summary(history, Window(2, 50.0, summary=Summary("TASK: all.", 2, tokens=(50,))), NOTE)

    assert window == Window(2, 0.0)


def test_a_reply_without_results_is_a_step_of_its_own() -> None:
    """Such as one that was interrupted."""
    replies: list[Message] = [AssistantMessage(f"a{step}", "Hm.", tokens=(200,)) for step in range(3)]
    history = History([UserMessage("u", "Go.", tokens=(10,)), *replies])

    window = _drop_steps(history, Window(0, 610.0), 410.0, NOTE)

    assert (window.first, window.summary.skipped) == (2, 1)


def test_steps_stay_if_the_note_on_them_takes_just_as_much() -> None:
    taken = NOTE.user + len(SKIPPED.format(1))
    for tokens, first in ((taken, 0), (taken + 1, 2)):
        messages = (AssistantMessage("a0", "Hm.", tokens=(tokens,)), AssistantMessage("a1", "Hm.", tokens=(200,)))
        history = History([UserMessage("u", "Go.", tokens=(10,)), *messages])

        assert _drop_steps(history, Window(0, 210.0 + tokens), 210.0, NOTE).first == first


def turns_with(*tokens: int) -> History:
    """Turns of a user's message and an answer, by turns with these tokens."""
    return History(
        UserMessage(f"m{place}", "Go.", tokens=(size,))
        if place % 2 == 0
        else AssistantMessage(f"m{place}", "Done.", tokens=(size,))
        for place, size in enumerate(tokens)
    )


def test_no_turn_goes_from_messages_that_take_just_their_room() -> None:
    window = Window(0, 30.0)

    assert _drop_turns(turns_with(5, 15, 10), window, 30.0, NOTE) == window
    assert _drop_turns(turns_with(5, 15, 10), window, 29.0, NOTE) == Window(2, 10.0, turns=1)


def test_with_a_turn_its_note_on_missing_steps_goes() -> None:
    """The summary stays, and says what was in them."""
    summary = Summary("TASK: all.", 0, asked=0, tokens=(50,), skipped=1, skipped_tokens=(80,))
    history = History(
        [*turns_with(5, 15), AssistantMessage("b", "Done.", tokens=(7,)), UserMessage("u", "Go.", "user")]
    )

    window = _drop_turns(history, Window(2, 50.0 + 5 + 80 + 7 + 9, summary=summary), 100.0, NOTE)

    assert window == Window(3, 50.0 + 9, summary=Summary("TASK: all.", 0, tokens=(50,)), turns=1)


PIECES = (8, 20, 20, 20, 10, 10, 10, 10, 10, 10, 20)
"""Of a result of 1000 characters. Cut to 400, it has three pieces before the note, and one behind it."""
SHOWN = 8 + 4 * 20 + NOTE.tokens + 2 * EDGE
WHOLE = ToolMessage("r", "c", "read", "x" * 1000, tokens=PIECES)


def test_a_turn_with_a_shortened_result_takes_as_much_with_it_as_was_shown() -> None:
    history = History([*turns_with(5, 15), WHOLE, *turns_with(10)])

    window = _drop_turns(history, Window(0, 20.0 + SHOWN + 10, cuts=((3, 400),)), 100.0, NOTE)

    assert window == Window(3, 10.0, turns=1)


def test_a_counted_result_that_is_shortened_says_how_much_is_missing() -> None:
    """Its note takes a part of the 400 characters."""
    short = shorten_message(WHOLE, 400, NOTE)

    assert isinstance(short, ToolMessage)
    assert short.tokens == (SHOWN,)
    assert short.left_out == 1000 - (400 - LENGTH_OF_NOTE)


def test_a_counted_result_stays_whole_if_it_would_have_just_as_many_tokens_shortened() -> None:
    """The six pieces that would be missing have the tokens of the note and of the two cuts, or one more."""
    missing = NOTE.tokens + 2 * EDGE
    for more in (0, 1):
        whole = evolve(WHOLE, tokens=(8, 20, 20, 20, missing + more, 0, 0, 0, 0, 0, 20))

        assert (shorten_message(whole, 400, NOTE) is whole) is (more == 0)


def answered(count: int) -> History:
    """A turn of ten tokens with results that the model has answered; each has 148 tokens, and shown short 134."""
    messages: list[Message] = [UserMessage("u", "Go.", tokens=(10,))]
    for step in range(count):
        messages.append(AssistantMessage(f"a{step}", "", "", (ToolCall(f"c{step}", "read"),), tokens=(0,)))
        messages.append(evolve(WHOLE, id=f"r{step}", call_id=f"c{step}"))
    return History([*messages, AssistantMessage("a", "Done.", tokens=(0,))])


def test_no_more_results_are_shortened_than_have_to_be() -> None:
    assert (sum(PIECES), SHOWN) == (148, 134)

    window = _shorten_stale(answered(2), Window(0, 306.0), 292.0, 400, NOTE)

    assert window == Window(0, 292.0, cuts=((3, 400),))


def test_results_behind_those_that_are_short_already_are_shortened_next() -> None:
    window = _shorten_stale(answered(2), Window(0, 292.0, cuts=((3, 400),)), 280.0, 400, NOTE)

    assert window == Window(0, 278.0, cuts=((5, 400),))


STEPS: tuple[Message, ...] = (
    UserMessage("u", "Go.", tokens=(10,)),
    *[AssistantMessage(f"a{step}", "Hm.", tokens=(200,)) for step in range(3)],
)


def test_a_prompt_of_just_the_budget_stays_as_it_is() -> None:
    window = Window(0, 30.0)

    assert fit(turns_with(5, 15, 10), window, 0.0, 30, NOTE) is window


def test_no_step_goes_if_without_an_older_turn_the_prompt_has_just_the_budget() -> None:
    history = History([*turns_with(5, 15), *STEPS])

    assert fit(history, Window(0, 630.0), 0.0, 610, NOTE) == Window(2, 610.0, turns=1)


def test_no_new_result_is_shortened_if_without_an_older_turn_the_prompt_has_just_the_budget() -> None:
    history = History([*turns_with(5, 15), *asked_with(WHOLE)])

    assert fit(history, Window(0, 20 + 158.0), 0.0, 158, NOTE) == Window(2, 158.0, turns=1)


def test_steps_go_from_a_prompt_that_is_too_long_by_its_scale() -> None:
    """By estimates of 610 it would fit; at twice that, two steps go."""
    window = fit(History(STEPS), Window(0, 610.0, 2.0), 0.0, 1000, NOTE)

    assert window is not None
    assert (window.first, window.summary.skipped) == (3, 2)
    assert window.size == 210 + NOTE.user + len(SKIPPED.format(2))


def test_without_its_summary_a_turn_is_shortened_with_the_same_note() -> None:
    """Beside the summary there was no room for 200 characters of the result."""
    history = asked_with(result_of(*[100] * 10))
    summary = Summary("TASK: all.", 1, asked=0, tokens=(400,))

    window = fit(history, Window(1, 400 + 10 + 1008.0, summary=summary), 0.0, 500, NOTE)

    cuts = ((2, OLD_RESULT), (3, 436 + LENGTH_OF_NOTE))
    assert window == Window(1, 500.0, cuts=cuts, summary=Summary(asked=0))
