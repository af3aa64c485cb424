"""What docs/guides/policy.md says of command lines: which commands are read from one, and what nobody can say of one.

A word that the shell or a program puts together itself is None. What is read is at least what is run: so each row says
all of it, in the order in which it is found.
"""

from __future__ import annotations

import pytest

from cognition.policy import _command_patterns, _programs
from cognition.policy._command import Command
from cognition.policy._shell import DEEPEST, LONGEST, read_commands, read_words
from tests.cognition.naming import case_name

Read = list[tuple[str | None, ...]]

WORDS: tuple[tuple[str, Read], ...] = (
    ("ls é", [("ls", "é")]),
    ("echo 'a' b 'c'", [("echo", "a", "b", "c")]),
    ("echo ''", [("echo", "")]),
    ('echo "a\\$b"', [("echo", "a$b")]),
    ('echo "\\`a\\`"', [("echo", "`a`")]),
    ('echo "a\\\\"', [("echo", "a\\")]),
    ('echo "a\\\nb"', [("echo", "ab")]),
    ('echo "\\xy"', [("echo", "\\xy")]),
    ("sed s/a$// f", [("sed", "s/a$//", "f")]),
    ('echo *"a"', [("echo", None)]),
    ("echo $X$", [("echo", None)]),
    ('echo "$X$"', [("echo", None)]),
    ("echo {a,b}", [("echo", None)]),
    ("echo PAGER=$X", [("echo", None)]),
)
"""Words after quotes and escapes."""

LINES: tuple[tuple[str, Read], ...] = (
    ("then ls", [("ls",)]),
    ("echo `ls`", [("ls",), ("echo", None)]),
    ("echo `a` `b`", [("a",), ("b",), ("echo", None, None)]),
    ("echo ``", [("echo", None)]),
    ("echo $(ls)", [("ls",), ("echo", None)]),
    ("cat <(ls)", [("ls",), ("cat", None)]),
    ("cat <(ls)x", [("ls",), ("cat", None)]),
    ("cat <(ls)$X", [("ls",), ("cat", None)]),
)
"""Commands within commands."""

REDIRECTED: tuple[tuple[str, Read], ...] = (
    ("ls 2>&-", [("ls",)]),
    ("cat <&3", [("cat",)]),
    ("cat <<< x", [("cat",)]),
    ("cat <& x", [("<", "x"), ("cat",)]),
    ("cd d; cat < x", [("cd", "d"), ("<", "x"), ("cat",), ("<", None)]),
    ("cd d; cat < ~/x", [("cd", "d"), ("<", "~/x"), ("cat",), ("<", "~/x")]),
)
"""A redirection is a command of its own name; of descriptors and of a text it is none."""

SET: tuple[tuple[str, Read], ...] = (
    ("PAG\\\nER='less x' git log", [("less", "x"), ("git", "log")]),
    ("PAGERX='less x' git log", [("git", "log")]),
    ("if ! A=1 ls PAGER=less", [("ls", "PAGER=less")]),
    ("ls PAGER=less", [("ls", "PAGER=less")]),
    ("env ls PAGER=less", [("env", "ls", "PAGER=less"), ("ls", "PAGER=less")]),
    ("timeout -s PAGER=less 5 ls", [("timeout", "-s", "PAGER=less", "5", "ls"), ("ls",)]),
    ("export EDITOR='nano x'", [("export", "EDITOR=nano x"), ("nano", "x")]),
)
"""Variables that hold command lines, and what only looks like one."""

CARRIED: tuple[tuple[str, Read], ...] = (
    ("nohup - ls", [("nohup", "-", "ls"), ("-", "ls")]),
    ("xargs -0 -r -I % echo %", [("xargs", "-0", "-r", "-I", "%", "echo", "%"), ("echo", "%", None)]),
    ("find . -exec echo {} x \\;", [("find", ".", "-exec", "echo", "{}", "x", ";"), ("echo", None, "x")]),
    ("find . -exec echo + {} \\;", [("find", ".", "-exec", "echo", "+", "{}", ";"), ("echo", "+", None)]),
    ("find . -exec env ls \\;", [("find", ".", "-exec", "env", "ls", ";"), ("env", "ls"), ("ls",)]),
    ("find . -exec env ls {} \\;", [("find", ".", "-exec", "env", "ls", "{}", ";"), ("env", "ls", None), ("ls", None)]),
    ("tar", [("tar",)]),
    ("tar ./Files", [("tar", "./Files")]),
    ("tar ./Files x", [("tar", "./Files", "x")]),
)
"""Commands in the arguments of others, and arguments that are none."""


@pytest.mark.parametrize(("line", "expected"), [*WORDS, *LINES, *REDIRECTED, *SET, *CARRIED], ids=case_name)
def test_a_line_is_read_as_all_the_commands_that_it_runs(line: str, expected: Read) -> None:
    found = read_commands(line)

    assert found is not None
    assert [command.words for command in found] == expected


