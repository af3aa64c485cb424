"""What a session's tools have changed is put back: what is kept for it, by whom, and what stands in the way."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from cognition import AssistantMessage, CogstepError
from interpreters import Agent, ToolContext, UndoError, fakes, replay, tool, undo
from interpreters.recording.journal import ForeignRecordingError, JournalDamagedError
from interpreters.recording.journal.content_files import CHANGES, undo_files
from interpreters.recording.journal.format import line_of
from interpreters.recording.sessions import list_sessions, prune_sessions
from interpreters.recording.undo.checkpoints import Checkpoints
from interpreters.testing.fakes import call
from interpreters.toolbox import file_tools, file_transaction as changing

Place = tuple[Path, Path]
"""The directory that tools work in, and the recording of their session."""


needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="it looks at what descriptors are of")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.py").write_bytes(b"x = 1\n")
    return root, tmp_path / "s.jsonl"


def write(path: str, content: str) -> Any:
    return [call("Read", path=path), call("Write", path=path, content=content)]


def session(place: Place, *turns: list[Any], **given: Any) -> None:
    """A recorded session: in each turn the model calls tools, one after another."""
    root, journal = place
    replies = [reply for turn in turns for reply in [*turn, "ok"]]
    with Agent(
        fakes.ScriptedModel(replies), file_tools(root), journal=journal, approve=lambda request: True, **given
    ) as agent:
        for _ in turns:
            assert agent.run("go").ok


def tree(root: Path) -> dict[str, bytes | None]:
    paths = sorted(root.rglob("*"))
    return {str(path.relative_to(root)): None if path.is_dir() else path.read_bytes() for path in paths}


def kept_in(journal: Path) -> Path:
    return undo_files(journal).directory


# -------------------------------------------------------------------------------------------------------------- keeping


def test_what_a_file_held_is_kept_before_it_is_changed_for_the_user_alone(place: Place) -> None:
    _, journal = place
    session(place, write("a.py", "x = 2\n"), write("a.py", "x = 1\n"), write("a.py", "x = 3\n"))

    kept = sorted(kept_in(journal).iterdir())

    assert sorted(path.read_bytes() for path in kept if path.name != CHANGES) == [b"x = 1\n", b"x = 2\n"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}
    assert stat.S_IMODE(kept_in(journal).stat().st_mode) == 0o700


def test_without_a_recording_nothing_is_kept(place: Place) -> None:
    root, _ = place
    with Agent(
        fakes.ScriptedModel([*write("a.py", "x = 2\n"), "ok"]), file_tools(root), approve=lambda request: True
    ) as agent:
        assert agent.run("go").ok
        with pytest.raises(UndoError, match="journal="):
            agent.undo()

    assert tree(root.parent) == {"root": None, "root/a.py": b"x = 2\n"}


@needs_proc
@pytest.mark.parametrize("name", ["write", "open", "ftruncate"])
def test_where_it_can_not_be_kept_nothing_is_changed(place: Place, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    root, journal = place
    session(place, [])
    real = getattr(os, name)

    def full(target: Any, *arguments: Any, **named: Any) -> Any:
        there = os.readlink(f"/proc/self/fd/{target}") if isinstance(target, int) else str(target)
        if kept_in(journal).name in there or len(Path(there).name) == 69:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(target, *arguments, **named)

    with (
        Agent.resume(
            journal,
            fakes.ScriptedModel([*write("a.py", "x = 2\n"), "ok"]),
            file_tools(root),
            approve=lambda request: True,
        ) as agent,
        monkeypatch.context() as patch,
    ):
        patch.setattr(os, name, full)
        result = agent.run("go")

    assert "nothing was changed" in result.calls[-1].content
    assert "No space left" in result.calls[-1].content
    assert tree(root) == {"a.py": b"x = 1\n"}


@needs_proc
@pytest.mark.parametrize("fsync", ["turn", "record", "never"])
def test_what_a_file_held_is_on_the_disk_before_the_change_which_is_itself_forced_there(
    place: Place, monkeypatch: pytest.MonkeyPatch, fsync: str
) -> None:
    """Contents, then names, then the list, then the change: else a power failure could leave the new file alone."""
    root, journal = place
    (root / "b.py").write_bytes(b"y\n")
    done: list[str] = []
    force, replace, exchange = os.fsync, os.replace, changing.exchange

    def forced(descriptor: int) -> None:
        done.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        force(descriptor)

    def replaced(*given: Any, **named: Any) -> None:
        done.append("named")
        replace(*given, **named)

    def exchanged(*given: Any) -> bool:
        done.append("exchange")
        return exchange(*given)

    monkeypatch.setattr(os, "fsync", forced)
    monkeypatch.setattr(os, "replace", replaced)
    monkeypatch.setattr(changing, "exchange", exchanged)
    patch = call(
        "Patch", patch="--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x = 1\n+x\n--- a/b.py\n+++ b/b.py\n@@ -1 +1 @@\n-y\n+z\n"
    )
    session(place, [call("Read", path="a.py"), call("Read", path="b.py"), patch], fsync=fsync)

    here = kept_in(journal).name
    before = done[: done.index("exchange")]
    kept = [what for what in before if what in ("named", CHANGES, here) or what.endswith(".part")]
    if fsync == "never":
        assert kept == ["named", "named"]
        return
    beginning = kept.index(here) + 1  # the list is begun by its first line, and is there itself
    assert ["part" if what.endswith(".part") else what for what in kept[beginning:]] == [
        *("part", "named", "part", "named"),
        here,
        CHANGES,
    ]
    assert journal.parent.name in before


def test_changes_of_sessions_that_were_resumed_stand_in_one_list(place: Place) -> None:
    root, journal = place
    session(place, write("a.py", "x = 2\n"))
    with Agent.resume(
        journal, fakes.ScriptedModel([*write("a.py", "x = 3\n"), "ok"]), file_tools(root), approve=lambda request: True
    ) as agent:
        agent.run("go")

    assert undo(journal, 1).turn == 1

    assert tree(root) == {"a.py": b"x = 1\n"}


def test_what_a_worker_changes_belongs_to_the_turn_of_its_parent(place: Place) -> None:
    root, journal = place
    model = fakes.ScriptedModel(
        [
            "first",
            call("spawn_worker", name="w", objective="write", tools=["Read", "Write"]),
            *write("a.py", "x = 2\n"),
            "written",
            "ok",
        ]
    )
    with Agent(model, file_tools(root), journal=journal, approve=lambda request: True, features=["workers"]) as agent:
        agent.run("one")
        agent.run("two")
        assert (root / "a.py").read_bytes() == b"x = 2\n"

        assert agent.undo(2).turn == 2

    assert tree(root) == {"a.py": b"x = 1\n"}


def test_a_tool_of_the_program_s_own_keeps_what_it_will_change(place: Place) -> None:
    root, journal = place
    writes = {one.spec.name: one for one in file_tools(root)}["Write"]

    @tool
    def build(context: ToolContext[Any]) -> str:
        """Build it."""
        with context.keeping("a.py", "out/new.py", root=root):
            (root / "a.py").unlink()
            (root / "out").mkdir()
            (root / "out/new.py").write_text("new\n")
            writes.call({"path": "within.py", "content": "a tool within\n"}, context)
        return "built"

    with Agent(fakes.ScriptedModel([call("build"), "ok"]), [build], journal=journal) as agent:
        assert agent.run("go").calls[0].content == "built"
        done = agent.undo()

    assert [(one.path, one.how) for one in done.files] == [
        (str(root / "a.py"), "made"),
        (str(root / "out/new.py"), "deleted"),
        (str(root / "within.py"), "deleted"),
    ]
    assert tree(root) == {"a.py": b"x = 1\n"}


@pytest.mark.parametrize("path", ["../x", ".git/config", "/etc/passwd"])
def test_a_tool_of_the_program_s_own_keeps_nothing_from_outside(place: Place, path: str) -> None:
    root, journal = place

    @tool
    def build(context: ToolContext[Any]) -> str:
        """Build it."""
        with context.keeping(path, root=root):
            raise AssertionError("it was let in")

    with Agent(fakes.ScriptedModel([call("build"), "ok"]), [build], journal=journal) as agent:
        assert path in agent.run("go").calls[0].content


# -------------------------------------------------------------------------------------------------------------- undoing


def test_undo_puts_back_the_newest_turn_then_the_one_before_and_redo_takes_that_back(place: Place) -> None:
    root, journal = place
    session(place, write("a.py", "x = 2\n"), [], [call("Write", path="new/deep/b.py", content="b\n")])

    done = undo(journal, dry_run=True)
    assert (done.turn, [(one.path, one.how) for one in done.files]) == (3, [(str(root / "new/deep/b.py"), "deleted")])
    assert "new/deep/b.py" in tree(root)

    assert undo(journal).turn == 3
    assert tree(root) == {"a.py": b"x = 2\n"}  # and the folders are gone that were made for the file
    assert undo(journal).turn == 1
    assert tree(root) == {"a.py": b"x = 1\n"}
    with pytest.raises(UndoError, match="--redo"):
        undo(journal)

    assert undo(journal, redo=True).turn is None
    assert tree(root) == {"a.py": b"x = 2\n"}


def test_what_somebody_else_has_changed_is_refused_by_name_and_nothing_is_changed(place: Place) -> None:
    root, journal = place
    session(place, [*write("a.py", "x = 2\n"), call("Write", path="b.py", content="b\n")])
    (root / "a.py").write_bytes(b"mine\n")

    with pytest.raises(UndoError) as caught:
        undo(journal)
    assert caught.value.files == (f"{root / 'a.py'} was changed since",)
    assert "--force" in str(caught.value)
    assert tree(root) == {"a.py": b"mine\n", "b.py": b"b\n"}

    undo(journal, force=True)
    assert tree(root) == {"a.py": b"x = 1\n"}
    undo(journal, redo=True)
    assert tree(root) == {"a.py": b"mine\n", "b.py": b"b\n"}


def test_what_somebody_else_has_put_back_half_the_way_is_theirs(place: Place) -> None:
    root, journal = place
    session(place, write("a.py", "x = 2\n"), write("a.py", "x = 3\n"))
    (root / "a.py").write_bytes(b"x = 2\n")  # as it was once, but not as the session left it

    with pytest.raises(UndoError, match=r"a\.py was changed since"):
        undo(journal, 1)


def test_a_change_that_was_kept_and_failed_is_no_change(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    root, journal = place
    replies = [*write("a.py", "x = 2\n"), "ok", call("Write", path="a.py", content="x = 3\n"), "ok"]
    with Agent(fakes.ScriptedModel(replies), file_tools(root), approve=lambda request: True, journal=journal) as agent:
        agent.run("one")

        def fails(*_: Any) -> bool:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        with monkeypatch.context() as patch:
            patch.setattr(changing, "exchange", fails)
            assert agent.run("two").calls[0].status != "ok"
        assert agent.undo().turn == 1

    assert tree(root) == {"a.py": b"x = 1\n"}


def test_a_change_that_failed_because_an_undo_was_faster_stands_in_no_later_one_s_way(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was noted with what its tool had read before: by then the file held what the undo had put there."""
    root, journal = place
    session(place, write("a.py", "x = 2\n"), write("a.py", "x = 3\n"))
    keeping = Checkpoints.keep_changes

    def late(*given: Any) -> Any:
        undo(journal, 2)
        return keeping(*given)

    replies = [*write("a.py", "x = 4\n"), "ok"]
    with (
        Agent.resume(journal, fakes.ScriptedModel(replies), file_tools(root), approve=lambda request: True) as agent,
        monkeypatch.context() as patch,
    ):
        patch.setattr(Checkpoints, "keep_changes", late)
        assert "was changed by somebody else" in agent.run("go").calls[-1].content
    assert tree(root) == {"a.py": b"x = 2\n"}

    assert undo(journal).turn == 1  # that of turn 3 came to nothing, and what turn 2 did is undone

    assert tree(root) == {"a.py": b"x = 1\n"}


