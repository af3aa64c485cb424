"""Decide which files git ignores, by ``.gitignore`` files and ``.git/info/exclude``.

Follows git's rules (https://git-scm.com/docs/gitignore):

- Within a file, the last matching pattern decides.
- A file in a deeper folder decides before a file further up.
- Everything in an ignored folder is ignored, without exception.
- A folder with its own ``.git`` is another repository; patterns from outside do not apply in it.

Not read: the user's ``core.excludesFile``, and files above the root. The rules also apply without a repository.

Names are compared byte by byte, as in git: ``?`` is one byte.
"""

from __future__ import annotations

import os
import re
import stat
from functools import lru_cache

from attrs import frozen

from interpreters.toolbox.line_search import open_below

IGNORE_FILE = ".gitignore"
EXCLUDE_FILE = ".git/info/exclude"
LONGEST = 1_000_000
"""Bytes read from a file of patterns."""

CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": r"\x21-\x7e",
    "lower": "a-z",
    "print": r"\x20-\x7e",
    "punct": r"\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e",
    "space": r"\t-\r ",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}

NAMED_CLASS = re.compile(r"\[:([^\]]*):\]")

SPECIAL = re.compile(r"[*?\[\\]")
"""Ends the literal prefix of a pattern. Git compares the prefix separately, so for git the pattern begins after it:
``a**/b`` is ``a`` followed by any folders.
"""


@frozen
class IgnorePattern:
    """One line of a file of patterns."""

    regex: re.Pattern[str]
    negated: bool
    """A match is not ignored."""
    folders_only: bool
    anchored: bool
    """Match against the path below the file's folder, not only against the last name."""


@frozen
class Level:
    """A folder's patterns, and the patterns of parent folders that apply there."""

    prefix: str
    """The folder as a prefix of paths: empty, or with a slash at the end."""
    patterns: tuple[IgnorePattern, ...] = ()
    """In file order: the last match decides."""
    above: Level | None = None

    def verdict(self, path: str, name: str, is_folder: bool) -> bool | None:
        """Return whether a pattern ignores a path in this folder or deeper (True), or includes it again (False). None
        if no pattern matches. Does not check the parent folders of the path.
        """
        path, name = _bytewise(path), _bytewise(name)
        level: Level | None = self
        while level is not None:
            below = path[len(_bytewise(level.prefix)) :] if level.patterns else ""
            for pattern in reversed(level.patterns):
                if pattern.folders_only and not is_folder:
                    continue
                if pattern.regex.fullmatch(below if pattern.anchored else name):
                    return not pattern.negated
            level = level.above
        return None


TOP = Level("")


def enter_folder(folder: int, prefix: str, above: Level | None, names: frozenset[str] | set[str]) -> Level:
    """Return the patterns that apply in a folder.

    Args:
        folder: its descriptor, used to open the pattern files without following links.
        prefix: as in ``Level``.
        above: the patterns of its parent folder.
        names: the names in the folder, to avoid useless opens.
    """
    if ".git" in names:
        excluded = _parse_file(_content(folder, EXCLUDE_FILE))
        above = Level(prefix, excluded) if excluded else None
    own = _parse_file(_content(folder, IGNORE_FILE)) if IGNORE_FILE in names else ()
    if own:
        return Level(prefix, own, above)
    return above or TOP


def _content(folder: int, path: str) -> bytes:
    try:
        file = open_below(folder, path)
    except OSError:
        return b""
    with open(file, "rb") as opened:
        return opened.read(LONGEST) if stat.S_ISREG(os.fstat(file).st_mode) else b""


@lru_cache(maxsize=256)
def _parse_file(content: bytes) -> tuple[IgnorePattern, ...]:
    lines = content.removeprefix(b"\xef\xbb\xbf").decode("latin-1").split("\n")
    found = [parse_line(line.removesuffix("\r")) for line in lines]
    return tuple([pattern for pattern in found if pattern is not None])


def parse_line(line: str) -> IgnorePattern | None:
    """Return a line's pattern. None if it can't match: a comment, an empty line, or an incomplete pattern."""
    if line.startswith("#"):
        return None
    line = _trim(line)
    negated = line.startswith("!")
    line = line[negated:]
    folders_only = line.endswith("/")
    line = line[: len(line) - folders_only]
    anchored = "/" in line
    line = line[line.startswith("/") :]
    if not line:
        return None
    try:
        regex = re.compile(_regex(line, anchored), re.DOTALL)
    except (_UnfitError, re.error):  # of ranges that are turned around
        return None
    return IgnorePattern(regex, negated, folders_only, anchored)


