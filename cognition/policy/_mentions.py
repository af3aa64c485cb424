"""Find the programs that a command may run because its words name them.

No list of the programs that run others is complete. So every word of a command may meet a deny rule, unless the program
is known to run nothing with any words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from cognition.policy._command import DEVICE, Mention, Words, reads_input, unversioned
from cognition.policy._programs import (
    ALSO_WORDS,
    CODE,
    DEVELOPER,
    FILE_GLOBS,
    HARMLESS_NAMES,
    LISTED,
    NOTES,
    QUIET,
    READING_DATA,
    RUNNERS,
    RUNS,
    RUNS_OTHERS,
    SUBCOMMANDS,
    SUBCOMMANDS_READING_DATA,
    SYSTEM,
)
from cognition.policy._text_patterns import fold_text

NAME = re.compile(r"[\w.+-]+")
SIGNED = re.compile(r"[-+](?!-)[\w.+-]*")
"""An option of letters, whose value may follow without a space."""
LONG_NAME = re.compile(r"^--[a-z][\w-]*(?=[=:]|$)", re.ASCII | re.MULTILINE)
EXPANSION = "\0"
"""The place of an expansion in a word."""
GLUED = re.compile(rf"[\w.+-]{EXPANSION}|{EXPANSION}[\w.+-]|{EXPANSION}{EXPANSION}")
COMPOSING = re.compile(rf"[\\'\"$`*?\[{{(%]|{GLUED.pattern}")
"""Characters that a shell or an interpreter needs to compose a name from parts."""
QUOTING = re.compile(rf"[\\'\"$`]|\{{[^{{}}]*(?:,|\.\.)|{GLUED.pattern}")
"""Those of them that a tool of developers may pass on to a shell. The others are globs and formats of its own."""
OPEN = Mention(frozenset(), True)
SIGN = re.compile(rf"[\\'\"$`*?\[{{(%|;&<{EXPANSION}]")
"""All characters that matches of ``COMPOSING``, ``QUOTING``, ``GLOB_SIGN`` and ``CONNECTING`` contain one of."""
GLOB_SIGN = re.compile(r"[*?[]")
GLOB = re.compile(r"[\w.+*?\[\]^!-]+")
PATH_GLOB = re.compile(r"[\w./*][\w./*-]*")
ANY = re.compile(r"\?|\[[^]]*\]?")
STARS = re.compile(r"\*+")
CONNECTING = re.compile(r"[|;&<]")
LONGEST_VALUE = 100
"""The most characters of an option whose letters may be followed by a name, without a space."""
NOTHING: frozenset[str] = frozenset()
BRACES = re.compile(r"(?!-)([\w./*@-]*)\{([\w,.*-]+)\}([\w./*-]*)", re.ASCII)
"""A pattern of files with alternatives."""
SPACE = re.compile(r"\s")
LIKE_COMMAND = re.compile(r"[/=]|\s-")
ANY_FILE = re.compile(r"^[*?\[](?:[^/]*[^\w/])?$")
"""A pattern that files of any name match, also one that looks like an option."""
FEW = 40
"""The most characters of words whose names are kept."""
SUBCOMMAND = re.compile(r"[A-Za-z][\w:-]*", re.ASCII)


def mention_of(
    program: str, words: Words, shapes: Sequence[str], *, fed: bool, computed: bool, splits: bool = False
) -> Mention | None:
    """Return the other programs that a program may run; None if it is known to run nothing.

    Args:
        program: its name, from ``program_of``.
        words: the command.
        shapes: its words that the shell would expand, with ``EXPANSION`` in place of each expansion.
        fed: whether it reads the output of another command, or a file.
        computed: whether an expansion may be any text, such as the output of another command.
        splits: whether an expansion may become several words.
    """
    path = words[0] or ""
    if len(words) == 1 and path and not shapes and not fed:
        return None
    if shapes and not splits and takes_texts(program, words, shapes):
        words, shapes = _with_shapes(words, shapes), ()
    anything = computed and None in words and not (program == "git" and words[1] in HARMLESS_NAMES)
    if is_of_system(path):
        if program in QUIET:
            return None
        listed = LISTED.get(program)
        if listed is not None and listed.covers(words[1:]):
            return None
        name = program if program in DEVELOPER else unversioned(program)
        if name in DEVELOPER and RUNS.get(name, NOTHING).isdisjoint(words):
            if fed and not _reads_data(name, words):
                return OPEN  # it may start an editor, a shell or an interpreter, which read the same input
            texts = [*_by_developers(name, words), *shapes]
            text = "\n".join(texts)
            if "-" in text or "/" in text:
                anything = anything or any(map(reads_input, texts)) or (fed and any(map(DEVICE.search, texts)))
            anything = anything or (any(map(ANY_FILE.search, shapes)) and not _takes_any_file(name, words))
            nested = any(map(_is_command_line, filter(SPACE.search, texts)))
            if name in FILE_GLOBS and "{" in text:
                text = "\n".join(map(_with_alternatives, text.split("\n")))
            return _names_in(text, QUOTING, anything, fed=fed, nested=nested)
    running = RUNS.get(unversioned(program), NOTHING)
    texts = [word for word in words[1:] if word is not None and word not in running]
    text = "\n".join([*texts, *shapes])
    return _names_in(text, COMPOSING, anything or fed or words.count(None) > len(shapes), alone=True)


def _is_command_line(text: str) -> bool:
    """Return whether a text may be a command line of a program that runs others."""
    if text[:2] == "--":
        text = text.partition("=")[2]
    names = NAME.findall(fold_text(text))
    return not RUNNERS.isdisjoint(names) and (
        LIKE_COMMAND.search(text) is not None or not (RUNNERS - ALSO_WORDS).isdisjoint(names)
    )


def _takes_any_file(name: str, words: Words) -> bool:
    """Return whether a program runs nothing even if the name of a file looks like an option."""
    return words[1] in HARMLESS_NAMES if name == "git" else name not in RUNS_OTHERS and name not in CODE


def _with_alternatives(text: str) -> str:
    """Return the patterns of files, a line each, that a pattern with braces stands for: a tool expands it itself."""
    found = BRACES.fullmatch(text)
    return text if found is None else "\n".join([f"{found[1]}{one}{found[3]}" for one in found[2].split(",")])


def takes_texts(program: str, words: Words, shapes: Sequence[str]) -> bool:
    """Return whether each word that the shell expands is a text for people, such as a commit's message."""
    notes = NOTES.get((program, words[1] or "")) if len(words) > 1 else None
    if notes is None:
        return False
    return not any(word is None or EXPANSION in word for word in _without_notes(_with_shapes(words, shapes)[1:], notes))


