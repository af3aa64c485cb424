"""The command line's tools: what they give, what they refuse, and that nothing leads out of their directory."""

import ast
import json
import math
import os
import re
import time
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from cognition import ConfigError
from interpreters import Tool, ToolContext, ToolError
from interpreters.toolbox import (
    _arithmetic as arithmetic,
    _search_tools as grep,
    line_search as search,
    root_directory as files,
    standard_tools,
)
from interpreters.toolbox._arithmetic import evaluate
from interpreters.toolbox._file_access import UNLIMITED
from interpreters.toolbox.root_directory import RootDirectory, Walk
from interpreters.tools.context import ToolCancelled

NOW = datetime(2026, 11, 21, 14, 5, 9, 123456)


class Box:
    """The tools of one directory, called by name; an error comes back as its text."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tools: dict[str, Tool[..., Any]] = {t.spec.name: t for t in standard_tools(root, now=lambda: NOW)}

    def __call__(self, name: str, **arguments: Any) -> str:
        try:
            return self.tools[name].call(arguments, ToolContext(None))
        except ToolError as error:
            return f"Error: {error}"


@pytest.fixture
def box(tmp_path: Path) -> Box:
    """A directory with some files, beside a secret that no tool may reach."""
    (tmp_path / "secret.txt").write_text("the secret milk")
    root = tmp_path / "desk"
    (root / "src" / "deep").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / "notes.txt").write_text("buy milk\n\ncall Ada (tomorrow)\n")
    (root / "src" / "a.py").write_text("import os\n\n\ndef milk():\n    return os\n")
    (root / "src" / "deep" / "b.py").write_text("milk = 1\n")
    (root / ".git" / "config").write_text("milk")
    (root / "image.bin").write_bytes(b"\x89PNG\0milk")
    (root / "latin.txt").write_bytes("caf\xe9 milk".encode("latin-1"))
    (root / "leak.txt").symlink_to(tmp_path / "secret.txt")
    (root / "up").symlink_to(tmp_path)
    (root / "inner.txt").symlink_to(root / "notes.txt")
    (root / "circle").symlink_to(root / "circle")
    os.mkfifo(root / "pipe")
    return Box(root)


def test_the_tools_are_the_ones_that_the_shipped_model_knows(box: Box) -> None:
    """Names, order, descriptions and schemas, to the letter: the model was trained on them."""

    def schema(*required: str, **properties: str) -> dict[str, Any]:
        kinds = {name: {"type": kind} for name, kind in properties.items()}
        needed = {"required": list(required)} if required else {}
        return {"type": "object", "properties": kinds, **needed}

    expected = [
        ("calculate", "Evaluate an arithmetic expression.", schema("expression", expression="string")),
        ("current_time", "Get the current date and time.", schema()),
        ("Read", "Read a text file.", schema("path", path="string")),
        ("Glob", "Find files by a glob pattern.", schema("pattern", pattern="string")),
        ("Grep", "Search files for a pattern.", schema("pattern", pattern="string", path="string")),
    ]
    specs = [tool.spec for tool in box.tools.values()]

    assert expected == [(spec.name, spec.description, spec.parameters) for spec in specs]
    assert all(spec.read_only and spec.idempotent and not spec.approval for spec in specs)


def test_tools_need_a_directory(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="need a directory"):
        standard_tools(tmp_path / "nowhere")


# -------------------------------------------------------------------------------------------------------- calculate

numbers = st.integers(0, 10**6).map(str) | st.floats(0, 1e6, allow_nan=False).map(repr)
expressions = st.recursive(
    numbers,
    lambda inner: (
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%"]), inner).map(" ".join)
        | inner.map("({})".format)
        | inner.map("-{}".format)
        | inner.map("abs({})".format)
        | st.tuples(inner, inner).map(lambda pair: f"max({pair[0]}, {pair[1]})")
    ),
    max_leaves=6,
)


@given(expression=expressions)
@example(expression="4 / 2.2250738585072014e-308")
def test_arithmetic_is_python_s(expression: str) -> None:
    """To ten digits, whole numbers in full; what has no value there has none here."""
    try:
        value = eval(compile(ast.parse(expression, mode="eval"), "", "eval"), {"abs": abs, "max": max})
        if not math.isfinite(value):  # a quotient overflows without an error
            raise OverflowError
    except ArithmeticError:
        with pytest.raises(ToolError):
            evaluate(expression)
        return

    assert (str(value) if isinstance(value, int) else f"{value:.10g}".replace("-0", "0", value == 0)) == evaluate(
        expression
    )


@given(text=st.text("0123456789.+-*/%()eE ,absqrtminxpoudl_'\"[]{}:=!<>&|~^@", max_size=40) | st.text(max_size=20))
def test_any_text_gives_a_number_or_an_error_at_once(text: str) -> None:
    """Never another exception, never a long computation."""
    try:
        value = evaluate(text)
    except ToolError:
        return
    assert re.fullmatch(r"-?\d+(\.\d+)?(e[+-]\d+)?", value)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("17 * 23", "391"),
        ("17 × 23 ÷ 2", "195.5"),
        ("1/3", "0.3333333333"),
        ("6/2", "3"),
        ("0.1 + 0.2", "0.3"),
        ("2**10 - 1", "1023"),
        ("-2**2", "-4"),
        ("2**-1", "0.5"),
        ("7 // 2 + 7 % 2", "4"),
        ("sqrt(16) + abs(-3)", "7"),
        ("round(2.567, 1)", "2.6"),
        ("min(3, 1, 2) + max(3)", "4"),
        ("2 * pi", "6.283185307"),
        ("e", "2.718281828"),
        ("1e3", "1000"),
        ("-0.0", "0"),
        ("2**100", "1267650600228229401496703205376"),
        ("  1 −1 ", "0"),
    ],
)
def test_calculate(box: Box, expression: str, expected: str) -> None:
    assert expected == box("calculate", expression=expression)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("9**9**9", "the number is too large"),
        ("(9**9)**(9**9)", "the number is too large"),
        ("10**5000", "the number is too large"),
        ("2.0**5000", "the number is too large"),
        ("1e400", "the number is too large"),
        ("9" * 400 + "*" + "9" * 90 + "**12", "the number is too large"),
        ("round(5, -10**9)", "the number is too large"),
        ("1/0", "division by zero"),
        ("0**-1", "division by zero"),
        ("sqrt(-1)", "cannot evaluate: sqrt(-1)"),
        ("(-8)**0.5", "cannot evaluate: (-8)**0.5"),
        ("min()", "cannot evaluate: min()"),
        ("2^3", "invalid expression: 2^3; write powers with **"),
        ("2 + ", "invalid expression: 2 + "),
        ("", "invalid expression: "),
        ("True", "invalid expression: True"),
        ("'a'*3", "invalid expression: 'a'*3"),
        ("__import__('os')", "invalid expression: __import__('os')"),
        ("pi.real", "invalid expression: pi.real"),
        ("max(*[1])", "invalid expression: max(*[1])"),
        ("1 if 2 else 3", "invalid expression: 1 if 2 else 3"),
        ("1and 2", "invalid expression: 1and 2"),
        ("0x1f", "invalid expression: 0x1f"),
        ("1 < 2", "invalid expression: 1 < 2"),
        ("17 23", "invalid expression: 17 23"),
        ("(" * 300, "invalid expression: " + "(" * 300),
    ],
)
def test_calculate_refuses(box: Box, expression: str, expected: str) -> None:
    """Each with the words that say what is wrong."""
    assert f"Error: {expected}" == box("calculate", expression=expression)


def test_a_long_expression_is_not_even_read(box: Box) -> None:
    assert box("calculate", expression="1+" * 10_000 + "1").startswith("Error: invalid expression: 1+1+")
    assert arithmetic.MAX_LENGTH < 1000


def test_the_time_is_local_and_to_the_second(box: Box) -> None:
    assert box("current_time") == "2026-11-21 14:05:09"


# ------------------------------------------------------------------------------------------------------------ paths

OUTSIDE = ("../secret.txt", "src/../../secret.txt", "leak.txt", "up/secret.txt", "up/desk/../secret.txt", "/etc/passwd")


@pytest.mark.parametrize("path", OUTSIDE)
def test_no_path_leads_out_of_the_directory(box: Box, path: str) -> None:
    """Neither ``..`` nor an absolute path nor a link, for any of the tools."""
    expected = f"Error: outside the working directory: {path}"

    assert expected == box("Read", path=path)
    assert expected == box("Grep", pattern="milk", path=path)


@given(
    parts=st.lists(st.sampled_from(["..", ".", "src", "up", "desk", "secret.txt", "leak.txt", "", "deep"]), max_size=6)
)
def test_no_combination_reads_the_secret(tmp_path_factory: pytest.TempPathFactory, parts: list[str]) -> None:
    base = tmp_path_factory.mktemp("base")
    (base / "secret.txt").write_text("secret")
    root = base / "desk"
    (root / "src" / "deep").mkdir(parents=True)
    (root / "up").symlink_to(base)
    (root / "leak.txt").symlink_to(base / "secret.txt")
    box, path = Box(root), "/".join(parts)

    for answer in (box("Read", path=path), box("Glob", pattern=path), box("Grep", pattern="secret", path=path)):
        assert "secret" not in answer.replace(path, "").replace("secret.txt", "")


def test_a_path_into_the_directory_may_be_absolute_or_a_link(box: Box) -> None:
    assert box("Read", path=str(box.root / "notes.txt")) == box("Read", path="inner.txt")
    assert box("Read", path="src/../notes.txt").startswith("buy milk")


# ------------------------------------------------------------------------------------------------------------- Read


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("note.txt", "no such file: note.txt; did you mean notes.txt?"),
        ("src/aa.py", "no such file: src/aa.py; did you mean src/a.py?"),
        ("nothing", "no such file: nothing"),
        ("no/where.txt", "no such file: no/where.txt"),
        ("src", "src is a directory"),
        ("", ". is a directory"),
        ("image.bin", "not a text file: image.bin"),
        ("latin.txt", "not a text file: latin.txt"),
        ("pipe", "not a text file: pipe"),
        ("a\0b", "no such file: a\0b"),
        ("x" * 300, "no such file: " + "x" * 300),
    ],
)
def test_read_says_why_it_can_not(box: Box, path: str, expected: str) -> None:
    """Also of a named pipe, which must not be waited for."""
    assert f"Error: {expected}" == box("Read", path=path)


def test_read_says_what_links_in_a_circle_are(box: Box) -> None:
    assert box("Read", path="circle").startswith("Error: ")


def test_a_file_that_is_not_permitted_says_so(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated, since the superuser may read everything."""

    def refuse(path: Any, flags: int) -> int:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(files.os, "open", refuse)

    assert box("Read", path="notes.txt") == "Error: permission denied: notes.txt"


