"""What docs/guides/policy.md says of command lines: which commands are read from one, and what nobody can say of one.

A word that the shell or a program puts together itself is None. What is read is at least what is run: so each row says
all of it, in the order in which it is found.
"""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

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
    ("ls x <<E y\nb c\nE", [("ls", "x", "y")]),
    ("ls <<E | b\n$X\nE\nc", [("ls",), ("b",), ("c",)]),
    ("ls <<E |\n$X\nE\nb", [("ls",), ("b",)]),
    ("ls &&\n\n# c\nb", [("ls",), ("b",)]),
    ("ls | (a)\nb", [("ls",), ("a",), ("b",)]),
    ("ls << 'E F' <<-E\n$(b\nE F\n\tc\n\tE\nd", [("ls",), ("d",)]),
    ("ls <<E\n'$(b)' \" `c` \\`\nE", [("b",), ("c",), ("ls",)]),
    ('ls <<E\n"$(b "c" \'d\')"\nE', [("b", "c", "d"), ("ls",)]),
    ("ls <<\\E\n$(b)\\\nE", [("ls",)]),
    ("(ls <<E\nE\n); b", [("ls",), ("b",)]),
    ("for a in b c; do ls; done", [("ls",)]),
    ("for a\ndo ls $a; done", [("ls", None)]),
    ("for A in b; do ls; done", [("=",), ("ls",)]),
    ("for PAGER in less; do ls; done", [("=",), ("less",), ("ls",)]),
    ("[[ -f a ]] && ls", [("[[", "-f", "a", "]]"), ("ls",)]),
    (
        "if [[ $X == 'a b' || -n \"$Y\" && ! a ]]; then ls; fi",
        [tuple("[[ $X == 'a b' || -n \"$Y\" && ! a ]]".split()), ("a", "]]"), ("ls",)],
    ),
    ("[[ a || 'b c' \"d\" || e ]]", [tuple("[[ a || 'b c' \"d\" || e ]]".split()), ("b c", "d"), ("e", "]]")]),
    ("[[ a =~ b.*c ]]; ls", [("[[", "a", "=~", "b.*c", "]]"), ("ls",)]),
    ("ls [[ -f a ]]", [("ls", None, "-f", "a", "]]")]),
    ("[ -f a ] && ls", [("[", "-f", "a", "]"), ("ls",)]),
    ("true &>/dev/null ls x", [("true", "ls", "x"), ("ls", "x")]),
    ("true &>> a ls; b", [(">", "a"), ("true", "ls"), ("ls",), ("b",)]),
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
    ("time -p ls", [("time", "-p", "ls"), ("ls",)]),
    ("time -v ls", [("time", "-v", "ls"), ("-v", "ls"), ("ls",)]),
)
"""Commands in the arguments of others, and arguments that are none."""


@pytest.mark.parametrize(("line", "expected"), [*WORDS, *LINES, *REDIRECTED, *SET, *CARRIED], ids=case_name)
def test_a_line_is_read_as_all_the_commands_that_it_runs(line: str, expected: Read) -> None:
    found, unsure, _ = read_commands(line)

    assert not unsure
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
    assert read_commands(line).unsure


