"""The files of a memory as they are now, and whether one is another than it was."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

from attrs import define, frozen

from runtime.files import UnusableFileError, read_regular

FOLDERS = ("episodes", "knowledge", "outcomes")
"""What a memory consists of: the folders with its files, which are the sources of what is found."""

LONGEST_FILE = 1 << 24
"""Bytes of a file that is indexed, 16 MiB."""

RACY = 2_000_000_000
"""Nanoseconds for which the time of a file's last change is not enough to tell that it did not change again."""

State = tuple[int, int, int, int]
"""What tells that a file is another than it was, without reading it: number, size, and the times of its last changes,
in nanoseconds."""


HELD = 1 << 22
"""Bytes of files that are kept to be compared, 4 MiB together: days of episodes, little beside what SQLite keeps."""


@frozen
class Known:
    """A file as it was indexed."""

    state: State
    checked: int
    """When it was read, in nanoseconds."""
    length: int
    """Bytes that it had, which may be more than its state says: it may have grown until it was read."""
    hash: bytes
    """Of them all; nothing where it could not be read."""
    problem: str = ""
    """Why it is not indexed."""
    passages: int = 0
    mark: str = ""
    """From where it can be read on, as it stands in the index."""


@frozen
class Seen:
    """A file as it is now."""

    state: State
    checked: int
    """When it was read, in nanoseconds."""
    hash: bytes
    problem: str = ""
    """Why it can't be read."""
    content: bytes = b""
    kept: int = 0
    """Bytes in front that are all of those that it had when it was indexed; 0 where these were others."""


def parsed(text: str) -> State:
    """What stands in the index of a state."""
    inode, size, modified, changed = map(int, text.split(":"))
    return inode, size, modified, changed


def _state(about: os.stat_result) -> State:
    return about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


@define
class _Held:
    content: bytes
    hasher: blake2b
    """Of the content."""
    hash: bytes


class Reader:
    """Reads the files of a memory, again and again, and tells what they only were appended to from what is another.

    Nothing but reading a file tells whether somebody has changed a letter in its middle, so each is read whole. But
    what was read last is kept of those that are read again, up to ``HELD``: to read and compare them takes a tenth of
    the time that hashing takes (0.1 and 1.1 ms a MiB), and only what is behind is hashed.
    """

    def __init__(self) -> None:
        self._held: dict[str, _Held] = {}
        self._size = 0
        """Bytes that are kept."""

    def look(self, folder: Path, name: str, known: Known | None) -> Seen | None:
        """A file as it is now; None where it is gone.

        Args:
            folder: the memory's.
            name: its own, such as ``knowledge/notes.md``.
            known: how it was indexed.
        """
        held = self._dropped(name)
        path, checked = folder / name, time.time_ns()
        try:
            state = _state(os.stat(path, follow_symlinks=False))  # before it is read: what changes meanwhile is seen
            content = read_regular(path, LONGEST_FILE, links=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            problem = error.reason if isinstance(error, UnusableFileError) else str(error.strerror)
            with contextlib.suppress(FileNotFoundError):
                return Seen(_state(os.stat(path, follow_symlinks=False)), checked, b"", problem)
            return None
        view = memoryview(content)
        if known is not None and held is not None and held.hash == known.hash and content.startswith(held.content):
            hasher, length = held.hasher, len(held.content)
            kept = length
        else:
            length = 0 if known is None else known.length
            hasher = blake2b(view[:length], digest_size=16)
            kept = length if known is not None and hasher.digest() == known.hash else 0
        hasher.update(view[length:])
        seen = Seen(state, checked, hasher.digest(), "", content, kept)
        if kept and len(content) <= HELD:
            self._hold(name, _Held(content, hasher, seen.hash))
        return seen

    def _hold(self, name: str, held: _Held) -> None:
        self._held[name] = held
        self._size += len(held.content)
        while self._size > HELD:
            self._dropped(next(iter(self._held)))

    def _dropped(self, name: str) -> _Held | None:
        held = self._held.pop(name, None)
        self._size -= 0 if held is None else len(held.content)
        return held


Listing = list[tuple[list[str], list[os.stat_result]] | None]
"""What stands in some folders, in the order in which the system gives it. Compared, times count in whole seconds: that
is enough for files that had not changed for ``RACY`` when they were read, since what changes later has a later time."""


def listing(folder: Path, places: Sequence[str]) -> Listing | None:
    """What stands in these folders of a memory, to be compared with what stood there: it takes half of the time of
    ``states_in``. None where something goes meanwhile.
    """
    found: Listing = []
    for place in places:
        try:
            with os.scandir(folder / place) as scanned:
                entries = list(scanned)
            found.append(([one.name for one in entries], [one.stat(follow_symlinks=False) for one in entries]))
        except (FileNotFoundError, NotADirectoryError):
            if os.path.lexists(folder / place):
                return None
            found.append(None)
    return found


def states_in(folder: Path) -> tuple[dict[str, State], list[str]]:
    """The Markdown files of a memory, such as ``knowledge/notes.md``, also of folders within its folders; and those.

    Not those whose names, or whose folders' names, begin with a dot, and none beyond a link.
    """
    found: dict[str, State] = {}
    places = list(FOLDERS)
    for place in places:
        try:
            entries = os.scandir(folder / place)
        except (FileNotFoundError, NotADirectoryError):
            continue
        with entries:
            for one in entries:
                name = one.name
                if name[0] == "." or not (name.isascii() or _is_text(name)):
                    continue
                try:
                    if name.endswith(".md"):
                        about = one.stat(follow_symlinks=False)
                        found[f"{place}/{name}"] = _state(about)
                    elif one.is_dir(follow_symlinks=False):
                        places.append(f"{place}/{name}")
                except FileNotFoundError:
                    continue
    return found, places


def _is_text(name: str) -> bool:
    """Names of other bytes than UTF-8 have no form in the database."""
    return not any("\ud800" <= character <= "\udfff" for character in name)
