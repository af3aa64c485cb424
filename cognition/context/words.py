"""The words of a text: the same for what is looked for, for what is looked in, and for the index of a memory.

Words are in small letters, without accents; one letter and one digit are words too, and so are ``c++`` and ``c#``.
Scripts that put no spaces between words (Chinese, Japanese, Thai and their neighbours; Korean too, whose endings hang
on its words) are cut into their characters and into pairs of them that overlap: a query of one character looks for it,
a longer one for its pairs.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

LONGEST_WORD = 64
"""Characters that count of a word: nobody asks for the end of a longer one."""

LONGEST_QUERY = 4_000
"""Characters of a query that are looked at. To bring accents in order takes time with the square of their number."""

MOST_WORDS = 24
"""Different words of a query that are looked for, the first ones."""

UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Burmese, Khmer
    "\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u31a0-\u31bf\u31f0-\u31ff"  # Japanese, Bopomofo
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese characters
    "\uac00-\ud7a3"  # Korean
)

ASCII_WORD = re.compile(r"(?<![a-z0-9])[a-z](?:\+\+|#)(?![a-z0-9])|[a-z0-9]+")
PLAIN = bytes(code if chr(code).isalnum() else 32 for code in bytes(range(128)).lower()) + bytes(128)
"""What each ASCII character of a text without ``+`` and ``#`` counts as: a small letter, a digit, or a space."""
ANY_WORD = re.compile(rf"(?<!\S)[a-z](?:\+\+|#)(?!\S)|[{UNSPACED}]+|[^\s+#{UNSPACED}]+")
RUN = re.compile(rf"[{UNSPACED}]")
ACCENTS = re.compile("[\u0300-\u036f]")

STOP_WORDS = frozenset(
    "a about an and are as at be been but by can did do does for from had has have he her his how i in is it its me my "
    "not of on or our she so that the their them there they this to was we were what when where which who why will "
    "with would you your".split()
)
"""Words that say nothing of what a question is about; looked for where it has no others."""


class _Characters(dict[int, str]):
    """What each character counts as: a part of a word, or a space."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        kind = unicodedata.category(character)
        if kind == "Nd":
            kept = str(unicodedata.decimal(character))
        elif 0xFE00 <= code <= 0xFE0F:  # says how the character before it is drawn
            kept = " "
        else:
            kept = character if kind[0] in "LNM" or kind == "So" or character in "+#" else " "
        self[code] = kept
        return kept


_CHARACTERS = _Characters()


def words_of(text: str) -> list[str]:
    """The words of a text in its order, as they are indexed."""
    found: list[str] = []
    for word in _raw_words(text):
        if not word.isascii() and RUN.match(word):
            found += word
            found += [word[at : at + 2] for at in range(len(word) - 1)]
        else:
            found.append(word[:LONGEST_WORD])
    return found


def distinct_words(text: str) -> frozenset[str]:
    """The different words of a text."""
    if text.isascii() and "+" not in text and "#" not in text:  # most texts, in a tenth of the time
        words = frozenset(text.encode("ascii").translate(PLAIN).decode("ascii").split())
        if max(map(len, words), default=0) > LONGEST_WORD:
            words = frozenset([word[:LONGEST_WORD] for word in words])
        return words
    return frozenset(words_of(text))


def asked_in(text: str) -> list[str]:
    """The different words that a query asks for, in its order, as they stand among ``words_of`` what has them.

    Those of a question that say nothing (``what``, ``the``) are left out where there are others.
    """
    words: dict[str, None] = {}
    stopped: dict[str, None] = {}
    for word in _raw_words(text[:LONGEST_QUERY]):
        if not word.isascii() and RUN.match(word):
            words.update(dict.fromkeys([word[at : at + 2] for at in range(len(word) - 1)] or [word]))
        else:
            (stopped if word in STOP_WORDS else words)[word[:LONGEST_WORD]] = None
        if len(words) >= MOST_WORDS:
            break
    return list(words or stopped)[:MOST_WORDS]


def _raw_words(text: str) -> Iterator[str]:
    """Words, and whole runs of scripts without spaces."""
    if text.isascii():
        return iter(ASCII_WORD.findall(text.lower()))
    for _ in range(2):  # taken apart, 𝕬 is a capital; and what is in small letters can sometimes be taken apart again
        text = unicodedata.normalize("NFKD", text).casefold()
    plain = ACCENTS.sub("", unicodedata.normalize("NFKD", text))
    return iter(ANY_WORD.findall(unicodedata.normalize("NFC", plain).translate(_CHARACTERS)))
