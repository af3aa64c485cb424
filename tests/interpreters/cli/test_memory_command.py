"""``cogstep memory``: what stands in the files is found, and what is said goes in."""

from __future__ import annotations

import json
from pathlib import Path

from tests.interpreters.cli.processes import Cogstep
from tests.interpreters.secrets import KEY


def test_notes_are_added_listed_and_found(here: Cogstep, tmp_path: Path) -> None:
    done = here("memory", "search", "plums")
    assert done.returncode == 2
    assert (
        "there is no memory memory; name its folder with --memory, or begin one with cogstep memory add" in done.stderr
    )
    assert not (tmp_path / "memory").exists()

    done = here("memory", "add", f"Ada likes plums. {KEY}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "written into memory/knowledge/notes.md\n")
    assert KEY not in (tmp_path / "memory" / "knowledge" / "notes.md").read_text()
    done = here("memory", "add", f"Ada likes plums. {KEY}")
    assert "it stands already in memory/knowledge/notes.md" in done.stderr
    done = here("memory", "add", "-", "--topic", "keys", "--keep-secrets", input=f"# The key\n{KEY}\n")
    assert done.returncode == 0, done.stderr
    assert KEY in (tmp_path / "memory" / "knowledge" / "keys.md").read_text()

    done = here("memory", "search", "Which plum?")
    assert done.returncode == 0
    assert done.stdout.startswith("knowledge/notes.md:5 (20")
    assert done.stdout.endswith("): Ada likes plums. [redacted:api_key]\n")
    done = here("memory", "search", "nothing of it", "--source", "episodes")
    assert (done.returncode, done.stdout) == (1, "")
    assert "nothing with this source and date in this memory has any of these words" in done.stderr


def test_what_is_printed_for_programs(here: Cogstep, tmp_path: Path) -> None:
    folder = tmp_path / "m" / "episodes"
    folder.mkdir(parents=True)
    (folder / "2026-11-24.md").write_text("## 10:00 — Deploy\n\nThe app was deployed.\n")
    (folder / "2026-11-25.md").write_text("## 10:00 — Deploy\n\nThe app was deployed again.\n")
    (folder / "link.md").symlink_to(tmp_path / "nowhere")

    done = here("memory", "search", "deployed", "--memory", "m", "--json", "--before", "2026-11-24", "--limit", "3")
    assert json.loads(done.stdout) == {
        "text": "The app was deployed.",
        "score": 1.0,
        "source": "episodes",
        "file": "episodes/2026-11-24.md",
        "line": 3,
        "date": "2026-11-24",
        "title": "Deploy",
        "excerpt": "The app was deployed.",
    }
    done = here("memory", "search", "deployed", "--memory", "m", "--after", "2026-11-25")
    assert done.stdout == "episodes/2026-11-25.md:3: [Deploy] The app was deployed again.\n"
    done = here("memory", "list", "--memory", "m", "--json")
    assert [json.loads(line)["passages"] for line in done.stdout.splitlines()] == [1, 1, 0]
    done = here("memory", "list", "--memory", "m")
    assert done.returncode == 1, "one of them can't be searched"
    assert done.stdout.splitlines()[:2] == ["episodes/2026-11-24.md: 1 passage", "episodes/2026-11-25.md: 1 passage"]
    assert "episodes/link.md: " in done.stdout
    done = here("memory", "rebuild", "--memory", "m")
    assert (done.returncode, done.stdout) == (0, "2 passages of 3 files\n")


def test_what_can_t_be_used_is_one_line(here: Cogstep, tmp_path: Path) -> None:
    (tmp_path / "memory" / "knowledge").mkdir(parents=True)
    for arguments, reason in (
        (("search", "x", "--after", "some day"), "is no date; write it as 2026-11-25"),
        (("add", " "), "has to say something"),
        (("add", "x", "--topic", "../x"), "is no topic"),
        (("add", "x", "--memory", "file"), "it is there and is no directory"),
        (("search", "x", "--source", "dreams"), "invalid choice"),
        (("list", "--memory", "file"), "there is no memory file"),
    ):
        (tmp_path / "file").write_text("x")
        done = here("memory", *arguments)
        assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1), done.stderr
        assert reason in done.stderr


def test_a_note_is_replaced_and_forgotten(here: Cogstep, tmp_path: Path) -> None:
    here("memory", "add", "Ada likes plums.")
    here("memory", "add", "Ada likes figs.", "--topic", "people")

    done = here("memory", "replace", "Ada likes plums.", f"Ada likes pears. {KEY}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "replaced: 1 note\n")
    assert (
        (tmp_path / "memory" / "knowledge" / "notes.md")
        .read_text()
        .endswith("\n\nAda likes pears. [redacted:api_key]\n")
    )
    done = here("memory", "forget", "Ada likes fig", "--topic", "people")
    assert (done.returncode, done.stderr) == (
        1,
        "no note is exactly this text; the nearest is in knowledge/people.md:5: Ada likes figs.\n",
    )
    done = here("memory", "forget", "-", input="Ada likes figs.\n")
    assert (done.returncode, done.stderr) == (0, "forgotten: 1 note\n")
    assert here("memory", "forget", "nothing of it").stderr == "no note is exactly this text\n"
    assert here("memory", "search", "figs").returncode == 1
    assert here("memory", "search", "pears", "--after", "yesterday").returncode == 0
