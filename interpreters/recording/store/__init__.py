"""Sessions in a SQL database: many in one, on SQLite for one machine or on PostgreSQL for many.

    store = SqlStore("postgresql://ada@db.example/agents")
    agent = Agent(model, tools, journal=store.recorder("ada"))

Needs the extra ``sql``; without it, the import raises a ``StoreError`` that names it. The lines are those of a file, to
the byte. ``_sql_recorder`` explains how each session has one writer, and ``_executors`` how a lock ends when its
process dies.
"""

from __future__ import annotations

from interpreters.recording.store._errors import StoreError as StoreError, TakenOverError as TakenOverError
from runtime.models.installation import install_line as _install_line

try:
    import sqlalchemy as _sqlalchemy  # noqa: F401 - which what follows can't do without
except ImportError as _error:
    _missing = f"sessions in a database need SQLAlchemy; {_install_line('sql')}"
    raise StoreError(_missing, store="store") from _error

from interpreters.recording.store._executors import EXPIRES_AFTER as EXPIRES_AFTER, Executor as Executor
from interpreters.recording.store._sql_recorder import SqlRecorder as SqlRecorder
from interpreters.recording.store._sql_session import SqlSession as SqlSession
from interpreters.recording.store._store import SqlStore as SqlStore
