"""The context of a message: what of its candidates stands in the turn's prompts."""

from __future__ import annotations

from math import ceil

from attrs import evolve

from cognition.context.briefing import briefing_length
from cognition.context.window import CHARS_PER_TOKEN, message_size
from cognition.counts import EDGE, MOST_TOKENS, PIECE
from cognition.decisions import ContextChosen
from cognition.draft import Draft
from cognition.inputs import UserSpoke
from cognition.messages import UserMessage
from cognition.outcomes import Failed

MOST_DENSE = 4 * PIECE
"""A character has four bytes at most, and a token one at least."""


def choose_context(draft: Draft, event: UserSpoke) -> bool:
    """Brief the turn that a message has begun; False if it has ended, since something that has to be in doesn't fit."""
    draft.change_briefing(None)
    if not event.context:
        return True
    # Only here: what judges texts takes longer to import than a program without candidates has reason to wait.
    from cognition.context.assembling import assemble

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
    """How many characters of the message's candidates have a token: no fewer than this, where tokens are counted."""
    if draft.costs is None:
        return CHARS_PER_TOKEN
    dense = event.dense if 0 < event.dense <= MOST_DENSE else MOST_DENSE
    return PIECE / dense


def newest_size(draft: Draft) -> float:
    """Unscaled tokens that the newest message of the user takes in the prompt, with the engine's notes behind it."""
    size, place = 0.0, len(draft.history) - 1
    while True:
        message = draft.history[place]
        size += message_size(message)
        if isinstance(message, UserMessage) and message.origin == "user":
            return size
        place -= 1
