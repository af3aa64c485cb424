"""Find commands in the arguments of other commands: ``env``, ``sudo``, ``bash -c``, ``find -exec`` and interpreters.

Every function here raises ``UnsureError`` for unknown syntax.
"""

from __future__ import annotations

import re

from cognition.policy._command import UnsureError, Words, program_of
from cognition.policy._programs import (
    BUNDLED,
    CARRIERS,
    CODE,
    INLINE,
    INLINE_LONG,
    RUNS_OTHERS,
    SHELL_FLAGS,
    SHELL_LONG_FLAGS,
    SHELLS,
    Carrier,
)

ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
VERSION = re.compile(r"[\d.]+$")
ONLY_TELL = frozenset({"--version", "-V", "--help", "-h"})
SED_FLAGS = re.compile(
    r"-[nrEsuz]+|-i[^e]*|--(?:quiet|silent|regexp-extended|separate|unbuffered|null-data|in-place(?:=.*)?)"
)
"""Options of sed without a separate value."""
SED_LINE = r"(?:\d+|\$|/(?:[^/\\\n\[]|\\[^\n])*+/)"
SED_PLAIN = re.compile(
    rf"\s*(?:{SED_LINE}(?:,{SED_LINE})?\s*!?\s*)?"
    r"(?:s([/|,#:@])(?:(?!\1)[^\\\n\[]|\\[^\n])*+\1(?:(?!\1)[^\\\n]|\\[^\n])*+\1[gpI\d]*+|[pdqQ=])\s*(?:;|$)"
)
"""Commands that substitute, print or delete lines; most scripts contain only these."""
SED_RUNS = re.compile(r"(?<![\w\s])[gpimIMw\d\s]*+e|(?:^|[\s;{},!/$\dIM])s\w|(?:^|[\s;{},!])\\\S")
"""Positions of a possible ``e`` command or flag, and delimiters chosen by the script, which can hide one."""
FROM_INPUT = ("/dev/", "/proc/")
HAS_CODE = {name: re.compile(pattern).search for name, pattern in CODE.items()}
SIGNS = frozenset("-+")
"""The first characters of a shell's options."""
OPTIONS_OF = {
    name: options | {one[:end] for one in options if one[:2] == "--" for end in range(3, len(one))}
    for name, options in RUNS_OTHERS.items()
}
"""The options with all beginnings of long options, which programs accept too."""
LETTERS_OF = {name: {one[1] for one in options if len(one) == 2} for name, options in RUNS_OTHERS.items()}
REPLACED = ("{}", "%")
"""The placeholders allowed for ``xargs -I``."""
CHECKED = INLINE.keys() | CODE.keys() | RUNS_OTHERS.keys() | {"sed", "gsed"}
"""Programs with arguments to check for code."""
READS_OTHERS = SHELLS | CARRIERS.keys() | INLINE.keys() | CODE.keys() | RUNS_OTHERS.keys() | {"eval", "find"}
"""Programs that run other programs named in their arguments."""


def require_known(word: str | None) -> str:
    if word is None:
        raise UnsureError
    return word


def script_of(words: Words) -> tuple[str | None, int]:
    """Return the script of a shell's ``-c`` (None for a script file), and the index of its word."""
    code, at = False, 1
    while at < len(words):
        word = require_known(words[at])
        if word[:1] not in SIGNS or len(word) == 1:
            break
        at += 1
        if word == "--":
            break
        if word not in SHELL_LONG_FLAGS:
            letters = word[1:]
            if letters == "o" or letters == "O":
                at += 1  # its value
            elif not SHELL_FLAGS.issuperset(letters):
                raise UnsureError
            code = code or "c" in letters
    operand = require_known(words[at]) if at < len(words) else ""
    if operand in ("", "-") or (not code and operand.startswith(FROM_INPUT)):
        raise UnsureError  # it reads its commands from its input
    return (operand if code else None), at


def command_of(name: str, words: Words) -> Words:
    """Return the command that a carrier runs; empty without one."""
    carrier, at = CARRIERS[name], 1
    while at < len(words):
        word = require_known(words[at])
        if word == "--":
            at += 1
            break
        if word[:1] == "-" and (len(word) > 1 or name == "env"):
            if carrier.asks and set(carrier.asks) & set(word):
                return ()
            at += _option(name, carrier, word, words[at + 1 : at + 2])
        elif carrier.assignments and ASSIGNMENT.match(word):
            at += 1
        else:
            break
    while carrier.assignments and at < len(words) and ASSIGNMENT.match(require_known(words[at])):
        at += 1  # behind "--"
    if carrier.assignments and at < len(words) and "=" in require_known(words[at]):
        raise UnsureError  # to `env` any name before it is one of a variable
    inner = words[at + carrier.operands :]
    if not carrier.more or not inner:
        return inner
    if program_of(inner[0]) in READS_OTHERS:
        raise UnsureError
    return (*inner, None)


