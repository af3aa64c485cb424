"""Read, Write, Edit and MultiEdit: what they give, what they refuse, and that an error changes nothing."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from cognition import ConfigError
from interpreters import Tool, ToolContext, ToolError
from interpreters.toolbox import (
    _diff_display as comparing,
    _file_tools as tools_module,
    _texts as texts,
    edit_session as desk_module,
    file_tools,
)
from interpreters.toolbox._diff_display import format_diff
from interpreters.toolbox._file_tools import number_lines
from interpreters.toolbox._texts import lines_of
from tests.interpreters.toolbox.test_file_transaction import tree_of


class Box:
    """The tools of one directory, called by name in a session; an error comes back as its text."""

    def __init__(self, root: Path, session: str = "s") -> None:
        self.root = root
        self.session = session
        self.tools: dict[str, Tool[..., Any]] = {one.spec.name: one for one in file_tools(root)}

    def __call__(self, name: str, **arguments: Any) -> str:
        start = tree_of(self.root)
        try:
            return self.tools[name].call(arguments, ToolContext(None, session=self.session))
        except ToolError as error:
            assert tree_of(self.root) == start, "an error changes nothing"
            return f"Error: {error}"


@pytest.fixture
def box(tmp_path: Path) -> Box:
    root = tmp_path / "desk"
    (root / "src").mkdir(parents=True)
    (root / ".git").mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    (root / "notes.txt").write_text("buy milk\ncall Ada\nbuy tea\n")
    (root / "src" / "a.py").write_text("x = 1\n")
    (root / ".git" / "config").write_text("x")
    (root / "link.txt").symlink_to("notes.txt")
    (root / "leak.txt").symlink_to(tmp_path / "secret.txt")
    (root / "inside").symlink_to("src")
    (root / "image.bin").write_bytes(b"\x89PNG\0")
    os.mkfifo(root / "pipe")
    return Box(root)


def test_the_tools_say_what_they_are(box: Box) -> None:
    """Only Read reads; the others ask before they run."""
    specs = {name: tool.spec for name, tool in box.tools.items()}
    assert list(specs) == ["Read", "Write", "Edit", "MultiEdit", "Patch"]
    assert {name: (spec.read_only, spec.idempotent, spec.approval) for name, spec in specs.items()} == {
        "Read": (True, True, False),
        "Write": (False, True, True),
        "Edit": (False, False, True),
        "MultiEdit": (False, False, True),
        "Patch": (False, False, True),
    }
    assert {name: spec.parameters["required"] for name, spec in specs.items()} == {
        "Read": ["path"],
        "Write": ["path", "content"],
        "Edit": ["path", "old", "new"],
        "MultiEdit": ["path", "edits"],
        "Patch": ["patch"],
    }
    assert list(specs["Edit"].parameters["properties"]) == ["path", "old", "new", "replace_all"]


def test_tools_need_a_directory(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="need a directory"):
        file_tools(tmp_path / "nowhere")


# -------------------------------------------------------------------------------------------------------------- Read


def test_read_numbers_lines(box: Box) -> None:
    assert box("Read", path="notes.txt") == "     1\tbuy milk\n     2\tcall Ada\n     3\tbuy tea"
    assert box("Read", path="link.txt", offset=2, limit=1) == (
        "     2\tcall Ada\n[lines 2 to 2 of 3; read on with offset=3]"
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "[the file is empty]"),
        (b"a", "     1\ta\n[the last line has no newline at its end]"),
        (b"a\r\nb\r\n", "     1\ta\n     2\tb\n[lines end in CRLF]"),
        (b"\xff\xfea\0\n\0", "     1\ta\n[UTF-16 LE]"),
        (b"caf\xe9\n", "     1\tcafé\n[Latin-1]"),
        (b"\n\n", "     1\t\n     2\t"),
        (b"a\x1c\x85b\xe2\x80\xa8c\n".replace(b"\x85", b"\xc2\x85"), "     1\ta\x1c\x85b\u2028c"),
    ],
)
def test_read_says_what_is_unusual(box: Box, content: bytes, expected: str) -> None:
    (box.root / "f").write_bytes(content)
    assert box("Read", path="f") == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"path": "note.txt"}, "no such file: note.txt; did you mean notes.txt?"),
        ({"path": "src"}, "src is a directory"),
        ({"path": ""}, ". is a directory"),
        ({"path": "image.bin"}, "not a text file: image.bin"),
        ({"path": "pipe"}, "not a text file: pipe"),
        ({"path": "leak.txt"}, "outside the working directory: leak.txt"),
        ({"path": "../secret.txt"}, "outside the working directory: ../secret.txt"),
        ({"path": "notes.txt", "offset": 4}, "offset is 4, and notes.txt has 3 lines"),
        ({"path": "notes.txt", "offset": 0}, "offset is 0, and has to be 1 or more"),
        ({"path": "notes.txt", "limit": -1}, "limit is -1, and has to be 1 or more"),
        ({"path": "notes.txt", "column": 9}, "column is 9, and line 1 has 8 characters"),
    ],
)
def test_read_says_why_it_can_not(box: Box, arguments: dict[str, Any], expected: str) -> None:
    assert box("Read", **arguments) == f"Error: {expected}"


ON = re.compile(r"read on with offset=(\d+)(?:, column=(\d+))?\]$")


@settings(max_examples=200)
@given(text=st.text(st.sampled_from("ab\n\r\té👍"), max_size=60), limit=st.integers(1, 4), room=st.integers(1, 12))
def test_who_reads_on_as_told_reads_all(text: str, limit: int, room: int) -> None:
    """Nothing twice, nothing left out, no character in two; with lines of any length."""
    lines, found, offset, column = lines_of(text), [""], 1, 1
    patch = pytest.MonkeyPatch()
    patch.setattr(tools_module, "CHARACTERS", room)
    try:
        while True:
            shown = number_lines("f", lines, offset, limit, column)
            parts = shown.split("\n")
            for part in parts:
                if match := re.match(r" *(\d+)\t(.*)", part, re.DOTALL):
                    while len(found) < int(match[1]):
                        found.append("")
                    found[int(match[1]) - 1] += match[2]
            told = ON.search(shown)
            if told is None:
                break
            assert (int(told[1]), int(told[2] or 1)) > (offset, column)
            offset, column = int(told[1]), int(told[2] or 1)
    finally:
        patch.undo()
    assert found == ([line.text for line in lines] or [""])


# ------------------------------------------------------------------------------------------------------------- Write


def test_of_a_file_of_many_lines_few_are_made(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of nothing but ends of lines took a hundred times its size."""
    made: list[str] = []

    def line(text: str, end: str) -> texts.Line:
        made.append(text)
        return whole(text, end)

    whole = texts.Line
    monkeypatch.setattr(texts, "Line", line)
    (box.root / "many.txt").write_text("\n" * 10_000)
    assert box("Read", path="many.txt", offset=9_000, limit=2).endswith(
        "9000\t\n  9001\t\n[lines 9000 to 9001 of 10000; read on with offset=9002]"
    )
    assert box("Write", path="more.txt", content="\n" * 10_000) == "Made more.txt: 10000 lines."
    assert len(made) < 100


