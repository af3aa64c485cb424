"""What tools that change files show before they do it: all of it, nothing else, and what was shown is what is done."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from cognition import Policy, Rule, ToolCall
from interpreters import Preview, Tool, ToolContext, ToolError
from interpreters.toolbox import _diff_display as comparing, file_tools, shell_tools
from interpreters.toolbox.file_transaction import OURS


class Bench:
    """The tools in a directory, and calls of them in one session."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tools: dict[str, Tool[..., Any]] = {one.spec.name: one for one in file_tools(root)}
        self.calls = 0

    def write(self, name: str, content: str | bytes) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def read(self, name: str) -> None:
        self.call("Read", path=name)

    def context(self) -> ToolContext[Any]:
        return ToolContext(None, session="s", call_id=f"c{self.calls}")

    def shown(self, name: str, **arguments: Any) -> Preview:
        """The preview of the next call."""
        before = {path: path.read_bytes() for path in self.root.rglob("*") if path.is_file()}
        found = self.tools[name].preview(arguments, self.context())
        assert found is not None
        assert {path: path.read_bytes() for path in self.root.rglob("*") if path.is_file()} == before
        return found

    def call(self, name: str, **arguments: Any) -> str:
        try:
            return self.tools[name].call(arguments, self.context())
        finally:
            self.calls += 1


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


TEN = "".join(f"line {number}\n" for number in range(1, 11))


def test_an_edit_is_shown_as_a_diff(bench: Bench) -> None:
    bench.write("a.txt", TEN)
    bench.read("a.txt")

    shown = bench.shown("Edit", path="a.txt", old="line 5", new="LINE\n5")

    assert shown.sort == "diff"
    assert shown.lines == (
        "M a.txt: +2 -1 lines", "@@ -2,7 +2,8 @@", " line 2", " line 3", " line 4", "-line 5", "+LINE", "+5", " line 6",
        " line 7", " line 8",
    )  # fmt: skip
    assert bench.call("Edit", path="a.txt", old="line 5", new="LINE\n5").startswith("Edited a.txt: line 5;")


def test_several_edits_and_whole_files_are_shown(bench: Bench) -> None:
    bench.write("a.txt", TEN)
    bench.write("picture", b"\0\1")
    bench.read("a.txt")

    edits = [{"old": "line 10", "new": "ten"}, {"old": "line 1\n", "new": ""}]
    assert [line for line in bench.shown("MultiEdit", path="a.txt", edits=edits).lines if line[0] in "+-M"] == [
        "M a.txt: +1 -2 lines", "-line 1", "-line 10", "+ten",
    ]  # fmt: skip
    assert bench.shown("Write", path="b/c.txt", content="one\ntwo").lines == (
        "A b/c.txt: +2 -0 lines", "@@ -0,0 +1,2 @@", "+one", "+two", "\\ No newline at end of file",
    )  # fmt: skip
    assert bench.shown("Write", path="a.txt", content="line 1\n").lines[:2] == (
        "M a.txt: +0 -9 lines",
        "@@ -1,10 +1 @@",
    )
    assert bench.shown("Write", path="a.txt", content=TEN) == Preview(
        note="a.txt holds exactly this already; nothing would be changed"
    )


def test_a_patch_shows_each_of_its_files(bench: Bench) -> None:
    bench.write("a.txt", "one\n")
    bench.write("gone.txt", "x\n")
    bench.write("old name", "same\nold\n")
    patch = """\
--- a/a.txt
+++ b/a.txt
@@ -1 +1 @@
-one
+two
--- a/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
-x
diff --git a/run.sh b/run.sh
new file mode 100755
--- /dev/null
+++ b/run.sh
@@ -0,0 +1 @@
+true
diff --git a/old name b/new
rename from old name
rename to new
--- a/old name
+++ b/new
@@ -1,2 +1,2 @@
 same
-old
+new
"""
    shown = bench.shown("Patch", patch=patch)

    assert shown.lines == (
        "M a.txt: +1 -1 lines", "@@ -1 +1 @@", "-one", "+two",
        "D gone.txt: +0 -1 lines", "@@ -1 +0,0 @@", "-x",
        "A run.sh: +1 -0 lines; it can be executed then", "@@ -0,0 +1 @@", "+true",
        "R old name -> new: +1 -1 lines", "@@ -1,2 +1,2 @@", " same", "-old", "+new",
    )  # fmt: skip
    bench.call("Patch", patch=patch)
    assert (bench.root / "new").read_text() == "same\nnew\n"


