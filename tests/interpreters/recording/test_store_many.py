"""Many sessions of a store looked at together: what is found is what each of them would say by itself."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from interpreters import Agent
from interpreters.recording.collections import Recording
from interpreters.recording.journal import JournalError, JournalReader
from interpreters.recording.sessions import (
    FileRecording,
    SessionInfo,
    copy_session,
    list_sessions,
    move_session,
    prune_sessions,
    search_sessions,
)
from interpreters.recording.store import SqlStore, _sql_session as many
from interpreters.testing.fakes import ScriptedModel
from tests.interpreters.databases import needs_postgres, postgres
from tests.interpreters.journals import small

LONG = "plum " * 2000


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=needs_postgres)])
def store(request: Any, tmp_path: Path) -> SqlStore:
    """In which there is nothing of other tests."""
    if request.param == "sqlite":
        return SqlStore(f"sqlite:///{tmp_path / 'store.db'}")
    name = f"many_{uuid.uuid4().hex}"
    with psycopg.connect(postgres().url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    return SqlStore(postgres().url.replace("/postgres", f"/{name}"))


@pytest.fixture
def filled(store: SqlStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Some with little in them, some with much, one damaged, one with a large text; looked at in small batches."""
    monkeypatch.setattr(many, "FIRST", 3)
    monkeypatch.setattr(many, "MOST", 8)
    monkeypatch.setattr(many, "AT_ONCE", 9000)
    names = [f"{letter} {number}" for letter in "aB\u00e9\U0001f600" for number in range(5)]
    for number, name in enumerate(names):
        texts = random.Random(number).choices(["Hello!", "How much?", LONG], k=1 + number % 4)
        if number == 7:
            texts = ["pear " * 20_000]
        path = tmp_path / "one.jsonl"
        with Agent(ScriptedModel([f"You said: {text}" for text in texts], context_tokens=10**6), journal=path) as agent:
            for text in texts:
                agent.run(text)
        move_session(FileRecording(path), store.recording(name))
    recorder = store.recorder(names[4])
    second = list(recorder.lines())[2]
    recorder.lock(False)
    recorder.append(2, second.replace(b"said", b"paid"), False)
    recorder.close()
    return sorted(names, key=lambda name: name.encode())


def test_it_is_the_same_as_one_by_one(store: SqlStore, filled: list[str]) -> None:
    with Agent.resume(store.recorder(filled[12]), ScriptedModel([])):
        assert list(store.names()) == filled
        singly = [store.recording(name) for name in filled]
        assert list(list_sessions(store)) == list(list_sessions(*singly))
        assert [info.name for info in list_sessions(store) if getattr(info, "status", "") == "open"] == [filled[12]]
        for text in ("plum", "how", "nowhere", "pear"):
            assert list(search_sessions(text, store)) == list(search_sessions(text, *singly))
        for how in ({"older": 1.0}, {"keep": 4}, {"size": 30_000}):
            given: Any = {**how, "dry_run": True, "now": 2e9}
            assert list(prune_sessions(store, **given)) == list(prune_sessions(*singly, **given))
        everything = list(list_sessions(store, newest=1000))
        assert [info.name for info in list_sessions(store, newest=5)] == [one.name for one in everything[:5]]
        changed = [info.changed for info in everything if hasattr(info, "changed")]
        assert changed == sorted(changed, reverse=True)


class Only:
    """One of the sessions of a store, as the store gave it."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def recordings(self) -> Iterator[Recording]:
        yield self._recording


def test_what_happens_meanwhile_is_seen_or_not_and_nothing_is_mixed(store: SqlStore, filled: list[str]) -> None:
    """A session is deleted, begun anew or gone on with, while those before it are read."""
    damaged, whole = "a 4", "a 0"
    for number, recording in enumerate(store.recordings()):
        if recording.name in (damaged, whole):
            continue
        reader = JournalReader(recording.where) if number % 2 else None  # which has read the header by now
        if number % 4 < 3:
            assert [one.kept for one in prune_sessions(store.recording(recording.name), keep=0)] == [""]
        if number % 4 == 1:
            copy_session(store.recording(whole), store.recording(recording.name))
        if number % 4 == 3:
            with Agent.resume(store.recorder(recording.name), ScriptedModel(["On."])) as agent:
                agent.run("Go on!")
        if reader is not None:
            with reader, suppress(JournalError):
                for record in reader:
                    assert record.input
        for info in list_sessions(Only(recording)):
            assert isinstance(info, SessionInfo)
            assert not info.damage


def test_each_is_read_once_with_the_others_and_then_by_itself(store: SqlStore, filled: list[str]) -> None:
    for recording in store.recordings():
        lines = list(store.recorder(recording.name).lines())
        assert list(recording.where.lines()) == lines
        assert recording.info() == store.recording(recording.name).info()
        if recording.name == filled[2]:
            with Agent.resume(recording.where, ScriptedModel(["On."])) as agent:
                agent.run("Go on!")
            assert recording.is_open() is False
            assert recording.info() == store.recording(recording.name).info()
            assert len(list(recording.where.lines())) > len(lines)


def test_a_list_of_thousands_asks_the_database_a_few_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, asked = SqlStore(f"sqlite:///{tmp_path}/s.db"), list[object]()
    lines = small(tmp_path / "a.jsonl").read_bytes().splitlines(keepends=True)
    for number in range(100):
        store.recording(f"{number:03}").begin(lambda: lines, 1.7e9 + number)
    run = store._database.run
    monkeypatch.setattr(store._database, "run", lambda work: (asked.append(work), run(work))[1])
    for work in (
        lambda: list(list_sessions(store)),
        lambda: list(search_sessions("hi", store)),
        lambda: list(prune_sessions(store, older=1e12)),
    ):
        assert work() is not None
        assert len(asked) < 30
        asked.clear()
