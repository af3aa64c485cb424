"""The context of a message: what of its candidates stands in the turn's prompts."""

from __future__ import annotations

from cognition.context.window import CHARS_PER_TOKEN, MOST_TOKENS, message_size
from cognition.decisions import ContextChosen
from cognition.draft import Draft
from cognition.inputs import UserSpoke
from cognition.messages import UserMessage
from cognition.outcomes import Failed


def choose_context(draft: Draft, event: UserSpoke) -> bool:
    """Brief the turn that a message has begun; False if it has ended, since something that has to be in doesn't fit."""
    draft.change_briefing(None)
    if not event.context:
        return True
    # Only here: what judges texts takes longer to import than a program without candidates has reason to wait.
    from cognition.context.assembling import assemble

    scale = draft.scale

    def tokens(characters: int) -> int:
        return int(characters / CHARS_PER_TOKEN * scale)

    setup = draft.setup
    room = min(setup.budget, MOST_TOKENS) / scale - draft.fixed
    done = assemble(
        event.context,
        setup.config.sections,
        event.text,
        int(room * CHARS_PER_TOKEN),
        _newest(draft),
        int(draft.size * CHARS_PER_TOKEN) + 1,
        now=event.at,
        tokens=tokens,
    )
    draft.decide(ContextChosen(done.choices, done.uses))
    if done.problem:
        draft.finish(Failed("context_overflow", done.problem))
        return False
    if done.briefing.standing or done.briefing.passing:
        draft.change_briefing(done.briefing)
    return True


def _newest(draft: Draft) -> int:
    """Characters that the newest message takes in the prompt, with the engine's notes behind it."""
    size, place = 0.0, len(draft.history) - 1
    while True:
        message = draft.history[place]
        size += message_size(message)
        if isinstance(message, UserMessage) and message.origin == "user":
            return int(size * CHARS_PER_TOKEN) + 1
        place -= 1
