"""Unified diffs: what git writes is applied to the byte, what models write is taken as it is meant or refused whole."""

from __future__ import annotations

import difflib
import os
import re
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, example, given, settings, strategies as st

from cognition.policy._targets import diff_paths
from interpreters import Tool, ToolContext, ToolError
from interpreters.toolbox import file_tools
from interpreters.toolbox._diff_display import diff_lines
from interpreters.toolbox._diffs import Hunk, read_diff
from interpreters.toolbox._patch import apply_hunks
from interpreters.toolbox._texts import Text, lines_of, read_text
from tests.interpreters.toolbox.test_file_transaction import lay, tree_of

START = {
    "a.txt": b"one\ntwo\nthree\nfour\nfive\nsix\nseven\n",
    "b.txt": b"b\n",
    "src/c.py": b"x = 1\ny = 2\n",
    "empty.txt": b"",
}


class Box:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.tools: dict[str, Tool[..., Any]] = {one.spec.name: one for one in file_tools(root)}

    def __call__(self, patch: str) -> str:
        start = tree_of(self.root)
        try:
            return self.call("Patch", patch=patch)
        except ToolError as error:
            assert tree_of(self.root) == start, "an error changes nothing"
            return f"Error: {error}"

    def call(self, name: str, **arguments: Any) -> str:
        return self.tools[name].call(arguments, ToolContext(None, session="s"))

    def files(self) -> Mapping[str, bytes]:
        return {name: content for name, content in tree_of(self.root).items() if not name.endswith("/")}


@pytest.fixture
def box(tmp_path: Path) -> Box:
    root = tmp_path / "desk"
    lay(root, START)
    return Box(root)


# ------------------------------------------------------------------------------------------------------ pure: hunks


def apply(content: bytes, diff: str) -> bytes:
    text = read_text(content)
    (one,) = read_diff(f"--- a/f\n+++ b/f\n{diff}")
    return text.bytes_of(apply_hunks(text, one.hunks).kept)


texts = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "", "é", "- x", "+ y", "-- x", "@@ -1 +1 @@"]), st.sampled_from(["\n", "\r\n"])
    ),
    max_size=12,
).map(lambda lines: "".join(text + end for text, end in lines))
cut = st.booleans()


def ended(text: str, whole: bool) -> str:
    return text if whole else text.removesuffix("\n").removesuffix("\r")


@settings(max_examples=300)
@given(before=texts, after=texts, whole=st.tuples(cut, cut), context=st.integers(1, 4))
@example(before="a\n", after="a\nb\n", whole=(False, False), context=3)
def test_a_diff_gives_what_it_was_made_of(before: str, after: str, whole: tuple[bool, bool], context: int) -> None:
    """The standard library's, with its lines as they are: any ends of lines, mixed ones, with or without the last."""
    before, after = ended(before, whole[0]), ended(after, whole[1])
    assume(before != after and before and after)
    lines = difflib.unified_diff(
        re.findall(r"[^\n]*\n|[^\n]+", before), re.findall(r"[^\n]*\n|[^\n]+", after), n=context
    )
    diff = "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in list(lines)[2:]
    )
    assert apply(before.encode(), diff) == after.encode()


@given(before=texts, after=texts, whole=st.tuples(cut, cut))
def test_the_diff_that_is_shown_of_a_change_can_be_applied(before: str, after: str, whole: tuple[bool, bool]) -> None:
    before, after = (ended(one.replace("\r", ""), end) for one, end in zip((before, after), whole, strict=True))
    assume(before != after and before and after)
    assert apply(before.encode(), "\n".join(diff_lines(before, after)) + "\n") == after.encode()


