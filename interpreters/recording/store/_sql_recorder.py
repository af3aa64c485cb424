"""A session of a store: an implementation of ``Recorder``, like files."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar
from weakref import finalize

from attrs import evolve, frozen
from sqlalchemy import (
    BigInteger,
    Connection,
    Delete,
    Dialect,
    Insert,
    Integer,
    LargeBinary,
    Row,
    Select,
    String,
    bindparam,
    delete,
    exists,
    insert,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.exc import IntegrityError

from interpreters.recording.journal.errors import JournalError, JournalWriteError
from interpreters.recording.recorder import path_of
from interpreters.recording.store._errors import StoreError, TakenOverError
from interpreters.recording.store._executors import Held, Membership
from interpreters.recording.store.database import Database
from interpreters.recording.store.locations import Kind
from interpreters.recording.store.schema import FORCED, NOW, UNFORCED, lines, payloads, sessions

T = TypeVar("T")

PAGE = 200

SLOW = 0.02
"""Seconds after which a line on SQLite counts as delayed. It usually takes 0.1 ms, or some milliseconds if forced."""

NOTHING: Mapping[str, bytes] = MappingProxyType({})


def undo_path_of(database: Database, session: str) -> Path | None:
    """Return the path of a session's undo data; None if there is no place for it."""
    path = database.location.path
    return Path(f"{path}.undo", sha256(session.encode()).hexdigest()) if path else None


def select_row(session: str) -> Select[Any]:
    """Return the query for a session's row, which locks it until the end of the transaction."""
    return select(sessions.c.token, sessions.c.holder).where(sessions.c.name == session).with_for_update()


def assign_row(
    database: Database, connection: Connection, session: str, standing: Row[Any] | None, holder: str | None
) -> int:
    """Write a session's row for a new holder, and return its new token.

    Args:
        standing: the row found by ``select_row`` in the same transaction; None if there is none.
        holder: process that writes the session from now on, if any.

    Raises:
        IntegrityError: somebody else has begun the session in this moment.
    """
    # By the clock, so that also one who writes a session that was deleted, and begun again, has no valid token.
    token = int(connection.execute(select(database.now)).scalar_one() * 1_000_000)
    if standing is None:
        connection.execute(insert(sessions).values(name=session, token=token, holder=holder))
    else:
        token = max(token, int(standing.token) + 1)
        row = sessions.c.name == session
        connection.execute(update(sessions).where(row).values(token=token, holder=holder))
    return token


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
            header = select(lines.c.number).where(lines.c.session == self.session, lines.c.number == 0)
            if not new and self._database.first(header) is None:
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

    def _take_session(self, connection: Connection, own: str, new: bool) -> int | None:
        with self._database.transaction(connection):
            standing = connection.execute(select_row(self.session)).first()
            holder = None if standing is None or self._take_over else standing.holder
            if holder != own and self._membership.is_alive(connection, holder):
                return None
            try:
                return assign_row(self._database, connection, self.session, standing, own)
            except IntegrityError:  # somebody else has begun it in this moment
                return None

    def append(self, number: int, line: bytes, force: bool) -> None:
        """See ``Recorder.append``.

        Raises:
            TakenOverError: the session now has another writer.
            JournalWriteError: the line is not stored; the message explains what to do.
        """
        self.append_with(number, line, NOTHING, force)

    def append_with(self, number: int, line: bytes, payloads: Mapping[str, bytes], force: bool) -> None:
        """See ``KeepsPayloads.append_with``. Raises as ``append``, and then stores nothing."""
        held = self._held
        if held is None or self._process != os.getpid():
            raise JournalWriteError("the session is not open for writing", path=path_of(self))
        values = {"s": held[0], "t": held[1], "n": number, "b": number - 1, "line": line}
        follows = number == self._newest + 1 and self._newest >= 0
        self._newest = -1  # until it is known: an interrupt may come at any moment

        def put(connection: Connection) -> None:
            with self._database.force_commits(connection, force), self._database.transaction(connection):
                self._put_in_place(connection, values)
                for name, content in payloads.items():
                    self._put_payload(connection, name, content)

        append = self._statements.append_forced if force else self._statements.append
        began = time.monotonic()
        try:
            at_once = follows and not payloads
            if not (at_once and self._database.run_bare(lambda driver: append.run_bare(driver, values)) == 1):
                self._database.run(put)
        except StoreError as error:
            raise JournalWriteError(
                f"the record could not be written: {error.problem}; everything before it is kept", path=path_of(self)
            ) from error
        finally:
            self._waited = time.monotonic() - began > SLOW
        self._newest = number

    def _put_in_place(self, connection: Connection, values: dict[str, object]) -> None:
        statements = self._statements
        if connection.execute(statements.holds, values).first() is None:
            raise TakenOverError(
                "another process has taken this session over, and goes on with it; nothing was written here. Open it "
                "again when that one has ended",
                path=path_of(self),
            )
        if values["n"] and connection.execute(statements.before, values).first() is None:
            raise JournalWriteError(
                "the line before this one is not in the store any more, as after a crash of the database's machine; "
                "resume the session to go on from what is left",
                path=path_of(self),
            )
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
            yield from (row.line for row in page)
            if len(page) < PAGE:
                return
            number = page[-1].number + 1

    def _page(self, number: int) -> list[Row[Any]]:
        found = (
            select(lines.c.number, lines.c.line)
            .where(lines.c.session == self.session, lines.c.number >= number)
            .order_by(lines.c.number)
            .limit(PAGE)
        )
        return self.explain_errors(lambda: self._database.all(found))

    def payload(self, name: str) -> bytes | None:
        """See ``KeepsPayloads.payload``.

        Raises:
            JournalError: the database can't be used.
        """
        found = select(payloads.c.content).where(payloads.c.session == self.session, payloads.c.name == name)
        row = self.explain_errors(lambda: self._database.first(found))
        return None if row is None else row.content

    def explain_errors(self, read: Callable[[], T]) -> T:
        """Return the result of ``read``, with a ``StoreError`` as an error of this session."""
        try:
            return read()
        except StoreError as error:
            raise JournalError(f"can't be read: {error.problem}", path=path_of(self)) from error

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


