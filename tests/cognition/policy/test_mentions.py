"""Which programs a command may run because its words name them."""

from __future__ import annotations

import pytest

from cognition.policy import Rule
from cognition.policy._command import Mention, reads_input
from cognition.policy._command_patterns import CommandPattern
from cognition.policy._mentions import LONGEST_VALUE, OPEN, is_known, mention_of, mention_of_value
from cognition.policy._programs import LISTED
from cognition.policy._shell import join_path, read_commands
from cognition.policy.rule_patterns import NO, PERHAPS, read_pattern
from tests.cognition.naming import case_name


def names(line: str) -> set[str] | None:
    """The names that the one command of a line may run; None if it may run any."""
    (mention,) = read_commands(line).mentions or (Mention(frozenset()),)
    return None if mention.open else set(mention.names)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ls curl", set()),
        ("/usr/bin/grep curl a", set()),
        ("./grep curl", {"curl"}),
        ("bin/grep", set()),
        ("unknown a/b.c d:e", {"a", "b.c", "d", "e"}),
        ("unknown A.exe", {"a"}),
        ("unknown --run=a --walk", {"a"}),
        ("unknown -abc", {"-abc", "abc", "bc", "c"}),
        ("unknown +ab", {"+ab", "ab", "b"}),
        ("unknown -- a", {"--", "a"}),
        ("unknown $X", set()),
        ("unknown $X/a", {"a"}),
        ("unknown a$X", None),
        ("unknown ${X}a", None),
        ("unknown $X$Y", None),
        ("unknown $(a)", None),
        ("unknown $(nproc)", {"1"}),
        ("unknown $(hostname)", set()),
        ("unknown <(hostname)", None),
        ("unknown a*", None),
        ("unknown 'a(b)'", None),
        ("unknown %a", None),
        ("git a b", {"b"}),
        ("git -C a b", {"-c", "c", "a", "b"}),
        ("git a $X", set()),
        ("git a $(b)", None),
        ("git a 'b\"c'", None),
        ("git a %b", {"b"}),
        ("git a -", None),
        ("git a /dev/stdin", None),
        ("make a=b c", {"a", "b", "c"}),
        ("make a c", {"c"}),
        ("make -j$(nproc) a", {"-j1", "j1", "1", "a"}),
        ("pytest3.11 a", {"a"}),
        ("pytest3.11 'a(b)'", {"a", "b"}),
        ("git commit -m 'it\"s' a", {"-m", "m", "a"}),
        ("git commit -am 'it\"s' a", {"-am", "am", "m", "a"}),
        ("git commit --message 'it\"s' a", {"a"}),
        ("git commit --message='it\"s' a", {"a"}),
        ("git commit --message='a=\"b' c", {"c"}),
        ("git commit -m -m 'b'", {"-m", "m", "b"}),
        ("git commit -a 'it\"s'", None),
        ("git commit -1m 'it\"s'", None),
        ("git commit '' -m 'it\"s' a", {"-m", "m", "a"}),
        ("git commit am 'it\"s'", None),
        ("git log -m 'it\"s'", None),
        ("git -m commit 'it\"s'", None),
        ("gh pr create -t 'it\"s' --body 'b\"' c", {"create", "-t", "t", "c"}),
        ("sort -k 2 curl", set()),
        ("sort --reverse --key=2 curl", set()),
        ("sort -- curl", set()),
        ("sort --compress-program curl", {"curl"}),
        ("sort $X curl", {"curl"}),
        ("tar -xf a:b", {"-xf", "xf", "f", "a", "b"}),
        ("tar -cI a", {"-ci", "ci", "i", "a"}),
        ("unknown a+b", {"a+b", "a", "b"}),
        ("unknown --a.b", {"--a.b"}),
        ("make 'c*.o' bash", {"c", ".o", "bash"}),
        # A word that may be a command line of its own
        ("git a sh", {"sh"}),
        ("git a 'sh b'", None),
        ("git a '--b=sh c=d'", None),
        ("git a 'make -b'", None),
        ("git a 'make b'", {"make", "b"}),
        ("git a 'b c'", {"b", "c"}),
        # Files of any name, which may look like an option
        ("mypy *", set()),
        ("git add *", set()),
        ("git grep *", None),
        # Words behind which a tool runs another program
        ("docker ps 'a(b)'", {"a", "b"}),
        ("docker exec 'a(b)'", None),
        ("cmake *", None),
    ],
    ids=case_name,
)
def test_a_command_may_run_what_its_words_name(line: str, expected: set[str] | None) -> None:
    assert names(line) == expected


