"""Glob and Grep in trees of source code: what git ignores, what is hidden, and that ripgrep changes no answer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from interpreters import ToolContext, ToolError
from interpreters.toolbox import (
    _gitignore as ignoring,
    _ripgrep as ripgrep,
    root_directory as files,
    search_tools,
    standard_tools,
)
from interpreters.toolbox._ripgrep import Query
from interpreters.toolbox._search_tools import is_tame

Call = Callable[..., str]


def called(root: Path | str, *, tools: Any = search_tools) -> Call:
    """A tool called by its name; an error comes back as its text."""
    made = {tool.spec.name: tool for tool in tools(root)}

    def call(name: str, **arguments: Any) -> str:
        try:
            return str(made[name].call(arguments, ToolContext(None)))
        except ToolError as error:
            return f"Error: {error}"

    return call


def tree(root: Path, **contents: str) -> Path:
    """Files with these contents; ``__`` in a name stands for a slash, and ``_dot_`` for a dot."""
    for name, content in contents.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tree(
        tmp_path,
        _dot_gitignore="*.log\n/build/\n!keep.log\n",
        a_dot_py="milk\n",
        a_dot_log="milk\n",
        keep_dot_log="milk\n",
        build__out_dot_py="milk\n",
        _dot_github__ci_dot_yml="milk\n",
        src___dot_gitignore="/made.py\n",
        src__made_dot_py="milk\n",
        src__deep__made_dot_py="one\nMilk\nthree\nmilk\nfive\n",
    )


RG = shutil.which("rg") or shutil.which("rg", path=str(Path(sys.executable).parent))
"""The extra ``dev`` brings it, beside the interpreter."""


@pytest.fixture(params=["ripgrep", "Python"] if RG else ["Python"], autouse=True)
def scout(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each test runs without ripgrep, and with it where it is installed."""
    found = RG if request.param == "ripgrep" else None
    monkeypatch.setattr(ripgrep, "program", lambda _: found)
    return str(request.param)


def test_what_git_ignores_and_what_is_hidden_is_left_out(source: Path) -> None:
    call = called(source)

    assert call("Glob", pattern="**").splitlines() == ["a.py", "keep.log", "src/deep/made.py"]
    assert call("Grep", pattern="milk", output_mode="files_with_matches").splitlines() == [
        "a.py",
        "keep.log",
        "src/deep/made.py",
    ]


def test_it_is_found_where_it_is_asked_for(source: Path) -> None:
    """By an option, or because it is named: a folder that is ignored, a pattern that begins with a dot."""
    call = called(source)

    assert ".github/ci.yml" in call("Glob", pattern="**", hidden=True)
    assert "build/out.py" in call("Glob", pattern="**", ignored=True)
    assert call("Glob", pattern="build/*") == "build/out.py"
    assert call("Glob", pattern=".github/*") == ".github/ci.yml"
    assert call("Glob", pattern=".g*/*") == ".github/ci.yml"
    assert call("Glob", pattern="a.log") == "a.log"
    for path in ("build", ".github", "a.log", "build/*.py"):
        assert "milk" in call("Grep", pattern="milk", path=path)
    assert call("Grep", pattern="milk", path="src") == "src/deep/made.py:4: milk"
    assert call("Grep", pattern="milk", path="src", ignored=True).count("milk") == 2


def test_the_tools_of_the_shipped_model_heed_gitignore_too(source: Path) -> None:
    """They have no options: what is hidden is found, as ever."""
    call = called(source, tools=standard_tools)

    assert call("Glob", pattern="**/*.yml") == ".github/ci.yml"
    assert call("Glob", pattern="**/*.log") == "keep.log"
    assert ".github/ci.yml:1: milk" in call("Grep", pattern="milk")
    assert "build" not in call("Grep", pattern="milk")


def test_in_brief_they_are_those_of_the_shipped_model(source: Path) -> None:
    brief = search_tools(source, brief=True)

    assert [tool.spec for tool in brief] == [tool.spec for tool in standard_tools(source)[-2:]]
    assert all(one.spec != other.spec for one, other in zip(brief, search_tools(source), strict=True))


