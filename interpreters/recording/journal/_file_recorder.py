"""Files as recorders: a line of the recording is a line of the file."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

from interpreters.recording.journal.errors import JournalError, JournalWriteError, unwritten_error
from interpreters.recording.journal.locking import LockedFile
from interpreters.recording.journal.strict_lines import LONGEST
from runtime.files import PRIVATE_FILE, force_directory, open_regular

LOOK_HOLDS = 0.001
"""Seconds before the file's path is checked again.

A check before each line would take a tenth of the cost of a fast turn. A file replaced between a check and the next
write is noticed only by the following check, and a thread may pause there for as long anyway.
"""

NEVER = float("-inf")


class FileRecorder:
    """A ``Recorder`` that stores its lines in a file. Wherever a recorder is expected, a path means this class.

    In addition, large texts of the session are in files beside it (``payloads``).
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Path = Path(path)
        self._place = ""
        """Absolute path of the open file."""
        self._file: LockedFile | None = None
        self._identity: tuple[int, int] | None = None
        """Device and inode of the open file; None until the first line is appended."""
        self._end = (-1, 0)
        """Number and end of the newest appended line, in one value that an interrupt can't split. Unknown before the
        first append.
        """
        self._looked = NEVER

    @property
    def name(self) -> str:
        return str(self.path)

    @property
    def beside(self) -> Path:
        """See ``recorder.Beside``: absolute path of the open file, or else the given path."""
        return Path(self._place or self.path)

    def lock(self, new: bool) -> bool:
        """See ``Recorder.lock``.

        Raises:
            JournalError: the file can't be opened or locked; the message explains what to do.
        """
        if self._file is not None and self._file.descriptor >= 0:  # by a session that was given the same recorder
            return False
        self._end, self._identity, self._looked = (-1, 0), None, NEVER
        self._place = os.path.abspath(self.path)  # wherever the program stands later
        try:
            self._file = file = LockedFile(self.path, os.O_WRONLY | (os.O_CREAT if new else 0))
        except OSError as error:
            if isinstance(error, FileNotFoundError) and not new:
                raise JournalError("can't be read: there is no such file", path=self.path) from error
            raise JournalWriteError(
                f"can't be opened for writing ({error.strerror}); choose another place", path=self.path
            ) from error
        try:
            if not self._is_locked(file):
                self.close()
                return False
            about = os.fstat(file.descriptor)
            if not about.st_nlink:  # deleted, by `cogstep sessions prune` say, while this was opened
                raise JournalError("the file was deleted", path=self.path)
            if new and not about.st_size:
                with contextlib.suppress(OSError):  # a disk without modes
                    os.fchmod(file.descriptor, PRIVATE_FILE)  # an empty one was there
        except BaseException:
            self.close()
            raise
        return True

    def _is_locked(self, file: LockedFile) -> bool:
        try:
            return file.lock()
        except OSError as error:
            raise JournalWriteError(
                f"can't be locked ({error.strerror}), so that nothing would keep a second session from writing it; "
                "choose a place on another disk",
                path=self.path,
            ) from error

    def append(self, number: int, line: bytes, force: bool) -> None:
        """See ``Recorder.append``.

        Raises:
            JournalWriteError: the line is not on file, and the file ends with the previous line.
        """
        if self._file is None:
            raise JournalWriteError("the file is not open for writing", path=self.path)
        descriptor = self._file.descriptor
        now = monotonic()
        if force or now - self._looked > LOOK_HOLDS:
            self._check_path(descriptor, now)
        try:
            size = os.lseek(descriptor, 0, os.SEEK_END)  # in a sixth of the time that `fstat` takes
            newest, end = self._end
            start = end if number == newest + 1 else self._find_start(number)
            if size < start:
                raise self._lost_error("was cut short")
            if size > start:  # what an interrupt or a crash left behind of a record
                os.ftruncate(descriptor, start)
            try:
                written = os.write(descriptor, line)
                while written < len(line):
                    written += os.write(descriptor, line[written:])
                if force:
                    os.fsync(descriptor)
            except OSError:  # so that a reader finds whole lines only; where it fails, the next call tries again
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, start)
                raise
            self._end = (number, start + len(line))
            if force and number == 0:  # else a crash of the machine may leave a file that nobody finds
                force_directory(Path(self._place).parent)
        except OSError as error:
            raise unwritten_error(error, self.path) from error

    def check_path(self) -> None:
        """Check the path again before the next line, because a turn begins.

        The program may have changed files before it.
        """
        self._looked = NEVER

    def _check_path(self, descriptor: int, now: float) -> None:
        """Check that the path still leads to the open file. Lines written to another file are lost.

        Raises:
            JournalWriteError: the file was replaced or deleted.
        """
        self._looked = NEVER
        if self._identity is None:  # of an open file it never changes
            about = os.fstat(descriptor)
            self._identity = about.st_dev, about.st_ino
        try:
            there = os.stat(self._place)
        except OSError:
            what = "was deleted or moved away"
        else:
            if (there.st_dev, there.st_ino) == self._identity:
                self._looked = now
                return
            what = "was replaced by another"
        raise self._lost_error(what)

    def _lost_error(self, what: str) -> JournalWriteError:
        return JournalWriteError(
            f"the file {what} while its session is recorded, so that nobody would find the record; put the file back, "
            "or begin another session",
            path=self.path,
        )

    def note_line(self, number: int, end: int) -> None:
        """Note that a complete line with this number ends here, because the caller has already read the file."""
        self._end = (number, end)

    @property
    def has_data(self) -> bool:
        """Whether the locked file contains data."""
        return self._file is not None and os.fstat(self._file.descriptor).st_size > 0

    def _find_start(self, number: int) -> int:
        """Return the start of the line with this number if it does not follow the newest line."""
        newest, _ = self._end
        if newest >= 0 and number != newest:  # the newest again: an interrupt came when it stood there
            raise JournalWriteError(f"line {number} can't follow line {newest}", path=self.path)
        start = 0
        with open_regular(self.path) as file:
            for _ in range(number):
                start += len(file.readline())
        return start

    def lines(self) -> Iterator[bytes]:
        """See ``Recorder.lines``. A last line that a crash has torn has no line break."""
        with contextlib.suppress(FileNotFoundError), open_regular(self.path) as file:
            while line := file.readline(LONGEST + 1):
                yield line

    def close(self) -> None:
        """Unlock the file. A second call does nothing."""
        if self._file is not None:
            self._file.close()
