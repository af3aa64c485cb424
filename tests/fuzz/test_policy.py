"""The fuzzer of policy: its boxes note what runs, and it finds what a judge lets through."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest

from tests.fuzz.policy import MARKERS, SHELLS, Box, Writer, breaches, try_batch

needs_shells = pytest.mark.skipif(
    any(shutil.which(program) is None for program in (*SHELLS, "bwrap")),
    reason="needs bash, dash and bubblewrap, in which lines are run",
)

HOLES = {
    "curl x": "curl x",
    "echo a; wrap push now": "push now",
    "cd sub && ./curl": "curl",
    "echo 'curl x' | sh": "curl x",
    "make CC='curl x #'": "curl x",
    "sed '1e curl x' a": "curl x",
}
"""Lines that a judge must not allow, with what they run."""


@needs_shells
def test_what_a_line_runs_is_found_in_both_shells(tmp_path: Path) -> None:
    box = Box(tmp_path / "box")

    found = list(try_batch(box, "open", ["ls", *HOLES, "push later", "true"]))

    assert [(shell, line) for shell, line, _ in found] == [(shell, line) for shell in SHELLS for line in HOLES]
    assert all(HOLES[line] in did for _, line, did in found)


@needs_shells
def test_a_closed_policy_allows_no_other_program_and_no_change(tmp_path: Path) -> None:
    box = Box(tmp_path / "box")

    found = list(try_batch(box, "closed", ["ls", "cat a", "./run", "echo a > out", "touch b", "cd sub && ./run"]))

    assert {line for _, line, _ in found} == {"echo a > out", "touch b", "cd sub && ./run"}
    assert len(found) == 2 * 3
    assert box.files() == box.before


@needs_shells
def test_a_line_that_does_not_end_is_stopped(tmp_path: Path) -> None:
    ran, ended = Box(tmp_path / "box").run("bash", ["curl first", "while :; do :; done"], 0.5)

    assert not ended
    assert ran == {0: ["curl first"]}


def test_a_program_is_a_breach_by_its_words() -> None:
    assert breaches("open", ["curl x", "push later", "push now", "ls"]) == ["curl x", "push now"]
    assert breaches("closed", ["run", "another run", "awk p", "cat a"]) == ["another run", "awk p"]


def test_the_same_seed_draws_the_same_lines_of_every_kind() -> None:
    """With every marker in some of them."""
    lines = [[Writer(Random(5)).line() for _ in range(1)] for _ in range(2)]
    assert lines[0] == lines[1]

    writer = Writer(Random(6))
    drawn = [writer.line() for _ in range(2000)]
    kinds = {kind for line in drawn for kind in line.kinds}
    assert {"find", "sed", "make", "strange", "standard input", "other shell", "here-document"} <= kinds
    assert all(any(name in line.text for line in drawn) for name in MARKERS)
