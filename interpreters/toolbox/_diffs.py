"""Parse unified diffs, as models and git write them, into the changes of each file.

A hand-written parser, since models write diffs that other parsers refuse: without prefixes, with wrong line counts in
hunks, with empty lines instead of blank context lines, or with ``@@`` and no numbers. Unambiguous mistakes are
accepted. The parser never guesses the lines that a hunk expects: they must match the file exactly.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from attrs import evolve, frozen

from interpreters.tools.tool import ToolError

HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
NO_END = re.compile(r"\\ ")
ESCAPES = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}
ESCAPE = re.compile(rb'\\([0-7]{3}|[abtnvfr"\\])')
QUOTED = re.compile(r'("(?:[^"\\]|\\.)*") ')
"""Matches a quoted path at the start, and the blank after it."""
NOTHING = "/dev/null"
SIGNATURE = "-- "
"""The line that git writes after the last hunk of a mail."""
IGNORED = ("index ", "similarity index ", "dissimilarity index ", "Index: ", "====")
MODES = {"100644": False, "100755": True}
"""Maps git's file modes to whether the file is executable."""


@frozen
class HunkLine:
    """A line of a hunk: its sign (blank, ``-`` or ``+``), its text, and whether it ends with a newline."""

    sign: str
    text: str
    ended: bool = True


@frozen
class Hunk:
    """Consecutive lines, and the number of the first line in the old file (None if unknown)."""

    start: int | None
    lines: tuple[HunkLine, ...]

    @property
    def old(self) -> list[HunkLine]:
        return [line for line in self.lines if line.sign != "+"]


@frozen
class FileDiff:
    """The change of one file.

    Attributes:
        old: old path; None if the file is created.
        new: new path; None if the file is deleted.
        hunks: in the diff's order.
        executable: the new executable flag; None to keep the mode.
    """

    old: str | None
    new: str | None
    hunks: tuple[Hunk, ...] = ()
    executable: bool | None = None


def read_diff(text: str) -> list[FileDiff]:
    """Return the changes in a diff, one per file.

    Raises:
        ToolError: it is not a diff, or can't be applied; the message has the line.
    """
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    if lines and all(line.endswith("\r") for line in lines):  # the diff's own ends of lines
        lines = [line[:-1] for line in lines]
    found = list(_DiffReader(lines).files())
    if not found:
        raise ToolError(
            "this is no unified diff: it has no file in it. A file begins with the lines '--- a/PATH' and "
            "'+++ b/PATH', and its hunks with '@@ -1,3 +1,4 @@'"
        )
    return found


