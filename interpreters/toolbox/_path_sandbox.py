"""A directory that no path can escape, even while other processes swap its folders for links.

A path may change between a check and the opening. So nothing is checked by name: from the root down, each folder is
opened in the previous one by descriptor, without following links. A link is read, and its target replaces it in the
path, resolved against the root like the rest. Everything reached this way is inside the root at that moment, and
operations by descriptor stay in their folder.

    access = wall.access(context.access)    # policy's rules for the files that the call reaches
    with wall.at("src/new.py", access) as place:    # every link on the way resolved; the file need not be there
        place.open(os.O_WRONLY | os.O_CREAT)

Rules are compared with the place that was reached this way, so a link that is swapped can't get round them.

Needs POSIX ``openat`` (Linux, macOS, the BSDs). On other systems ``PathSandbox`` raises.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from attrs import frozen

from cognition import AccessRules, ConfigError
from interpreters.toolbox._file_access import UNLIMITED, FileAccess, RefusedError
from interpreters.toolbox.line_search import DIRECTORY, open_directory

LINKS = 40
"""Links that one path may lead through, as in Linux (``MAXSYMLINKS``). A link that is swapped during this counts again.
"""

TRIES = 20
"""Attempts to open a file that another process keeps replacing."""


class OutsideError(Exception):
    """The path leads out of the directory."""


class SwappedError(Exception):
    """A name has changed from a file or folder to a link, or back."""


@frozen
class SandboxedPath:
    """The place of a path: a name in an open folder. For the root itself the name is ``.``."""

    directory: int
    """The folder's descriptor, for ``dir_fd=``. Valid within the block of ``PathSandbox.at``."""
    name: str
    """Not a link at the time of the check. It may have become a link, so use ``open`` or ``O_NOFOLLOW``."""
    parts: tuple[str, ...]
    """The whole path relative to the root, without links and ``..``."""
    about: os.stat_result | None
    """Its status; None if the name does not exist."""

    @property
    def mode(self) -> int:
        """``st_mode``; 0 if the name does not exist."""
        return 0 if self.about is None else self.about.st_mode

    def open(self, flags: int, mode: int = 0o600) -> int:
        """Open it with ``os.open``, without following links or waiting for a pipe.

        Raises:
            SwappedError: it has become a link; call ``PathSandbox.at`` again.
            OSError: it can't be opened.
        """
        flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        return _open(self.name, flags, self.directory, mode)


