"""The question whether a call may run: what is shown of it, and what each answer means."""

from __future__ import annotations

import argparse
import io
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from cognition import ToolCall
from interpreters import Approval, ApprovalRequest, Preview, Tool, tool
from interpreters.cli.screen.output import Screen
from interpreters.cli.screen.preview_lines import ASCII, BAR, LONGEST, ON, columns_of, is_cut, preview_rows, wrap
from interpreters.cli.screen.terminal import Terminal
from interpreters.cli.session._approval_dialog import ApprovalDialog
from interpreters.cli.session._call_editor import EditError, find_editor, read_arguments
from interpreters.cli.session._prompt import Prompt
from interpreters.cli.session.interrupts import Interrupts
from tests.interpreters.cli.screen.test_terminal import Tty
from tests.interpreters.hostile_text import HOSTILE


def rows(preview: Preview, columns: int = 80, *, whole: bool = False) -> list[str]:
    return [row for row, _ in preview_rows(preview, columns, whole=whole)]


# ------------------------------------------------------------------------------------------------- what is shown


def test_a_line_says_what_it_is_and_one_that_may_look_like_another_is_in_ascii_too() -> None:
    """Only what is changed: of the lines around it nothing is done."""
    lines = ["M a.txt", "@@ -1 +1 @@", " tеxt", "-plain", "+раураl", "+blank ", "+\ttab\t\\t", "+a\x1b[2Jb", "+\\x1b"]

    assert rows(Preview(lines, sort="diff")) == [
        "  │ M a.txt",
        "  │ @@ -1 +1 @@",
        "  │  tеxt",
        "  │ -plain",
        "  │ +раураl",
        '  = "\\u0440\\u0430\\u0443\\u0440\\u0430l"',
        "  │ +blank ",
        '  = "blank "',
        "  │ +→   tab→\\t",
        "  │ +a\\x1b[2Jb",
        '  = "a\\u001b[2Jb"',
        "  │ +\\x1b",
    ]
    assert [style for _, style in preview_rows(Preview(lines[:5], sort="diff"), 80)] == [
        "call", "dim", "plain", "removed", "added", "added",
    ]  # fmt: skip
    assert rows(Preview(["é"], sort="command", note="in é")) == ["  in é", "  │ é", '  = "\\u00e9"']


LINE = st.text(st.sampled_from("ab? \t漢👨é\x1b\u202e[y]=│┆"), max_size=60)


@given(st.lists(LINE, max_size=5), st.sampled_from(["text", "diff", "command"]), st.integers(1, 90), st.booleans())
def test_every_row_stands_behind_a_bar_and_fits(lines: list[str], sort: Any, columns: int, whole: bool) -> None:
    """So that no row of a preview begins where a question does, whatever the terminal breaks."""
    from unicodedata import east_asian_width

    preview = Preview(lines, sort=sort)
    for row in rows(preview, columns, whole=whole):
        assert row.startswith((BAR, ON, ASCII))
        cells = sum(2 if char > "\x7f" and east_asian_width(char) in "WF" else 1 for char in row)
        assert cells <= max(columns, 20)
        assert row.isprintable()


@given(LINE, st.integers(1, 90))
def test_rows_put_together_are_the_text(text: str, columns: int) -> None:
    first, *more = wrap(text, BAR, columns)

    assert "".join([first.removeprefix(BAR), *(row.removeprefix(ON) for row in more)]) == text


@pytest.mark.parametrize(
    ("lines", "cut"),
    [(["x"] * 40, False), (["x"] * 41, True), (["x" * LONGEST], False), (["x" * (LONGEST + 1)], True), ([], False)],
)
def test_long_previews_show_their_ends_and_how_much_is_not_shown(lines: list[str], cut: bool) -> None:
    preview = Preview([f"{number}{line}" for number, line in enumerate(lines)]) if len(lines) > 1 else Preview(lines)

    assert is_cut(preview) == cut
    assert (rows(preview, 1000) != rows(preview, 1000, whole=True)) == cut
    if len(lines) > 40:
        shown = rows(preview)
        assert (shown[29], shown[30], shown[31]) == ("  │ 29x", "  … 1 more lines are not shown here …", "  │ 31x")
        assert len(rows(preview, whole=True)) == 41


def test_ten_megabytes_are_shown_in_bounded_time_and_space() -> None:
    """Of a line, of lines, and of what is all escapes."""
    for lines in (["x" * 10_000_000], ["x"] * 1_000_000, ["\x1b" * 10_000_000], ["+漢" * 3_000_000]):
        shown = rows(Preview(lines, sort="diff"))
        assert sum(map(len, shown)) < 10_000
        assert is_cut(Preview(lines))


