"""The connections of a process: a limit for everything that it opens, and words if that can't be."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, strategies as st

from cognition import Completed, ConfigError, UserMessage
from interpreters import tool
from interpreters.durable._errors import DurableError
from interpreters.durable.definition import DurableAgent
from interpreters.testing.fakes import FunctionModel, call
from tests.interpreters.databases import PASSWORD, needs_postgres, postgres

pytest.importorskip("dbos", reason="needs the extra `dbos`")

import psycopg

from interpreters.durable.dbos._connections import (
    CONNECTIONS,
    LEAST,
    LISTENER,
    check_room,
    shares_of,
    system_pool,
)
from interpreters.durable.dbos.sessions import DBOSSessions
from interpreters.recording.store.database import Database
from interpreters.recording.store.locations import locate

GREETER = DurableAgent("greeter", FunctionModel(lambda _request: "Hello."))


@contextmanager
def server() -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres().url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def url() -> str:
    """A database of the test's own, so that the connections of other tests don't count."""
    name = f"counted_{uuid.uuid4().hex}"
    with server() as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return postgres().url.replace("/postgres", f"/{name}")


@given(st.integers(LEAST, 500))
def test_the_shares_are_the_whole_and_each_is_enough(connections: int) -> None:
    shares = shares_of(connections)

    assert shares.store + shares.engine + LISTENER == connections
    assert shares.store >= 1
    assert shares.engine >= 3


def test_the_default_is_at_most_twelve() -> None:
    assert LEAST <= CONNECTIONS <= 12


@pytest.mark.parametrize("connections", [4, 0, -1])
def test_too_few_connections_are_refused_with_their_use(connections: int) -> None:
    with pytest.raises(
        ConfigError, match=f"connections has to be at least 5, not {connections}: a process needs one for the store"
    ):
        DBOSSessions(GREETER, "postgresql://ada@127.0.0.1:1/agents", connections=connections)


def test_sqlite_has_no_pool_of_dbos_and_no_limit(tmp_path: Any) -> None:
    assert system_pool(f"sqlite:///{tmp_path}/sessions.db.dbos", 6) is None
    check_room(Database(locate(f"sqlite:///{tmp_path}/sessions.db")), 10**6)


@needs_postgres
def test_a_server_without_room_for_one_process_is_told_with_what_helps() -> None:
    database = Database(locate(postgres().url))
    check_room(database, 97)  # of 100, three are reserved

    with pytest.raises(DurableError) as raised:
        check_room(database, 98)
    database.limit(1)

    assert str(raised.value) == (
        f"cogstep@127.0.0.1:{postgres().port}/postgres: the server has room for 97 connections, and this "
        "process may need 98: raise its max_connections, or pass connections=97"
    )


@needs_postgres
@pytest.mark.parametrize(("limit", "less"), [(8, ", or pass connections=8"), (3, "")])
def test_a_user_with_a_limit_of_its_own_is_told_of_that(limit: int, less: str) -> None:
    """A worker is refused at its start. A sender isn't: it needs few connections."""
    with server() as connection:
        connection.execute("DROP ROLE IF EXISTS few")
        connection.execute(f"CREATE ROLE few SUPERUSER LOGIN PASSWORD '{PASSWORD}' CONNECTION LIMIT {limit}")
    with (
        DBOSSessions(GREETER, postgres().url.replace("cogstep:", "few:")) as sessions,
        pytest.raises(DurableError) as raised,
        sessions.worker(),
    ):
        pass
    sessions.store.database.limit(1)

    assert str(raised.value).endswith(
        f"the server has room for {limit} connections, and this process may need 10: raise the user's limit{less}"
    )


@needs_postgres
def test_two_numbers_for_one_database_are_refused_while_both_are_in_use() -> None:
    address = f"{postgres().url}?application_name=two"
    first = system_pool(address, 6)

    with pytest.raises(ConfigError, match="with another number of connections=; give them the same"):
        system_pool(address, 7)
    assert system_pool(address, 6) is first
    del first
    second = system_pool(address, 7)
    assert second is not None
    assert second.size == 7


@needs_postgres
@pytest.mark.slow
@pytest.mark.parametrize("connections", [LEAST, CONNECTIONS])
def test_more_sessions_than_connections_run_at_once_within_the_limit(url: str, connections: int) -> None:
    """Twenty-four sessions are in their tools at the same time, and the process never has more connections."""
    count = 24
    together = threading.Barrier(count, timeout=120)

    @tool
    def meet(turn: int) -> str:
        """Wait for all other sessions."""
        together.wait()
        return f"met in turn {turn}"

    def answer(request: Any) -> Any:
        if isinstance(request.messages[-1], UserMessage):
            return call("meet", turn=len(request.messages))
        return "Done."

    meeting = DurableAgent("meeting", FunctionModel(answer), [meet])
    with DBOSSessions(meeting, url, connections=connections) as sessions, watched(url) as seen, sessions.worker():
        runs = [sessions.send(f"s{number}", f"Turn {turn}.") for turn in range(2) for number in range(count)]
        outcomes = [getattr(sessions.result(run, timeout=120).finished, "outcome", None) for run in runs]

    assert [type(one) for one in outcomes] == [Completed] * len(runs)
    assert 0 < max(seen) <= connections


@contextmanager
def watched(url: str) -> Iterator[list[int]]:
    """Yield the numbers of connections to a database, as the server counts them again and again."""
    seen, stop = [0], threading.Event()

    def watch() -> None:
        with server() as connection:
            while not stop.wait(0.01):
                row = connection.execute(
                    "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND backend_type = 'client backend'",
                    [url.rpartition("/")[2]],
                ).fetchone()
                assert row is not None
                seen.append(row[0])

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        thread.join()
