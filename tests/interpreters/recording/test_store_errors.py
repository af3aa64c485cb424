"""What is said where a store can't be used: one line, what to do, and never a password."""

from __future__ import annotations

import importlib.util
import os
import re
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest

from cognition import ConfigError, UserMessage
from interpreters import Agent, replay
from interpreters.recording.journal import JournalError
from interpreters.recording.store import SqlStore, StoreError, schema
from interpreters.testing.fakes import ScriptedModel
from runtime.models.installation import install_line
from tests.interpreters.databases import PASSWORD, needs_postgres, postgres
from tests.interpreters.signs import PATIENCE

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("sessions.db", "this is no URL; expected one such as sqlite:///sessions.db"),
        ("mysql://ada:not-to-be-shown@host/db", "a store can't be at mysql:; expected one such as"),
        ("sqlite://", "SQLite's URL needs the path of a file"),
        ("postgresql://ada:not-to-be-shown@host:port/db", "the URL can't be read"),
        ("postgresql://ada:no@not-to-be-shown@host/db", "write those of a user or a password as %40"),
        ("postgresql://ada:no@not-to-be-shown/no@host/db", "write those of a user or a password as %40"),
        ("postgresql://ada:not-to-be-shown@host/db?prepare_threshold=0", "prepare_threshold is not for a URL to say"),
        ("sqlite:///\ud800.db", "the URL can't be read"),
    ],
)
def test_a_wrong_url_is_told_with_one_that_is_right_and_without_its_password(url: str, said: str) -> None:
    with pytest.raises(StoreError) as caught:
        SqlStore(url)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert PASSWORD not in repr(caught.value) + str(caught.value.__cause__)


def test_a_server_that_is_not_there_is_told_at_once_and_its_password_is_not() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    store = SqlStore(f"postgresql://ada:{PASSWORD}@127.0.0.1:{port}/agents")
    assert PASSWORD not in repr(store) + repr(store.recorder("ada")) + store.recorder("ada").name
    with pytest.raises(StoreError, match="start PostgreSQL there") as caught:
        list(store.names())
    with pytest.raises(JournalError) as other:
        Agent(ScriptedModel([]), journal=store.recorder("ada"))
    for error in (caught.value, other.value):
        assert "\n" not in str(error)
        assert PASSWORD not in str(error)


@needs_postgres
def test_a_wrong_password_is_told_and_not_shown() -> None:
    with pytest.raises(StoreError, match="password authentication failed") as caught:
        list(SqlStore(postgres().url_with("wrong-one")).names())
    assert "wrong-one" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_store_of_another_version_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    with Agent(ScriptedModel(["Hello."]), journal=SqlStore(f"sqlite:///{tmp_path}/s.db").recorder("ada")) as agent:
        agent.run("Hi!")
    path = tmp_path / "other.db"
    database = sqlite3.connect(path)
    with closing(sqlite3.connect(tmp_path / "s.db")) as source:
        source.backup(database)
    database.execute("UPDATE cogstep_store SET version = 2")
    database.commit()
    kept = database.execute("SELECT count(*) FROM cogstep_lines").fetchone()
    store = SqlStore(f"sqlite:///{path}")
    with pytest.raises(StoreError, match=f"schema version 2 and this cogstep knows version {schema.VERSION}"):
        list(store.names())
    with pytest.raises(JournalError, match="schema version 2"):
        Agent(ScriptedModel([]), journal=store.recorder("eve"))
    assert database.execute("SELECT count(*) FROM cogstep_lines").fetchone() == kept
    database.close()


def test_what_is_no_database_is_told(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("This is a text, and has been one for a long time." * 50)
    with pytest.raises(StoreError, match="file is not a database"):
        list(SqlStore(f"sqlite:///{tmp_path / 'text.db'}").names())
    with pytest.raises(JournalError, match=r"there is no directory .*none; create it"):
        Agent(ScriptedModel([]), journal=SqlStore(f"sqlite:///{tmp_path}/none/s.db").recorder("ada"))


@pytest.mark.parametrize("name", ["", "a\0b", "a\nb", "\ud800", "x" * 201])
def test_a_name_that_no_database_holds_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a session's name in a store"):
        SqlStore(f"sqlite:///{tmp_path}/s.db").recorder(name)


def elsewhere(code: str, path: Path) -> str:
    """What a program says that has nothing but these packages before the installed ones."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(path), str(ROOT)])},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("sqlalchemy", f"sessions in a database need SQLAlchemy; {install_line('sql')}"),
        ("psycopg", f"its driver can't be loaded (no pq wrapper available.); {install_line('sql')}"),
    ],
)
def test_what_is_not_installed_is_told_with_how_to_install_it(missing: str, said: str, tmp_path: Path) -> None:
    (tmp_path / f"{missing}.py").write_text(r'raise ImportError("no pq wrapper available.\nAttempts made: three")')
    told = elsewhere(
        "from cognition import CogstepError\n"
        "try:\n"
        "    from interpreters.recording.store import SqlStore\n"
        "    SqlStore('postgresql://ada:not-to-be-shown@db.example/agents')\n"
        "except CogstepError as error:\n"
        "    print(error)\n",
        tmp_path,
    )
    assert told.endswith(said)
    assert "\n" not in told
    assert PASSWORD not in told


def test_a_driver_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(StoreError, match=f"the driver psycopg is not installed; {re.escape(install_line('sql'))}"):
        SqlStore("postgresql://ada@nowhere.example/agents")


def test_several_hosts_and_the_directory_of_a_socket_are_shown_as_they_are_written(tmp_path: Path) -> None:
    folder = str(tmp_path)
    store = SqlStore(f"postgresql://ada@{quote(folder, safe='')}:1/db")
    assert store.name == f"ada@{folder}:1/db"
    with pytest.raises(StoreError, match=r"\.s\.PGSQL\.1"):
        list(store.names())
    assert SqlStore("postgresql://ada@/db?host=a:1&host=b:2").name == "ada@a:1,b:2/db"


@pytest.mark.parametrize("executor", ["a\0b", "\ud800", "x" * 201])
def test_a_process_has_a_name_that_each_database_holds(executor: str) -> None:
    with pytest.raises(ConfigError, match="up to 200 characters that can be printed"):
        SqlStore("sqlite:///never-made.db", executor=executor)


@needs_postgres
@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_of_any_encoding_keeps_every_text_and_tells_which_names_it_can_not_hold(encoding: str) -> None:
    name = f"in_{encoding.lower()}"
    admin = SqlStore(postgres().url)._database
    making = f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
    admin.run(lambda connection: connection.exec_driver_sql(making))
    store = SqlStore(postgres().url.removesuffix("postgres") + name, executor="\u00fc")
    with Agent(ScriptedModel(["\u674e"]), journal=store.recorder("\u00fc")) as agent:
        agent.run("\u674e")
    assert (list(store.names()), [one.name for one in store.executors()]) == (["\u00fc"], ["\u00fc"])
    assert replay(store.recorder("\u00fc")).state.history[0] == UserMessage("m1", "\u674e")
    if encoding == "LATIN1":
        with pytest.raises(JournalError, match="choose a name that the encoding of the database knows"):
            Agent(ScriptedModel([]), journal=store.recorder("\u674e"))
