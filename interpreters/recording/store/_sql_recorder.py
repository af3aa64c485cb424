"""A session of a store: an implementation of ``Recorder``, like files."""

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
from interpreters.recording.store._errors import StoreError, TakenOverError
from interpreters.recording.store._executors import Held, Membership
from interpreters.recording.store._statements import statements_for
from interpreters.recording.store.database import Database
from interpreters.recording.store.schema import lines, payloads, sessions

T = TypeVar("T")

PAGE = 200

SLOW = 0.02
"""Seconds after which a line on SQLite counts as delayed. It usually takes 0.1 ms, or some milliseconds if forced."""

NOTHING: Mapping[str, bytes] = MappingProxyType({})


def undo_path_of(database: Database, session: str) -> Path | None:
    """Return the path of a session's undo data; None if there is no place for it."""
    path = database.location.path
    return Path(f"{path}.undo", sha256(session.encode()).hexdigest()) if path else None


class _LostError(Exception):
    """A line that was stored before is missing."""


class _TakenError(Exception):
    """The session has another writer."""


class SqlRecorder:
    """A ``Recorder`` that stores its lines in a database; created by ``SqlStore.recorder``.

    In addition to the promises of every recorder:

    - A line that was not forced survives the process. But on PostgreSQL a crash of the server may lose up to 0.6
      seconds of lines after the newest forced one, like a crash of the machine. The next line detects this, and is
      refused.
    - If the database restarts, ``append`` waits for it (``MayWait``).
    - Large texts are payloads (``KeepsPayloads``), in one transaction with their line.
    """

    def __init__(self, database: Database, membership: Membership, session: str, take_over: bool) -> None:
        self.session = session
        self._database = database
        self._membership = membership
        self._take_over = take_over
        self._statements = statements_for(database.location.kind)
        self._held: Held | None = None
        self._process = 0
        self._newest = -1
        """Number of the newest line appended here; negative if unknown."""
        self._dropped: finalize[..., SqlRecorder] | None = None
        self._waited = False
        """Whether the newest line was slow for SQLite: another process writes a lot, or the disk is busy."""

    @property
    def name(self) -> str:
        return f"{self.session} in {self._database.display_name}"

    @property
    def beside(self) -> Path | None:
        """See ``Beside``: a folder beside SQLite's file, on the machine whose files the session changes.

        A database server has no such place.
        """
        return undo_path_of(self._database, self.session)

    @property
    def may_wait(self) -> bool:
        """See ``MayWait``: True for a server, and for SQLite while another process writes a lot."""
        return self._waited or self._database.location.kind != "sqlite"

    def __repr__(self) -> str:
        return f"<SqlRecorder {self.name}>"

    def lock(self, new: bool) -> bool:
        """See ``Recorder.lock``: take the session with a new token.

        Raises:
            JournalError: the database can't be used, or there is no recording to continue.
        """
        if self._held is not None and self._process == os.getpid():
            return False
        membership = self._membership
        try:
            if not new and not self._database.read(self._is_there, False):
                raise JournalError("nothing is recorded here", path=path_of(self))
            own = membership.join()
            membership.release_dropped()
            with membership.lock:
                if self.session in membership.held and not self._take_over:
                    return False
                token = self._database.write(lambda connection: self._take_session(connection, own, new))
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

    def _take_session(self, connection: Connection, own: str, new: bool) -> int | None:
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
            TakenOverError: the session now has another writer.
            JournalWriteError: the line is not stored; the message explains what to do.
        """
        self._store(number, line, NOTHING, force)

    def append_with(self, number: int, line: bytes, payloads: Mapping[str, bytes], force: bool) -> None:
        """See ``KeepsPayloads.append_with``. Raises as ``append``, and then stores nothing."""
        self._store(number, line, payloads, force)

    def _store(self, number: int, line: bytes, brings: Mapping[str, bytes], force: bool) -> None:
        held = self._held
        if held is None or self._process != os.getpid():
            raise JournalWriteError("the session is not open for writing", path=path_of(self))
        values = {"s": held[0], "t": held[1], "n": number, "b": number - 1, "line": line}
        follows = number == self._newest + 1 and self._newest >= 0
        self._newest = -1  # until it is known: an interrupt may come at any moment

        def put(connection: Connection) -> None:
            with self._database.force_commits(connection, force), self._database.transaction(connection):
                self._put_in_place(connection, values)
                for name, content in brings.items():
                    self._put_payload(connection, name, content)

        began = time.monotonic()
        try:
            if not (follows and not brings and self._append_at_once(values, force)):
                self._ask(put)
        finally:
            self._waited = time.monotonic() - began > SLOW
        self._newest = number

    def _append_at_once(self, values: dict[str, object], force: bool) -> bool:
        """Store a line after another one. Return whether it is certainly stored."""
        append = self._statements.append_forced if force else self._statements.append
        try:
            return self._database.run_bare(lambda connection: append.run_bare(connection, values)) == 1
        except StoreError as error:
            raise self._write_error(error) from error

    def _put_in_place(self, connection: Connection, values: dict[str, object]) -> None:
        statements = self._statements
        if connection.execute(statements.holds, values).first() is None:
            raise _TakenError
        if values["n"] and connection.execute(statements.before, values).first() is None:
            raise _LostError
        connection.execute(statements.cut, values)
        connection.execute(statements.begin, values)

    def _put_payload(self, connection: Connection, name: str, content: bytes) -> None:
        """Store a payload, in the transaction that checks the session's writer."""
        row = (payloads.c.session == self.session) & (payloads.c.name == name)
        there = connection.execute(select(payloads.c.content).where(row)).scalar()
        if there == content:
            return
        if there is not None:  # somebody has changed it
            connection.execute(delete(payloads).where(row))
        connection.execute(insert(payloads).values(session=self.session, name=name, content=content))

    def _ask(self, work: Callable[[Connection], T]) -> T:
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
            raise self._write_error(error) from error

    def _write_error(self, error: StoreError) -> JournalWriteError:
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
        """Yield the lines from a number on. Raises as ``lines``."""
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
        """Release the session. A second call does nothing. If the database is gone, it is released when the database is
        back.
        """
        held, self._held = self._held, None
        if held is None or self._process != os.getpid():
            return
        if self._dropped is not None:
            self._dropped.detach()
        with suppress(StoreError):  # it is tried again
            self._membership.release(held)
