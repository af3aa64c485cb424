"""One writer a session: a file that is locked for as long as it is open, and by nobody for longer than that.

``flock`` belongs to an open file and not to a process: it ends when the last copy of the descriptor is closed. A crash
closes them all, but for those that a child got by a fork, and a descriptor that is dropped is closed by nobody. So

- a child that is forked, by a tool say, closes its copies at once and can't write what its parent writes;
- a file that nobody holds any more is closed by its finalizer, and before a lock is refused, what waits for the garbage
  collection is collected;
- whoever only looks whether a file is locked shares a lock for some microseconds. A writer tells that from another
  writer, who shares nothing, and tries again.
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

from runtime.files import open_private, open_regular

PATIENCE = 10.0
"""Seconds that a writer goes on trying while others look at the file: so long only if one of them was stopped there."""

LONGEST_PAUSE = 0.005
"""Seconds between two tries, at most. Of chance, so that two who try at once don't meet again and again."""

CHANCE = SystemRandom()
"""Of our own: a thread in the background takes no number from the one that the program has seeded."""


COLLECTIONS = 5
"""How often garbage is collected for a file that this process itself has open: a thread may just be letting go."""


class LockedFile:
    """A file of this user's that is open for appending; one that is made here is the user's alone.

    Raises:
        OSError: by the constructor, if it can't be opened, or is a link, no regular file, or somebody else's.
    """

    def __init__(self, path: Path, flags: int) -> None:
        self.descriptor = -1
        """Below zero once it is closed."""
        self.forked = False
        """In a child of the process that had it open: closed here, and open there."""
        _collection.look()
        while True:  # no lock is held meanwhile: to open a file may take as long as a disk likes
            newest = _forks.newest
            self.descriptor = open_private(path, os.O_APPEND | flags)
            _open_files.add(self)
            if not _forks.under_way and _forks.newest is newest:
                return
            self.close()  # a child may have got a copy that it knows nothing of
            time.sleep(0.0)

    def lock(self) -> bool:
        """Lock it for as long as it is open; False if another session has it.

        Raises:
            OSError: this disk knows no locks.
        """
        until = time.monotonic() + PATIENCE
        collections = COLLECTIONS
        while not self._try(fcntl.LOCK_EX):
            if not self._is_written():
                if time.monotonic() > until:
                    return False
                time.sleep(CHANCE.uniform(0.0, LONGEST_PAUSE))
            elif collections == 0:
                return False
            else:  # perhaps by a session of this process that nobody holds any more
                gc.collect()
                _wait_for_releases(until)
                collections = collections - 1 if self._is_open_here() else 0
                time.sleep(LONGEST_PAUSE if collections else 0.0)
        return True

    def _is_open_here(self) -> bool:
        """Whether this process has it open a second time."""
        about = os.fstat(self.descriptor)
        others = [other.descriptor for other in list(_open_files) if other is not self and other.descriptor >= 0]
        return any(os.path.samestat(about, os.fstat(other)) for other in others)

    def close(self) -> None:
        """Close it, which unlocks it, also where a child of this process has a copy. A second call does nothing."""
        descriptor = self.descriptor
        if descriptor >= 0:
            try:  # an interrupt between these lines leaves it unlocked, or open for another call
                with contextlib.suppress(OSError):
                    fcntl.flock(descriptor, fcntl.LOCK_UN)
            finally:
                self.descriptor = -1
                os.close(descriptor)

    def _try(self, how: int) -> bool:
        try:
            fcntl.flock(self.descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _is_written(self) -> bool:
        """Whether another one has it for itself, and is not just looking."""
        try:
            shared = self._try(fcntl.LOCK_SH)
        except OSError:  # as on NFS, where a file that is open for writing alone can't be shared
            return True
        if shared:
            fcntl.flock(self.descriptor, fcntl.LOCK_UN)
        return not shared

    def __del__(self) -> None:
        self.close()

    def _abandon(self) -> None:
        """In a forked child: close the copy, and leave the lock with the parent."""
        descriptor, self.descriptor, self.forked = self.descriptor, -1, True
        if descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(descriptor)


_open_files: WeakSet[LockedFile] = WeakSet()
_releasing: list[threading.Thread] = []


class _Collection:
    """Sees to it that the files of sessions that nobody holds any more are not many.

    A session that refers to itself, as one with an observer of its own may, goes with the garbage. Python collects that
    by the number of objects, so that a thousand such sessions could use up all descriptors of a process before.
    """

    def __init__(self) -> None:
        self._at = FEWEST

    def look(self) -> None:
        """Before a file is opened: collect the garbage whenever twice as many are open as were still held last time."""
        if len(_open_files) >= self._at:
            gc.collect()
            self._at = max(FEWEST, 2 * len(_open_files))


FEWEST = 64
"""Files that may be open before anything is done about it."""

_collection = _Collection()


def released_by(thread: threading.Thread) -> None:
    """Somebody is ending sessions that were dropped, and has done so when this thread ends."""
    _releasing[:] = [one for one in _releasing if one.is_alive()]
    _releasing.append(thread)


def _wait_for_releases(until: float) -> None:
    for thread in list(_releasing):
        if thread is not threading.current_thread():
            thread.join(max(0.0, until - time.monotonic()))


def is_being_written(path: Path) -> bool:
    """Whether a session has a journal open for writing now.

    Raises:
        OSError: it can't be opened.
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
    """What a file that is being opened has to know of forks on other threads."""

    def __init__(self) -> None:
        self.under_way: set[int] = set()
        """The threads that fork right now."""
        self.newest = object()
        """Another one after each fork."""

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
