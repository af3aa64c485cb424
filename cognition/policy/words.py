"""A command as its words, which is what reading a command line comes to."""

from __future__ import annotations

from typing import NamedTuple

from cognition.policy.texts import folded

Words = tuple[str | None, ...]
"""After quotes and escapes are removed; None where the shell, or a program, would put something else in its place."""


class UnsureError(Exception):
    """What a command line runs can't be said for certain. Never leaves this room."""


class Command(NamedTuple):
    """One command that is run."""

    words: Words
    program: str
    """The first word, as ``program_of`` has it."""
    assigned: bool = False
    """Whether variables are set for it, which may change what it runs."""
    carries: bool = False
    """Whether all that it does is to run the command after it: what is allowed need not name it."""


def program_of(word: str | None) -> str:
    """A program's name as prohibitions know it, whatever its path; empty where it can't be said."""
    name = word or ""
    if "/" in name:
        name = name.rsplit("/", 1)[1]
    return folded(name).removesuffix(".exe")