class PathSandbox:
    """A directory, and the way to its files.

    Raises:
        ConfigError: it is not a directory, or this platform lacks ``openat``.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        if not {os.open, os.stat, os.readlink} <= os.supports_dir_fd:
            raise ConfigError("tools that read files need a system on which files are opened by their folder (openat)")
        try:
            self.root: Path = Path(root).resolve()
        except FileNotFoundError:  # of all names only the working directory's own need be there
            raise ConfigError(
                "tools need a directory to work in, and the current one has been deleted; go to another"
            ) from None
        if not self.root.is_dir():
            raise ConfigError(f"tools need a directory to work in, and {os.fspath(root)} is none")
        self._names = (str(self.root), os.path.abspath(root))
        """Prefixes of absolute paths into it."""

    def access(self, rules: AccessRules) -> FileAccess:
        """Return the rules of a call for the files of this directory. Make it once for each call."""
        return FileAccess(rules, self._names) if rules.paths or rules.only else UNLIMITED

    @contextmanager
    def at(self, path: str, access: FileAccess) -> Iterator[SandboxedPath]:
        """Open the place of a path, relative to the root or absolute. All names except the last must exist.

        Raises:
            RefusedError: policy forbids it, or a link on the way to it.
            OutsideError: it leads out.
            OSError: it can't be followed: a folder is missing or not permitted, or the links form a circle.
            ValueError: it is not a valid path.
        """
        with closing(_Walk(self, access)) as walk:
            yield walk.to(path)

    def parts_of(self, absolute: str) -> list[str] | None:
        """Return the names after the root in an absolute path, or None if it leads elsewhere. Does not access files."""
        path = os.path.normpath(absolute)
        path = path[1:] if path.startswith("//") else path  # which POSIX lets mean something else
        for root in self._names:
            if path == root:
                return []
            if path.startswith(root.rstrip("/") + "/"):
                return _names(path[len(root) :])
        return None


class _Walk:
    """The way to one place: the open folders, each in the previous one."""

    def __init__(self, wall: PathSandbox, access: FileAccess) -> None:
        self._wall = wall
        self._access = access
        self._open: list[int] = []
        self._name = ""
        """The name that was followed last."""
        self._parts: list[str] = []
        self._todo: list[str] = []

    def to(self, path: str) -> SandboxedPath:
        self._open.append(open_directory(str(self._wall.root)))
        self._go(path, ())
        try:
            place = self._follow(path)
        except OSError:
            self._check_ahead()
            raise
        self._access.check(place.parts)
        return place

    def _check_ahead(self) -> None:
        """Check the path from the present name to the end, as if all of it were folders.

        What is missing, or is a link, gets the same answer as a folder where policy forbids everything.
        """
        names = list(self._parts)
        for name in (self._name, *reversed(self._todo)):
            if name != "..":
                names.append(name)
            elif names:
                self._access.check_on_the_way(names)
                names.pop()
        self._access.check(names)

    def _follow(self, path: str) -> SandboxedPath:
        left = LINKS
        while self._todo:
            self._name = name = self._todo.pop()
            if name == "..":
                if self._parts:
                    self._access.check_on_the_way(self._parts)
                    self._back(len(self._parts) - 1)
                else:
                    self._go("/".join([str(self._wall.root.parent), *reversed(self._todo)]), ())
                continue
            directory = self._open[-1]
            try:
                about = os.stat(name, dir_fd=directory, follow_symlinks=False)
            except FileNotFoundError:
                if self._todo:
                    raise
                return SandboxedPath(directory, name, (*self._parts, name), None)
            if stat.S_ISDIR(about.st_mode) and self._todo:
                try:
                    self._open.append(_open(name, DIRECTORY, directory))
                    self._parts.append(name)
                    continue
                except SwappedError:  # it was a folder a moment ago
                    self._todo.append(name)
            elif stat.S_ISLNK(about.st_mode):
                try:
                    self._access.check_on_the_way([*self._parts, name])
                except RefusedError:
                    self._check_ahead()
                    raise
                try:
                    target = os.readlink(name, dir_fd=directory)
                except OSError as error:
                    if error.errno != errno.EINVAL:  # it was a link a moment ago
                        raise
                    self._todo.append(name)
                else:
                    self._go(target, tuple(reversed(self._todo)))
            elif self._todo:
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
            else:
                return SandboxedPath(directory, name, (*self._parts, name), about)
            left -= 1
            if left < 0:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        return SandboxedPath(self._open[-1], ".", tuple(self._parts), os.fstat(self._open[-1]))

    def _go(self, path: str, then: Iterable[str]) -> None:
        """Follow a path from here (from the root if it is absolute), and then further names."""
        names = _names(path)
        if os.path.isabs(path):
            inside = self._wall.parts_of(path)
            if inside is None:  # it may still lead back, by the names that follow
                inside, then = self._wall.parts_of("/".join([path, *then])), ()
            if inside is None:
                raise OutsideError
            self._back(0)
            names = inside
        self._todo = [*names, *then][::-1]

    def _back(self, depth: int) -> None:
        """Close all folders deeper than ``depth`` below the root."""
        while len(self._parts) > depth:
            self._parts.pop()
            os.close(self._open.pop())

    def close(self) -> None:
        while self._open:
            os.close(self._open.pop())


def _open(name: str, flags: int, directory: int, mode: int = 0o600) -> int:
    try:
        return os.open(name, flags, mode, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise SwappedError from error
        raise


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]