@given(
    lines=st.lists(st.sampled_from("abc"), min_size=1, max_size=12),
    at=st.integers(0, 11),
    count=st.integers(1, 3),
    said=st.integers(1, 14),
)
def test_a_hunk_is_applied_where_it_says_or_at_the_only_other_place(
    lines: list[str], at: int, count: int, said: int
) -> None:
    """Against the plain model: all places where its lines stand."""
    old = lines[at % len(lines) :][:count]
    text = "".join(f"{line}\n" for line in lines)
    diff = f"@@ -{said},{len(old)} +{said},1 @@\n" + "".join(f"-{line}\n" for line in old) + "+new\n"
    places = [place for place in range(len(lines)) if lines[place : place + len(old)] == old]
    if said - 1 in places:
        place = said - 1
    elif len(places) == 1:
        (place,) = places
    else:
        with pytest.raises(ToolError, match=f"do at {len(places)} others: lines {places[0] + 1}, "):
            apply(text.encode(), diff)
        return
    expected = [*lines[:place], "new", *lines[place + len(old) :]]
    assert apply(text.encode(), diff).decode().split() == expected


@pytest.mark.parametrize(
    ("content", "diff", "expected"),
    [
        (b"a\nb\nc\n", "@@ -1,9 +1,9 @@\n a\n-b\n+B\n c\n", b"a\nB\nc\n"),
        (b"a\nb\nc\n", "@@ -1,1 +1,1 @@\n a\n-b\n+B\n c\n", b"a\nB\nc\n"),
        (b"a\nb\nc\n", "@@\n-b\n+B\n\n", b"a\nB\nc\n"),
        (b"a\nb\nc\n", "@@ def f():\n-b\n+B\n", b"a\nB\nc\n"),
        (b"a\n\nc\n", "@@ -1,3 +1,3 @@\n a\n\n-c\n+C\n", b"a\n\nC\n"),
        (b"a\r\nb\r\n", "@@ -1,2 +1,3 @@\n a\n-b\n+B\n+C\n", b"a\r\nB\r\nC\r\n"),
        (b"a\r\nb\r\n", "@@ -1,2 +1,2 @@\n a\r\n-b\r\n+b\n", b"a\r\nb\n"),
        (b"a\nb", "@@ -1,2 +1,3 @@\n a\n b\n+c\n", b"a\nb\nc\n"),
        (b"a\nb", "@@ -1,2 +1,2 @@\n-a\n+A\n b\n", b"A\nb"),
        (b"caf\xe9\nx\n", "@@ -1,2 +1,2 @@\n café\n-x\n+é\n", b"caf\xe9\n\xe9\n"),
        (b"\xff\xfea\0\r\0\n\0", "@@ -1 +1 @@\n-a\n+b\n", b"\xff\xfeb\0\r\0\n\0"),
        (b"a\n-- \n", "@@ -1 +1 @@\n-a\n+b\n-- \n2.39.5\n", b"b\n-- \n"),
    ],
)
def test_what_models_write_is_taken_as_it_is_meant(content: bytes, diff: str, expected: bytes) -> None:
    """Wrong numbers, no numbers, blanks that are gone, ends of lines that they don't see."""
    assert apply(content, diff) == expected


@pytest.mark.parametrize(
    ("diff", "expected"),
    [
        (
            "@@ -1 +1 @@\n-x\n+y\n",
            "hunk 1 of 1: its lines do not stand at line 1 or anywhere else in the file; Read it",
        ),
        ("@@ -1,2 +1,2 @@\n a\n-x\n+y\n", "Most like them is line 1 and what follows, where line 2 is 'b' and not 'x'"),
        ("@@ -3,3 +3,2 @@\n a2\n b\n-x\n", "from line 3 on, and the file ends before 'x'"),
        ("@@ -9 +9 @@\n-b\n+y\n", "do not stand at line 9, and do at 2 others: lines 2, 4. Give more lines of context"),
        ("@@\n-b\n+y\n", "do not stand in one place only, and do at 2 others: lines 2, 4."),
        ("@@ -1,0 +2 @@\n+y\n", "it has no line of the file in it; give at least one line of context"),
        ("@@ -4 +4 @@\n-b\n+c\n@@ -1 +1 @@\n-a\n+c\n", "hunk 2 of 2: its lines do not stand at line 1 or anywhere"),
        ("@@ -1 +1 @@\n a\n", "this hunk adds and removes nothing"),
        ("@@ -x +1 @@\n a\n", "a hunk begins with '@@ -FIRST,COUNT +FIRST,COUNT @@'"),
        ("a\n", "a hunk was expected"),
    ],
)
def test_a_hunk_that_fits_nowhere_says_why(diff: str, expected: str) -> None:
    with pytest.raises(ToolError, match=re.escape(expected)):
        apply(b"a\nb\na2\nb\n", diff)