@given(st.text("a\r\n"))
def test_lines_are_what_a_text_is_made_of(text: str) -> None:
    lines = texts.Lines(text)

    assert "".join(line.text + line.end for line in lines) == text
    assert len(lines) == len(lines_of(text)) == text.count("\n") + (text[-1:] not in ("", "\n"))
    assert all(line.end in ("\n", "\r\n") for line in lines[:-1])
    assert lines[1:] == lines_of(text)[1:] == list(lines)[1:]
    assert not any("\n" in line.text for line in lines)
    assert all((line.end == "\n") <= (line.text[-1:] != "\r") for line in lines)


def test_write_makes_a_file_and_the_folders_to_it(box: Box) -> None:
    assert box("Write", path="new/deep/x.txt", content="a\né\n") == "Made new/deep/x.txt: 2 lines."
    assert (box.root / "new/deep/x.txt").read_bytes() == "a\né\n".encode()
    assert box("Write", path="./src/../y.txt", content="") == "Made y.txt: 0 lines."
    assert box("Write", path=str(box.root / "z.txt"), content="z") == "Made z.txt: 1 line."
    assert box("Edit", path="z.txt", old="z", new="y") == (
        "Edited z.txt: line 1; +1 -1 lines.\n@@ -1 +1 @@\n"
        "-z\n\\ No newline at end of file\n+y\n\\ No newline at end of file"
    )


