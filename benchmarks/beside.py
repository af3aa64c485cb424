"""This source tree beside another one of cogstep, such as the commit before: the same turns, measured in rounds.

    git worktree add ../before HEAD~1
    python benchmarks/beside.py ../before

One turn is that of ``turn.py``: user, tool call, result, answer. Both trees run in processes of their own with the same
Python, A B A B, so that whatever else the machine does falls on both. What is printed is CPU time, here divided by
there: below 1 this tree is the faster one. The best turn counts: what one takes when nothing slows the machine.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python benchmarks/beside.py`

from attrs import evolve

from benchmarks.comparison import COGSTEP, JOURNAL, LOOP, LOOP_JOURNAL, STEP, THREAD, Comparison
from benchmarks.table import Progress, digits, machine, table

ROWS = (STEP, COGSTEP, THREAD, LOOP, JOURNAL, LOOP_JOURNAL)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="the directory of the other source tree")
    parser.add_argument("--lengths", default="10,1000", help="turns of the conversation (default: %(default)s)")
    parser.add_argument("--turns", type=int, default=90, help="timed turns of each (default: %(default)s)")
    options = parser.parse_args()
    if not (options.other / "benchmarks" / "peers" / "measure.py").is_file():
        parser.error(f"{options.other} is no source tree of cogstep")
    lengths = [int(length) for length in options.lengths.split(",")]
    there = {row: evolve(row, name=f"{row.name} there", checkout=options.other.resolve()) for row in ROWS}
    say = Progress()
    comparison = Comparison([one for row in ROWS for one in (row, there[row])], lengths, say)
    comparison.run(options.turns)
    say.clear()
    lines = [["", *(f"{what} @{length}" for length in lengths for what in ("here, ms", "there, ms", "here/there"))]]
    for row in ROWS:
        line = [row.name]
        for length in lengths:
            ours, theirs = (comparison.figures[name, length] for name in (row.name, there[row].name))
            best = [min(map(min, one.cpu), default=float("nan")) for one in (ours, theirs)]
            line += [digits(best[0]), digits(best[1]), f"{best[0] / best[1]:.2f}"]
        lines.append(line)
    print(table(lines))
    for name, reason in comparison.failures.items():
        print(f"\n{name} {reason}")
    print(f"\n{machine()}")
    return 1 if comparison.failures else 0


if __name__ == "__main__":
    sys.exit(main())
