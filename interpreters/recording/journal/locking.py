"""One writer per session: the file is locked exactly while it is open.

``flock`` belongs to an open file and not to a process: it ends when the last copy of the descriptor is closed. A crash
closes all descriptors, except copies in forked children. A dropped descriptor stays open. Therefore:

- A forked child, for example of a tool, closes its copies immediately and can't write to its parent's file.
- A finalizer closes a file without references. Before a lock is refused, garbage is collected.
- A process that only checks for a lock takes a shared lock for some microseconds. A writer distinguishes this from
  another writer, whose lock is exclusive, and tries again.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import threading
import time
from pathlib import Path
from random import SystemRandom
from weakref import WeakSet

from runtime.closeable import Closeable
from runtime.files import open_private, open_regular

PATIENCE = 10.0
"""Seconds that a writer retries while others check the file. It takes that long only if one of them was stopped."""

LONGEST_PAUSE = 0.005
"""Maximum seconds between two attempts. The pause is random, so that two writers do not collide repeatedly."""

CHANCE = SystemRandom()
"""A separate generator, so that a background thread does not change the sequence that the program has seeded."""


COLLECTIONS = 5
"""Number of garbage collections for a file that this process has open itself, perhaps in an ending thread."""


class LockedFile(Closeable):
    """A file of this user, open for appending. A file created here is private.

    Raises:
        OSError: by the constructor, if the file can't be opened, is a link, is not regular or belongs to another user.
    """

    def __init__(self, path: Path, flags: int) -> None:
        self.descriptor: int = -1
        """The descriptor; negative once closed."""
        _collect_if_due()
        while True:  # no lock is held meanwhile: to open a file may take as long as a disk likes
            newest = _forks.newest
            self.descriptor = open_private(path, os.O_APPEND | flags)
            _open_files.add(self)
            if not _forks.under_way and _forks.newest is newest:
                return
            self.close()  # a child may have got a copy that it knows nothing of
            time.sleep(0.0)

    def lock(self) -> bool:
        """Lock the file while it is open. Return False if another session has locked it.

        Raises:
            OSError: the disk does not support locks.
        """
        until = time.monotonic() + PATIENCE
        collections = COLLECTIONS
        while not self._lock(fcntl.LOCK_EX):
            if not self._is_written():
                if time.monotonic() > until:
                    return False
                time.sleep(CHANCE.uniform(0.0, LONGEST_PAUSE))
            elif collections == 0:
                return False
            else:  # perhaps by a session of this process that nobody holds any more
                gc.collect()
                for thread in list(_releasing):
                    if thread is not threading.current_thread():
                        thread.join(max(0.0, until - time.monotonic()))
                collections = collections - 1 if self._is_open_here() else 0
                time.sleep(LONGEST_PAUSE if collections else 0.0)
        return True

    def _is_open_here(self) -> bool:
        """Whether this process has the file open a second time."""
        about = os.fstat(self.descriptor)
        others = [other.descriptor for other in list(_open_files) if other is not self]
        return any(_is_open_as(about, descriptor) for descriptor in others if descriptor >= 0)

    def close(self) -> None:
        """Unlock and close the file, even if a child of this process has a copy. A second call does nothing."""
        descriptor = self.descriptor
        if descriptor >= 0:
            try:  # an interrupt between these lines leaves it unlocked, or open for another call
                with contextlib.suppress(OSError):
                    fcntl.flock(descriptor, fcntl.LOCK_UN)
            finally:
                self.descriptor = -1
                os.close(descriptor)

    def _lock(self, how: int) -> bool:
        try:
            fcntl.flock(self.descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _is_written(self) -> bool:
        """Whether another process has an exclusive lock, and is not only checking."""
        try:
            shared = self._lock(fcntl.LOCK_SH)
        except OSError:  # as on NFS, where a file that is open for writing alone can't be shared
            return True
        if shared:
            fcntl.flock(self.descriptor, fcntl.LOCK_UN)
        return not shared

    def __del__(self) -> None:
        self.close()

    def _abandon(self) -> None:
        """Close the copy in a forked child, and leave the lock with the parent."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(descriptor)


def _is_open_as(about: os.stat_result, descriptor: int) -> bool:
    """Whether a descriptor is of this file. Another thread may be closing it."""
    with contextlib.suppress(OSError):
        return os.path.samestat(about, os.fstat(descriptor))
    return False


_open_files: WeakSet[LockedFile] = WeakSet()
_releasing: list[threading.Thread] = []


FEWEST = 64
"""Number of open files below which no collection is necessary."""

_collect_at = FEWEST


def _collect_if_due() -> None:
    """Collect garbage before a file is opened, if the number of open files has doubled.

    A session in a reference cycle, for example through its observer, is garbage. Python collects garbage by the number
    of objects, so a thousand such sessions could use up all descriptors of the process first.
    """
    global _collect_at
    if len(_open_files) >= _collect_at:
        gc.collect()
        _collect_at = max(FEWEST, 2 * len(_open_files))


def note_releasing_thread(thread: threading.Thread) -> None:
    """Note a thread that ends dropped sessions."""
    _releasing[:] = [one for one in _releasing if one.is_alive()]
    _releasing.append(thread)


def is_being_written(path: Path) -> bool:
    """Whether a session has a journal open for writing.

    Raises:
        OSError: the file can't be opened.
    """
    with open_regular(path) as file:
        descriptor = file.fileno()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # and not by closing it, of which a child may have a copy
        except BlockingIOError:
            return True
        except OSError:  # a disk that knows no locks, on which nothing can be recorded
            return False
    return False


class _Forks:
    """Tracks forks on other threads while a file is opened."""

    def __init__(self) -> None:
        self.under_way: set[int] = set()
        self.newest = object()
        """Identity of the latest fork; replaced after each fork."""

    def begin(self) -> None:
        self.under_way.add(threading.get_ident())

    def end_in_parent(self) -> None:
        self.newest = object()
        self.under_way.discard(threading.get_ident())

    def end_in_child(self) -> None:
        self.under_way.clear()
        for file in list(_open_files):
            file._abandon()
        _open_files.clear()


_forks = _Forks()
os.register_at_fork(before=_forks.begin, after_in_parent=_forks.end_in_parent, after_in_child=_forks.end_in_child)