def test_folders_that_the_tools_made_go_where_no_file_is_left_to_put_back(place: Place) -> None:
    root, journal = place
    gone = call("Patch", patch="--- a/new/er/b.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n")
    session(place, [call("Write", path="new/er/b.py", content="x\n"), gone])
    assert tree(root) == {"a.py": b"x = 1\n", "new": None, "new/er": None}

    assert undo(journal, dry_run=True).files == ()
    assert "new" in tree(root)
    assert undo(journal).files == ()
    assert tree(root) == {"a.py": b"x = 1\n"}


def test_a_file_that_was_deleted_and_made_again_gets_its_mode_back(place: Place) -> None:
    root, journal = place
    (root / "a.py").chmod(0o741)
    deleted = call("Patch", patch="--- a/a.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x = 1\n")
    session(place, [call("Read", path="a.py"), deleted, call("Write", path="a.py", content="x = 2\n")])
    assert stat.S_IMODE((root / "a.py").stat().st_mode) != 0o741

    undo(journal)

    assert tree(root) == {"a.py": b"x = 1\n"}
    assert stat.S_IMODE((root / "a.py").stat().st_mode) == 0o741


@pytest.mark.parametrize("how", ["link", "folder", "swapped root", "git"])
def test_no_link_and_nothing_else_is_written_through(place: Place, how: str) -> None:
    root, journal = place
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "a.py").write_bytes(b"outside\n")
    session(place, [*write("a.py", "x = 2\n"), call("Write", path="d/b.py", content="b\n")])
    if how == "link":
        (root / "a.py").unlink()
        (root / "a.py").symlink_to(outside / "a.py")
    elif how == "folder":
        shutil.rmtree(root / "d")
        (root / "d").symlink_to(outside)
        (outside / "b.py").write_bytes(b"b\n")
    elif how == "swapped root":
        root.rename(root.parent / "moved")
        root.symlink_to(outside)
    else:
        (root / "a.py").unlink()
        (root / "a.py").mkdir()
    before = tree(root.parent)

    with pytest.raises(UndoError, match="nothing was undone"):
        undo(journal, force=True)

    assert {name: what for name, what in tree(root.parent).items() if ".files" not in name} == {
        name: what for name, what in before.items() if ".files" not in name
    }


