"""Texts against patterns: word boundaries, stars, and letters that some systems take for each other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from unicodedata import category, normalize

from attrs import frozen

from cognition.policy.patterns import NO, YES, Pattern

BREAK = re.compile(r"\W")
HOST = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://[^/?#\\@\s\x00-\x20]*)(?=/)")
"""An address up to the end of its host."""
ENDS_ALLOWED = frozenset(" \t\n/?#")
"""What may follow a beginning that is allowed: a word or a part of an address ends there. A host name, which could go
on with a dot or be a user's name before an ``@``, doesn't."""


def folded(text: str) -> str:
    """A text without what some systems don't tell apart: case, width, composition, letters that nobody sees."""
    if text.isascii():
        return text.lower()
    plain = normalize("NFKC", text).casefold()
    return normalize("NFKC", "".join([letter for letter in plain if category(letter) != "Cf"]))


def composed(text: str) -> str:
    return text if text.isascii() else normalize("NFC", text)


def fits(parts: Sequence[str], text: str) -> bool:
    """Whether a text is these parts with anything between them: the pieces of a pattern between its stars.

    Takes time in proportion to the text, whatever the pattern.
    """
    first, last = parts[0], parts[-1]
    if len(parts) == 1:
        return text == first
    end = len(text) - len(last)
    if len(first) > end or not text.startswith(first) or not text.endswith(last):
        return False
    at = len(first)
    for part in parts[1:-1]:
        at = text.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True


@frozen
class TextPattern:
    """A pattern's argument for the texts among a call's arguments."""

    allowed: tuple[str, ...]
    """Pieces between stars, as allowances compare them."""
    forbidden: tuple[str, ...]
    """The same, as prohibitions do."""
    prefix: bool
    host: tuple[str, ...] = ()
    """The pieces up to the end of an address's host, where that has a star: it stands for no other host."""

    @classmethod
    def of(cls, pattern: Pattern) -> TextPattern:
        parts = pattern.argument.split("*")
        found = HOST.match(pattern.argument)
        host = tuple(found.group(1).split("*")) if found and "*" in found.group(1) else ()
        return cls(tuple(parts), tuple(folded(pattern.argument).split("*")), pattern.prefix, host)

    @property
    def keys(self) -> tuple[str, ...]:
        """The first word of every text that it can match, where that can be said."""
        return (run_of(self.forbidden[0]),) if len(self.forbidden) == 1 else ()

    def prohibits(self, subject: tuple[str, str]) -> int:
        """As in ``CommandPattern``, for a text and its folded form."""
        text, parts = subject[1], self.forbidden
        beginning = parts[0]
        if not self.prefix:
            found = fits(parts, text)
        elif len(parts) > 1:
            found = fits((*parts, ""), text)
        else:
            found = text.startswith(beginning) and _ends(beginning, text[len(beginning) : len(beginning) + 1])
        return YES if found else NO

    def covers(self, subject: tuple[str, str]) -> bool:
        text, parts = subject[0], self.allowed
        if self.host:
            found = HOST.match(text)
            rest = len("*".join(self.host))
            if found is None or self.prefix or not fits(self.host, found.group(1)):
                return False
            return fits("*".join(parts)[rest:].split("*"), text[found.end(1) :])
        if not self.prefix:
            return fits(parts, text)
        if len(parts) > 1:
            return False  # where a star ends nobody can say, and so neither what follows it
        beginning = parts[0]
        following = text[len(beginning) : len(beginning) + 1]
        return text.startswith(beginning) and (
            not following or following in ENDS_ALLOWED or beginning[-1] in ENDS_ALLOWED
        )


def run_of(text: str) -> str:
    """The word characters that a text begins with."""
    return BREAK.split(text, maxsplit=1)[0]


def _ends(beginning: str, following: str) -> bool:
    """Whether a word ends between the two."""
    return not (_in_word(beginning[-1]) and _in_word(following))


def _in_word(letter: str) -> bool:
    return letter.isalnum() or letter == "_"