def has_assignments(words: Words, inner: Words) -> bool:
    return any(word is not None and ASSIGNMENT.match(word) for word in words[1 : len(words) - len(inner)])


def _option(name: str, carrier: Carrier, word: str, following: Words) -> int:
    if word.startswith("--"):
        option, given, _ = word.partition("=")
        if option in carrier.long_values:
            return 1 if given else 2
        if option in carrier.long_flags and not given:
            return 1
        raise UnsureError
    for place, letter in enumerate(word[1:], 2):
        if letter in carrier.values:
            if (
                letter == "I"
                and name == "xargs"
                and (word[place:] or require_known((*following, "")[0])) not in REPLACED
            ):
                raise UnsureError
            return 1 if word[place:] else 2
        if letter not in carrier.flags:
            raise UnsureError
    return 1


def commands_of_find(words: Words) -> list[Words]:
    """Return the commands that ``find`` runs on its results."""
    found: list[Words] = []
    texts = [require_known(word) for word in words]
    at = 1
    while at < len(texts):
        begun, at = at + 1, at + 1
        if texts[begun - 1] in ("-exec", "-execdir", "-ok", "-okdir"):
            while at < len(texts) and texts[at] != ";" and (texts[at] != "+" or texts[at - 1] != "{}"):
                at += 1
            inner = texts[begun:at]
            if not inner or at == len(texts):
                raise UnsureError
            if program_of(inner[0]) in READS_OTHERS and any("{}" in word and word != "{}" for word in inner):
                raise UnsureError  # what is found would become a part of what is run
            found.append(tuple([None if word == "{}" else word for word in inner]))
    return found


def check_arguments(program: str, words: Words) -> None:
    """Check that a program's arguments contain no code and no command.

    Raises:
        UnsureError: they may contain some.
    """
    name = program
    if name not in CHECKED:
        if not name[-1].isdigit():
            return
        name = VERSION.sub("", name)
    if name in INLINE:
        _check_interpreter(INLINE[name], words)
    if name in ("sed", "gsed"):
        _check_sed(words)
    if (
        name == "git"
        and "clone" in words
        and any(word and word[0] == "-" != word[1:2] and "u" in word for word in words)
    ):
        raise UnsureError  # its `-u` is `--upload-pack`, and other commands' is something else
    if name in HAS_CODE:
        has_code = HAS_CODE[name]
        for word in words[1:]:
            if word is None and name.endswith("awk"):
                raise UnsureError
            if word is not None and has_code(word):
                raise UnsureError
    if name in RUNS_OTHERS:
        options, letters = OPTIONS_OF[name], LETTERS_OF[name]
        if name in BUNDLED and len(words) > 1 and letters & set(words[1] or "") and "/" not in (words[1] or ""):
            raise UnsureError
        for word in words[1:]:
            if not word:
                continue
            if word.partition("=")[0] in options or (word[0] == "-" != word[1:2] and not letters.isdisjoint(word[1:])):
                raise UnsureError


def _check_sed(words: Words) -> None:
    """Check that no sed script has the command ``e``, which runs a command, or the flag ``e`` of a substitution.

    Every possible script is checked: each word that may be an option's value, and the first other word.
    """
    may_be_taken, found = False, False
    for word in words[1:]:
        if word is None:
            raise UnsureError
        if word[:1] == "-" and len(word) > 1:
            if SED_FLAGS.fullmatch(word):
                may_be_taken = False
                continue
            letters, _, value = word[2:].partition("=") if word[:2] == "--" else word[1:].partition("e")
            if "f" in letters[: None if word[:2] != "--" else 1]:
                raise UnsureError  # a script from a file
            _check_sed_script(value)
            may_be_taken = True
        elif may_be_taken or not found:
            found = found or not may_be_taken
            _check_sed_script(word)
            may_be_taken = False


def _check_sed_script(script: str) -> None:
    at = 0
    while plain := SED_PLAIN.match(script, at):
        at = plain.end()
        if at == len(script):
            return
    if SED_RUNS.search(script):
        raise UnsureError


def _check_interpreter(letters: str, words: Words) -> None:
    first = words[1] if len(words) > 1 else "-"
    for word in words[1:]:
        if word is None:
            if first is None or first[:1] == "-":
                raise UnsureError  # it may be an option, as no word behind a file is
        elif word.partition("=")[0] in INLINE_LONG or (word[:1] == "-" != word[1:2] and set(letters) & set(word[1:])):
            raise UnsureError
    if first is not None and first.startswith(FROM_INPUT):
        raise UnsureError
    only_options = all(word is not None and word[:1] == "-" for word in words[1:])
    if only_options and (len(words) == 1 or not ONLY_TELL.issuperset(words[1:])):
        raise UnsureError  # it reads its code from its input