def test_lines_around_a_match_and_its_case(source: Path) -> None:
    call = called(source)

    found = call("Grep", pattern="milk", path="src", case_insensitive=True, context_before=1, context_after=1)
    assert found.splitlines() == [
        "src/deep/made.py-1- one",
        "src/deep/made.py:2: Milk",
        "src/deep/made.py-3- three",
        "src/deep/made.py:4: milk",
        "src/deep/made.py-5- five",
    ]
    assert call("Grep", pattern="MILK", output_mode="count", case_insensitive=True).splitlines() == [
        "a.py:1",
        "keep.log:1",
        "src/deep/made.py:2",
    ]
    assert call("Grep", pattern="milk", glob="*.{log,txt}") == "keep.log:1: milk"
    assert call("Grep", pattern="milk", glob="src/**/*.py") == "src/deep/made.py:4: milk"
    assert call("Grep", pattern="milk", glob="{a,b}{c,d}" * 6).startswith("Error: invalid pattern: ")


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("*a" * 12 + "b", "a" * 250),
        ("**/" + "*/**/a/" * 12 + "b", "a/" * 100 + "a"),
        ("/x" + "**/a/**/" * 12 + "b", "x/" + "a/" * 100 + "a"),
        ("a**/" + "?*[a]" * 12 + "b", "a/" + "a" * 250),
    ],
)
def test_no_pattern_of_git_takes_for_ever(tmp_path: Path, pattern: str, name: str) -> None:
    """Tried in all ways, one line in a tree of somebody else's stopped the program for longer than anybody lives."""
    tree(tmp_path, _dot_gitignore=f"{pattern}\n")
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("milk\n")

    assert called(tmp_path)("Glob", pattern="**") == name


def test_what_is_more_than_fits_is_read_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever goes on as told has seen all of it, once."""
    monkeypatch.setattr(files, "LISTED", 3)
    for number in range(8):
        (tmp_path / f"{number}.txt").write_text("yes\nno\nyes\n")
    call = called(tmp_path)

    def pages(name: str, **arguments: Any) -> list[str]:
        seen, offset = list[str](), 0
        while True:
            *lines, last = call(name, offset=offset, **arguments).splitlines()
            seen += lines
            if "offset=" not in last:
                return [*seen, last]
            offset = int(last.rpartition("offset=")[2].rstrip("]"))

    assert pages("Glob", pattern="*") == [f"{number}.txt" for number in range(8)]
    lines = pages("Grep", pattern="yes", max_results=3)
    assert lines == [f"{number}.txt:{line}: yes" for number in range(8) for line in (1, 3)]
    around = pages("Grep", pattern="yes", max_results=3, context_before=1)
    assert [line for line in around if ": " in line] == lines
    assert pages("Grep", pattern="yes", max_results=3, output_mode="count") == [f"{n}.txt:2" for n in range(8)]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"max_results": 0}, "max_results is 0, and has to be 1 or more, 1000 at most"),
        ({"offset": -1}, "offset is -1, and has to be 0 or more"),
        ({"context_before": 21}, "context_before is 21, and has to be 0 or more, 20 at most"),
        ({"context_after": -1}, "context_after is -1"),
        ({"path": "nowhere"}, "no such file: nowhere"),
        ({"path": "../x"}, "outside the working directory"),
    ],
)
def test_arguments_that_can_not_be_meant(tmp_path: Path, arguments: dict[str, Any], problem: str) -> None:
    assert problem in called(tmp_path)("Grep", pattern="x", **arguments)


def test_links_are_not_followed(tmp_path: Path) -> None:
    """Grep searches what they lead to where it stands; out of the directory nothing is searched."""
    root = tree(tmp_path / "desk", a_dot_txt="milk\n", inner__b_dot_txt="milk\n")
    (tmp_path / "secret.txt").write_text("milk\n")
    (root / "link.txt").symlink_to("a.txt")
    (root / "folder").symlink_to("inner")
    (root / "out.txt").symlink_to(tmp_path / "secret.txt")
    (root / ".gitignore").symlink_to(tmp_path / "secret.txt")

    assert called(root)("Grep", pattern="milk") == "a.txt:1: milk\ninner/b.txt:1: milk"


def test_files_that_are_no_text_are_skipped_and_what_has_no_line_has_no_match(tmp_path: Path) -> None:
    (tmp_path / "picture.png").write_bytes(b"milk\0" * 9)
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "one.txt").write_text("milk\n")
    (tmp_path / "latin.txt").write_bytes(b"milk \xe9\n")
    call = called(tmp_path)

    assert call("Grep", pattern="m.lk") == "latin.txt:1: milk �\none.txt:1: milk"
    assert call("Grep", pattern="^$") == "No lines match."


def test_a_mark_before_a_text_is_no_part_of_its_first_line(tmp_path: Path) -> None:
    (tmp_path / "marked.cs").write_bytes(b"\xef\xbb\xbfusing Milk;\n")
    (tmp_path / "only.txt").write_bytes(b"\xef\xbb\xbf\n")
    call = called(tmp_path)

    for pattern in ("^using", "(^|;)using", "using", r"\Ausing"):
        assert call("Grep", pattern=pattern) == "marked.cs:1: using Milk;"
    assert call("Grep", pattern="^$", output_mode="count") == "only.txt:1"


def test_a_search_that_ripgrep_can_not_do_is_done_without(tmp_path: Path) -> None:
    """Expressions of Python's own, and texts that are no argument of a program."""
    tree(tmp_path, a_dot_txt="aa bc\n")
    call = called(tmp_path)

    for pattern in (r"(a)\1", "a(?= b)", r"(?P<x>a)a", r"\Aaa", "a{2} b"):
        assert call("Grep", pattern=pattern) == "a.txt:1: aa bc"
    assert call("Grep", pattern="a\0a") == "No lines match."
    assert call("Grep", pattern="a\naa") == "No lines match."


