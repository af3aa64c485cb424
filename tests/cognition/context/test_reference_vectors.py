"""The numbers at which other agent systems turn, and what is done here at the same ones."""

import pytest

from cognition import AgentConfig, CallModel, Compacting, ContextAssembled, GenerationOptions, Thinking, UserSpoke
from cognition.base.errors import ConfigError
from cognition.context.window import ends_of, prompt_budget, scale_after_measurement, shorten
from tests.cognition.session import Session, engine_with, replied

EARLIER = "a" * 180_000
"""60,000 tokens by the estimate."""


def second_turn(length: int) -> Session:
    """A session with room for a prompt of 100,000 tokens, whose second message has this length."""
    options = GenerationOptions(max_tokens=20_000)
    session = Session(engine_with(context_tokens=120_000, compact_at=0.75, options=options))
    session(UserSpoke(EARLIER))
    (call,) = [one for one in session.decisions if isinstance(one, CallModel)]
    session(replied(call.effect_id, "Noted."))
    session(UserSpoke("b" * length))
    return session


def test_three_quarters_of_the_budget_are_no_reason_for_a_summary_and_a_token_more_is() -> None:
    (report,) = [one for one in second_turn(300).decisions if isinstance(one, ContextAssembled)]
    length = 300 + 3 * (75_000 - report.tokens)
    at, past = second_turn(length), second_turn(length + 3)

    (report,) = [one for one in at.decisions if isinstance(one, ContextAssembled)]
    assert (report.tokens, report.budget) == (75_000, 100_000)
    assert isinstance(at.state.phase, Thinking)
    assert isinstance(past.state.phase, Compacting)


@pytest.mark.parametrize(
    ("estimate", "reported", "scale"),
    [(100_000, 20_000, 0.2), (100_000, 10_000, 0.2), (100_000, 150_000, 1.5), (100, 10**9, 5.0), (0, 0, 5.0)],
)
def test_what_the_runtime_counts_corrects_an_estimate_within_bounds(estimate: int, reported: int, scale: float) -> None:
    """Another system takes a quarter of its estimate at least, this one a fifth: its estimate is the closer one."""
    assert scale_after_measurement(estimate, reported) == scale


def test_a_reply_and_its_margin_are_set_aside() -> None:
    """Of 100 tokens 20 and 5 are set aside there; here the margin is a part of what is set aside."""
    assert prompt_budget(AgentConfig(context_tokens=100, options=GenerationOptions(max_tokens=25))) == 75


def test_a_reply_that_takes_all_of_the_context_is_refused() -> None:
    with pytest.raises(ConfigError, match="context"):
        AgentConfig(context_tokens=25, options=GenerationOptions(max_tokens=25))


@pytest.mark.parametrize("length", [10_000, 100_000])
@pytest.mark.parametrize("limit", [2_300, 9_000])
def test_what_is_cut_keeps_its_beginning_and_its_end_and_the_number_of_what_is_missing(length: int, limit: int) -> None:
    """Where another system keeps fixed parts (1,500 and 800 characters, 6,000 and 3,000), the room decides."""
    text = "".join(f"{number:09} " for number in range(length // 10))
    head, tail = ends_of(limit)
    cut = shorten(text, limit)

    assert cut == f"{text[:head]}\n[... {length - limit} characters left out ...]\n{text[-tail:]}"
