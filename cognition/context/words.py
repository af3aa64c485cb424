"""Split text into words, in the same way for queries, texts and a memory's index.

Words are lower-case and without accents. Single letters and digits are words, and so are ``c++`` and ``c#``. Scripts
without spaces (Chinese, Japanese, Thai and their neighbours; also Korean, with its suffixes) are split into characters
and overlapping pairs. A query of one character searches for it, a longer query for its pairs.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping

LONGEST_WORD = 64
"""Characters of a word that count; queries do not need the end of a longer word."""

LONGEST_QUERY = 4_000
"""Characters read of a query: ordering accents takes time quadratic in their number."""

MOST_WORDS = 24
"""The most different words used of a query: from its beginning, or the rarest that occur (``rarest_words``)."""

LONGEST_MESSAGE = 20_000
"""Characters read at each end of a long query, such as a message with a pasted log: people ask before or behind it."""

UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Burmese, Khmer
    "\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u31a0-\u31bf\u31f0-\u31ff"  # Japanese, Bopomofo
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese characters
    "\uac00-\ud7a3"  # Korean
)

ASCII_WORD = re.compile(r"(?<![a-z0-9])[a-z](?:\+\+|#)(?![a-z0-9])|[a-z0-9]+")
PLAIN = bytes(code if chr(code).isalnum() else 32 for code in bytes(range(128)).lower()) + bytes(128)
"""The form of each ASCII character in a text without ``+`` and ``#``: a lower-case letter, a digit, or a space."""
ANY_WORD = re.compile(rf"(?<!\S)[a-z](?:\+\+|#)(?!\S)|[{UNSPACED}]+|[^\s+#{UNSPACED}]+")
RUN = re.compile(rf"[{UNSPACED}]")
ACCENTS = re.compile("[\u0300-\u036f]")

STOP_WORDS = frozenset(
    "a about an and are as at be been but by can did do does for from had has have he her his how i in is it its me my "
    "not of on or our she so that the their them there they this to was we were what when where which who why will "
    "with would you your".split()
)
"""Words without information about a question's subject; used only if it has no others."""


class _Characters(dict[int, str]):
    """The form of each character: part of a word, or a space."""

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
    """Return the words of a text in order, as an index needs them."""
    found: list[str] = []
    for word in _raw_words(text):
        if not word.isascii() and RUN.match(word):
            found += word
            found += [word[at : at + 2] for at in range(len(word) - 1)]
        else:
            found.append(word[:LONGEST_WORD])
    return found


def distinct_words(text: str) -> frozenset[str]:
    if text.isascii() and "+" not in text and "#" not in text:  # most texts, in a tenth of the time
        words = frozenset(text.encode("ascii").translate(PLAIN).decode("ascii").split())
        if max(map(len, words), default=0) > LONGEST_WORD:
            words = frozenset([word[:LONGEST_WORD] for word in words])
        return words
    return frozenset(words_of(text))


def query_words(text: str) -> list[str]:
    """Return the different words to search for, in the query's order, in the form of ``words_of``.

    Words without information (``what``, ``the``) are left out if there are others.
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


def message_words(text: str) -> list[str]:
    """Return all different words of both ends of a message, in its order; otherwise as ``query_words``.

    A search then uses the ``MOST_WORDS`` rarest of them that occur.
    """
    words: dict[str, None] = {}
    stopped: dict[str, None] = {}
    ends = [text] if len(text) <= 2 * LONGEST_MESSAGE else [text[:LONGEST_MESSAGE], text[-LONGEST_MESSAGE:]]
    for part in (part for end in ends for part in _parts(end)):
        for word in _raw_words(part):
            if not word.isascii() and RUN.match(word):
                words.update(dict.fromkeys([word[at : at + 2] for at in range(len(word) - 1)] or [word]))
            else:
                (stopped if word in STOP_WORDS else words)[word[:LONGEST_WORD]] = None
    return list(words or stopped)


def rarest_words(counts: Mapping[str, int]) -> list[str]:
    """Return the ``MOST_WORDS`` rarest words that occur, rarest first. Of equally rare words, those nearest to an end
    of the message come first: a log is pasted before or behind its question.

    Args:
        counts: in how many texts each word of a message occurs, in the message's order.
    """
    last = len(counts) - 1
    ranked = sorted((count, min(place, last - place), place) for place, count in enumerate(counts.values()) if count)
    words = list(counts)
    return [words[place] for _, _, place in ranked[:MOST_WORDS]]


def _parts(text: str) -> Iterator[str]:
    """Return a text in parts of at most ``LONGEST_QUERY`` characters, cut between two words if possible."""
    begin = 0
    while len(text) - begin > LONGEST_QUERY:
        until = begin + LONGEST_QUERY
        cut = max(text.rfind(" ", begin + 1, until), text.rfind("\n", begin + 1, until)) + 1 or until
        yield text[begin:cut]
        begin = cut
    yield text[begin:]


def _raw_words(text: str) -> Iterator[str]:
    """Return words, and whole runs of scripts without spaces."""
    if text.isascii():
        return iter(ASCII_WORD.findall(text.lower()))
    for _ in range(2):  # taken apart, 𝕬 is a capital; and what is in small letters can sometimes be taken apart again
        text = unicodedata.normalize("NFKD", text).casefold()
    plain = ACCENTS.sub("", unicodedata.normalize("NFKD", text))
    return iter(ANY_WORD.findall(unicodedata.normalize("NFC", plain).translate(_CHARACTERS)))
