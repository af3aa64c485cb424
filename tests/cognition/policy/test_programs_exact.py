"""Programs by the folder that they are in, and builtins of which a word may name a variable, case by case."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import example, given, strategies as st

from cognition.policy._command import Command, Words, program_of
from cognition.policy._command_patterns import CommandPattern, CommandSubject
from cognition.policy._nested_commands import COMPARING, may_name_variable
from cognition.policy.rule_patterns import NO, PERHAPS, YES, read_pattern
from tests.cognition.naming import case_name

# ------------------------------------------------------------------------------------------------- programs in a folder


def found(pattern: str, word: str, where: str | None = "", *, altered: bool = False) -> int:
    command = Command((word, "-v"), program_of(word), altered, where=where)
    return CommandPattern.of(read_pattern(f"Bash({pattern}:*)")).prohibits(CommandSubject(command))


@pytest.mark.parametrize(
    ("pattern", "word", "expected"),
    [
        ("scripts/*", "scripts/x", YES),
        ("scripts/*", "./scripts/x", YES),
        ("scripts/*", "SCRIPTS/X", YES),
        ("scripts/*", "scripts/../scripts/x", YES),
        ("scripts/*", "scripts/sub/x", YES),
        ("scripts/**", "scripts/sub/x", YES),
        ("./scripts/*", "scripts/x", YES),
        ("scripts/*", "scripts", NO),
        ("scripts/*", "x", NO),
        ("scripts/*", "other/x", NO),
        ("scripts/*", "scripts2/x", NO),
        ("scripts/*", "sub/scripts/x", NO),
        # Outside of the root the end of the path decides: it may be the same folder
        ("scripts/*", "/srv/app/scripts/x", YES),
        ("scripts/*", "~/app/scripts/x", YES),
        ("scripts/*", "../app/scripts/x", YES),
        ("scripts/*", "/scripts/x", YES),
        ("scripts/*", "../scripts/x", YES),
        ("scripts/*", "/srv/app/other/x", NO),
        ("scripts/*", "~/app/other/x", NO),
        ("scripts/*", "../app/other/x", NO),
        ("scripts/*", "/srv/myscripts/x", NO),
        ("scripts/*", "..scripts/scripts/x", NO),
        ("scripts/*", "a/../../scripts/x", YES),
        # A folder outside of the root
        ("/usr/bin/*", "/usr/bin/x", YES),
        ("/usr/bin/*", "/usr/bin/sub/x", YES),
        ("/usr/bin/*", "usr/bin/x", NO),
        ("/usr/bin/*", "/bin/x", NO),
        ("/usr/bin/*", "/mnt/usr/bin/x", NO),
        ("~/bin/*", "~/bin/x", YES),
        ("~/bin/*", "bin/x", NO),
        # A folder that is named like the home: its end decides too
        ("~/bin/*", "/srv/~/bin/x", YES),
        ("~/bin/*", "~/~/bin/x", YES),
        ("~/bin/*", "../~/bin/x", YES),
        ("~/bin/*", "a/~/bin/x", NO),
        ("../tools/*", "../tools/x", YES),
        ("../tools/*", "tools/x", NO),
        # A path whose last name is a program's is no folder
        ("scripts/x", "other/x", YES),
        ("scripts/x*", "other/xy", YES),
    ],
    ids=case_name,
)
def test_a_program_is_prohibited_by_its_folder(pattern: str, word: str, expected: int) -> None:
    assert found(pattern, word) == expected


@pytest.mark.parametrize(
    ("pattern", "word", "where", "expected"),
    [
        ("scripts/*", "./x", "scripts", YES),
        ("scripts/*", "x", "scripts", YES),
        ("scripts/*", "../scripts/x", "sub", YES),
        ("scripts/*", "scripts/x", "sub", YES),
        ("scripts/*", "other/x", "sub", NO),
        ("scripts/*", "../x", "scripts/sub", YES),
        ("scripts/*", "x", "other", NO),
        ("scripts/*", "other/x", None, PERHAPS),
        ("scripts/*", "/srv/other/x", None, NO),
        ("scripts/*", "/srv/scripts/x", None, YES),
        ("/usr/bin/*", "x", None, NO),
    ],
    ids=case_name,
)
def test_a_folder_is_looked_up_from_the_commands_directory(
    pattern: str, word: str, where: str | None, expected: int
) -> None:
    """Where the directory is uncertain, any relative path may be one of the folder."""
    assert (found(pattern, word, where) > NO) is (expected > NO)


@pytest.mark.parametrize(("where", "expected"), [("usr", NO), (None, YES)])
def test_a_command_outside_of_the_root_may_be_in_any_folder(where: str | None, expected: int) -> None:
    assert found("/usr/bin/*", "bin/x", where, altered=True) == expected


# ------------------------------------------------------------------------------------------ names of variables in words


@pytest.mark.parametrize(
    ("words", "unknown", "assigned", "expected"),
    [
        # printf: its first word may be -v if the line sets it
        ((None, "a"), False, True, True),
        ((None, None), False, True, True),
        ((None, "a", "b"), False, True, True),
        ((None,), False, True, False),
        ((None, "a"), False, False, False),
        ((None, "a"), True, False, False),
        (("a", None), False, True, False),
        (("-v", None), True, True, False),
    ],
    ids=case_name,
)
def test_printf_may_name_a_variable_in_its_first_word(
    words: Words, unknown: bool, assigned: bool, expected: bool
) -> None:
    assert may_name_variable("printf", words, unknown=unknown, assigned=assigned) is expected


@pytest.mark.parametrize(
    ("words", "assigned", "expected"),
    [
        (("-p", None), False, True),
        ((None, "-n"), False, True),
        (("-",), False, True),
        (("1", "a-", ""), True, False),
        ((None,), True, False),
        ((None, "1"), True, False),
        ((None, None), True, True),
        ((None, "1", None), True, True),
        ((None, None, None), True, True),
        ((None, None), False, False),
        (("1", None), True, False),
    ],
    ids=case_name,
)
@pytest.mark.parametrize("unknown", [False, True])
def test_wait_may_name_a_variable_behind_an_option(words: Words, assigned: bool, unknown: bool, expected: bool) -> None:
    """A text of the line may be this option, and another one the variable's name."""
    assert may_name_variable("wait", words, unknown=unknown, assigned=assigned) is expected


