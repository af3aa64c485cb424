"""The current files of a memory, and whether a file has changed."""

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
"""The folders of a memory; also the sources of search results."""

LONGEST_FILE = 1 << 24
"""Maximum bytes of an indexed file, 16 MiB."""

RACY = 2_000_000_000
"""Within this many nanoseconds after a change, an equal modification time does not prove that the file is unchanged."""

State = tuple[int, int, int, int]
"""Metadata that shows a change without reading the file: inode, size, and the times of its last changes in nanoseconds.
"""


HELD = 1 << 22
"""Maximum bytes of retained file contents, 4 MiB together: days of episodes, and little compared with SQLite's cache.
"""


@frozen
class IndexedFile:
    """A file as indexed."""

    state: State
    checked: int
    """When it was read, in nanoseconds."""
    length: int
    """Its bytes; possibly more than in ``state``, if it grew before it was read."""
    hash: bytes
    """Hash of all its bytes; empty if it could not be read."""
    problem: str = ""
    passages: int = 0
    mark: str = ""
    """The mark where reading can continue, as stored in the index."""


@frozen
class FileVersion:
    """The current version of a file."""

    state: State
    checked: int
    """When it was read, in nanoseconds."""
    hash: bytes
    problem: str = ""
    content: bytes = b""
    kept: int = 0
    """Length of the indexed content if it is unchanged at the start of the file; 0 if it was changed."""


def parse_state(text: str) -> State:
    """Parse a state stored in the index."""
    inode, size, modified, changed = map(int, text.split(":"))
    return inode, size, modified, changed


def _state(about: os.stat_result) -> State:
    return about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


@define
class _OpenFile:
    content: bytes
    hasher: blake2b
    hash: bytes


class SnapshotReader:
    """Reads the files of a memory repeatedly, and distinguishes appended files from changed ones.

    Only reading a file proves that its middle is unchanged, so each is read whole. The last contents of repeatedly read
    files are retained, up to ``HELD``. Comparing with them takes a tenth of the time of hashing (0.1 and 1.1 ms a MiB),
    and only the appended part is hashed.
    """

    def __init__(self) -> None:
        self._held: dict[str, _OpenFile] = {}
        self._size = 0

    def look(self, folder: Path, name: str, known: IndexedFile | None) -> FileVersion | None:
        """Return the current version of a file, or None if it is gone.

        Args:
            folder: the memory's.
            name: its name, such as ``knowledge/notes.md``.
            known: its indexed version.
        """
        held = self._evict(name)
        path, checked = folder / name, time.time_ns()
        try:
            state = _state(os.stat(path, follow_symlinks=False))  # before it is read: what changes meanwhile is seen
            content = read_regular(path, LONGEST_FILE, links=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            problem = error.reason if isinstance(error, UnusableFileError) else str(error.strerror)
            with contextlib.suppress(FileNotFoundError):
                return FileVersion(_state(os.stat(path, follow_symlinks=False)), checked, b"", problem)
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
        seen = FileVersion(state, checked, hasher.digest(), "", content, kept)
        if kept and len(content) <= HELD:
            self._hold(name, _OpenFile(content, hasher, seen.hash))
        return seen

    def _hold(self, name: str, held: _OpenFile) -> None:
        self._held[name] = held
        self._size += len(held.content)
        while self._size > HELD:
            self._evict(next(iter(self._held)))

    def _evict(self, name: str) -> _OpenFile | None:
        held = self._held.pop(name, None)
        self._size -= 0 if held is None else len(held.content)
        return held


Listing = list[tuple[list[str], list[os.stat_result]] | None]
"""The entries of some folders, in the system's order. Comparing uses times in whole seconds. That is enough for files
that had not changed for ``RACY`` when they were read, since later changes have a later time.
"""


def listing(folder: Path, places: Sequence[str]) -> Listing | None:
    """List these folders of a memory, for comparison with an earlier listing; twice as fast as ``states_in``. Returns
    None if an entry disappears in between.
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
    """Return the Markdown files of a memory, such as ``knowledge/notes.md``, including subfolders; and the folders.

    Skips names that begin with a dot, and everything behind symlinks.
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
    """The database cannot store names that are not UTF-8."""
    return not any("\ud800" <= character <= "\udfff" for character in name)