@given(text=st.text(st.sampled_from("-+ @\\ab/\n\r01,"), max_size=60) | st.text(max_size=20))
def test_any_text_is_a_diff_or_an_error(text: str) -> None:
    """Never another exception."""
    try:
        found = read_diff(f"--- a/f\n+++ b/f\n{text}")
    except ToolError:
        return
    assert all(isinstance(hunk, Hunk) for one in found for hunk in one.hunks)


# ------------------------------------------------------------------------------------------------------- several files


def test_several_files_are_changed_made_deleted_and_renamed(box: Box) -> None:
    box.call("Read", path="b.txt")
    told = box(
        "What I do:\n"
        "--- a/a.txt\n+++ b/a.txt\n@@ -5,3 +5,3 @@\n two\n-three\n+THREE\n four\n@@ -6 +6 @@\n-six\n+SIX\n"
        "--- /dev/null\n+++ b/new/d.txt\n@@ -0,0 +1,2 @@\n+d\n+e\n"
        "diff --git a/b.txt b/b.txt\ndeleted file mode 100644\n--- a/b.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n"
        "diff --git a/src/c.py b/src/e.py\nsimilarity index 50%\nrename from src/c.py\nrename to src/e.py\n"
        "--- a/src/c.py\n+++ b/src/e.py\n@@ -1,2 +1,2 @@\n x = 1\n-y = 2\n+y = 3\n"
        "diff --git a/empty.txt b/empty.txt\nold mode 100644\nnew mode 100755\n"
        "diff --git a/run.sh b/run.sh\nnew file mode 100755\nindex 0000000..e69de29\n"
    )
    assert told.splitlines() == [
        "M a.txt: +2 -2 lines; hunk 1 stood 3 lines further up than it said",
        "A new/d.txt: 2 lines",
        "D b.txt",
        "R src/c.py -> src/e.py: +1 -1 lines",
        "M empty.txt: +0 -0 lines",
        "A run.sh: 0 lines",
    ]
    assert box.files() == {
        "a.txt": b"one\ntwo\nTHREE\nfour\nfive\nSIX\nseven\n",
        "new/d.txt": b"d\ne\n",
        "src/e.py": b"x = 1\ny = 3\n",
        "empty.txt": b"",
        "run.sh": b"",
    }
    assert os.access(box.root / "empty.txt", os.X_OK)
    assert os.access(box.root / "run.sh", os.X_OK)


def rename(old: str, new: str) -> str:
    return f"diff --git a/{old} b/{new}\nrename from {old}\nrename to {new}\n"


def test_names_are_exchanged_and_modes_go_with_them(box: Box) -> None:
    os.chmod(box.root / "b.txt", 0o767)
    assert box(rename("a.txt", "b.txt") + rename("b.txt", "a.txt")).splitlines() == [
        "R a.txt -> b.txt: +0 -0 lines",
        "R b.txt -> a.txt: +0 -0 lines",
    ]
    assert box.files() == {**START, "a.txt": START["b.txt"], "b.txt": START["a.txt"]}
    assert stat.S_IMODE((box.root / "a.txt").stat().st_mode) == 0o767
    box(rename("a.txt", "z.txt"))
    assert stat.S_IMODE((box.root / "z.txt").stat().st_mode) == 0o767


