"""The tables of a store, and the few expressions in which its databases differ.

cogstep_sessions    who writes a session: a token that is another one for each writer, and the writer's process
cogstep_lines       what is recorded: each line as it would stand in a file
cogstep_payloads    the large texts that lines name by their SHA-256
cogstep_executors   the processes that write, and until when each is taken to be alive
cogstep_store       the version of all this
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Double,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    literal_column,
)
from sqlalchemy.dialects import postgresql

from interpreters.recording.store.locations import Kind

VERSION = 1
"""Of the schema. A store with another one is refused, and not touched."""

LONGEST_NAME = 200
"""Characters of a session's name."""

# Compared and sorted by their bytes in every database, whatever language the server speaks.
_Name = String(LONGEST_NAME).with_variant(postgresql.VARCHAR(LONGEST_NAME, collation="C"), "postgresql")
_Text = String(500)

tables = MetaData()

store = Table("cogstep_store", tables, Column("version", Integer, primary_key=True, autoincrement=False))

executors = Table(
    "cogstep_executors",
    tables,
    Column("id", _Text, primary_key=True),
    Column("name", _Text, nullable=False),
    Column("expires", Double, nullable=False),
)

sessions = Table(
    "cogstep_sessions",
    tables,
    Column("name", _Name, primary_key=True),
    Column("token", BigInteger, nullable=False),
    Column("holder", _Text, nullable=True),
)

lines = Table(
    "cogstep_lines",
    tables,
    Column("session", _Name, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("line", LargeBinary, nullable=False),
    Column("written", Double, nullable=False),
)

payloads = Table(
    "cogstep_payloads",
    tables,
    Column("session", _Name, primary_key=True),
    Column("name", String(64), primary_key=True),
    Column("content", LargeBinary, nullable=False),
)

NOW: dict[Kind, ColumnElement[Any]] = {
    "sqlite": literal_column("((julianday('now') - 2440587.5) * 86400.0)", Double),  # `unixepoch` has no fractions
    "postgresql": literal_column("extract(epoch from clock_timestamp())::float8", Double),
}
"""Seconds since the epoch by the database's own clock: whose processes are alive is not told by several clocks."""