def test_after_an_undo_the_tools_want_a_file_read_again(place: Place) -> None:
    root, journal = place
    replies = [
        *write("a.py", "x = 2\n"), "ok", call("Edit", path="a.py", old="x", new="y"), "ok",
        *write("a.py", "x = 3\n"), "ok",
    ]  # fmt: skip
    with Agent(fakes.ScriptedModel(replies), file_tools(root), approve=lambda request: True, journal=journal) as agent:
        agent.run("one")
        agent.undo()
        assert "has changed since it was read" in agent.run("two").calls[0].content
        assert agent.run("three").calls[-1].status == "ok"
        agent.undo(1)

    assert tree(root) == {"a.py": b"x = 1\n"}


def test_an_undo_while_a_turn_is_under_way_is_refused(place: Place) -> None:
    _, journal = place
    said: list[BaseException] = []

    @tool
    def hold() -> str:
        """Hold."""
        with pytest.raises(CogstepError, match="turn") as caught:
            agent.undo()
        said.append(caught.value)
        return "held"

    with Agent(fakes.ScriptedModel([call("hold"), "ok"]), [hold], journal=journal) as agent:
        agent.run("go")

    assert len(said) == 1


def test_a_fork_with_files_begins_with_the_tree_as_it_was_then(place: Place) -> None:
    root, journal = place
    session(place, write("a.py", "x = 2\n"), write("a.py", "x = 3\n"), write("a.py", "x = 4\n"))

    (root / "a.py").write_bytes(b"mine\n")
    with pytest.raises(UndoError, match="was changed since"):
        Agent.fork(journal, fakes.ScriptedModel([]), file_tools(root), turn=1, files=True, journal=root.parent / "f")
    assert not (root.parent / "f").exists()

    (root / "a.py").write_bytes(b"x = 4\n")
    with Agent.fork(journal, fakes.ScriptedModel([]), file_tools(root), turn=1, files=True) as agent:
        assert tree(root) == {"a.py": b"x = 2\n"}
        assert agent.state.counters.turn == 1
    undo(journal, redo=True)
    assert tree(root) == {"a.py": b"x = 4\n"}
    with Agent.fork(journal, fakes.ScriptedModel([]), file_tools(root), files=True):
        assert tree(root) == {"a.py": b"x = 4\n"}


