"""Pruning: what is too old, too many or too large goes, and what is in use stays."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from cognition import (
    ConfigError,
)
from interpreters import Agent
from interpreters.recording.journal.locking import LockedFile
from interpreters.recording.journal.payloads import LARGE, directory_of
from interpreters.recording.sessions import (
    prune_sessions,
)
from interpreters.testing.fakes import ScriptedModel
from tests.interpreters.journals import small


def aged(path: Path, seconds: float) -> Path:
    os.utime(path, (NOW - seconds, NOW - seconds))
    return path


NOW = 1_800_000_000.0


def names(found: Any) -> list[str]:
    return [one.path.name for one in found if not one.kept]


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """Five sessions, written one to five days ago; and files that are none."""
    for day in range(1, 6):
        aged(small(tmp_path / f"{day}.jsonl"), day * 86400 + 1)
    aged_file = tmp_path / "data.jsonl"
    aged_file.write_text("{}\n")
    aged(aged_file, 900 * 86400)
    return tmp_path


@pytest.mark.parametrize(
    ("criteria", "gone"),
    [
        ({"older": 3 * 86400}, ["3.jsonl", "4.jsonl", "5.jsonl"]),
        ({"keep": 4}, ["5.jsonl"]),
        ({"keep": 0}, ["1.jsonl", "2.jsonl", "3.jsonl", "4.jsonl", "5.jsonl"]),
        ({"size": 0}, ["1.jsonl", "2.jsonl", "3.jsonl", "4.jsonl", "5.jsonl"]),
        ({"size": 10**9}, []),
        ({"keep": 4, "older": 4 * 86400}, ["4.jsonl", "5.jsonl"]),
    ],
)
def test_what_is_too_old_too_many_or_too_much_goes(many: Path, criteria: dict[str, Any], gone: list[str]) -> None:
    """With --dry-run it is only told; other files stay."""
    before = sorted(path.name for path in many.iterdir())

    assert gone == names(prune_sessions(many, now=NOW, dry_run=True, **criteria))
    assert before == sorted(path.name for path in many.iterdir())
    assert gone == names(prune_sessions(many, now=NOW, **criteria))
    assert [name for name in before if name not in gone] == sorted(path.name for path in many.iterdir())


def test_the_newest_that_fit_into_a_size_stay(many: Path) -> None:
    size = (many / "1.jsonl").stat().st_size + (many / "2.jsonl").stat().st_size

    assert names(prune_sessions(many, now=NOW, size=size)) == ["3.jsonl", "4.jsonl", "5.jsonl"]


def test_a_session_that_is_open_stays(many: Path) -> None:
    """Whoever has it open: and it goes with the next prune."""
    with Agent.resume(many / "5.jsonl", ScriptedModel([])):
        kept = [(one.path.name, one.kept) for one in prune_sessions(many, now=NOW, keep=4)]
        assert kept == [("5.jsonl", "a session has it open")]
    assert names(prune_sessions(many, now=NOW, keep=4)) == ["5.jsonl"]


def test_what_was_written_meanwhile_stays(many: Path) -> None:
    """Between the look and the deletion somebody may have gone on with it."""
    found = prune_sessions(many, now=NOW, keep=3)
    assert next(found).path.name == "4.jsonl"
    aged(many / "5.jsonl", 0)

    assert [one.kept for one in found] == ["it was written just now"]


def test_large_texts_go_with_their_journal(tmp_path: Path) -> None:
    """And nothing else that lies there."""
    path, other = small(tmp_path / "a.jsonl", "x" * LARGE, context_tokens=10**6), small(tmp_path / "b.jsonl")
    stranger = directory_of(path) / "mine.txt"
    stranger.write_text("keep me")
    (one,) = prune_sessions(path, keep=0)

    assert one.bytes > LARGE
    assert sorted([other, stranger]) == sorted(p for p in tmp_path.rglob("*") if p.is_file())


def test_nothing_goes_without_being_asked_for(many: Path) -> None:
    with pytest.raises(ConfigError, match="by age, by number or by size"):
        list(prune_sessions(many))


def test_a_damaged_session_goes_like_any_other(many: Path) -> None:
    """It has a header that is whole, so that it is known for what it is."""
    path = many / "5.jsonl"
    path.write_bytes(path.read_bytes()[:-30] + b"\n")
    aged(path, 5 * 86400)

    assert names(prune_sessions(many, now=NOW, keep=4)) == ["5.jsonl"]


def test_what_can_not_be_deleted_is_kept_and_told(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, *, dir_fd: int) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "unlink", refuse)

    assert [one.kept for one in prune_sessions(many, now=NOW, keep=4)] == ["Permission denied"]


@pytest.mark.parametrize("named", ["directory", "file"])
def test_a_recording_behind_a_link_stays(tmp_path: Path, named: str) -> None:
    """Whoever plants a link among the recordings would choose what is deleted; it counts as none of them."""
    elsewhere, here = tmp_path / "elsewhere", tmp_path / "here"
    elsewhere.mkdir()
    here.mkdir()
    victim = small(elsewhere / "victim.jsonl", "x" * LARGE, context_tokens=10**6)
    kept = small(here / "kept.jsonl")
    link = here / "link.jsonl"
    link.symlink_to(victim)
    before = sorted(tmp_path.rglob("*"))

    (told,) = prune_sessions(here if named == "directory" else link, keep=1)

    assert (told.path, told.kept) == (link, "it is a link")
    assert sorted(tmp_path.rglob("*")) == before
    assert kept.exists()


def test_large_texts_behind_a_link_stay(tmp_path: Path) -> None:
    """A directory of payloads that is a link leads to somebody else's, of any recording."""
    victim = small(tmp_path / "victim.jsonl", "x" * LARGE, context_tokens=10**6)
    planted = small(tmp_path / "planted.jsonl")
    directory_of(planted).symlink_to(directory_of(victim))
    before = sorted(tmp_path.rglob("*"))

    (told,) = prune_sessions(planted, keep=0)

    assert "it is a link" in told.kept
    assert sorted(tmp_path.rglob("*")) == before


def test_what_belongs_to_another_user_stays(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may delete it, and so may whoever owns the directory; nobody asked for it."""
    before = sorted(many.iterdir())
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)

    assert {one.kept for one in prune_sessions(many, keep=0)} == {"it belongs to another user"}
    assert sorted(many.iterdir()) == before


def test_a_folder_that_is_swapped_while_it_is_pruned_loses_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is deleted is what was locked, in the directory that was looked at."""
    folder, victims = tmp_path / "folder", tmp_path / "victims"
    folder.mkdir()
    victims.mkdir()
    small(folder / "s.jsonl")
    small(victims / "s.jsonl", "precious")
    lock = LockedFile.lock

    def swapped(file: LockedFile) -> bool:
        folder.rename(tmp_path / "away")
        folder.symlink_to(victims)
        return lock(file)

    monkeypatch.setattr(LockedFile, "lock", swapped)
    assert names(prune_sessions(folder, keep=0)) == ["s.jsonl"]
    assert [path.name for path in victims.iterdir()] == ["s.jsonl"]
    assert list((tmp_path / "away").iterdir()) == []
