"""Files inside one directory: the work of ``Read`` and ``Glob`` behind the wall (``_path_sandbox.py``)."""

from __future__ import annotations

import codecs
import errno
import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from attrs import define, field, frozen

from cognition.base.display import shown_json, shown_name
from interpreters.toolbox._file_access import UNLIMITED, FileAccess
from interpreters.toolbox._gitignore import Level, enter_folder
from interpreters.toolbox._path_sandbox import TRIES, OutsideError, PathSandbox, SandboxedPath, SwappedError
from interpreters.tools.context import ToolContext
from interpreters.tools.tool import ToolError
from runtime.files import closing

READ_LIMIT = 100_000
"""Bytes of a file that ``Read`` shows."""
LISTED = 200
"""Paths that ``Glob`` shows."""
VISITED = 50_000
"""Files and directories that one search looks at."""
LEFT_OUT = frozenset({".git"})
"""Names that every search skips: directories, and files in their place (as in a git worktree)."""
CLOSE = 20
"""Names that are tried for a hint, until policy allows one."""
DEEPEST = 200
"""Nesting depth of directories that a search enters. It holds each of them open."""

WILD = re.compile(r"[*?\[]")

SCANNED = os.O_RDONLY | os.O_DIRECTORY
NOTHING_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP})


@frozen
class SearchScope:
    """The files that a search includes. Files that the pattern names explicitly are always included."""

    hidden: bool = True
    """Include files whose name, or a parent folder's name, begins with a dot."""
    ignored: bool = False
    """Include files that git ignores."""


EVERYTHING = SearchScope()


class MissingError(ToolError):
    """The path does not exist."""


