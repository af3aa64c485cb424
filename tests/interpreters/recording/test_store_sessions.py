"""The sessions of a store as a collection: listed, searched and pruned by what does it with a directory."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text

from interpreters import Agent, replay
from interpreters.recording.journal import JournalError, JournalReader, JournalWriteError, TakenOverError
from interpreters.recording.sessions import (
    BadFile,
    Hit,
    SessionInfo,
    _retention as pruning,
    list_sessions,
    prune_sessions,
    search_sessions,
)
from interpreters.recording.store import SqlStore
from interpreters.testing.fakes import ScriptedModel
from tests.interpreters.databases import needs_postgres, postgres


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=needs_postgres)])
def store(request: Any, tmp_path: Path) -> Iterator[SqlStore]:
    """One that holds nothing when the test begins."""
    if request.param == "sqlite":
        yield SqlStore(f"sqlite:///{tmp_path / 'store.db'}")
        return
    yield emptied()


def emptied() -> SqlStore:
    """One on PostgreSQL that holds nothing."""
    schema = f"s{uuid.uuid4().hex}"
    admin = SqlStore(postgres().url)._database
    admin.run(lambda connection: connection.execute(text(f"CREATE SCHEMA {schema}")))
    return SqlStore(f"{postgres().url}?options=-csearch_path%3D{schema}")


def recorded(store: SqlStore, name: str, answer: str = "Hello.", *, age: float = 0.0) -> None:
    with Agent(ScriptedModel([answer]), journal=store.recorder(name)) as agent:
        agent.run("Plum?")
    if age:
        aged(store, name, age)


def aged(store: SqlStore, name: str, age: float) -> None:
    changed(store, "UPDATE cogstep_lines SET written = :at WHERE session = :name", at=NOW - age, name=name)


def changed(store: SqlStore, statement: str, **values: Any) -> None:
    store._database.write(lambda connection: connection.execute(text(statement), values))


NOW = 1_800_000_000.0
DAY = 86_400.0


def test_sessions_of_a_store_are_listed_and_found_like_files(store: SqlStore) -> None:
    assert list(list_sessions(store)) == list(search_sessions("plum", store)) == []
    for name in ("b", "a/b c", "ü"):
        recorded(store, name, "A ripe one.")
    lines = list(store.recorder("b").lines())

    infos = [one for one in list_sessions(store) if isinstance(one, SessionInfo)]
    assert [one.name for one in infos] == ["a/b c", "b", "ü"]
    info = infos[1]
    assert (info.status, info.turns, info.records, info.title) == ("idle", 1, 2, "Plum?")
    assert (info.bytes, info.damage, info.foreign) == (sum(map(len, lines)), "", "")
    assert str(info.path) == f"b in {store.name}"
    assert abs(info.changed - info.created) < 60
    hits = [
        (one.name, one.record, one.speaker, one.found) for one in search_sessions("RIPE", store) if isinstance(one, Hit)
    ]
    assert hits == [(name, 2, "model_replied", "ripe") for name in ("a/b c", "b", "ü")]
    assert [one.name for one in search_sessions("ripe", store.recording("b"))] == ["b"]
    with pytest.raises(JournalError, match="nothing is recorded here"):
        list(list_sessions(store.recording("none")))


def test_a_list_tells_what_is_open_and_what_is_damaged(store: SqlStore) -> None:
    for name in ("a", "b", "c"):
        recorded(store, name)
    for name, number in (("b", 2), ("c", 0)):
        where = "session = :name AND number = :number"
        changed(store, f"UPDATE cogstep_lines SET line = :line WHERE {where}", line=b"{}\n", name=name, number=number)

    with Agent.resume(store.recorder("a"), ScriptedModel([])):
        first, second, third = list_sessions(store)
    assert isinstance(first, SessionInfo)
    assert isinstance(second, SessionInfo)
    assert isinstance(third, BadFile)
    assert (first.status, second.status, third.name) == ("open", "interrupted", "c")
    assert second.damage.startswith("line 3: ")
    assert "this is no cogstep journal" in third.reason
    assert [one.status for one in list_sessions(store.recording("a")) if isinstance(one, SessionInfo)] == ["idle"]


@pytest.mark.parametrize(
    ("criteria", "gone"),
    [({"older": 2 * DAY}, ["3", "4"]), ({"keep": 3}, ["4"]), ({"size": 0}, ["1", "2", "3", "4"])],
)
def test_what_is_too_old_too_many_or_too_much_goes(store: SqlStore, criteria: dict[str, Any], gone: list[str]) -> None:
    names = [str(day) for day in range(1, 5)]
    for name in names:
        recorded(store, name, age=int(name) * DAY - 1)

    assert gone == [one.name for one in prune_sessions(store, now=NOW, dry_run=True, **criteria) if not one.kept]
    assert list(store.names()) == names
    assert gone == [one.name for one in prune_sessions(store, now=NOW, **criteria) if not one.kept]
    assert list(store.names()) == [name for name in names if name not in gone]
    assert all(replay(store.recorder(name)).same for name in store.names())


def test_a_session_that_is_open_or_was_written_just_now_stays(store: SqlStore, monkeypatch: Any) -> None:
    monkeypatch.setattr(pruning, "AT_ONCE", 1)
    recorded(store, "a", age=3 * DAY)
    recorded(store, "b", age=2 * DAY)
    with Agent.resume(store.recorder("b"), ScriptedModel([])):
        kept = [(one.name, one.kept) for one in prune_sessions(store.recording("b"), now=NOW, keep=0)]
        assert kept == [("b", "a session has it open")]
    found = prune_sessions(store, now=NOW, keep=0)
    assert (next(found).name, list(store.names())) == ("b", ["a"])
    aged(store, "a", 0)
    assert [one.kept for one in found] == ["it was written just now"]


def test_who_had_a_session_that_was_deleted_writes_no_line_of_the_next_one(store: SqlStore) -> None:
    """As one who was asleep: its token is good for nothing any more, though the name is."""
    recorded(store, "a")
    asleep = store.recorder("a")
    assert asleep.lock(False)
    changed(store, "UPDATE cogstep_sessions SET holder = NULL")
    assert [one.kept for one in prune_sessions(store, keep=0)] == [""]

    with pytest.raises(TakenOverError):
        asleep.append(3, b"late\n", False)
    assert list(asleep.lines()) == []
    asleep.close()
    recorded(store, "a", "New.")
    with pytest.raises(JournalWriteError):
        asleep.append(3, b"late\n", False)
    with JournalReader(store.recorder("a")) as reader:
        assert len(list(reader)) == 2


def test_a_line_that_was_put_there_as_text_is_told_by_a_search(tmp_path: Path) -> None:
    """As SQLite's own program puts it."""
    store = SqlStore(f"sqlite:///{tmp_path / 'store.db'}")
    for name in ("a", "b"):
        recorded(store, name)
    changed(store, "UPDATE cogstep_lines SET line = CAST(line AS TEXT) WHERE session = 'a' AND number = 1")

    first, second = search_sessions("plum", store)
    assert isinstance(first, BadFile)
    assert "its lines have to be bytes" in first.reason
    assert (isinstance(second, Hit), second.name) == (True, "b")


