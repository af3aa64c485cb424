"""A session of a store: the second of those that keep a ``Recorder``'s promises."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar
from weakref import finalize

from sqlalchemy import Connection, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from interpreters.recording.journal.errors import JournalError, JournalWriteError
from interpreters.recording.recorder import path_of
from interpreters.recording.store.database import Database
from interpreters.recording.store.errors import StoreError, TakenOverError
from interpreters.recording.store.executors import Held, Membership
from interpreters.recording.store.schema import lines, payloads, sessions
from interpreters.recording.store.statements import statements_for

T = TypeVar("T")

PAGE = 200
"""Lines that are read at once."""

SLOW = 0.02
"""Seconds from which on a line on SQLite was kept waiting: it takes 0.1 ms, and a forced one some milliseconds."""

NOTHING: Mapping[str, bytes] = MappingProxyType({})


def beside_of(database: Database, session: str) -> Path | None:
    """Beside which path stands what a session's tools have overwritten; None where there is no place for it."""
    path = database.location.path
    return Path(f"{path}.undo", sha256(session.encode()).hexdigest()) if path else None


class _LostError(Exception):
    """A line is not there that was kept before."""


class _TakenError(Exception):
    """The session has another writer."""


class SqlRecorder:
    """A ``Recorder`` that keeps its lines in a database; made by ``SqlStore.recorder``.

    What is beyond the promises of every recorder:

    - a line that was not forced survives the process, and on PostgreSQL not always a crash of the server: up to 0.6
      seconds of lines behind the newest forced one may be gone, as with a crash of the machine. That is found with the
      next line, which is then refused;
    - where the database is restarted, ``append`` waits for it (``MayWait``);
    - large texts are payloads (``KeepsPayloads``), in one transaction with the line that brings them.
    """

    def __init__(self, database: Database, membership: Membership, session: str, take_over: bool) -> None:
        self.session = session
        """Its name in the store."""
        self._database = database
        self._membership = membership
        self._take_over = take_over
        self._statements = statements_for(database.location.kind)
        self._held: Held | None = None
        self._process = 0
        self._newest = -1
        """The number of the newest line that was appended here; negative where nobody knows."""
        self._dropped: finalize[..., SqlRecorder] | None = None
        self._waited = False
        """The newest line took longer than SQLite takes for one: another process writes a lot, or the disk is busy."""

    @property
    def name(self) -> str:
        """The session, and its store."""
        return f"{self.session} in {self._database.shown}"

    @property
    def beside(self) -> Path | None:
        """See ``Beside``: a folder beside SQLite's file, which is on the machine whose files the session changes. A
        server's database has no such place.
        """
        return beside_of(self._database, self.session)

    @property
    def may_wait(self) -> bool:
        """See ``MayWait``: what a server keeps may always wait for it, and SQLite while somebody else writes a lot."""
        return self._waited or self._database.location.kind != "sqlite"

    def __repr__(self) -> str:
        return f"<SqlRecorder {self.name}>"

    def lock(self, new: bool) -> bool:
        """See ``Recorder.lock``: take the session with a token that nobody had before.

        Raises:
            JournalError: the database can't be used, or nothing is recorded here that could go on.
        """
        if self._held is not None and self._process == os.getpid():
            return False
        membership = self._membership
        try:
            if not new and not self._database.read(self._is_there, False):
                raise JournalError("nothing is recorded here", path=path_of(self))
            own = membership.join()
            membership.give_back_dropped()
            with membership.lock:
                if self.session in membership.held and not self._take_over:
                    return False
                token = self._database.write(lambda connection: self._taken(connection, own, new))
                if token is None:
                    return False
                membership.held[self.session] = token
        except StoreError as error:
            raise JournalWriteError(error.problem, path=path_of(self)) from error
        self._held, self._process, self._newest = (self.session, token), os.getpid(), -1
        self._dropped = finalize(self, membership.drop, self._held)
        self._dropped.atexit = False
        return True

    def _is_there(self, connection: Connection) -> bool:
        found = select(lines.c.number).where(lines.c.session == self.session, lines.c.number == 0)
        return connection.execute(found).first() is not None

    def _taken(self, connection: Connection, own: str, new: bool) -> int | None:
        """The token, if the session is this process's now."""
        database = self._database
        with database.transaction(connection):
            row = sessions.c.name == self.session
            found = select(sessions.c.token, sessions.c.holder).where(row).with_for_update()
            standing = connection.execute(found).first()
            # By the clock, so that also one who writes a session that was deleted, and begun again, has no valid token.
            fresh: int = int(connection.execute(select(database.now)).scalar_one() * 1_000_000)
            if standing is None:
                try:
                    connection.execute(insert(sessions).values(name=self.session, token=fresh, holder=own))
                except IntegrityError:  # somebody else has begun it in this moment
                    return None
                return fresh
            free = standing.holder in (None, own) or self._take_over
            if not free and self._membership.is_alive(connection, standing.holder):
                return None
            fresh = max(fresh, int(standing.token) + 1)
            connection.execute(update(sessions).where(row).values(token=fresh, holder=own))
            return fresh

    def append(self, number: int, line: bytes, force: bool) -> None:
        """See ``Recorder.append``.

        Raises:
            TakenOverError: the session is another writer's by now.
            JournalWriteError: the line is not kept; says what to do.
        """
        self._keep(number, line, NOTHING, force)

    def append_with(self, number: int, line: bytes, payloads: Mapping[str, bytes], force: bool) -> None:
        """See ``KeepsPayloads.append_with``; raises as ``append``, and then nothing of it is kept."""
        self._keep(number, line, payloads, force)

    def _keep(self, number: int, line: bytes, brings: Mapping[str, bytes], force: bool) -> None:
        held = self._held
        if held is None or self._process != os.getpid():
            raise JournalWriteError("the session is not open for writing", path=path_of(self))
        values = {"s": held[0], "t": held[1], "n": number, "b": number - 1, "line": line}
        follows = number == self._newest + 1 and self._newest >= 0
        self._newest = -1  # until it is known: an interrupt may come at any moment

        def put(connection: Connection) -> None:
            with self._database.forced(connection, force), self._database.transaction(connection):
                self._put_in_place(connection, values)
                for name, content in brings.items():
                    self._put_payload(connection, name, content)

        began = time.monotonic()
        try:
            if not (follows and not brings and self._append_at_once(values, force)):
                self._asked(put)
        finally:
            self._waited = time.monotonic() - began > SLOW
        self._newest = number

    def _append_at_once(self, values: dict[str, object], force: bool) -> bool:
        """Keep a line behind another one; whether it is known to be kept."""
        append = self._statements.append_forced if force else self._statements.append
        try:
            return self._database.run_bare(lambda connection: append.run_bare(connection, values)) == 1
        except StoreError as error:
            raise self._not_written(error) from error

    def _put_in_place(self, connection: Connection, values: dict[str, object]) -> None:
        """Keep a line, wherever its number is."""
        statements = self._statements
        if connection.execute(statements.holds, values).first() is None:
            raise _TakenError
        if values["n"] and connection.execute(statements.before, values).first() is None:
            raise _LostError
        connection.execute(statements.cut, values)
        connection.execute(statements.begin, values)

    def _put_payload(self, connection: Connection, name: str, content: bytes) -> None:
        """Keep a payload, in the transaction in which the session is known to be this writer's."""
        row = (payloads.c.session == self.session) & (payloads.c.name == name)
        there = connection.execute(select(payloads.c.content).where(row)).scalar()
        if there == content:
            return
        if there is not None:  # somebody has changed it
            connection.execute(delete(payloads).where(row))
        connection.execute(insert(payloads).values(session=self.session, name=name, content=content))

    def _asked(self, work: Callable[[Connection], T]) -> T:
        try:
            return self._database.run(work)
        except _TakenError:
            raise TakenOverError(
                "another process has taken this session over, and goes on with it; nothing was written here. Open it "
                "again when that one has ended",
                path=path_of(self),
            ) from None
        except _LostError:
            raise JournalWriteError(
                "the line before this one is not in the store any more, as after a crash of the database's machine; "
                "resume the session to go on from what is left",
                path=path_of(self),
            ) from None
        except StoreError as error:
            raise self._not_written(error) from error

    def _not_written(self, error: StoreError) -> JournalWriteError:
        return JournalWriteError(
            f"the record could not be written: {error.problem}; everything before it is kept", path=path_of(self)
        )

    def lines(self) -> Iterator[bytes]:
        """See ``Recorder.lines``.

        Raises:
            JournalError: the database can't be used.
        """
        return self.lines_from(0)

    def lines_from(self, number: int) -> Iterator[bytes]:
        """The lines from a number on; raises as ``lines``."""
        while True:
            page = self._page(number)
            yield from (line for _, line in page)
            if len(page) < PAGE:
                return
            number = page[-1][0] + 1

    def _page(self, number: int) -> list[tuple[int, bytes]]:
        found = (
            select(lines.c.number, lines.c.line)
            .where(lines.c.session == self.session, lines.c.number >= number)
            .order_by(lines.c.number)
            .limit(PAGE)
        )
        try:
            return self._database.read(lambda one: [(row.number, row.line) for row in one.execute(found)], [])
        except StoreError as error:
            raise JournalError(f"can't be read: {error.problem}", path=path_of(self)) from error

    def payload(self, name: str) -> bytes | None:
        """See ``KeepsPayloads.payload``.

        Raises:
            JournalError: the database can't be used.
        """
        found = select(payloads.c.content).where(payloads.c.session == self.session, payloads.c.name == name)
        try:
            content: bytes | None = self._database.read(lambda one: one.execute(found).scalar(), None)
        except StoreError as error:
            raise JournalError(f"can't be read: {error.problem}", path=path_of(self)) from error
        return content

    def close(self) -> None:
        """Give the session free. A second call does nothing, and so does one where the database is gone: then it is
        given free as soon as that is back.
        """
        held, self._held = self._held, None
        if held is None or self._process != os.getpid():
            return
        if self._dropped is not None:
            self._dropped.detach()
        with suppress(StoreError):  # it is tried again
            self._membership.give_back(held)