def test_a_value_behind_letters_is_read_so_far_and_no_farther() -> None:
    longest = "a" * (LONGEST_VALUE - 1)
    mention = mention_of("unknown", ("unknown", f"-{longest}"), [], fed=False, computed=False)

    assert mention is not None
    assert mention.names == {f"-{longest}", *(longest[place:] for place in range(len(longest)))}
    assert mention_of("unknown", ("unknown", f"-{longest}aa"), [], fed=False, computed=False) == OPEN


def test_an_unknown_program_runs_what_it_reads() -> None:
    words = ("unknown", "a")
    assert mention_of("unknown", words, [], fed=False, computed=False) == Mention(frozenset({"a"}))
    assert mention_of("unknown", words, [], fed=True, computed=False) == OPEN
    assert mention_of("unknown", words, [], fed=False, computed=True) == Mention(frozenset({"a"}))
    assert mention_of("unknown", ("unknown", None), ["\0"], fed=False, computed=False) is None
    assert mention_of("unknown", ("unknown", None), [], fed=False, computed=False) == OPEN
    assert mention_of("git", ("git", "add", None), [], fed=True, computed=False) is None
    assert mention_of("git", ("git", "add", None), [], fed=True, computed=True) is None
    assert mention_of("git", ("git", "grep", None), [], fed=True, computed=True) == OPEN
    assert mention_of("git", ("git",), [], fed=False, computed=True) is None
    assert mention_of("ls", ("ls", None), [], fed=True, computed=True) is None


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("(unknown) < a", (OPEN,)),
        ("(unknown) <& 3", (OPEN,)),
        ("(unknown) <<< a", (OPEN,)),
        ("(unknown) <<E\na\nE", (OPEN,)),
        ("(unknown) < /dev/null", ()),
        ("(unknown) >& 2", ()),
        ("(unknown) > a", ()),
        ("(ls) < a", ()),
    ],
)
def test_a_group_reads_what_is_redirected_to_it(line: str, expected: tuple[Mention, ...]) -> None:
    assert read_commands(line).mentions == expected


def test_a_value_may_be_run() -> None:
    assert mention_of_value("") is None
    assert mention_of_value("a b/c") == Mention(frozenset({"a", "b", "c"}))
    assert mention_of_value("a(b)") == OPEN
    assert mention_of_value("sh a") == Mention(frozenset({"sh", "a"}))
    assert mention_of_value("a|sh") == OPEN
    assert mention_of_value("a'b") == OPEN


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("ls",), True),
        (("/bin/ls",), True),
        (("/usr/local/bin/ls",), True),
        (("/opt/ls",), False),
        (("./ls",), False),
        (("/usr/bin/../ls",), False),
        (("sort", "--compress-program"), True),
        (("python3",), False),
        (("pip3.11",), True),
        (("git",), True),
        (("git-",), False),
        (("pytest3",), True),
    ],
)
def test_a_program_is_known_by_its_name_and_folder(words: tuple[str, ...], expected: bool) -> None:
    assert is_known(words[0].rsplit("/", 1)[-1], words) is expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("make a=cu*", ("cu*",)),
        ("make a=*", ("*",)),
        ("make a **/b/* *.c", ("*.c",)),
        ("make --b=c/* d", ()),
        ("make 'a b?[cd]**e'", ("b*e",)),
        ("make -a*", ("*",)),
        ("make 'a=[b'", ("*",)),
        ("make a", ()),
        ("make -a b*.c", ("b*.c",)),
        ("make 'a *'", ("*",)),
    ],
)
def test_a_pattern_of_files_may_be_a_name(line: str, expected: tuple[str, ...]) -> None:
    found = read_commands(line).mentions
    assert tuple(glob for mention in found for glob in mention.globs) == expected
    assert not any(mention.open for mention in found)


