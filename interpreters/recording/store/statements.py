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
"""Has a connection force what it commits to the disk, and with that all that was committed before by others."""

UNFORCED: dict[Kind, str] = {"sqlite": "PRAGMA synchronous=NORMAL", "postgresql": "SET synchronous_commit=off"}
"""Has it force nothing, as all connections begin."""

DIALECTS: dict[Kind, Callable[[], Dialect]] = {"sqlite": SQLiteDialect_pysqlite, "postgresql": PGDialect_psycopg}


@frozen
class Prepared:
    """A statement as its driver takes it. SQLAlchemy's way from the expression to that takes as long as the rest of
    what a line costs, so that it is gone once.
    """

    text: str
    order: tuple[str, ...] | None
    """The names of its values, where they are told by their places."""
    first: str = ""
    """What its connection is told before it, and ``then`` behind it."""
    then: str = ""

    def run_bare(self, connection: Any, values: dict[str, object]) -> int:
        """The number of rows that it has inserted, on a connection of the driver's own."""
        if not self.first:
            return int(connection.execute(self.text, self._given(values)).rowcount)
        connection.execute(self.first)
        inserted = int(connection.execute(self.text, self._given(values)).rowcount)
        connection.execute(self.then)
        return inserted

    def _given(self, values: dict[str, object]) -> Any:
        return values if self.order is None else tuple([values[name] for name in self.order])


@frozen
class Statements:
    """Bound by ``s``, the session; ``t``, the writer's token; ``n``, a line's number; ``b``, the number before that."""

    append: Prepared
    """Keep a line behind another one, if the session is still this writer's: one statement, and so one moment."""
    append_forced: Prepared
    """The same, and it stands on the disk when it has run. By the connection of other lines, so that SQLite still knows
    the pages that it needs; and on PostgreSQL without another round trip."""
    begin: Insert
    """The same for the first line."""
    holds: Select[Any]
    """Finds something if the session is still this writer's, and then nobody takes it over until the end of the
    transaction."""
    before: Select[Any]
    """Whether the line before is there."""
    cut: Delete
    """Delete a line and all behind it."""


@cache
def statements_for(kind: Kind) -> Statements:
    """The statements of a kind of database."""
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

    def prepared(selected: Select[Any]) -> Prepared:
        compiled: Any = insert(lines).from_select(columns, selected).compile(dialect=DIALECTS[kind]())
        return Prepared(str(compiled), None if compiled.positiontup is None else tuple(compiled.positiontup))

    follows = owned.where(there)
    append = prepared(follows)
    if kind == "sqlite":
        append_forced = evolve(append, first=FORCED[kind], then=UNFORCED[kind])
    else:
        append_forced = prepared(follows.where(text("set_config('synchronous_commit', 'on', true) = 'on'")))
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