def test_a_fork_with_files_keeps_an_undo_that_came_before_its_turn(place: Place) -> None:
    """What that turn found is what the conversation knows, whether it changed something itself or not."""
    root, journal = place
    session(place, write("a.py", "x = 2\n"))
    undo(journal)
    with Agent.resume(journal, fakes.ScriptedModel(["Nothing to do.", "Nor now."]), file_tools(root)) as agent:
        agent.run("Look!")
        agent.run("And now?")

    for turn in (2, 3):
        with Agent.fork(journal, fakes.ScriptedModel([]), file_tools(root), turn=turn, files=True):
            assert tree(root) == {"a.py": b"x = 1\n"}
    with Agent.fork(journal, fakes.ScriptedModel([]), file_tools(root), turn=1, files=True):
        assert tree(root) == {"a.py": b"x = 2\n"}


@pytest.mark.parametrize("turn", range(4))
def test_the_tree_agrees_with_the_conversation_that_a_fork_holds(place: Place, turn: int) -> None:
    """Of forks of forks too: what turn N changed stays, as what was said in it does, and what came after it goes."""
    root, journal = place
    session(place, *(write("a.py", f"x = {10 + number}\n") for number in (1, 2, 3)))
    other = root.parent / "f.jsonl"

    given: dict[str, Any] = {"approve": lambda request: True, "files": True}
    replies = [*write("a.py", "y\n"), "ok", *write("a.py", "z\n"), "ok"]
    with Agent.fork(
        journal, fakes.ScriptedModel(replies), file_tools(root), turn=turn, journal=other, **given
    ) as agent:
        written = [made.arguments["content"] for made in writes_in(agent)]
        assert tree(root) == {"a.py": written[-1].encode() if written else b"x = 1\n"}
        agent.run("go")
        agent.run("go")
    with Agent.fork(other, fakes.ScriptedModel([]), file_tools(root), turn=turn + 1, **given) as agent:
        assert tree(root) == {"a.py": b"y\n"}
    with Agent.fork(other, fakes.ScriptedModel([]), file_tools(root), turn=turn, **given) as agent:
        assert tree(root) == {"a.py": written[-1].encode() if written else b"x = 1\n"}
    if turn:
        with pytest.raises(
            UndoError, match=f"turn {turn} is not recorded here: its turns are {turn + 1} to {turn + 2}"
        ):
            undo(other, turn)


