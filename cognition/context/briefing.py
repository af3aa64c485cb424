"""A turn's sections in its requests: behind the system prompt, and in front of the newest message of the user."""

from __future__ import annotations

from functools import lru_cache

from attrs import evolve

from cognition.candidates import Briefing
from cognition.content import TextPart
from cognition.context.window import CHARS_PER_TOKEN, is_asking
from cognition.history import CHUNK, Chunk, History
from cognition.messages import UserMessage

BETWEEN = "\n\n"


def briefing_size(briefing: Briefing | None) -> float:
    """Tokens of what a briefing adds to a prompt: at most where they are counted, else estimated and unscaled."""
    if briefing is None or briefing.tokens:
        return 0.0 if briefing is None else briefing.tokens
    return briefing_length(briefing) / CHARS_PER_TOKEN


def briefing_length(briefing: Briefing) -> int:
    """Characters of what a briefing adds to a prompt."""
    texts = (briefing.standing, briefing.passing)
    return sum([len(text) + 2 * len(BETWEEN) for text in texts if text])  # twice: those of parts are set apart too


def with_standing(prompt: str, briefing: Briefing | None) -> str:
    """The system prompt, with what a briefing puts behind it."""
    if briefing is None or not briefing.standing:
        return prompt
    return f"{prompt}{BETWEEN}{briefing.standing}" if prompt else briefing.standing


def with_passing(message: UserMessage, passing: str) -> UserMessage:
    """The user's message, with what a briefing puts in front of it."""
    if message.parts:
        return evolve(message, parts=(TextPart(f"{passing}{BETWEEN}"), *message.parts))
    return evolve(message, text=f"{passing}{BETWEEN}{message.text}")


def briefed(messages: History, briefing: Briefing | None) -> History:
    """The messages of a request, with what a briefing puts in front of the newest message of the user."""
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
"""Cached, so that the requests of a turn share what they show, as histories do."""
