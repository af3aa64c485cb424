"""Secrets found automatically: the formats of the table, and values after a name, a header or a command.

All words that a secret may begin with are searched together, at a cost almost independent of their number. One pattern
jumps between possible last characters of a word, where a trie checks whether a word ends. Prefixes of keys have few
different ends (``ghp_``, ``sk-``) and hundreds of beginnings, so there are few such characters. Since a trie reads
forwards, the text is read backwards. The cost grows with the number of last characters and their frequency in texts. So
names such as ``password`` are searched by a part that ends in a rare character (``passw``). The hundreds of prefixes
are searched only around a possible key: a run of ``RUN`` letters, digits, ``_`` and ``-``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, lru_cache
from operator import methodcaller

from attrs import field, frozen

from cognition import ConfigError
from cognition.base.checking import checked
from interpreters.recording.secrets._contexts import BEGINS, CONTEXTS, ELSEWHERE, RUNS, RUNS_ELSEWHERE
from interpreters.recording.secrets.formats import FORMATS, SecretFormat

NAME = re.compile(r"[A-Za-z0-9_.-]+")
"""Allowed name of a secret or of its kind, for use in the placeholder."""

MARKS = frozenset(".+/=~$")
"""Characters that only some issuers use in keys."""

CUT = 8
"""Minimum characters after the prefix for a key that the end of its text cuts."""

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


@frozen
class Found:
    """A secret in a text: ``text[start:end]``. Raises ``ConfigError`` for a kind that a placeholder can't contain."""

    start: int
    end: int
    kind: str = field(default="secret")

    @kind.validator
    def _check_kind(self, _attribute: object, value: str) -> None:
        if not NAME.fullmatch(value):
            raise ConfigError(f"kind {value!r}: use letters, digits, '_', '-' and '.'")


@checked
@frozen
class SecretShape:
    """A kind of secret that is recognizable by its form."""

    kind: str
    pattern: str
    """A regular expression, compiled at its first use. Its group ``secret`` is hidden, or else the whole match."""
    anchors: tuple[str, ...]
    """Every match must contain at least one of these texts. Searching them first takes a fraction of the time."""
    leading: bool = False
    """Whether each match begins with an anchor, so that the pattern is tried only there."""
    run: bool = False
    """Whether each match has 16 consecutive letters, digits, ``_`` and ``-`` (or 30 characters of base64), so that only
    such runs are searched.
    """
    marked: bool = False
    """Whether one of ``.+/=~$`` may break such a run, so that longer runs with these characters are searched too."""

    def find(self, text: str) -> Iterator[Found]:
        for match in re.finditer(self.pattern, text):  # `re` keeps what it has compiled
            yield Found(*_secret_span(match), self.kind)


def _secret_span(match: re.Match[str]) -> tuple[int, int]:
    return match.span("secret" if "secret" in match.re.groupindex else 0)


def secret_shape(row: SecretFormat) -> SecretShape:
    """Return a row of the table as a shape."""
    prefixes = tuple(row.prefixes.split())
    before = BEGINS if row.alone else ""
    mixed = rf"(?=[{row.alphabet}]{{0,200}}?\d)" if row.mixed else ""
    many = f"{{{row.length}}}(?![{row.alphabet}])" if row.exact else f"{{{row.length},}}"
    short = rf"|[{row.alphabet}]{{{CUT},}}(?=\x00|\Z)" if row.length > CUT and not row.exact else ""
    begins = "|".join(map(re.escape, prefixes))
    pattern = f"{before}(?:{begins}){mixed}(?:[{row.alphabet}]{many}{short})"
    run = "+" not in row.alphabet or row.length >= LONG  # else a key of them may have no run
    return SecretShape(
        "api_key", pattern, prefixes, leading=True, run=run, marked=run and not MARKS.isdisjoint(row.alphabet)
    )


SECRET_SHAPES: tuple[SecretShape, ...] = (
    *map(secret_shape, FORMATS),
    *(SecretShape(kind, pattern, words, leading=True) for kind, pattern, words in CONTEXTS),
    *(SecretShape(kind, pattern, words, leading=True, run=True) for kind, pattern, words in RUNS),
    *(SecretShape(kind, pattern, words) for kind, pattern, words in ELSEWHERE),
    *(SecretShape(kind, pattern, words, run=True) for kind, pattern, words in RUNS_ELSEWHERE),
)


# -------------------------------------------------------------------------------------------------- words and runs


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


# --------------------------------------------------------------------------------------------------------- finding


class _Pattern:
    """A shape's pattern, compiled when its word first occurs. A session needs few of them."""

    def __init__(self, shape: SecretShape) -> None:
        self._shape = shape
        self.kind = shape.kind

    @cached_property
    def match(self) -> Callable[[str, int], re.Match[str] | None]:
        return re.compile(self._shape.pattern).match


class Finder:
    """Finds secrets of many shapes in one pass."""

    def __init__(self, shapes: Iterable[SecretShape]) -> None:
        self._leading: dict[str, list[_Pattern]] = {}
        self._elsewhere: dict[str, list[SecretShape]] = {}
        self._always: list[SecretShape] = []
        self._in_runs: dict[str, None] = {}
        self._marked: dict[str, None] = {}
        self._anywhere: dict[str, None] = {}
        for shape in shapes:
            pattern = _Pattern(shape)
            if not shape.anchors:
                self._always.append(shape)
            for anchor in shape.anchors:
                word = anchor if shape.run else anchor.lower()
                (self._in_runs if shape.run else self._anywhere)[word] = None
                if shape.marked:
                    self._marked[word] = None
                if shape.leading:
                    self._leading.setdefault(word, []).append(pattern)
                else:
                    self._elsewhere.setdefault(word, []).append(shape)

    @cached_property
    def _words(self) -> tuple[Words, Words, Words]:
        return Words(self._anywhere), Words(self._in_runs), Words(self._marked)

    def find(self, text: str) -> list[Found]:
        """Return the secrets of a text, in any order; they may overlap.

        A text without secrets takes about 20 nanoseconds per character.
        """
        found = [one for shape in self._always for one in shape.find(text)] if self._always else []
        anywhere, in_runs, marked = self._words
        codes = text.encode("latin-1", "replace")  # a byte for each character, whatever it is
        hits = anywhere.all_in(codes.lower().decode("latin-1"))
        if has_runs(codes):
            for words, ranges in ((in_runs, runs_in(text, codes)), (marked, marked_runs_in(text, codes))):
                for start, end in ranges:
                    hits += [(start + place, word) for place, word in words.all_in(text[start:end])]
        if not hits:
            return found
        hits.sort()
        elsewhere: dict[SecretShape, None] = {}
        ends: dict[_Pattern, int] = {}
        for start, word in hits:
            for pattern in self._leading.get(word, ()):
                if start >= ends.get(pattern, 0):  # else it stands in what was found, and would run to the same end
                    match = pattern.match(text, start)
                    if match is not None:
                        begin, end = _secret_span(match)
                        ends[pattern] = end
                        found.append(Found(begin, end, pattern.kind))
            if word in self._elsewhere:
                elsewhere.update(dict.fromkeys(self._elsewhere[word]))
        return found + [one for shape in elsewhere for one in shape.find(text)]


@lru_cache(maxsize=8)
def finder_of(shapes: tuple[SecretShape, ...]) -> Finder:
    """Return the finder of these shapes; cached, since creating one takes some milliseconds."""
    return Finder(shapes)
