"""What a request may hold: the estimates, and the window that fits."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, strategies as st

from cognition import (
    AgentConfig,
    AssistantMessage,
    GenerationOptions,
    History,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from cognition.context import (
    CutNote,
    fit,
    fixed_size,
    message_size,
    prompt_budget,
    result_limit,
    shorten,
)
from cognition.steps.state import Window

FRAME = message_size(UserMessage("m1", ""))
CALLS = st.lists(st.builds(ToolCall, st.just("c"), st.text(max_size=9), st.just("{}")), max_size=4)


@given(st.text(max_size=50), st.text(max_size=50), CALLS)
def test_the_size_of_a_message_is_the_sum_of_its_parts(text: str, reasoning: str, calls: list[ToolCall]) -> None:
    parts = [
        AssistantMessage("m1", text),
        AssistantMessage("m1", "", reasoning),
        *(AssistantMessage("m1", calls=(call,)) for call in calls),
    ]

    whole = message_size(AssistantMessage("m1", text, reasoning, tuple(calls)))

    assert sum(message_size(part) - FRAME for part in parts) + FRAME == pytest.approx(whole)
    assert message_size(UserMessage("m1", text)) == message_size(ToolMessage("m1", "c", "t", text))
    assert message_size(AssistantMessage("m1", text)) == message_size(UserMessage("m1", text))


def test_three_characters_are_a_token_and_a_message_has_eight_around_it() -> None:
    """A call has its name, its arguments and 40 characters of markup."""
    call = ToolCall("call-1-1-1", "look", '{"a": 12}')

    assert message_size(UserMessage("m1", "x" * 30)) == 10 + 8
    assert message_size(AssistantMessage("m1", "x" * 30, "y" * 60)) == 30 + 8
    assert message_size(AssistantMessage("m1", calls=(call,))) == pytest.approx((4 + 9 + 40) / 3 + 8)


def test_what_stands_before_the_messages_is_the_prompt_and_the_tools_each_counted_once() -> None:
    """In a text protocol the tools are in the prompt; natively each has its schema and 80 characters of markup."""
    tools = (ToolSpec("look", "Looks."), ToolSpec("write", "Writes it."))
    schema = len(json.dumps(tools[0].parameters))

    assert fixed_size(AgentConfig(system="x" * 30)) == 10 + 2 * 8
    assert fixed_size(AgentConfig(system="x" * 30, tools=tools)) == pytest.approx(
        (30 + (4 + 6 + schema + 80) + (5 + 10 + schema + 80)) / 3 + 2 * 8
    )
    textual = AgentConfig(system="x" * 30, tools=tools, protocol="short_keys")
    assert fixed_size(textual) == pytest.approx(len(textual.prompt) / 3 + 2 * 8)


@pytest.mark.parametrize(
    ("context", "reply", "most", "budget"),
    [
        (1000, 100, None, 900),
        (1000, 500, None, 500),
        (1000, 501, None, 500),
        (1000, 9000, None, 500),
        (1000, 100, 700, 300),
        (1000, 9000, 1, 999),
    ],
)
def test_a_reply_has_its_own_limit_set_aside_or_what_is_meant_for_it_and_half_of_the_context_at_most(
    context: int, reply: int, most: int | None, budget: int
) -> None:
    options = GenerationOptions(max_tokens=most)

    assert prompt_budget(AgentConfig(context_tokens=context, reply_tokens=reply, options=options)) == budget


@pytest.mark.parametrize(("context", "expected"), [(4512, 3000), (780, 201), (770, 200), (600, 200)])
def test_one_result_takes_a_quarter_of_the_prompt_but_may_always_have_some_lines(context: int, expected: int) -> None:
    """In characters, three for a token; at least 200."""
    assert expected == result_limit(AgentConfig(context_tokens=context, options=GenerationOptions(max_tokens=512)))


@pytest.mark.parametrize("limit", [37, 50, 100])
def test_a_text_that_is_too_long_keeps_three_quarters_at_its_beginning_and_one_at_its_end(limit: int) -> None:
    text = "a" * limit + "z" * limit
    head, tail = limit * 3 // 4, limit // 4

    assert text[:limit] == shorten(text[:limit], limit)
    left_out = 2 * limit - head - tail
    assert "a" * head + f"\n[... {left_out} characters left out ...]\n" + "z" * tail == shorten(text, limit)


@pytest.mark.parametrize(("length", "shorter"), [(401, False), (434, False), (435, True)])
def test_a_text_that_is_a_little_too_long_stays_whole_where_the_note_would_be_longer(
    length: int, shorter: bool
) -> None:
    """The note of a text with two digits left out has 34 characters."""
    text = "x" * length

    assert (shorten(text, 400) != text) is shorter
    assert len(shorten(text, 400)) <= length
    assert shorten("x" * 900, 400, CutNote("Read").again("x", "c1")).count('; Read(call="c1") reads them ...]') == 1


TURNS = st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=4), min_size=1, max_size=6)


def conversation(turns: list[list[int]]) -> list[UserMessage]:
    """Messages of so many tokens each, their frame included; the first of each turn is the user's."""
    return [
        UserMessage(f"m{turn}.{place}", "x" * 3 * size, "user" if place == 0 else "engine")
        for turn, sizes in enumerate(turns)
        for place, size in enumerate(sizes)
    ]


@given(TURNS, st.integers(0, 5), st.sampled_from([0.5, 1.0, 2.0]), st.integers(0, 40), st.integers(1, 200))
@example([[12]], 0, 1.0, 20, 40)  # to the token
@example([[12]], 0, 1.0, 21, 40)  # one too many
@example([[12], [2]], 0, 1.0, 20, 40)  # the last turn alone
@example([[12], [12]], 0, 1.0, 10, 40)  # three quarters to the token
@example([[12], [12]], 0, 1.0, 20, 40)  # more than three quarters, and still within the budget
@example([[12]] * 4, 0, 1.0, 20, 80)  # three quarters to the token, and more turns that could go
@example([[12], [2], [2]], 1, 2.0, 30, 90)  # a window that has been moved before
@pytest.mark.behaviour("B16")
def test_the_window_moves_by_turns_until_a_quarter_of_the_budget_is_free(
    turns: list[list[int]], moved: int, scale: float, fixed: int, budget: int
) -> None:
    """It stays while everything fits; the last turn may take the whole budget; beyond it nothing fits (law L9)."""
    history = History(conversation(turns))
    starts = [index for index, message in enumerate(history) if message.origin == "user"]  # type: ignore[union-attr]
    starts = starts[min(moved, len(starts) - 1) :]
    sizes = {start: sum(message_size(message) for message in history[start:]) for start in starts}

    def needed(start: int) -> float:
        return (fixed + sizes[start]) * scale

    if needed(starts[0]) <= budget:
        expected = starts[0]
    else:
        expected = next((start for start in starts if needed(start) <= budget * 0.75), starts[-1])

    fitted = fit(history, Window(starts[0], sizes[starts[0]], scale), fixed, budget)

    moves = starts.index(expected)
    window = Window(expected, sizes[expected], scale, turns=moves)
    assert (window if needed(expected) <= budget else None) == fitted
