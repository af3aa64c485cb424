"""Finds all occurrences of many words in a text, at a cost almost independent of their number.

One pattern jumps between possible last characters of a word, where a trie checks whether a word ends. Prefixes of keys
have few different ends (``ghp_``, ``sk-``) and hundreds of beginnings, so there are few such characters. Since a trie
reads forwards, the text is read backwards. The cost grows with the number of last characters and their frequency in
texts. So names such as ``password`` are searched by a part that ends in a rare character (``passw``). The hundreds of
prefixes are searched only around a possible key: a run of ``RUN`` letters, digits, ``_`` and ``-``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from operator import methodcaller

SHARE = dict.fromkeys("etaoinsrhldcu", 5.0) | dict.fromkeys("mfpgwyb0123456789", 2.5) | dict.fromkeys("_-.=/:vk", 1.0)
"""Approximate frequency of each character in code, logs and prose, in percent."""
RARE = 0.4
"""The same for any other character."""


RUN = 16
"""Minimum number of consecutive characters in keys, which few words of code and prose reach."""
LONG = 30
"""The same for keys in base64, where ``+`` and ``/`` break such runs."""
BEFORE = 28
"""Number of characters before a run that may contain its prefix."""
ENDING = 10
"""Minimum number of consecutive characters at the end of a text that may be a cut key."""
_CLASSES = bytes(97 if chr(code).isalnum() or code in b"_-" else 32 for code in range(128)).ljust(256, b" ")
_END = b"a" * ENDING
_RUN = re.compile(b"a" * RUN + b"a*")  # a literal, which is looked for faster than a repetition
_BASE64 = bytes(97 if chr(code).isalnum() or code in b"+/" else 32 for code in range(128)).ljust(256, b" ")
_LONG = re.compile(b"a" * LONG + b"a*")
MARKED = 18
"""Minimum number of consecutive characters, prefix included, of a key that also contains rarer marks (``.+/=~$``)."""
_MARKS = bytes(97 if chr(code).isalnum() or code in b"_-.+/=~$" else 32 for code in range(128)).ljust(256, b" ")
_MARKED_RUN = b"a" * MARKED
_MARKED = re.compile(_MARKED_RUN + b"a*")
_MIXED = re.compile(r"[0-9]|[A-Z][^A-Z]*[A-Z]")
"""Excludes runs that are file paths or chains of names."""
_LIKELY = re.compile(r"[0-9]|[A-Za-z]{14}|[a-z][A-Z]|[A-Z]{2}[a-z]|[A-Z]-?[A-Z]{6}")
"""Excludes runs that are names of variables or lines of hyphens."""


def has_runs(codes: bytes) -> bool:
    """Whether the text may contain any run: one test that excludes most short texts.

    It tests the shortest run, at the end of a text, with the largest set of characters, the marked ones.
    """
    return _END in codes.translate(_MARKS)


def runs_in(text: str, codes: bytes) -> list[tuple[int, int]]:
    """Return the ranges that may contain keys: around each run, and at the end of each text, where a key may be cut.

    ``codes`` has one byte per character.
    """
    classes = codes.translate(_CLASSES)
    found = [
        (max(start - BEFORE, 0), end)
        for start, end in map(_span, _RUN.finditer(classes))
        if _LIKELY.search(text, start, end)
    ]
    found += _ends(text, classes)
    if b"+" in codes or b"/" in codes:
        found += [(max(start - BEFORE, 0), end) for start, end in map(_span, _LONG.finditer(codes.translate(_BASE64)))]
    return found


def _ends(text: str, classes: bytes) -> Iterator[tuple[int, int]]:
    """Yield the ranges at ends of texts that may contain a cut key."""
    end = len(text)
    while end >= 0:
        if classes[max(end - ENDING, 0) : end] == _END:
            yield max(end - BEFORE, 0), end
        end = text.rfind("\0", 0, end)


def marked_runs_in(text: str, codes: bytes) -> list[tuple[int, int]]:
    """Return the ranges of possible keys with rarer marks, including their prefixes."""
    classes = codes.translate(_MARKS)
    if _MARKED_RUN not in classes:
        return []
    runs = map(_span, _MARKED.finditer(classes))
    return [(start, end) for start, end in runs if _MIXED.search(text, start, end)]


_span = methodcaller("span")


class Words:
    """Words that are searched together."""

    def __init__(self, words: Iterable[str]) -> None:
        words = tuple(dict.fromkeys(words))
        self._pattern = _pattern([word[::-1] for word in words])
        self._ending = {word: tuple(other for other in words if word.endswith(other)) for word in words}
        """For each word, the words that it ends with. They occur wherever it does."""

    def all_in(self, text: str) -> list[tuple[int, str]]:
        """Return each word in the text with its position, from the end of the text to its beginning."""
        found: list[tuple[int, str]] = []
        if self._pattern is None:
            return found
        backwards, last = text[::-1], len(text)
        match = self._pattern.search(backwards)  # most texts have none: to begin an iterator takes twice as long
        while match is not None:
            end = last - match.start()
            word = match[match.lastindex or 0][::-1] + text[end - 1]
            found += [(end - len(other), other) for other in self._ending[word]]
            match = self._pattern.search(backwards, match.end())
        return found


def _pattern(words: list[str]) -> re.Pattern[str] | None:
    """Return a pattern of the first character of any word, with the rest of the longest word as its group."""
    rests: dict[str, list[str]] = {}
    for word in words:
        rests.setdefault(word[0], []).append(word[1:])
    often = sorted(rests, key=lambda pivot: -SHARE.get(pivot, RARE))
    return re.compile("|".join(f"{re.escape(c)}(?=({_trie(rests[c])}))" for c in often)) if words else None


def _trie(words: Iterable[str]) -> str:
    rests: dict[str, list[str]] = {}
    whole = False
    for word in words:
        if word:
            rests.setdefault(word[0], []).append(word[1:])
        else:
            whole = True
    if not rests:
        return ""
    branches = [re.escape(first) + _trie(others) for first, others in sorted(rests.items())]
    return f"(?:{'|'.join(branches)})" + "?" * whole
