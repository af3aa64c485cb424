"""Finds where any of many words stands in a text, at a price that hardly depends on how many there are.

One pattern runs from one possible last character of a word to the next, and there a trie says whether a word ends.
Prefixes of keys end alike (``ghp_``, ``sk-``) and begin in a hundred ways, so that there are few such characters;
and since a trie reads forwards, the text is read backwards. The price grows with how many last characters there are
and how often they stand in texts. So names such as ``password`` are looked for by a part that ends in a rare one
(``passw``), and the hundreds of prefixes only around what may be a key: a run of ``RUN`` letters, digits, ``_`` and
``-``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from operator import methodcaller

SHARE = dict.fromkeys("etaoinsrhldcu", 5.0) | dict.fromkeys("mfpgwyb0123456789", 2.5) | dict.fromkeys("_-.=/:vk", 1.0)
"""How many of a hundred characters of code, logs and prose are this one, roughly."""
RARE = 0.4
"""The same of any other."""


RUN = 16
"""Characters that keys have in a row at least, and few words of code and prose do."""
LONG = 30
"""The same of keys in base64, in which ``+`` and ``/`` break such runs."""
BEFORE = 28
"""Characters before a run in which its prefix may stand."""
ENDING = 10
"""Characters in a row at the end of a text that may be a key which was cut off."""
_CLASSES = bytes(97 if chr(code).isalnum() or code in b"_-" else 32 for code in range(128)).ljust(256, b" ")
_END = b"a" * ENDING
_RUN = re.compile(b"a" * RUN + b"a*")  # a literal, which is looked for faster than a repetition
_BASE64 = bytes(97 if chr(code).isalnum() or code in b"+/" else 32 for code in range(128)).ljust(256, b" ")
_LONG = re.compile(b"a" * LONG + b"a*")
MARKED = 18
"""Characters in a row of a key in which rarer marks (``.+/=~$``) stand too, its prefix included."""
_MARKS = bytes(97 if chr(code).isalnum() or code in b"_-.+/=~$" else 32 for code in range(128)).ljust(256, b" ")
_MARKED_RUN = b"a" * MARKED
_MARKED = re.compile(_MARKED_RUN + b"a*")
_MIXED = re.compile(r"[0-9]|[A-Z][^A-Z]*[A-Z]")
"""What stands in such a run that is no path of directories and no chain of names."""
_LIKELY = re.compile(r"[0-9]|[A-Za-z]{14}|[a-z][A-Z]|[A-Z]{2}[a-z]|[A-Z]-?[A-Z]{6}")
"""What stands in a run that is no name of a variable and no line of hyphens."""


def has_runs(codes: bytes) -> bool:
    """Whether any run may be there: those at a text's end are the shortest, and of all the characters that any run is
    made of, the marked ones have most. In short texts there hardly ever is one, and that is found out in one look.
    """
    return _END in codes.translate(_MARKS)


def runs_in(text: str, codes: bytes) -> list[tuple[int, int]]:
    """Where keys may stand: around each run, and at the end of each text, where one may be cut off.

    ``codes`` has a byte for each character.
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
    """Where a text ends with what may be a key that was cut off there."""
    end = len(text)
    while end >= 0:
        if classes[max(end - ENDING, 0) : end] == _END:
            yield max(end - BEFORE, 0), end
        end = text.rfind("\0", 0, end)


def marked_runs_in(text: str, codes: bytes) -> list[tuple[int, int]]:
    """Where keys may stand that rarer marks break up, with their prefixes."""
    classes = codes.translate(_MARKS)
    if _MARKED_RUN not in classes:
        return []
    runs = map(_span, _MARKED.finditer(classes))
    return [(start, end) for start, end in runs if _MIXED.search(text, start, end)]


_span = methodcaller("span")


class Words:
    """Literals that are looked for together."""

    def __init__(self, words: Iterable[str]) -> None:
        words = tuple(dict.fromkeys(words))
        self._pattern = _pattern([word[::-1] for word in words])
        self._ending = {word: tuple(other for other in words if word.endswith(other)) for word in words}
        """The words with which a word ends: all of them are there where the longest is."""

    def all_in(self, text: str) -> list[tuple[int, str]]:
        """Each word that stands in the text, with its place; from the text's end to its beginning."""
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
    """Matches the first character of one of the words, and has the rest of the longest one as its group."""
    rests: dict[str, list[str]] = {}
    for word in words:
        rests.setdefault(word[0], []).append(word[1:])
    often = sorted(rests, key=lambda pivot: -SHARE.get(pivot, RARE))
    return re.compile("|".join(f"{re.escape(c)}(?=({_trie(rests[c])}))" for c in often)) if words else None


def _trie(words: Iterable[str]) -> str:
    """A pattern of the longest of the words, without trying one after the other."""
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