def made(name: str) -> str:
    return f"diff --git a/{name} b/{name}\nnew file mode 100644\n"


GOOD = "--- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-b\n+B\n"


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ("--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-x\n+y\n", "a.txt: hunk 1 of 1: its lines do not stand at line 1"),
        (
            "--- a/no.txt\n+++ b/no.txt\n@@ -1 +1 @@\n-x\n+y\n",
            "no.txt: no such file; to make it, write '--- /dev/null'",
        ),
        ("--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1 @@\n+y\n", "a.txt is there already; to change it, write its name"),
        (
            "--- a/a.txt\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-one\n",
            "a.txt: the diff deletes the file, and 6 lines of it stand",
        ),
        (GOOD, "the diff has b.txt twice; write all its hunks under one name"),
        (rename("a.txt", "src/c.py"), "src/c.py is there already"),
        (rename("a.txt", "x") + "\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+y\n", "the diff makes x twice"),
        ("--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-x\n+y\n", "../x: outside the working directory: ../x"),
        ("--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+y\n", "outside the working directory: ../x"),
        ("--- /dev/null\n+++ b/.git/x\n@@ -0,0 +1 @@\n+y\n", "no tool changes what is in .git: .git/x"),
        ("--- a/x\n+++ b/y\n@@ -1 +1 @@\n-x\n+y\n", "'---' names x and '+++' names y; for a rename write"),
        ("diff --git a/a.txt b/a.txt\nBinary files a/a.txt and b/a.txt differ\n", "only text files can be patched"),
        (
            "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+x\n",
            "mode 120000 is no regular",
        ),
        ("diff --git a/a b/b\ncopy from a\ncopy to b\n", "copies are not made"),
        ("diff --git a/a b/b\nrename from a\n", "a rename needs both lines"),
        ("--- /dev/null\n+++ /dev/null\n", "both names are /dev/null"),
        (
            made("n") + made("n/m"),
            "the diff makes both n and n/m, and a file can't hold another one; rename one of them",
        ),
        (made("n/m/k") + made("n"), "the diff makes both n and n/m/k, and"),
        (rename("a.txt", "n") + made("n/m"), "the diff makes both n and n/m, and"),
    ],
)
def test_one_file_that_can_not_be_changed_keeps_all_from_being_changed(box: Box, patch: str, expected: str) -> None:
    assert expected in box(GOOD + patch)


@pytest.mark.parametrize("patch", ["", "hello", "*** Begin Patch\n*** Update File: a.txt\n", "--- a/x\n"])
def test_what_is_no_diff_says_what_one_is(box: Box, patch: str) -> None:
    assert box(patch).startswith("Error: this is no unified diff: it has no file in it. A file begins with the lines")


def test_what_changed_since_it_was_read_is_read_again(box: Box) -> None:
    """What was not read may be patched: the diff says itself what it expects."""
    box.call("Read", path="b.txt")
    (box.root / "b.txt").write_bytes(b"b\nc\n")
    assert "b.txt has changed since it was read; read it again" in box(GOOD)
    box.call("Read", path="b.txt")
    assert box(GOOD) == "M b.txt: +1 -1 lines"
    assert box.call("Edit", path="b.txt", old="c", new="d").startswith("Edited")


def test_a_name_that_goes_on_like_another_lies_in_none(box: Box) -> None:
    assert box(made("n") + made("nm/k") + made("n-m")).count("A ") == 3


@pytest.mark.parametrize(("link", "to"), [("l", "l"), ("l", "m"), ("src/l", "l"), ("l", "no/where")])
@pytest.mark.parametrize("below", ["", "/x", "/x/y"])
def test_a_link_that_leads_nowhere_is_named(box: Box, link: str, to: str, below: str) -> None:
    """Nobody has changed anything: what is wrong is the link."""
    (box.root / "m").symlink_to("l")
    (box.root / link).symlink_to(to)
    wrong = f"{link} is a link that leads back to itself or to nothing; choose another name, or delete the link"
    assert box(made(f"{link}{below}")) == f"Error: {wrong}"
    with pytest.raises(ToolError, match=re.escape(wrong)):
        box.call("Write", path=f"{link}{below}", content="x")


