"""Recordings copied and moved between files and stores: to the byte, all or nothing, and over nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from cognition import UserMessage
from interpreters import Agent, replay
from interpreters.recording.journal import (
    JournalError,
    JournalExistsError,
    JournalLockedError,
    JournalWriteError,
)
from interpreters.recording.journal.content_files import undo_files
from interpreters.recording.journal.payloads import LARGE, directory_of
from interpreters.recording.sessions import FileRecording, copy_session, journals_in, list_sessions, move_session
from interpreters.recording.store import SqlStore
from interpreters.testing.fakes import ScriptedModel
from tests.interpreters.databases import needs_postgres, postgres
from tests.interpreters.journals import record_session, small


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=needs_postgres)])
def store(request: Any, tmp_path: Path) -> SqlStore:
    return SqlStore(f"sqlite:///{tmp_path / 'store.db'}" if request.param == "sqlite" else postgres().url)


@pytest.fixture
def name(tmp_path: Path) -> str:
    return str(tmp_path)


def test_a_session_goes_there_and_back_to_the_byte_and_goes_on(store: SqlStore, name: str, tmp_path: Path) -> None:
    path, back = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    record_session(path, turns=3)
    os.utime(path, (1_700_000_000.5, 1_700_000_000.5))
    content = path.read_bytes()

    moved = move_session(FileRecording(path), store.recording(name))
    assert (moved.records, moved.bytes, moved.warnings) == (12, len(content), ())
    assert not path.exists()
    assert b"".join(store.recorder(name).lines()) == content
    (info,) = list_sessions(store.recording(name))
    assert getattr(info, "changed", 0) == 1_700_000_000.5

    assert copy_session(store.recording(name), FileRecording(back)) == moved
    assert (back.read_bytes(), back.stat().st_mtime) == (content, 1_700_000_000.5)
    assert back.stat().st_mode & 0o777 == 0o600
    assert sorted(one.name for one in tmp_path.iterdir() if "store.db" not in one.name) == ["b.jsonl"]
    for where in (store.recorder(name), back):
        with Agent.resume(where, ScriptedModel(["On."]), tools_of()) as agent:
            agent.run("Go on!")
        assert replay(where).raise_for_divergence().turns == 4


def tools_of() -> list[Any]:
    from tests.interpreters.simple_tools import multiply

    return [multiply]


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.text(max_size=80), min_size=1, max_size=4))
def test_whatever_was_said_is_the_same_there_and_back(texts: list[str], tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.mktemp("moved")
    path, store = folder / "a.jsonl", SqlStore(f"sqlite:///{folder / 'store.db'}")
    with Agent(ScriptedModel([f"It is {text}" for text in texts]), journal=path, redact=None, fsync="never") as agent:
        for text in texts:
            agent.run(f"What is {text}?")
    content = path.read_bytes()

    move_session(FileRecording(path), store.recording("a"))
    move_session(store.recording("a"), FileRecording(path))
    assert path.read_bytes() == content
    assert list(store.names()) == []


def test_nothing_is_ever_overwritten(store: SqlStore, name: str, tmp_path: Path) -> None:
    first, second = small(tmp_path / "a.jsonl"), small(tmp_path / "b.jsonl", "Else?")
    copy_session(FileRecording(first), store.recording(name))
    contents = first.read_bytes(), second.read_bytes()

    for carry in (copy_session, move_session):
        with pytest.raises(JournalExistsError, match="never overwritten"):
            carry(FileRecording(second), store.recording(name))
        with pytest.raises(JournalExistsError, match="never overwritten"):
            carry(store.recording(name), FileRecording(second))
    assert (first.read_bytes(), second.read_bytes()) == contents
    assert b"".join(store.recorder(name).lines()) == contents[0]
    assert not list(tmp_path.glob("*.part"))


def test_what_a_session_has_open_is_copied_as_it_stands_and_not_moved(
    store: SqlStore, name: str, tmp_path: Path
) -> None:
    path, other = small(tmp_path / "a.jsonl"), f"{name} 2"
    copy_session(FileRecording(path), store.recording(name))
    for source, target in (
        (FileRecording(path), store.recording(other)),
        (store.recording(name), FileRecording(tmp_path / "b.jsonl")),
    ):
        with Agent.resume(source.where, ScriptedModel([])):
            with pytest.raises(JournalLockedError, match="was not moved, because a session has it open"):
                move_session(source, target)
            assert target.info() is None
            copy_session(source, target)
        assert replay(target.where).same
    with Agent.resume(store.recorder(other), ScriptedModel([])), pytest.raises(JournalError):
        copy_session(FileRecording(path), store.recording(other))


def test_what_is_written_while_it_moves_stays_where_it_was(store: SqlStore, name: str, tmp_path: Path) -> None:
    path = small(tmp_path / "a.jsonl")

    class Slow:
        """The file, in which somebody goes on once it is copied."""

        def __init__(self) -> None:
            self.deletions = 0

        def __getattr__(self, what: str) -> Any:
            return getattr(FileRecording(path), what)

        def delete(self, about: Any, *, dry_run: bool = False) -> str:
            if not dry_run:
                with Agent.resume(path, ScriptedModel(["On."])) as agent:
                    agent.run("Go on!")
            return FileRecording(path).delete(about, dry_run=dry_run)

    with pytest.raises(JournalLockedError, match="it was written just now"):
        move_session(Slow(), store.recording(name))
    assert replay(path).turns == 2
    assert store.recording(name).info() is None


def test_a_place_that_fails_in_the_midst_is_as_it_was(
    store: SqlStore, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of a recording is there, or nothing of it."""
    path = small(tmp_path / "a.jsonl")
    content = path.read_bytes()

    class StoppedError(Exception):
        pass

    def half() -> Iterable[bytes]:
        yield content.splitlines(keepends=True)[0]
        raise StoppedError

    for target in (store.recording(name), FileRecording(tmp_path / "b.jsonl")):
        with pytest.raises(StoppedError):
            target.begin(half, 0.0)
        assert target.info() is None
        assert copy_session(FileRecording(path), target).bytes == len(content)
    assert sorted(one.name for one in tmp_path.glob("*.jsonl*")) == ["a.jsonl", "b.jsonl"]
    with pytest.raises(JournalWriteError, match="can't be made"):
        copy_session(FileRecording(path), FileRecording(tmp_path / "no" / "b.jsonl"))