def _with_shapes(words: Words, shapes: Sequence[str]) -> Words:
    """Return words with the shapes of those that the shell expands, if it is certain which shape is whose."""
    if words.count(None) != len(shapes):
        return words
    rest = iter(shapes)
    return tuple([next(rest) if word is None else word for word in words])


def _reads_data(program: str, words: Words) -> bool:
    """Return whether a tool of developers runs nothing that it reads from its input."""
    return program in READING_DATA or (words[1] if len(words) > 1 else None) in SUBCOMMANDS_READING_DATA.get(
        program, ()
    )


def is_known(program: str, words: Words) -> bool:
    """Return whether a program is one of the tables, found by its name alone or in a folder of the system."""
    return is_of_system(words[0] or "") and (
        program in QUIET or program in LISTED or program in DEVELOPER or unversioned(program) in DEVELOPER
    )


def is_of_system(path: str) -> bool:
    """Return whether a program is found by its name alone, or in a folder of the system."""
    return "/" not in path or (path.startswith(SYSTEM) and "/.." not in path)


def mention_of_value(text: str) -> Mention | None:
    """Return the programs that a later command may run because of a variable's value."""
    return _names_in(text, COMPOSING, False)


def mention_of_pattern(shape: str) -> Mention | None:
    """As ``mention_of_value``, for a value that the shell expands, such as ``bin/c*``."""
    return _names_in(shape, QUOTING, False)