def test_a_link_in_the_place_of_a_file_is_not_followed(box: Box) -> None:
    (box.root / "link").symlink_to("b.txt")
    assert "link leads through a link to b.txt; name that file itself" in box(GOOD.replace("b.txt", "link"))


# --------------------------------------------------------------------------------------------------------------- git

names = st.sampled_from(["a.txt", "b.txt", "x/a", "x/b", "é ü.txt", "x y", "tab\tname", "trail "])
contents = texts.map(str.encode) | st.sampled_from([b"caf\xe9\n", b"no end"])
trees = st.dictionaries(names, contents, max_size=4)


@pytest.mark.slow
@settings(max_examples=25)
@given(before=trees, after=trees)
def test_what_git_writes_gives_what_git_has(
    tmp_path_factory: pytest.TempPathFactory, before: dict[str, bytes], after: dict[str, bytes]
) -> None:
    """Renames it finds, quoted names, empty files, files without a last newline: to the byte."""
    base = tmp_path_factory.mktemp("base")
    lay(base / "before", before | {"keep": b""})
    lay(base / "after", after | {"keep": b""})
    command = ["git", "diff", "--no-index", "-M", "--text", "before", "after"]
    diff = subprocess.run(command, cwd=base, capture_output=True, check=False).stdout
    diff = re.sub(rb"(?<=[ \"])([ab])/(?:before|after)/", rb"\1/", diff)
    diff = re.sub(rb"^(rename (?:from|to) \"?)(?:before|after)/", rb"\1", diff, flags=re.MULTILINE)
    assume(diff and b"\xe9\n" not in diff.replace(b"\xc3\xa9\n", b""))

    box = Box(base / "before")
    answer = box(diff.decode("utf-8", "surrogateescape"))
    assert not answer.startswith("Error"), (answer, diff)
    assert box.files() == after | {"keep": b""}


MADE = "new file mode 100644\n--- /dev/null\n+++ {}\n@@ -0,0 +1 @@\n+x\n"


@pytest.mark.parametrize(
    ("git", "plain", "name"),
    [
        ("a/x b/x", "b/x", "x"),
        ("x x", "x", "x"),
        ("a/x b/x ", "b/x ", "x"),
        ("a/x b/x\r", "b/x\r", "x"),
        ("x x", "b/x", "x"),
        ("/dev/null b/x", "b/x", "x"),
        ("a/trail  b/trail ", "b/trail \t", "trail "),
        ("a/trail  b/trail ", "b/trail ", "trail "),
        ("trail  trail ", "trail \t", "trail "),
        ('"new\\nline" "new\\nline"', '"new\\nline"', "new\nline"),
        ('"a/new\\nline" "b/new\\nline"', '"b/new\\nline"', "new\nline"),
        ('"a/q\\" \\"" "b/q\\" \\""', '"b/q\\" \\""', 'q" "'),
        ('"a/\\303\\274" "b/\\303\\274"', "b/ü", "ü"),
        ("b/a b/a", "b/a", "b/a"),
        ("a/b a/b", "a/b", "a/b"),
        ("a/b b/b", "b/b", "b"),
        ("a/b/a b/b/a", "b/b/a", "b/a"),
        ("a/x b/x b/x b/x", "b/x b/x\t", "x b/x"),
        ("a/x a/x b/x a/x", "b/x a/x\t", "x a/x"),
        ("a/x b/x", "b/y", None),
        ("a/x b/y", "b/y", None),
        ("i/x w/x", "w/x", None),
        ("a/x", "b/x", None),
        ("a/x b/x", "a/x", None),
    ],
)
def test_both_heads_of_a_file_name_it_alike(box: Box, git: str, plain: str, name: str | None) -> None:
    """Git's own line and those behind it, read by one rule: one file comes of them, or none."""
    told = box(f"diff --git {git}\n{MADE.format(plain)}")
    if name is None:
        assert "name another file than the lines from 'diff --git' on; write the same names in both" in told
    else:
        assert box.files() == {**START, name: b"x\n"}, told


