"""The processes that write, and their sessions: the basis of leases on sessions.

A session's row contains its writer's process and a token. A process's row contains the time until which it counts as
alive. So one thread per process renews one row, however many sessions are open. All leases of a process end with it:

- immediately if it ends normally. After a kill, they end when another process on the machine requests one of its
  sessions: each process locks its own file, and the system releases that lock;
- after ``EXPIRES_AFTER`` seconds if its machine is gone or can't reach the database.

A process that was stopped for longer may find its sessions taken over when it continues. Each of its write statements
checks its token in the same moment, so it can't write another line of these sessions.
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
"""Seconds without a sign of life before a process's sessions may be taken over."""

FORK_WAITS = 1.0
"""Maximum seconds that a fork waits for this process's threads inside a database."""

RENEWED_EVERY = 4.0
"""Seconds between two signs of life, so three may fail."""

AGAIN_AFTER = 1.0
"""Seconds before a failed sign of life is repeated."""

FORGOTTEN_AFTER = 86_400.0
"""Seconds without a sign of life before a process's row and file are deleted."""

Held = tuple[str, int]


@frozen
class Executor:
    """A process that writes sessions, or did."""

    id: str
    name: str
    """Name of the process in its program; empty if it has none."""
    expires_in: float
    """Seconds for which it still counts as alive; negative once expired."""


class Membership:
    """This process as a writer of a database. All methods are safe from any thread."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.name = ""
        self.begin()
        _memberships.add(self)

    def begin(self) -> None:
        """Start as a process without sessions; also in a forked child, as a new process."""
        self.lock: threading.RLock = threading.RLock()
        """Lock for taking a session, so that two threads do not both take it."""
        self.id: str = ""
        self.held: dict[str, int] = {}
        """Sessions that this process writes, with their tokens."""
        self._given_back: SimpleQueue[Held | None] = SimpleQueue()
        """Sessions that were dropped or not yet released. May be filled from anywhere, even during garbage collection.
        None ends the thread.
        """
        self._alive: LockedFile | None = None
        self._pid = os.getpid()
        finalize(self, self._given_back.put, None).atexit = False

    def join(self) -> str:
        """Register this process as alive, and return its id.

        Raises:
            StoreError: the database can't be used.
        """
        with self.lock:
            if not self.id:
                own = f"{machine_id()}:{uuid.uuid4().hex}"
                self._alive = _hold(own)
                self.database.write(lambda connection: self._beat(connection, own))
                self.id = own
                given = (ref(self), self.database, own, self._given_back)
                threading.Thread(target=_renew, args=given, name="cogstep-store", daemon=True).start()
            return self.id

    def _beat(self, connection: Connection, own: str) -> None:
        """Give a sign of life. If others deleted the row as a dead process's, insert it again; sessions not yet taken
        over remain.
        """
        expires = self.database.now + EXPIRES_AFTER
        values = {"name": self.name, "expires": expires}
        if connection.execute(update(executors).where(executors.c.id == own).values(values)).rowcount == 0:
            connection.execute(insert(executors).values(id=own, **values))
            old = self.database.now - FORGOTTEN_AFTER
            connection.execute(delete(executors).where(executors.c.expires < old))

    def beat(self) -> None:
        """Give a sign of life now, and release dropped sessions.

        Raises:
            StoreError: the database can't be used.
        """
        self.release_dropped()
        if self.id:
            self.database.write(lambda connection: self._beat(connection, self.id))

    def drop(self, held: Held) -> None:
        """Stop writing a session. Another thread releases it soon. Takes no lock."""
        self._given_back.put(held)

    def release_dropped(self) -> None:
        """Release the sessions dropped so far.

        Raises:
            StoreError: the database can't be used; the rest is released later.
        """
        with contextlib.suppress(Empty):
            while True:
                held = self._given_back.get_nowait()
                if held is not None:
                    self.release(held)

    def release(self, held: Held) -> None:
        """Release a session for other writers. Raises as ``release_dropped``."""
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
        """Stop writing, and release all sessions of this process immediately."""
        if self.id and os.getpid() == self._pid:
            with contextlib.suppress(CogstepError):
                self.release_dropped()
                _remove_executor(self.database, self.id)
        if self._alive is not None:
            with contextlib.suppress(OSError):
                self._alive.close()
                (_lock_directory() / self.id.rpartition(":")[2]).unlink(missing_ok=True)
        self.id = ""
        self._given_back.put(None)

    def is_alive(self, connection: Connection, holder: str | None) -> bool:
        """Whether a process, if any, may still be writing, as far as known."""
        if holder is None:
            return False
        found = select(executors.c.expires > self.database.now).where(executors.c.id == holder)
        return bool(connection.execute(found).scalar()) and not is_dead_here(holder)


_GIVE_BACK = (
    update(sessions).where(sessions.c.name == bindparam("s"), sessions.c.token == bindparam("t")).values(holder=None)
)

_memberships: WeakSet[Membership] = WeakSet()


def _renew(membership: ref[Membership], database: Database, own: str, given_back: SimpleQueue[Held | None]) -> None:
    """Renew this process's row, as the only such thread, while the database is in use."""
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
            with _guard_from_forks():
                if held is not None:
                    found.release(held)
                if time.monotonic() >= due:
                    due = time.monotonic() + RENEWED_EVERY
                    found.beat()
        except CogstepError:  # whoever writes is told; here it is tried again
            due = time.monotonic() + AGAIN_AFTER
            time.sleep(AGAIN_AFTER)
        del found  # so that it can be collected meanwhile
    with contextlib.suppress(CogstepError), _guard_from_forks():
        _remove_executor(database, own)