def test_what_is_torn_is_left_behind_and_what_is_damaged_stays(store: SqlStore, name: str, tmp_path: Path) -> None:
    path = small(tmp_path / "a.jsonl")
    content = path.read_bytes()
    path.write_bytes(content + b'{"seq":3,"inp')
    assert "the last record is torn" in copy_session(FileRecording(path), store.recording(name)).warnings[0]
    assert b"".join(store.recorder(name).lines()) == content

    path.write_bytes(content.replace(b"Hello!", b"Hullo!"))
    with pytest.raises(JournalError, match="was changed after it was written"):
        move_session(FileRecording(path), store.recording(f"{name} 2"))
    assert path.exists()
    with pytest.raises(JournalError, match="nothing is recorded here"):
        copy_session(store.recording(f"{name} 2"), FileRecording(path))


def test_large_texts_go_along(store: SqlStore, name: str, tmp_path: Path) -> None:
    """And where one is missing or was changed, nothing is carried, and nothing lost."""
    path, back, large = tmp_path / "a.jsonl", tmp_path / "b.jsonl", "plum " * LARGE
    small(path, large, large + "!", context_tokens=10**6)
    content, names = path.read_bytes(), sorted(one.name for one in directory_of(path).iterdir())
    assert len(names) == 2

    move_session(FileRecording(path), store.recording(name))
    assert list(tmp_path.glob("a.jsonl*")) == []
    assert b"".join(store.recorder(name).lines()) == content
    assert replay(store.recorder(name)).raise_for_divergence().state.history[0] == UserMessage("m1", large)
    move_session(store.recording(name), FileRecording(back))
    assert store.recording(name).info() is None
    assert list(store.recording(name).payloads()) == []
    assert (back.read_bytes(), names) == (content, sorted(one.name for one in directory_of(back).iterdir()))
    assert replay(back).same

    (directory_of(back) / names[0]).write_text("changed")
    with pytest.raises(JournalError, match="was changed after it was written"):
        move_session(FileRecording(back), store.recording(name))
    (directory_of(back) / names[0]).unlink()
    with pytest.raises(JournalError, match=f"the payload {names[0]} is missing"):
        move_session(FileRecording(back), store.recording(name))
    assert (store.recording(name).info(), back.read_bytes()) == (None, content)


def test_what_undo_puts_back_is_not_lost(store: SqlStore, name: str, tmp_path: Path) -> None:
    path = small(tmp_path / "a.jsonl")
    undo_files(path).put(b"before", force=False)
    with pytest.raises(JournalError, match="can't be moved: what `cogstep undo` puts back would be lost"):
        move_session(FileRecording(path), store.recording(name))
    assert path.exists()
    copy_session(FileRecording(path), store.recording(name))


def test_all_sessions_of_a_store_are_places_for_it(tmp_path: Path) -> None:
    one, other = (SqlStore(f"sqlite:///{tmp_path / where}") for where in ("one.db", "other.db"))
    paths = [small(tmp_path / f"{letter}.jsonl", letter) for letter in "abc"]
    contents = [path.read_bytes() for path in paths]
    for path in paths:
        move_session(FileRecording(path), one.recording(path.stem))
    for recording in journals_in([one]):
        move_session(recording, other.recording(recording.name))
    assert (list(one.names()), list(other.names())) == ([], ["a", "b", "c"])
    assert [b"".join(other.recorder(each).lines()) for each in "abc"] == contents


def test_of_two_who_copy_to_one_file_at_once_one_is_refused_and_takes_nothing_of_the_other(tmp_path: Path) -> None:
    sources = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for number, source in enumerate(sources):
        small(source, f"plum {number} " * LARGE, context_tokens=10**6)
    target = FileRecording(tmp_path / "c.jsonl")

    class Slow:
        """The second one, the copy of which is under way while the first one is copied."""

        def __getattr__(self, what: str) -> Any:
            return getattr(FileRecording(sources[1]), what)

        def payloads(self) -> Iterable[tuple[str, bytes]]:
            found = list(FileRecording(sources[1]).payloads())
            if looks.pop():  # the first time it only looks which there are
                move_session(FileRecording(sources[0]), target)
            return iter(found)

    content, looks = sources[0].read_bytes(), [True, False]
    with pytest.raises(JournalExistsError):
        copy_session(Slow(), target)
    assert target.path.read_bytes() == content
    assert replay(target.path).same


def test_a_recording_that_is_replaced_while_it_is_copied_leaves_no_mixture(
    store: SqlStore, name: str, tmp_path: Path
) -> None:
    path, other = small(tmp_path / "a.jsonl"), small(tmp_path / "b.jsonl", "Else?")

    class Replaced:
        """The first file while it is looked at, and the second one when it is copied."""

        place = path

        def __getattr__(self, what: str) -> Any:
            return getattr(FileRecording(self.place), what)

        def payloads(self) -> Iterable[tuple[str, bytes]]:
            self.place = other
            return ()

    for target in (store.recording(name), FileRecording(tmp_path / "c.jsonl")):
        with pytest.raises(JournalWriteError, match="kept of it, so do it again"):
            copy_session(Replaced(), target)
        assert target.info() is None
