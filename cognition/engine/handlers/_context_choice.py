"""Choose the candidates of a message for the turn's prompts."""

from __future__ import annotations

from math import ceil

from attrs import evolve

from cognition.context.sections import briefing_length
from cognition.context.window import CHARS_PER_TOKEN, message_size
from cognition.engine.draft import Draft
from cognition.steps.decisions import ContextChosen
from cognition.steps.inputs import UserSpoke
from cognition.values.counts import EDGE, MOST_TOKENS, PIECE
from cognition.values.messages import UserMessage
from cognition.values.outcomes import Failed

MOST_DENSE = 4 * PIECE
"""The highest possible density: a character has at most four bytes, and a token at least one."""


def choose_context(draft: Draft, event: UserSpoke) -> bool:
    """Choose the new turn's sections; return False if the turn has ended because a mandatory text has no place, or by
    its count no room.
    """
    draft.change_briefing(None)
    if not event.context:
        return True
    # Only here: what judges texts takes longer to import than a program without candidates has reason to wait.
    from cognition.context.assembly import assemble

    scale, each = draft.scale, _characters(draft, event)

    def tokens(characters: int) -> int:
        return int(characters / each * scale)

    setup = draft.setup
    room = min(setup.budget, MOST_TOKENS) / scale - draft.fixed
    done = assemble(
        event.context,
        setup.config.sections,
        event.text,
        int(room * each),
        int(newest_size(draft) * each) + 1,
        int(draft.size * each) + 1,
        now=event.at,
        tokens=tokens,
        anyway=draft.costs is None and setup.config.edition != 1,
        first_words=setup.config.edition < 3,
    )
    draft.decide(ContextChosen(done.choices, done.uses))
    if done.problem:
        draft.finish(Failed("context_overflow", done.problem))
        return False
    if done.briefing.standing or done.briefing.passing:
        briefing, most = done.briefing, 0
        if draft.costs is not None:
            most = ceil(briefing_length(briefing) / each) + 4 * EDGE  # either text has two ends
        draft.change_briefing(evolve(briefing, tokens=most))
    return True


def _characters(draft: Draft, event: UserSpoke) -> float:
    """Return the characters per token of the candidates; a lower bound if tokens are counted."""
    if draft.costs is None:
        return CHARS_PER_TOKEN
    dense = event.dense if 0 < event.dense <= MOST_DENSE else MOST_DENSE
    return PIECE / dense


def newest_size(draft: Draft) -> float:
    """Return the unscaled tokens of the newest user message and the engine's notes after it."""
    size, place = 0.0, len(draft.history) - 1
    while True:
        message = draft.history[place]
        size += message_size(message)
        if isinstance(message, UserMessage) and message.origin == "user":
            return size
        place -= 1
