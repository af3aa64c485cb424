"""Secrets found automatically: the formats of the table, and values after a name, a header or a command."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, lru_cache

from attrs import field, frozen

from cognition import ConfigError
from cognition.base.checking import checked
from interpreters.recording.secrets._contexts import BEGINS, CONTEXTS, ELSEWHERE, RUNS, RUNS_ELSEWHERE
from interpreters.recording.secrets._scanner import LONG, Words, has_runs, marked_runs_in, runs_in
from interpreters.recording.secrets.formats import FORMATS, SecretFormat

NAME = re.compile(r"[A-Za-z0-9_.-]+")
"""Allowed name of a secret or of its kind, for use in the placeholder."""

MARKS = frozenset(".+/=~$")
"""Characters that only some issuers use in keys."""

CUT = 8
"""Minimum characters after the prefix for a key that the end of its text cuts."""


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
        pattern = re.compile(self.pattern)  # `re` keeps what it has compiled
        group = "secret" if "secret" in pattern.groupindex else 0
        for match in pattern.finditer(text):
            yield Found(*match.span(group), self.kind)


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


class _Pattern:
    """A shape's pattern, compiled when its word first occurs. A session needs few of them."""

    def __init__(self, shape: SecretShape) -> None:
        self._shape = shape
        self.kind = shape.kind

    @cached_property
    def match(self) -> Callable[[str, int], re.Match[str] | None]:
        return re.compile(self._shape.pattern).match

    @cached_property
    def group(self) -> str | int:
        return "secret" if "(?P<secret>" in self._shape.pattern else 0


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
            for start, end in runs_in(text, codes):
                hits += [(start + place, word) for place, word in in_runs.all_in(text[start:end])]
            for start, end in marked_runs_in(text, codes):
                hits += [(start + place, word) for place, word in marked.all_in(text[start:end])]
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
                        begin, end = match.span(pattern.group)
                        ends[pattern] = end
                        found.append(Found(begin, end, pattern.kind))
            if word in self._elsewhere:
                elsewhere.update(dict.fromkeys(self._elsewhere[word]))
        return found + [one for shape in elsewhere for one in shape.find(text)]


@lru_cache(maxsize=8)
def finder_of(shapes: tuple[SecretShape, ...]) -> Finder:
    """Return the finder of these shapes; cached, since creating one takes some milliseconds."""
    return Finder(shapes)
