"""The relevance of texts to a question: a number from 0 to 1, by their words alone.

A text's score is the weighted share of the question's words that it contains. Words are compared by their English
stems, as whole words. A rare word weighs more than a common word: ``floor(log2(texts / texts that have it)) + 1``, or 1
if no text has it. The arithmetic is exact or rounds the same way everywhere, so the order is equal on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from cognition.context._stemmer import beginnings_of, stem_of
from cognition.context.words import distinct_words, query_words

LONGEST_LOOKED_AT = 20_000
"""The most characters read of a text. Split longer texts."""

PIECE = 4_000
"""Characters of a text read at a time: ordering accents takes time quadratic in their number."""

HALF_LIFE = 30 * 86_400.0
"""Seconds after which a text has lost half of the relevance that age can remove."""


def scores_of(question: str, texts: Sequence[str]) -> list[float]:
    """Return each text's relevance to a question, from 0 to 1, among these texts; 0 if the question has no words."""
    asked = frozenset(map(stem_of, query_words(question)))
    if not asked:
        return [0.0] * len(texts)
    found = [words_in(text) for text in texts]
    having: list[list[str]] = [[] for _ in texts]
    weights: dict[str, int] = {}
    for stem, forms in _forms(asked, frozenset().union(*found)).items():
        places = [place for place, words in enumerate(found) if not words.isdisjoint(forms)]
        weights[stem] = _weight(len(places), len(texts))
        for place in places:
            having[place].append(stem)
    total = sum(weights.values())
    return [sum([weights[stem] for stem in stems]) / total for stems in having]


def _forms(asked: frozenset[str], words: frozenset[str]) -> dict[str, set[str]]:
    """Return the words of each stem. Only the few words that begin like a stem are stemmed."""
    forms: dict[str, set[str]] = {stem: set() for stem in asked}
    begin = beginnings_of(asked)
    for word in [word for word in words if word.startswith(begin)]:
        stem = stem_of(word)
        if stem in forms:
            forms[stem].add(word)
    return forms


def _weight(having: int, texts: int) -> int:
    return (texts // having).bit_length() if having else 1


@lru_cache(maxsize=1024)
def words_in(text: str) -> frozenset[str]:
    """Return the different words of a text. Cached: most texts return with the next message."""
    if len(text) <= PIECE:
        return distinct_words(text)
    end, begin, words = min(len(text), LONGEST_LOOKED_AT), 0, set[str]()
    while begin < end:
        until = min(begin + PIECE, end)
        if until < end:  # between two words, where there is such a place
            until = text.rfind(" ", begin, until) + 1 or until
        words |= distinct_words(text[begin:until])
        begin = until
    return frozenset(words)


def apply_recency(score: float, at: float | None, now: float, recency: float) -> float:
    """Return a score reduced by a text's age.

    Args:
        score: from 0 to 1.
        at: the text's time of writing in seconds since the epoch; None if unknown.
        now: the present time in seconds since the epoch.
        recency: the part of the score that age can remove, from 0 to 1.
    """
    if not recency:
        return score
    age = 0.0 if at is None else now - at
    if not age > 0.0:  # of a time to come, and where both are infinite
        age = 0.0
    fresh = 0.0 if at is None else HALF_LIFE / (HALF_LIFE + age)
    return score * (1.0 - recency * (1.0 - fresh))
