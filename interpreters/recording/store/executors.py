"""Which processes write, and which sessions each of them has: what a lease on a session stands on.

A session's row names its writer's process and a token; a process's row says until when it is taken to be alive. So one
thread a process renews one row, however many sessions are open, and with the process all its leases end:

- at once where it ends in order, or where somebody on the same machine asks for one of its sessions after it was
  killed: each process holds a lock on a file of its own, which the system gives free;
- after ``EXPIRES_AFTER`` seconds where its machine is gone, or can't reach the database.

A process that was stopped for longer, and wakes, may find sessions of its own taken over. Each statement with which it
writes asks for its token, in the same moment, so that it can't write one more line of them.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from queue import Empty, SimpleQueue
from weakref import WeakSet, finalize, ref

from attrs import frozen
from sqlalchemy import Connection, bindparam, delete, insert, select, update

from cognition import CogstepError
from interpreters.recording.journal.locking import LockedFile, is_being_written
from interpreters.recording.store.database import Database
from interpreters.recording.store.schema import executors, sessions
from runtime.files import make_directory, own_state_directory

EXPIRES_AFTER = 15.0
"""Seconds without a sign of life after which a process's sessions may be taken over."""

FORK_WAITS = 1.0
"""Seconds for which a fork waits for this process's threads that are in a database."""

RENEWED_EVERY = 4.0
"""Seconds between two signs of life: three may fail."""

AGAIN_AFTER = 1.0
"""Seconds until that is tried again where it failed."""

FORGOTTEN_AFTER = 86_400.0
"""Seconds after which the row, and the file, of a process that gave none is deleted."""

Held = tuple[str, int]
"""A session's name, and the token with which it is written."""


@frozen
class Executor:
    """A process that writes sessions, or did."""

    id: str
    name: str
    """What its program calls it; empty where it does not."""
    expires_in: float
    """Seconds for which it is taken to be alive; negative: it has been expired for that long."""


