"""Files as recordings of a place: inspected, deleted and created without following links.

A copy is written to a file with another name. This file is created before all other files of the copy, and is locked
from beginning to end. So an unlocked file belongs to a killed copy, and so do the files beside the future recording.
They are removed before the next copy to that name, and with old recordings of their directory.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from attrs import frozen

from interpreters.recording.collections import UNDO, RecordingInfo
from interpreters.recording.journal.content_files import ContentError, is_name, undo_files
from interpreters.recording.journal.errors import JournalError, JournalExistsError, JournalWriteError
from interpreters.recording.journal.locking import LockedFile, is_being_written
from interpreters.recording.journal.payloads import LONGEST_WITH_PAYLOADS, Payloads, directory_of
from interpreters.recording.journal.strict_lines import LONGEST
from runtime.files import PRIVATE_DIRECTORY, closing, force_directory, read_regular, reason_about

BEGINNING = (0.0, 0.01, 0.1)
"""Seconds to wait before each new look at an empty file, which a session may just have created."""
JUST_NOW = 10.0
"""Maximum age in seconds of an empty file that is worth waiting for."""

PART = ".part"
"""Suffix of a file during the copy, which no list includes."""

NAME = re.compile(r"(.+)\.[0-9a-f]{32}\.part", re.DOTALL)
"""Matches the name of such a file, with the recording's name as its group."""


@frozen
class FileRecording:
    """A file as a ``Recording``."""

    path: Path

    @property
    def name(self) -> str:
        return str(self.path)

    @property
    def where(self) -> Path:
        return self.path

    @property
    def not_ours(self) -> str:
        """See ``Recording.not_ours``: a link, or another user's file."""
        about = self.path.lstat()
        if stat.S_ISLNK(about.st_mode):
            return "it is a link"
        return "" if about.st_uid == os.geteuid() else "it belongs to another user"

    def info(self) -> RecordingInfo | None:
        try:
            about = self.path.stat()
        except FileNotFoundError:
            return None
        return RecordingInfo(about.st_mtime, about.st_size + Payloads(self.path).size() + undo_files(self.path).size())

    def is_open(self) -> bool:
        return is_being_written(self.path)

    def is_new_or_gone(self) -> bool:
        """See ``Recording.is_new_or_gone``. Waits a moment for the first line."""
        for wait in BEGINNING:
            time.sleep(wait)
            try:
                about = self.path.stat()
                if not stat.S_ISREG(about.st_mode):
                    return False
                with self.path.open("rb") as file:
                    if file.readline(LONGEST).endswith(b"\n"):
                        return False
                if is_being_written(self.path):
                    return True
            except OSError as error:
                return isinstance(error, FileNotFoundError)
            if abs(time.time() - about.st_mtime) > JUST_NOW:
                return False
        return False

    def has_no_header(self) -> bool:
        return False

    def content(self, longest: int) -> bytes | None:
        try:
            return read_regular(self.path, longest)
        except OSError:
            return None

    def beside(self) -> str:
        return UNDO if os.path.lexists(undo_files(self.path).directory) else ""

    def payloads(self) -> Iterator[tuple[str, bytes]]:
        """See ``Recording.payloads``.

        Raises:
            JournalError: a payload can't be read, or was changed.
        """
        payloads, names = Payloads(self.path), list[str]()
        with suppress(FileNotFoundError):
            names = os.listdir(payloads.directory)
        for name in sorted(filter(is_name, names)):
            try:
                yield name, payloads.get(name, LONGEST_WITH_PAYLOADS)
            except ContentError as error:
                raise JournalError(str(error), path=self.path) from error

    def delete(self, about: RecordingInfo, *, dry_run: bool = False) -> str:
        try:
            # By the directory's descriptor: whoever swaps a folder on the way for a link has nothing else deleted.
            folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            with closing(folder) as directory, LockedFile(self.path, os.O_RDWR) as file:
                if not file.lock():
                    return "a session has it open"
                opened = os.fstat(file.descriptor)
                if opened.st_mtime != about.changed:
                    return "it was written just now"
                if not os.path.samestat(opened, os.stat(self.path.name, dir_fd=directory, follow_symlinks=False)):
                    return "another file has its name by now"
                if not dry_run:
                    # The journal goes last: what an interrupted prune leaves of it, the next one finds.
                    for beside in (Payloads(self.path), undo_files(self.path)):
                        beside.remove(dir_fd=directory)
                    os.unlink(self.path.name, dir_fd=directory)
        except OSError as error:
            return error.strerror or type(error).__name__
        return ""

    def begin(
        self,
        lines: Callable[[], Iterable[bytes]],
        changed: float,
        payloads: Callable[[], Iterable[tuple[str, bytes]]] = tuple,
    ) -> None:
        """See ``Recording.begin``. The file gets its name when it and its payloads are complete and on disk."""
        clear_parts(self.path.parent, self.path.name)
        beside, made, part, copy = Payloads(self.path), False, part_of(self.path), None
        try:
            if os.path.lexists(self.path) or os.path.lexists(beside.directory):
                raise FileExistsError
            copy = create_part(part)
            for name, content in payloads():
                if not made:  # of two who copy to here at once, one is refused, and deletes nothing of the other's
                    os.mkdir(beside.directory, PRIVATE_DIRECTORY)
                    made = True
                    os.chmod(beside.directory, PRIVATE_DIRECTORY)  # a umask may have taken the user's own rights
                beside.put(content, force=True, name=name, named=False)
            if made:
                beside.force_names()
            with open(copy.descriptor, "wb", closefd=False) as file:
                file.writelines(lines())
                file.flush()
                os.utime(file.fileno(), (changed, changed))
                os.fsync(file.fileno())
            os.link(part, self.path)  # which replaces nothing
            made = False
            os.unlink(part)
            force_directory(self.path.parent)
        except FileExistsError as error:
            raise JournalExistsError(
                "the file exists, or large texts beside it, and a recording is never overwritten; choose another name",
                path=self.path,
            ) from error
        except OSError as error:
            raise JournalWriteError(f"can't be made ({reason_about(error, self.path)})", path=self.path) from error
        finally:
            if made and not os.path.lexists(self.path):  # else they may be those of who has begun there meanwhile
                with suppress(OSError):
                    beside.remove()
            if copy is not None:
                with suppress(OSError):
                    os.unlink(part)
                copy.close()