@pytest.mark.parametrize("more", [False, True])
@pytest.mark.parametrize("turn", range(4))
def test_the_tree_of_a_fork_agrees_with_its_conversation_after_an_undo_too(place: Place, turn: int, more: bool) -> None:
    """What an undo put back after the turn had ended is there again, since nobody has told the fork of it."""
    root, journal = place
    contents = [b"x = 1\n", b"x = 12\n", b"x = 13\n", b"x = 14\n"]
    session(place, *(write("a.py", content.decode()) for content in contents[1:]))
    undo(journal, 2)
    assert tree(root) == {"a.py": contents[1]}
    if more:
        with Agent.resume(journal, fakes.ScriptedModel(["ok"]), file_tools(root)) as agent:
            agent.run("go")
        undo(journal, 1)

    with Agent.fork(journal, fakes.ScriptedModel([]), file_tools(root), turn=turn, files=True):
        assert tree(root) == {"a.py": contents[turn]}
    (root / "a.py").write_bytes(b"mine\n")
    with pytest.raises(UndoError, match=r"was changed since\. Save .* a fork overwrites nothing of somebody else's"):
        Agent.fork(journal, fakes.ScriptedModel([]), file_tools(root), turn=3, files=True)


def writes_in(agent: Agent) -> list[Any]:
    """The calls of Write that a conversation holds."""
    replies = [message for message in agent.state.history if isinstance(message, AssistantMessage)]
    return [one for reply in replies for one in reply.calls if one.name == "Write"]


