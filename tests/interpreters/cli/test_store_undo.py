"""Undo of files for sessions of a store: beside SQLite's file, and refused where there is no place for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interpreters import Agent, undo
from interpreters.recording.journal import JournalError
from interpreters.recording.sessions import FileRecording, copy_session, list_sessions, move_session, prune_sessions
from interpreters.recording.store import SqlStore
from interpreters.recording.undo.restore import UndoError
from interpreters.testing.fakes import ScriptedModel, call
from interpreters.toolbox import file_tools
from tests.interpreters.cli.processes import Cogstep
from tests.interpreters.databases import needs_postgres, postgres

NAME = "Ada/über #1 " + "x" * 180
"""Which is no name of a file."""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "price").write_text("2\n")
    return folder


def changes(store: SqlStore, name: str, shop: Path, content: str = "3\n") -> None:
    read = call("Read", path="price")
    model = ScriptedModel([read, call("Write", path="price", content=content), "It is dearer."])
    given: Any = {"journal": store.recorder(name), "approve": lambda request: True}
    with Agent(model, file_tools(shop), **given) as agent:
        assert agent.run("Dearer!").ok


def test_sqlite_keeps_it_beside_its_file_until_the_session_is_deleted(shop: Path, tmp_path: Path) -> None:
    store = SqlStore(f"sqlite:///{tmp_path}/s.db")
    for name, content in (("b", "9\n"), (NAME, "3\n")):
        changes(store, name, shop, content)
    (first, second) = (tmp_path / "s.db.undo").iterdir()
    assert [one.stat().st_mode & 0o777 for one in (tmp_path / "s.db.undo", first, second)] == [0o700] * 3

    assert [one.how for one in undo(store.recorder(NAME)).files] == ["changed"]
    assert (shop / "price").read_text() == "9\n"
    undo(store.recorder(NAME), redo=True)
    assert (shop / "price").read_text() == "3\n"
    with Agent.fork(store.recorder(NAME), ScriptedModel([]), file_tools(shop), turn=0, files=True):
        assert (shop / "price").read_text() == "9\n"

    size = {info.name: info.bytes for info in list_sessions(store)}
    assert size[NAME] > sum(map(len, store.recorder(NAME).lines()))
    with pytest.raises(JournalError, match="can't be moved: what `cogstep undo` puts back would be lost"):
        move_session(store.recording(NAME), FileRecording(tmp_path / "a.jsonl"))
    copy_session(store.recording(NAME), FileRecording(tmp_path / "a.jsonl"))
    with pytest.raises(UndoError, match="no old content of files was kept beside this recording"):
        undo(tmp_path / "a.jsonl")
    assert [one.kept for one in prune_sessions(store.recording(NAME), keep=0)] == [""]
    assert len(list((tmp_path / "s.db.undo").iterdir())) == 1
    undo(store.recorder("b"))
    assert (shop / "price").read_text() == "2\n"


def test_the_command_does_it(here: Cogstep, shop: Path, tmp_path: Path) -> None:
    changes(SqlStore(f"sqlite:///{tmp_path}/s.db"), "a", shop)
    done = here("undo", "a", "--store", "sqlite:///s.db")
    assert (done.returncode, done.stdout) == (0, "M shop/price\n")
    assert (shop / "price").read_text() == "2\n"


def test_no_tool_changes_what_is_kept(shop: Path, tmp_path: Path) -> None:
    store = SqlStore(f"sqlite:///{shop}/s.db")
    changes(store, "a", shop)
    (kept,) = (shop / "s.db.undo").iterdir()
    model = ScriptedModel([call("Write", path=f"s.db.undo/{kept.name}/mine", content=""), "Done."])
    given: Any = {"approve": lambda request: True}
    with Agent.resume(store.recorder("a"), model, file_tools(shop), **given) as agent:
        (result,) = agent.run("Forget it!").calls
    assert "no tool changes the recording of its own session" in result.content


@needs_postgres
def test_a_server_has_no_place_for_it_and_that_is_told(here: Cogstep, shop: Path, tmp_path: Path) -> None:
    store, name = SqlStore(postgres().url), str(tmp_path)
    changes(store, name, shop)
    with pytest.raises(UndoError, match="no place for what files held, as a PostgreSQL server has none"):
        undo(store.recorder(name))
    done = here("undo", name, "--store", postgres().url)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "record to a file or to SQLite" in done.stderr
    prune_sessions(store.recording(name), keep=0)