def _trim(line: str) -> str:
    """Strip blanks at the end, except after a backslash."""
    trimmed = line.rstrip(" ")
    backslashes = len(trimmed) - len(trimmed.rstrip("\\"))
    return line[: len(trimmed) + backslashes % 2]


class _UnfitError(Exception):
    """The pattern matches nothing."""


STAR, DEEP, END = "*", "**/", "**"
"""Any characters within a name, any folders, and everything below. Every other part is one character."""


def _regex(glob: str, anchored: bool) -> str:
    """Return a regular expression without exponential backtracking. If a later part of a pattern matches anything, the
    first place where a part fits is good enough, and no other place is tried.
    """
    parts = _parts(glob, anchored)
    found: list[str] = []
    at = 0
    while at < len(parts):
        if parts[at] != DEEP:
            end = _next(parts, at + 1, (DEEP, END))
            found.append(_within(parts[at:end]) if parts[at] != END else ".*")
        else:
            end = _next(parts, at + 1, (DEEP, END))
            chunk = _within(parts[at + 1 : end])
            found.append(f"(?>(?:[^/]*/)*?{chunk})" if end < len(parts) else f"(?:.*/)?{chunk}")
        at = end
    return "".join(found)


def _within(parts: list[str]) -> str:
    found: list[str] = []
    at = 0
    while at < len(parts):
        end = _next(parts, at + 1, (STAR, "/"))
        chunk = "".join(parts[at + 1 : end])
        if parts[at] != STAR:
            found.append(parts[at] + chunk)
        elif parts[end : end + 1] == [STAR]:
            found.append(f"(?>[^/]*?{chunk})")
        else:
            found.append(f"[^/]*{chunk}" if chunk else "[^/]*+")
        at = end
    return "".join(found)


def _next(parts: list[str], at: int, wanted: tuple[str, ...]) -> int:
    return next((place for place in range(at, len(parts)) if parts[place] in wanted), len(parts))


def _parts(glob: str, anchored: bool) -> list[str]:
    parts: list[str] = []
    at = 0
    while at < len(glob):
        sign = glob[at]
        if sign == "*":
            end = at
            while end < len(glob) and glob[end] == "*":
                end += 1
            begins = at == 0 or glob[at - 1] == "/" or not SPECIAL.search(glob, 0, at)
            whole = end - at > 1 and begins and (end == len(glob) or glob[end] == "/")
            if whole and anchored:
                parts.append(END if end == len(glob) else DEEP)
                at = end + 1
            else:
                parts.append(STAR)
                at = end
        elif sign == "?":
            parts.append("[^/]")
            at += 1
        elif sign == "[":
            found, at = _bracket(glob, at + 1)
            parts.append(found)
        else:
            sign, at = _sign(glob, at)
            parts.append(re.escape(sign))
    return parts


def _bracket(glob: str, at: int) -> tuple[str, int]:
    """Convert a bracket expression, and return the index after it."""
    negated = glob[at : at + 1] in ("!", "^")
    begin = at = at + negated
    found: list[str] = []
    before = ""
    while at == begin or glob[at : at + 1] != "]":
        if (named := NAMED_CLASS.match(glob, at)) is not None:
            if named[1] not in CLASSES:
                raise _UnfitError
            found.append(CLASSES[named[1]])
            at, before = named.end(), ""
        elif before and glob[at : at + 1] == "-" and glob[at + 1 : at + 2] not in ("", "]"):
            last, at = _sign(glob, at + 1)
            if before <= last:
                found.append(f"{_escape(before)}-{_escape(last)}")
            before = ""
        else:
            before, at = _sign(glob, at)
            found.append(_escape(before))
    inside = "".join(found)
    return (f"(?!/)[^{inside}]" if negated else f"(?!/)[{inside}]"), at + 1


def _sign(glob: str, at: int) -> tuple[str, int]:
    """Return the character at an index or after a backslash there, and the index after it."""
    at += glob[at : at + 1] == "\\"
    if at >= len(glob):
        raise _UnfitError
    return glob[at], at + 1


def _escape(sign: str) -> str:
    return f"\\x{ord(sign):02x}"


def _bytewise(path: str) -> str:
    return path if path.isascii() else os.fsencode(path).decode("latin-1")
