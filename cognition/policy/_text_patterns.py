"""Match texts with patterns: word boundaries, stars, and characters that some systems treat as equal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from unicodedata import category, normalize

from attrs import frozen

from cognition.policy.rule_patterns import NO, YES, Pattern

WORDS = re.compile(r"(\w*)(?:\W+\w+)?")
"""The first word of a text, and with the second one."""
HOST = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://[^/?#\\@\s\x00-\x20]*)(?=/)")
"""A URL up to the end of its host."""
ENDS_ALLOWED = frozenset(" \t\n/?#")
"""Characters that may follow an allowed beginning: they end a word or a part of a URL. A host name could continue with
a dot, or be a user name before an ``@``.
"""


def fold_text(text: str) -> str:
    """Return a text without differences that some systems ignore: case, width, composition, invisible characters."""
    if text.isascii():
        return text.lower()
    plain = normalize("NFKC", text).casefold()
    return normalize("NFKC", "".join([letter for letter in plain if category(letter) != "Cf"]))


def compose_text(text: str) -> str:
    return text if text.isascii() else normalize("NFC", text)


def fits(parts: Sequence[str], text: str) -> bool:
    """Return whether a text consists of these parts, a pattern's pieces between stars, with any text between them.

    The time is proportional to the text's length, for any pattern.
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
    """A pattern's argument for the texts in a call's arguments."""

    allowed: tuple[str, ...]
    """Pieces between stars, in the form for allow rules."""
    forbidden: tuple[str, ...]
    """The same, in the form for deny and ask rules."""
    prefix: bool
    host: tuple[str, ...] = ()
    """The pieces up to the end of a URL's host, if it contains a star: the star must not match beyond the host."""

    @classmethod
    def of(cls, pattern: Pattern) -> TextPattern:
        parts = pattern.argument.split("*")
        found = HOST.match(pattern.argument)
        host = tuple(found.group(1).split("*")) if found and "*" in found.group(1) else ()
        return cls(tuple(parts), tuple(fold_text(pattern.argument).split("*")), pattern.prefix, host)

    @property
    def keys(self) -> tuple[str, ...]:
        """The longest key of ``keys_of`` that every text has which it can match."""
        return keys_of(self.forbidden[0])[-1:] if len(self.forbidden) == 1 else ()

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


def keys_of(text: str) -> tuple[str, ...]:
    """Return the first word of a text, and the text up to the end of the second word, if there is one."""
    first, both = WORDS.match(text).group(1, 0)  # type: ignore[union-attr]  # it matches nothing as well
    return (first,) if first == both else (first, both)


def _ends(beginning: str, following: str) -> bool:
    return not (_in_word(beginning[-1]) and _in_word(following))


def _in_word(letter: str) -> bool:
    return letter.isalnum() or letter == "_"
