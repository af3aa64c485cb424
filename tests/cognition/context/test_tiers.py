"""The words of CogOS for sections, continuation and metrics."""

import pytest

from cognition import AgentConfig, AgentState, Candidate, LLMEngine, UserSpoke
from cognition.context.tiers import TIER_SECTIONS, TIERS, ContextMetrics, ContinuationState, continuation, metrics
from cognition.steps.decisions import ContextAssembled, ContextChosen
from cognition.values.candidates import CONVERSATION, check_sections

LEFT_OFF = ContinuationState("s1", "2026-04-15T10:00:00Z", "limit", "deploying", "Go on with the deployment.")


def told(*candidates: Candidate) -> tuple[ContextChosen | None, ContextAssembled]:
    engine = LLMEngine(AgentConfig(system="Be brief.", sections=TIER_SECTIONS))
    decisions = engine.step(AgentState(), UserSpoke("Deploy to staging", context=candidates)).decisions
    chosen = next((one for one in decisions if isinstance(one, ContextChosen)), None)
    return chosen, next(one for one in decisions if isinstance(one, ContextAssembled))


def test_each_tier_is_a_section() -> None:
    check_sections(TIER_SECTIONS)
    assert {section.name for section in TIER_SECTIONS} == set(TIERS.values())


def test_every_tier_is_in_the_breakdown() -> None:
    """The reference leaves out the fourth."""
    chosen, assembled = told(
        Candidate("identity", "You are Ada."),
        Candidate("semantic", "staging is a server"),
        Candidate("temporal", "staging is deployed on Mondays"),
    )
    found = metrics(chosen, assembled)

    assert list(found.tier_breakdown) == list(TIERS)
    assert sum(found.tier_breakdown.values()) == found.total_tokens == assembled.tokens
    assert (found.coherence_score, found.should_refresh, found.compression_used) == (1.0, False, False)


def test_coherence_is_how_many_tiers_have_something() -> None:
    found = metrics(*told())

    assert found.tier_breakdown == {"tier3_present": found.total_tokens}
    assert (found.coherence_score, found.should_refresh) == (0.25, True)
    assert metrics(*told(), tiers=("tier3_present", "other")).coherence_score == 1.0
    assert metrics(*told(), tiers=()).coherence_score == 0.0


@pytest.mark.parametrize(("above", "refresh"), [(0.65, True), (0.66, False)])
def test_a_context_is_worth_making_anew_below_two_thirds(above: float, refresh: bool) -> None:
    assert ContextMetrics(0, {}, above, False).should_refresh == refresh


def test_a_tier_without_tokens_is_not_in_the_breakdown() -> None:
    assert metrics(None, ContextAssembled(0, 0, 0, 20)) == ContextMetrics(0, {}, 0.0, False)


def test_what_was_trimmed_or_dropped_is_said() -> None:
    """The reference never says so."""
    chosen, assembled = told(Candidate("semantic", "staging " * 4000))

    assert metrics(chosen, assembled).compression_used
    assert metrics(None, ContextAssembled(1, 1, 10, 20)).compression_used
    assert metrics(None, ContextAssembled(1, 0, 10, 20, 1)).compression_used
    assert not metrics(*told(Candidate("semantic", "nothing of it"))).compression_used


def test_a_session_is_told_where_the_one_before_left_off() -> None:
    (candidate,) = continuation(LEFT_OFF, "http")
    chosen, _ = told(candidate)

    assert candidate == Candidate("identity", "Go on with the deployment.", "continuation", mandatory=True)
    assert chosen is not None
    assert chosen.choices[0].fate == "included"
    assert TIERS["tier3_present"] == CONVERSATION


@pytest.mark.parametrize(("prompt", "origin"), [("", ""), (" \n", "http"), ("Go on.", "hook"), ("Go on.", "internal")])
def test_hooks_are_told_nothing_and_nothing_is_told_where_nothing_was_left(prompt: str, origin: str) -> None:
    assert continuation(ContinuationState("s", "", "", "", prompt), origin) == ()