def test_however_much_changes_all_of_it_is_shown(bench: Bench) -> None:
    """The model is told of the numbers only, and somebody who approves a change has to see it."""
    before = "".join(f"{number}\n" for number in range(5000))
    bench.write("a.txt", f"first\n{before}last\n")
    bench.read("a.txt")
    after = "".join(f"{number} x\n" for number in range(4000))

    lines = bench.shown("Write", path="a.txt", content=f"first\n{after}last\n").lines

    assert [line[1:] for line in lines if line[0] in " -"] == ["first", *before.splitlines(), "last"]
    assert [line[1:] for line in lines if line[0] in " +"] == ["first", *after.splitlines(), "last"]
    assert lines[1] == "@@ -1,5002 +1,4002 @@"


def test_what_only_ends_lines_is_named(bench: Bench) -> None:
    bench.write("a.txt", "one\ntwo\n")
    bench.read("a.txt")

    shown = bench.shown("Write", path="a.txt", content="one\r\ntwo\r\n")

    assert shown.lines == ("M a.txt: +0 -0 lines; only ends of lines change; lines end in CRLF then",)
    assert bench.shown("Write", path="b.txt", content="one\r\n").lines == (
        "A b.txt: +1 -0 lines; lines end in CRLF then",
        "@@ -0,0 +1 @@",
        "+one",
    )


FAILS: dict[str, tuple[str, dict[str, Any], str]] = {
    "unread": ("Edit", {"path": "unread.txt", "old": "x", "new": "y"}, "was not read in this session"),
    "stale": ("Edit", {"path": "stale.txt", "old": "x", "new": "y"}, "has changed since it was read"),
    "missing": ("Edit", {"path": "nothing", "old": "x", "new": "y"}, "no such file: nothing"),
    "twice": ("Edit", {"path": "a.txt", "old": "line 1", "new": "y"}, "old stands in 2 places: lines 1, 10"),
    "nowhere": ("Edit", {"path": "a.txt", "old": "lin 5", "new": "y"}, "old does not stand in the file exactly so"),
    "outside": ("Write", {"path": "../x", "content": ""}, "outside the working directory: ../x"),
    "a link": ("Write", {"path": "link", "content": ""}, "leads through a link to a.txt"),
    "no diff": ("Patch", {"patch": "hello"}, "this is no unified diff"),
    "wrong arguments": ("Edit", {"path": 3}, "wrong arguments for Edit: path must be a text"),
    "a NUL": ("Write", {"path": "a.txt", "content": "\0"}, "the text holds a NUL character"),
    "half a character": ("Write", {"path": "a.txt", "content": "\ud800"}, "the text holds half a character"),
    "too large": ("Write", {"path": "big", "content": "x" * (16 * 1024 * 1024 + 1)}, "too large: big would have"),
    "a directory": ("Write", {"path": ".", "content": ""}, ". is a directory"),
}


@pytest.mark.parametrize("kind", FAILS)
def test_a_call_that_would_fail_says_so_on_one_line_and_fails(kind: str, bench: Bench) -> None:
    name, arguments, reason = FAILS[kind]
    bench.write("a.txt", TEN)
    bench.write("unread.txt", "x\n")
    bench.write("stale.txt", "x\n")
    bench.read("a.txt")
    bench.read("stale.txt")
    bench.write("stale.txt", "x and more\n")
    os.symlink("a.txt", bench.root / "link")

    shown = bench.shown(name, **arguments)

    assert shown.lines == ()
    assert shown.note.startswith("this call would fail: ")
    assert reason in shown.note
    assert "\n" not in shown.note
    with pytest.raises(ToolError) as raised:
        bench.call(name, **arguments)
    assert reason in str(raised.value)