class _DiffReader:
    def __init__(self, lines: list[str]) -> None:
        self._lines = [*lines, "\0"]  # an end that looks like no line of a diff
        self._at = 0

    @property
    def _line(self) -> str:
        return self._lines[self._at]

    def files(self) -> Iterator[FileDiff]:
        while self._at < len(self._lines) - 1:
            if self._line.startswith("diff --git "):
                yield self._git()
            elif self._is_header():
                yield self._hunks(*self._of_one_file(self._readings())[0])
            elif self._line.startswith("@@"):
                raise self._wrong("a hunk stands before the names of its file ('--- a/PATH' and '+++ b/PATH')")
            else:
                self._at += 1  # what people write between files

    def _is_header(self) -> bool:
        return self._line.startswith("--- ") and self._lines[self._at + 1].startswith("+++ ")

    def _wrong(self, what: str) -> ToolError:
        return ToolError(f"line {self._at + 1} of the diff: {what}")

    def _git(self) -> FileDiff:
        """Parse a file that begins with ``diff --git``. That line is ambiguous, and the following lines decide."""
        names = self._line.removeprefix("diff --git ").rstrip("\r")
        found, kinds = FileDiff(None, None), set()
        while True:
            self._at += 1
            line = self._line.rstrip("\r")
            key, _, value = line.rpartition(" ")
            if line.startswith(("rename from ", "rename to ")):
                path = _unquote(line.split(" ", 2)[2])
                found = evolve(found, old=path) if line.startswith("rename from ") else evolve(found, new=path)
                kinds.add("rename")
            elif key in ("new file mode", "deleted file mode", "old mode", "new mode"):
                if value not in MODES:
                    raise self._wrong(f"mode {value} is no regular file's; only 100644 and 100755 are")
                kinds.add(key)
                if key in ("new file mode", "new mode"):
                    found = evolve(found, executable=MODES[value])
            elif line.startswith(("copy from ", "copy to ")):
                raise self._wrong("copies are not made; write the new file as one that is made ('--- /dev/null')")
            elif line.startswith(("Binary files ", "GIT binary patch")):
                raise self._wrong("only text files can be patched")
            elif not line.startswith(IGNORED):
                break
        renamed = "rename" in kinds
        if renamed:
            if found.old is None or found.new is None:
                raise self._wrong("a rename needs both lines, 'rename from PATH' and 'rename to PATH'")
            if not _names_both(names, found.old, found.new):
                raise self._wrong(
                    f"'diff --git' names other files than 'rename from {found.old}' and 'rename to {found.new}'; write "
                    f"'diff --git a/{found.old} b/{found.new}'"
                )
        if self._is_header():
            readings = self._readings()
            if renamed:
                fits = [one for one in readings if one == (found.old, found.new)]
            else:
                fits = [one for one in self._of_one_file(readings) if _names_both(names, *one)]
            if not fits:
                raise self._wrong(
                    "'---' and '+++' name another file than the lines from 'diff --git' on; write the same names in "
                    "both, with a/ and b/ before them, or begin the other file with a 'diff --git' of its own"
                )
            return evolve(self._hunks(*fits[0], renamed=renamed), executable=found.executable)
        if renamed:
            return found
        name = _repeated_path(names)
        if name is None:
            raise self._wrong("the file's names, '--- a/PATH' and '+++ b/PATH', are missing")
        if "new file mode" in kinds:
            return evolve(found, new=name)
        if "deleted file mode" in kinds:
            return evolve(found, old=name)
        if "new mode" in kinds:
            return evolve(found, old=name, new=name)
        raise self._wrong(f"nothing is said of what happens to {name}")

    def _readings(self) -> list[tuple[str | None, str | None]]:
        """Return the possible names after ``---`` and ``+++``, most likely first: with and without prefixes."""
        found = []
        olds, news = (_paths(self._lines[self._at + index][4:]) for index in (0, 1))
        for old in olds:
            for new in news:
                if old is None and new is None:
                    raise self._wrong("both names are /dev/null")
                if (old is None or old.startswith("a/")) and (new is None or new.startswith("b/")):
                    found.append((old and old[2:], new and new[2:]))
                found.append((old, new))
        return found

    def _of_one_file(self, readings: list[tuple[str | None, str | None]]) -> list[tuple[str | None, str | None]]:
        """Return the readings that name a single file.

        Raises:
            ToolError: there is no such reading.
        """
        found = [(old, new) for old, new in readings if old is None or new is None or old == new]
        if not found:
            old, new = readings[0]
            raise self._wrong(
                f"'---' names {old} and '+++' names {new}; for a rename write 'diff --git a/{old} b/{new}', "
                f"'rename from {old}' and 'rename to {new}' on lines before"
            )
        return found

    def _hunks(self, old: str | None, new: str | None, *, renamed: bool = False) -> FileDiff:
        self._at += 2
        hunks = []
        while self._line.startswith("@@"):
            hunks.append(self._hunk())
        if not hunks and not renamed:
            raise self._wrong("a hunk was expected, which begins with '@@ -1,3 +1,4 @@'")
        return FileDiff(old, new, tuple(hunks))

    def _hunk(self) -> Hunk:
        """Parse a hunk. Uses its line counts if they are right, or else reads to the start of the next part."""
        header = HUNK.match(self._line)
        if header is None and self._line.startswith("@@ -"):
            raise self._wrong("a hunk begins with '@@ -FIRST,COUNT +FIRST,COUNT @@'")
        self._at += 1
        first = self._at
        counted = header is not None and self._skip(int(header[2] or 1), int(header[4] or 1))
        if not counted:
            self._at = first
            while _sign(self._line) is not None and not self._begins_part():
                self._at += 1
        end = self._at
        while not counted and end > first and not self._lines[end - 1].rstrip("\r"):
            end -= 1  # blank lines between files
        lines: list[HunkLine] = []
        for line in self._lines[first:end]:
            sign = _sign(line)
            if sign == "\\" and lines:
                lines[-1] = evolve(lines[-1], ended=False)
            elif sign is not None and sign != "\\":
                lines.append(HunkLine(sign, line[1:] if line[:1] in ("+", "-", " ") else line))
        if not any(line.sign != " " for line in lines):
            raise self._wrong("this hunk adds and removes nothing: lines begin with '+', '-' or a blank")
        start = None if header is None else int(header[1]) + (int(header[2] or 1) == 0)
        return Hunk(start, tuple(lines))

    def _skip(self, old: int, new: int) -> bool:
        """Skip a hunk's lines by their numbers in the old and the new file. Returns whether the numbers are right."""
        while (old or new) and (sign := _sign(self._line)) is not None:
            old -= sign in " -"
            new -= sign in " +"
            self._at += 1
        if NO_END.match(self._line):
            self._at += 1
        goes_on = self._line[:1] in ("+", "-", " ") and self._line != SIGNATURE and not self._begins_part()
        return old == 0 == new and not goes_on

    def _begins_part(self) -> bool:
        return self._line.startswith(("@@", "diff --git ")) or self._is_header()


