"""The tables of a store, and the few expressions that differ between databases.

- ``cogstep_sessions``: the writer of each session: a unique token and the writer's process.
- ``cogstep_lines``: the recorded lines, as in a file.
- ``cogstep_payloads``: the large texts, by SHA-256.
- ``cogstep_executors``: the writing processes, and how long each counts as alive.
- ``cogstep_store``: the schema version.
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
"""Version of the schema. A store with another version is refused and not changed."""

LONGEST_NAME = 200
"""Maximum characters of a session's name."""

# Compared and sorted by their bytes in every database, whatever language the server speaks.
_Name = String(LONGEST_NAME).with_variant(postgresql.VARCHAR(LONGEST_NAME, collation="C"), "postgresql")
_Text = String(500)

tables: MetaData = MetaData()

store: Table = Table("cogstep_store", tables, Column("version", Integer, primary_key=True, autoincrement=False))

executors: Table = Table(
    "cogstep_executors",
    tables,
    Column("id", _Text, primary_key=True),
    Column("name", _Text, nullable=False),
    Column("expires", Double, nullable=False),
)

sessions: Table = Table(
    "cogstep_sessions",
    tables,
    Column("name", _Name, primary_key=True),
    Column("token", BigInteger, nullable=False),
    Column("holder", _Text, nullable=True),
)

lines: Table = Table(
    "cogstep_lines",
    tables,
    Column("session", _Name, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("line", LargeBinary, nullable=False),
    Column("written", Double, nullable=False),
)

payloads: Table = Table(
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
"""Seconds since the epoch by the database's clock, so that one clock decides which processes are alive."""

FORCED: dict[Kind, str] = {"sqlite": "PRAGMA synchronous=FULL", "postgresql": "SET synchronous_commit=on"}
"""Statement after which commits on a connection are forced to disk, with all earlier commits of others."""

UNFORCED: dict[Kind, str] = {"sqlite": "PRAGMA synchronous=NORMAL", "postgresql": "SET synchronous_commit=off"}
"""Statement after which commits are not forced, which is the initial state of all connections."""