def test_what_is_no_recording_is_not_deleted(store: SqlStore) -> None:
    other = store.recorder("other")
    assert other.lock(True)
    other.append(0, b"{}\n", True)
    other.close()

    (told,) = prune_sessions(store, keep=0)
    assert "no cogstep journal" in told.kept
    assert list(store.names()) == ["other"]


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("DELETE FROM cogstep_lines WHERE session = 'b' AND number = 0", "no cogstep journal"),
        ("UPDATE cogstep_lines SET written = :at WHERE session = 'b'", "the time at which a line was written is none"),
    ],
)
def test_what_somebody_has_damaged_is_told_by_its_name_and_hides_nothing(
    store: SqlStore, statement: str, said: str
) -> None:
    """A header that is gone hid a session; a time that is none ended the whole list."""
    headless = statement.startswith("DELETE")
    for name in ("a", "b", "c"):
        recorded(store, name)
    sqlite = store._database.location.kind == "sqlite"
    changed(store, statement, **({"at": "yesterday" if sqlite else float("inf")} if ":at" in statement else {}))

    assert list(store.names()) == ["a", "b", "c"]
    bad = [one for one in list_sessions(store) if isinstance(one, BadFile)]
    assert [(one.name, said in one.reason) for one in bad] == [("b", True)]
    assert len(list(list_sessions(store, newest=3))) == 3
    first = next(one for one in list_sessions(store.recording("b")))
    assert isinstance(first, BadFile)
    assert [one.name for one in search_sessions("plum", store)][:1] == ["a"]
    told = {one.name: one.kept for one in prune_sessions(store, keep=0)}
    assert {name: said in kept for name, kept in told.items()} == {"a": False, "b": not headless, "c": False}
    assert list(store.names()) == ([] if headless else ["b"])


