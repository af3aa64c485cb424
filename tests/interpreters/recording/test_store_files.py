"""SQLite's file deleted, moved or replaced under a store that is used: nothing is written to where nobody finds it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from interpreters import Agent, replay
from interpreters.recording.journal import JournalWriteError
from interpreters.recording.store import SqlStore
from interpreters.testing.fakes import FunctionModel, ScriptedModel

FILES = ("s.db", "s.db-wal", "s.db-shm")


def moved(folder: Path, to: Path) -> None:
    to.mkdir(exist_ok=True)
    for name in FILES:
        if (folder / name).exists():
            (folder / name).rename(to / name)


def deleted(folder: Path) -> None:
    moved(folder, folder.parent / "away")


def replaced(folder: Path) -> None:
    deleted(folder)
    with Agent(ScriptedModel(["Hello."]), journal=SqlStore(f"sqlite:///{folder}/other.db").recorder("b")) as agent:
        agent.run("Hi!")
    for name in FILES:
        (folder / name.replace("s.db", "other.db")).rename(folder / name)


@pytest.mark.parametrize("change", [deleted, replaced])
def test_a_session_whose_file_goes_is_told_and_goes_on_when_it_is_back(
    change: Callable[[Path], None], tmp_path: Path
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    store = SqlStore(f"sqlite:///{folder}/s.db")
    with Agent(FunctionModel(lambda _request: "Hello."), journal=store.recorder("a")) as agent:
        agent.run("Hi!")
        change(folder)
        there = {one.name: one.read_bytes() for one in folder.iterdir()}
        with pytest.raises(
            JournalWriteError, match="its file was deleted, moved or replaced while it was used; put it"
        ):
            agent.run("Hi!")
        for _ in range(2):
            with pytest.raises(JournalWriteError):
                agent.run("Hi!")
        if change is deleted:
            assert {one.name: one.read_bytes() for one in folder.iterdir()} == there
            assert list(store.names()) == []
        else:
            assert list(store.names()) == ["b"]
        for name in FILES:
            (folder / name).unlink(missing_ok=True)
        moved(tmp_path / "away", folder)
        agent.run("Hi!")
    assert replay(store.recorder("a")).raise_for_divergence().state == agent.state


def test_a_store_begins_anew_where_its_file_was_deleted(tmp_path: Path) -> None:
    store = SqlStore(f"sqlite:///{tmp_path}/s.db")
    for text in ("one", "two"):
        with Agent(ScriptedModel(["Hello."]), journal=store.recorder("a")) as agent:
            agent.run(text)
        assert agent.state.history[0].text == text
        assert replay(store.recorder("a")).turns == 1
        shutil.rmtree(tmp_path)
        tmp_path.mkdir()
        assert list(store.names()) == []
