"""The words of queries as the index of a memory takes them, and a line around where a text has them."""

from __future__ import annotations

from cognition.context.words import asked_in


def query_of(text: str) -> list[str]:
    """The words of a query as FTS5 reads them: each a phrase of its own, in quotes, which no word holds."""
    return [f'"{word}"' for word in asked_in(text)]


EXCERPT = 160
"""Characters of an excerpt."""


def excerpt_of(text: str, query: str, length: int = EXCERPT) -> str:
    """One line of a text, around where it first holds a word of a query; of its beginning where it is not found."""
    line = " ".join(text.split())
    if len(line) <= length:
        return line
    small = line.lower()
    places = [small.find(word[: max(2, len(word) - 2)] if len(word) > 3 else word) for word in asked_in(query)]
    first = min((place for place in places if place >= 0), default=0)
    begin = max(0, min(first - length // 4, len(line) - length))
    piece = line[begin : begin + length]
    return f"{'…' * (begin > 0)}{piece[(begin > 0) :]}"[: length - 1] + "…" * (begin + length < len(line))