def _sign(line: str) -> str | None:
    """Return the sign of a hunk's line; None for any other line."""
    if NO_END.match(line):
        return "\\"
    if line in ("", "\r"):  # what is left of a blank at the end of a line
        return " "
    return line[0] if line[0] in "+- " else None


def _paths(text: str) -> list[str | None]:
    """Return the possible paths after ``---``, most likely first, without quotes and timestamp.

    Git and diff write a tab after a name with blanks, so the tab shows that a final blank belongs to the name. Without
    a tab, a blank at the end is more likely a mistake.
    """
    text = text.rstrip("\r")
    if text.startswith('"'):
        path = _unquote(text)
        return [None if path == NOTHING else path]
    path, tab, _ = text.partition("\t")
    paths = [path] if tab else list(dict.fromkeys((path.rstrip(), path)))
    return [None if one.rstrip() == NOTHING else one for one in paths]


def _unquote(text: str) -> str:
    """Decode a path that git has quoted, with octal escapes."""
    text = text.split("\t")[0]
    if not (text.startswith('"') and text.endswith('"') and len(text) > 1):
        return text
    path = ESCAPE.sub(_unescape, text[1:-1].encode("utf-8", "surrogateescape"))
    return path.decode("utf-8", "surrogateescape")


def _unescape(escape: re.Match[bytes]) -> bytes:
    value = escape[1].decode()
    return bytes([int(value, 8) & 255 if len(value) == 3 else ESCAPES[value]])


def _names_both(names: str, old: str | None, new: str | None) -> bool:
    """Return whether the ``diff --git`` line names these two paths, with both prefixes or without prefixes.

    For None, a missing file, git writes the other name, and models write ``/dev/null``.
    """
    for before, after in (("a/", "b/"), ("", "")):
        olds = {NOTHING, f"{before}{new}"} if old is None else {f"{before}{old}"}
        news = {NOTHING, f"{after}{old}"} if new is None else {f"{after}{new}"}
        for one in olds:
            rest = _text_after(names, one)
            if rest is not None and (rest in news or rest.rstrip() in news or _unquote(rest.rstrip()) in news):
                return True
    return False


def _text_after(names: str, name: str) -> str | None:
    """Return the text after a name and a blank, or None if the text begins with another name."""
    if names.startswith(f"{name} "):
        return names[len(name) + 1 :]
    quoted = QUOTED.match(names)
    return names[quoted.end() :] if quoted is not None and _unquote(quoted[1]) == name else None


def _repeated_path(names: str) -> str | None:
    """Return the path in ``a/PATH b/PATH`` or ``PATH PATH``, or None if they differ."""
    quoted = QUOTED.match(names)
    if quoted is not None:
        one, other = _unquote(quoted[1]), _unquote(names[quoted.end() :])
    else:  # where a name may have blanks, the one in the middle lies between both
        one, other = names[: len(names) // 2], names[len(names) // 2 + 1 :]
    name = one[2:] if one.startswith("a/") and other.startswith("b/") else one
    return name if name and _names_both(names, name, name) else None
