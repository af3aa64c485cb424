"""The list of changes by a session's tools: JSON lines, each on disk before its change.

    {"format":"cogstep-changes","version":1,"session":"4f...","seal":"9d1c...","sum":"5f2e0c1d"}
    {"seq":1,"turn":2,"call":"call-2-1-1","trees":[{"root":"/home/ada/project","folders":[],"files":[
        {"path":["greet.py"],"old":{"content":"60303a...","mode":420,"owner":[1000,1000]},"new":"e3b0c4..."}]}], ...}
    {"made":1, ...}     with "new":[...] if the new contents are known only afterwards
    {"failed":1, ...}   no change: a file differed from the version that its tool had read

Each line ends with a seal and a sum, as in a journal. The list decides which content overwrites which file, so it must
come from this user. A change without its ``made`` line may or may not have happened.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

from attrs import asdict, evolve, frozen

from cognition import from_data
from interpreters.recording.journal import ForeignRecordingError, JournalDamagedError
from interpreters.recording.journal.content_files import CHANGES, Contents, is_name
from interpreters.recording.journal.format import line_of, sum_of
from interpreters.recording.journal.seals import SealCheck, key_for_writing, start_hash
from interpreters.recording.journal.strict_lines import LONGEST, decode_line
from runtime.files import closing, open_private

FORMAT = "cogstep-changes"
VERSION = 1
TRIES = 16
"""Maximum number of attempts to open the file while another process deletes it."""


@frozen
class OldFile:
    """A file before a change."""

    content: str
    """SHA-256 of the saved content, and its name."""
    mode: int
    owner: tuple[int, int]


@frozen
class FileEntry:
    """The change of one file.

    Attributes:
        path: path relative to the root, in parts.
        old: the file before; None if it did not exist.
        new: SHA-256 of the future content; None if the file is deleted.
        mode_too: whether the change may affect mode or owner.
    """

    path: tuple[str, ...]
    old: OldFile | None
    new: str | None
    mode_too: bool


@frozen
class Tree:
    """The changes in one directory.

    Attributes:
        root: absolute path of the directory, without links.
        folders: missing folders that are created for the files.
        files: at most one per path.
    """

    root: str
    folders: tuple[tuple[str, ...], ...]
    files: tuple[FileEntry, ...]


@frozen
class ChangeEntry:
    """One change.

    Attributes:
        turn: newest turn of the session at that time.
        trees: changes in each directory.
        call: id of the tool's call.
        back: for an undo, the trees are restored to the state before this entry; None for a tool's change.
        made: whether the change certainly happened. Otherwise it may have happened in all files, some or none.
        number: position in the list, from 1.
    """

    turn: int
    trees: tuple[Tree, ...]
    call: str = ""
    back: int | None = None
    made: bool = False
    number: int = 0


class ChangeLog:
    """The list of changes of one session. Every writer holds it under a lock.

    Args:
        contents: directory of the list.
        session: name of the session.
        force: whether each entry must be forced to disk before its change.
    """

    def __init__(self, contents: Contents, session: str, *, force: bool = True) -> None:
        self._contents = contents
        self._session = session
        self._force = force
        self._last: LockedLog | None = None
        """The list as last held. It is read again only if another process has written to it."""
        self.path: Path = contents.directory / CHANGES

    @contextmanager
    def hold(self, *, begin: bool = True) -> Iterator[LockedLog]:
        """Lock the list; other users wait.

        Args:
            begin: whether to create the list if this session has none. Otherwise the file must exist.

        Raises:
            JournalDamagedError: a line was changed.
            OSError: the list can't be read or created.
        """
        with self._contents.open_directory() as directory:
            for _ in range(TRIES):
                flags = os.O_RDWR | (os.O_CREAT if begin else 0)
                with closing(open_private(CHANGES, flags, dir_fd=directory)) as file:
                    fcntl.flock(file, fcntl.LOCK_EX)
                    try:
                        about = os.fstat(file)
                        if about.st_nlink:  # else it was deleted in between
                            held, self._last = self._last, None
                            if held is None or not held.is_still(about):
                                held = LockedLog(self.path, self._session, self._force)
                                held.read(file)
                            held.take(file)
                            if begin and held.is_empty:
                                held.begin(directory)
                            yield held
                            self._last = held
                            return
                    finally:  # said, since a child that was forked meanwhile has the file too
                        fcntl.flock(file, fcntl.LOCK_UN)
        raise OSError(None, "it is deleted by somebody all the time")


class LockedLog:
    """The list while it is locked.

    Attributes:
        entries: entries of the list, oldest first.
        foreign: why the list does not count as this user's own; empty if it does.
    """

    def __init__(self, path: Path, session: str, force: bool) -> None:
        self._path = path
        self._session = session
        self._force = force
        self._file = -1
        self._place = (-1, -1)
        self.entries: list[ChangeEntry] = []
        self.foreign = ""
        self._end = 0
        self._sum = 0
        self._seal: blake2b | None = None

    def is_still(self, about: os.stat_result) -> bool:
        """Whether this is the same file and no other process has written to it."""
        return (about.st_dev, about.st_ino) == self._place and about.st_size == self._end

    def take(self, file: int) -> None:
        """Write to this descriptor from now on."""
        about = os.fstat(file)
        self._file, self._place = file, (about.st_dev, about.st_ino)

    @property
    def is_empty(self) -> bool:
        return not self._end

    def add(self, entry: ChangeEntry) -> int:
        """Write an entry, forced to disk if the list requires it. Return its number.

        Raises:
            OSError: the entry is not on file.
        """
        number = len(self.entries) + 1
        self._append({"seq": number, **_data(entry)}, force=self._force)
        self.entries.append(evolve(entry, number=number))
        return number

    def note_done(self, number: int, new: Sequence[str | None] | None = None) -> None:
        """Note that a change happened. Without this note the change may have happened, which is sufficient.

        Args:
            number: number of the entry.
            new: names of the new contents, if the entry could not contain them.
        """
        data: dict[str, Any] = {"made": number} if new is None else {"made": number, "new": list(new)}
        with suppress(OSError):
            self._append(data, force=False)
            self._note(data)

    def note_failed(self, number: int) -> None:
        """Note that a change failed. The content that the tool read may not have existed at that time."""
        with suppress(OSError):
            self._append({"failed": number}, force=False)
            self._void(number)

    def check_own(self, what: str) -> None:
        """Raise ``ForeignRecordingError`` if this user did not write the list."""
        if self.foreign:
            raise ForeignRecordingError(what, self.foreign, path=self._path)

    # --------------------------------------------------------------------------------------------------------- lines

    def begin(self, directory: int) -> None:
        """Write the first line, replacing another session's list.

        Raises:
            OSError: the line is not on file.
        """
        self._seal = None
        with suppress(OSError):  # without a key it counts as nobody's
            self._seal = start_hash(key_for_writing())
        self._append({"format": FORMAT, "version": VERSION, "session": self._session}, force=self._force)
        if self._force:
            os.fsync(directory)

    def _append(self, value: dict[str, Any], *, force: bool) -> None:
        line, total, seal = line_of(value, self._sum, self._seal)
        os.ftruncate(self._file, self._end)  # what a kill has left behind of a line
        os.lseek(self._file, self._end, os.SEEK_SET)
        try:
            left = memoryview(line)
            while left:
                left = left[os.write(self._file, left) :]
            if force:
                os.fsync(self._file)
        except BaseException:
            with suppress(OSError):
                os.ftruncate(self._file, self._end)
            raise
        self._end, self._sum, self._seal = self._end + len(line), total, seal

    def read(self, descriptor: int) -> None:
        """Read the list from a file.

        Raises:
            JournalDamagedError: a line was changed.
            OSError: the file can't be read.
        """
        os.lseek(descriptor, 0, os.SEEK_SET)
        with open(os.dup(descriptor), "rb") as file:
            header = file.readline(LONGEST + 1)
            total = sum_of(header, 0)
            if total is None and header.endswith(b"\n"):
                raise self._damage_error(1)
            data = decode_line(header) if total is not None else None
            if not isinstance(data, dict) or data.get("session") != self._session:
                return  # torn before anything else, or of another session, whose recording has gone from here
            if (data.get("format"), data.get("version")) != (FORMAT, VERSION):
                raise self._damage_error(1)
            seals = SealCheck(header)
            self._end, self._sum = len(header), total or 0
            for number, line in enumerate(iter(partial(file.readline, LONGEST + 1), b""), 2):
                total = sum_of(line, self._sum)
                if total is None:
                    if line.endswith(b"\n"):
                        raise self._damage_error(number)
                    break
                seals.add(line)
                self._take(decode_line(line), number)
                self._end, self._sum = self._end + len(line), total
        self.foreign, self._seal = seals.foreign, seals.running_hash()

    def _take(self, data: Any, number: int) -> None:
        try:
            if "made" in data:
                self._note(data)
            elif "failed" in data:
                self._void(from_data(data["failed"], int))
            else:
                self.entries.append(_entry(data, len(self.entries) + 1))
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise self._damage_error(number) from error

    def _entry(self, number: int) -> ChangeEntry:
        entry = self.entries[number - 1]
        if entry.number != number:
            raise ValueError("there is no such entry")
        return entry

    def _void(self, number: int) -> None:
        self.entries[number - 1] = evolve(self._entry(number), trees=(), made=True)

    def _note(self, data: dict[str, Any]) -> None:
        number = from_data(data["made"], int)
        entry = self._entry(number)
        if "new" in data:
            (tree,), names = entry.trees, from_data(data["new"], tuple[str | None, ...])
            _check_names(names)
            files = tuple(evolve(one, new=new) for one, new in zip(tree.files, names, strict=True))
            entry = evolve(entry, trees=(evolve(tree, files=files),))
        self.entries[number - 1] = evolve(entry, made=True)

    def _damage_error(self, number: int) -> JournalDamagedError:
        return JournalDamagedError(
            "the line was changed after it was written; the list of changes is damaged here, and nothing is undone by "
            "it",
            path=self._path,
            line=number,
        )


def _data(entry: ChangeEntry) -> dict[str, Any]:
    data: dict[str, Any] = {"turn": entry.turn, "trees": [asdict(tree) for tree in entry.trees]}
    return data | ({"call": entry.call} if entry.back is None else {"back": entry.back})


def _entry(data: dict[str, Any], number: int) -> ChangeEntry:
    if data["seq"] != number:
        raise ValueError("entries are missing")
    trees = from_data(data["trees"], tuple[Tree, ...])
    for tree in trees:
        for parts in (*tree.folders, *(one.path for one in tree.files)):
            if not parts or any(part in ("", ".", "..") or {"/", "\0"} & set(part) for part in parts):
                raise ValueError("this is no path below a root")
        _check_names(name for one in tree.files for name in (one.old and one.old.content, one.new))
    turn, call, back = from_data([data["turn"], data.get("call", ""), data.get("back")], tuple[int, str, int | None])
    return ChangeEntry(turn, trees, call, back, number=number)


def _check_names(names: Iterable[str | None]) -> None:
    if not all(name is None or is_name(name) for name in names):
        raise ValueError("this names no content")
