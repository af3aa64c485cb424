"""A store of sessions: a database, by its URL."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any
from weakref import WeakValueDictionary

from sqlalchemy import Connection, Select, exists, select, update

from cognition import ConfigError
from interpreters.recording.store.database import Database, database_of
from interpreters.recording.store.errors import StoreError
from interpreters.recording.store.executors import Executor, Membership, all_executors
from interpreters.recording.store.many import FIRST, MOST, Batch
from interpreters.recording.store.recorder import SqlRecorder
from interpreters.recording.store.schema import LONGEST_NAME, lines, sessions
from interpreters.recording.store.stored import StoredSession

PAGE = 500
"""Names that are read at once."""


class SqlStore:
    """Many sessions in one database, SQLite's or PostgreSQL's.

    Nothing is opened before it is used, and the tables are made when the first session is recorded. May be used by all
    threads, and in children of a fork.

    Args:
        url: ``sqlite:///sessions.db`` or ``postgresql://user:password@host/database``.
        executor: what this process is called in ``executors``, up to 200 characters which can be printed; for a program
            that runs several.

    Raises:
        ConfigError: that can't be its name.
        StoreError: the URL names no such database, or the extra ``sql`` is not installed.
    """

    def __init__(self, url: str, *, executor: str = "") -> None:
        _check_executor(executor)
        self._database = database_of(url)
        self._membership = _membership_of(self._database)
        if executor:
            self._membership.name = executor

    @property
    def database(self) -> Database:
        """What this process uses of the database, for what has tables of its own beside the sessions."""
        return self._database

    @property
    def name(self) -> str:
        """What errors and reports call it: no password is in it."""
        return self._database.shown

    def __repr__(self) -> str:
        return f"<SqlStore {self.name}>"

    def recorder(self, session: str, *, take_over: bool = False) -> SqlRecorder:
        """The place of a session, by its name in this store.

        Args:
            session: 1 to 200 characters, which can be printed.
            take_over: whether ``lock`` takes it also from a writer that may be alive, which can write nothing from
                then on: for who knows that it is not, or is told by an engine whose session it is.

        Raises:
            ConfigError: that can't be a name.
        """
        if not session or len(session) > LONGEST_NAME or not session.isprintable():
            raise ConfigError(
                f"a session's name in a store has 1 to {LONGEST_NAME} characters that can be printed, not {session!r}"
            )
        return SqlRecorder(self._database, self._membership, session, take_over)

    def fence(self, session: str) -> None:
        """Let whoever writes a session, or a worker's session of it, write no more: its next line is refused, and so
        nothing begins that would have been recorded first. For who has told its engine to stop it.

        Raises:
            StoreError: the database can't be used.
        """
        name = sessions.c.name
        own = (name == session) | ((name > f"{session}/") & (name < f"{session}0"))  # the character behind the slash
        freed = update(sessions).where(own).values(token=sessions.c.token + 1, holder=None)
        self._database.read(lambda connection: connection.execute(freed), None)

    def check_there(self) -> None:
        """See that there is something to look at: for who names a store of which they think that it is there.

        Raises:
            StoreError: there is no such file, or the database can't be used.
        """
        if not self._database.is_there:
            raise StoreError(
                "there is no such file; name the one that is meant, or record a first session there", store=self.name
            )
        next(self.names(), None)

    def names(self) -> Iterator[str]:
        """The names of all sessions, sorted by their characters; also of those whose header somebody has deleted.

        Raises:
            StoreError: the database can't be used.
        """
        after = ""
        while True:
            found = (
                select(lines.c.session)
                .where(lines.c.number == 0, lines.c.session > after)
                .order_by(lines.c.session)
                .limit(PAGE)
            )
            page: list[str] = self._database.read(partial(_names, found), [])
            whole = len(page) < PAGE
            beheaded = partial(_names, _beheaded(after, "" if whole else page[-1]))
            damaged: list[str] = self._database.read(beheaded, [])
            yield from sorted(page + damaged)
            if whole:
                return
            after = page[-1]

    def recordings(self) -> Iterator[StoredSession]:
        """All sessions, by their names: so a store is a place for ``list_sessions``, ``search`` and ``prune``.

        Raises:
            StoreError: the database can't be used.
        """
        self._membership.give_back_dropped()
        names, size = self.names(), FIRST
        while together := list(islice(names, size)):
            batch = Batch(self._database, self._membership, together)
            for name in together:
                yield StoredSession(name, self._database, self._membership, batch)
            size = min(2 * size, MOST)

    def recording(self, session: str) -> StoredSession:
        """One session among others: what is listed, searched, deleted, copied and moved. Raises as ``recorder``."""
        self.recorder(session)
        return StoredSession(session, self._database, self._membership)

    def executors(self) -> list[Executor]:
        """The processes that write to this store, and those that died within a day.

        Raises:
            StoreError: the database can't be used.
        """
        return all_executors(self._database)

    def join(self, executor: str | None = None) -> str:
        """Be one of them from now on, though nothing is written yet, and give this process's id.

        Args:
            executor: what it is called from now on, as for the constructor; None: as it was.

        Raises:
            ConfigError: that can't be its name.
            StoreError: the database can't be used.
        """
        if executor is None or executor == self._membership.name:
            return self._membership.join()
        _check_executor(executor)
        joined, self._membership.name = bool(self._membership.id), executor
        own = self._membership.join()
        if joined:  # who looks now is told so
            self._membership.beat()
        return own


def _check_executor(executor: str) -> None:
    if len(executor) > LONGEST_NAME or not executor.isprintable():
        raise ConfigError(
            f"a process's name in a store has up to {LONGEST_NAME} characters that can be printed, not {executor!r}"
        )


def _beheaded(after: str, to: str) -> Select[Any]:
    """The sessions between two names that have lines and no header; an empty last name: all behind the first."""
    within = sessions.c.name > after
    if to:
        within &= sessions.c.name <= to
    own = lines.c.session == sessions.c.name
    return select(sessions.c.name).where(
        within, ~exists().where(own, lines.c.number == 0), exists().where(own, lines.c.number > 0)
    )


def _names(found: Select[Any], connection: Connection) -> list[str]:
    return list(connection.execute(found).scalars())


_memberships: WeakValueDictionary[int, Membership] = WeakValueDictionary()
"""By the identity of their database, which each of them holds."""
_joining = threading.Lock()


def _membership_of(database: Database) -> Membership:
    with _joining:
        found = _memberships.get(id(database))
        if found is None:
            found = _memberships[id(database)] = Membership(database)
        return found