# --------------------------------------------------------------------------------------------- as git reads patterns

NAMES = ["a", "b", "ab", "a.b", "x y", "[a]", "-", "!a", "#a", "a\\b", "foo ", "é", "b.txt", ".h", "a]"]
ATOMS = [
    *r"a b ab * ** ? / / [ab] [!a] [^b] [a-c] []a] [ ] \ \* ! # . *.b [[:alpha:]] [[:digit:]] foo é -".split(),
    *r"[a- [a\]] *** **/ /** {a,b} [z-a] [--a] [[:x:]] [[:a] a/b /a b/".split(),
    *(" ", "\\ ", "x y"),
]

names = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map("/".join)
patterns = st.lists(st.lists(st.sampled_from(ATOMS), min_size=1, max_size=5).map("".join), max_size=4).map("\n".join)


def grown(root: Path, paths: list[str]) -> None:
    for path in paths:
        try:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).touch()
        except OSError:  # a name is a file's and a folder's
            continue


def judged(root: Path) -> dict[str, bool]:
    """Each path of a tree, and whether it is ignored; what lies in a folder that is, is not judged."""
    found: dict[str, bool] = {}

    def into(folder: int, prefix: str, above: ignoring.Level | None) -> None:
        inner = {entry.name: entry.is_dir() for entry in os.scandir(folder)}
        level = ignoring.enter_folder(folder, prefix, above, set(inner))
        for name, is_folder in inner.items():
            if name == ".git":
                continue
            found[prefix + name] = level.verdict(prefix + name, name, is_folder) is True
            if is_folder and not found[prefix + name]:
                below = os.open(name, os.O_RDONLY, dir_fd=folder)
                into(below, f"{prefix}{name}/", level)
                os.close(below)

    top = os.open(root, os.O_RDONLY)
    into(top, "", None)
    os.close(top)
    return found


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    paths=st.lists(names, min_size=2, max_size=12),
    ignores=st.lists(st.tuples(st.integers(0, 9), patterns), min_size=1, max_size=4),
    exclude=st.sampled_from(["", "a\n", "*.b\n", "/b/\n", "!a\n"]),
)
@example(paths=["a/b", "b"], ignores=[(0, "a/**\n!a/b\r\n# b\n\\b")], exclude="")
@example(paths=["a/x/b/a", "ab", "a.b/b", "b/b/ab", "b/a"], ignores=[(0, "/a**/b\n/b/a**")], exclude="")
@example(paths=["ab/a/b", "b.txt/b"], ignores=[(0, "a?**/b\n[b]**/b\n\\b**/b")], exclude="")
def test_what_is_ignored_is_what_git_ignores(
    paths: list[str], ignores: list[tuple[int, str]], exclude: str, scout: str
) -> None:
    """Random trees and random patterns, in each folder its own, beside ``git check-ignore``."""
    with TemporaryDirectory() as name:
        root = Path(name)
        environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        subprocess.run(["git", "init", "-q", name], check=True, env=environ)
        grown(root, paths)
        folders = sorted(str(path) for path in [root, *root.rglob("*")] if path.is_dir() and ".git" not in path.parts)
        for place, text in ignores:
            Path(folders[place % len(folders)], ".gitignore").write_text(text)
        (root / ".git" / "info").mkdir(exist_ok=True)
        (root / ".git" / "info" / "exclude").write_text(exclude)
        found = judged(root)
        command = ["git", "-C", name, "check-ignore", "--no-index", "-z", "--stdin"]
        asked = "\0".join(found).encode()
        told = subprocess.run(command, input=asked, stdout=subprocess.PIPE, env=environ, check=False).stdout
        assert {path for path, ignored in found.items() if ignored} == set(told.decode().split("\0")) - {""}


