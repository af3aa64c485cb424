"""Whether a SQLite file has the tables that a store made, and nothing else that a search would run."""

from __future__ import annotations

import contextlib
import sqlite3


def has_tables(file: sqlite3.Connection, tables: str, where: str) -> bool:
    """Return whether the definitions in a file are those of ``tables``: a search would run a foreign view or trigger.

    Args:
        file: an open database.
        tables: the statements that make the tables.
        where: the condition on ``sqlite_schema`` for the definitions to compare.
    """
    query = f"SELECT name, sql FROM sqlite_schema WHERE {where}"
    with contextlib.closing(sqlite3.connect(":memory:")) as empty:
        empty.executescript(tables)
        return {*file.execute(query)} == {*empty.execute(query)}
