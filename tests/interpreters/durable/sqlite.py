"""A newer SQLite in place of this Python's, where that is too old for DBOS: to be imported before anything else is.

In programs only, and never in a test: two libraries in one process don't see each other's locks.
"""

import sys

before = "sqlite3" in sys.modules

import sqlite3  # noqa: E402 - behind the look at what was imported before it

if sqlite3.sqlite_version_info < (3, 42):
    if before:
        raise ImportError("this process has imported sqlite3 before; import tests.interpreters.durable.sqlite first")
    import pysqlite3

    sys.modules["sqlite3"] = pysqlite3
    sys.modules["sqlite3.dbapi2"] = pysqlite3.dbapi2