# ------------------------------------------------------------------------------------------------- as without ripgrep

WORDS = ["milk", "Milk", "mılk", "MİLK", "a1", "_x", "é", "ſ", "K", " ", "\t", "\x1c", "\r", "\0"]
WORDS += ["\xa0", "٣", "{", "\\"]
lines = st.lists(st.lists(st.sampled_from(WORDS), max_size=5).map("".join), max_size=6).map("\n".join)
PLAIN_NAMES = ["a", "b", "ab", "a.b", "x y", ".h", "é", "b.txt"]
PLAIN_ATOMS = ["a", "b", "ab", "*", "**/", "/", "?", "[ab]", "[!a]", "!", "*.b", "/**", ".h", "a/", "/b"]
TEXTS = ["milk", "MILK", "ı", "é", "a1", "K", "S", "a{1}"]
EXPRESSIONS = [
    r"\w+k",
    r"\d",
    r"^\s",
    r"\s$",
    "[^a-z]",
    "m.lk",
    "a?",
    "^$",
    r"\bx\b",
    r"(m|M)ilk",
    r"\{",
    "(?:a|_)",
    ".",
]
OTHERS = ["(?:a|_)", "[a-z]k", "m[^i]?lk", r"x[\s]", r"[\w]{2,3}k", r"\\", r"(\w)\1", "[a&&b]", "[[a]", r"\<a", "(a|"]
wanted = st.sampled_from([*TEXTS, *EXPRESSIONS, *OTHERS])


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    contents=st.dictionaries(
        st.lists(st.sampled_from(PLAIN_NAMES), min_size=1, max_size=3).map("/".join), lines, max_size=6
    ),
    ignores=st.lists(
        st.tuples(
            st.integers(0, 9),
            st.lists(st.lists(st.sampled_from(PLAIN_ATOMS), min_size=1, max_size=3).map("".join), max_size=3),
        ),
        max_size=3,
    ),
    pattern=wanted,
    path=st.sampled_from([None, "a", "a/b", "*/b", "**/*.b", ".h"]),
    options=st.fixed_dictionaries(
        {
            "case_insensitive": st.booleans(),
            "hidden": st.booleans(),
            "ignored": st.booleans(),
            "output_mode": st.sampled_from(["content", "files_with_matches", "count"]),
            "glob": st.sampled_from([None, "*.b", "a/*"]),
        }
    ),
    repository=st.sampled_from(["", "a"]),
)
def test_ripgrep_changes_no_answer(
    contents: dict[str, str],
    ignores: list[tuple[int, list[str]]],
    pattern: str,
    path: str | None,
    options: dict[str, Any],
    repository: str,
    scout: str,
) -> None:
    """To the letter, for texts beyond ASCII, odd characters, patterns of git and folders that are repositories."""
    with TemporaryDirectory() as name:
        root = Path(name)
        grown(root, list(contents))
        for one, text in contents.items():
            if (root / one).is_file():
                (root / one).write_text(text, newline="")
        if repository and (root / repository).is_dir():
            (root / repository / ".git").mkdir()
            (root / repository / ".git" / "milk").write_text("milk")
        folders = sorted(str(one) for one in [root, *root.rglob("*")] if one.is_dir() and ".git" not in one.parts)
        for place, texts in ignores:
            Path(folders[place % len(folders)], ".gitignore").write_text("\n".join(texts))
        call = called(root)
        with_it = call("Grep", pattern=pattern, path=path, **options)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ripgrep, "program", lambda _: None)
            without = call("Grep", pattern=pattern, path=path, **options)
        assert with_it == without


