"""Sessions in a SQL database: many in one, on SQLite for one machine or on PostgreSQL for many.

    store = SqlStore("postgresql://ada@db.example/agents")
    agent = Agent(model, tools, journal=store.recorder("ada"))

Needs the extra ``sql``; without it, to import this raises a ``StoreError`` that says so. The lines are those of a file,
to the byte; see ``recorder`` for how one writer a session is kept, and ``executors`` for how that is given up when its
process dies.
"""

from __future__ import annotations

from interpreters.recording.store.errors import StoreError as StoreError, TakenOverError as TakenOverError

try:
    import sqlalchemy as _sqlalchemy  # noqa: F401 - which what follows can't do without
except ImportError as error:
    raise StoreError("sessions in a database need SQLAlchemy; pip install 'cogstep[sql]'", store="store") from error

from interpreters.recording.store.executors import EXPIRES_AFTER as EXPIRES_AFTER, Executor as Executor
from interpreters.recording.store.recorder import SqlRecorder as SqlRecorder
from interpreters.recording.store.store import SqlStore as SqlStore
from interpreters.recording.store.stored import StoredSession as StoredSession
