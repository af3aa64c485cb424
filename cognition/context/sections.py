"""Put a turn's sections into its requests: after the system prompt, and before the newest user message."""

from __future__ import annotations

from functools import lru_cache

from attrs import evolve

from cognition.context.window import CHARS_PER_TOKEN, is_asking
from cognition.values.candidates import Briefing
from cognition.values.content import TextPart
from cognition.values.history import CHUNK, Chunk, History
from cognition.values.messages import UserMessage

BETWEEN = "\n\n"


def briefing_size(briefing: Briefing | None) -> float:
    """Return the tokens that a briefing adds to a prompt: an upper bound if counted, else an unscaled estimate."""
    if briefing is None or briefing.tokens:
        return 0.0 if briefing is None else briefing.tokens
    return briefing_length(briefing) / CHARS_PER_TOKEN


def briefing_length(briefing: Briefing) -> int:
    """Return the characters that a briefing adds to a prompt."""
    texts = (briefing.standing, briefing.passing)
    return sum([len(text) + 2 * len(BETWEEN) for text in texts if text])  # twice: those of parts are set apart too


def with_standing(prompt: str, briefing: Briefing | None) -> str:
    """Return the system prompt followed by the briefing's standing sections."""
    if briefing is None or not briefing.standing:
        return prompt
    return f"{prompt}{BETWEEN}{briefing.standing}" if prompt else briefing.standing


def with_passing(message: UserMessage, passing: str) -> UserMessage:
    """Return the user's message preceded by the briefing's passing sections."""
    if message.parts:
        return evolve(message, parts=(TextPart(f"{passing}{BETWEEN}"), *message.parts))
    return evolve(message, text=f"{passing}{BETWEEN}{message.text}")


def insert_briefing(messages: History, briefing: Briefing | None) -> History:
    """Return the messages of a request, with the passing sections before the newest user message."""
    if briefing is None or not briefing.passing:
        return messages
    passing = briefing.passing
    place = len(messages) - 1
    while place >= 0 and not is_asking(messages[place]):
        place -= 1
    if place < 0:
        return messages

    def brief(chunk: Chunk, start: int) -> Chunk:
        return (_brief_whole if len(chunk) == CHUNK else _brief)(chunk, place - start, passing)

    return messages.by_chunks(place, place + 1, brief)


def _brief(chunk: Chunk, inside: int, passing: str) -> Chunk:
    message = chunk[inside]
    assert isinstance(message, UserMessage)
    return (*chunk[:inside], with_passing(message, passing), *chunk[inside + 1 :])


_brief_whole = lru_cache(maxsize=64)(_brief)
"""Cached, so that the requests of a turn share messages as histories do."""