# ------------------------------------------------------------------------------------ what was shown is what is done


def diff(old: str, new: str) -> str:
    return f"--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-{old}\n+{new}\n"


HELD: dict[str, tuple[str, dict[str, Any]]] = {
    "Edit": ("Edit", {"path": "a.txt", "old": "line 5", "new": "five"}),
    "MultiEdit": ("MultiEdit", {"path": "a.txt", "edits": [{"old": "line 5", "new": "five"}]}),
    "Write": ("Write", {"path": "a.txt", "content": "new\n"}),
    "Patch": ("Patch", {"patch": diff("line 1", "one")}),
    "a new file": ("Write", {"path": "new.txt", "content": "new\n"}),
}


@pytest.mark.parametrize("kind", HELD)
def test_a_file_that_changes_between_preview_and_approval_is_left_as_it_is(kind: str, bench: Bench) -> None:
    """Also where the session itself has read or changed it meanwhile, so that the call could be made."""
    name, arguments = HELD[kind]
    bench.write("a.txt", TEN)
    bench.read("a.txt")
    bench.shown(name, **arguments)
    changed = "new.txt" if kind == "a new file" else "a.txt"
    bench.write(changed, f"{TEN}and more\n")
    bench.tools["Read"].call({"path": changed}, bench.context())

    with pytest.raises(ToolError, match="is not what it was when this change was shown and approved"):
        bench.call(name, **arguments)

    assert (bench.root / changed).read_text() == f"{TEN}and more\n"
    assert bench.call(name, **arguments)  # another call, of which nothing was shown
    assert not [path for path in bench.root.iterdir() if path.name.startswith(OURS)]


def test_a_call_of_which_was_shown_that_it_fails_does_not_succeed_unseen(bench: Bench) -> None:
    bench.write("a.txt", TEN)
    assert "was not read" in bench.shown("Edit", path="a.txt", old="line 5", new="five").note
    bench.tools["Read"].call({"path": "a.txt"}, bench.context())

    with pytest.raises(ToolError, match="when this change was shown"):
        bench.call("Edit", path="a.txt", old="line 5", new="five")


def test_what_was_shown_holds_for_its_own_call_and_arguments(bench: Bench) -> None:
    """The user may have edited the arguments behind the first preview."""
    bench.write("a.txt", TEN)
    bench.read("a.txt")
    bench.shown("Edit", path="a.txt", old="line 5", new="five")

    bench.call("Edit", path="a.txt", old="line 6", new="six")
    bench.shown("Edit", path="a.txt", old="line 5", new="five")
    assert bench.call("Edit", path="a.txt", old="line 5", new="five")


def applied(hunks: tuple[str, ...], before: str) -> str:
    """What a diff makes of a text."""
    old, made, at, sign = before.splitlines(keepends=True), list[str](), 0, ""
    for line in hunks:
        if line.startswith("@@"):
            first, _, count = line.split()[1][1:].partition(",")
            start = int(first) - (count != "0")
            made += old[at:start]
            at = start
            continue
        if line.startswith("\\"):
            if sign in " +":
                made[-1] = made[-1].removesuffix("\n")
            continue
        sign = line[0]
        if sign in " -":
            assert old[at].removesuffix("\n") == line[1:]
            at += 1
        if sign in " +":
            made.append(f"{line[1:]}\n")
    return "".join(made + old[at:])


