"""Text from users, files, tools and recordings can't become control tokens or markers.

A template gets content and puts it among markers of its own; afterwards nobody can tell which is which. So content is
given to it with *marks*: one before each character without which the content could write no marker (see ``Shield``).
They are taken out of what the template wrote (``separated``), and tell which of the markers in it hold a character of
content. Those are tokenised in parts (``prompt_tokens``), which are text to any tokenizer.

Since a mark only stands between two characters, a template does with the content what it always does: it trims it,
writes it as JSON or for HTML, puts others around it. A prompt whose markers are all the template's own is tokenised in
one piece, exactly as it would be without this module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any

from runtime.templates.markers import Markers

LEAD, MARKING, ITSELF = "\ufdef", "\ufded", "\ufdee"
"""Characters that Unicode keeps for a program's own use (noncharacters). ``LEAD`` in content is written with ``ITSELF``
behind it, so that none is mistaken for a mark."""

MARK = LEAD + MARKING

TAKEN = re.compile(rf"({LEAD})|\\(?=[uU][fF][dD][eE][fF])")
"""What a content can hold that looks like a mark, or will once the content is written as ASCII."""

MARKS = re.compile(rf"({LEAD}|\\ufdef)(?:({MARKING}|\\ufded)|(?:{ITSELF}|\\ufdee))")
"""What ``Shield`` has put in; templates that write JSON in ASCII, or a value as Python does, write it with escapes."""

VISIBLE = re.compile(r"\S")

REMEMBERED_TEXTS, LONGEST_REMEMBERED = 4096, 2048
"""How many texts one shield keeps with their marks, and the length of the longest of them, in characters."""

SCHEMA_WORDS = frozenset(
    "type properties required items enum description title default const format additionalProperties anyOf oneOf allOf "
    "not $ref $defs definitions pattern minimum maximum minLength maxLength minItems maxItems uniqueItems examples "
    "nullable".split()
)
TYPES = frozenset("string number integer boolean object array null".split())
"""Words of JSON Schema, which templates look up and compare: where they are such, no mark stands in them."""

NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions"})
"""Members of a schema whose own members have names that anybody may choose."""


class Shield:
    """Puts marks into the content of requests.

    A marker can come to hold a content's character in four ways, and in each there is a mark before one of these:
    all of it stands in the content; it begins at the content's end, or ends at its start, where another content or the
    template's own text goes on; or the template writes both of its ends around the whole content. Spaces at either end
    don't count, since templates trim. Where a content holds what the template takes out, or cuts it at (``/no_think``),
    there is one before every character of the rest.
    """

    def __init__(self, markers: Markers) -> None:
        self._known = lru_cache(REMEMBERED_TEXTS)(partial(_with_marks, markers))
        self._markers = markers

    def text(self, content: str) -> str:
        """The content with its marks; the same where it can write no marker.

        Each step of a session shows what the one before has shown, so what was marked lately is known.
        """
        return self._known(content) if len(content) <= LONGEST_REMEMBERED else _with_marks(self._markers, content)

    def data(self, value: Any) -> Any:
        """The same for all texts in JSON data, keys included."""
        match value:
            case str():
                return self.text(value)
            case Mapping():
                return {self.text(str(key)): self.data(item) for key, item in value.items()}
            case list() | tuple():
                return [self.data(item) for item in value]
            case _:
                return value

    def schema(self, value: Any, place: str = "") -> Any:
        """The same for a JSON Schema, whose own words stay as they are. ``place``: the key of the value."""
        match value:
            case str():
                return value if place == "type" and value in TYPES else self.text(value)
            case Mapping() if place in NAMED:
                return {self.text(str(key)): self.schema(item) for key, item in value.items()}
            case Mapping():
                return {
                    key if key in SCHEMA_WORDS else self.text(str(key)): self.schema(item, key)
                    for key, item in value.items()
                }
            case list() | tuple():
                return [self.schema(item, place) for item in value]
            case _:
                return value


def _with_marks(markers: Markers, content: str) -> str:
    """See ``Shield.text``."""
    marked = {start + 1 for start, _ in markers.hidden.spans(content)}
    if (visible := VISIBLE.search(content)) is not None:
        # Never before a space at either end: a template that trims would leave the mark to what comes next.
        first, last = visible.start(), len(content.rstrip()) - 1
        bare = content[first : last + 1]
        if markers.ends_in(bare) or markers.completed_by(bare):
            marked.add(first)
        if markers.begins_in(bare):
            marked.add(last)
    marked |= markers.beside_gone(content)
    if not marked and not TAKEN.search(content):
        return content
    made, before = list[str](), 0
    for place in (*sorted(marked), len(content)):
        made.append(TAKEN.sub(_as_itself, content[before:place]))
        before = place
    return MARK.join(made)


def _as_itself(found: re.Match[str]) -> str:
    return LEAD + ITSELF if found[1] else "\\" + MARK


def separated(text: str) -> tuple[str, tuple[int, ...]]:
    """What a template wrote without the marks, and the places of the characters that had one before them."""
    if LEAD not in text and "\\ufdef" not in text:
        return text, ()
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
