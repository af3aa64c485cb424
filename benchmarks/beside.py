"""This source tree beside another one of cogstep, such as the commit before: the same measurements, in rounds.

    git worktree add ../before HEAD~1
    python benchmarks/beside.py ../before
    python benchmarks/beside.py ../before --scripts 5      some minutes more: step.py and interpreters.py as well

One turn is that of ``turn.py``: user, tool call, result, answer. Both trees run in processes of their own with the same
Python, A B A B, so that whatever else the machine does falls on both. What is printed is CPU time, here divided by
there: below 1 this tree is the faster one. The best turn counts: what one takes when nothing slows the machine. Of the
two scripts, which are run as they are in each tree, the best round of each figure counts.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python benchmarks/beside.py`

from attrs import evolve

from benchmarks.comparison import COGSTEP, JOURNAL, LOOP, LOOP_JOURNAL, STEP, THREAD, Comparison
from benchmarks.table import Progress, digits, machine, table

HERE = Path(__file__).resolve().parent.parent
ROWS = (STEP, COGSTEP, THREAD, LOOP, JOURNAL, LOOP_JOURNAL)

SCRIPTS: Mapping[str, tuple[str, ...]] = {"step.py": (), "interpreters.py": ("--peers", "none")}
RATES = ("inputs a second", "CPU")
"""The table, by its first heading, and its column of which more is better."""
COSTS = ("@10 messages", "@10000 messages", "bytes a step beyond", "bytes beyond", "best round")
"""Columns of which less is better. Others are goals, shares of these, or what is measured by turns above."""

Key = tuple[str, str]
"""A row and a column."""


def figures_in(printed: str) -> Iterator[tuple[Key, float]]:
    """Each figure of the tables that a script has printed. A table has a line of dashes below its heading."""
    lines = printed.splitlines()
    spans: list[tuple[int, int]] = []
    names: list[str] = []
    for number, line in enumerate(lines):
        if re.fullmatch(r"-+(?:  -+)+", line):
            spans = [match.span() for match in re.finditer("-+", line)]
            names = [lines[number - 1][start:end].strip() for start, end in spans]
        elif not line:
            spans = []
        elif spans:
            cells = [line[start:end].strip() for start, end in spans]
            for name, cell in zip(names[1:], cells[1:], strict=True):
                column = f"{names[0]}, {name}" if (names[0], name) == RATES else name
                if (column != name or name in COSTS) and re.fullmatch(r"[0-9,]+(?:\.[0-9]+)?", cell):
                    yield (cells[0], column), float(cell.replace(",", ""))


def run_in(tree: Path, script: str) -> dict[Key, float]:
    """The figures that a script prints in a source tree.

    Raises:
        SystemExit: it failed; shows what it printed.
    """
    command = [sys.executable, str(tree / "benchmarks" / script), *SCRIPTS[script]]
    environment = os.environ | {"PYTHONPATH": str(tree)}
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{done.stdout}\n{done.stderr}\n{script} failed with {done.returncode} in {tree}")
    return dict(figures_in(done.stdout))


def better(key: Key, one: float, other: float) -> float:
    """Of two rounds' figures the better one."""
    return max(one, other) if is_rate(key) else min(one, other)


def is_rate(key: Key) -> bool:
    """Whether more of it is better."""
    return key[1] == ", ".join(RATES)


def scripts_table(there: Path, rounds: int, say: Progress) -> str:
    """The figures of the scripts in both trees, the best of so many rounds."""
    best: dict[Path, dict[Key, float]] = {HERE: {}, there: {}}
    for number in range(1, rounds + 1):
        for script in SCRIPTS:
            for tree in (HERE, there):
                say(f"round {number} of {rounds}: {script} in {tree}")
                for key, value in run_in(tree, script).items():
                    best[tree][key] = better(key, value, best[tree].get(key, value))
    lines = [["", "", "here", "there", "here/there, as a cost"]]
    for key, ours in best[HERE].items():
        theirs = best[there].get(key)
        if theirs:
            ratio = theirs / ours if is_rate(key) else ours / theirs
            lines.append([*key, digits(ours), digits(theirs), f"{ratio:.2f}"])
    return table(lines)


def turns_table(there: Path, lengths: list[int], turns: int, say: Progress) -> tuple[str, Mapping[str, str]]:
    """One turn in both trees, and what failed."""
    theirs_of = {row: evolve(row, name=f"{row.name} there", checkout=there) for row in ROWS}
    comparison = Comparison([one for row in ROWS for one in (row, theirs_of[row])], lengths, say)
    comparison.run(turns)
    lines = [["", *(f"{what} @{length}" for length in lengths for what in ("here, ms", "there, ms", "here/there"))]]
    for row in ROWS:
        line = [row.name]
        for length in lengths:
            ours, theirs = (comparison.figures[name, length] for name in (row.name, theirs_of[row].name))
            best = [min(map(min, one.cpu), default=float("nan")) for one in (ours, theirs)]
            line += [digits(best[0]), digits(best[1]), f"{best[0] / best[1]:.2f}"]
        lines.append(line)
    return table(lines), comparison.failures


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="the directory of the other source tree")
    parser.add_argument("--lengths", default="10,1000", help="turns of the conversation (default: %(default)s)")
    parser.add_argument("--turns", type=int, default=90, help="timed turns of each (default: %(default)s)")
    parser.add_argument(
        "--scripts", type=int, default=0, metavar="N", help="also run step.py and interpreters.py, N rounds of each"
    )
    options = parser.parse_args()
    if not (options.other / "benchmarks" / "peers" / "measure.py").is_file():
        parser.error(f"{options.other} is no source tree of cogstep")
    say, there = Progress(), options.other.resolve()
    printed, failures = turns_table(there, [int(one) for one in options.lengths.split(",")], options.turns, say)
    say.clear()
    print(printed)
    for name, reason in failures.items():
        print(f"\n{name} {reason}")
    if options.scripts:
        printed = scripts_table(there, options.scripts, say)
        say.clear()
        print(f"\n{printed}")
    print(f"\n{machine()}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