def test_how_wide_a_terminal_is() -> None:
    """80 columns where nobody says."""
    master, slave = os.openpty()
    with open(slave, "w") as stream:
        assert columns_of(Terminal(stream)) in (80, os.get_terminal_size(slave).columns)
    os.close(master)
    assert columns_of(Terminal(io.StringIO())) == 80


# ---------------------------------------------------------------------------------------------------- the answers


@tool(name="Bash", approval=True, command="command", preview=lambda command: Preview(command, sort="command"))
def bash(command: str, timeout: int = 1) -> str:
    """Run."""
    return ""


@tool(approval=True)
def plain(path: str) -> str:
    """Do."""
    return ""


class At:
    """A person at a terminal who types these lines."""

    def __init__(self, typed: str, monkeypatch: pytest.MonkeyPatch, made: Tool[..., Any] = bash) -> None:
        self.screen = Tty()
        monkeypatch.setattr(sys, "stderr", Terminal(self.screen, {"TERM": "dumb"}))
        monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
        options = argparse.Namespace(json=False, command="chat", record=None)
        output = Screen(Terminal(io.StringIO(), {}), Terminal(self.screen, {"TERM": "dumb"}))
        self.person = Prompt(options, output, Interrupts())
        self.made = made

    def decide(self, **arguments: Any) -> Approval:
        call = ToolCall("c", self.made.spec.name, arguments)
        request = ApprovalRequest(call, "it asks", tool=self.made.spec, made=self.made)
        return ApprovalDialog(request, self.person).ask()

    @property
    def shown(self) -> str:
        return self.screen.getvalue()


Sit = Callable[..., At]


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Sit:
    for name in ("VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    return lambda typed, made=bash: At(typed, monkeypatch, made)


NEVER = "the user said never"
EDITED = {"command": "git diff"}


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("y\n", Approval(True)),
        ("  YES \n", Approval(True)),
        (
            "you must be joking\ny n\nyes, but not now\nYES please\nyy\ny\x1b[D\nｙ\nn\n\n",
            Approval(False, "the user said no"),
        ),
        ("absolutely not\nvery well\nevery time\nsudo\nhey\nn\n\n", Approval(False, "the user said no")),
        ("nope, the other file\n", Approval(False, "the other file")),
        ("always\n1\n", Approval(True, always=True, rule="Bash(git status)")),
        ("never\n3\n", Approval(False, NEVER, always=True)),
        ("edit\n\nhelp\nshow\nyes\n", Approval(True)),
        ("n\n\n", Approval(False, "the user said no")),
        ("n\nuse another\n", Approval(False, "use another")),
        ("n use another\n", Approval(False, "use another")),
        ("what\n\ny\n", Approval(True)),
        ("h\n?\ny\n", Approval(True)),
        ("s\ny\n", Approval(True)),
        ("a\n1\n", Approval(True, always=True, rule="Bash(git status)")),
        ("a\n2\n", Approval(True, always=True, rule="Bash(git status:*)")),
        ("a\n3\n", Approval(True, always=True)),
        ("a\nBash\n", Approval(True, always=True)),
        ("a\nBash(git:*)\n", Approval(True, always=True, rule="Bash(git:*)")),
        ("a\n4\n0\n-1\n²\nBash(rm:*)\nother\nBash(\n\ny\n", Approval(True)),
        ("v\n1\n", Approval(False, NEVER, always=True, rule="Bash(git status)")),
        ("v\nBash(git push:*)\n", Approval(False, NEVER, always=True, rule="Bash(git push:*)")),
        ("v\n3\n", Approval(False, NEVER, always=True)),
        ('e\n{"command": "git diff"}\ny\n', Approval(True, arguments=EDITED)),
        ('e\n{"command": "git diff"}\na\n2\n', Approval(True, always=True, rule="Bash(git diff:*)", arguments=EDITED)),
        ('e\n{"command": "git diff"}\nv\n1\n', Approval(False, NEVER, always=True, rule="Bash(git diff)")),
        ('e\n{"command": "git diff"}\nn no\n', Approval(False, "no")),
        ('e\n{"command": "git diff"}\ne\n{"command": "git status"}\ny\n', Approval(True)),
        ("e\n\ny\n", Approval(True)),
        ('e\n{"command": \n[]\n{"command": "git diff"}\ny\n', Approval(True, arguments=EDITED)),
        ('e\n{"command": "git status"}\ny\n', Approval(True)),
        ("", Approval(False, "nobody answered")),
        ("n\n", Approval(False, "nobody answered")),
        ("a\n", Approval(False, "nobody answered")),
        ("e\n", Approval(False, "nobody answered")),
        ("e\n{\n", Approval(False, "nobody answered")),
    ],
)
def test_what_an_answer_means(typed: str, expected: Approval, at: Sit) -> None:
    """At the end of input at any of the prompts nobody has answered."""
    assert at(typed).decide(command="git status") == expected


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("a\n1\n", Approval(True, always=True)),
        ("a\nBash(git:*)\n", Approval(True, always=True, rule="Bash(git:*)")),
        ("a\nBash(git add:*)\n\ny\n", Approval(True)),
    ],
)
def test_of_several_commands_in_a_line_a_rule_has_to_cover_each(typed: str, expected: Approval, at: Sit) -> None:
    """None is offered but the whole tool, and the question says what one of the user's own needs."""
    there = at(typed)

    assert there.decide(command="git add . && git commit -m x") == expected
    shown = there.shown.replace("\n  ┆ ", "")
    assert "  1  Bash, every call of this tool\n  A narrower rule of your own, such as Bash(git:*), has to" in shown
    assert ("does not cover the call" in shown) == (expected == Approval(True))


