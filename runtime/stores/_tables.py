"""The database of a memory's index: its tables, and a check that a file has exactly these."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

VERSION = 3
"""Version of the tables and of the word splitting. An index of another version is rebuilt."""

CACHE = 1 << 15
"""KiB of the database to cache in memory, 32 MiB: enough to search 20,000 passages."""

WAIT = 10_000
"""Milliseconds to wait for another process that writes the index."""

TABLES = """
CREATE TABLE about (version INTEGER NOT NULL);
CREATE TABLE files (
    name TEXT PRIMARY KEY, state TEXT NOT NULL, checked INTEGER NOT NULL, length INTEGER NOT NULL, hash BLOB NOT NULL,
    problem TEXT NOT NULL, passages INTEGER NOT NULL, mark TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE passages (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, source TEXT NOT NULL, place INTEGER NOT NULL, line INTEGER NOT NULL,
    day TEXT NOT NULL, title TEXT NOT NULL, text TEXT NOT NULL, hash BLOB NOT NULL
);
CREATE INDEX in_files ON passages(name, place);
CREATE INDEX by_day ON passages(day DESC, name, place, source);
CREATE INDEX by_id ON passages(id, day, name, place, source);
CREATE VIRTUAL TABLE words USING fts5(title, text, tokenize = "porter ascii tokenchars '+#'");
"""
"""``words`` contains the words of ``passages`` from ``words_of``, separated by spaces. SQLite adds English stemming
(https://www.sqlite.org/fts5.html).
"""


def connected(path: Path | None) -> sqlite3.Connection:
    """Return a connection to an index database. Transactions are explicit.

    Args:
        path: an empty file or an index; None for a database in memory.

    Raises:
        sqlite3.Error: it is not an index, has another version, or is incomplete.
    """
    file = sqlite3.connect(
        ":memory:" if path is None else path, check_same_thread=False, isolation_level=None, timeout=WAIT / 1000
    )
    try:
        file.execute(f"PRAGMA cache_size = -{CACHE}")
        if path is not None:
            file.execute("PRAGMA journal_mode = WAL")
            file.execute("PRAGMA synchronous = NORMAL")
        if file.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,):
            with writing(file):
                for statement in TABLES.split(";\n"):
                    file.execute(statement)
                file.execute("INSERT INTO about VALUES (?)", (VERSION,))
        if _schema(file) != _own_schema():
            raise sqlite3.DatabaseError("its tables are not those of an index")
        if file.execute("SELECT version FROM about").fetchall() != [(VERSION,)]:
            raise sqlite3.DatabaseError("the index is of another version")
        counts = "(SELECT count(*) FROM passages), (SELECT count(*) FROM words), (SELECT sum(passages) FROM files)"
        passages, words, whole = file.execute(f"SELECT {counts}").fetchone()
        if not passages == words == (whole or 0):
            raise sqlite3.DatabaseError("a part of the index is missing")
    except UnicodeDecodeError as error:  # SQLite says what is damaged in the bytes that are
        file.close()
        raise sqlite3.DatabaseError(f"its tables can't be read: {error}") from error
    except BaseException:
        file.close()
        raise
    return file


@contextlib.contextmanager
def writing(file: sqlite3.Connection) -> Iterator[None]:
    """A transaction: all or nothing."""
    file.execute("BEGIN IMMEDIATE")
    try:
        yield
        file.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            file.execute("ROLLBACK")
        raise


def _schema(file: sqlite3.Connection) -> set[tuple[str, str]]:
    """Return the definitions in a file, except FTS5's own tables, which differ between versions.

    A search would run a foreign view or trigger.
    """
    rows: Iterable[tuple[str, str]] = file.execute(
        "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND NOT (type = 'table' AND name GLOB 'words_*')"
    )
    return set(rows)


def _own_schema() -> set[tuple[str, str]]:
    with contextlib.closing(sqlite3.connect(":memory:")) as empty:
        empty.executescript(TABLES)
        return _schema(empty)
