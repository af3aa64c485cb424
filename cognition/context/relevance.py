"""How far texts are about a question: a number from 0 to 1, by their words alone.

A text's score is the weighted share of the question's words that it has. Words are compared by their English stems
and where they begin and end. A word that few of the texts have weighs more than one that most of them have:
``floor(log2(texts / texts that have it)) + 1``, and 1 where none has it. All of it is arithmetic that is exact or
rounds alike everywhere, so that the same texts have the same order on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from cognition.context.stems import beginnings_of, stem_of
from cognition.context.words import asked_in, distinct_words

LONGEST_LOOKED_AT = 20_000
"""Characters of a text that are looked at. A longer one had better be several."""

PIECE = 4_000
"""Characters of a text that are read at a time: to order accents takes time with the square of their number."""

HALF_LIFE = 30 * 86_400.0
"""Seconds after which a text has lost half of what its age can take away."""


def scores_of(question: str, texts: Sequence[str]) -> list[float]:
    """The relevance of each text to a question, from 0 to 1, among these texts; 0 where the question has no words."""
    asked = frozenset(map(stem_of, asked_in(question)))
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
    """Of the words those that have each of these stems. Few begin as one does, and only of those the stem is made."""
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
    """The different words of a text. Cached: most texts come again with the next message."""
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