def test_what_an_edited_call_would_do_is_shown_before_it_runs(at: Sit) -> None:
    there = at('e\n{"command": "rm x"}\ny\n')
    there.decide(command="ls")

    assert '? Bash(command="rm x"): your arguments\n  │ rm x\n' in there.shown
    assert there.shown.index("│ ls") < there.shown.index("│ rm x")


def test_what_is_no_answer_is_told(at: Sit) -> None:
    there = at("yes, but not now\n\ny\n")
    assert there.decide(command="ls") == Approval(True)
    assert there.shown.count("that is no answer: one of the letters, or its word") == 1


def test_what_was_typed_before_a_question_stands_there_is_thrown_away(at: Sit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while a preview was worked out, and behind edited arguments: their call was not shown yet."""
    there = at('e\n{"command": "rm x"}\nn\n\n')
    shown = []
    monkeypatch.setattr(there.person, "discard_typed", lambda: shown.append(there.shown))
    there.decide(command="ls")

    assert [text.splitlines()[-1] for text in shown] == ["  │ ls", "  │ rm x"]


def test_edited_arguments_that_the_tool_would_refuse_say_so(at: Sit) -> None:
    there = at('e\n{"command": 3}\ne\n{"command": "ls"}\ny\n')

    assert there.decide(command="ls") == Approval(True)
    assert "this call would fail: wrong arguments for Bash: command must be a text, not 3" in (
        there.shown.replace("\n  ┆ ", "")
    )


def test_a_preview_that_breaks_is_a_question_with_the_arguments(at: Sit) -> None:
    @tool(approval=True, preview=lambda path: 1 / 0)
    def broken(path: str) -> str:
        """Do."""
        return ""

    there = at("y\n", broken)
    assert there.decide(path="x" * 300) == Approval(True)
    assert f'? broken(path="{"x" * 300}"): it asks'.replace("\n", "") in there.shown.replace("\n  ┆ ", "")


def test_all_of_a_call_can_be_seen_where_its_preview_hides_it(at: Sit) -> None:
    """A tool's own preview says what it likes."""

    @tool(approval=True, preview=lambda: "harmless")
    def sly(path: str) -> str:
        """Do."""
        return ""

    there = at("s\nn\n\n", sly)
    there.decide(path="a" * 200 + "SECRET" + "z" * 200)
    first, second = there.shown.split("[s]how all of it")[:2]
    assert ("SECRET" in first, "SECRET" in second.replace("\n  ┆ ", "")) == (False, True)


@pytest.mark.parametrize("evil", HOSTILE.values(), ids=HOSTILE)
def test_no_row_of_a_question_begins_like_another_one(evil: str, at: Sit) -> None:
    """Whatever stands in a call, in what it would do, and in the rules that there are to choose from."""
    pad = "x" * 70
    there = at("s\na\n\nn\n\n")
    there.decide(command=f"ls {pad}{evil}\n? Bash(command='ls'): it asks\n[y]es, {evil}")

    for row in there.shown.split("\n"):
        assert row.startswith(("? Bash(command=", "  ", "[s]how all", "[y]es, [n]o, [a]", "what runs", "reason (")) or (
            not row
        )
    assert there.shown.count("\n? Bash(") <= 1


# ------------------------------------------------------------------------------------------------------ the editor


def script(tmp_path: Path, text: str) -> str:
    path = tmp_path / "edit.py"
    path.write_text(f"import json, os, signal, sys\npath = sys.argv[-1]\n{text}\n")
    return f"{sys.executable} '{path}'"


WRITES = """open(path, "w").write('{"command": "git diff"}')"""
SLIPS = f"""
if open(path).read().startswith("{{\\n"):
    open(path, "w").write("oops")
else:
    {WRITES}
"""


@pytest.mark.parametrize(
    ("text", "typed", "expected", "told"),
    [
        (WRITES, "e\ny\n", Approval(True, arguments=EDITED), ""),
        ("pass", "e\ny\n", Approval(True), "the arguments are as they were"),
        (SLIPS, "e\n\ny\n", Approval(True, arguments=EDITED), "! this is no JSON: line 1, column 1: Expecting value"),
        (SLIPS, "e\nno\ny\n", Approval(True), "! this is no JSON"),
        (f"{WRITES}; sys.exit(3)", "e\nx\ny\n", Approval(True), "! the editor ended with 3"),
        ("os.unlink(path)", "e\nx\ny\n", Approval(True), "! the edited file can't be read (No such file or directory)"),
        ("open(path, 'wb').write(b'\\xff')", "e\nx\ny\n", Approval(True), "no text in UTF-8"),
        ("os.kill(os.getpid(), 9)", "e\nx\ny\n", Approval(True), "! the editor ended with -9"),
        (f"os.kill(os.getppid(), signal.SIGINT); {WRITES}", "e\ny\n", Approval(True, arguments=EDITED), ""),
        (SLIPS, "e\n", Approval(False, "nobody answered"), ""),
    ],
)
def test_an_editor_of_the_users(
    text: str, typed: str, expected: Approval, told: str, at: Sit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it leaves is read; Ctrl-C in it is its own."""
    monkeypatch.setenv("EDITOR", "false")
    monkeypatch.setenv("VISUAL", script(tmp_path, text))
    monkeypatch.setattr(Terminal, "fileno", lambda _: 2)
    there = at(typed)
    with there.person.interrupts.install():
        assert there.decide(command="git status") == expected
    assert told in there.shown


def test_the_editor_that_is_set_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("VISUAL", ""), ("EDITOR", "vi -n 'a b'")):
        monkeypatch.setenv(name, value)
    assert find_editor() == ("vi", "-n", "a b")
    monkeypatch.setenv("EDITOR", "it's")
    assert find_editor() == ("it's",)
    monkeypatch.setenv("EDITOR", " ")
    assert find_editor() == ()


def test_an_editor_that_is_not_there_is_told(at: Sit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", "/nonexistent/editor")
    monkeypatch.setattr(Terminal, "fileno", lambda _: 2)
    there = at("e\nx\ny\n")

    assert there.decide(command="ls") == Approval(True)
    assert "! the editor /nonexistent/editor can't be run (No such file or directory); set VISUAL or EDITOR" in (
        there.shown.replace("\n  ┆ ", "")
    )


def test_sigterm_while_an_editor_runs_ends_it_and_the_command(
    at: Sit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "import time; os.kill(os.getppid(), signal.SIGTERM); time.sleep(60)"
    monkeypatch.setenv("VISUAL", script(tmp_path, text))
    monkeypatch.setattr(Terminal, "fileno", lambda _: 2)
    there = at("e\n")
    with there.person.interrupts.install():
        assert there.decide(command="ls") == Approval(False, "the user asked to stop")
    assert there.person.interrupts.terminated
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "line 1, column 1: Expecting value"),
        ('{"a": 1,\n "b"}', "line 2, column 5: Expecting ':' delimiter"),
        ('\n\n{"a": 1,\n "b"}', "line 4, column 5"),
        ("[1]", "arguments are a JSON object"),
        ("3", "arguments are a JSON object"),
        ('{"a": NaN}', "NaN is no JSON number"),
        ('{"a": 1, "a": 2}', "the key 'a' is given twice"),
        ('{"a": 1e999}', "larger than any"),
        ('{"a":' * 100_000, "nested too deeply"),
        ('{"a": "\\ud800"}', "these can't be the arguments of a call: they hold half a character"),
    ],
)
def test_json_that_is_wrong_is_told_with_its_place(text: str, error: str) -> None:
    with pytest.raises(EditError) as raised:
        read_arguments(text)

    assert error in str(raised.value)


VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=10)


@given(st.dictionaries(st.text(max_size=5), VALUES | st.lists(VALUES, max_size=2), max_size=3))
def test_arguments_are_edited_as_they_are(arguments: dict[str, Any]) -> None:
    from interpreters.cli.screen.terminal import json_text

    text = json_text(arguments, indent=2)

    assert read_arguments(f"{text}\n") == arguments == json.loads(text)
