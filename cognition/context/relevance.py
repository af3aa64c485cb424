"""The relevance of texts to a question: a number from 0 to 1, by their words alone.

A text's score is the weighted share of the question's words that it contains. Words are compared by their English
stems, as whole words. A rare word weighs more than a common word: ``floor(log2(texts / texts that have it)) + 1``, or 1
if no text has it. The arithmetic is exact or rounds the same way everywhere, so the order is equal on every machine.

A question of more than ``MOST_WORDS`` words, such as one behind a pasted log, is scored by the rarest of them that
occur, and as if it had ``OWN_WORDS`` of these: a text need not be about the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from cognition.context._stemmer import beginnings_of, stem_of
from cognition.context.words import MOST_WORDS, distinct_words, message_words, query_words, rarest_words

LONGEST_LOOKED_AT = 20_000
"""The most characters read of a text. Split longer texts."""

PIECE = 4_000
"""Characters of a text read at a time: ordering accents takes time quadratic in their number."""

OWN_WORDS = 8
"""Words of a long question that a text must contain for a score of 1: about as many are not pasted."""

HALF_LIFE = 30 * 86_400.0
"""Seconds after which a text has lost half of the relevance that age can remove."""


def scores_of(question: str, texts: Sequence[str], *, first_words: bool = False) -> list[float]:
    """Return each text's relevance to a question, from 0 to 1, among these texts; 0 if the question has no words.

    Args:
        question: 20,000 characters at each end of it count.
        texts: their first 20,000 characters count.
        first_words: use only the first ``MOST_WORDS`` words of the question, as sessions before edition 3 do.
    """
    words_asked = query_words(question) if first_words else message_words(question)
    asked = list(dict.fromkeys(map(stem_of, words_asked)))
    found = [words_in(text) for text in texts]
    having: dict[str, list[int]] = {
        stem: [place for place, words in enumerate(found) if forms and not words.isdisjoint(forms)]
        for stem, forms in _forms(asked, frozenset().union(*found)).items()
    }
    own = len(asked)
    if own > MOST_WORDS:
        asked, own = rarest_words({stem: len(having[stem]) for stem in asked}), OWN_WORDS
    weights = [_weight(len(having[stem]), len(texts)) for stem in asked]
    total = sum(weights[:own]) + max(own - len(asked), 0)  # a word that occurs nowhere weighs 1
    scores = [0] * len(texts)
    for stem, weight in zip(asked, weights, strict=True):
        for place in having[stem]:
            scores[place] += weight
    return [min(score / total, 1.0) if total else 0.0 for score in scores]


def _forms(asked: Sequence[str], words: frozenset[str]) -> dict[str, set[str]]:
    """Return the words of each stem. Of a short question, only the few words that begin like a stem are stemmed."""
    forms: dict[str, set[str]] = {stem: set() for stem in asked}
    begin = beginnings_of(forms.keys()) if len(asked) <= MOST_WORDS else ("",)
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