def test_ripgrep_is_asked_for_most_searches_and_named_files_only(tmp_path: Path, scout: str) -> None:
    """What it is asked for is not left to chance: these are the searches that models make."""
    tree(tmp_path, a_dot_txt="def main():\n", b_dot_txt="nothing\n")
    context: ToolContext[Any] = ToolContext(None)

    for pattern in (
        "main",
        r"def \w+\(",
        "^class .*Error",
        "TODO|FIXME",
        r"import (os|sys)",
        "[A-Z_]+ = ",
        r"\bmain\b",
    ):
        found = ripgrep.candidates(str(tmp_path), "", Query(pattern), context)
        assert (found is None) == (scout == "Python"), pattern
        assert found is None or set(found) <= {"a.txt"}


@pytest.mark.parametrize(
    ("pattern", "tame"),
    [
        ("milk", True),
        ("a.*b", True),
        (r"def \w+\(", True),
        ("(one|two) three", True),
        ("colou?r.+", True),
        ("(a+)+$", False),
        ("(a|aa)+$", False),
        ("a*a*b", False),
        (r"\\*\\*\\*b", False),
        ("(a|a)" * 9, False),
        (r"(a)\1", False),
        ("(?=a)", False),
        ("a?a?a?b", False),
    ],
)
def test_what_can_take_long_is_searched_for_elsewhere(pattern: str, tame: bool) -> None:
    """By a process that can be ended."""
    assert is_tame(pattern) == tame


def test_ripgrep_that_takes_too_long_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that is broken, or has gone by now."""
    tree(tmp_path / "desk", a_dot_txt="milk\n")
    for name, script in (("slow", "exec sleep 60"), ("broken", "exit 3"), ("unreadable", "echo no >&2; exit 2")):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o700)
        monkeypatch.setattr(ripgrep, "program", lambda _, program=program: str(program))
        monkeypatch.setattr(ripgrep, "SECONDS", 0.2)
        assert called(tmp_path / "desk")("Grep", pattern="milk") == "a.txt:1: milk"
    monkeypatch.setattr(ripgrep, "program", lambda _: str(tmp_path / "gone"))
    assert called(tmp_path / "desk")("Grep", pattern="milk") == "a.txt:1: milk"


def test_what_ripgrep_names_is_believed_of_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that leads out, a link, what is ignored, and what has no match."""
    root = tree(tmp_path / "desk", a_dot_txt="milk\n", b_dot_txt="no\n", c_dot_log="milk\n", _dot_gitignore="*.log\n")
    (tmp_path / "secret.txt").write_text("milk")
    (root / "link.txt").symlink_to(tmp_path / "secret.txt")
    program = tmp_path / "rg"
    lies = ["../secret.txt", "/etc/passwd", "link.txt", "b.txt", "c.log", "a.txt", ".git/x", "gone.txt", "a.txt/x", ""]
    program.write_text("#!/bin/sh\nprintf '" + "".join(f"./{lie}\\0" for lie in lies) + "'\n")
    program.chmod(0o700)
    monkeypatch.setattr(ripgrep, "program", lambda _: str(program))

    assert called(root)("Grep", pattern="milk") == "a.txt:1: milk"


PROGRAM = ripgrep.program
"""Before a test puts something in its place."""


def test_ripgrep_is_looked_for_in_absolute_directories_and_gets_no_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that a tree of source code brings is not run, and none is told what the environment holds."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "rg"
    program.write_text(f"#!/bin/sh\nenv > {tmp_path}/told\n")
    program.chmod(0o700)
    root = tree(tmp_path / "desk", a_dot_txt="milk\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-example")

    for path, expected in (("bin", None), ("", None), (f"bin:{tmp_path}/bin:/usr/bin:/bin", str(program))):
        monkeypatch.setenv("PATH", path)
        PROGRAM.cache_clear()
        found = PROGRAM(str(root))
        assert found == expected
    assert PROGRAM(str(tmp_path)) != str(program), "a command may have put it in the root"
    PROGRAM.cache_clear()
    monkeypatch.setattr(ripgrep, "program", lambda _: str(program))
    assert called(root)("Grep", pattern="milk") == "No lines match.", "this one names no file"
    assert "sk-example" not in (tmp_path / "told").read_text()
