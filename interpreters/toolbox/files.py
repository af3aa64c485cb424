"""Files inside one directory: no path leads out of it, neither by ``..`` nor by links."""

from __future__ import annotations

import codecs
import os
import stat
from collections.abc import Iterator
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any

from cognition import ConfigError
from interpreters.tools.context import ToolContext
from interpreters.tools.tool import ToolError

READ_LIMIT = 100_000
"""Bytes of a file that ``Read`` shows."""
LISTED = 200
"""Paths that ``Glob`` shows."""
VISITED = 50_000
"""Files and directories that one search looks at."""
LEFT_OUT = frozenset({".git"})
"""Directories that no search enters."""


class Workspace:
    """The directory that tools work in."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root).resolve()
        if not self.root.is_dir():
            raise ConfigError(f"tools need a directory to work in, and {os.fspath(root)} is none")

    def inside(self, path: str) -> Path:
        """The real path of a file or directory of this workspace, which need not exist.

        Raises:
            ToolError: it lies outside.
        """
        try:
            real = (self.root / path).resolve()
        except (OSError, ValueError, RuntimeError) as error:  # a NUL byte; links that go round in circles
            raise ToolError(f"no such file: {path}") from error
        if not real.is_relative_to(self.root):
            raise ToolError(f"outside the working directory: {path}")
        return real

    def read(self, path: str) -> str:
        """The text of a file, cut after ``READ_LIMIT`` bytes with a line that says so.

        Raises:
            ToolError: there is none, it is no text, or it can't be read; says which.
        """
        real = self.inside(path)
        if not os.path.lexists(real):  # unlike Path.exists it takes a name that is too long for one that is not there
            raise self.missing(path, real)
        content, size = read_bytes(real, path, READ_LIMIT)
        if b"\0" in content:
            raise ToolError(f"not a text file: {path}")
        try:
            # Incremental: a character that the limit cuts in two is no damage.
            text = codecs.getincrementaldecoder("utf-8-sig")().decode(content, final=size <= READ_LIMIT)
        except UnicodeDecodeError as error:
            raise ToolError(f"not a text file: {path}") from error
        if size > READ_LIMIT:
            return f"{text}\n[cut here: {READ_LIMIT} of {size} bytes]"
        return text

    def missing(self, path: str, real: Path) -> ToolError:
        """The error about a path that leads nowhere, with what may have been meant."""
        try:
            names = sorted(entry.name for entry in islice(os.scandir(real.parent), 10_000))
        except OSError:
            names = []
        close = get_close_matches(real.name, names, n=1, cutoff=0.6)
        if not close:
            return ToolError(f"no such file: {path}")
        meant = os.path.join(os.path.dirname(path), close[0])
        return ToolError(f"no such file: {path}; did you mean {meant}?")

    def glob(self, pattern: str, context: ToolContext[Any]) -> str:
        """The files whose path matches, one a line.

        Raises:
            ToolError: the pattern is none, or leads outside.
        """
        walk = Walk(self, self.parts(pattern), context)
        found = sorted(walk)
        lines = found[:LISTED]
        if len(found) > LISTED:
            lines.append(f"[{len(found) - LISTED} more files match; narrow the pattern]")
        return "\n".join([*(lines or ["No files match."]), *walk.notes])

    def parts(self, pattern: str) -> tuple[str, ...]:
        """A glob pattern, relative to the root, cut at its slashes.

        Raises:
            ToolError: the pattern is empty, or leads outside.
        """
        if not pattern.strip() or "\0" in pattern:
            raise ToolError(f"invalid pattern: {pattern}")
        if os.path.isabs(pattern):
            start = f"{self.root}/"
            if not pattern.startswith(start):
                raise ToolError(f"outside the working directory: {pattern}")
            pattern = pattern[len(start) :]
        parts = [part for part in pattern.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise ToolError(f"outside the working directory: {pattern}")
        if pattern.endswith("/"):  # a directory stands for what is in it
            parts.append("**")
        return tuple(parts)


class Walk:
    """The files of a workspace that match a pattern, as relative paths; directories that can't match aren't entered.

    Attributes:
        notes: what was left out, one line each; complete once all paths were taken.
    """

    def __init__(self, workspace: Workspace, parts: tuple[str, ...], context: ToolContext[Any]) -> None:
        self.notes: list[str] = []
        self._workspace = workspace
        self._parts = parts
        self._context = context
        self._left = VISITED

    def __iter__(self) -> Iterator[str]:
        yield from self._directory(self._workspace.root, "", self._closed({0}))

    def _directory(self, directory: Path, prefix: str, places: frozenset[int]) -> Iterator[str]:
        try:
            entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
        except OSError:  # not permitted, or gone in between
            return
        for entry in entries:
            self._context.check()
            if self._left == 0:
                if not self.notes:
                    self.notes.append(f"[stopped after {VISITED} files and directories; narrow the search]")
                return
            self._left -= 1
            reached = self._after(places, entry.name)
            if not reached:
                continue
            path = prefix + entry.name
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in LEFT_OUT:
                    yield from self._directory(directory / entry.name, f"{path}/", reached)
            elif len(self._parts) in reached and self._is_file_inside(entry, path):
                yield path

    def _is_file_inside(self, entry: os.DirEntry[str], path: str) -> bool:
        try:
            if entry.is_symlink():
                return self._workspace.inside(path).is_file()
            return entry.is_file()
        except (OSError, ToolError):  # a link that leads out or nowhere
            return False

    def _after(self, places: frozenset[int], name: str) -> frozenset[int]:
        """Where in the pattern a path may stand after one more name, as a nondeterministic automaton does it."""
        reached = set()
        for place in places:
            if place < len(self._parts):
                part = self._parts[place]
                if part == "**":
                    reached.add(place)
                elif fnmatchcase(name, part):
                    reached.add(place + 1)
        return self._closed(reached)

    def _closed(self, places: set[int]) -> frozenset[int]:
        """With the places behind each ``**``, which may stand for no directory at all."""
        todo = list(places)
        while todo:
            place = todo.pop()
            if place < len(self._parts) and self._parts[place] == "**" and place + 1 not in places:
                places.add(place + 1)
                todo.append(place + 1)
        return frozenset(places)


def read_bytes(real: Path, path: str, limit: int) -> tuple[bytes, int]:
    """Up to ``limit`` bytes of a regular file, and its size.

    Raises:
        ToolError: it is none, or can't be read; ``path`` is how it is called.
    """
    try:
        # Not blocking, so that a named pipe doesn't wait for a writer; no link, since the path was resolved before.
        descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise ToolError(f"{(error.strerror or 'can not be read').lower()}: {path}") from error
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise ToolError(f"{path or '.'} is a directory")
        if not stat.S_ISREG(status.st_mode):
            raise ToolError(f"not a text file: {path}")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(limit), status.st_size
    except OSError as error:
        raise ToolError(f"{(error.strerror or 'can not be read').lower()}: {path}") from error
    finally:
        os.close(descriptor)
