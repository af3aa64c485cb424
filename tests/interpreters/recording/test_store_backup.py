"""A backup has everything at one moment; a copy that lacks the newest file is named as such."""

from __future__ import annotations

import json
import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cognition import CogstepError
from interpreters import Agent, SqlStore, replay
from interpreters.cli import main as command
from interpreters.recording.store import StoreError, database as store_database
from interpreters.testing.fakes import FunctionModel
from tests.interpreters.databases import needs_postgres, postgres


def store_at(path: Path) -> SqlStore:
    return SqlStore(f"sqlite:///{path}")


def recorded(store: SqlStore, session: str, turns: int = 1) -> list[bytes]:
    with Agent(FunctionModel(lambda _: "Hello."), journal=store.recorder(session)) as agent:
        for _ in range(turns):
            agent.run("Hi!")
    return list(store.recorder(session).lines())


def test_a_backup_of_a_store_in_use_has_every_line_and_replays(tmp_path: Path) -> None:
    store = store_at(tmp_path / "s.db")
    with Agent(FunctionModel(lambda _: "Hello."), journal=store.recorder("ada")) as agent:
        agent.run("Hi!")
        assert (tmp_path / "s.db-wal").stat().st_size > 0  # where its lines are
        (copy,) = store.back_up(tmp_path / "copy.db")
        agent.run("Hi!")

    assert copy == tmp_path / "copy.db"
    assert copy.stat().st_mode & 0o777 == 0o600
    report = replay(store_at(copy).recorder("ada")).raise_for_divergence()
    assert report.turns == 1


def test_it_is_of_one_moment_also_where_two_databases_are_written_to(tmp_path: Path) -> None:
    """What stands in the second one was written behind what stands in the first: never is there more in it."""
    path, stop = tmp_path / "s.db", threading.Event()
    recorded(store_at(path), "ada")
    with closing(sqlite3.connect(path)) as first, closing(sqlite3.connect(f"{path}.dbos")) as second:
        for one in (first, second):
            one.execute("PRAGMA journal_mode=WAL")
            one.execute("CREATE TABLE counted (number)")
            one.execute("INSERT INTO counted VALUES (0)")
            one.commit()
    begun = threading.Event()

    def write() -> None:
        with (
            closing(sqlite3.connect(path, timeout=30)) as first,
            closing(sqlite3.connect(f"{path}.dbos", timeout=30)) as second,
        ):
            while not stop.is_set():
                for one in (first, second):
                    one.execute("UPDATE counted SET number = number + 1")
                    one.commit()
                begun.set()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        assert begun.wait(20)
        copies = [store_at(path).back_up(tmp_path / f"{number}.db") for number in range(5)]
    finally:
        stop.set()
        thread.join()

    for copy in copies:
        counts = []
        for one in copy:
            with closing(sqlite3.connect(one)) as file:
                counts.append(file.execute("SELECT number FROM counted").fetchone()[0])
        assert counts[0] - counts[1] in (0, 1)


def test_undo_data_is_copied_and_nothing_is_overwritten_or_left_behind(tmp_path: Path) -> None:
    store = store_at(tmp_path / "s.db")
    recorded(store, "ada")
    (tmp_path / "s.db.undo").mkdir()
    (tmp_path / "s.db.undo" / "old").write_text("before")
    copies = store.back_up(tmp_path / "copy.db")

    assert [one.name for one in copies] == ["copy.db", "copy.db.undo"]
    assert (tmp_path / "copy.db.undo" / "old").read_text() == "before"
    before = sorted(tmp_path.iterdir())
    with pytest.raises(StoreError, match=r"copy\.db exists, and nothing is overwritten"):
        store.back_up(tmp_path / "copy.db")
    with pytest.raises(StoreError, match="see that its directory exists"):
        store.back_up(tmp_path / "nowhere" / "copy.db")
    with pytest.raises(StoreError, match="there is no such file"):
        store_at(tmp_path / "missing.db").back_up(tmp_path / "other.db")
    assert sorted(tmp_path.iterdir()) == before


@needs_postgres
def test_a_server_is_left_to_its_own_program(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="pg_dump"):
        SqlStore(postgres().url).back_up(tmp_path / "copy.db")


def test_the_command_prints_what_it_has_copied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded(store_at(tmp_path / "s.db"), "ada")
    arguments = ["sessions", "backup", "--store", f"sqlite:///{tmp_path}/s.db", "--to", str(tmp_path / "copy.db")]

    assert command.main([*arguments, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {"path": str(tmp_path / "copy.db"), "bytes": (tmp_path / "copy.db").stat().st_size}
    assert command.main(arguments) == 2
    assert "nothing is overwritten" in capsys.readouterr().err


def test_a_copy_without_the_log_is_no_new_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_database, "BEING_CREATED", 0.0)
    store = store_at(tmp_path / "s.db")
    with Agent(FunctionModel(lambda _: "Hello."), journal=store.recorder("ada")) as agent:
        agent.run("Hi!")
        shutil.copy(tmp_path / "s.db", tmp_path / "copy.db")

    copy = store_at(tmp_path / "copy.db")
    for use in (lambda: list(copy.names()), lambda: recorded(copy, "bob"), lambda: list(copy.names())):
        with pytest.raises(CogstepError, match=r"copy\.db-wal.*is not beside it: copy both.*sessions backup"):
            use()


def test_a_whole_copy_and_an_empty_file_are_stores(tmp_path: Path) -> None:
    lines = recorded(store_at(tmp_path / "s.db"), "ada")
    store_database._close(store_at(tmp_path / "s.db").database._engine, store_at(tmp_path / "s.db").database._kept)
    with closing(sqlite3.connect(tmp_path / "s.db")) as last:  # whose orderly end leaves everything in the file
        last.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(tmp_path / "s.db", tmp_path / "copy.db")
    (tmp_path / "empty.db").touch()

    assert list(store_at(tmp_path / "copy.db").recorder("ada").lines()) == lines
    assert recorded(store_at(tmp_path / "empty.db"), "ada") != []


def test_a_server_that_starts_up_is_waited_for_at_the_first_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    from psycopg import OperationalError as DriverError
    from sqlalchemy.exc import OperationalError

    tries: list[int] = []
    database = SqlStore("postgresql://nobody@127.0.0.1:1/starting").database

    class Connection:
        def __enter__(self) -> Any:
            tries.append(1)
            if len(tries) < 4:
                said = "connection failed: FATAL:  the database system is starting up"
                raise OperationalError("", {}, DriverError(said))
            return self

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(database._engine, "connect", Connection)

    assert (database.run(lambda _: "there"), len(tries)) == ("there", 4)
