"""A process's connections to one database, opened on demand and replaced if they break."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from random import SystemRandom
from typing import Any, TypeVar
from urllib.parse import quote
from weakref import WeakSet, WeakValueDictionary, finalize

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    PoolProxiedConnection,
    Row,
    Select,
    create_engine,
    event,
    inspect,
    select,
)
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from interpreters.recording.store import schema
from interpreters.recording.store._errors import StoreError
from interpreters.recording.store.locations import Location, locate
from interpreters.recording.store.pools import WAITS, BoundedPool, explain_wait, given_arguments
from runtime.files import UnusableFileError, check_regular, make_private
from runtime.models.installation import install_line

T = TypeVar("T")

PATIENCE = 20.0
"""Seconds of retries while a database that was reachable before is not, because it is restarting."""

LONGEST_PAUSE = 0.5

BEING_CREATED = 0.2
"""Seconds for which a file of SQLite may be without tables while another process creates them."""

CHANCE = SystemRandom()
"""A separate generator, so that a background thread does not change the sequence that the program has seeded."""

BUSY = 30.0
"""Seconds that SQLite waits while another process writes."""

KEPT = 4
"""Maximum number of reserved connections for single statements."""

CONNECTIONS = 12
"""Maximum number of a process's connections to a PostgreSQL database, unless ``limit`` sets another one."""

SQLITE_CONNECTIONS = 64 + KEPT

CHECKPOINT = 8000
"""Pages of SQLite's write-ahead log, 32 MB, before a checkpoint. It waits for the disk, so the limit is above SQLite's
default.
"""

SCHEMA_LOCK = 0x636F6773
"""PostgreSQL's advisory lock for the creation of tables, so that two processes do not create one at the same time."""

SQLITE_HELP = {
    "full": "make room on its disk",
    "I/O error": "see whether its disk is full, or has failed",
    "readonly": "name one that this user can write",
    "not there any more": "put it back",
    "unable to open": "see that this user may read it, and write to its directory",
    "locked": "another process has been writing to it for long; see which",
    "malformed": "it is damaged, or a copy without its -wal file: take a copy of before (`cogstep sessions backup` "
    "makes them), or what `sqlite3 FILE .recover` can save",
}
"""Advice by words in SQLite's messages."""

POSTGRESQL_HELP = {
    "connection slots": "end other programs that use it, or raise its max_connections",
    "too many clients": "end other programs that use it, or raise its max_connections",
    "too many connections": "end other programs that use it, or raise the limit of that role or database",
    "password": "see that the user and PGPASSWORD or ~/.pgpass are right",
    "no pg_hba.conf entry": "have its server let this user in from here",
    "database": "make it with `createdb`, or name the one that is meant",
    "role": "name a user of that server",
    "resolve host": "see how the host is spelt",
    "host name": "see how the host is spelt",
    "option": "leave that option out",
    "read-only": "name the server that takes changes",
    "No space left": "make room on its server's disk",
    "no equivalent": "choose a name that the encoding of the database knows",
    "permission denied": "see that the user may do that",
}
"""Advice by words in PostgreSQL's messages; the first match counts."""

NOT_WHOLE = (
    "it has no tables, and the file {wal}, in which a running program keeps what it has written, is not beside it: "
    "copy both, or make copies with `cogstep sessions backup`. If it was never used, delete it"
)

STARTING = ("is starting up", "is shutting down", "not yet accepting connections", "in recovery mode")
"""Words of PostgreSQL's messages to a client that connects while the server starts or stops; they come without a code.
"""

GONE = "its file was deleted, moved or replaced while it was used; put it back"

PASSING = ("08", "40", "57P")
"""Prefixes of PostgreSQL's codes for broken connections, for conflicts that need a retry, and for a server that starts
or stops.
"""

_TABLES = "SELECT 1 FROM sqlite_master LIMIT 1"