DIALECTS: dict[Kind, Callable[[], Dialect]] = {"sqlite": SQLiteDialect_pysqlite, "postgresql": PGDialect_psycopg}


@frozen
class PreparedStatement:
    """A statement compiled for its driver.

    SQLAlchemy's compilation takes as long as the rest of storing a line, so it happens once.
    """

    text: str
    order: tuple[str, ...] | None
    """Order of the values, if they are passed by position."""
    first: str = ""
    """Statement to run before it; ``then`` runs after it."""
    then: str = ""

    def run_bare(self, connection: Any, values: dict[str, object]) -> int:
        """Run on a driver's connection, and return the number of inserted rows."""
        given: Any = values if self.order is None else tuple([values[name] for name in self.order])
        if self.first:
            connection.execute(self.first)
        inserted = int(connection.execute(self.text, given).rowcount)
        if self.then:
            connection.execute(self.then)
        return inserted


@frozen
class Statements:
    """Statements with the parameters ``s`` (session), ``t`` (the writer's token), ``n`` (a line's number) and ``b``
    (the number before it).
    """

    append: PreparedStatement
    """Store a line after another one if the session is still this writer's: one atomic statement."""
    append_forced: PreparedStatement
    """The same, forced to disk. It uses the connection of other lines, so SQLite has the pages cached; PostgreSQL
    needs no additional round trip.
    """
    begin: Insert
    """The same for the first line."""
    holds: Select[Any]
    """Finds a row if the session is still this writer's. It can't be taken over before the end of the transaction."""
    before: Select[Any]
    cut: Delete


@cache
def statements_for(kind: Kind) -> Statements:
    """Return the statements of a kind of database."""
    session, token = bindparam("s", type_=String), bindparam("t", type_=BigInteger)
    number = bindparam("n", type_=Integer)
    line = bindparam("line", type_=LargeBinary)
    # The row is locked for the statement's time. Else one that began before a takeover could end behind it.
    owned = (
        select(session, number, line, NOW[kind])
        .select_from(sessions)
        .where(sessions.c.name == session, sessions.c.token == token)
        .with_for_update(read=True)
    )
    there = exists().where(lines.c.session == session, lines.c.number == bindparam("b"))
    columns = ["session", "number", "line", "written"]

    def prepare(selected: Select[Any]) -> PreparedStatement:
        compiled: Any = insert(lines).from_select(columns, selected).compile(dialect=DIALECTS[kind]())
        return PreparedStatement(str(compiled), None if compiled.positiontup is None else tuple(compiled.positiontup))

    follows = owned.where(there)
    append = prepare(follows)
    if kind == "sqlite":
        append_forced = evolve(append, first=FORCED[kind], then=UNFORCED[kind])
    else:
        append_forced = prepare(follows.where(text("set_config('synchronous_commit', 'on', true) = 'on'")))
    return Statements(
        append=append,
        append_forced=append_forced,
        begin=insert(lines).from_select(columns, owned),
        holds=select(sessions.c.token)
        .where(sessions.c.name == session, sessions.c.token == token)
        .with_for_update(read=True),
        before=select(lines.c.number).where(lines.c.session == session, lines.c.number == bindparam("b")),
        cut=delete(lines).where(lines.c.session == session, lines.c.number >= number),
    )
