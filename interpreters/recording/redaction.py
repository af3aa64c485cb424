"""Redaction: secrets that stay out of recordings, found by shape, by the program's own patterns or by name.

The package ``secrets`` contains the shapes as data: ``_formats`` is a table of keys with a recognizable format,
``_contexts`` the texts that precede a secret. All match in time linear in the text, because tools return texts from
strangers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import Attribute, field, frozen

from cognition import ConfigError
from cognition.base.checking import checked
from interpreters.recording.secrets.shapes import (
    NAME,
    SECRET_SHAPES as SECRET_SHAPES,
    Finder,
    Found as Found,
    SecretShape as SecretShape,
    finder_of,
)

Find = Callable[[str], Iterable[Found]]


def _check_names(_instance: object, attribute: Attribute[Any], value: Mapping[str, str]) -> None:
    for name, text in value.items():
        if not NAME.fullmatch(name):
            raise ConfigError(f"{attribute.name}: {name!r}: use letters, digits, '_', '-' and '.'")
        if not text:
            raise ConfigError(f"{attribute.name}: {name} is empty")


@checked
@frozen(eq=False)
class Redaction:
    """The secrets to hide in a recording. The running session continues to use the real texts.

    Raises:
        ConfigError: a name or a pattern is invalid.
    """

    secrets: Mapping[str, str] = field(factory=dict, validator=_check_names, repr=False)
    """Secrets known to the program, by name. They are found in any usual encoding, such as escapes, base64 and
    hexadecimal. Pass them again at a resume to restore them.
    """
    patterns: Mapping[str, str] = field(factory=dict, validator=_check_names)
    """Regular expressions by the kind of secret that they find: the group ``secret``, or the whole match. In the
    arguments of calls, each text is matched separately.
    """
    find: Find | None = None
    """Function that returns the secrets of a text, if patterns are not sufficient."""
    shapes: tuple[SecretShape, ...] = SECRET_SHAPES
    """Shapes of secrets that are found automatically; ``()`` for none."""
    _own: tuple[SecretShape, ...] = field(init=False, repr=False)
    _finder: Finder = field(init=False, repr=False)

    @_own.default
    def _own_patterns(self) -> tuple[SecretShape, ...]:
        for kind, pattern in self.patterns.items():
            try:
                re.compile(pattern)
            except re.error as error:
                raise ConfigError(f"patterns: {kind}: {error} in {pattern!r}") from error
        return tuple(SecretShape(kind, pattern, ()) for kind, pattern in self.patterns.items())

    @_finder.default
    def _make_finder(self) -> Finder:
        return finder_of(self.shapes)

    def may_be_in(self, text: str) -> bool:
        """Whether a closer look is necessary. The text may be several texts joined by NUL."""
        return bool(self._own) or self.find is not None or bool(self._finder.find(text))

    def find_shapes(self, text: str) -> list[Found]:
        """Return the secrets found by shape, in any order; they may overlap."""
        return self._finder.find(text)

    def find_secrets(self, text: str) -> list[Found]:
        """Return the secrets of a text in order, without overlaps and without those known by name."""
        found = self.find_shapes(text)
        found += [one for shape in self._own for one in shape.find(text)]
        if self.find is not None:
            found += [Found(max(one.start, 0), min(one.end, len(text)), one.kind) for one in self.find(text)]
        return merge_overlaps(found)


def merge_overlaps(found: list[Found]) -> list[Found]:
    """Return the findings in order, with overlapping ones merged. If two have the same extent, the first gives the
    kind.
    """
    merged: list[Found] = []
    for one in sorted(found, key=lambda one: (one.start, -one.end)):
        if merged and one.start < merged[-1].end:
            if one.end > merged[-1].end:
                merged[-1] = Found(merged[-1].start, one.end, merged[-1].kind)
        elif one.start < one.end:
            merged.append(one)
    return merged