def test_write_replaces_what_was_read(box: Box) -> None:
    expected = "notes.txt is there, and was not read in this session; Read it first"
    assert box("Write", path="notes.txt", content="x\n") == f"Error: {expected}"
    assert box("Edit", path="notes.txt", old="tea", new="rum") == f"Error: {expected}"
    box("Read", path="notes.txt", limit=1)
    os.chmod(box.root / "notes.txt", 0o640)
    assert box("Write", path="notes.txt", content="buy milk\ncall Bob\nbuy tea\n") == (
        "Wrote notes.txt: +1 -1 lines.\n@@ -1,3 +1,3 @@\n buy milk\n-call Ada\n+call Bob\n buy tea"
    )
    assert stat.S_IMODE((box.root / "notes.txt").stat().st_mode) == 0o640
    assert box("Write", path="notes.txt", content="x").startswith("Wrote notes.txt: +1 -3 lines.")
    assert box("Write", path="notes.txt", content="x") == "notes.txt holds exactly this already; nothing was changed."


CHANGED = "notes.txt has changed since it was read; read it again"


def test_a_file_that_changed_since_it_was_read_is_read_again(box: Box) -> None:
    """By somebody else; what the session has changed itself need not be read again."""
    box("Read", path="notes.txt")
    (box.root / "notes.txt").write_text("buy milk and tea\n")
    assert box("Edit", path="notes.txt", old="tea", new="rum") == f"Error: {CHANGED}"
    assert box("Write", path="notes.txt", content="x") == f"Error: {CHANGED}"
    box("Read", path="notes.txt")
    assert box("Edit", path="notes.txt", old="tea", new="rum").startswith("Edited notes.txt: line 1; +1 -1 lines.")
    assert box("Edit", path="notes.txt", old="rum", new="tea").startswith("Edited")
    (box.root / "notes.txt").unlink()
    assert box("Edit", path="notes.txt", old="tea", new="rum") == "Error: no such file: notes.txt; make it with Write"


