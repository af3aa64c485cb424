"""What one whole turn costs: cogstep beside other agent libraries, in one run on one machine.

One turn is: the user asks, the model calls one tool, the tool returns, the model answers. The model is a function that
looks at the last message only, so that what is measured is the library: its state, its loop, its checks. Every library
gets the same words and sits in a process of its own; they are measured in rounds (A B C, A B C, ...), so that whatever
else the machine does meanwhile falls on all of them. Figures are medians over all turns of all rounds.

The first run makes an environment for the peers in benchmarks/.peers and installs the versions of benchmarks/peers.txt;
cogstep itself is measured in the environment that runs this script.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python benchmarks/turn.py`

from benchmarks import environment
from benchmarks.comparison import COGSTEP, FLOOR, JOURNAL, LOOP, PEERS, STEP, THREAD, TURNS_A_ROUND, Comparison
from benchmarks.table import Progress, machine


def arguments() -> argparse.Namespace:
    names = ", ".join(row.name for row in PEERS)
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="""examples:
  python benchmarks/turn.py                                everything: two to five minutes; the first time longer
  python benchmarks/turn.py --peers none                   cogstep and the floor alone: no installation, seconds
  python benchmarks/turn.py --peers burr,langgraph --turns 60
  python benchmarks/turn.py --peers none --lengths 10,10000
""",
    )
    parser.add_argument("--peers", default="all", help=f"all, none, or names with commas between: {names}")
    parser.add_argument(
        "--lengths",
        default="10,100,1000",
        help="turns that the conversation already has (default: %(default)s); ratios stand at the first and the last",
    )
    parser.add_argument(
        "--turns",
        type=int,
        default=30,
        help=f"timed turns of each row at each length, at least, in rounds of {TURNS_A_ROUND} (default: %(default)s)",
    )
    parser.add_argument(
        "--journal",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="also measure cogstep while it records the session, to a temporary file and without fsync",
    )
    parsed = parser.parse_args()
    by_name = {row.name: row for row in PEERS}
    chosen = {"all": list(by_name), "none": []}.get(parsed.peers, parsed.peers.split(","))
    unknown = [name for name in chosen if name not in by_name]
    if unknown:
        parser.error(f"there is no peer {', '.join(unknown)}; choose of: all, none, {names}")
    parsed.peers = [by_name[name] for name in chosen]
    try:
        parsed.lengths = sorted({int(length) for length in parsed.lengths.split(",")})
    except ValueError:
        parser.error(f"--lengths takes whole numbers with commas between, not {parsed.lengths!r}")
    if parsed.lengths[0] < 1 or parsed.turns < 1:
        parser.error("a history has at least one turn, and at least one turn is timed")
    return parsed


def main() -> int:
    options = arguments()
    say = Progress()
    before = machine()
    rows = [FLOOR, STEP, COGSTEP, LOOP, THREAD, *([JOURNAL] if options.journal else []), *options.peers]
    comparison = Comparison(rows, options.lengths, say)
    try:
        missing = environment.prepare({row.name: row.distributions for row in options.peers}, say)
        comparison.rows = [row for row in rows if row.name not in missing]
        comparison.failures.update(missing)
        comparison.run(options.turns)
    except KeyboardInterrupt:
        say.clear()
        print("interrupted; the peers' processes have ended", file=sys.stderr)
        if not comparison.figures:
            return 130
        print("what was measured until then:", file=sys.stderr)
    say.clear()
    print("One turn (user, tool call, result, answer) in ms, by the turns that the conversation already has\n")
    print(comparison.table())
    for name, reason in comparison.failures.items():
        print(f"\n{name} {reason}")
    print(f"\n{before} at the start, {os.getloadavg()[0]:.1f} at the end")
    return 1 if comparison.failures else 0


if __name__ == "__main__":
    sys.exit(main())
