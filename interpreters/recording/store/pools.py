"""Pools of PostgreSQL connections with a limit, at which callers wait for a connection.

A caller waits for one of the pool's connections if all are in use, and also if the server has no room for a new one:
other processes may hold too many. Connections that the pool did not need for a while can be closed.
"""

from __future__ import annotations

import select
import time
from contextlib import suppress
from random import SystemRandom
from typing import Any

from sqlalchemy import Engine, PoolProxiedConnection, QueuePool, event
from sqlalchemy.exc import InvalidatePoolError, TimeoutError as PoolTimeoutError
from sqlalchemy.util.queue import Empty

WAITS = 30.0
"""Seconds that a caller waits for a connection of the pool."""

WAITS_FOR_SERVER = 10.0
"""Seconds that a caller waits if the server has no room for a new connection."""

LONGEST_PAUSE = 0.25

FULL = ("connection slots", "too many clients", "too many connections")
"""Words of PostgreSQL's messages if it has no room for a new connection; they come without a code."""

LOOKED_AT_AFTER = 1.0
"""Seconds without use after which a connection is looked at before it is used again."""

CHANCE = SystemRandom()

OK = 0
"""libpq's status of a connection that works."""

# A vanished machine is found within seconds, and not when the system's two hours are over.
CONNECT_ARGUMENTS: dict[str, Any] = {
    "connect_timeout": 10,
    "application_name": "cogstep",
    "client_encoding": "utf8",  # whatever the database's is: of one without any, texts would come as bytes
    "keepalives_idle": 10,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}


class BoundedPool(QueuePool):
    """A pool that waits for the server's room as well."""

    _least = 0
    """The smallest number of idle connections since the last ``close_surplus``."""

    def connect(self) -> PoolProxiedConnection:
        """Return a connection, as soon as there is one.

        Raises:
            PoolTimeoutError: all of the pool's connections stayed in use for ``WAITS`` seconds.
            Exception: the driver's error; if the server has no room, after ``WAITS_FOR_SERVER`` seconds.
        """
        until = time.monotonic() + WAITS_FOR_SERVER
        pause = 0.01
        while True:
            try:
                connection = super().connect()
            except Exception as error:
                if not is_full(error) or time.monotonic() > until:
                    raise
            else:
                self._least = min(self._least, self.checkedin())
                return connection
            time.sleep(CHANCE.uniform(0.0, pause))  # meanwhile, another thread may return one
            pause = min(2 * pause, LONGEST_PAUSE)

    def close_surplus(self) -> int:
        """Close the connections that were idle all the time since the last call, except one; return their number."""
        closed = 0
        with suppress(Empty):
            for _ in range(min(self._least, self.checkedin()) - 1):
                entry = self._pool.get(False)
                try:
                    entry.close()
                finally:
                    self._dec_overflow()
                closed += 1
        self._least = self.checkedin()
        return closed


def given_arguments(query: Any) -> dict[str, Any]:
    """Return the arguments of new connections that a URL's query does not set."""
    return {name: value for name, value in CONNECT_ARGUMENTS.items() if name not in query}


def is_full(error: BaseException) -> bool:
    """Whether PostgreSQL refuses a connection because the server, the database or the role has no room for it."""
    return any(words in str(error) for words in FULL)


def explain_wait(error: BaseException, limit: int) -> str:
    """Return what is wrong, and what helps, if a caller waited in vain for a pool; empty for any other error."""
    if not isinstance(error, PoolTimeoutError):
        return ""
    return (
        f"all {limit} connections that this process may have were in use for {WAITS:g} seconds; "
        "allow more with connections=, or do less at a time"
    )


def check_before_use(engine: Engine) -> None:
    """Look at each idle connection before its next use, and replace it if the server has ended it.

    Unlike SQLAlchemy's ``pool_pre_ping`` this sends nothing: the end of a connection is already in its socket.
    """
    event.listen(engine, "checkout", _check)
    event.listen(engine, "checkin", _note)


def _note(_connection: Any, record: Any) -> None:
    record.info["used"] = time.monotonic()


def _check(connection: Any, record: Any, _proxy: Any) -> None:
    if time.monotonic() - record.info.get("used", 0.0) >= LOOKED_AT_AFTER and has_ended(connection):
        raise InvalidatePoolError("the server has ended this connection")


def has_ended(connection: Any) -> bool:
    """Whether the server has ended an idle connection of psycopg."""
    low = connection.pgconn
    try:
        while low.status == OK and select.select([low.socket], [], [], 0)[0]:
            low.consume_input()  # a notice, or the end
    except Exception:  # psycopg's, or that of a closed socket
        return True
    return bool(low.status != OK)
