"""Prevents text from users, files, tools and recordings from becoming control tokens or markers.

A template puts content among its markers, and its output does not show the difference. So the content gets *marks*: one
before each character that a marker in the content would need (see ``Shield``). ``separate_marks`` removes them from the
output, and returns the marked characters. A marker with such a character comes from content. It is tokenised in parts
(``prompt_tokens``), which are text to any tokenizer.

A mark is only between two characters, so a template handles the content as usual: it trims it, writes it as JSON or
HTML, or puts other text around it. A prompt without markers from content is tokenised in one piece, exactly as without
this module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from itertools import pairwise
from typing import Any

from cognition.base.strict_json import DEEPEST_MESSAGE
from runtime.templates.markers import Markers

LEAD, MARKING, ITSELF = "\ufdef", "\ufded", "\ufdee"
"""Characters that Unicode reserves for internal use (noncharacters). ``ITSELF`` follows each ``LEAD`` in content, so
that none looks like a mark.
"""

MARK = LEAD + MARKING

TAKEN = re.compile(rf"({LEAD})|\\(?=[uU][fF][dD][eE][fF])")
"""Content that looks like a mark, or will after the content is written as ASCII."""

WRITTEN_LEAD = r"\ufdef"
"""``LEAD`` as templates write it in ASCII."""

MARKS = re.compile(rf"({LEAD}|\\ufdef)(?:({MARKING}|\\ufded)|(?:{ITSELF}|\\ufdee))")
"""The insertions of ``Shield``. Templates that write JSON in ASCII, or Python's ``repr``, write them with escapes."""

VISIBLE = re.compile(r"\S")

REMEMBERED_TEXTS, LONGEST_REMEMBERED = 4096, 2048
"""The number of texts that one shield caches with their marks, and the length of the longest of them, in characters."""

SCHEMA_WORDS = frozenset(
    "type properties required items enum description title default const format additionalProperties anyOf oneOf allOf "
    "not $ref $defs definitions pattern minimum maximum minLength maxLength minItems maxItems uniqueItems examples "
    "nullable".split()
)
TYPES = frozenset("string number integer boolean object array null".split())
"""Words of JSON Schema, which templates look up and compare. They get no marks when used as such."""

NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions"})
"""Members of a schema whose own members have arbitrary names."""


class Shield:
    """Puts marks into the content of requests.

    A marker can contain a content's character in these cases, and each gets a mark before one of its characters:

    - the whole marker is in the content;
    - the marker begins at the content's end, or ends at its start, and other content or the template's text completes
      it;
    - the template writes both ends of the marker around the whole content.

    Spaces at either end don't count, since templates trim. If a template removes texts from the content or cuts it at
    them (``/no_think``), every character of the rest gets a mark.
    """

    def __init__(self, markers: Markers) -> None:
        self._markers = markers
        self._known: dict[str, str] = {}
        """Recent contents, oldest first, with their marks: each step of a session repeats those of the previous one."""

    def text(self, content: str) -> str:
        """Return the content with its marks; unchanged if it can't write a marker."""
        known = self._known.get(content)
        if known is not None:
            return known
        marked = self._places(content)
        made = content
        if marked or TAKEN.search(content):
            cuts = [0, *sorted(marked), len(content)]
            made = MARK.join([TAKEN.sub(_as_itself, content[start:end]) for start, end in pairwise(cuts)])
        if len(content) <= LONGEST_REMEMBERED:
            if len(self._known) >= REMEMBERED_TEXTS:
                with suppress(KeyError, RuntimeError):  # another thread was first
                    del self._known[next(iter(self._known))]
            self._known[content] = made
        return made

    def _places(self, content: str) -> set[int]:
        """Return the characters of a content to put marks before."""
        markers = self._markers
        marked = {start + 1 for start, _ in markers.hidden.spans(content)}
        if (visible := VISIBLE.search(content)) is not None:
            # Never before a space at either end: a template that trims would leave the mark to what comes next.
            first, last = visible.start(), len(content.rstrip()) - 1
            bare = content[first : last + 1]
            if markers.ends_in(bare) or markers.completed_by(bare):
                marked.add(first)
            if markers.begins_in(bare):
                marked.add(last)
        return marked | markers.beside_removed(content)

    def data(self, value: Any, depth: int = 0) -> Any:
        """Return the same for all texts in JSON data, including keys.

        Raises:
            RecursionError: it is nested in more than ``DEEPEST_MESSAGE`` levels.
        """
        _check_depth(depth)
        match value:
            case str():
                return self.text(value)
            case Mapping():
                return {self.text(str(key)): self.data(item, depth + 1) for key, item in value.items()}
            case list() | tuple():
                return [self.data(item, depth + 1) for item in value]
            case _:
                return value

    def schema(self, value: Any, place: str = "", depth: int = 0) -> Any:
        """Return the same for a JSON Schema; schema keywords stay unmarked. ``place``: the key of the value.

        Raises:
            RecursionError: as ``data``.
        """
        _check_depth(depth)
        match value:
            case str():
                return value if place == "type" and value in TYPES else self.text(value)
            case Mapping() if place in NAMED:
                return {self.text(str(key)): self.schema(item, "", depth + 1) for key, item in value.items()}
            case Mapping():
                return {
                    key if key in SCHEMA_WORDS else self.text(str(key)): self.schema(item, key, depth + 1)
                    for key, item in value.items()
                }
            case list() | tuple():
                return [self.schema(item, place, depth + 1) for item in value]
            case _:
                return value


def _check_depth(depth: int) -> None:
    """Refuse the same on every Python, whose own limits differ."""
    if depth > DEEPEST_MESSAGE:
        raise RecursionError(f"nested in more than {DEEPEST_MESSAGE} levels")


def _as_itself(found: re.Match[str]) -> str:
    return LEAD + ITSELF if found[1] else "\\" + MARK


def separate_marks(text: str) -> tuple[str, tuple[int, ...]]:
    """Return a template's output without the marks, and the positions of the marked characters."""
    kept, marked, before, length = list[str](), list[int](), 0, 0
    for found in MARKS.finditer(text):
        part = text[before : found.start()]
        if found[2] is None:
            part += found[1]
        kept.append(part)
        length += len(part)
        if found[2] is not None:
            marked.append(length)
        before = found.end()
    kept.append(text[before:])
    return "".join(kept), tuple(marked)
