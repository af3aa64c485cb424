"""A command as its words: the result of parsing a command line."""

from __future__ import annotations

import re
from typing import NamedTuple

from cognition.policy._text_patterns import fold_text

Words = tuple[str | None, ...]
"""Words without quotes and escapes; None if the shell or a program would expand the word."""


DEVICE = re.compile(r"(?:^|/)(?:dev|proc)/")
VERSION = "0123456789.-"
"""Characters of a version."""
MACHINE = re.compile(r"^(?:c89-|c99-|\w+-linux-\w+-)|-\w+-linux-\w+$")
"""The machine that a program is for, or its language: ``x86_64-linux-gnu-gcc``, ``c99-gcc``."""
ABSOLUTE_DEVICE = re.compile(r"(?:^|[\s=:,@(])/[./]*(?:dev|proc)/")


class UnsureError(Exception):
    """It is uncertain which commands a line runs. Internal to this package."""


class UnreadableError(UnsureError):
    """The syntax of a line is unknown, so that reading ends here."""


class Command(NamedTuple):
    """A command that runs."""

    words: Words
    program: str
    """The program, from ``program_of`` of the first word."""
    altered: bool = False
    """Whether something before it may change its effect, so that no allow rule covers it: a variable, a directory
    outside of the root, an option of the program that runs it.
    """
    carries: bool = False
    """Whether it only runs the command after it, or enters a directory, so that an allow rule need not name it."""
    where: str | None = ""
    """Its directory, relative to the root: empty for the root itself, None if that is uncertain."""


class Mention(NamedTuple):
    """The names in a command's words. It may run any of them."""

    names: frozenset[str]
    """The names, in the form of ``program_of``."""
    open: bool = False
    """Whether it may run any other program as well."""
    globs: tuple[str, ...] = ()
    """Patterns of file names, with ``*`` for any text: a program may expand them to names."""


class CommandLine(NamedTuple):
    """The result of reading a command line."""

    commands: tuple[Command, ...]
    """At least all commands that run, unless ``unsure``; then those that could be read."""
    unsure: bool = False
    """Whether other commands may run."""
    mentions: tuple[Mention, ...] = ()
    """Further programs that the commands may run."""


def program_of(word: str | None) -> str:
    """Return a program's name as deny rules compare it, without its path; empty if unknown."""
    name = word or ""
    if "/" in name:
        name = name.rsplit("/", 1)[1]
    return fold_text(name).removesuffix(".exe")


def unversioned(program: str) -> str:
    """Return a program's name without a version at its end, and without a machine: ``python`` for ``python3.11``."""
    if "-" in program:
        program = MACHINE.sub("", program)
    return program.rstrip(VERSION) if program[-1:].isdigit() else program


def reads_input(word: str) -> bool:
    """Return whether a word may name the input of the program that opens it: ``-``, or a file of /dev or /proc."""
    if word == "-" or (word[:1] == "-" and len(word) > 2 and word[-1] == "-"):
        return True
    if "/" not in word:
        return False
    device = DEVICE if word[0] == "-" or ".." in word else ABSOLUTE_DEVICE
    return device.search(word) is not None