# -------------------------------------------------------------------------------------------------- what can be damaged


def test_a_recording_without_contents_has_nothing_to_undo(place: Place) -> None:
    _, journal = place
    session(place, [])

    with pytest.raises(UndoError, match="no old content"):
        undo(journal)
    with pytest.raises(UndoError, match="there is no turn 2"):
        undo(journal, 2)
    assert not kept_in(journal).exists()


@pytest.mark.parametrize("how", ["copied", "deleted", "emptied"])
def test_a_recording_that_went_on_without_what_was_kept_is_not_said_to_be_undone(place: Place, how: str) -> None:
    root, journal = place
    session(place, write("a.py", "x = 2\n"), write("a.py", "x = 2\n"), write("a.py", "x = 3\n"))
    if how == "copied":
        journal = shutil.copy(journal, root.parent / "copy.jsonl")
    elif how == "deleted":
        shutil.rmtree(kept_in(journal))
    else:
        (kept_in(journal) / CHANGES).write_bytes(b"")
    replies = [*write("a.py", "x = 4\n"), "ok"]
    with Agent.resume(journal, fakes.ScriptedModel(replies), file_tools(root), approve=lambda request: True) as agent:
        agent.run("go")

    with pytest.raises(UndoError, match=r"what 2 calls overwrote since turn 1 began is not kept here, .* in turn 3"):
        undo(journal, 1)
    with pytest.raises(UndoError, match="what 1 calls overwrote since turn 2 began"):
        Agent.fork(journal, fakes.ScriptedModel([]), file_tools(root), turn=1, files=True)
    assert tree(root) == {"a.py": b"x = 4\n"}

    assert undo(journal, 4).turn == 4
    assert tree(root) == {"a.py": b"x = 3\n"}


@pytest.mark.parametrize(
    ("what", "how"),
    [("list", "pipe"), ("list", "folder"), ("list", "link"), ("directory", "pipe"), ("directory", "link")],
)
def test_what_is_no_list_is_an_error_that_names_it_and_keeps_tools_from_changing_files(
    place: Place, what: str, how: str
) -> None:
    root, journal = place
    session(place, write("a.py", "x = 2\n"))
    there = kept_in(journal) / CHANGES if what == "list" else kept_in(journal)
    there.rename(root.parent / "moved")
    if how == "pipe":
        os.mkfifo(there)
    elif how == "folder":
        there.mkdir()
    else:
        there.symlink_to(root.parent / "moved")

    with pytest.raises(UndoError, match=r"s\.jsonl\.files.* can't be used .*nothing was undone|no old content"):
        undo(journal)
    replies = [*write("a.py", "x = 3\n"), "ok"]
    with Agent.resume(journal, fakes.ScriptedModel(replies), file_tools(root), approve=lambda request: True) as agent:
        assert "nothing was changed" in agent.run("go").calls[-1].content
    assert tree(root) == {"a.py": b"x = 2\n"}


