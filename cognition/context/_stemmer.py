"""English stems: words without their endings, so that ``deploy``, ``deployed`` and ``deploys`` are equal.

The rules are those of Porter's second stemmer (https://snowballstem.org/algorithms/english/stemmer.html) without the
rules for apostrophes, which our words never contain. Words of other languages sometimes lose letters, equally in the
query and in the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from functools import lru_cache

VOWELS = "aeiouy"
DOUBLES = ("bb", "dd", "ff", "gg", "mm", "nn", "pp", "rr", "tt")
BEFORE_LI = "cdeghkmnrt"
"""The letters after which ``li`` is an ending."""

ODD: Mapping[str, str] = {
    "skis": "ski",
    "skies": "sky",
    "dying": "die",
    "lying": "lie",
    "tying": "tie",
    "idly": "idl",
    "gently": "gentl",
    "ugly": "ugli",
    "early": "earli",
    "only": "onli",
    "singly": "singl",
    **{word: word for word in ("sky", "news", "howe", "atlas", "cosmos", "bias", "andes")},
}
"""Exceptions to the rules."""

WHOLE = frozenset({"evening", "inning", "outing", "canning", "herring", "earring", "proceed", "exceed", "succeed"})
"""Words that only seem to have an ending, after the plural is removed."""

REGION = re.compile("[aeiouy][^aeiouy]")
"""The end of a match is the start of the word's next region."""
LONG_BEGINNING = re.compile("gener|commun|arsen|univers|later|emerg|organ|inter")
"""Beginnings after which the first region starts, later than by the rule."""
SHORT = re.compile("(?:[^aeiouy][aeiouy][^aeiouywxY]|^[aeiouy][^aeiouy]|^past)$")
"""A short syllable at a word's end."""
CONSONANT_Y = re.compile("^y|(?<=[aeiouy])y")
"""A ``y`` that is a consonant; the rules write it as ``Y``."""
ANY_VOWEL = re.compile("[aeiouy]")

BEGINNING = 3
"""Letters of a word compared to decide whether it may have a stem."""

SECOND: tuple[tuple[str, str], ...] = (
    ("ational", "ate"), ("fulness", "ful"), ("iveness", "ive"), ("ization", "ize"), ("ousness", "ous"),
    ("biliti", "ble"), ("lessli", "less"), ("ogist", "og"), ("tional", "tion"), ("alism", "al"), ("aliti", "al"),
    ("ation", "ate"), ("entli", "ent"), ("fulli", "ful"), ("iviti", "ive"), ("ousli", "ous"), ("abli", "able"),
    ("alli", "al"), ("anci", "ance"), ("ator", "ate"), ("enci", "ence"), ("izer", "ize"), ("bli", "ble"),
    ("ogi", "og"), ("li", ""),
)  # fmt: skip
"""The longest first, since only one applies; each with its replacement in the first region."""

THIRD: tuple[tuple[str, str], ...] = (
    ("ational", "ate"), ("tional", "tion"), ("alize", "al"), ("ative", ""), ("icate", "ic"), ("iciti", "ic"),
    ("ical", "ic"), ("ness", ""), ("ful", ""),
)  # fmt: skip

FOURTH = (
    "ement", "able", "ance", "ence", "ible", "ment", "ant", "ate", "ent", "ion", "ism", "iti", "ive", "ize", "ous",
    "al", "er", "ic",
)  # fmt: skip
"""Endings removed in the second region."""


@lru_cache(maxsize=1 << 14)
def stem_of(word: str) -> str:
    """Return the stem of a lower-case word; a word with characters other than ``a`` to ``z`` is its own stem."""
    if len(word) < 3 or not (word.isascii() and word.isalpha()):
        return word
    if word in ODD:
        return ODD[word]
    word = CONSONANT_Y.sub("Y", word)
    begin = LONG_BEGINNING.match(word) or REGION.search(word)
    first = begin.end() if begin else len(word)
    begin = REGION.search(word, first)
    second = begin.end() if begin else len(word)
    word = _without_plural(word)
    if word in WHOLE:
        return word
    word = _without_tense(word, first)
    if len(word) > 2 and word[-1] in "yY" and word[-2] not in VOWELS:
        word = f"{word[:-1]}i"
    word = _shorten(word, SECOND, first, second)
    word = _shorten(word, THIRD, first, second)
    word = _without_ending(word, second)
    return _without_last(word, first, second).replace("Y", "y")


def beginnings_of(stems: Set[str]) -> tuple[str, ...]:
    """Return the possible beginnings of words with these stems. Except in ``ODD``, only a stem's last letter can differ
    from the word's.
    """
    begin = {stem[: min(BEGINNING, max(len(stem) - 1, 1))] for stem in stems}
    begin.update([word[:BEGINNING] for word, stem in ODD.items() if stem in stems])
    return tuple(sorted(begin))


def _without_plural(word: str) -> str:
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith(("ied", "ies")):
        return word[:-2] if len(word) > 4 else word[:-1]
    if word.endswith("s") and not word.endswith(("us", "ss")) and ANY_VOWEL.search(word[:-2]):
        return word[:-1]
    return word


def _without_tense(word: str, first: int) -> str:
    for ending in ("eedly", "eed"):
        if word.endswith(ending):
            return f"{word[: -len(ending)]}ee" if len(word) - len(ending) >= first else word
    for ending in ("ingly", "edly", "ing", "ed"):
        if word.endswith(ending):
            rest = word[: -len(ending)]
            if not ANY_VOWEL.search(rest):
                return word
            if rest.endswith(("at", "bl", "iz")):
                return f"{rest}e"
            if rest.endswith(DOUBLES):
                return rest if len(rest) == 3 and rest[0] in "aeo" else rest[:-1]  # as in ``added``
            return f"{rest}e" if len(rest) <= first and SHORT.search(rest) else rest
    return word


def _shorten(word: str, endings: tuple[tuple[str, str], ...], first: int, second: int) -> str:
    for ending, instead in endings:
        if word.endswith(ending):
            rest = word[: -len(ending)]
            stands = len(rest) >= (second if ending == "ative" else first)
            if not stands or (ending == "ogi" and rest[-1:] != "l"):
                return word
            return word if ending == "li" and rest[-1:] not in BEFORE_LI else f"{rest}{instead}"
    return word


def _without_ending(word: str, second: int) -> str:
    for ending in FOURTH:
        if word.endswith(ending):
            rest = word[: -len(ending)]
            stands = len(rest) >= second and (ending != "ion" or rest[-1:] in ("s", "t"))
            return rest if stands else word
    return word


def _without_last(word: str, first: int, second: int) -> str:
    last, rest = word[-1:], word[:-1]
    if last == "e" and (len(rest) >= second or (len(rest) >= first and not SHORT.search(rest))):
        return rest
    return rest if last == "l" and len(rest) >= second and rest.endswith("l") else word
