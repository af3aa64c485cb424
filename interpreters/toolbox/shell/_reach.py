"""The directories that a sandboxed command can reach, for the search for what policy denies in them.

They may hold anything, since earlier commands wrote there: links in circles or to everywhere, folders that can't be
opened, names that are too long.
"""

from __future__ import annotations

import os
import stat
import sys
from functools import cache
from itertools import islice
from pathlib import Path

from attrs import frozen

from interpreters.toolbox.shell import _seatbelt
from interpreters.toolbox.shell._landlock import ALSO, ALSO_FOR_NETWORK
from interpreters.toolbox.shell._profile import NETWORK, SYSTEM

MOST = 1_000
"""Denied paths of each kind that one sandbox can have."""
LONGEST = 1_000
"""Bytes of a denied path below its directory. Of a longer one, a folder above is denied."""
LONGEST_NAME = 255
"""Bytes of a file's name."""
OF_THE_KERNEL = ("/proc", "/dev", "/sys")
"""Sandboxes have these of their own."""


@frozen
class Reach:
    """What a command can reach."""

    root: Path
    """The working directory. All paths are absolute and resolved."""
    readable: tuple[Path, ...]
    """Further directories that it may read."""
    names: tuple[tuple[Path, str], ...]
    """These directories, and their absolute paths as the user wrote them, perhaps through links."""
    network: bool

    @property
    def folders(self) -> tuple[Path, ...]:
        return self.root, *self.readable

    def names_of(self, folder: Path) -> list[str]:
        return list(dict.fromkeys((str(folder), *(name for path, name in self.names if path == folder))))

    def holds(self, path: Path) -> bool:
        return any(_within(str(path), str(folder)) for folder in self.folders)

    def may_hide(self, path: Path) -> bool:
        """Return whether it is neither the root nor above it."""
        return not _within(str(self.root), str(path))

    def may_hide_target(self, path: Path) -> bool:
        """Return whether the target of a denied link can be hidden, as what lies in these directories can. The root and
        the system can't: any command could make such a link, and all later ones would fail. What lies elsewhere can be
        read anyway, or not at all.
        """
        place = str(path)
        if not self.may_hide(path) or place in _above((*SYSTEM, *OF_THE_KERNEL)):
            return False
        system = [one for one in (*SYSTEM, *OF_THE_KERNEL) if _within(place, one)]
        return any(
            _within(place, folder) and all(_within(folder, one) for one in system) for folder in map(str, self.folders)
        )

    def shorten(self, path: Path) -> Path:
        """Return the path, or the folder above it that a sandbox can be given."""
        while len(os.fsencode(path)) > LONGEST + max(len(os.fsencode(folder)) for folder in self.folders):
            path = path.parent
        return path

    def system(self) -> list[str]:
        """Return the paths of the system that a command may read, by all names."""
        places = [*SYSTEM, *(_seatbelt.SYSTEM if sys.platform == "darwin" else ALSO)]
        if self.network:
            places += _seatbelt.NETWORK if sys.platform == "darwin" else (*NETWORK, *ALSO_FOR_NETWORK)
        return list(dict.fromkeys(one for at in places for one in (at, os.path.realpath(at))))


def _within(path: str, top: str) -> bool:
    return path == top or path.startswith(f"{top.rstrip('/')}/")


@cache
def _above(places: tuple[str, ...]) -> frozenset[str]:
    """Return the paths that are one of these places by any name, or above one."""
    found = {Path(one) for place in places for one in (place, os.path.realpath(place))}
    return frozenset(str(path) for one in found for path in (one, *one.parents))


def is_essential(path: str) -> bool:
    """Return whether no command could run without this directory of the system."""
    return path in _above(tuple(place for place in SYSTEM if not place.startswith("/etc/")))


def target_of(link: str) -> Path | None:
    """Return where a link leads; None if it leads nowhere, or to where this user can't go."""
    try:
        real = os.path.realpath(link)
        if os.path.islink(real) or any(len(os.fsencode(name)) > LONGEST_NAME for name in real.split("/")):
            return None
        return Path(real)
    except (OSError, ValueError):
        return None


def may_be_entered(folder: str | Path) -> bool:
    """Return whether a command could look at what is in a folder, perhaps after it has changed the folder's mode."""
    try:
        return os.lstat(folder).st_uid == os.geteuid() or os.access(folder, os.X_OK)
    except OSError:
        return True


def entries_of(folder: str, most: int) -> list[os.DirEntry[str]] | None:
    """Return the entries of a folder, at most one more than ``most``; None if they can't be looked at."""
    try:
        os.stat(f"{folder}/.")  # of one that can be listed and not entered, names are all that can be had
        with os.scandir(folder) as entries:
            return list(islice(entries, most + 1))
    except (FileNotFoundError, NotADirectoryError):  # it has vanished
        return []
    except OSError:
        return None


def is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def is_file(path: str | Path) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False