TESTS: list[tuple[Words, bool]] = [
    ((), False),
    (("a",), False),
    ((None,), False),
    (("-v",), True),
    (("-v", None), True),
    (("a", "=", "-v"), True),
    (("-n", None), False),
    (("-f", None), False),
    ((None, "a"), True),
    ((None, None), True),
    (("a", None), False),
    (("!", None), False),
    ((None, "=", "a"), False),
    (("a", "=", None), False),
    ((None, "=", None), False),
    ((None, None, "a"), True),
    ((None, "-a", None), True),
    ((None, "-o", "a"), True),
    ((None, "=~", "a"), True),
    ((None, "", "a"), True),
    (("a", "!", None), True),
    (("!", None, None), True),
    (("!", "-n", None), False),
    (("!", "!", None), False),
    (("!", "=", None), False),
    (("!", None, "=", "a"), False),
    (("!", "!", None, "=", "a"), False),
    (("!", "!", None, "a"), True),
    (("!", None, "-a", "b"), True),
    ((None, "=", "a", "-a"), True),
    (("a", "=", "b", None), True),
    (("-n", None, "-a", "-n", "b"), True),
]
"""Words of a test, and whether one of them may name a variable if nothing is known of the words that are unknown."""


@pytest.mark.parametrize(("words", "expected"), TESTS, ids=case_name)
@pytest.mark.parametrize(("name", "more"), [("test", ()), ("[", ("]",))])
@pytest.mark.parametrize(("unknown", "assigned"), [(True, False), (False, True), (True, True)])
def test_a_test_may_name_a_variable_where_an_operator_may_be(
    words: Words, expected: bool, name: str, more: Words, unknown: bool, assigned: bool
) -> None:
    """The last word of ``[`` is its bracket. With one word, or an operator that compares, no word names one."""
    assert may_name_variable(name, (*words, *more), unknown=unknown, assigned=assigned) is expected


@pytest.mark.parametrize("words", [words for words, _ in TESTS], ids=case_name)
def test_a_test_of_words_that_are_known_to_be_plain_names_one_only_by_its_option(words: Words) -> None:
    assert may_name_variable("test", words, unknown=False, assigned=False) is ("-v" in words)


def test_the_bracket_of_a_test_is_no_part_of_it() -> None:
    assert may_name_variable("[", ("a", "-v"), unknown=True, assigned=True) is False
    assert may_name_variable("test", ("a", "-v"), unknown=True, assigned=True) is True
    assert may_name_variable("test", (None, "]"), unknown=True, assigned=True) is True


@pytest.mark.parametrize("operator", sorted(COMPARING))
def test_no_operator_that_compares_names_a_variable(operator: str) -> None:
    assert may_name_variable("test", (None, operator, None), unknown=True, assigned=True) is False
    assert may_name_variable("[", ("!", None, operator, None, "]"), unknown=True, assigned=True) is False


def candidates(words: Words) -> Iterator[tuple[str, ...]]:
    """The words with ``-v`` in each place of an unknown one, and ``a`` in the other places."""
    for place, word in enumerate(words):
        if word is None:
            yield tuple("-v" if at == place else one or "a" for at, one in enumerate(words))


def names_one(words: tuple[str, ...]) -> bool:
    """Whether POSIX reads ``-v`` as an operator on the word behind it, by the number of arguments."""
    if len(words) < 2:
        return False
    if len(words) == 2:
        return words[0] == "-v"
    if len(words) == 3 and words[1] in COMPARING:
        return False
    if words[0] == "!":
        return names_one(words[1:])
    return len(words) > 3 or words[0] == "-v" or words[1] == "-v"


@given(st.lists(st.sampled_from((None, "!", "=", "-n", "b")), max_size=5).map(tuple))
@example(("!", None, "b"))
@example((None, "b"))
def test_a_test_that_names_a_variable_in_some_way_is_found(words: Words) -> None:
    if any(map(names_one, candidates(words))):
        assert may_name_variable("test", words, unknown=True, assigned=False)