def test_a_session_without_its_first_line_goes_by_the_same_rules_and_begins_anew(store: SqlStore) -> None:
    """Nobody could read it, nor begin it, and only SQL could delete it."""
    for name, at in (("a", 3 * DAY), ("b", 2 * DAY), ("c", DAY)):
        recorded(store, name, age=at)
    changed(store, "DELETE FROM cogstep_lines WHERE session IN ('a', 'b') AND number = 0")

    assert [one.name for one in prune_sessions(store, keep=2, dry_run=True)] == ["a"]
    assert [(one.name, one.kept) for one in prune_sessions(store, keep=2)] == [("a", "")]
    assert list(store.names()) == ["b", "c"]
    recorded(store, "a")
    with Agent.resume(store.recorder("c"), ScriptedModel([])):
        changed(store, "DELETE FROM cogstep_lines WHERE session = 'c' AND number = 0")
        assert {one.name: one.kept for one in prune_sessions(store, keep=0)} == {
            "a": "",
            "b": "",
            "c": "a session has it open",
        }


def test_the_age_of_a_session_is_told_by_the_clock_of_its_database(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not by the one of a machine that is a month ahead, which would delete all that was written today."""
    recorded(store, "a")
    recorded(store, "b", age=NOW)  # from 1970
    monkeypatch.setattr(time, "time", lambda: NOW * 2)
    assert [(one.name, one.kept) for one in prune_sessions(store, older=DAY)] == [("b", "")]


def test_a_line_that_was_emptied_is_not_taken_for_the_end(store: SqlStore) -> None:
    """Else who resumes the session deletes what stands behind it."""
    recorded(store, "a")
    changed(store, "UPDATE cogstep_lines SET line = :line WHERE number = 1", line=b"")
    with pytest.raises(JournalError, match="one of its lines is empty"):
        replay(store.recorder("a"))
    with pytest.raises(JournalError, match="one of its lines is empty"):
        Agent.resume(store.recorder("a"), ScriptedModel([]))
    assert len(list(store.recorder("a").lines())) == 3


@needs_postgres
def test_many_sessions_are_deleted_in_few_transactions_and_each_by_its_own_rules(monkeypatch: Any) -> None:
    """One for each took seven round trips."""
    store = emptied()
    names = [f"s{number:02}" for number in range(24)]
    for number, name in enumerate(names):
        recorded(store, name, age=(number + 1) * DAY)
    monkeypatch.setattr(pruning, "AT_ONCE", 8)
    asked: list[str] = []
    event.listen(
        store._database._engine, "before_cursor_execute", lambda _connection, _cursor, told, *_: asked.append(told)
    )

    with Agent.resume(store.recorder("s20"), ScriptedModel([])):
        pruned = prune_sessions(store, now=NOW, keep=4)
        first = next(pruned)  # of the first eight, which are gone
        changed(store, "UPDATE cogstep_lines SET written = written + 1 WHERE session = 's17'")
        told = {one.name: one.kept for one in (first, *pruned)}

    assert {name: why for name, why in told.items() if why} == {
        "s17": "it was written just now",
        "s20": "a session has it open",
    }
    assert sorted(told) == names[4:]
    assert list(store.names()) == [*names[:4], "s17", "s20"]
    assert sum(one.startswith("DELETE FROM cogstep_lines") for one in asked) == 3
