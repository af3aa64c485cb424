"""A directory's files as context: which are read, what of them, and what is refused."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cognition import Candidate, ConfigError
from interpreters import Agent, ContextFiles, ContextSourceError
from interpreters.loop.program.context_files import LONGEST_FILE, MOST_DAYS, MOST_PASSAGES
from interpreters.testing.fakes import FunctionModel
from runtime.files import UnusableFileError


def test_each_file_has_its_section(tmp_path: Path) -> None:
    (tmp_path / "BOOTSTRAP.md").write_text("\n# Ada\n\nYou bake.\n")
    (tmp_path / "AGENTS.md").write_text("Be kind.\n", encoding="utf-8-sig")
    (tmp_path / "MEMORY.md").write_text("# People\n\nBob likes plums.\n\n# Prices\n\nA cake is 12.\n")
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "2026-11-25.md").write_text("Plums arrived.\n\n## 2026-11-24 09:00 Late\n\nNo plums.\n")
    (tmp_path / "memory" / "plums.md").write_text("plums")
    (tmp_path / "OTHER.md").write_text("plums")

    def at(day: int) -> float:
        return datetime(2026, 11, day, tzinfo=UTC).timestamp()

    assert ContextFiles(tmp_path)("Any plums?") == (
        Candidate("identity", "# Ada\n\nYou bake.", "BOOTSTRAP.md"),
        Candidate("instructions", "Be kind.", "AGENTS.md"),
        Candidate("memory", "People\nBob likes plums.", "MEMORY.md:3"),
        Candidate("memory", "Plums arrived.", "memory/2026-11-25.md:1", at=at(25)),
        Candidate("memory", "Late\nNo plums.", "memory/2026-11-25.md:5", at=at(24)),
    )


def test_what_is_missing_or_empty_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text(" \n")

    assert ContextFiles(str(tmp_path))("Hello") == ()


def test_the_best_passages_of_the_newest_days_are_handed_in(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    for day in range(1, 29):
        (tmp_path / "memory" / f"2026-02-{day:02}.md").write_text(
            "".join(f"# {n}\n\nplums pears\n\n" for n in range(5))
        )
    (tmp_path / "MEMORY.md").write_text("plums")
    found = ContextFiles(tmp_path)("plums pears")

    assert len(found) == MOST_PASSAGES
    assert found[0].source == "memory/2026-02-28.md:3"
    assert min(one.source for one in found) > f"memory/2026-02-{28 - MOST_DAYS:02}"


def test_there_has_to_be_a_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name in (tmp_path / "nowhere", tmp_path / "file", "a\0b", "x" * 5000):
        with pytest.raises(ConfigError, match="is no directory; create it, or name another"):
            ContextFiles(name)
    with pytest.raises(ConfigError, match="takes the path of a directory, not a int"):
        ContextFiles(3)  # type: ignore[arg-type]  # what is tried


def pipe(path: Path) -> None:
    os.mkfifo(path)


def large(path: Path) -> None:
    path.write_bytes(b"x" * (LONGEST_FILE + 1))


def no_text(path: Path) -> None:
    path.write_bytes(b"\xff\xfe")


def lost_link(path: Path) -> None:
    path.symlink_to("nowhere")


def outside(path: Path) -> None:
    (path.parent.parent / "outside.md").write_text("secret")
    path.symlink_to("../outside.md")


def round_link(path: Path) -> None:
    path.symlink_to(path.name)


@pytest.mark.parametrize("name", ["AGENTS.md", "BOOTSTRAP.md", "MEMORY.md"])
@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (Path.mkdir, "it is a directory, and only a regular file is read"),
        (pipe, "it is a named pipe, and only a regular file is read"),
        (large, "longer than the 262,144 bytes"),
        (no_text, "it is no text in UTF-8"),
        (lost_link, "a link that leads nowhere"),
        (outside, "a link that leads out of the workspace"),
        (round_link, "a link that leads nowhere"),
    ],
)
def test_odd_files_are_refused_in_plain_words(tmp_path: Path, name: str, make: Any, problem: str) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    make(folder / name)

    with pytest.raises(UnusableFileError, match=problem) as caught:
        ContextFiles(folder)("Hello")
    assert name in str(caught.value)


def test_a_link_within_the_directory_is_followed(tmp_path: Path) -> None:
    (tmp_path / "CLAUDE.md").write_text("Be kind.")
    (tmp_path / "AGENTS.md").symlink_to("CLAUDE.md")

    assert ContextFiles(tmp_path)("Hello") == (Candidate("instructions", "Be kind.", "AGENTS.md"),)


def test_daily_notes_are_looked_for_in_a_directory(tmp_path: Path) -> None:
    (tmp_path / "memory").write_text("plums")

    with pytest.raises(UnusableFileError, match="it is a regular file, and daily notes are looked for in it"):
        ContextFiles(tmp_path)("Hello")


def test_daily_notes_of_elsewhere_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "memory").symlink_to(tmp_path)

    with pytest.raises(UnusableFileError, match="leads out of the workspace"):
        ContextFiles(folder)("Hello")


@pytest.mark.parametrize("moment", ["resolve", "open"])
def test_a_file_that_goes_while_it_is_looked_at_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """As where an editor deletes a file and writes it anew."""
    (tmp_path / "AGENTS.md").write_text("Be kind.")
    resolve = Path.resolve

    def going(path: Path, strict: bool = False) -> Path:
        if moment == "resolve":
            path.unlink(missing_ok=True)
        real = resolve(path, strict)
        if path.name == "AGENTS.md":
            path.unlink()
        return real

    files = ContextFiles(tmp_path)
    monkeypatch.setattr(Path, "resolve", going)

    assert files("Hello") == ()


def test_a_message_that_is_refused_says_of_which_file(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_bytes(b"\xff")
    problem = r"failed \(.*AGENTS\.md: it is no text in UTF-8; convert it"
    agent = Agent(FunctionModel(lambda _request: "Yes."), context=[ContextFiles(tmp_path)])
    with agent, pytest.raises(ContextSourceError, match=problem):
        agent.run("Hello")
