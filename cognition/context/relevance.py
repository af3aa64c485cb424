"""How far texts are about a question: a number from 0 to 1, by their words alone.

A text's score is the weighted share of the question's words that it has. Words are compared by their English stems
and where they begin and end. A word that few of the texts have weighs more than one that most of them have:
``floor(log2(texts / texts that have it)) + 1``, and 1 where none has it. All of it is arithmetic that is exact or
rounds alike everywhere, so that the same texts have the same order on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from cognition.context.stems import stem_of
from cognition.context.words import asked_in, distinct_words

LONGEST_LOOKED_AT = 20_000
"""Characters of a text that are looked at. A longer one had better be several."""

PIECE = 4_000
"""Characters of a text that are read at a time: to order accents takes time with the square of their number."""

HALF_LIFE = 30 * 86_400.0
"""Seconds after which a text has lost half of what its age can take away."""


def scores_of(question: str, texts: Sequence[str]) -> list[float]:
    """The relevance of each text to a question, from 0 to 1, among these texts; 0 where the question has no words."""
    asked = [stem_of(word) for word in asked_in(question)]
    asked = list(dict.fromkeys(asked))
    if not asked:
        return [0.0] * len(texts)
    found = [stems_in(text) for text in texts]
    weights = {stem: _weight(sum([stem in stems for stems in found]), len(texts)) for stem in asked}
    total = sum(weights.values())
    return [sum([weights[stem] for stem in asked if stem in stems]) / total for stems in found]


def _weight(having: int, texts: int) -> int:
    return (texts // having).bit_length() if having else 1


@lru_cache(maxsize=1024)
def stems_in(text: str) -> frozenset[str]:
    """The stems of a text's words. Cached: most texts come again with the next message."""
    end, begin, stems = min(len(text), LONGEST_LOOKED_AT), 0, set[str]()
    while begin < end:
        until = min(begin + PIECE, end)
        if until < end:  # between two words, where there is such a place
            until = text.rfind(" ", begin, until) + 1 or until
        stems.update(map(stem_of, distinct_words(text[begin:until])))
        begin = until
    return frozenset(stems)


def aged(score: float, at: float | None, now: float, recency: float) -> float:
    """A score less what a text's age takes away of it.

    Args:
        score: from 0 to 1.
        at: when the text was written, and ``now``, both in seconds since the epoch; None where that is not known.
        now: see ``at``.
        recency: the part of the score that age can take away, from 0 to 1.
    """
    if not recency:
        return score
    age = 0.0 if at is None else now - at
    if not age > 0.0:  # of a time to come, and where both are infinite
        age = 0.0
    fresh = 0.0 if at is None else HALF_LIFE / (HALF_LIFE + age)
    return score * (1.0 - recency * (1.0 - fresh))
