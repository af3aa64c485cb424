"""Where the room for calls and their results ends, to the token."""

from __future__ import annotations

import pytest
from attrs import evolve

from cognition import (
    AgentConfig,
    AgentState,
    AssistantMessage,
    GenerationOptions,
    History,
    Message,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from cognition.context import fixed_size, longest_prompt
from cognition.engine._setup import Setup
from cognition.engine.draft import NO_ROOM_FOR_STEPS, OVERFLOW, Draft
from cognition.steps.state import Window
from cognition.values.counts import EDGE, TemplateCosts

CONFIG = AgentConfig(
    tools=(ToolSpec("read", read_only=True),), context_tokens=1001, options=GenerationOptions(max_tokens=4)
)
"""A prompt may have 1,000 tokens, and its turn's first message 876: an eighth of the context, rounded down, is left."""
LONGEST, MOST = 1000, 876
COSTS = TemplateCosts(
    fixed=100, user=5, reply=6, call=7, result=8, cut=30, bare=40, asking=260, estimate=fixed_size(CONFIG), model="a"
)
NAME = len("read")
"""Each result has at most these tokens of its tool's name."""


def calls(count: int) -> tuple[ToolCall, ...]:
    return tuple([ToolCall(f"c{number}", "read") for number in range(count)])


def question(tokens: int) -> UserMessage:
    return UserMessage("u", "Go.", tokens=(tokens,))


def reply(tokens: int, count: int = 1) -> AssistantMessage:
    return AssistantMessage("a", "", "", calls(count), tokens=(tokens,))


def why(
    *messages: Message,
    count: int = 1,
    scale: float = 1.0,
    slack: float = 0.0,
    costs: TemplateCosts | None = COSTS,
    config: AgentConfig = CONFIG,
) -> str:
    """Why so many calls may not run behind these messages."""
    size = float(sum(sum(message.tokens) for message in messages))
    state = AgentState(History(messages), window=Window(0, size, scale, slack=slack), costs=costs)
    return Draft(Setup(config), state).why_no_room(calls(count))


def few(tokens: int) -> str:
    """Why a turn has no room for steps behind a beginning with these tokens."""
    return NO_ROOM_FOR_STEPS.format(tokens, CONFIG.context_tokens)


def overflow(tokens: int) -> str:
    return OVERFLOW.format(tokens, LONGEST)


def test_the_numbers_of_these_tests_are_those_of_the_configuration() -> None:
    assert longest_prompt(CONFIG) == LONGEST
    assert CONFIG.context_tokens - CONFIG.context_tokens // 8 == MOST


def test_a_question_that_leaves_an_eighth_of_the_context_has_room_for_steps() -> None:
    assert why(question(MOST - COSTS.fixed), reply(10)) == ""
    assert why(question(MOST - COSTS.fixed + 1), reply(10)) == few(MOST + 1)


def test_the_room_for_steps_is_measured_in_scaled_tokens() -> None:
    """Twice as many. With one less the steps have room, but the result of the first one does not fit."""
    assert why(question(338), reply(10), scale=2.0) == overflow(1012)
    assert why(question(339), reply(10), scale=2.0) == few(878)
    assert why(question(600), reply(10), scale=2.0) == few(1400)


def test_at_half_the_tokens_twice_as_many_fit() -> None:
    """Where a message that was counted lower than estimated has more room."""
    assert why(question(1500), reply(10), scale=0.5) == ""


@pytest.mark.parametrize("edition", [1, 2])
def test_a_session_of_the_first_edition_runs_its_calls_without_knowing_whether_they_fit(edition: int) -> None:
    told = why(question(MOST), reply(10), config=evolve(CONFIG, edition=edition))

    assert told == ("" if edition == 1 else few(MOST + COSTS.fixed))


def test_without_counts_nobody_knows_whether_calls_fit() -> None:
    assert why(question(5000), reply(10), costs=None) == ""


def test_only_the_newest_question_has_to_leave_room_for_steps() -> None:
    """What comes before it may be left out."""
    assert why(question(900), reply(10), question(8), reply(10)) == ""
    assert why(question(8), reply(10), question(900), reply(10)) == few(1000)


def test_the_engines_notes_behind_a_question_have_to_leave_room_too() -> None:
    note = UserMessage("n", "Hurry.", "engine", tokens=(500,))

    assert why(question(300), note, reply(10)) == few(900)
    assert why(question(200), note, reply(10)) == ""


def test_without_a_question_the_notes_at_the_beginning_count_as_one() -> None:
    note = UserMessage("n", "Hurry.", "engine", tokens=(800,))

    assert why(note, reply(10)) == few(900)


def test_a_result_cut_to_nothing_has_to_fit_to_the_token() -> None:
    """It has the markers and the name of a result, the counted note and the allowance for a cut at both ends."""
    result = COSTS.result + NAME + COSTS.cut + 2 * EDGE
    most = LONGEST - COSTS.fixed - result - 400

    assert why(question(400), reply(most)) == ""
    assert why(question(400), reply(most + 1)) == overflow(LONGEST + 1)
    assert why(question(400), reply(most + 200)) == overflow(LONGEST + 200)


def test_one_long_result_has_to_fit_beside_empty_ones() -> None:
    """An empty result has its markers and its name."""
    results = 3 * (COSTS.result + NAME) + COSTS.cut + 2 * EDGE
    most = LONGEST - COSTS.fixed - results - 400

    assert why(question(400), reply(most, 3), count=3) == ""
    assert why(question(400), reply(most + 1, 3), count=3) == overflow(LONGEST + 1)


def test_results_have_to_fit_by_the_scale() -> None:
    """Of twice as many, 500 fit."""
    result = COSTS.result + NAME + COSTS.cut + 2 * EDGE
    most = LONGEST // 2 - COSTS.fixed - result - 200

    assert why(question(200), reply(most), scale=2.0) == ""
    assert why(question(200), reply(most + 1), scale=2.0) == overflow(LONGEST + 2)


def test_what_earlier_prompts_were_shorter_than_counted_leaves_no_room_for_results() -> None:
    """It is not known of which messages that was."""
    result = COSTS.result + NAME + COSTS.cut + 2 * EDGE
    most = LONGEST - COSTS.fixed - result - 400

    assert why(question(400), reply(most), slack=200.0) == ""
    assert why(question(400), reply(most + 1), slack=200.0) == overflow(LONGEST + 1)


def test_that_excess_does_not_show_a_long_result_whole_either() -> None:
    """At a fifth of the tokens: 4,600 and the long result's 4,012 would fit without it."""
    assert why(question(1000), reply(3500), scale=0.2, slack=4500.0) == ""


def test_the_markers_of_many_results_may_be_what_does_not_fit() -> None:
    """The messages alone leave room, also for four results without markers or without a note."""
    costs = evolve(COSTS, result=60, cut=30)

    told = why(question(400), reply(370, 4), count=4, costs=costs)

    assert told == overflow(100 + 770 + 4 * (60 + NAME) + 30 + 2 * EDGE)


def test_a_long_note_in_a_shortened_result_may_be_what_does_not_fit() -> None:
    """Four results of 10 tokens fit, and the note of 200 does not."""
    costs = evolve(COSTS, result=10, cut=200)

    told = why(question(400), reply(300, 4), count=4, costs=costs)

    assert told == overflow(100 + 700 + 4 * (10 + NAME) + 200 + 2 * EDGE)


def test_older_steps_make_room_for_results() -> None:
    """Where they are left out, the note on them takes their place."""
    costs = evolve(COSTS, skipped=20)
    step = (reply(300), ToolMessage("r", "c0", "read", "Plums.", tokens=(100,)))

    assert why(question(200), *step, *step, reply(10), costs=costs) == ""


def test_the_note_on_omitted_steps_has_the_tokens_that_were_counted() -> None:
    """Uncounted, it would have one for each byte."""
    costs = evolve(COSTS, skipped=20)
    step = (reply(300), ToolMessage("r", "c0", "read", "Plums.", tokens=(100,)))
    smallest = 100 + 400 + (5 + 20) + 420 + (8 + NAME + 30 + 2 * EDGE)

    assert why(question(400), *step, reply(420), costs=costs) == overflow(smallest)