@pytest.mark.parametrize(
    ("rule", "mention", "expected"),
    [
        ("curl:*", Mention(frozenset({"curl"})), PERHAPS),
        ("curl:*", Mention(frozenset({"curly"})), NO),
        ("cu*:*", Mention(frozenset({"curl"})), PERHAPS),
        ("curl:*", OPEN, PERHAPS),
        ("> a", OPEN, NO),
        ("> a", Mention(frozenset({">", "a"})), NO),
        ("git push:*", Mention(frozenset({"git", "push"})), PERHAPS),
        ("git push:*", Mention(frozenset({"git", "pull"})), NO),
        ("git push:*", Mention(frozenset({"push"})), NO),
        ("cat a/b.c", Mention(frozenset({"cat", "a", "b.c"})), PERHAPS),
        ("cat a/b.c", Mention(frozenset({"cat", "a"})), NO),
        ("cat a/*", Mention(frozenset({"cat"})), PERHAPS),
        ("rm -rf:*", Mention(frozenset({"rm"})), PERHAPS),
        ("curl:*", Mention(frozenset(), False, ("a*", "c*l")), PERHAPS),
        ("curl:*", Mention(frozenset(), False, ("a*",)), NO),
    ],
)
def test_a_rule_may_concern_what_is_mentioned(rule: str, mention: Mention, expected: int) -> None:
    pattern = CommandPattern.of(read_pattern(Rule("deny", f"Bash({rule})").tool))

    assert pattern.prohibits(mention) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("-", True),
        ("a", False),
        ("dev", False),
        ("/dev/stdin", True),
        ("//dev//stdin", True),
        ("/./proc/self/fd/0", True),
        ("/a/dev/x", False),
        ("dev/stdin", False),
        ("/a/../dev/stdin", True),
        ("../../proc/x", True),
        ("../a", False),
        ("/", False),
        ("-/a", False),
        ("-sf-", True),
        ("-f-", True),
        ("--fi=-", True),
        ("--", False),
        ("a-b-", False),
        ("-a-b", False),
        ("-f/dev/stdin", True),
        ("f/dev/stdin", False),
        ("a=/dev/stdin", True),
    ],
)
def test_a_file_may_stand_for_the_input(path: str, expected: bool) -> None:
    assert reads_input(path) is expected


@pytest.mark.parametrize(
    ("where", "path", "expected"),
    [
        ("", "a", "a"),
        ("a", "b/./c//d", "a/b/c/d"),
        ("a/b", "../c", "a/c"),
        ("a", "..", ""),
        ("a", "../..", None),
        ("", "..", None),
        ("", "a/../../a", None),
    ],
)
def test_a_path_is_joined_to_a_folder_inside_the_root(where: str, path: str, expected: str | None) -> None:
    assert join_path(where, path) == expected


def test_some_programs_run_nothing_with_listed_options() -> None:
    assert LISTED["sort"].covers(("-k", "2", "--", "a", "-"))
    assert LISTED["sort"].covers(("--key=2",))
    assert not LISTED["sort"].covers(("--keys",))
    assert not LISTED["sort"].covers(("--q",))
    assert not LISTED["sort"].covers(("-q",))
    assert not LISTED["sort"].covers((None,))
    assert LISTED["sort"].covers(("--", "-", "a"))
    assert not LISTED["sort"].covers(("a", "--compress-program=b"))
    assert not LISTED["sort"].covers(("a", "-kq"))
    assert not LISTED["zip"].covers(("--unzip-command",))
    assert LISTED["tar"].covers(("xf", "a.tar", "--gzip"))
    assert not LISTED["tar"].covers(("xf", "a:b"))
    assert not LISTED["rsync"].covers(("a", "b:c"))
    assert LISTED["rsync"].covers(("-av", "a", "b"))
