"""A process's connections to PostgreSQL: their limit, and DBOS's share of them.

    connections=10    the store's pool: 3    the pool of DBOS and of all clients: 6    DBOS's listener: 1

The shares are fixed, so neither pool can take the other one's connections, and no thread holds one of a pool while it
waits for one of the other. DBOS's own thread for regular jobs holds one of its pool while it uses a second one.
"""

from __future__ import annotations

import os
from contextlib import suppress
from threading import Lock
from typing import Any, Final
from weakref import WeakSet, WeakValueDictionary, finalize

from attrs import frozen
from sqlalchemy import Engine, create_engine, event, make_url, text

from cognition import ConfigError
from interpreters.durable._errors import DurableError
from interpreters.recording.store.database import Database
from interpreters.recording.store.pools import WAITS, BoundedPool, check_before_use, given_arguments

CONNECTIONS: Final = 10
"""The default of ``connections``."""

LISTENER: Final = 1

LEAST: Final = 5
"""The smallest number with which a process works: one for the store, three for DBOS, and the listener."""

IDLE_AFTER = 10.0
"""Seconds after which PostgreSQL ends an idle transaction: a process stopped in the middle of a transaction holds rows
of the queue and would block all other processes.
"""

ROOM = """
    SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
         - coalesce(current_setting('reserved_connections', true)::int, 0),
           (SELECT rolconnlimit FROM pg_roles WHERE rolname = session_user),
           (SELECT datconnlimit FROM pg_database WHERE datname = current_database())
"""
"""The connections that the server has for ordinary users; the limits of this user and database, negative if none."""


@frozen
class Shares:
    """The maximum number of connections of each pool."""

    store: int
    engine: int


def shares_of(connections: int) -> Shares:
    """Return the shares of a process's connections.

    Raises:
        ConfigError: they are too few.
    """
    if connections < LEAST:
        raise ConfigError(
            f"connections has to be at least {LEAST}, not {connections}: a process needs one for the store, three for "
            "DBOS, and one on which DBOS listens"
        )
    store = max(1, (connections - LISTENER) // 3)
    return Shares(store, connections - LISTENER - store)


class SystemPool:
    """The pool of DBOS and its clients in this process."""

    def __init__(self, url: str, size: int) -> None:
        address = make_url(url).set(drivername="postgresql+psycopg")
        self.size = size
        self.is_migrated = False
        self.engine: Engine = create_engine(
            address,
            connect_args=given_arguments(address.query),
            hide_parameters=True,
            poolclass=BoundedPool,
            pool_size=size,
            max_overflow=0,
            pool_timeout=WAITS,
            pool_use_lifo=True,
        )
        event.listen(self.engine, "connect", _set_up)
        check_before_use(self.engine)
        finalize(self, _close, self.engine).atexit = False
        _all.add(self)

    def close_surplus(self) -> None:
        """Close connections that were idle all the time since the last call."""
        if isinstance(self.engine.pool, BoundedPool):
            self.engine.pool.close_surplus()

    def after_fork(self) -> None:
        """Replace the parent's connections in a forked child, without using or closing them."""
        _parents.append(self.engine.pool)
        self.engine.dispose(close=False)


def _close(engine: Engine) -> None:
    with suppress(Exception):
        engine.dispose()


def _set_up(connection: Any, _record: Any) -> None:
    connection.execute(f"SET idle_in_transaction_session_timeout = {int(1000 * IDLE_AFTER)}")
    connection.commit()  # the pool's rollback would undo it


_parents: list[object] = []
_all: WeakSet[SystemPool] = WeakSet()
_pools: WeakValueDictionary[str, SystemPool] = WeakValueDictionary()
_opening = Lock()


def system_pool(url: str, size: int) -> SystemPool | None:
    """Return this process's pool for DBOS in a database; None for SQLite. It does not connect yet.

    Raises:
        ConfigError: it is in use with another size.
    """
    if make_url(url).get_backend_name() == "sqlite":
        return None
    with _opening:
        pool = _pools.get(url)
        if pool is None:
            pool = _pools[url] = SystemPool(url, size)
        if pool.size != size:
            raise ConfigError(
                "this process has other DBOSSessions on the same database with another number of connections=; "
                "give them the same, or close() them first"
            )
        return pool


def check_room(database: Database, connections: int) -> None:
    """Check that the server has room for the connections of one process.

    Raises:
        DurableError: it has not.
        StoreError: the database can't be used.
    """
    if database.location.kind == "sqlite":
        return
    found = database.run(lambda one: one.execute(text(ROOM)).one())
    limits = {"its max_connections": found[0], "the user's limit": found[1], "the database's limit": found[2]}
    which, room = min(((name, int(one)) for name, one in limits.items() if one is not None and one >= 0), key=_room)
    if room >= connections:
        return
    less = f", or pass connections={room}" if room >= LEAST else ""
    raise DurableError(
        f"{database.display_name}: the server has room for {room} connections, and this process may need "
        f"{connections}: raise {which}{less}"
    )


def _room(limit: tuple[str, int]) -> int:
    return limit[1]


def _after_fork() -> None:
    global _opening
    _opening = Lock()
    for pool in list(_all):
        pool.after_fork()


os.register_at_fork(after_in_child=_after_fork)
