"""Pools with a limit: callers wait for a connection, for a while, and what was not needed is closed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy
from hypothesis import given, settings, strategies as st

from cognition import ConfigError
from interpreters.recording.sessions import list_sessions
from interpreters.recording.store import SqlStore, StoreError, pools
from interpreters.recording.store.database import Database
from interpreters.recording.store.locations import locate
from interpreters.recording.store.pools import BoundedPool, explain_wait, is_full
from tests.interpreters.databases import needs_postgres, postgres

FULL = (
    'connection to server at "127.0.0.1", port 1 failed: FATAL:  sorry, too many clients already',
    "FATAL:  remaining connection slots are reserved for non-replication superuser connections",
    "FATAL:  remaining connection slots are reserved for roles with the SUPERUSER attribute",
    'FATAL:  too many connections for role "ada"',
    'FATAL:  too many connections for database "agents"',
)


class Connection:
    """A driver's connection that does nothing."""

    def __init__(self, opened: set[Connection]) -> None:
        self._opened = opened
        opened.add(self)

    def rollback(self) -> None:
        pass

    def close(self) -> None:
        self._opened.discard(self)


class Server:
    """Opens connections up to a limit."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.open: set[Connection] = set()
        self.most = 0

    def connect(self) -> Any:
        if len(self.open) >= self.limit:
            raise OSError(FULL[0])
        one = Connection(self.open)
        self.most = max(self.most, len(self.open))
        return one


@pytest.mark.parametrize("said", FULL)
def test_a_server_without_room_is_known_by_its_words(said: str) -> None:
    assert is_full(OSError(said))


@settings(max_examples=25)
@given(size=st.integers(1, 4), limit=st.integers(1, 4), callers=st.integers(1, 6))
def test_callers_wait_for_the_pool_and_for_the_server_and_all_get_a_connection(
    size: int, limit: int, callers: int
) -> None:
    """More callers than connections: none fails, and neither limit is exceeded."""
    server = Server(limit)
    pool = BoundedPool(server.connect, pool_size=size, max_overflow=0, timeout=20, use_lifo=True)
    served: list[int] = []

    def call(number: int) -> None:
        connection = pool.connect()
        served.append(number)
        connection.close()

    threads = [threading.Thread(target=call, args=(number,)) for number in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    pool.dispose()

    assert sorted(served) == list(range(callers))
    assert server.most <= min(size, limit)


def test_an_error_that_is_not_about_room_is_raised_immediately() -> None:
    tries: list[int] = []

    def connect() -> Any:
        tries.append(1)
        raise OSError("no route to host")

    with pytest.raises(OSError, match="no route"):
        BoundedPool(connect, pool_size=1, max_overflow=0).connect()
    assert tries == [1]


def test_a_server_that_stays_full_is_an_error_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "WAITS_FOR_SERVER", 0.05)

    with pytest.raises(OSError, match="too many clients"):
        BoundedPool(Server(0).connect, pool_size=1, max_overflow=0).connect()


@settings(max_examples=40)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=6))
def test_connections_that_were_idle_since_the_last_look_are_closed_except_one(rounds: list[int]) -> None:
    """Of each round, as many stay as were in use at a time, and one at least."""
    server = Server(9)
    pool = BoundedPool(server.connect, pool_size=5, max_overflow=0, use_lifo=True)
    for most in rounds:
        for connection in [pool.connect() for _ in range(most)]:
            connection.close()
        before = len(server.open)
        closed = pool.close_surplus()
        assert len(server.open) == before - closed >= most
    for _ in range(2):
        pool.close_surplus()
    assert len(server.open) == 1
    pool.dispose()


def test_what_a_caller_is_shown_who_waited_in_vain() -> None:
    pool = BoundedPool(Server(9).connect, pool_size=1, max_overflow=0, timeout=0.01)
    held = pool.connect()
    with pytest.raises(sqlalchemy.exc.TimeoutError) as raised:
        pool.connect()
    held.close()

    assert explain_wait(OSError("else"), 1) == ""
    assert explain_wait(raised.value, 7) == (
        "all 7 connections that this process may have were in use for 30 seconds; "
        "allow more with connections=, or do less at a time"
    )


@pytest.fixture
def database() -> Iterator[Database]:
    """One of the test's own, beside the one that all tests share."""
    made = Database(locate(postgres().url))
    yield made
    made.limit(1)


@needs_postgres
def test_a_store_waits_for_its_own_connections_and_then_says_what_helps(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interpreters.recording.store.database.WAITS", 0.05)
    database.limit(2)

    def nested(_connection: Any) -> int:
        return database.run(lambda _one: database.run(one))

    with pytest.raises(StoreError, match="all 2 connections that this process may have were in use"):
        database.run(nested)
    assert database.run(one) == 1


def one(connection: Any) -> int:
    return int(connection.exec_driver_sql("SELECT 1").scalar_one())


@needs_postgres
def test_more_threads_than_connections_all_get_their_turn(database: Database) -> None:
    """With a single connection, each kind of work is done, so none of it holds two at a time."""
    database.limit(1)
    threads = []
    for number in range(8):
        work = [lambda: database.run(sleep), lambda: database.run_bare(lambda driver: driver.execute("SELECT 1"))]
        threads.append(threading.Thread(target=work[number % 2]))
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert time.monotonic() - began < 25


def sleep(connection: Any) -> None:
    connection.exec_driver_sql("SELECT pg_sleep(0.01)")


@needs_postgres
def test_sessions_are_written_read_and_listed_over_one_connection(tmp_path: Any) -> None:
    store = SqlStore(postgres().url, connections=1)
    try:
        recorder = store.recorder(f"one{tmp_path}")
        assert recorder.lock(True)
        for number in range(10):
            recorder.append(number, b'{"n":%d}\n' % number, number % 2 == 0)
        recorder.close()
        assert len(list(recorder.lines())) == 10
        assert f"one{tmp_path}" in set(store.names())
        assert store.executors()
        assert f"one{tmp_path}" in [one.name for one in list_sessions(store)]
    finally:
        store.database.limit(12)


def test_a_store_needs_a_connection(tmp_path: Any) -> None:
    with pytest.raises(ConfigError, match="connections has to be at least 1, not 0"):
        SqlStore(f"sqlite:///{tmp_path}/s.db", connections=0)
    assert list(SqlStore(f"sqlite:///{tmp_path}/s.db", connections=1).names()) == []


@needs_postgres
def test_a_connection_that_the_server_has_ended_is_replaced_before_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "LOOKED_AT_AFTER", 0.0)
    engine = sqlalchemy.create_engine(locate(postgres().url).url, poolclass=BoundedPool, pool_size=2, max_overflow=0)
    pools.check_before_use(engine)
    own = sqlalchemy.text("SELECT pg_backend_pid()")
    with engine.connect() as first, engine.connect() as second:
        before = {first.execute(own).scalar_one(), second.execute(own).scalar_one()}
    postgres_end(before)

    with engine.connect() as first, engine.connect() as second:
        after = {first.execute(own).scalar_one(), second.execute(own).scalar_one()}
    engine.dispose()

    assert not before & after


def postgres_end(processes: set[int]) -> None:
    import psycopg

    with psycopg.connect(postgres().url, autocommit=True) as connection:
        for one in processes:
            connection.execute("SELECT pg_terminate_backend(%s, 5000)", [one])
