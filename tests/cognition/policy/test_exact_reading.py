"""The reader of command lines at its edges: which commands a line has, and which other programs they may run."""

from __future__ import annotations

import shlex

import pytest

from cognition.policy._command import Command, Mention, program_of
from cognition.policy._mentions import OPEN
from cognition.policy._shell import DEEPEST, read_commands
from tests.cognition.naming import case_name


def one(text: str, *, altered: bool = False, carries: bool = False, where: str | None = "") -> Command:
    """A command whose words are those of a text; ``$`` is a word that the shell expands."""
    words = tuple(None if word == "$" else word for word in shlex.split(text))
    return Command(words, program_of(words[0]), altered, carries, where)


def names(*found: str) -> Mention:
    return Mention(frozenset(found))


ASSIGNS = Command(("=",), "=", altered=True)
CD_SUB = one("cd sub", carries=True)
SURE: list[tuple[str, list[Command], list[Mention]]] = [
    # A file of variables: a rule may name it, and what follows may be other programs
    (
        "if [ -f .env ]; then . ./.env; fi",
        [one("[ -f .env ]"), one(". ./.env"), one("./.env", carries=True)],
        [],
    ),
    (". ./.env; ls", [one(". ./.env"), one("./.env", carries=True), one("ls", altered=True)], []),
    ("cd sub && . ./.env", [CD_SUB, one(". ./.env", where="sub"), one("./.env", carries=True, where="sub")], []),
    (
        "cd /tmp; . ./.env",
        [
            one("cd /tmp"),
            one(". ./.env", altered=True, where=None),
            one("./.env", altered=True, carries=True, where=None),
        ],
        [],
    ),
    (". venv/bin/activate; ls", [one(". venv/bin/activate"), one("ls", altered=True)], []),
    # Settings of the shell that change no word
    ("set -e; ls", [one("set -e", carries=True), one("ls")], []),
    ("set -euo pipefail && ls", [one("set -euo pipefail", carries=True), one("ls")], []),
    # What a shell expands is no known word
    ("ls $((1 + 1)) a", [one("ls $ a")], []),
    ("cut -d$'\\t' -f1 a", [one("cut $ -f1 a")], []),
    # A variable without its end: what the line itself decides of it may be any text
    ('make "${X%/}"', [one("make $")], []),
    ('make "${_%/}"', [one("make $", altered=True)], [OPEN]),
    ('X=a; make "${X%/}"', [ASSIGNS, one("make $", altered=True)], [names("a"), OPEN]),
    ('make "$(cat a)" "${X%/}"', [one("cat a"), one("make $ $", altered=True)], [OPEN]),
    # Outputs of commands that this line can't have chosen, unless it may have changed what they print
    ('make "$(pwd)"', [one("pwd"), one("make $")], []),
    ('cd sub && make "$(pwd)"', [CD_SUB, one("pwd", where="sub"), one("make $", where="sub")], []),
    (
        'cd sub; make "$(pwd)"',
        [CD_SUB, one("pwd", where=None), one("make $", altered=True, where=None)],
        [OPEN],
    ),
    ('for x in a; do make "$(pwd)"; done', [one("pwd"), one("make $", altered=True)], [names("a"), OPEN]),
    ('x=1; make "$(pwd)"', [ASSIGNS, one("pwd"), one("make $", altered=True)], [names("1"), OPEN]),
    ('cp a b; make "$(pwd)"', [one("cp a b"), one("pwd"), one("make $", altered=True)], [OPEN]),
    ('make "$(test a)"', [one("test a"), one("make $", altered=True)], [OPEN]),
    ('make "$(git rev-parse HEAD)"', [one("git rev-parse HEAD"), one("make $")], [names("head")]),
    (
        'test a; make "$(git rev-parse HEAD)"',
        [one("test a"), one("git rev-parse HEAD"), one("make $")],
        [names("head")],
    ),
    (
        'echo a; make "$(git rev-parse HEAD)"',
        [one("echo a"), one("git rev-parse HEAD"), one("make $", altered=True)],
        [names("head"), OPEN],
    ),
    # Runners that start a project's program themselves
    ("uv run pytest", [one("uv run pytest"), one("pytest", altered=True, carries=True)], []),
    ("poetry run pytest", [one("poetry run pytest"), one("pytest", altered=True, carries=True)], []),
    ("uv run ls a", [one("uv run ls a"), one("ls a", altered=True, carries=True)], [names("a")]),
    ("uv run -q ls", [one("uv run -q ls")], [names("-q", "q", "ls")]),
    ("uv sync ls", [one("uv sync ls")], [names("ls")]),
    # Folders in containers
    (
        'docker run -v "$PWD":/a python:3 ls',
        [one("docker run -v $ python:3 ls"), one("ls", altered=True, carries=True, where=None)],
        [],
    ),
    ("docker run -v $PWD:/a python:3 ls", [one("docker run -v $ python:3 ls")], [OPEN]),
    # Lists of a `case`, without blanks between them
    ("case a in b)esac; ls", [one("ls")], []),
    ("case a in b) ls;esac; pwd", [one("ls"), one("pwd")], []),
    ("case a in b) ls;;esac; pwd", [one("ls"), one("pwd")], []),
    ("(ls); case a in b) pwd;; esac", [one("ls"), one("pwd")], []),
    # Functions, whose bodies may run in any directory
    ("f() { ls; }", [one("ls", altered=True, where=None)], []),
    ("if ls; then f() { pwd; }; fi", [one("ls"), one("pwd", altered=True, where=None)], []),
    # Patterns of files with alternatives, which some tools expand themselves
    ("eslint 'src/{a,curl}/x.js' b", [one("eslint 'src/{a,curl}/x.js' b")], [names("src", "a", "curl", "x.js", "b")]),
    ("eslint 'a {b,c}'", [one("eslint 'a {b,c}'")], [OPEN]),
    ("make '{a,b}'", [one("make '{a,b}'")], [OPEN]),
    # A tool of developers that runs nothing of its input, unless its words name what would
    ("cat a | eslint b", [one("cat a"), one("eslint b")], [names("b")]),
    ("cat a | pytest", [one("cat a"), one("pytest")], [OPEN]),
    ("cat a | eslint sh", [one("cat a"), one("eslint sh")], [OPEN]),
]
UNSURE: list[tuple[str, list[Command]]] = [
    ("set; ls", [one("set"), one("ls")]),
    ("set a; ls", [one("set a"), one("ls")]),
    ("set -e a; ls", [one("set -e a"), one("ls")]),
    ("set a -e; ls", [one("set a -e"), one("ls")]),
    ("echo a; . ./.env", [one("echo a"), one(". ./.env")]),
    ("true; echo a; . ./.env", [one("true"), one("echo a"), one(". ./.env")]),
    ("true | . ./.env", [one("true"), one(". ./.env")]),
    ("while true; do . ./.env; done", [one("true"), one(". ./.env")]),
    ("./uv run sh", [one("./uv run sh"), one("sh", altered=True)]),
    # No functions: their commands are read as far as they can be
    ("ls f() { pwd; }", [one("ls f $")]),
    (">a f() { ls; }", [Command((">", "a"), ">"), one("f $")]),
    ('"f"() { ls; }', [one("f $")]),
    ("ls a; curl(", [one("ls a"), one("curl $")]),
    ("ls a; pay(", [one("ls a"), one("pay $")]),
    ("for 1x in a; do ls; done", []),
    ("for; do ls; done", []),
    ("(ls) case a in b) pwd;; esac", [one("ls")]),
]


