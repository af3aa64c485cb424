"""The commands of a line, exactly: their words, where they run, and which rules are about them."""

from __future__ import annotations

import shlex

import pytest

from cognition.policy._command import Command, program_of
from cognition.policy._mentions import OPEN
from cognition.policy._shell import read_commands
from tests.cognition.naming import case_name


def one(text: str, *, altered: bool = False, carries: bool = False, where: str | None = "") -> Command:
    """A command whose words are those of a text; ``$`` is a word that the shell expands."""
    words = tuple(None if word == "$" else word for word in shlex.split(text))
    return Command(words, program_of(words[0]), altered, carries, where)


WRITES_A = Command((">", "a"), ">")
SURE: list[tuple[str, list[Command]]] = [
    # known well: as any other command, but that it runs nothing
    ("psql -c 'select 1'", [one("psql -c 'select 1'")]),
    ("cd sub && psql -c 'select 1'", [one("cd sub", carries=True), one("psql -c 'select 1'", where="sub")]),
    ("sudo psql -c 'select 1'", [one("sudo psql -c 'select 1'"), one("psql -c 'select 1'")]),
    ("python3 -c 'import foo'", [one("python3 -c 'import foo'")]),
    ("uv run python -c 'print(1)'", [one("uv run python -c 'print(1)'"), one("python -c 'print(1)'", altered=True)]),
    # wrappers: an allow rule has to name them, and what they run is altered
    ("echo a; strace ls b", [one("echo a"), one("strace ls b"), one("ls b", altered=True)]),
    (
        "cd sub && strace ls b",
        [one("cd sub", carries=True), one("strace ls b", where="sub"), one("ls b", altered=True, where="sub")],
    ),
    ("strace ls b; pwd", [one("strace ls b"), one("ls b", altered=True), one("pwd")]),
    ("watch ls -l", [one("watch ls -l"), one("ls -l", altered=True)]),
    ("hyperfine 'ls a' pwd", [one("hyperfine 'ls a' pwd"), one("ls a", altered=True), one("pwd", altered=True)]),
    # on other machines and in containers: where is unknown, and stays so
    (
        "ssh host 'cd sub; ls a'",
        [
            one("ssh host 'cd sub; ls a'"),
            one("cd sub", altered=True, where=None),
            one("ls a", altered=True, where=None),
        ],
    ),
    (
        "ls a; docker exec web ls; pwd",
        [
            one("ls a"),
            one("docker exec web ls"),
            one("ls", altered=True, carries=True, where=None),
            one("pwd"),
        ],
    ),
    (
        "cd sub && docker exec web ls",
        [
            one("cd sub", carries=True),
            one("docker exec web ls", where="sub"),
            one("ls", altered=True, carries=True, where=None),
        ],
    ),
    (
        "docker exec web sh -c 'cd sub; ls a'",
        [
            one("docker exec web sh -c 'cd sub; ls a'"),
            one("sh -c 'cd sub; ls a'", altered=True, carries=True, where=None),
            one("cd sub", altered=True, carries=True, where=None),
            one("ls a", altered=True, carries=True, where=None),
        ],
    ),
    (
        'docker run -v "$PWD":/a python:3 pytest "$X"',
        [
            one("docker run -v $ python:3 pytest $"),
            one("pytest $", altered=True, carries=True, where=None),
        ],
    ),
    # runners of a project's own programs
    ("npx eslint a", [one("npx eslint a"), one("eslint a", altered=True, carries=True)]),
    ("f() { ls; }", [one("ls", altered=True, where=None)]),
    # redirections, directories and environments
    ("ls > a b", [WRITES_A, one("ls b")]),
    ("ls 2> a", [WRITES_A, one("ls")]),
    ("cd sub; ls; pwd", [one("cd sub", carries=True), one("ls", where=None), one("pwd", where=None)]),
    ("cd sub; ls & pwd", [one("cd sub", carries=True), one("ls", where=None), one("pwd", where=None)]),
    ("cd sub && ls && pwd", [one("cd sub", carries=True), one("ls", where="sub"), one("pwd", where="sub")]),
    ("cd sub || ls; pwd", [one("cd sub"), one("ls", altered=True, where=None), one("pwd", altered=True, where=None)]),
    ("(cd sub; ls); pwd", [one("cd sub", carries=True), one("ls", where=None), one("pwd")]),
    (
        "if cd sub; then ls; fi; pwd",
        [one("cd sub"), one("ls", altered=True, where=None), one("pwd", altered=True, where=None)],
    ),
    ('case "$x" in a) ls ;; *) pwd ;; esac; ls b', [one("ls"), one("pwd"), one("ls b")]),
    ("export X=1; ls", [one("export X=1"), one("ls", altered=True)]),
    (
        'export "$X"; ls; git log',
        [one("export $", altered=True), one("ls", altered=True), one("git log", altered=True)],
    ),
    # words
    ("ls 'a b' \"c\" d", [one("ls 'a b' c d")]),
    ("ls '' a", [one("ls '' a")]),
    ("echo ls case in a", [one("echo ls case in a")]),
    ("ls a|grep b;pwd", [one("ls a"), one("grep b"), one("pwd")]),
    ("{ ls; pwd; }; ls", [one("ls"), one("pwd"), one("ls")]),
    # outputs of commands
    ('ls "$(pwd)"', [one("pwd"), one("ls $")]),
    (
        'cd "$X"; ls "$(pwd)"',
        [one("cd $"), one("pwd", altered=True, where=None), one("ls $", altered=True, where=None)],
    ),
]
UNSURE = (
    "uv run psql -c 'select 1'",  # a program of the project may have that name
    "sudo -u me psql -c 'select 1'",
    "cat a | python3 -c 'import foo'",
    "cp a b; psql -c 'select 1'",
    "export $X; psql -c 'select 1'",
    "ln -s /dev/stdin a; psql -f a",
    "touch .env; . ./.env",
    "ls; touch .env; . ./.env",
    "cat a | . ./.env",
    "docker exec web bash",
    "f () ls",
    "for $X in a; do ls; done",
    'X=-Ocurl; git grep "${X%z}" a',
    'git grep "${X%z}" a',
    'for X in -Ocurl; do git grep "${X%z}" a; done',
    'git grep "${1%z}" a',
    "git log --author=${X%z}",
    "ls $'a'",
    'export NODE_OPTIONS="$X"; ls',
)


@pytest.mark.parametrize(("line", "commands"), SURE, ids=case_name)
def test_each_command_of_a_line_is_found_with_its_place(line: str, commands: list[Command]) -> None:
    found = read_commands(line)

    assert list(found.commands) == commands
    assert not found.unsure


@pytest.mark.parametrize("line", UNSURE, ids=case_name)
def test_a_line_that_may_run_another_command_is_not_sure(line: str) -> None:
    found = read_commands(line)

    assert found.unsure or OPEN in found.mentions
