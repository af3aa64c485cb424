"""What is kept out of recordings: secrets, found by their shape, by patterns of the program's own, or by name.

The shapes are data, in the room ``secrets``: ``formats`` is the table of keys that their issuers made to be found,
``contexts`` what stands before a secret. All are matched in time linear in the text: tools return what strangers wrote.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import Attribute, field, frozen

from cognition import ConfigError
from cognition.checking import checked
from interpreters.recording.secrets.shapes import (
    NAME,
    SHAPES as SHAPES,
    Finder,
    Found as Found,
    Shape as Shape,
    finder_of,
)

Find = Callable[[str], Iterable[Found]]


def _check_names(_instance: object, attribute: Attribute[Any], value: Mapping[str, str]) -> None:
    for name, text in value.items():
        if not NAME.fullmatch(name):
            raise ConfigError(f"{attribute.name}: {name!r}: use letters, digits, '_', '-' and '.'")
        if not text:
            raise ConfigError(f"{attribute.name}: {name} is empty")


def _checked(patterns: Mapping[str, str]) -> tuple[Shape, ...]:
    for kind, pattern in patterns.items():
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigError(f"patterns: {kind}: {error} in {pattern!r}") from error
    return tuple(Shape(kind, pattern, ()) for kind, pattern in patterns.items())


@checked
@frozen(eq=False)
class Redaction:
    """What is not to stand in a recording. The running session goes on with the real texts.

    Raises:
        ConfigError: a name or a pattern can't be used.
    """

    secrets: Mapping[str, str] = field(factory=dict, validator=_check_names, repr=False)
    """Secrets that the program knows, by name; found in any usual writing, see ``secrets.writings``. Given again at a
    resume, they are known again there."""
    patterns: Mapping[str, str] = field(factory=dict, validator=_check_names)
    """Regular expressions by the kind of secret that they find: their group ``secret``, or the whole match. In the
    arguments of calls they are matched with each text for itself."""
    find: Find | None = None
    """Gives the secrets of a text, for what no pattern can find."""
    shapes: tuple[Shape, ...] = SHAPES
    """What is found without being told; ``()`` for nothing."""
    _own: tuple[Shape, ...] = field(init=False, repr=False)
    _finder: Finder = field(init=False, repr=False)

    @_own.default
    def _own_patterns(self) -> tuple[Shape, ...]:
        return _checked(self.patterns)

    @_finder.default
    def _shapes_together(self) -> Finder:
        return finder_of(self.shapes)

    def may_be_in(self, text: str) -> bool:
        """Whether it is worth looking closer; asked for several texts in one, with a NUL between them."""
        return bool(self._own) or self.find is not None or bool(self._finder.find(text))

    def shaped_in(self, text: str) -> list[Found]:
        """What is found by its shape, in any order; some may overlap."""
        return self._finder.find(text)

    def found_in(self, text: str) -> list[Found]:
        """The secrets of a text in order, none of which overlap; those known by name are not looked for here."""
        found = self.shaped_in(text)
        found += [one for shape in self._own for one in shape.find(text)]
        if self.find is not None:
            found += [Found(max(one.start, 0), min(one.end, len(text)), one.kind) for one in self.find(text)]
        return apart(found)


def apart(found: list[Found]) -> list[Found]:
    """In order, with those that overlap as one; of the same extent, the first that was found gives the kind."""
    merged: list[Found] = []
    for one in sorted(found, key=lambda one: (one.start, -one.end)):
        if merged and one.start < merged[-1].end:
            if one.end > merged[-1].end:
                merged[-1] = Found(merged[-1].start, one.end, merged[-1].kind)
        elif one.start < one.end:
            merged.append(one)
    return merged
