"""A store of sessions: a database, by its URL."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from sqlalchemy import Select, exists, select, update

from cognition import ConfigError
from interpreters.recording.store._backup import back_up
from interpreters.recording.store._errors import StoreError
from interpreters.recording.store._executors import Executor, Membership, all_executors
from interpreters.recording.store._sql_recorder import SqlRecorder
from interpreters.recording.store._sql_session import FIRST, MOST, Batch, SqlSession
from interpreters.recording.store.database import Database, database_of
from interpreters.recording.store.schema import LONGEST_NAME, lines, sessions

PAGE = 500


class SqlStore:
    """Many sessions in one database, SQLite or PostgreSQL.

    It connects at the first use, and creates the tables when the first session is recorded. Safe for all threads and
    for forked children.

    Args:
        url: ``sqlite:///sessions.db`` or ``postgresql://user:password@host/database``.
        executor: name of this process in ``executors``, up to 200 printable characters; for a program with several
            processes.
        connections: the maximum number of this process's connections to PostgreSQL, at least 1. Callers wait while all
            are in use. None changes nothing: it is 12 unless another object set it. SQLite ignores it.

    Raises:
        ConfigError: the executor's name is invalid, or connections is less than 1.
        StoreError: the URL is invalid, or the extra ``sql`` is not installed.
    """

    def __init__(self, url: str, *, executor: str = "", connections: int | None = None) -> None:
        _check_executor(executor)
        if connections is not None and connections < 1:
            raise ConfigError(f"connections has to be at least 1, not {connections}")
        self._database = database_of(url)
        if connections is not None:
            self._database.limit(connections)
        self._membership = _membership_of(self._database)
        if executor:
            self._membership.name = executor

    @property
    def database(self) -> Database:
        """This process's access to the database, for modules with their own tables beside the sessions."""
        return self._database

    @property
    def name(self) -> str:
        """The name for errors and reports, without a password."""
        return self._database.display_name

    def __repr__(self) -> str:
        return f"<SqlStore {self.name}>"

    def recorder(self, session: str, *, take_over: bool = False) -> SqlRecorder:
        """Return the place of a session, by its name in this store.

        Args:
            session: 1 to 200 printable characters.
            take_over: whether ``lock`` also takes it from a writer that may be alive, which can't write afterwards. Set
                it only if you know that the writer is dead, or if an engine assigns the session to you.

        Raises:
            ConfigError: the name is invalid.
        """
        if not session or len(session) > LONGEST_NAME or not session.isprintable():
            raise ConfigError(
                f"a session's name in a store has 1 to {LONGEST_NAME} characters that can be printed, not {session!r}"
            )
        return SqlRecorder(self._database, self._membership, session, take_over)

    def fence(self, session: str) -> None:
        """Stop the writers of a session and of its workers' sessions.

        Their next line is refused, so no effect begins that must be recorded first. For callers that have requested
        their engine to stop the session.

        Raises:
            StoreError: the database can't be used.
        """
        name = sessions.c.name
        own = (name == session) | ((name > f"{session}/") & (name < f"{session}0"))  # the character behind the slash
        freed = update(sessions).where(own).values(token=sessions.c.token + 1, holder=None)
        self._database.read(lambda connection: connection.execute(freed), None)

    def check_there(self) -> None:
        """Check that the store exists, for callers that expect it to.

        Raises:
            StoreError: the file does not exist, or the database can't be used.
        """
        if not self._database.is_there:
            raise StoreError(
                "there is no such file; name the one that is meant, or record a first session there", store=self.name
            )
        next(self.names(), None)

    def back_up(self, to: str | os.PathLike[str]) -> tuple[Path, ...]:
        """Copy a store in SQLite, with DBOS's database and the undo data beside it, all as they are at one moment.

        Programs may be writing to it: they wait in the meantime. Return the copies.

        Args:
            to: the path of the copy.

        Raises:
            StoreError: there is no such file, it is in PostgreSQL, ``to`` exists, or it can't be written.
        """
        return back_up(self._database, Path(to))

    def names(self) -> Iterator[str]:
        """Yield the names of all sessions in sorted order, including those whose header was deleted by others.

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
            page: list[str] = [row.session for row in self._database.all(found)]
            whole = len(page) < PAGE
            damaged = self._database.all(_select_headless(after, "" if whole else page[-1]))
            yield from sorted([*page, *(row.name for row in damaged)])
            if whole:
                return
            after = page[-1]

    def recordings(self) -> Iterator[SqlSession]:
        """Yield all sessions by name. This makes a store a place for ``list_sessions``, ``search`` and ``prune``.

        Raises:
            StoreError: the database can't be used.
        """
        self._membership.release_dropped()
        names, size = self.names(), FIRST
        while together := list(islice(names, size)):
            batch = Batch(self._database, together)
            for name in together:
                yield SqlSession(name, self._database, self._membership, batch)
            size = min(2 * size, MOST)

    def recording(self, session: str) -> SqlSession:
        """Return one session for listing, searching, deleting, copying and moving. Raises as ``recorder``."""
        self.recorder(session)
        return SqlSession(session, self._database, self._membership)

    def executors(self) -> list[Executor]:
        """Return the processes that write to this store, and those that died within a day.

        Raises:
            StoreError: the database can't be used.
        """
        return all_executors(self._database)

    def join(self, executor: str | None = None) -> str:
        """Register this process as a writer before its first write, and return its id.

        Args:
            executor: new name of the process, as for the constructor; None: no change.

        Raises:
            ConfigError: the name is invalid.
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


def _select_headless(after: str, to: str) -> Select[Any]:
    """Return the query for sessions with lines but without a header, between two names. An empty ``to`` means no upper
    limit.
    """
    within = sessions.c.name > after
    if to:
        within &= sessions.c.name <= to
    own = lines.c.session == sessions.c.name
    return select(sessions.c.name).where(
        within, ~exists().where(own, lines.c.number == 0), exists().where(own, lines.c.number > 0)
    )


_memberships: WeakValueDictionary[int, Membership] = WeakValueDictionary()
"""By the identity of their database. Each membership references its database."""
_joining = threading.Lock()


def _membership_of(database: Database) -> Membership:
    with _joining:
        found = _memberships.get(id(database))
        if found is None:
            found = _memberships[id(database)] = Membership(database)
        return found