class Database:
    """One process's access to one database. ``database_of`` returns the same object for equal URLs."""

    def __init__(self, location: Location) -> None:
        self.location = location
        self.now: ColumnElement[Any] = schema.NOW[location.kind]
        self._limit = CONNECTIONS if location.kind == "postgresql" else SQLITE_CONNECTIONS
        self._engine = self._new_engine()
        self._kept: deque[PoolProxiedConnection] = deque()
        """Idle connections that are permanently taken from the pool."""
        self._closing = self._close_when_dropped()
        self._ready = False
        self._making = threading.Lock()
        self._seeing = threading.Lock()
        self._file: tuple[int, int] | None = None
        """Device and inode of SQLite's open file."""
        self._files: set[tuple[int, int]] = set()
        """Device and inode of earlier open files."""
        _databases.add(self)

    @property
    def display_name(self) -> str:
        """The name without a password."""
        return self.location.shown

    def _new_engine(self) -> Engine:
        location = self.location
        given: dict[str, Any] = {"timeout": BUSY}
        url = location.url
        if location.kind == "sqlite":  # a file that has gone is not made again by whoever looks into it
            url = url.set(database=f"file:{quote(os.fsencode(location.path))}", query={"mode": "rw", "uri": "true"})
        else:
            given = given_arguments(location.url.query)
        try:
            engine = create_engine(
                url,
                isolation_level="AUTOCOMMIT",  # a statement is a transaction, in one round trip
                connect_args=given,
                hide_parameters=True,  # what a session said stands in no error
                poolclass=BoundedPool,
                pool_size=self._limit if location.kind == "postgresql" else 2 * KEPT,
                max_overflow=0 if location.kind == "postgresql" else SQLITE_CONNECTIONS - 2 * KEPT,
                pool_timeout=WAITS,
                pool_use_lifo=True,
            )
        except ImportError as error:  # it is there, and what it stands on is not
            said = str(error).strip().partition("\n")[0]
            raise self._fault(f"its driver can't be loaded ({said}); {install_line('sql')}") from error
        except SQLAlchemyError as error:
            raise self.error(error) from None
        event.listen(engine, "connect", _set_up_sqlite if location.kind == "sqlite" else _set_up_postgresql)
        return engine

    def limit(self, connections: int) -> None:
        """Set the maximum number of this process's connections to PostgreSQL, at least 1.

        Connections beyond it are closed once they are not in use. SQLite has no such limit.
        """
        if self.location.kind != "postgresql" or connections == self._limit:
            return
        with self._seeing:
            before, kept = self._engine, self._kept
            self._closing.detach()
            self._limit = connections
            self._engine, self._kept = self._new_engine(), deque()
            self._closing = self._close_when_dropped()
        _close(before, kept)

    def close_surplus(self) -> None:
        """Close connections that were idle all the time since the last call. For threads that call it regularly."""
        if self.location.kind == "postgresql" and isinstance(self._engine.pool, BoundedPool):
            self._engine.pool.close_surplus()

    def error(self, error: BaseException, what: str = "") -> StoreError:
        """Return a driver's error as one line without a password and without values."""
        if waited := explain_wait(error, self._limit):
            return self._fault(waited)
        cause = getattr(error, "orig", None) or error
        said = self.location.hide_password(str(cause)).strip().partition("\n")[0]
        if self.location.kind == "sqlite":
            if not os.path.exists(self.location.path):
                said = "its file is not there any more"
            help_ = next((text for word, text in SQLITE_HELP.items() if word in said), "name the store that is meant")
        else:
            otherwise = "start PostgreSQL there, or name the store that is meant"
            state = getattr(cause, "sqlstate", None)
            if state is not None and not state.startswith(PASSING):
                otherwise = "see that the user may do that"
            help_ = next((text for word, text in POSTGRESQL_HELP.items() if word in said), otherwise)
        return self._fault(f"{what or 'the database can not be used'} ({said}); {help_}")

    def _fault(self, problem: str) -> StoreError:
        return StoreError(problem, store=self.display_name)

    @property
    def is_there(self) -> bool:
        """Whether the database can be read; for SQLite, whether the file exists.

        Raises:
            StoreError: the directory does not exist, or the file is not readable.
        """
        if self.location.kind != "sqlite":
            return True
        path = self.location.path
        folder = os.path.dirname(path)
        try:
            check_regular(path)
        except FileNotFoundError:
            if os.path.isdir(folder):
                return False
            raise self._fault(f"there is no directory {folder}; create it, or name another") from None
        except UnusableFileError as error:
            raise self._fault(error.reason) from None
        except OSError as error:
            raise self._fault(f"can't be read ({error.strerror}); name one that this user can read") from None
        return True

    def read(self, work: Callable[[Connection], T], otherwise: T) -> T:
        """Return the result of ``work``, or ``otherwise`` if there are no tables yet. Does not create tables.

        Raises:
            StoreError: the database can't be reached, or has another schema.
        """
        self._see_file()
        if not self._ready and not self._has_tables():
            return otherwise
        return self.run(work)

    def all(self, query: Select[Any]) -> list[Row[Any]]:
        """Return the rows of a query; empty without tables. Raises as ``read``."""
        return self.read(lambda connection: list(connection.execute(query)), [])

    def first(self, query: Select[Any]) -> Row[Any] | None:
        """Return the first row of a query; None without one, or without tables. Raises as ``read``."""
        return self.read(lambda connection: connection.execute(query).first(), None)

    def write(self, work: Callable[[Connection], T]) -> T:
        """Do some work after creating missing tables. Raises as ``read``."""
        self._see_file()
        if not self._ready:
            self._make()
        return self.run(work)

    def run(self, work: Callable[[Connection], T]) -> T:
        """Do repeatable work; it is repeated if the connection breaks.

        Raises:
            StoreError: the database is unreachable for longer than a restart takes, or refuses.
        """
        self._check_file()
        until = time.monotonic() + PATIENCE
        pause = 0.01
        while True:
            try:
                with self._engine.connect() as connection:
                    return work(connection)
            except SQLAlchemyError as error:
                # A server that was never reached is not one that is being restarted.
                reached = self._ready or _state(error) is not None or is_starting(error)
                if not reached or not _is_away(error) or time.monotonic() > until:
                    raise self.error(error) from error
            time.sleep(CHANCE.uniform(0.0, pause))
            pause = min(2 * pause, LONGEST_PAUSE)

    def run_bare(self, statement: Callable[[Any], T]) -> T | None:
        """Run a single statement directly on a driver's connection.

        Taking a connection from the pool and returning it would take as long as the statement. Returns None if the
        connection broke, so that it is unknown whether the statement ran.

        Raises:
            StoreError: the database refuses, or the statement waits too long.
        """
        self._check_file()
        kept, file = self._kept, self._file
        connection: PoolProxiedConnection | None = None
        try:
            try:  # not looked at first: several threads take from there
                connection = kept.pop()
            except IndexError:
                connection = self._engine.raw_connection()
            result = statement(connection.driver_connection)
        except BaseException as error:
            if connection is not None:
                with contextlib.suppress(Exception):
                    connection.invalidate()
            if not isinstance(error, Exception):
                raise
            if self.location.kind == "sqlite":  # there is no server that could be back in a moment
                raise self.error(error) from error
            return None
        if kept is not self._kept:  # the limit has changed meanwhile
            connection.invalidate()
        elif file == self._file and len(kept) < min(KEPT, self._limit // 2):
            kept.append(connection)
        elif file != self._file:  # it was replaced meanwhile
            connection.invalidate()
        else:
            connection.close()
        return result

    def _check_file(self) -> None:
        if not self._see_file():
            raise self._fault(GONE)

    def _see_file(self) -> bool:
        """Whether SQLite's file is the open file, or one opened earlier.

        If it is not the open file, the next connection opens the present file. Data written to a file without a name is
        lost.
        """
        if not self.location.path:
            return True
        with self._seeing:  # else a thread that looked before the file was there takes it for one that has gone
            try:
                about = os.stat(self.location.path)
                there = (about.st_dev, about.st_ino)
            except OSError:
                there = None
            before, self._file = self._file, there
            if before is None or before == there:
                return True
            self._files.add(before)
            self._ready = False
            with contextlib.suppress(IndexError):
                while True:
                    self._kept.pop().invalidate()
            self._engine.dispose()
        return there in self._files

    @contextlib.contextmanager
    def transaction(self, connection: Connection) -> Iterator[None]:
        """Run several statements as one. In the meantime others can't write to rows read for writing."""
        connection.exec_driver_sql("BEGIN IMMEDIATE" if self.location.kind == "sqlite" else "BEGIN")
        try:
            yield
            connection.exec_driver_sql("COMMIT")
        except BaseException:
            with contextlib.suppress(Exception):
                connection.exec_driver_sql("ROLLBACK")
            raise

    @contextlib.contextmanager
    def force_commits(self, connection: Connection, force: bool) -> Iterator[None]:
        """If ``force`` is set, force the block's changes to disk before it returns.

        A killed process loses nothing in either case, since the system or the server has its writes.
        """
        if not force:
            yield
            return
        connection.exec_driver_sql(schema.FORCED[self.location.kind])
        yield
        connection.exec_driver_sql(schema.UNFORCED[self.location.kind])

    def _has_tables(self) -> bool:
        """Whether the tables exist.

        Raises:
            StoreError: they have another version.
        """
        if not self.is_there:
            return False
        alone = lacks_wal(self.location.path)
        self._ready = self.run(self._has_version)
        if alone and not self._ready:  # unless another process is just creating it
            time.sleep(BEING_CREATED)
            self._ready = self.run(self._has_version)
            if not self._ready:
                self._engine.dispose()  # which removes SQLite's new log: the next look finds the same
                raise self._fault(NOT_WHOLE.format(wal=f"{self.location.path}-wal"))
        return self._ready

    def _has_version(self, connection: Connection) -> bool:
        if not inspect(connection).has_table(schema.store.name):
            if self.location.kind == "sqlite" and connection.exec_driver_sql(_TABLES).first() is not None:
                raise self._fault("it is the database of another program; name another file")
            return False
        found = connection.execute(select(schema.store.c.version)).scalars().all()
        if found != [schema.VERSION]:
            raise self._fault(
                f"the store has the schema version {', '.join(map(str, found)) or 'none'} and this cogstep knows "
                f"version {schema.VERSION}; use the cogstep that made it, or name another store. Nothing was changed"
            )
        return True

    def _make(self) -> None:
        with self._making:
            if self._has_tables():
                return
            if self.location.kind == "sqlite":
                try:
                    with contextlib.suppress(FileExistsError):
                        make_private(self.location.path)  # what is said in sessions is the user's alone
                except OSError as error:
                    raise self._fault(f"can't be made ({error.strerror}); choose another place") from error
                # Who reads keeps nobody from writing. It stays so, and is not done to a file that is only read.
                self.run(lambda connection: connection.exec_driver_sql("PRAGMA journal_mode=WAL"))
            self.run(self._make_tables)
            self._ready = True

    def _make_tables(self, connection: Connection) -> None:
        with self.transaction(connection):
            if self.location.kind == "postgresql":
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({SCHEMA_LOCK})")
            if not self._has_version(connection):
                schema.tables.create_all(connection)
                connection.execute(schema.store.insert().values(version=schema.VERSION))

    def _after_fork(self) -> None:
        """Replace the parent's connections in a forked child, without using or closing them."""
        _parents.extend((self._engine, self._kept))
        self._closing.detach()
        self._engine, self._kept = self._new_engine(), deque()
        self._closing = self._close_when_dropped()
        self._making, self._seeing = threading.Lock(), threading.Lock()

    def _close_when_dropped(self) -> finalize[..., Database]:
        """Close the connections once nobody uses this object.

        A ``__del__`` would be too late: in a cycle of garbage, SQLite's connections may be the first to be deleted.
        """
        closing = finalize(self, _close, self._engine, self._kept)
        closing.atexit = False
        return closing


def _close(engine: Engine, kept: deque[PoolProxiedConnection]) -> None:
    with contextlib.suppress(Exception):
        while kept:
            kept.pop().close()
        engine.dispose()


_parents: list[object] = []
_databases: WeakSet[Database] = WeakSet()
_known: WeakValueDictionary[str, Database] = WeakValueDictionary()
_knowing = threading.Lock()


def database_of(url: str) -> Database:
    """Return this process's access to the database of a URL. It does not connect yet.

    Raises:
        StoreError: see ``locate``.
    """
    location = locate(url)
    name = location.url.render_as_string(hide_password=False)
    with _knowing:
        database = _known.get(name)
        if database is None:
            database = _known[name] = Database(location)
        return database


def _after_fork() -> None:
    global _knowing
    _knowing = threading.Lock()
    for database in list(_databases):
        database._after_fork()


os.register_at_fork(after_in_child=_after_fork)


def lacks_wal(path: str) -> bool:
    """Whether a file of SQLite says that it has a write-ahead log, and has none beside it.

    An orderly end of the last program removes the log, and leaves the tables in the file.
    """
    if not path:
        return False
    try:
        with open(path, "rb") as file:
            header = file.read(20)
        return header[18:20] == b"\2\2" and not os.path.exists(f"{path}-wal")
    except OSError:
        return False


def is_starting(error: BaseException | None) -> bool:
    """Whether PostgreSQL refuses a connection because it is starting or stopping."""
    return error is not None and any(words in str(error) for words in STARTING)


def _is_away(error: SQLAlchemyError) -> bool:
    """Whether the server is gone or does not answer, and may be back soon."""
    if not isinstance(error, DBAPIError):
        return False
    if error.connection_invalidated:
        return True
    state = _state(error)
    if state is not None:  # the driver may not know yet that the connection has ended which says so
        return state.startswith(PASSING)
    # Of a connection that can't be made, no state is known.
    return type(error.orig).__name__ == "OperationalError" and type(error.orig).__module__.startswith("psycopg")


def _state(error: SQLAlchemyError) -> str | None:
    state: str | None = getattr(getattr(error, "orig", None), "sqlstate", None)
    return state


def _set_up_sqlite(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT}")
    cursor.close()


def _set_up_postgresql(connection: Any, _record: Any) -> None:
    connection.autocommit = True
    # The statements count on it that each sees what was committed before, whatever the database has as its default.
    connection.execute("SET synchronous_commit=off; SET default_transaction_isolation='read committed'")
