"""A command as its words: the result of parsing a command line."""

from __future__ import annotations

from typing import NamedTuple

from cognition.policy._text_patterns import fold_text

Words = tuple[str | None, ...]
"""Words without quotes and escapes; None if the shell or a program would expand the word."""


class UnsureError(Exception):
    """It is uncertain which commands a line runs. Internal to this package."""


class Command(NamedTuple):
    """A command that runs."""

    words: Words
    program: str
    """The program, from ``program_of`` of the first word."""
    assigned: bool = False
    """Whether variables are set for it, which may change the commands it runs."""
    carries: bool = False
    """Whether it only runs the command after it, so that an allow rule need not name it."""


def program_of(word: str | None) -> str:
    """Return a program's name as deny rules compare it, without its path; empty if unknown."""
    name = word or ""
    if "/" in name:
        name = name.rsplit("/", 1)[1]
    return fold_text(name).removesuffix(".exe")
