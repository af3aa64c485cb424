"""Notes on changes of files that are under way, from which a later process puts back what a killed one left half done.

They lie in the user's state directory, not beside the files that change: a command in a sandbox may write there, and
with a note of its own, or an old one of ours, it would have this process replace files that it may not write itself.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import logging
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from runtime.files import (
    UnusableFileError,
    closing,
    make_directory,
    open_directory,
    own_state_directory,
    reason_about,
    state_directory,
)

LOG = logging.getLogger("cogstep")

FOLDER = "file-changes"
"""The notes' folder in the state directory."""
NAME = re.compile(r"([0-9a-f]{32})-([0-9a-f]{16})\.note")
"""The name of a note: of its root, and the token of its change."""
LONGEST = 10_000_000
TRIES = 16
"""Attempts to create a note, if other processes delete it immediately."""
READ = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
LISTED = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class Note:
    """A note that this process holds. Without a descriptor nothing is written, and a kill can't be put back."""

    def __init__(self, descriptor: int | None = None, force: bool = False) -> None:
        self._descriptor, self._force = descriptor, force
        self.finished: bool = False
        """Whether it is no longer needed."""

    def add(self, line: bytes) -> None:
        if self._descriptor is not None:
            left = memoryview(line)
            while left:
                left = left[os.write(self._descriptor, left) :]
            if self._force:
                os.fsync(self._descriptor)


class ChangeNotes:
    """The notes on changes in one directory.

    Args:
        root: its absolute path without links. A note holds for this path alone.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._key = hashlib.sha256(os.fsencode(root)).hexdigest()[:32]
        self._told = False

    @contextmanager
    def writing(self, token: str, plan: bytes, *, force: bool) -> Iterator[Note]:
        """Write a note with its first line, and lock it. It is deleted at the end if it is ``finished``, else it stays
        for the next process.

        Where no note can be kept, the change goes on without one, and a warning says so.

        Args:
            token: of the change.
            plan: the line, without its end.
            force: whether every line is forced to disk.
        """
        with ExitStack() as held:
            name, note = f"{self._key}-{token}.note", Note()
            folder = None
            try:
                folder = held.enter_context(closing(self._open_folder(make=True)))
                note = Note(held.enter_context(_create(folder, name)), force)
                note.add(plan + b"\n")
                if force:
                    os.fsync(folder)
            except OSError as error:
                self._tell(error)
                note = Note()
                if folder is not None:
                    with suppress(OSError):
                        os.unlink(name, dir_fd=folder)
                folder = None
            try:
                yield note
            finally:
                if note.finished and folder is not None:
                    with suppress(OSError):  # a note on what is done already does no harm
                        os.unlink(name, dir_fd=folder)

    def settle(self, put_back: Callable[[str, bytes], None]) -> None:
        """Call ``put_back`` with the token and the text of each note of a dead process, and delete the note.

        Raises:
            OSError: by ``put_back``. The note stays.
        """
        try:
            folder = self._open_folder(make=False)
        except FileNotFoundError:
            return
        except OSError as error:
            self._tell(error)
            return
        with closing(folder):
            with closing(os.open(".", LISTED, dir_fd=folder)) as listed:
                names = [found for name in os.listdir(listed) if (found := NAME.fullmatch(name))]
            for found in names:
                if found[1] == self._key:
                    with _taken(folder, found[0]) as text:
                        if text is not None:
                            put_back(found[2], text)

    def _open_folder(self, *, make: bool) -> int:
        """Open the notes' folder.

        Raises:
            OSError: there is none, or somebody else may write in it, or who may write in the root.
        """
        state = state_directory()
        if not state.is_absolute():
            raise UnusableFileError("is no place of this user's: set HOME or XDG_STATE_HOME", state)
        place = state / FOLDER
        if make:
            own_state_directory()
            make_directory(place)
        folder = open_directory(place)
        try:
            own_state_directory()  # it is there by now
            if os.fstat(folder).st_mode & 0o022:
                raise UnusableFileError("it can be written by other users; chmod 700 it", place)
            if any(Path(one).is_relative_to(self._root) for one in (place, os.path.realpath(place))):
                raise UnusableFileError("it lies in the directory itself, where a command may write", place)
        except BaseException:
            os.close(folder)
            raise
        return folder

    def _tell(self, error: OSError) -> None:
        """Log once that there are no notes, and what that means."""
        if not self._told:
            self._told = True
            place = state_directory() / FOLDER
            LOG.warning(
                "a change of several files in %s that is killed half-way can't be put back, since no note on it can "
                "be kept in %s: %s",
                self._root,
                place,
                reason_about(error, place),
            )


@contextmanager
def _create(folder: int, name: str) -> Iterator[int]:
    """Create an empty note and lock it."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    for _ in range(TRIES):
        with closing(os.open(name, flags, 0o600, dir_fd=folder)) as note:
            fcntl.flock(note, fcntl.LOCK_EX)
            try:
                if os.fstat(note).st_nlink:  # else somebody took it for one of a process that has died
                    yield note
                    return
            finally:
                fcntl.flock(note, fcntl.LOCK_UN)
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN), name)


@contextmanager
def _taken(folder: int, name: str) -> Iterator[bytes | None]:
    """Lock a note of a dead process, and yield its text; None if there is none. It is deleted at the end, unless an
    error is raised.
    """
    with ExitStack() as held:
        try:
            note = held.enter_context(closing(os.open(name, READ, dir_fd=folder)))
            about = os.fstat(note)
            if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o077:
                raise OSError(errno.EPERM, os.strerror(errno.EPERM), name)
            fcntl.flock(note, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.fstat(note).st_nlink:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        except OSError:  # it is no file of ours, somebody works on it, or was faster
            yield None
            return
        with open(os.dup(note), "rb") as file:
            text = file.read(LONGEST)
        yield text
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
