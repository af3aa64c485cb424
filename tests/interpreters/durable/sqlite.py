"""A newer SQLite in place of this Python's, where that is too old for DBOS: to be imported before anything else is."""

import sqlite3
import sys

if sqlite3.sqlite_version_info < (3, 42):
    import pysqlite3

    sys.modules["sqlite3"] = pysqlite3
    sys.modules["sqlite3.dbapi2"] = pysqlite3.dbapi2
