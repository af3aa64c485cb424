"""Apply reports of tokens by interpreters and runtimes to the state: template costs, and the size of a prompt."""

from __future__ import annotations

from attrs import evolve

from cognition.context.token_counts import count_message, summary_tokens
from cognition.context.window import (
    SCALE_RANGE,
    message_size,
    scale_after_measurement,
    summary_message,
    visible_messages,
)
from cognition.engine.draft import Draft
from cognition.values.counts import MOST_TOKENS, TemplateCosts, Tokens
from cognition.values.history import History


def count_by(draft: Draft, costs: TemplateCosts, earlier: tuple[Tokens, ...]) -> None:
    """Switch to other template costs. ``earlier``: the tokens of the newest messages of history under these costs.

    If messages were counted under different costs, or not at all, older messages count with their upper bound.
    """
    if not costs.counts_alike(draft.costs):
        messages = list(draft.history)
        known = earlier[max(len(earlier) - len(messages), 0) :]
        tokens = [()] * (len(messages) - len(known)) + list(known)
        pairs = zip(messages, tokens, strict=True)
        draft.history = History([count_message(evolve(one, tokens=new), costs) for one, new in pairs])
        draft.scale, summary = 1.0, draft.summary
        note = draft.setup.note_with(costs)
        if summary.text:
            summary = evolve(summary, tokens=summary_tokens(costs, summary_message(summary), summary.text, ()))
        if summary.skipped:
            summary = evolve(summary, skipped_tokens=note.skipping(summary.skipped))
        draft.summary = summary
        messages_shown = visible_messages(draft.history, draft.window(), note)
        draft.size = sum(map(message_size, messages_shown), 0.0)
    draft.change_costs(costs)


def apply_measurement(draft: Draft, tokens: int) -> None:
    """Correct the size of the shown messages by the runtime's count of that prompt."""
    whole, tokens = draft.fixed + draft.size, min(tokens, MOST_TOKENS)
    scale = scale_after_measurement(whole, tokens)
    if draft.costs is None:
        draft.scale = scale
    else:  # a sum of upper bounds is too high, if anything; a report beyond all reason says nothing
        draft.scale = max(scale, 1.0)
        draft.slack = max(whole - tokens, 0.0) if tokens >= SCALE_RANGE[0] * whole else 0.0
