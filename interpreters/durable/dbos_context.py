"""What DBOS is to sessions: where it keeps what it keeps, how that is written, and what its errors mean."""

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
from sqlalchemy.exc import SQLAlchemyError

from cognition import ConfigError
from interpreters.durable.errors import DurableError
from interpreters.recording.journal import JournalExistsError, JournalLockedError, TakenOverError
from interpreters.recording.store import StoreError
from interpreters.recording.store.database import Database
from interpreters.recording.store.locations import locate
from runtime.files import make_private

try:
    from dbos import (
        DBOS as DBOS,
        DBOSClient as DBOSClient,
        DBOSConfig as DBOSConfig,
        Serializer,
        SetWorkflowID as SetWorkflowID,
    )
    from dbos._error import (
        DBOSAwaitedWorkflowCancelledError as DBOSAwaitedWorkflowCancelledError,
        DBOSNonExistentWorkflowError as DBOSNonExistentWorkflowError,
        DBOSWorkflowCancelledError as DBOSWorkflowCancelledError,
        DBOSWorkflowConflictIDError as DBOSWorkflowConflictIDError,
    )
    from dbos._utils import INTERNAL_QUEUE_NAME as INTERNAL_QUEUE_NAME
except ImportError as error:  # pragma: no cover - the extra is installed wherever this is tested
    raise ConfigError("sessions on DBOS need the extra: pip install 'cogstep[dbos]'") from error

LOG = logging.getLogger("cogstep")

OLDEST_SQLITE = (3, 42)
"""DBOS's tables need ``unixepoch('subsec')``; an older one fails in their defaults, with an error of no help."""


PASSING = (SQLAlchemyError, StoreError, TakenOverError, JournalLockedError, JournalExistsError)
"""What a database's trouble is told by, and another execution's doing."""


OTHER_TABLES = ("42P01", "42P07", "42701", "42703")
"""PostgreSQL's codes for tables and columns that are not there, or are there already."""

SQLITE_OTHER_TABLES = ("no such table", "no such column", "has no column", "duplicate column", "already exists")
"""What SQLite says of them."""


def passes(error: BaseException | None) -> bool:
    """Whether an execution failed by what is not the run's own: a further one may come to its end."""
    while error is not None and not isinstance(error, PASSING):
        error = error.__cause__
    return error is not None


def postponed(error: BaseException) -> DBOSWorkflowConflictIDError:
    """Where an execution ends without an outcome, DBOS's own way to wait for what another one comes to. People are told
    why, since nobody else is.
    """
    run = str(DBOS.workflow_id)
    if not isinstance(error, TakenOverError):
        LOG.warning("the run %s goes on later: %s", run, _reason(error))
    return DBOSWorkflowConflictIDError(run)


def _reason(error: BaseException) -> str:
    """What a driver says, without the statement and its values."""
    return str(getattr(error, "orig", None) or error).strip().partition("\n")[0]


def unusable(database: Database, error: Exception) -> DurableError:
    """Whatever DBOS raises, as one line that says what to do."""
    said = database.location.hidden(_reason(error))
    state = getattr(getattr(error, "orig", None), "sqlstate", None)
    if state in OTHER_TABLES or any(words in said for words in SQLITE_OTHER_TABLES):
        return DurableError(
            f"{database.shown}: DBOS's tables are not those that its version here makes ({said}); put a copy of before "
            "in their place, or name another database"
        )
    return DurableError(str(database.error(error, "DBOS can't use it")))


class JsonSerializer(Serializer):
    """What DBOS keeps is JSON; an exception is its text, since an object of any class is never read back.

    Args:
        hide: hides secrets in that text.
    """

    def __init__(self, hide: Callable[[str], str] = str) -> None:
        self._hide = hide

    def serialize(self, data: Any) -> str:
        """See ``dbos.Serializer``."""
        if isinstance(data, BaseException):
            if passes(data):  # else DBOS would keep it as what the step came to, for all further executions
                raise postponed(data) from data
            data = {"error": self._hide(f"{type(data).__name__}: {data}")}
        return json.dumps(data, ensure_ascii=True, separators=(",", ":"))

    def deserialize(self, serialized_data: str) -> Any:
        """See ``dbos.Serializer``."""
        data = json.loads(serialized_data)
        return DurableError(data["error"]) if isinstance(data, dict) and data.keys() == {"error"} else data

    def name(self) -> str:
        """See ``dbos.Serializer``."""
        return "cogstep_json"


@frozen(eq=False)
class Place:
    """Where the tables are: those of the store, and DBOS's own."""

    store: str
    engine: str

    def make_ready(self) -> None:
        """Make SQLite's file of DBOS, if it is not there: what is said in sessions is the user's alone in it too.

        What DBOS has kept has to be on the disk, since a tool begins which must not begin twice. In SQLite's usual mode
        a commit is the deletion of a file, which a crash of the machine may take back; in the one with a log it is not.
        And of a log each step waits for the disk once, and not three or four times.
        """
        path = locate(self.store).path
        if not path:
            return
        with suppress(FileExistsError):
            make_private(f"{path}.dbos")
        # Whatever is wrong with the file, DBOS finds it too, and that is told.
        with suppress(sqlite3.Error), closing(sqlite3.connect(f"{path}.dbos")) as file:
            file.execute("PRAGMA journal_mode=WAL")


def place_of(url: str) -> Place:
    """The databases of a URL: on PostgreSQL one for both; on SQLite two files, so that neither waits for the other.

    Raises:
        DurableError: this Python's SQLite is too old for DBOS, or it needs more of the URL than the store.
        StoreError: it is no URL of a database.
    """
    location = locate(url)
    if location.kind != "sqlite":
        if not location.url.database:
            raise DurableError(
                f"DBOS finds no database by the user's name: say {location.shown}/database in the URL, by its own name"
            )
        return Place(url, location.url.render_as_string(hide_password=False))
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise DurableError(
            f"DBOS needs SQLite {'.'.join(map(str, OLDEST_SQLITE))} and this Python has {sqlite3.sqlite_version}: use "
            "a Python with a newer one (or pysqlite3-binary in its place, see docs/durable.md), or PostgreSQL"
        )
    # Of the whole path: the two files stay together, wherever the program stands when the second one is opened.
    engine = location.url.set(drivername="sqlite", database=f"{location.path}.dbos")
    return Place(url, engine.render_as_string(hide_password=False))


def aside(work: Callable[[], None]) -> None:
    """Do something that DBOS refuses to do in a thread where an event loop runs."""
    if asyncio._get_running_loop() is None:
        work()
        return
    with ThreadPoolExecutor(1) as thread:
        thread.submit(work).result()


def tells(record: logging.LogRecord) -> bool:
    """Whether a line of DBOS's log is news: a run that was cancelled is what somebody asked for."""
    return not (record.exc_info and isinstance(record.exc_info[1], DBOSAwaitedWorkflowCancelledError))
