"""The statements that a session's writer runs for each line."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from attrs import evolve, frozen
from sqlalchemy import (
    BigInteger,
    Delete,
    Dialect,
    Insert,
    Integer,
    LargeBinary,
    Select,
    String,
    bindparam,
    delete,
    exists,
    insert,
    select,
    text,
)
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from interpreters.recording.store.locations import Kind
from interpreters.recording.store.schema import NOW, lines, sessions

FORCED: dict[Kind, str] = {"sqlite": "PRAGMA synchronous=FULL", "postgresql": "SET synchronous_commit=on"}
"""Statement after which commits on a connection are forced to disk, with all earlier commits of others."""

UNFORCED: dict[Kind, str] = {"sqlite": "PRAGMA synchronous=NORMAL", "postgresql": "SET synchronous_commit=off"}
"""Statement after which commits are not forced, which is the initial state of all connections."""

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
        if not self.first:
            return int(connection.execute(self.text, self._order_values(values)).rowcount)
        connection.execute(self.first)
        inserted = int(connection.execute(self.text, self._order_values(values)).rowcount)
        connection.execute(self.then)
        return inserted

    def _order_values(self, values: dict[str, object]) -> Any:
        return values if self.order is None else tuple([values[name] for name in self.order])


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
