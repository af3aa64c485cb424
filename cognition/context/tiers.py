"""CogOS compatibility: its four tiers as sections, its continuation and its metrics.

CogOS builds a prompt of four tiers, each with a part of the budget: identity, temporal, present and semantic. Here the
present tier is the conversation. Two metrics correct errors of CogOS: the breakdown contains every tier, and
``compression_used`` reports whether anything was trimmed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import frozen

from cognition.steps.decisions import ContextAssembled, ContextChosen
from cognition.values.candidates import CONVERSATION, Candidate, Section

TIERS: Mapping[str, str] = {
    "tier1_identity": "identity",
    "tier2_temporal": "temporal",
    "tier3_present": CONVERSATION,
    "tier4_semantic": "semantic",
}
"""The section for each tier."""

TIER_SECTIONS: tuple[Section, ...] = (
    Section("identity", 0.33, changes="seldom"),
    Section("temporal", 0.25),
    Section("semantic", 0.06),
    Section(CONVERSATION, 0.33),
)
"""For ``sections=``: the tiers' shares of the budget in CogOS; 3 % are spare."""

REFRESH_BELOW = 0.66
"""The coherence below which CogOS rebuilds a context."""


@frozen
class ContinuationState:
    """The end point of a session, for its successor: CogOS stores it in ``.cog/run/continuation.json``."""

    session_id: str
    timestamp: str
    trigger: str
    focus: str
    continuation_prompt: str


@frozen
class ContextMetrics:
    """CogOS's metrics of a prompt."""

    total_tokens: int
    """Estimated tokens of the whole prompt."""
    tier_breakdown: Mapping[str, int]
    """Estimated tokens of each tier that is not empty."""
    coherence_score: float
    """How many of the tiers have something in them, from 0 to 1."""
    compression_used: bool
    """Whether a text was trimmed or left out for want of room, or a part of the conversation is not shown whole."""

    @property
    def should_refresh(self) -> bool:
        return self.coherence_score < REFRESH_BELOW


def continuation(state: ContinuationState, origin: str = "") -> tuple[Candidate, ...]:
    """Return the candidate that passes a previous session's state on; empty without a prompt, or for a hook.

    Args:
        state: the previous session's end point.
        origin: the caller; ``hook`` and ``internal`` get nothing.
    """
    if origin in ("hook", "internal") or not state.continuation_prompt.strip():
        return ()
    return (Candidate("identity", state.continuation_prompt, "continuation", mandatory=True),)


def metrics(chosen: ContextChosen | None, assembled: ContextAssembled, tiers: Iterable[str] = TIERS) -> ContextMetrics:
    """Return CogOS's metrics of a request, from the engine's notices.

    Args:
        chosen: of the request's turn; None if its message brought no candidates.
        assembled: of the request.
        tiers: the names of the tiers to report.
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