@pytest.mark.parametrize("path", ["s.jsonl.files/changes", "s.jsonl.files/new", "s.jsonl.payloads/new"])
def test_no_tool_changes_what_is_kept_beside_its_own_recording(place: Place, path: str) -> None:
    """An undo would put it back in the midst of itself."""
    root, _ = place
    journal = root / "s.jsonl"
    tried = [*([] if path.endswith("new") else [call("Read", path=path)]), call("Write", path=path, content="{}\n")]
    replies = [*write("a.py", "x = 2\n"), "ok", *tried, "ok"]
    with Agent(fakes.ScriptedModel(replies), file_tools(root), approve=lambda request: True, journal=journal) as agent:
        agent.run("go")
        assert "no tool changes the recording of its own session" in agent.run("go").calls[-1].content
        assert agent.undo().turn == 1
    assert replay(journal).same
    assert (root / "a.py").read_bytes() == b"x = 1\n"


@pytest.mark.parametrize("path", ["s.jsonl", "s.jsonl.files/changes"])
def test_nor_does_a_tool_of_the_program_s_own(place: Place, path: str) -> None:
    root, _ = place

    @tool
    def build(context: ToolContext[Any]) -> str:
        """Build it."""
        with context.keeping(path, root=root):
            raise AssertionError("it was let in")

    link = root.parent / "link"
    link.symlink_to(root)
    with Agent(fakes.ScriptedModel([call("build"), "ok"]), [build], journal=link / "s.jsonl") as agent:
        assert "no tool changes the recording" in agent.run("go").calls[0].content


@pytest.mark.parametrize("how", ["missing", "other", "link", "short"])
def test_a_content_that_is_not_what_it_was_is_not_put_back(place: Place, how: str) -> None:
    root, journal = place
    session(place, write("a.py", "x = 2\n"))
    (content,) = (path for path in kept_in(journal).iterdir() if path.name != CHANGES)
    if how in ("missing", "link"):
        content.unlink()
    if how == "link":
        (root.parent / "same").write_bytes(b"x = 1\n")
        content.symlink_to(root.parent / "same")
    elif how != "missing":
        content.write_bytes(b"x = 9\n" if how == "other" else b"x")

    with pytest.raises(UndoError, match="nothing was undone"):
        undo(journal)

    assert tree(root) == {"a.py": b"x = 2\n"}


def test_a_list_that_is_torn_at_its_end_counts_as_far_as_it_goes_and_any_other_damage_is_an_error(place: Place) -> None:
    root, journal = place
    session(place, write("a.py", "x = 2\n"), write("a.py", "x = 3\n"))
    changes = kept_in(journal) / CHANGES
    whole = changes.read_bytes()

    for end in range(0, len(whole), 13):
        changes.write_bytes(whole[:end])
        (root / "a.py").write_bytes(b"x = 3\n")
        with suppress(UndoError):
            undo(journal, 1, dry_run=True)
        assert tree(root) == {"a.py": b"x = 3\n"}
    for line in range(len(whole.splitlines())):
        lines = whole.splitlines(keepends=True)
        changed = lines[line].replace(b"a", b"b", 1)
        changes.write_bytes(b"".join([*lines[:line], changed, *lines[line + 1 :]]))
        with pytest.raises((JournalDamagedError, UndoError)):
            undo(journal)
    assert tree(root) == {"a.py": b"x = 3\n"}


