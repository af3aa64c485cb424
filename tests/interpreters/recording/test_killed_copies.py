"""Copies that are killed: nothing of them counts, and the next one is made as if they had never been."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interpreters import replay
from interpreters.recording.journal import JournalExistsError
from interpreters.recording.journal.payloads import LARGE, Payloads, directory_of
from interpreters.recording.sessions import FileRecording, copy_session, list_sessions, move_session, prune_sessions
from interpreters.recording.sessions._file_recording import clear_parts, create_part, part_of
from interpreters.recording.store import SqlStore
from tests.interpreters.journals import small

STEPS = 7
"""Moments of a copy at which it is killed, below."""


def killed(work: Callable[[], object], at: int) -> bool:
    """Whether it was, in a process of its own: before or behind one of the calls by which it changes the disk."""
    child = os.fork()
    if child == 0:
        try:
            left = at

            def counted(call: Callable[..., Any]) -> Callable[..., Any]:
                def dies(*given: Any, **named: Any) -> Any:
                    nonlocal left
                    if left == 0:
                        os.kill(os.getpid(), signal.SIGKILL)
                    left -= 1
                    return call(*given, **named)

                return dies

            for name in ("replace", "link", "unlink", "fsync", "utime"):
                setattr(os, name, counted(getattr(os, name)))
            work()
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.fixture
def stored(tmp_path: Path) -> SqlStore:
    """A session with large texts, which stand beside its lines."""
    store = SqlStore(f"sqlite:///{tmp_path}/s.db")
    text = "plum " * LARGE
    move_session(
        FileRecording(small(tmp_path / "a.jsonl", text, text + "!", context_tokens=10**6)), store.recording("a")
    )
    return store


def left_in(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


def moments(stored: SqlStore, folder: Path) -> Iterator[Path]:
    """Each moment at which the copy can be killed, with what is left of it then."""
    folder.mkdir()
    target = folder / "b.jsonl"
    for at in range(100):
        if not killed(lambda: copy_session(stored.recording("a"), FileRecording(target)), at):
            assert at > STEPS
            return
        yield target


def test_the_next_copy_is_made_wherever_the_last_one_was_killed(stored: SqlStore, tmp_path: Path) -> None:
    lines, seen = b"".join(stored.recorder("a").lines()), set()
    for target in moments(stored, tmp_path / "to"):
        there = target.exists()
        seen.add(there)
        assert [info.path for info in list_sessions(target.parent)] == [target] * there
        if there:
            with pytest.raises(JournalExistsError):
                copy_session(stored.recording("a"), FileRecording(target))
        else:
            copy_session(stored.recording("a"), FileRecording(target))
        assert left_in(target.parent) == ["b.jsonl", "b.jsonl.payloads"]
        assert (target.read_bytes(), target.stat().st_nlink) == (lines, 1)
        assert replay(target).same
        assert [one.kept for one in prune_sessions(target, keep=0)] == [""]
        assert left_in(target.parent) == []
    assert seen == {True, False}


def test_prune_clears_away_what_is_left(stored: SqlStore, tmp_path: Path) -> None:
    for target in moments(stored, tmp_path / "to"):
        left = left_in(target.parent)
        list(prune_sessions(target.parent, keep=0, dry_run=True))
        assert left_in(target.parent) == left
        assert [one.kept for one in prune_sessions(target.parent, keep=0)] == [""] * ("b.jsonl" in left)
        assert left_in(target.parent) == []


def test_what_another_copy_has_brought_stays(stored: SqlStore, tmp_path: Path) -> None:
    """One is killed while another one to the same place goes on, and a third one looks what is left."""
    target = tmp_path / "b.jsonl"
    copying = create_part(part_of(target))
    Payloads(target).put(b"brought", force=False)
    part_of(target).write_text("")
    clear_parts(tmp_path)
    assert len(os.listdir(directory_of(target))) == 1
    copying.close()
    clear_parts(tmp_path)
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith("b.jsonl")] == []


def test_what_is_being_copied_or_belongs_to_a_recording_stays(stored: SqlStore, tmp_path: Path) -> None:
    target = tmp_path / "to" / "b.jsonl"
    target.parent.mkdir()
    source = stored.recording("a")

    class Looking:
        """The session, while somebody clears the folder."""

        def __getattr__(self, what: str) -> Any:
            return getattr(source, what)

        def payloads(self) -> Iterator[tuple[str, bytes]]:
            for one in source.payloads():
                clear_parts(target.parent)
                yield one
            clear_parts(target.parent)

    assert copy_session(Looking(), FileRecording(target)).records
    kept = sorted(os.listdir(directory_of(target)))
    (target.parent / f"b.jsonl.{'0' * 32}.part").write_text("")
    (target.parent / f"c.jsonl.{'0' * 32}.part").mkdir()
    (target.parent / f"d.jsonl.{'0' * 32}.part").symlink_to(target)
    (target.parent / "mine.part").write_text("")
    clear_parts(target.parent)
    assert sorted(os.listdir(directory_of(target))) == kept
    assert len(left_in(target.parent)) == 5
    assert replay(target).same
