"""The reader of command lines beside a whole grammar of the shell: it overlooks no command that the grammar sees."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cognition.policy._command import Command
from cognition.policy._shell import read_commands, read_words
from tests.cognition.policy.hostile import ALLOWED, CURL, REMOVED, UNSURE

SHFMT = shutil.which("shfmt", path=f"{Path(sys.executable).parent}")
PIECES = (
    "curl", "x", "a", " ", " ", " ", "'", '"', "$", "(", ")", "`", "\\", ";", "&", "|", "<", ">", "\n", "{", "}",
    "env ", "bash -c ", "if ", "then ", "fi", "#", "$(", "<(", "A=1", "*", "! ", "2>&1", "eval ", "time ", "do ", "&&",
    "; ", "while ", "done", "${X}", "$X", "\t", "=", "<<<", ">&", "&>", "exec ", "''", "\\\n", "xargs ", "!", "[", "~",
    "1",
)  # fmt: skip


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ls -l", [("ls", "-l")]),
        ("ls 'a b' \"c d\" e\\ f", [("ls", "a b", "c d", "e f")]),
        ('ls $X "$X" a*', [("ls", None, None, None)]),
        ("a > b 2>&1", [(">", "b"), ("a",)]),
        ("bash -c 'a b'", [("bash", "-c", "a b"), ("a", "b")]),
        ("find . -exec a {} +", [("find", ".", "-exec", "a", "{}", "+"), ("a", None)]),
        ("find . -exec a ; -ok b ;", None),
        ("xargs a", [("xargs", "a"), ("a", None)]),
        ("xargs", [("xargs",)]),
        ("X=1", [("=",)]),
        ("bash x.sh -c y", [("bash", "x.sh", "-c", "y"), ("x.sh", "-c", "y")]),
        ("python x.py -c y", [("python", "x.py", "-c", "y")]),
        ("python x.py $Y", [("python", "x.py", None)]),
        ("python -m http.server", [("python", "-m", "http.server")]),
        ("python --version", [("python", "--version")]),
        ("awk '{print $1}' f", [("awk", "{print $1}", "f")]),
        ("sed -n 's/a/b/p' f", [("sed", "-n", "s/a/b/p", "f")]),
        ("git clone --quiet url", [("git", "clone", "--quiet", "url")]),
        ("echo é\nls", [("echo", "é"), ("ls",)]),
        ("sed p ecurl", [("sed", "p", "ecurl")]),
        ("sed p - ecurl", [("sed", "p", "-", "ecurl")]),
        ("sed -n p ecurl", [("sed", "-n", "p", "ecurl")]),
        ("sed --unbuf p f", [("sed", "--unbuf", "p", "f")]),
        ("test -f $X", [("test", "-f", None)]),
        ("tar -xzf a", [("tar", "-xzf", "a")]),
        ("tar $X", [("tar", None)]),
        ("git log --oneline", [("git", "log", "--oneline")]),
        ("env", [("env",)]),
        ("eval", [("eval",)]),
        ("echo $? $$ ${#X} $1", [("echo", None, None, None, None)]),
        ("", []),
        ("# nothing", []),
    ],
)
def test_a_line_is_read_as_its_commands(line: str, expected: list[tuple[str | None, ...]] | None) -> None:
    found, unsure, _ = read_commands(line)

    assert expected == (None if unsure else [command.words for command in found])


def test_what_is_set_before_a_command_is_seen() -> None:
    for line in ("A=1 ls", "env A=1 ls", "sudo A=1 env ls", "A=1 env ls", "find . ; A=1 nohup ls"):
        assert read_commands(line).commands[-1].altered
    assert read_commands("env -u A ls").commands == (
        Command(("env", "-u", "A", "ls"), "env", False, True),
        Command(("ls",), "ls"),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("git push", ("git", "push")),
        ("a* '*' \"b c\"", ("a*", "*", "b c")),
        ("> out", (">", "out")),
        ("a b", ("a", "b")),
        ("a; b", None),
        ("a $X", None),
        ("a 'b", None),
        ("a\x00", ("a\x00",)),
    ],
)
def test_the_words_of_a_rule(text: str, expected: tuple[str, ...] | None) -> None:
    assert expected == read_words(text)


# ------------------------------------------------------------------------------------------------- beside the grammar


def calls_in(node: Any) -> Iterator[str]:
    """The names of all programs that stand in a syntax tree as they are."""
    if isinstance(node, dict):
        if node.get("Type") == "CallExpr" and node.get("Args"):
            name = plain(node["Args"][0])
            if name:
                yield name.rsplit("/", 1)[-1].lower()
        for inner in node.values():
            yield from calls_in(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from calls_in(inner)


def plain(word: dict[str, Any]) -> str | None:
    """A word's text; None if something would be put into it."""
    texts = []
    for part in word["Parts"]:
        kind = part["Type"]
        if kind == "Lit":
            if re.search(r"(?<!\\)[*?\[{]", part["Value"]):
                return None
            texts.append(re.sub(r"\\(\n|.)", lambda found: found[1].strip("\n"), part["Value"], flags=re.DOTALL))
        elif kind == "SglQuoted" and not part.get("Dollar"):
            texts.append(part.get("Value", ""))
        elif kind == "DblQuoted" and all(inner["Type"] == "Lit" for inner in part.get("Parts", ())):
            inner = "".join(inner["Value"] for inner in part.get("Parts", ()))
            texts.append(re.sub(r'\\([$`"\\\n])', lambda found: found[1].strip("\n"), inner))
        else:
            return None
    return "".join(texts)


def overlooked(line: str) -> list[str] | None:
    """What the grammar sees and the reader doesn't; None where the grammar refuses a line or the reader is unsure."""
    assert SHFMT is not None
    commands, unsure, _ = read_commands(line)
    if unsure:
        return None
    run = subprocess.run([SHFMT, "--to-json"], input=line, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        return None
    found = {(command.words[0] or "").rsplit("/", 1)[-1].lower() for command in commands}
    return sorted(set(calls_in(json.loads(run.stdout))) - found)


def made_up(random: Random) -> str:
    return "".join(random.choices(PIECES, k=random.randint(1, 12)))


@pytest.mark.skipif(SHFMT is None, reason="needs shfmt, which the extra `dev` brings where there is a wheel")
def test_no_command_of_the_table_is_overlooked() -> None:
    lines = [line for line in (*CURL, *REMOVED, *UNSURE, *ALLOWED) if len(line) < 500 and "\0" not in line]

    assert {line: missed for line in lines if (missed := overlooked(line))} == {}


@pytest.mark.slow
@pytest.mark.skipif(SHFMT is None, reason="as above")
def test_no_command_of_made_up_lines_is_overlooked() -> None:
    random = Random(17)
    lines = [made_up(random) for _ in range(1500)]
    found = {line: overlooked(line) for line in lines}

    assert {line: missed for line, missed in found.items() if missed} == {}
    assert sum(missed == [] for missed in found.values()) > 100, "most lines are no commands: nothing was compared"