@pytest.mark.parametrize(
    ("git", "name"),
    [
        ("a/x b/x", "x"),
        ("trail  trail ", "trail "),
        ("a/x b/x ", None),
        ('"new\\nline" "new\\nline"', "new\nline"),
        ("b/a b/a", "b/a"),
        ("a/x w/x", None),
        ("a/x-b/x", None),
        ('"a/x" "b/y"', None),
    ],
)
def test_an_empty_file_is_named_by_gits_own_line(box: Box, git: str, name: str | None) -> None:
    told = box(f"diff --git {git}\nnew file mode 100644\nindex 0000000..e69de29\n")
    if name is None:
        assert "the file's names, '--- a/PATH' and '+++ b/PATH', are missing" in told
    else:
        assert box.files() == {**START, name: b""}, told


@pytest.mark.parametrize(
    ("git", "old", "new"), [("a/b.txt b/x y", "a/b.txt", "b/x y\t"), ("b.txt x y", "b.txt", "x y")]
)
def test_a_rename_has_its_names_in_three_places(box: Box, git: str, old: str, new: str) -> None:
    lines = "rename from b.txt\nrename to x y\n"
    hunk = "@@ -1 +1 @@\n-b\n+B\n"
    assert "name another file than the lines" in box(f"diff --git {git}\n{lines}--- {old}\n+++ b/z\n{hunk}")
    assert "'diff --git' names other files than 'rename from" in box(f"diff --git a/b.txt b/z\n{lines}")
    assert box(f"diff --git {git}\n{lines}--- {old}\n+++ {new}\n{hunk}") == "R b.txt -> x y: +1 -1 lines"
    assert "b.txt" not in box.files()
    assert box.files()["x y"] == b"B\n"


def test_a_folder_that_is_called_like_a_prefix_is_none(box: Box) -> None:
    """Without prefixes, as a rename from one to the other shows."""
    lay(box.root, {"a/f": b"f\n"})
    box("diff --git a/f b/f\nrename from a/f\nrename to b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-f\n+F\n")
    assert box.files() == {**START, "b/f": b"F\n"}


heads = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["diff --git ", "--- ", "+++ ", "rename from ", "rename to "]),
    st.sampled_from(["a/x", "b/x", "x", "x ", "/dev/null", '"x"', "a/x b/x", "x x", "x  x ", '"a/x" "b/x"', "a/x b/y"]),
    st.sampled_from(["", " ", "\t", " \t2026", "\r"]),
    st.just("\n"),
) | st.sampled_from(["new file mode 100644\n", "deleted file mode 100644\n", "@@ -0,0 +1 @@\n+x\n", "\n"])


@settings(max_examples=500)
@given(parts=st.lists(heads, max_size=8))
@example(parts=["--- y\n+++ y\n@@ -1 +1 @@\n-x\n+y\n", "diff --git a/x b/x \nnew file mode 100644\n"])
def test_no_file_is_changed_that_the_policy_does_not_see(parts: list[str]) -> None:
    """Which reads the same heads by its own rule: more widely, never more narrowly."""
    text = "".join(parts)
    try:
        found = read_diff(text)
    except ToolError:
        return
    seen, more = diff_paths(text)
    assert more or {name for one in found for name in (one.old, one.new) if name is not None} <= set(seen)


def test_a_text_is_made_of_lines() -> None:
    assert apply_hunks(Text("", ""), ()).kept == ""
    assert lines_of("") == []