def part_of(path: Path) -> Path:
    """Return a random path for the partial copy of a recording."""
    return path.with_name(f"{path.name}.{uuid.uuid4().hex}{PART}")


def create_part(part: Path) -> LockedFile:
    """Create and lock a partial copy.

    Raises:
        OSError: the file can't be created.
    """
    file = LockedFile(part, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    try:
        if file.lock() and os.fstat(file.descriptor).st_nlink:
            return file
        raise OSError(None, "somebody has cleared it away; copy it again")  # between these two lines
    except BaseException:
        file.close()
        with suppress(OSError):
            os.unlink(part)
        raise


def clear_parts(folder: Path, of: str | None = None) -> None:
    """Remove the files of killed copies in a folder that belong to this user and can be deleted.

    Args:
        folder: the folder.
        of: name of the only recording whose copies to remove; None: all.
    """
    with suppress(OSError):
        for part, recording in _parts_in(folder, of):
            with suppress(OSError):
                _clear(part, recording)


def _parts_in(folder: Path, of: str | None) -> Iterator[tuple[Path, Path]]:
    """Yield each partial copy, and the recording that it was to become."""
    for name in os.listdir(folder):
        found = NAME.fullmatch(name)
        if found is not None and of in (None, found[1]):
            yield folder / name, folder / found[1]


def _clear(part: Path, recording: Path) -> None:
    # Not by `LockedFile`, which takes no file with two names: the recording may have got its own in the last moment.
    with closing(os.open(part, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)) as descriptor:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid():
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # it is being made
            return
        try:
            if not os.path.lexists(directory_of(recording)) or _clear_payloads(recording, part):
                os.unlink(part)  # last: by it the rest is found
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)


def _clear_payloads(recording: Path, part: Path) -> bool:
    """Delete the large texts beside a missing recording, under its lock, unless they may belong to another copy.

    A copy in progress creates its own file first. Returns whether no large texts of a killed copy remain.
    """
    try:
        claim = LockedFile(recording, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    except FileExistsError:  # they are those of a recording
        return True
    with claim:
        if not claim.lock():
            return True
        try:
            if _is_copied(recording, but=part):
                return False
            Payloads(recording).remove()
            return True
        finally:
            os.unlink(recording)


def _is_copied(recording: Path, but: Path) -> bool:
    for part, _ in _parts_in(recording.parent, recording.name):
        with suppress(OSError):  # gone, or none of ours
            if part != but and is_being_written(part):
                return True
    return False