def mention_of_copies(words: Words) -> Mention:
    """Return the programs that may have another name after such a command."""
    found = OPEN if None in words else _names_in("\n".join(filter(None, words[1:])), COMPOSING, False)
    return OPEN if found is None else found


def _by_developers(program: str, words: Words) -> list[str]:
    """Return the words that may name a program. Subcommands and texts for people name none."""
    first, end = 1, min(1 + SUBCOMMANDS.get(program, 0), len(words))
    while first < end and SUBCOMMAND.fullmatch(words[first] or ""):
        first += 1
    notes = NOTES.get((program, words[1] or "")) if first > 1 else None
    rest = words[first:] if notes is None else _without_notes(words[first:], notes)
    return [word for word in rest if word is not None]


def _without_notes(words: Words, notes: frozenset[str]) -> list[str | None]:
    """Return the words without those that are a text for people."""
    found: list[str | None] = []
    following = False
    for word in words:
        if following:
            following = False
        elif not word or word[0] != "-":
            found.append(word)
        elif word in notes:
            found.append(word)
            following = True
        elif word.partition("=")[0] not in notes:
            found.append(word)
            following = word[1:].isalpha() and f"-{word[-1]}" in notes
    return found


def _names_in(
    text: str,
    composing: re.Pattern[str],
    anything: bool,
    *,
    fed: bool = False,
    alone: bool = False,
    nested: bool = False,
) -> Mention | None:
    """Return the names in words.

    Args:
        text: the words, a line each.
        composing: characters with which names are composed.
        anything: whether any other name may be run as well.
        fed: whether a program that they name would read code.
        alone: whether such a program may run code without more.
        nested: whether one of the words may be a command line of its own.
    """
    if anything or not text:
        return OPEN if anything else None
    return (_names_in_few if len(text) <= FEW else _find_names)(text, composing, fed, alone or nested)


def _find_names(text: str, composing: re.Pattern[str], fed: bool, alone: bool) -> Mention | None:
    text = fold_text(text)
    has_signs = SIGN.search(text) is not None
    if has_signs and composing.search(text) is not None:
        return OPEN
    text = LONG_NAME.sub("", text) if "--" in text else text
    globs = _globs_in(text) if has_signs and GLOB_SIGN.search(text) else ()
    names = NAME.findall(text)
    names += filter(None, [unversioned(name) for name in names if name[-1].isdigit() and name[0] not in "-+"])
    if (alone or (has_signs and CONNECTING.search(text))) and not RUNNERS.isdisjoint(names):
        return OPEN
    if "-" in text or "+" in text:
        for found in [name for name in names if name[0] in "-+" and name[1:2] != "-"]:
            names += [found[place:] for place in range(1, min(len(found), LONGEST_VALUE + 1))]
            if len(found) > LONGEST_VALUE:
                return OPEN
        names += [part for name in names if "+" in name for part in name.split("+") if part]
        if alone and not RUNNERS.isdisjoint(names):
            return OPEN
    if fed and not RUNNERS.isdisjoint(names):
        return OPEN
    if ".exe" in text:
        names = [name.removesuffix(".exe") for name in names]
    return Mention(frozenset(names), False, globs) if names or globs else None


_names_in_few = lru_cache(maxsize=1_000)(_find_names)
"""Cached: most commands have few words, such as ``-m`` and ``test``, and have them often."""


def _globs_in(text: str) -> tuple[str, ...]:
    """Return the patterns of names in these lines.

    A star alone is one if its word is more than a path. Any name may follow the letters of an option.
    """
    found: dict[str, None] = {}
    for word in filter(GLOB_SIGN.search, text.split("\n")):
        is_path = PATH_GLOB.fullmatch(word.removeprefix("=")) is not None
        for glob in ("**",) if SIGNED.match(word) else GLOB.findall(word):
            if GLOB_SIGN.search(glob) and not (is_path and set(glob) == {"*"}):
                found[STARS.sub("*", ANY.sub("*", glob))] = None
    return tuple(found)
