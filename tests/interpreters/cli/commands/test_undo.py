"""``cogstep undo``, ``cogstep fork --files``, and ``/undo`` in a chat: what is typed, and what is printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from cognition import UserMessage
from interpreters import replay
from interpreters.testing.fakes import call
from tests.interpreters.cli.processes import Cogstep

TOOLS = ("--tools", "interpreters.toolbox:file_tools", "--approve", "all")
CHANGES = [
    call("Read", path="a.py"),
    call("Write", path="a.py", content="x = 2\n"),
    call("Write", path="new/b.py", content="b\n"),
    "Done.",
]


@pytest.fixture
def recorded(here: Cogstep, tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_text("x = 1\n")
    done = here("run", "go", *TOOLS, "--record", "s.jsonl", replies=CHANGES)
    assert (done.returncode, (tmp_path / "a.py").read_text()) == (0, "x = 2\n")
    return tmp_path


def test_undo_tells_of_each_file_and_redo_takes_it_back(here: Cogstep, recorded: Path) -> None:
    tried = here("undo", "s.jsonl", "--dry-run")
    assert (tried.returncode, tried.stdout) == (0, "M a.py\nD new/b.py\n")
    assert "would be as they were when turn 1 began" in tried.stderr
    assert (recorded / "a.py").read_text() == "x = 2\n"

    done = here("undo", "s.jsonl", "--turn", "1")
    assert (done.returncode, done.stdout) == (0, tried.stdout)
    assert ((recorded / "a.py").read_text(), (recorded / "new").exists()) == ("x = 1\n", False)
    again = here("undo", "s.jsonl", "--turn", "1")
    assert (again.returncode, again.stdout) == (0, "")
    assert "already" in again.stderr

    back = here("undo", "s.jsonl", "--redo")
    assert (back.returncode, back.stdout) == (0, "M a.py\nA new/b.py\n")
    assert (recorded / "a.py").read_text() == "x = 2\n"


def test_what_stands_in_the_way_is_named_and_force_overwrites_it(here: Cogstep, recorded: Path) -> None:
    (recorded / "a.py").write_text("mine\n")

    refused = here("undo", "s.jsonl")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "a.py was changed since" in refused.stderr
    assert "--force" in refused.stderr
    assert (recorded / "new/b.py").exists()

    assert here("undo", "s.jsonl", "--force").returncode == 0
    assert (recorded / "a.py").read_text() == "x = 1\n"
    assert here("undo", "s.jsonl", "--redo").returncode == 0
    assert (recorded / "a.py").read_text() == "mine\n"


def test_a_fork_with_files_begins_with_the_tree_of_its_turn(here: Cogstep, recorded: Path) -> None:
    more = [call("Read", path="a.py"), call("Write", path="a.py", content="x = 3\n"), "Done."]
    assert here("resume", "s.jsonl", "more", *TOOLS, replies=more).returncode == 0
    assert (recorded / "a.py").read_text() == "x = 3\n"

    done = here("fork", "s.jsonl", "again", "--turn", "1", "--files", *TOOLS, replies=["It is 2."])
    assert done.returncode == 0
    assert ((recorded / "a.py").read_text(), (recorded / "new").exists()) == ("x = 2\n", True)

    done = here("fork", "s.jsonl", "again", "--turn", "0", "--files", *TOOLS, replies=["Nothing is there."])

    assert done.returncode == 0
    assert ((recorded / "a.py").read_text(), (recorded / "new").exists()) == ("x = 1\n", False)


def test_a_chat_undoes_tells_the_model_and_undoes_the_undo(here: Cogstep, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    typed = "/undo\ngo\n/undo x\n/undo 7\n/undo\n/redo\n/undo 1\nand now?\nand then?\n"

    done = here(
        "chat", *TOOLS, "--record", "s.jsonl", replies=[*CHANGES, "As it was.", "Nothing."], input=typed
    )  # fmt: skip

    assert done.returncode == 0
    assert (tmp_path / "a.py").read_text() == "x = 1\n"
    for said in ("nothing to undo", "write /undo, or /undo N", "there is no turn 7", "M a.py", "A new/b.py"):
        assert said in done.stderr, said
    users = [message.text for message in replay("s.jsonl").state.history if isinstance(message, UserMessage)]
    assert users[0] == "go"
    assert users[1].startswith("[With /undo or /redo the user has put files back: a.py, new/b.py.")
    assert users[1].count("Read them again") == 3
    assert users[1].endswith("\n\nand now?")
    assert users[2] == "and then?"


def test_a_chat_without_a_recording_says_what_is_missing(here: Cogstep) -> None:
    done = here("chat", replies=[], input="/undo\n")

    assert "journal=" in done.stderr or "--record" in done.stderr