class RootDirectory:
    """The directory that tools work in."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.wall: PathSandbox = PathSandbox(root)
        self.root: Path = self.wall.root

    def access(self, context: ToolContext[Any]) -> FileAccess:
        """Return policy's rules for the files that a call reaches."""
        return self.wall.access(context.access)

    @contextmanager
    def at(self, path: str, access: FileAccess) -> Iterator[SandboxedPath]:
        """Open the existing place of a path for the duration of the block.

        Raises:
            RefusedError: policy forbids it.
            ToolError: it is outside of the directory, or can't be followed.
            MissingError: it does not exist.
        """
        with report_errors(path), self.wall.at(path, access) as place:
            if place.about is None:
                raise MissingError(f"no such file: {path}{suggest_path(path, place, access)}")
            yield place

    def read(self, path: str, context: ToolContext[Any]) -> str:
        """Return the text of a file, cut after ``READ_LIMIT`` bytes with a note about the cut.

        Raises:
            ToolError: it does not exist, is not a text, or can't be read; the message has the reason.
        """
        access = self.access(context)
        for _ in range(TRIES):
            with self.at(path, access) as place, suppress(SwappedError), open_regular(path, place) as file:
                content, size = file.read(READ_LIMIT), os.fstat(file.fileno()).st_size
                break
        else:
            raise ToolError(f"it is being changed all the time: {path}")
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

    def glob(
        self, pattern: str, context: ToolContext[Any], asked: SearchScope = EVERYTHING, offset: int | None = None
    ) -> str:
        """Return the files whose path matches, one per line.

        Args:
            pattern: relative to the root, or absolute.
            context: of the call, which may be cancelled.
            asked: the files to include.
            offset: number of files to skip; None if the caller has no parameter ``offset``.

        Raises:
            ToolError: the pattern is invalid, or leads out of the directory.
        """
        parts = self.parts(pattern)
        access = self.access(context)
        walk = Walk(self, parts, context, asked, explicit=count_plain(parts), access=access)
        found = sorted(path for path, _ in walk.find())
        end = (offset or 0) + LISTED
        lines = list(map(format_path, found[offset or 0 : end]))
        if len(found) > end:
            how = "narrow the pattern" if offset is None else f"narrow the pattern, or go on with offset={end}"
            lines.append(f"[{len(found) - end} more files match; {how}]")
        return "\n".join([*(lines or ["No files match."]), *walk.notes, *access.notes(parts)])

    def parts(self, pattern: str) -> tuple[str, ...]:
        """Split a glob pattern at its slashes, relative to the root.

        Raises:
            ToolError: the pattern is empty, or leads out of the directory.
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


def count_plain(parts: tuple[str, ...]) -> int:
    """Return the number of leading parts that are plain names."""
    return next((place for place, part in enumerate(parts) if WILD.search(part)), len(parts))


@define(eq=False)
class Walk:
    """The files of a workspace that match a pattern, as relative paths. Skips directories that can't match.

    Attributes:
        explicit: number of leading parts that are plain names and always included.
        access: policy's rules, for the files of this call.
        notes: omitted parts, one line each; complete after the iteration. Those by policy are not among them.
    """

    _workspace: RootDirectory
    _parts: tuple[str, ...]
    context: ToolContext[Any]
    asked: SearchScope = EVERYTHING
    explicit: int = field(default=0, kw_only=True)
    access: FileAccess = field(kw_only=True)
    notes: list[str] = field(factory=list, init=False)
    _left: int = field(factory=lambda: VISITED, init=False)

    def find(self) -> Iterator[tuple[str, str]]:
        """Yield each file's path and its path without links. They differ if the last name is a link. Policy allows
        both.
        """
        with self._workspace.at(".", UNLIMITED) as root:
            yield from self._directory(root.open(SCANNED), "", self.beginning, None)

    def _directory(
        self, directory: int, prefix: str, places: frozenset[int], above: Level | None
    ) -> Iterator[tuple[str, str]]:
        """Yield the matches in a folder, and close it at the end."""
        try:
            with os.scandir(directory) as scanned:
                entries = sorted(scanned, key=lambda entry: entry.name)
            names = {entry.name for entry in entries}
            level = None if self.asked.ignored else enter_folder(directory, prefix, above, names)
            explicit = prefix.count("/") < self.explicit
            for entry in entries:
                self.context.check()
                if self._left == 0:
                    if not self.notes:
                        self.notes.append(f"[stopped after {VISITED} files and directories; narrow the search]")
                    return
                self._left -= 1
                if entry.name in LEFT_OUT:
                    continue
                reached = self.after(places, entry.name)
                if not reached:
                    continue
                path = prefix + entry.name
                is_folder = entry.is_dir(follow_symlinks=False)
                if not explicit and self.is_left_out(path, entry.name, is_folder, level, places):
                    continue
                if is_folder:
                    if not self.access.skips(path):
                        yield from self._inner(directory, entry.name, path, reached, level)
                elif self.is_end(reached) and (real := self._file_inside(entry, path)) is not None:
                    yield path, real
        except OSError:  # not permitted, or gone in between
            return
        finally:
            os.close(directory)

    def is_left_out(self, path: str, name: str, is_folder: bool, level: Level | None, places: frozenset[int]) -> bool:
        """Return whether to skip an entry: git ignores it, or it is hidden and no part of the pattern names a dot."""
        said = None if level is None else level.verdict(path, name, is_folder)
        if said is not None or self.asked.hidden or not name.startswith("."):
            return said is True
        parts = [self._parts[place] for place in places if place < len(self._parts)]
        return not any(part.startswith(".") and fnmatchcase(name, part) for part in parts)

    def _inner(
        self, directory: int, name: str, path: str, reached: frozenset[int], level: Level | None
    ) -> Iterator[tuple[str, str]]:
        if path.count("/") == DEEPEST:
            note = f"[directories more than {DEEPEST} deep were left out]"
            self.notes += [note] if note not in self.notes else []
            return
        try:  # by its folder's descriptor: it may be a link by now, which is not followed
            inner = os.open(name, SCANNED | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
        except OSError:
            return
        yield from self._directory(inner, f"{path}/", reached, level)

    def _file_inside(self, entry: os.DirEntry[str], path: str) -> str | None:
        """Return a regular file's path without links. None for anything else, for files that policy forbids, and for
        links that are broken or lead out.
        """
        if self.access.is_limited and not self.access.allows(path):
            return None
        try:
            if not entry.is_symlink():
                return path if entry.is_file(follow_symlinks=False) else None
            with self._workspace.at(path, self.access) as place:
                return "/".join(place.parts) if stat.S_ISREG(place.mode) else None
        except (OSError, ToolError):
            return None

    @property
    def beginning(self) -> frozenset[int]:
        """The positions in the pattern before the first name."""
        return self._closed({0})

    def is_end(self, places: frozenset[int]) -> bool:
        return len(self._parts) in places

    def leads_to(self, names: list[str]) -> bool:
        places = self.beginning
        for name in names:
            places = self.after(places, name)
        return self.is_end(places)

    def after(self, places: frozenset[int], name: str) -> frozenset[int]:
        """Return the positions in the pattern after one more name, as in a nondeterministic automaton."""
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
        """Add the positions after each ``**``, which may match zero directories."""
        for place, part in enumerate(self._parts):
            if part == "**" and place in places:
                places.add(place + 1)
        return frozenset(places)


@contextmanager
def open_regular(path: str, place: SandboxedPath) -> Iterator[BinaryIO]:
    """Open the regular file at a place, for reading.

    Raises:
        ToolError: it is something else.
        SwappedError, OSError: as ``SandboxedPath.open``.
    """
    if stat.S_ISDIR(place.mode):
        raise ToolError(f"{path or '.'} is a directory")
    if not stat.S_ISREG(place.mode):
        raise ToolError(f"not a text file: {path}")
    with open(place.open(os.O_RDONLY), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # it is another one by now
            raise ToolError(f"not a text file: {path}")
        yield file


@contextmanager
def report_errors(path: str) -> Iterator[None]:
    """Convert file errors to tool errors that name the model's own path."""
    try:
        yield
    except OutsideError as error:
        raise ToolError(f"outside the working directory: {path}") from error
    except ValueError as error:  # as with a NUL byte
        raise MissingError(f"no such file: {path}") from error
    except OSError as error:
        if error.errno in NOTHING_THERE:
            raise MissingError(f"no such file: {path}") from error
        raise ToolError(f"{(error.strerror or 'can not be read').lower()}: {path}") from error


def format_path(path: str) -> str:
    """Return a path for a line of results. It becomes a JSON string if it could start another line or look like another
    path; a model may use that string in a call.
    """
    if shown_name(path, None) == path and not path.startswith('"'):
        return path
    return shown_json(json.dumps(path, ensure_ascii=False))


def suggest_path(path: str, place: SandboxedPath, access: FileAccess) -> str:
    """Return a hint with the closest existing name for a missing path. It names no file that policy forbids."""
    try:
        with closing(os.open(".", SCANNED | os.O_CLOEXEC, dir_fd=place.directory)) as folder:
            names = sorted(entry.name for entry in islice(os.scandir(folder), 10_000))
    except OSError:
        return ""
    close = get_close_matches(place.name, names, n=CLOSE if access.is_limited else 1, cutoff=0.6)
    close = [name for name in close if access.allows("/".join([*place.parts[:-1], name]))]
    return f"; did you mean {format_path(os.path.join(os.path.dirname(path), close[0]))}?" if close else ""