def test_what_one_session_has_read_another_has_not(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where both share the tools; and of very many files the first ones are forgotten."""
    box("Read", path="notes.txt")
    box.session = "other"
    assert "was not read in this session" in box("Edit", path="notes.txt", old="tea", new="rum")
    box.session = "s"
    monkeypatch.setattr(desk_module, "REMEMBERED", 1)
    box("Read", path="src/a.py")
    assert "was not read in this session" in box("Edit", path="notes.txt", old="tea", new="rum")


@pytest.mark.parametrize(
    ("content", "new", "expected"),
    [
        (b"a\r\nb\r\n", "a\nc\n", b"a\r\nc\r\n"),
        (b"a\r\nb\n", "a\nc\n", b"a\r\nc\n"),
        (b"a\r\n", "a\nb\r\n", b"a\nb\r\n"),
        (b"\xef\xbb\xbfa", "é", b"\xef\xbb\xbf\xc3\xa9"),
        (b"\xff\xfea\0", "b\n", b"\xff\xfeb\0\n\0"),
        (b"caf\xe9", "thé", b"th\xe9"),
        (b"caf\xe9", "日", "日".encode()),
        (b"", "a\n", b"a\n"),
        (b"caf\xe9 \xc3\xa9", "caf\xe9 é", b"caf\xe9 \xc3\xa9"),
    ],
)
def test_write_keeps_how_a_file_is_written(box: Box, content: bytes, new: str, expected: bytes) -> None:
    (box.root / "f").write_bytes(content)
    box("Read", path="f")
    box("Write", path="f", content=new)
    assert (box.root / "f").read_bytes() == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("link.txt", "link.txt leads through a link to notes.txt; name that file itself"),
        ("inside/a.py", "inside/a.py leads through a link to src/a.py; name that file itself"),
        ("inside/new/b.py", "inside/new/b.py leads through a link to src/new/b.py; name that file itself"),
        ("leak.txt", "outside the working directory: leak.txt"),
        ("../x", "outside the working directory: ../x"),
        ("/etc/x", "outside the working directory: /etc/x"),
        (".git/hooks/post-commit", "no tool changes what is in .git: .git/hooks/post-commit"),
        (".git/config", "no tool changes what is in .git: .git/config"),
        ("src/.cogstep-x", "names with .cogstep- are used while files are changed; choose another: src/.cogstep-x"),
        ("src", "src is a directory"),
        ("", ". is a directory"),
        ("new/", "new/ is a directory"),
        ("pipe", "not a text file: pipe"),
        ("notes.txt/x", "notes.txt is no directory, so nothing can be made in it"),
        ("no/../x", "no such file: no/../x"),
        ("a\0b", "no such file: a\0b"),
        ("x" * 300, f"file name too long: {'x' * 300}; nothing was written"),
    ],
)
def test_nothing_is_written_elsewhere(box: Box, path: str, expected: str) -> None:
    """Neither outside nor through a link, which would change another file than the one that was approved."""
    assert box("Write", path=path, content="x") == f"Error: {expected}"
    assert box("Edit", path=path, old="x", new="y").startswith("Error: ")


def test_what_is_write_protected_stays(box: Box) -> None:
    os.chmod(box.root / "notes.txt", 0o444)
    box("Read", path="notes.txt")
    assert box("Write", path="notes.txt", content="x") == "Error: write-protected (mode 444): notes.txt"


def test_what_is_too_large_is_not_opened(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk_module, "LARGEST", 4)
    assert box("Read", path="notes.txt") == "Error: too large: notes.txt has 26 bytes, and at most 4 are opened"
    assert box("Write", path="x", content="12345") == "Error: too large: x would have 5 bytes of at most 4"


def test_a_disk_that_is_full_says_so(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(desk_module.FileTransaction, "make", full)
    assert box("Write", path="x", content="1") == "Error: no space left on device: x; nothing was written"


# -------------------------------------------------------------------------------------------------------------- Edit


def test_edits_are_made_together(box: Box) -> None:
    box("Read", path="notes.txt")
    edits = [{"old": "buy", "new": "sell", "replace_all": True}, {"old": "sell tea", "new": "drink tea"}]
    assert box("MultiEdit", path="notes.txt", edits=edits) == (
        "Edited notes.txt: 3 places, lines 1, 3, 3; +2 -2 lines.\n"
        "@@ -1,3 +1,3 @@\n-buy milk\n+sell milk\n call Ada\n-buy tea\n+drink tea"
    )
    assert box("MultiEdit", path="notes.txt", edits=[edits[1] | {"old": "call"}, {"old": "gin", "new": "x"}]) == (
        "Error: edit 2 of 2: old does not stand in the file; Read it, and copy the text to replace from there\n"
        "None of the edits was made."
    )
    assert box("Edit", path="notes.txt", old="a", new="L").startswith("Error: old stands in 3 places: lines 2, 2, 3.")
    assert box("Edit", path="none.txt", old="a", new="b") == "Error: no such file: none.txt; make it with Write"


# ------------------------------------------------------------------------------------------------------------- a diff


def test_a_long_diff_is_cut_with_a_line_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "DIFF_LINES", 2)
    assert format_diff("a\nb\n", "c\nd\n") == "@@ -1,2 +1,2 @@\n-a\n[3 more lines of the diff]"
    monkeypatch.setattr(comparing, "COMPARED", 1)
    assert format_diff("x\na\nb\n", "x\nc\nd\ne\n") == "[lines 2 to 4 are new, in the place of 2]"
    assert comparing.count_changes("x\na\nb\n", "x\nc\nd\ne\n") == (3, 2)


# ------------------------------------------------------------------------------------------------------------- a race


RACES: dict[str, Callable[[Path], object]] = {
    "content": lambda path: path.write_text("theirs"),
    "another file": lambda path: (path.with_name("t").write_text("theirs"), path.with_name("t").rename(path)),
    "link out": lambda path: (path.unlink(), path.symlink_to("../secret.txt")),
    "link inside": lambda path: (path.unlink(), path.symlink_to("src/a.py")),
}


@pytest.mark.parametrize("race", RACES.values(), ids=RACES)
@pytest.mark.parametrize("tool", ["Write", "Edit"])
def test_what_changes_in_the_last_moment_is_noticed(
    box: Box, race: Callable[[Path], object], tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Right before names are exchanged, when all checks are over."""
    box("Read", path="notes.txt")
    real = desk_module.FileTransaction.make
    left: list[dict[str, bytes]] = []

    def make(self: Any, steps: Any) -> None:
        race(box.root / "notes.txt")
        left.append(tree_of(box.root))
        real(self, steps)

    monkeypatch.setattr(desk_module.FileTransaction, "make", make)
    arguments = {"content": "ours"} if tool == "Write" else {"old": "tea", "new": "ours"}
    with pytest.raises(ToolError, match="somebody else in this moment; nothing was written"):
        box.tools[tool].call({"path": "notes.txt", **arguments}, ToolContext(None, session="s"))
    assert [tree_of(box.root)] == left
    assert (box.root.parent / "secret.txt").read_text() == "secret"