@contextlib.contextmanager
def _guard_from_forks() -> Iterator[None]:
    """Mark this thread as inside a database, so that forks wait for it. A child would inherit SQLite's locks, and could
    not release them.
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
"""Lock during a fork, so that no such thread enters a database."""
_threads = 0
"""Number of threads inside a database."""


def _remove_executor(database: Database, own: str) -> None:
    database.run(lambda connection: connection.execute(delete(executors).where(executors.c.id == own)))


def all_executors(database: Database) -> list[Executor]:
    """Return the processes that write to a database, and those that died within a day."""
    left = (executors.c.expires - database.now).label("left")
    rows = database.all(select(executors.c.id, executors.c.name, left).order_by(executors.c.id))
    return [Executor(row.id, row.name, -EXPIRES_AFTER if is_dead_here(row.id) else row.left) for row in rows]


# ------------------------------------------------------------------------------------------------- on the same machine


def machine_id() -> str:
    """Return an id of this machine since its start, if available; else its name."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return f"{socket.gethostname()}-{uuid.getnode():x}"


def _lock_directory() -> Path:
    return own_state_directory() / "executors"


def _hold(own: str) -> LockedFile | None:
    """Return the lock that proves on this machine that a process is alive; None without a place for it."""
    try:
        folder = _lock_directory()
        make_directory(folder)
        for path in folder.iterdir():
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > FORGOTTEN_AFTER and not is_being_written(path):
                    path.unlink()
        file = LockedFile(folder / own.rpartition(":")[2], os.O_RDWR | os.O_CREAT)
        return file if file.lock() else None
    except OSError:
        return None


def is_dead_here(holder: str) -> bool:
    """Whether a process of this user on this machine has ended without releasing its sessions."""
    where, _, own = holder.rpartition(":")
    if where != machine_id():
        return False
    try:
        return not is_being_written(_lock_directory() / own)
    except OSError:  # no such file: another user's, or one that had no place for it
        return False


def _end_all() -> None:
    for membership in list(_memberships):
        membership.end()


def _before_fork() -> None:
    """Wait until no thread is inside a database, for at most ``FORK_WAITS`` seconds, since a server may hang."""
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
        membership.begin()


atexit.register(_end_all)
os.register_at_fork(before=_before_fork, after_in_parent=lambda: _gate.release(), after_in_child=_after_fork)
