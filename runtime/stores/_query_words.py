"""Splits queries into words for a memory's index, and finds an excerpt around them."""

from __future__ import annotations

from cognition.context.words import asked_in


def query_of(text: str) -> list[str]:
    """Return the words of a query as FTS5 phrases, each in quotes, which no word contains."""
    return [f'"{word}"' for word in asked_in(text)]


EXCERPT = 160
"""Maximum characters of an excerpt."""


def excerpt_of(text: str, query: str, length: int = EXCERPT) -> str:
    """Return one line of a text around the first word of a query, or its beginning if none is found."""
    line = " ".join(text.split())
    if len(line) <= length:
        return line
    small = line.lower()
    places = [small.find(word[: max(2, len(word) - 2)] if len(word) > 3 else word) for word in asked_in(query)]
    first = min((place for place in places if place >= 0), default=0)
    begin = max(0, min(first - length // 4, len(line) - length))
    piece = line[begin : begin + length]
    return f"{'…' * (begin > 0)}{piece[(begin > 0) :]}"[: length - 1] + "…" * (begin + length < len(line))