def test_a_long_file_is_cut_with_a_line_that_says_so(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between characters, not within one."""
    monkeypatch.setattr(files, "READ_LIMIT", 5)
    (box.root / "long.txt").write_text("aéééé")
    (box.root / "fits.txt").write_text("aéé")

    assert box("Read", path="long.txt") == "aéé\n[cut here: 5 of 9 bytes]"
    (box.root / "long.txt").write_text("éééé")
    assert box("Read", path="long.txt") == "éé\n[cut here: 5 of 8 bytes]"
    assert box("Read", path="fits.txt") == "aéé"


def test_a_byte_order_mark_is_no_text(box: Box) -> None:
    (box.root / "bom.txt").write_bytes(b"\xef\xbb\xbfhello")

    assert box("Read", path="bom.txt") == "hello"


# ------------------------------------------------------------------------------------------------------------- Glob


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.txt", "inner.txt\nlatin.txt\nnotes.txt"),
        ("**/*.py", "src/a.py\nsrc/deep/b.py"),
        ("src/*", "src/a.py"),
        ("src/**", "src/a.py\nsrc/deep/b.py"),
        ("src/", "src/a.py\nsrc/deep/b.py"),
        ("./src/?.py", "src/a.py"),
        ("**/deep/**/[ab].py", "src/deep/b.py"),
        ("notes.txt", "notes.txt"),
        ("*.md", "No files match."),
        (".git/*", "No files match."),
        ("up/*", "No files match."),
        ("../*", "Error: outside the working directory: ../*"),
        ("/etc/*", "Error: outside the working directory: /etc/*"),
        ("", "Error: invalid pattern: "),
    ],
)
def test_glob(box: Box, pattern: str, expected: str) -> None:
    """Files only, sorted, relative; neither git's own nor what a link leads out to."""
    assert expected == box("Glob", pattern=pattern)


@given(
    parts=st.lists(st.sampled_from(["**", "*", "a", "b", "a*", "?", "[ab]"]), min_size=1, max_size=5),
    path=st.lists(st.sampled_from(["a", "b", "ab", "c"]), min_size=1, max_size=5),
)
def test_patterns_match_as_their_definition_says(parts: list[str], path: list[str]) -> None:
    """The automaton against the plain recursion: ``**`` is any number of names, others are one."""

    def matches(rest: list[str], names: list[str]) -> bool:
        if not rest:
            return not names
        if rest[0] == "**":
            return matches(rest[1:], names) or (bool(names) and matches(rest, names[1:]))
        return bool(names) and fnmatchcase(names[0], rest[0]) and matches(rest[1:], names[1:])

    walk = Walk(RootDirectory("."), tuple(parts), ToolContext(None), access=UNLIMITED)

    assert matches(parts, path) == walk.leads_to(path)


def test_a_pattern_of_many_stars_is_no_trap(tmp_path: Path) -> None:
    """A naive match of this takes longer than the universe is old."""
    directory = tmp_path
    for _ in range(12):
        directory = directory / ("a" * 20)
        directory.mkdir()

    assert Box(tmp_path)("Glob", pattern="**/" * 12 + "*a" * 12 + "b") == "No files match."


def test_many_files_are_cut_with_a_line_that_says_so(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LISTED", 2)
    assert box("Glob", pattern="*.txt") == "inner.txt\nlatin.txt\n[1 more files match; narrow the pattern]"
    monkeypatch.setattr(files, "VISITED", 3)
    assert "[stopped after 3 files and directories; narrow the search]" in box("Glob", pattern="**/*")


# ------------------------------------------------------------------------------------------------------------- Grep


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("buy milk", None, "notes.txt:1: buy milk"),
        ("milk", "src", "src/a.py:4: def milk():\nsrc/deep/b.py:1: milk = 1"),
        ("milk", "src/a.py", "src/a.py:4: def milk():"),
        ("milk", "**/*.py", "src/a.py:4: def milk():\nsrc/deep/b.py:1: milk = 1"),
        ("^(def|milk) ?", "src/", "src/a.py:4: def milk():\nsrc/deep/b.py:1: milk = 1"),
        (r"\(tomorrow\)$", "notes.txt", "notes.txt:3: call Ada (tomorrow)"),
        ("nowhere to be found", None, "No lines match."),
        ("x.z", None, "No lines match."),
        ("milk", "note.txt", "Error: no such file: note.txt; did you mean notes.txt?"),
        ("", None, "Error: invalid pattern: it is empty; to see what is in a file, read it"),
        ("x" * 1_001, None, f"Error: invalid pattern: {'x' * 80}... (it is longer than 1000 characters)"),
    ],
)
def test_grep(box: Box, pattern: str, path: str | None, expected: str) -> None:
    """Plain texts and regular expressions, everywhere, in a directory, a file, or what a pattern names."""
    assert expected == box("Grep", pattern=pattern, path=path)


