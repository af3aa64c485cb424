"""One directory that nothing leads out of, whoever swaps its folders for links meanwhile.

A path that is checked and opened afterwards is opened as it is by then. So nothing is checked here by its name: from
the root on, each folder is opened in the one before it by its descriptor, and none of these openings follows a link. A
link is read and taken as more of the path, resolved against the root like the rest of it. What is reached that way lay
within the root at that moment, and what is then done in its folder by the descriptor stays in that folder.

    with wall.at("src/new.py") as place:    # every link on the way resolved; the file need not be there
        place.open(os.O_WRONLY | os.O_CREAT)

It needs what POSIX calls ``openat`` (Linux, macOS, the BSDs). Elsewhere no ``Wall`` can be made.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from cognition import ConfigError
from interpreters.toolbox.search import DIRECTORY, open_directory

LINKS = 40
"""Links that one path may lead through, as in Linux (``MAXSYMLINKS``). One that is swapped meanwhile counts again."""

TRIES = 20
"""How often a file is opened that another process is putting another one in the place of."""


class OutsideError(Exception):
    """The path leads out of the directory."""


class SwappedError(Exception):
    """What was no link is one by now, or the other way round."""


@frozen
class Place:
    """Where a path leads: a name in a folder that is held open. For the folder itself the name is ``.``."""

    directory: int
    """The folder's descriptor, for ``dir_fd=``. It lasts as long as the block of ``Wall.at``."""
    name: str
    """No link, when it was looked at. It may be one by now, so that it is opened by ``open`` or with ``O_NOFOLLOW``."""
    parts: tuple[str, ...]
    """The whole path from the root on, without links and ``..``."""
    about: os.stat_result | None
    """None: there is nothing of this name."""

    @property
    def mode(self) -> int:
        """``st_mode``; 0 where there is nothing."""
        return 0 if self.about is None else self.about.st_mode

    def open(self, flags: int, mode: int = 0o600) -> int:
        """``os.open`` of it, which follows no link and waits for no pipe.

        Raises:
            SwappedError: it is a link by now; ask the wall again.
            OSError: it can't be opened.
        """
        flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        return _opened(self.name, flags, self.directory, mode)


class Wall:
    """A directory, and the way from it to what lies in it.

    Raises:
        ConfigError: it is no directory, or this platform can't keep anything inside it.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        if not {os.open, os.stat, os.readlink} <= os.supports_dir_fd:
            raise ConfigError("tools that read files need a system on which files are opened by their folder (openat)")
        try:
            self.root = Path(root).resolve()
        except FileNotFoundError:  # of all names only the working directory's own need be there
            raise ConfigError(
                "tools need a directory to work in, and the current one has been deleted; go to another"
            ) from None
        if not self.root.is_dir():
            raise ConfigError(f"tools need a directory to work in, and {os.fspath(root)} is none")
        self._names = (str(self.root), os.path.abspath(root))
        """What absolute paths into it begin with."""

    @contextmanager
    def at(self, path: str) -> Iterator[Place]:
        """The place of a path, relative to the root or absolute; all but the last of its names have to be there.

        Raises:
            OutsideError: it leads out.
            OSError: it can't be followed: a folder is missing or not permitted, or links go round in a circle.
            ValueError: it can't be a path.
        """
        walk = _Walk(self)
        try:
            yield walk.to(path)
        finally:
            walk.close()

    def parts_of(self, absolute: str) -> list[str] | None:
        """The names behind the root in an absolute path; None if it leads elsewhere. Nothing is looked at."""
        path = os.path.normpath(absolute)
        path = path[1:] if path.startswith("//") else path  # which POSIX lets mean something else
        for root in self._names:
            if path == root:
                return []
            if path.startswith(root.rstrip("/") + "/"):
                return _names(path[len(root) :])
        return None


class _Walk:
    """The way to one place: the folders that are open, each in the one before it."""

    def __init__(self, wall: Wall) -> None:
        self._wall = wall
        self._open: list[int] = []
        self._parts: list[str] = []
        self._todo: list[str] = []
        """Names that are still to be followed, the next one last."""

    def to(self, path: str) -> Place:
        self._open.append(open_directory(str(self._wall.root)))
        self._go(path, ())
        left = LINKS
        while self._todo:
            name = self._todo.pop()
            if name == "..":
                self._up()
                continue
            directory = self._open[-1]
            try:
                about = os.stat(name, dir_fd=directory, follow_symlinks=False)
            except FileNotFoundError:
                if self._todo:
                    raise
                return Place(directory, name, (*self._parts, name), None)
            if stat.S_ISDIR(about.st_mode) and self._todo:
                try:
                    self._open.append(_opened(name, DIRECTORY, directory))
                    self._parts.append(name)
                    continue
                except SwappedError:  # it was a folder a moment ago
                    self._todo.append(name)
            elif stat.S_ISLNK(about.st_mode):
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
                return Place(directory, name, (*self._parts, name), about)
            left -= 1
            if left < 0:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        return Place(self._open[-1], ".", tuple(self._parts), os.fstat(self._open[-1]))

    def _go(self, path: str, then: Iterable[str]) -> None:
        """Follow a path from here, or from the root if it is absolute, and then more names."""
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

    def _up(self) -> None:
        if self._parts:
            self._back(len(self._parts) - 1)
            return
        beyond = "/".join([str(self._wall.root.parent), *reversed(self._todo)])
        self._go(beyond, ())

    def _back(self, depth: int) -> None:
        """Close what is deeper than so many folders below the root."""
        while len(self._parts) > depth:
            self._parts.pop()
            os.close(self._open.pop())

    def close(self) -> None:
        while self._open:
            os.close(self._open.pop())


def _opened(name: str, flags: int, directory: int, mode: int = 0o600) -> int:
    try:
        return os.open(name, flags, mode, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise SwappedError from error
        raise


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]