@pytest.mark.parametrize(
    "line",
    [
        # The grammar of the shell
        "a ;; b",
        "a ;& b",
        "((1))",
        "true; ((1))",
        "> a ! ls",
        "> a if ls; true",
        "> a ! > b ls",
        "{; ls",
        "$'\\x63url' x",
        "echo `a\\b`",
        # Programs whose name is put in, or that load others
        "{} x",
        "/lib/ld-linux.so.2 ls",
        "'export' PAGER=$X",
        # Shells that read their commands from their input, and code in arguments
        "bash - x.sh",
        "xargs bash x.sh",
        "python3.11 -c 'import os'",
        "sqlite3 x '.shell less'",
        "sqlite3 x '.system less'",
        "awk $X f",
        "sed $X f",
        # Options by which programs run others
        "tar xI",
        "tar xIf less a.tar",
        "rsync -essh a b",
    ],
    ids=case_name,
)
def test_of_some_lines_nobody_can_say_what_they_run(line: str) -> None:
    assert read_commands(line) is None


def test_a_line_is_read_up_to_its_longest() -> None:
    line = "ls " + "x" * (LONGEST - 3)

    assert read_commands(line) == (Command(("ls", line[3:]), "ls"),)
    assert read_commands(line + "x") is None


@pytest.mark.parametrize(
    ("before", "behind", "deepest"),
    [
        ("( ", ")", DEEPEST - 1),
        ("echo $(", ")", DEEPEST - 1),
        ("(ls) & ( ", ")", DEEPEST - 1),
        ("env ", "", DEEPEST),
        ("env A=1 ", "", DEEPEST),
    ],
    ids=case_name,
)
def test_commands_are_read_so_deep_and_no_deeper(before: str, behind: str, deepest: int) -> None:
    """The line itself is the first of the commands within each other, where it is more than words with spaces."""
    read = [read_commands(before * times + "ls" + behind * times) is not None for times in range(3 * DEEPEST)]

    assert read == [times <= deepest for times in range(3 * DEEPEST)]


def test_how_deep_a_command_stands_has_nothing_to_do_with_what_stands_beside_it() -> None:
    within = "( " * (DEEPEST - 2), ")" * (DEEPEST - 2)

    for line, does in (("(ls); (ls)", True), ("(ls); ( (ls))", False), ("( (ls)); (ls)", False)):
        assert (read_commands(line.join(within)) is not None) is does
    assert read_commands("(ls); " * 3 * DEEPEST) is not None


@pytest.mark.parametrize(("carriers", "does"), [(DEEPEST - 2, True), (DEEPEST - 1, False)])
def test_what_find_runs_is_within_it(carriers: int, does: bool) -> None:
    assert (read_commands(f"find . -exec {'env ' * carriers}ls \\;") is not None) is does


def test_what_is_set_alone_is_a_command_that_sets_it() -> None:
    assert read_commands("A=1") == (Command(("=",), "=", assigned=True),)


@pytest.mark.parametrize(
    ("line", "assigned"), [("A=1 find . -exec ls \\;", True), ("find . -exec ls \\;", False), ("env ls A=1", False)]
)
def test_a_command_is_told_whether_something_is_set_for_it(line: str, assigned: bool) -> None:
    found = read_commands(line)

    assert found is not None
    assert found[-1].words[0] == "ls"
    assert found[-1].assigned is assigned


@pytest.mark.parametrize("line", ["cat < x", "cat <& x"])
def test_what_only_reads_a_file_need_not_be_allowed_by_itself(line: str) -> None:
    assert read_commands(line) == (Command(("<", "x"), "<", carries=True), Command(("cat",), "cat"))


@pytest.mark.parametrize("text", ["a <(b)", "a $(b)", "a `b`", "(a)", "a > b", "a; b"])
def test_a_rule_names_the_words_of_one_command(text: str) -> None:
    assert read_words(text) is None


def test_a_table_of_programs_writes_long_options_without_their_dashes() -> None:
    assert _programs._long("user close-from") == frozenset({"--user", "--close-from"})
    assert _programs._long("") == frozenset()


@pytest.mark.parametrize(
    ("name", "option"),
    [("force", "-f"), ("fo", "-f"), ("id", "-i"), ("i", "-i"), ("forced", "--forced"), ("R", "--R"), ("x", "--x")],
)
def test_a_long_option_is_its_letter_also_where_it_is_cut(name: str, option: str) -> None:
    """A name of two letters is a long one too; one letter after two dashes is none of a letter's own."""
    assert _command_patterns._long(name, {"force": "f", "id": "i", "R": "r"}) == option