TEXTS = st.lists(st.sampled_from(["a", "b", ""]), max_size=14).map("\n".join)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=TEXTS, after=TEXTS, compared=st.sampled_from([0, 1000]))
def test_the_diff_that_is_shown_makes_the_one_text_of_the_other(
    before: str, after: str, compared: int, tmp_path: Path
) -> None:
    """Also where so much differs that lines are not compared."""
    bench = Bench(tmp_path)
    bench.write("a.txt", before)
    bench.read("a.txt")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparing, "COMPARED", compared)
        lines = bench.shown("Write", path="a.txt", content=after).lines[1:]

    assert applied(lines, before) == after
    bench.call("Write", path="a.txt", content=after)
    assert (tmp_path / "a.txt").read_text() == after


# --------------------------------------------------------------------------------------------------------- commands


def test_a_command_is_shown_with_where_and_how_it_runs(tmp_path: Path) -> None:
    with shell_tools(tmp_path, sandbox="off", timeout=7) as (bash, *_):
        context: ToolContext[Any] = ToolContext(None)

        def note(**arguments: Any) -> str:
            shown = bash.preview(arguments, context)
            assert shown is not None
            return shown.note

        shown = bash.preview({"command": "cat <<E\nx\nE"}, context)
        assert shown == Preview(
            ("cat <<E", "x", "E"), sort="command", note=f"in {tmp_path}, for at most 7 s, not confined"
        )
        assert note(command="x", timeout=3) == f"in {tmp_path}, for at most 3 s, not confined"
        assert note(command="x", run_in_background=True) == f"in {tmp_path}, in the background, not confined"
        assert note(command=" ") == "this call would fail: the command is empty"
        assert "timeout is in seconds" in note(command="x", timeout=-1)
    assert "the shell was closed" in note(command="x")


def test_a_command_that_is_to_be_ended_is_shown_with_where_and_how_long_it_runs(tmp_path: Path) -> None:
    with shell_tools(tmp_path, sandbox="off") as (bash, bash_output, kill_shell):
        context: ToolContext[Any] = ToolContext(None)

        def shown(name: str) -> Preview:
            found = kill_shell.preview({"id": name}, context)
            assert found is not None
            return found

        bash.call({"command": "echo up\nsleep 1000", "run_in_background": True}, context)
        bash.call({"command": "true", "run_in_background": True}, context)
        bash_output.call({"id": "shell-2", "wait": 60}, context)

        runs, ended = shown("shell-1"), shown("shell-2")
        assert (runs.lines, runs.sort) == (("echo up", "sleep 1000"), "command")
        assert re.fullmatch(rf"ends shell-1, in {re.escape(str(tmp_path))}, running for \d+ s", runs.note)
        assert (ended.lines, ended.note) == (("true",), f"ends shell-2, in {tmp_path}, which has ended already")
        assert "this call would fail: no command runs in the background as 'shell-3'" in shown("shell-3").note
        assert "it is still running" in bash_output.call({"id": "shell-1"}, context)


def test_a_confined_command_is_shown_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from interpreters.toolbox.shell import tools as shell
    from interpreters.toolbox.shell.sandbox import Sandbox

    monkeypatch.setattr(shell, "choose_sandbox", lambda *_: Sandbox("bubblewrap"))
    (tmp_path / "secrets").mkdir()
    policy = Policy((Rule("deny", "Bash(rm -rf:*)"), Rule("deny", "*(secrets/**)"), Rule("deny", "Bash(tea:*)")))
    with shell_tools(tmp_path) as (bash, *_):
        rules = policy.access_rules(ToolCall("1", "Bash", {"command": "x"}), {"Bash": bash.spec})
        shown = bash.preview({"command": "x"}, ToolContext(None))
        ruled = bash.preview({"command": "x", "network": True}, ToolContext(None, access=rules))

    assert shown is not None
    assert shown.note.endswith("confined to that directory by bubblewrap, without network")
    assert ruled is not None
    assert ruled.note.endswith(
        "confined to that directory by bubblewrap, with the network; it enforces *(secrets/**); "
        "nothing is there yet for Bash(tea:*), and what is made is not protected; "
        "only compared with the command line: Bash(rm -rf:*)"
    )