def test_binary_files_and_other_directories_are_not_searched(box: Box) -> None:
    """Nor what links lead out to; a text in another encoding is, as far as it can be read."""
    found = box("Grep", pattern="milk")

    assert "latin.txt:1: caf� milk" in found
    assert not any(name in found for name in ("image.bin", ".git", "secret", "up/"))


@pytest.mark.parametrize("pattern", ["(", "[a", "*", "a{2,1}"])
def test_an_invalid_expression_is_an_error_that_says_where(box: Box, pattern: str) -> None:
    assert re.match(rf"Error: invalid pattern: {re.escape(pattern)} \(.+\)", box("Grep", pattern=pattern))


def test_an_endless_expression_is_ended(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found before is kept. (Plain ``re`` would be busy for 2**60 steps, deaf to everybody.)"""
    (box.root / "trap.txt").write_text("a" * 60 + "!\n")
    monkeypatch.setattr(search, "SECONDS", 0.0)
    monkeypatch.setattr(grep, "GRACE", 2.0)

    assert box("Grep", pattern="(a+)+$", path="trap.txt") == (
        "Error: the pattern takes too long: (a+)+$; use a simpler one"
    )


def test_a_cancellation_ends_a_search(box: Box) -> None:
    """Also one whose expression is at work."""
    (box.root / "trap.txt").write_text("a" * 60 + "!\n")
    context: ToolContext[Any] = ToolContext(None)
    context.cancel()

    for pattern in ("milk", "(a+)+$"):
        with pytest.raises(ToolCancelled):
            box.tools["Grep"].call({"pattern": pattern, "path": "trap.txt"}, context)


def test_what_is_cut_or_left_out_is_said(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines, characters, files, and time."""
    (box.root / "long.txt").write_text("start " + "x" * 2000 + " end\n" + "y\n" * 300)
    limited = "\n[lines of which only the first 1000 characters were searched: 1]"
    assert box("Grep", pattern="start", path="long.txt") == "long.txt:1: start " + "x" * 194 + "..."
    assert box("Grep", pattern=" end", path="long.txt") == "long.txt:1: ..." + "x" * 196 + " end"
    assert box("Grep", pattern="[s]tart", path="long.txt") == "long.txt:1: start " + "x" * 194 + "..." + limited
    assert box("Grep", pattern=" [e]nd", path="long.txt") == "No lines match." + limited
    assert box("Grep", pattern="y", path="long.txt").endswith("\n[more than 100 lines match; narrow the search]")
    monkeypatch.setattr(search, "FILE_LIMIT", 1000)
    assert box("Grep", pattern="y", path="long.txt") == (
        "No lines match.\n[files left out because they are larger than 1000 bytes: 1]"
    )
    times = iter(range(1000))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(times)))
    assert "[stopped after 5 seconds, in " in box("Grep", pattern="milk")