KEPT: tuple[tuple[str, Read], ...] = (
    ("ls x | sh", [("ls", "x"), ("sh",)]),
    ('eval "$X"; ls x', [("eval", None), ("ls", "x")]),
    ("python -c exec; ls x", [("python", "-c", "exec"), ("ls", "x")]),
    ("ls <&-a b", [("ls", None)]),
    ("ls x <<$X y\nE", [("ls", "x", None)]),
    ("ls x <<E y", [("ls", "x", "y", None)]),
    ("ls x <<E y\nb\n E", [("ls", "x", "y", None)]),
    ("ls x <<E 'y\nE\n'", [("ls", "x", "y\nE\n", None)]),
    ("ls x <<E\\\nF\n$(b)\nEF", [("ls", "x", None)]),
    ("ls x <<E\n$(b\nE", [("b", None), ("ls", "x", None)]),
    ("ls x <<E\nb\\\nE\n", [("ls", "x", None)]),
    ("(ls x <<E)\nE", [("ls", "x", None)]),
    ("for $X in a; do b; done", []),
    ("for i on a; do b; done", []),
    ("for", []),
    ("sh -c 'cat <<E'; b", [("sh", "-c", "cat <<E"), ("cat", None), ("b",)]),
    ('a \'b\' "c" `d` "e', [("d",), ("a", "b", "c", None, None)]),
    ("a $(b c <<E)", [("b", "c", None), ("a", None)]),
    ("a; (b ;; c", [("a",), ("b", None)]),
    ("`a (b`; c", [("a", None), ("c",)]),
    ("bash -c 'a (b'; c", [("bash", "-c", "a (b"), ("a", None), ("c",)]),
    ("ssh host; a", [("ssh", "host"), ("a",)]),
    ("case a in $(b)) c;; esac", [("b",)]),
    ("case a in b | $(c) ) d;; esac", [("c",)]),
    ("case a in", []),
    ("case a in ", []),
    ("case a on b) c;; esac", []),
    ("case a in b) c", [("c", None)]),
    ("case a in b) c;& d) e;; esac", [("c", None)]),
    ("case a in b) c;;& d) e;; esac", [("c", None)]),
    ("case a in b) (c) esac", [("c",)]),
    ("case a in b) c && esac", [("c",)]),
    ("case a in b) cat <<E;; esac\nE", [("cat", None)]),
    ("cat <<E; case a in\nE\nb) c;; esac", [("cat",)]),
    ("a; ls() { b; }", [("a",), ("ls", None)]),
    ("a; F() { b; }", [("a",), ("F", None)]),
    ("a; f() (b)", [("a",), ("f", None)]),
    ("[[ 'a[$(b)]' -eq 1 ]] && c", [("c",)]),
    ("[[ $X -eq 1 ]] && c", [("c",)]),
    ("[[ -v a ]] && c", [("c",)]),
    ("[[ -f a ]]b", []),
    ('[[ "$(b)" ]]', [("b",)]),
    ("[[ a", []),
    ("a; select b in c; do d; done", [("a",)]),
    ("X=$(", []),
    ("$X a; b", [("b",)]),
    ("'>'; cd /; '<' x; '=' y", [("cd", "/")]),
    ("a\x00b; c\u00a0d", [("a\x00b",), ("c\u00a0d",)]),
)
"""Lines that are unsure, with the commands that are read all the same."""


@pytest.mark.parametrize(("line", "expected"), KEPT, ids=case_name)
def test_what_is_read_beside_a_doubt_is_kept(line: str, expected: Read) -> None:
    found, unsure, _ = read_commands(line)

    assert unsure
    assert [command.words for command in found] == expected


@given(st.text(st.sampled_from("ab $(){}<>'\"`;&|\\\n#!=*")), st.sampled_from(("; ", "\n", " && ", " | ", " & ")))
def test_a_command_before_any_other_text_is_read(text: str, between: str) -> None:
    assert ("curl", "x") in [command.words for command in read_commands(f"curl x{between}{text}").commands]


def test_a_line_is_read_up_to_its_longest() -> None:
    line = "ls " + "x" * (LONGEST - 3)

    read = (Command(("ls", line[3:]), "ls"),)
    assert read_commands(line) == (read, False, ())
    assert read_commands(line + "x") == (read, True, ())


@pytest.mark.parametrize(
    ("before", "behind", "deepest"),
    [
        ("( ", ")", DEEPEST - 1),
        ("echo $(", ")", DEEPEST - 1),
        ("(ls) & ( ", ")", DEEPEST - 1),
        ("env ", "", DEEPEST),
        ("env A=1 ", "", DEEPEST),
        ("eval ", "", DEEPEST),
    ],
    ids=case_name,
)
def test_commands_are_read_so_deep_and_no_deeper(before: str, behind: str, deepest: int) -> None:
    """The line itself is the first of the commands within each other, where it is more than words with spaces."""
    read = [not read_commands(before * times + "ls" + behind * times).unsure for times in range(3 * DEEPEST)]

    assert read == [times <= deepest for times in range(3 * DEEPEST)]


def test_how_deep_a_command_stands_has_nothing_to_do_with_what_stands_beside_it() -> None:
    within = "( " * (DEEPEST - 2), ")" * (DEEPEST - 2)

    for line, does in (("(ls); (ls)", True), ("(ls); ( (ls))", False), ("( (ls)); (ls)", False)):
        assert read_commands(line.join(within)).unsure is not does
    assert not read_commands("(ls); " * 3 * DEEPEST).unsure