@pytest.mark.parametrize(("line", "commands", "mentions"), SURE, ids=case_name)
def test_a_line_has_exactly_these_commands_and_mentions(
    line: str, commands: list[Command], mentions: list[Mention]
) -> None:
    found = read_commands(line)

    assert list(found.commands) == commands
    assert list(found.mentions) == mentions
    assert not found.unsure


@pytest.mark.parametrize(("line", "commands"), UNSURE, ids=case_name)
def test_an_unsure_line_keeps_the_commands_that_could_be_read(line: str, commands: list[Command]) -> None:
    found = read_commands(line)

    assert list(found.commands) == commands
    assert found.unsure


@pytest.mark.parametrize("runner", ["strace", "docker exec web", "nohup"])
def test_commands_are_read_through_the_deepest_level_and_not_beyond(runner: str) -> None:
    """The innermost of the commands is one level deeper for each one around it."""
    within, beyond = (read_commands(f"{f'{runner} ' * levels}ls") for levels in (DEEPEST, DEEPEST + 1))

    assert within.commands[-1].program == "ls"
    assert not within.unsure
    assert OPEN not in within.mentions
    assert beyond.commands[-1].program == runner.partition(" ")[0]
    assert beyond.unsure or OPEN in beyond.mentions


@pytest.mark.parametrize("line", ["strace strace cd sub", "docker exec web docker exec web cd sub"])
def test_each_command_within_a_wrapper_is_altered(line: str) -> None:
    assert [command.altered for command in read_commands(line).commands] == [False, True, True]
