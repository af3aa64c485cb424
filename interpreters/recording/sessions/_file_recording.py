"""Files as recordings of a place: inspected, deleted and created without following links."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from attrs import frozen

from interpreters.recording.collections import UNDO, RecordingInfo
from interpreters.recording.journal.content_files import ContentError, is_name, undo_files
from interpreters.recording.journal.errors import JournalError, JournalExistsError, JournalWriteError
from interpreters.recording.journal.locking import LockedFile, is_being_written
from interpreters.recording.journal.payloads import LONGEST_WITH_PAYLOADS, Payloads
from interpreters.recording.journal.strict_lines import LONGEST
from interpreters.recording.sessions._partial_copies import clear_parts, create_part, part_of
from runtime.files import PRIVATE_DIRECTORY, closing, force_directory, read_regular, reason_about

BEGINNING = (0.0, 0.01, 0.1)
"""Seconds to wait before each new look at an empty file, which a session may just have created."""
JUST_NOW = 10.0
"""Maximum age in seconds of an empty file that is worth waiting for."""


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
        payloads = Payloads(self.path)
        for name in sorted(filter(is_name, self._payload_names(payloads))):
            try:
                yield name, payloads.get(name, LONGEST_WITH_PAYLOADS)
            except ContentError as error:
                raise JournalError(str(error), path=self.path) from error

    def _payload_names(self, payloads: Payloads) -> list[str]:
        try:
            return os.listdir(payloads.directory)
        except FileNotFoundError:
            return []

    def delete(self, about: RecordingInfo, *, dry_run: bool = False) -> str:
        try:
            # By the directory's descriptor: whoever swaps a folder on the way for a link has nothing else deleted.
            with closing(os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as directory:
                file = LockedFile(self.path, os.O_RDWR)
                try:
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
                finally:
                    file.close()
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
