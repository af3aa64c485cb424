"""The words of CogOS for the same things: its four tiers as sections, its continuation and its metrics.

CogOS builds a prompt of four tiers, each with a part of the budget: identity,
temporal, present and semantic. Here the present one is the conversation. What is measured differs where it was wrong
there: every tier is in the breakdown, and ``compression_used`` says whether anything was trimmed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import frozen

from cognition.candidates import CONVERSATION, Candidate, Section
from cognition.decisions import ContextAssembled, ContextChosen

TIERS: Mapping[str, str] = {
    "tier1_identity": "identity",
    "tier2_temporal": "temporal",
    "tier3_present": CONVERSATION,
    "tier4_semantic": "semantic",
}
"""The section that each tier is here."""

TIER_SECTIONS: tuple[Section, ...] = (
    Section("identity", 0.33, changes="seldom"),
    Section("temporal", 0.25),
    Section("semantic", 0.06),
    Section(CONVERSATION, 0.33),
)
"""For ``sections=``: the parts that CogOS gives its tiers of a budget; 3 in 100 are spare."""

REFRESH_BELOW = 0.66
"""The coherence below which CogOS takes a context to be worth making anew."""


@frozen
class ContinuationState:
    """Where a session left off, for the one that takes it up: CogOS keeps it in ``.cog/run/continuation.json``."""

    session_id: str
    timestamp: str
    trigger: str
    focus: str
    continuation_prompt: str


@frozen
class ContextMetrics:
    """What CogOS measures of a prompt."""

    total_tokens: int
    """Estimated tokens of the whole prompt."""
    tier_breakdown: Mapping[str, int]
    """Estimated tokens of each tier that has any."""
    coherence_score: float
    """How many of the tiers have something in them, from 0 to 1."""
    compression_used: bool
    """Whether a text was trimmed or left out for want of room, or a part of the conversation is not shown whole."""

    @property
    def should_refresh(self) -> bool:
        return self.coherence_score < REFRESH_BELOW


def continuation(state: ContinuationState, origin: str = "") -> tuple[Candidate, ...]:
    """What a session is told of the one before it: nothing where nothing was left to say, or a hook asks.

    Args:
        state: where that one left off.
        origin: who asks; ``hook`` and ``internal`` are told nothing.
    """
    if origin in ("hook", "internal") or not state.continuation_prompt.strip():
        return ()
    return (Candidate("identity", state.continuation_prompt, "continuation", mandatory=True),)


def metrics(chosen: ContextChosen | None, assembled: ContextAssembled, tiers: Iterable[str] = TIERS) -> ContextMetrics:
    """What CogOS measures, of what the engine tells of a request.

    Args:
        chosen: of the turn that the request is of; None where its message brought no candidates.
        assembled: of the request.
        tiers: those that are wanted, by their names.
    """
    wanted = [name for name in tiers if name in TIERS]
    used = {} if chosen is None else {use.name: use.tokens for use in chosen.sections}
    used[CONVERSATION] = max(assembled.tokens - sum([used[name] for name in used if name != CONVERSATION]), 0)
    breakdown = {name: tokens for name in wanted if (tokens := used.get(TIERS[name], 0))}
    lacking = chosen is not None and any(choice.shown < choice.tokens and choice.score > 0 for choice in chosen.choices)
    return ContextMetrics(
        assembled.tokens,
        breakdown,
        len(breakdown) / len(wanted) if wanted else 0.0,
        bool(lacking or assembled.dropped or assembled.shortened),
    )