@pytest.mark.parametrize(("carriers", "does"), [(DEEPEST - 2, True), (DEEPEST - 1, False)])
def test_what_find_runs_is_within_it(carriers: int, does: bool) -> None:
    assert read_commands(f"find . -exec {'env ' * carriers}ls \\;").unsure is not does


def test_what_is_set_alone_is_a_command_that_sets_it() -> None:
    assert read_commands("A=1").commands == (Command(("=",), "=", altered=True),)


@pytest.mark.parametrize(
    ("line", "altered"), [("A=1 find . -exec ls \\;", True), ("find . -exec ls \\;", False), ("env ls A=1", False)]
)
def test_a_command_is_told_whether_something_is_set_for_it(line: str, altered: bool) -> None:
    found = read_commands(line).commands

    assert found[-1].words[0] == "ls"
    assert found[-1].altered is altered


@pytest.mark.parametrize("line", ["cat < x", "cat <& x"])
def test_a_file_that_is_read_is_to_be_allowed_too(line: str) -> None:
    assert read_commands(line).commands == (Command(("<", "x"), "<"), Command(("cat",), "cat"))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a; cd b; c", [("a", ""), ("cd", ""), ("c", None)]),
        ("cd a && b && c", [("cd", ""), ("b", "a"), ("c", "a")]),
        ("cd a && cd ./b/.. && c", [("cd", ""), ("cd", "a"), ("c", "a")]),
        ("cd a && b || c", [("cd", ""), ("b", "a"), ("c", None)]),
        ("cd a && cd .. ; c", [("cd", ""), ("cd", "a"), ("c", None)]),
        ("cd a; cd b && c", [("cd", ""), ("cd", None), ("c", None)]),
        ("(cd a && b); c", [("cd", ""), ("b", "a"), ("c", "")]),
        ("a $(cd b && c) && d", [("cd", ""), ("c", "b"), ("a", ""), ("d", "")]),
        ("a `cd b && c`; d", [("cd", ""), ("c", "b"), ("a", ""), ("d", "")]),
        ("sh -c 'cd a && b' && c", [("sh", ""), ("cd", ""), ("b", "a"), ("c", "")]),
        ("eval cd a && b", [("eval", ""), ("cd", ""), ("b", "a")]),
        ("cd a && b > c", [("cd", ""), (">", "a"), ("b", "a")]),
        ("cd a && env b", [("cd", ""), ("env", "a"), ("b", "a")]),
        ("cd a && sh b", [("cd", ""), ("sh", "a"), ("b", "a")]),
        ("find . -execdir a \\; -exec b \\;", [("find", ""), ("a", None), ("b", "")]),
        ("cd /; a", [("cd", ""), ("a", None)]),
        ("while a; do cd b; done", [("a", None), ("cd", None)]),
    ],
)
def test_a_command_is_read_with_the_directory_in_which_it_runs(
    line: str, expected: list[tuple[str, str | None]]
) -> None:
    found, unsure, _ = read_commands(line)

    assert not unsure
    assert [(command.words[0], command.where) for command in found] == expected


@pytest.mark.parametrize(
    ("line", "altered"),
    [
        ("cd a && b", [False, False]),
        ("cd .. && b", [False, True]),
        ("cd a; cd .. && b", [False, False, True]),
        ("cd a && cd ../.. && b", [False, False, True]),
        ("cd /; cd a && b", [False, True, True]),
        ("cd a | b", [False, True]),
        ("(cd /); b", [False, False]),
        ("cd / > a; b > c", [False, False, True, True]),
        ("sudo -D a b", [False, True]),
        ("export PATH=a; b", [False, True]),
        ("read a < b && c", [False, False, True]),
        ("(umask 0); a", [False, False]),
        ("sudo -u a b", [False, False]),
        ("until a; do cd b; done", [True, True]),
        ("find . -execdir a \\; -exec b \\;", [False, True, False]),
    ],
)
def test_a_command_outside_of_the_root_or_with_other_options_is_altered(line: str, altered: list[bool]) -> None:
    assert [command.altered for command in read_commands(line).commands] == altered


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