FORGED = [
    "b.txt\nsecret.txt:1: milk",
    "b.txt\rsecret.txt",
    "b.txt\x85secret.txt",
    "b.txt\u2028secret.txt",
    "b\u202etxt.exe",
    "b\x1b[2K.txt",
    "b\u200b.txt",
    '"b.txt"',
]
"""Names of files that would pass for another line, or for another name."""


@pytest.mark.parametrize("name", FORGED, ids=ascii)
def test_no_name_of_a_file_forges_a_line_or_another_name(name: str, tmp_path: Path) -> None:
    """It is written as JSON, which a model can repeat in a call; and so is the one that may have been meant."""
    path = tmp_path / f"{name}.txt" if "/" not in name else tmp_path / name
    path.write_text("milk")
    box = Box(tmp_path)
    written = box("Glob", pattern="*")

    assert written.splitlines() == [written]
    assert json.loads(written) == path.name
    assert box("Grep", pattern="milk") == f"{written}:1: milk"
    assert box("Read", path=json.loads(written)) == "milk"
    assert box("Read", path=path.name.replace(".txt", ".tx")).endswith(f"did you mean {written}?")


@pytest.mark.parametrize("name", ["b c.txt", "ä.txt", "日本.txt", "👨\u200d👩.txt", "a'b.txt", "$(x).txt"])
def test_names_that_are_what_they_seem_stay_as_they_are(name: str, tmp_path: Path) -> None:
    """Blanks, letters of any script and emoji need no quotes."""
    (tmp_path / name).write_text("milk")

    assert Box(tmp_path)("Glob", pattern="*") == name


@pytest.mark.parametrize("line_break", ["\r", "\v", "\f", "\x1c", "\x85", "\u2028", "\u2029"], ids=ascii)
def test_no_line_of_a_file_forges_a_line_of_the_result(line_break: str, tmp_path: Path) -> None:
    """What ends a line for others is shown in the text that was found."""
    (tmp_path / "a.txt").write_text(f"milk{line_break}secret.txt:1: more", newline="")
    found = Box(tmp_path)("Grep", pattern="milk")

    assert len(found.splitlines()) == 1
    assert found.startswith("a.txt:1: milk\\")
