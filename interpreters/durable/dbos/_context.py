"""DBOS as used for sessions: the place of its tables, its serialization, and the classification of its errors."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import Any

from attrs import frozen
from dbos import DBOS, Serializer
from dbos._error import DBOSAwaitedWorkflowCancelledError, DBOSWorkflowConflictIDError
from sqlalchemy.exc import SQLAlchemyError

from interpreters.durable._errors import DurableError, is_due_to
from interpreters.recording.journal import JournalExistsError, JournalLockedError, TakenOverError
from interpreters.recording.store import StoreError
from interpreters.recording.store.database import Database
from interpreters.recording.store.locations import locate
from runtime.files import make_private

LOG = logging.getLogger("cogstep")

OLDEST_SQLITE = (3, 42)
"""DBOS's tables need ``unixepoch('subsec')``; an older SQLite fails in their defaults with an unhelpful error."""


PASSING = (SQLAlchemyError, StoreError, TakenOverError, JournalLockedError, JournalExistsError)
"""Errors of an unavailable database, or caused by another execution."""


OTHER_TABLES = ("42P01", "42P07", "42701", "42703")
"""PostgreSQL's codes for missing and for already existing tables and columns."""

SQLITE_OTHER_TABLES = ("no such table", "no such column", "has no column", "duplicate column", "already exists")
"""SQLite's messages for the same."""


def is_transient(error: BaseException | None) -> bool:
    """Whether an execution failed for an external reason, so that a further execution may succeed."""
    return is_due_to(error, PASSING)


def postpone(error: BaseException) -> DBOSWorkflowConflictIDError:
    """Log why an execution ends without an outcome, and return the exception that makes DBOS wait for another
    execution.
    """
    run = str(DBOS.workflow_id)
    if not isinstance(error, TakenOverError):
        LOG.warning("the run %s goes on later: %s", run, _reason(error))
    return DBOSWorkflowConflictIDError(run)


def _reason(error: BaseException) -> str:
    """Return a driver's message without the statement and its values."""
    return str(getattr(error, "orig", None) or error).strip().partition("\n")[0]


def unusable_error(database: Database, error: Exception) -> DurableError:
    """Return an error of DBOS as a one-line error with the remedy."""
    said = database.location.hide_password(_reason(error))
    state = getattr(getattr(error, "orig", None), "sqlstate", None)
    if state in OTHER_TABLES or any(words in said for words in SQLITE_OTHER_TABLES):
        return DurableError(
            f"{database.display_name}: DBOS's tables are not those that its version here makes ({said}); put a copy of "
            "before in their place, or name another database"
        )
    return DurableError(str(database.error(error, "DBOS can't use it")))


class JsonSerializer(Serializer):
    """Serializes DBOS's data as JSON. An exception is stored as text, so that reading never creates an arbitrary
    object.

    Args:
        hide: hides secrets in that text.
    """

    def __init__(self, hide: Callable[[str], str] = str) -> None:
        self._hide = hide

    def serialize(self, data: Any) -> str:
        if isinstance(data, BaseException):
            if is_transient(data):  # else DBOS would keep it as what the step came to, for all further executions
                raise postpone(data) from data
            data = {"error": self._hide(f"{type(data).__name__}: {data}")}
        return json.dumps(data, ensure_ascii=True, separators=(",", ":"))

    def deserialize(self, serialized_data: str) -> Any:
        data = json.loads(serialized_data)
        return DurableError(data["error"]) if isinstance(data, dict) and data.keys() == {"error"} else data

    def name(self) -> str:
        return "cogstep_json"


@frozen(eq=False)
class DatabaseUrls:
    """The URLs of the store's tables and of DBOS's own."""

    store: str
    engine: str

    def make_ready(self) -> None:
        """Create DBOS's SQLite file if it is missing, readable by the user only, and set it to WAL mode.

        DBOS's data must be on the disk before a tool starts that must not start twice. In SQLite's default mode a
        commit is the deletion of a file, which a crash of the machine may undo; in WAL mode it is not. WAL mode also
        waits for the disk once per step, not three or four times.
        """
        path = locate(self.store).path
        if not path:
            return
        with suppress(FileExistsError):
            make_private(f"{path}.dbos")
        # Whatever is wrong with the file, DBOS finds it too, and that is told.
        with suppress(sqlite3.Error), closing(sqlite3.connect(f"{path}.dbos")) as file:
            file.execute("PRAGMA journal_mode=WAL")


def database_urls(url: str) -> DatabaseUrls:
    """Return the databases of a URL: on PostgreSQL the same for both; on SQLite two files, so that they don't block
    each other.

    Raises:
        DurableError: this Python's SQLite is too old for DBOS, or the URL lacks the database's name.
        StoreError: it is not the URL of a database.
    """
    location = locate(url)
    if location.kind != "sqlite":
        if not location.url.database:
            raise DurableError(
                f"DBOS finds no database by the user's name: say {location.shown}/database in the URL, by its own name"
            )
        return DatabaseUrls(url, location.url.render_as_string(hide_password=False))
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise DurableError(
            f"DBOS needs SQLite {'.'.join(map(str, OLDEST_SQLITE))} and this Python has {sqlite3.sqlite_version}: use "
            "a Python with a newer one (or pysqlite3-binary in its place, see docs/guides/durable.md), or PostgreSQL"
        )
    # Of the whole path: the two files stay together, wherever the program stands when the second one is opened.
    engine = location.url.set(drivername="sqlite", database=f"{location.path}.dbos")
    return DatabaseUrls(url, engine.render_as_string(hide_password=False))


def run_aside(work: Callable[[], None]) -> None:
    """Run work that DBOS refuses in a thread with a running event loop."""
    if asyncio._get_running_loop() is None:
        work()
        return
    with ThreadPoolExecutor(1) as thread:
        thread.submit(work).result()


def should_log(record: logging.LogRecord) -> bool:
    """Whether to log a record of DBOS. The cancellation of a run is not logged: the user asked for it."""
    return not (record.exc_info and isinstance(record.exc_info[1], DBOSAwaitedWorkflowCancelledError))