@pytest.mark.parametrize("name", [["..", "x"], ["/etc/x"], ["a", "", "x"], ["."], [], ["x\0"], [7], "x"])
def test_a_forged_list_leads_nowhere(place: Place, name: Any) -> None:
    """Even one whose sums are right: nobody else's has a seal, and no path in it may lead out of the root."""
    root, journal = place
    session(place, write("a.py", "x = 2\n"))
    changes = kept_in(journal) / CHANGES
    lines = changes.read_bytes().splitlines(keepends=True)
    forged, total = b"", 0
    for line in lines:
        value = json.loads(line)
        value.pop("sum"), value.pop("seal")
        for one in value.get("trees", ()):
            one["files"][0]["path"] = name
        written, total, _ = line_of(value, total, None)
        forged += written
    changes.write_bytes(forged)
    before = tree(root.parent)

    with pytest.raises((ForeignRecordingError, JournalDamagedError)):
        undo(journal, force=True)

    assert tree(root.parent) == before


def test_somebody_else_s_recording_is_not_undone(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    root, journal = place
    session(place, write("a.py", "x = 2\n"))
    monkeypatch.setenv("XDG_STATE_HOME", str(root.parent / "somebody-else"))

    with pytest.raises(ForeignRecordingError):
        undo(journal)

    assert tree(root) == {"a.py": b"x = 2\n"}


def test_pruning_takes_the_contents_along(place: Place) -> None:
    root, journal = place
    session(place, write("a.py", "x = 2\n" * 100), write("a.py", "x = 3\n"))
    (info,) = list_sessions(journal)
    assert info.bytes > journal.stat().st_size + 600

    (gone,) = prune_sessions(journal, keep=0)

    assert not gone.kept
    assert gone.bytes == info.bytes
    assert sorted(path.name for path in root.parent.iterdir()) == ["root"]


# ---------------------------------------------------------------------------------------------------------------- kills


WRITER = textwrap.dedent(
    """
    import sys
    from interpreters import Agent, fakes
    from interpreters.testing.fakes import call
    from interpreters.toolbox import file_tools, file_transaction as changing

    root, journal = sys.argv[1:]
    names = ["a", "b", "new/c"]

    def script():
        count = 0
        while True:
            count += 1
            for name in names[:2]:
                yield call("Read", path=name)
            yield call("Write", path="a", content=f"{count}\\n")
            new = "--- /dev/null\\n+++ b/new/%d\\n@@ -0,0 +1 @@\\n+new\\n" % count
            yield call("Patch", patch=f"--- a/b\\n+++ b/b\\n@@ -1 +1 @@\\n-{count - 1}\\n+{count}\\n{new}")
            if count == 1:
                print("go", flush=True)
            yield "ok"

    with Agent(fakes.ScriptedModel(script()), file_tools(root), approve=lambda request: True, journal=journal) as agent:
        while True:
            agent.run("go")
    """
)
UNDOER = "import sys; from interpreters import undo; print('go', flush=True); undo(sys.argv[1], 1)"


def kill_after(seconds: float, *arguments: str) -> bool:
    """Whether a program was killed before its end, so long after it had begun."""
    child = subprocess.Popen([sys.executable, "-c", *arguments], stdout=subprocess.PIPE)
    assert child.stdout is not None
    with child.stdout:
        assert child.stdout.readline() == b"go\n"
        time.sleep(seconds)
        child.send_signal(signal.SIGKILL)
        return child.wait(60) == -signal.SIGKILL


@pytest.mark.parametrize("seed", range(3))
def test_killed_while_tools_write_and_while_it_is_undone_the_tree_is_put_back_to_the_byte(
    tmp_path: Path, seed: int
) -> None:
    root, journal = tmp_path / "root", tmp_path / "s.jsonl"
    root.mkdir()
    for name in ("a", "b"):
        (root / name).write_bytes(b"0\n")
    before = tree(root)
    assert kill_after(0.01 + 0.07 * seed, WRITER, str(root), str(journal))
    changed = tree(root)
    assert (root / "a").read_bytes() != b"0\n"
    for moment in (0.001, 0.01, 0.03):
        if not kill_after(moment * (seed + 1), UNDOER, str(journal)):
            break

    undo(journal, 1)

    assert tree(root) == before != changed
    assert replay(journal).same
