"""How a runtime's reports correct the scale of estimates, and the sizes that follow from a configuration."""

from __future__ import annotations

import json

import pytest

from cognition import AgentConfig, Failure, GenerationOptions, ModelRequest, ToolSpec
from cognition.context import fixed_size, longest_prompt, prompt_budget
from cognition.context.window import (
    CHARS_PER_TOKEN,
    LEAST_REPLY_SHARE,
    MESSAGE_TOKENS,
    OVERFLOW_GUESS,
    SCALE_RANGE,
    changed_size,
    request_size,
    result_limit,
    scale_after_measurement,
    scale_after_overflow,
    scale_after_refusal,
    scale_without_measurement,
)
from cognition.values.counts import MOST_TOKENS
from cognition.values.history import History


def too_long(needed: int | None, available: int | None) -> Failure:
    return Failure("too long", kind="context_overflow", needed_tokens=needed, available_tokens=available)


@pytest.mark.parametrize(
    ("estimate", "tokens", "scale"),
    [
        (100.0, 150, 1.5),
        (100.0, 100, 1.0),
        (100.0, 20, 0.2),
        (100.0, 21, 0.21),
        (100.0, 19, 0.2),
        (100.0, 0, 0.2),
        (100.0, 500, 5.0),
        (100.0, 499, 4.99),
        (100.0, 501, 5.0),
        (100.0, 10**15, 5.0),
        (0.0, 0, 5.0),
    ],
)
def test_a_measured_prompt_has_its_share_of_the_estimate_within_a_range(
    estimate: float, tokens: int, scale: float
) -> None:
    assert SCALE_RANGE == (0.2, 5.0)
    assert scale_after_measurement(estimate, tokens) == scale


@pytest.mark.parametrize(
    ("needed", "available", "scale"),
    [
        (1200, None, 1.2),
        (1200, 2000, 1.2),
        (1200, 1000, 1.2),
        (1200, 500, 2.4),
        (None, None, OVERFLOW_GUESS),
        (None, 500, 2 * OVERFLOW_GUESS),
        (0, 0, OVERFLOW_GUESS),
        (600, None, 0.75),
        (10**15, None, MOST_TOKENS / 1000),
    ],
)
def test_an_overflow_in_the_first_edition_never_makes_the_scale_smaller(
    needed: int | None, available: int | None, scale: float
) -> None:
    """An estimate of 1,000 at a budget of 1,000. The scale before is 0.75."""
    assert scale_after_overflow(0.75, 1000.0, 1000, too_long(needed, available)) == pytest.approx(scale)
    assert scale_after_overflow(7.0, 1000.0, 1000, too_long(needed, available)) == pytest.approx(max(scale, 7.0))
    assert scale_after_overflow(0.1, 500.0, 1000, too_long(1000, None)) == 2.0


@pytest.mark.parametrize(
    ("needed", "available", "scale"),
    [
        (1200, None, 1.2),
        (1200, 2000, 1.2),
        (1200, 1000, 1.2),
        (1200, 500, 2.4),
        (1001, None, 1.001),
        (1000, None, 3.0),
        (999, None, 3.0),
        (0, None, 3.0),
        (None, None, 3.0),
        (None, 2000, 3.0),
        (501, 500, 1.002),
        (500, 500, 6.0),
        (None, 500, 6.0),
        (None, 0, 3.0),
        (10**15, None, MOST_TOKENS / 1000),
    ],
)
def test_a_refusal_with_its_sizes_is_exact_and_one_without_makes_the_scale_larger(
    needed: int | None, available: int | None, scale: float
) -> None:
    """An estimate of 1,000 at a budget of 1,000. The scale before is 3."""
    assert scale_after_refusal(3.0, 1000.0, 1000, too_long(needed, available)) == pytest.approx(scale)


@pytest.mark.parametrize(("before", "scale"), [(1.0, 3.0), (2.9, 3.0), (3.0, 3.0), (3.5, 3.5)])
def test_a_refusal_without_sizes_counts_as_half_as_much_again_as_the_budget(before: float, scale: float) -> None:
    """Or as more, if the prompt was longer by the scale before."""
    assert scale_after_refusal(before, 500.0, 1000, too_long(None, None)) == scale


@pytest.mark.parametrize(("scale", "after"), [(0.5, 0.5), (1.0, 1.0), (1.5, 1.0)])
def test_without_a_prompt_that_was_measured_no_estimate_stays_enlarged(scale: float, after: float) -> None:
    assert scale_without_measurement(scale) == after


# ----------------------------------------------------------------------------------------------- sizes by configuration


@pytest.mark.parametrize(
    ("context", "reply", "own", "budget", "longest"),
    [
        (4096, 512, None, 3584, 3968),
        (4096, 512, 1000, 3096, 3846),
        (800, 512, None, 400, 700),
        (801, 512, None, 401, 701),
        (1024, 512, None, 512, 896),
        (4096, 1, None, 4095, 4095),
        (4096, 4, None, 4092, 4095),
        (4096, 7, None, 4089, 4095),
        (4096, 8, None, 4088, 4094),
        (4096, 512, 1, 4095, 4095),
        (1, 512, None, 1, 0),
    ],
)
def test_a_prompt_leaves_room_for_the_reply_or_in_need_a_quarter_of_it(
    context: int, reply: int, own: int | None, budget: int, longest: int
) -> None:
    """At least one token, and never more than half of the context if the options name no figure."""
    config = AgentConfig(context_tokens=context, reply_tokens=reply, options=GenerationOptions(max_tokens=own))

    assert LEAST_REPLY_SHARE == 0.25
    assert (prompt_budget(config), longest_prompt(config)) == (budget, longest)


@pytest.mark.parametrize(("context", "limit"), [(4096, 2688), (1024, 384), (534, 200), (400, 200)])
def test_one_result_may_take_a_quarter_of_the_prompt_but_at_least_200_characters(context: int, limit: int) -> None:
    assert result_limit(AgentConfig(context_tokens=context)) == limit


TOOLS = (ToolSpec("read", "Reads.", {"type": "object", "properties": {}}), ToolSpec("write"))
OF_TOOLS = len("readReads.") + len('{"type": "object", "properties": {}}') + 80 + len("write") + 80
"""The characters that these tools count, without those of the second one's parameters."""


def test_the_fixed_size_has_the_prompt_and_each_tools_name_description_and_parameters() -> None:
    config = AgentConfig(system="x" * 30, tools=TOOLS)
    characters = 30 + OF_TOOLS + len(TOOLS[1].description) + len(json.dumps(TOOLS[1].parameters))

    assert fixed_size(config) == characters / CHARS_PER_TOKEN + 2 * MESSAGE_TOKENS
    assert request_size(ModelRequest("x" * 30, History(), TOOLS, GenerationOptions())) == fixed_size(config)
    assert fixed_size(AgentConfig(system="x" * 30)) == 10 + 2 * MESSAGE_TOKENS


def test_in_a_text_protocol_the_tools_are_a_part_of_the_prompt() -> None:
    config = AgentConfig(system="x" * 30, tools=TOOLS, protocol="short_keys")

    assert fixed_size(config) == len(config.prompt) / CHARS_PER_TOKEN + 2 * MESSAGE_TOKENS


def test_another_system_prompt_changes_the_fixed_size_by_its_characters() -> None:
    config = AgentConfig(system="x" * 30, tools=TOOLS)

    assert changed_size(100.0, config, None) == 100.0
    assert changed_size(100.0, config, "") == 90.0
    assert changed_size(100.0, config, "x" * 45) == 105.0
