"""Lines go over connections that are kept for them: by any thread, and past whatever breaks one."""

from __future__ import annotations

import os
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from sqlalchemy import Connection

from interpreters.recording.journal import TakenOverError
from interpreters.recording.store import SqlStore, StoreError, database
from interpreters.recording.store.database import KEPT
from tests.interpreters.databases import needs_postgres, postgres

EACH = pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=needs_postgres)])
LINES = 40


def store_of(kind: str, folder: Path) -> SqlStore:
    return SqlStore(f"sqlite:///{folder / 'store.db'}" if kind == "sqlite" else postgres().url)


def line(number: int) -> bytes:
    return b'{"n":%d}\n' % number


def written(store: SqlStore, name: str) -> list[bytes]:
    recorder = store.recorder(name)
    assert recorder.lock(True)
    for number in range(LINES):
        recorder.append(number, line(number), False)
    recorder.close()
    return list(recorder.lines())


@EACH
def test_many_threads_write_at_once_and_few_connections_are_kept(kind: str, tmp_path: Path) -> None:
    store = store_of(kind, tmp_path)
    names = [f"{tmp_path}/{number}" for number in range(12)]
    with ThreadPoolExecutor(12) as threads:
        found = list(threads.map(lambda name: written(store, name), names))

    assert found == [[line(number) for number in range(LINES)]] * 12
    assert 0 < len(store._database._kept) <= KEPT


def test_a_file_that_comes_while_a_thread_looks_for_it_is_not_taken_for_one_that_has_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the connections of the other threads are given up, and nobody closes them."""
    store = store_of("sqlite", tmp_path)
    looked, wrote = Event(), Event()

    class LateOs:
        """The module as the store sees it, of which the first look at no file takes long."""

        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

        def stat(self, path: str) -> os.stat_result:
            try:
                return os.stat(path)
            except FileNotFoundError:
                if not looked.is_set():
                    looked.set()
                    wrote.wait(0.2)  # unless that waits for this
                raise

    def write() -> None:
        written(store, "ada")
        wrote.set()

    monkeypatch.setattr(database, "os", LateOs())
    looker = Thread(target=store._database._see_file)
    looker.start()
    assert looked.wait(20)
    write()
    looker.join()

    assert store._database._files == set()
    assert store._database._file is not None


@EACH
def test_a_kept_connection_that_broke_loses_no_line_and_doubles_none(kind: str, tmp_path: Path) -> None:
    store = store_of(kind, tmp_path)
    recorder = store.recorder(f"{tmp_path}/s")
    assert recorder.lock(True)
    for number in range(6):
        if number == 4:
            for connection in store._database._kept:
                bare: Any = connection.driver_connection
                bare.close()
            if kind == "sqlite":  # of itself no connection to a file breaks
                store._database._kept.clear()
        recorder.append(number, line(number), False)

    assert list(recorder.lines()) == [line(number) for number in range(6)]
    recorder.close()


@EACH
def test_who_was_taken_over_is_told_so_over_a_kept_connection(kind: str, tmp_path: Path) -> None:
    store = store_of(kind, tmp_path)
    one, other = store.recorder(f"{tmp_path}/s"), store.recorder(f"{tmp_path}/s", take_over=True)
    assert one.lock(True)
    for number in range(3):
        one.append(number, line(number), False)
    assert other.lock(False)

    with pytest.raises(TakenOverError):
        one.append(3, line(3), False)
    assert list(one.lines()) == [line(number) for number in range(3)]
    other.close()


@needs_postgres
@pytest.mark.parametrize("ready", [False, True])
def test_work_is_done_again_when_the_server_says_that_it_ends_the_connection(ready: bool) -> None:
    """Which comes before the connection is known to have ended, and may come with the first one of a process."""
    database = SqlStore(f"{postgres().url}?application_name=ended-{ready}")._database
    if ready:
        database.write(lambda connection: None)
    tries = 0

    def work(connection: Connection) -> Any:
        nonlocal tries
        tries += 1
        ended = "SELECT pg_terminate_backend(pg_backend_pid())" if tries < 3 else "SELECT 1"
        return connection.exec_driver_sql(ended).scalar()

    assert (database.run(work), tries) == (1, 3)


@needs_postgres
def test_each_statement_sees_what_was_kept_before_whatever_the_database_does_by_default() -> None:
    """Else a writer that was taken over meets an error of the database, and no `TakenOverError`."""
    url = f"{postgres().url}?options=-cdefault_transaction_isolation%3Dserializable"
    found = SqlStore(url)._database.run(
        lambda connection: connection.exec_driver_sql("SHOW transaction_isolation").scalar()
    )
    assert found == "read committed"


def test_on_sqlite_a_line_is_forced_by_the_connection_of_others_which_forces_no_more(tmp_path: Path) -> None:
    """A connection that finds pages written by another one reads anew all that it knows."""
    store = store_of("sqlite", tmp_path)
    recorder = store.recorder("s")
    assert recorder.lock(True)
    recorder.append(0, line(0), True)
    recorder.append(1, line(1), False)
    (kept,) = store._database._kept
    connection: Any = kept.driver_connection
    said: list[str] = []
    connection.set_trace_callback(said.append)
    for number in range(2, 5):
        recorder.append(number, line(number), number == 3)
    connection.set_trace_callback(None)

    assert [one.split()[0] for one in said] == ["INSERT", "PRAGMA", "INSERT", "PRAGMA", "INSERT"]
    assert [one for one in said if "PRAGMA" in one] == ["PRAGMA synchronous=FULL", "PRAGMA synchronous=NORMAL"]
    assert connection.execute("PRAGMA synchronous").fetchone() == (1,)
    assert list(store._database._kept) == [kept]
    recorder.close()


@needs_postgres
def test_on_postgresql_a_forced_line_is_on_its_server_s_disk(tmp_path: Path) -> None:
    """By one statement; and the connection forces nothing of the lines behind it."""
    store = store_of("postgresql", tmp_path)
    recorder = store.recorder(f"{tmp_path}/forced")
    assert recorder.lock(True)
    recorder.append(0, line(0), True)
    recorder.append(1, line(1), False)
    (kept,) = store._database._kept
    connection: Any = kept.driver_connection
    for number in range(2, 10):
        (before,) = connection.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
        recorder.append(number, line(number), True)
        assert connection.execute("SELECT pg_current_wal_flush_lsn() > %s::pg_lsn", (before,)).fetchone() == (True,)
        assert connection.execute("SHOW synchronous_commit").fetchone() == ("off",)
    recorder.close()
    assert list(recorder.lines()) == [line(number) for number in range(10)]


def test_to_wait_for_a_database_takes_no_random_number_of_the_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of("sqlite", tmp_path)
    written(store, "ada")
    monkeypatch.setattr(database, "_is_away", lambda _error: True)
    monkeypatch.setattr(database, "PATIENCE", 0.05)
    before = random.getstate()

    with pytest.raises(StoreError):
        store.database.run(lambda connection: connection.exec_driver_sql("SELECT * FROM nothing"))

    assert random.getstate() == before