class Membership:
    """This process as one of those that write to a database. All methods may be called by any thread."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.name = ""
        self._begin()
        _memberships.add(self)

    def _begin(self) -> None:
        self.lock = threading.RLock()
        """Held while a session is taken, so that two threads do not take it both."""
        self.id = ""
        self.held: dict[str, int] = {}
        """The sessions that this process writes, with their tokens."""
        self._given_back: SimpleQueue[Held | None] = SimpleQueue()
        """What was dropped, or could not be given back. Put there from anywhere: also while garbage is collected. None
        ends the thread."""
        self._alive: LockedFile | None = None
        self._pid = os.getpid()
        finalize(self, self._given_back.put, None).atexit = False

    def join(self) -> str:
        """See that this process is known to be alive, and give its id.

        Raises:
            StoreError: the database can't be used.
        """
        with self.lock:
            if not self.id:
                own = f"{machine()}:{uuid.uuid4().hex}"
                self._alive = _hold(own)
                self.database.write(lambda connection: self._beat(connection, own))
                self.id = own
                given = (ref(self), self.database, own, self._given_back)
                threading.Thread(target=_renew, args=given, name="cogstep-store", daemon=True).start()
            return self.id

    def _beat(self, connection: Connection, own: str) -> None:
        """A sign of life. A row that somebody took for a dead process's is made again: what was not taken over yet is
        still this one's.
        """
        expires = self.database.now + EXPIRES_AFTER
        values = {"name": self.name, "expires": expires}
        if connection.execute(update(executors).where(executors.c.id == own).values(values)).rowcount == 0:
            connection.execute(insert(executors).values(id=own, **values))
            old = self.database.now - FORGOTTEN_AFTER
            connection.execute(delete(executors).where(executors.c.expires < old))

    def beat(self) -> None:
        """Give a sign of life now, and give back what was dropped.

        Raises:
            StoreError: the database can't be used.
        """
        self.give_back_dropped()
        if self.id:
            self.database.write(lambda connection: self._beat(connection, self.id))

    def drop(self, held: Held) -> None:
        """A session is not written any more; it is given back soon, by another thread. Takes no lock."""
        self._given_back.put(held)

    def give_back_dropped(self) -> None:
        """Give back what was dropped so far.

        Raises:
            StoreError: the database can't be used; what is left is given back another time.
        """
        while True:
            try:
                held = self._given_back.get_nowait()
            except Empty:
                return
            if held is not None:
                self.give_back(held)

    def give_back(self, held: Held) -> None:
        """Let others write a session. Raises as ``give_back_dropped``."""
        name, token = held
        with self.lock:
            if self.held.get(name) == token:
                del self.held[name]
        try:
            self.database.run(lambda connection: connection.execute(_GIVE_BACK, {"s": name, "t": token}))
        except BaseException:
            self._given_back.put(held)
            raise

    def end(self) -> None:
        """This process writes no more: all that it has is free at once."""
        if self.id and os.getpid() == self._pid:
            with contextlib.suppress(CogstepError):
                self.give_back_dropped()
                _leave(self.database, self.id)
        if self._alive is not None:
            with contextlib.suppress(OSError):
                self._alive.close()
                (_files() / self.id.rpartition(":")[2]).unlink(missing_ok=True)
        self.id = ""
        self._given_back.put(None)

    def after_fork(self) -> None:
        """In a child: another process, which writes nothing yet."""
        self._begin()

    def is_alive(self, connection: Connection, holder: str) -> bool:
        """Whether a process may be writing, as far as anybody can tell."""
        found = select(executors.c.expires > self.database.now).where(executors.c.id == holder)
        return bool(connection.execute(found).scalar()) and not is_dead_here(holder)


_GIVE_BACK = (
    update(sessions).where(sessions.c.name == bindparam("s"), sessions.c.token == bindparam("t")).values(holder=None)
)

_memberships: WeakSet[Membership] = WeakSet()


def _renew(membership: ref[Membership], database: Database, own: str, given_back: SimpleQueue[Held | None]) -> None:
    """The one thread of a process that renews, for as long as anybody uses the database there."""
    due = time.monotonic() + RENEWED_EVERY
    while True:
        try:
            held = given_back.get(timeout=max(0.0, due - time.monotonic()))
            found = None if held is None else membership()
        except Empty:
            held, found = None, membership()
        if found is None:
            break
        try:
            with _inside():
                if held is not None:
                    found.give_back(held)
                if time.monotonic() >= due:
                    due = time.monotonic() + RENEWED_EVERY
                    found.beat()
        except CogstepError:  # whoever writes is told; here it is tried again
            due = time.monotonic() + AGAIN_AFTER
            time.sleep(AGAIN_AFTER)
        del found  # so that it can be collected meanwhile
    with contextlib.suppress(CogstepError), _inside():
        _leave(database, own)


@contextlib.contextmanager
def _inside() -> Iterator[None]:
    """A thread of ours is in a database meanwhile, and whoever forks waits for it: a child would have the locks that
    SQLite holds at that moment, and nobody who gives them back.
    """
    global _threads
    with _gate:
        _threads += 1
    try:
        yield
    finally:
        with _gate:
            _threads -= 1


_gate = threading.Lock()
"""Held while a process is forked, so that none of these threads enters a database."""
_threads = 0
"""How many are in one."""


def _leave(database: Database, own: str) -> None:
    """A process is none of those that write any more: whatever it had is free."""
    database.run(lambda connection: connection.execute(delete(executors).where(executors.c.id == own)))


def all_executors(database: Database) -> list[Executor]:
    """The processes that write to a database, and those that died within a day."""
    found = select(executors.c.id, executors.c.name, executors.c.expires - database.now).order_by(executors.c.id)

    def read(connection: Connection) -> list[Executor]:
        rows = connection.execute(found).all()
        return [Executor(one, name, -EXPIRES_AFTER if is_dead_here(one) else left) for one, name, left in rows]

    return database.read(read, [])


# ------------------------------------------------------------------------------------------------- on the same machine


def machine() -> str:
    """This machine, since it was started, where that can be told; else its name."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return f"{socket.gethostname()}-{uuid.getnode():x}"


def _files() -> Path:
    return own_state_directory() / "executors"


def _hold(own: str) -> LockedFile | None:
    """The lock that shows those on this machine that a process is alive; None where there is no place for one."""
    try:
        folder = _files()
        make_directory(folder)
        _clear(folder)
        file = LockedFile(folder / own.rpartition(":")[2], os.O_RDWR | os.O_CREAT)
        return file if file.lock() else None
    except OSError:
        return None


def _clear(folder: Path) -> None:
    """Delete the files of processes that died long ago."""
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > FORGOTTEN_AFTER and not is_being_written(path):
                path.unlink()


def is_dead_here(holder: str) -> bool:
    """Whether a process of this user's ran on this machine, and has ended without saying so."""
    where, _, own = holder.rpartition(":")
    if where != machine():
        return False
    try:
        return not is_being_written(_files() / own)
    except OSError:  # no such file: another user's, or one that had no place for it
        return False


def _end_all() -> None:
    for membership in list(_memberships):
        membership.end()


def _before_fork() -> None:
    """Wait until no thread of ours is in a database; not for long, since a server may hang."""
    until = time.monotonic() + FORK_WAITS
    _gate.acquire()
    while _threads and time.monotonic() < until:
        _gate.release()
        time.sleep(0.001)
        _gate.acquire()


def _after_fork() -> None:
    global _gate, _threads
    _gate, _threads = threading.Lock(), 0
    for membership in list(_memberships):
        membership.after_fork()


atexit.register(_end_all)
os.register_at_fork(before=_before_fork, after_in_parent=lambda: _gate.release(), after_in_child=_after_fork)
