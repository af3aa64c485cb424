"""What conversations that wait cost in memory: cogstep beside other agent libraries, in one run on one machine.

A service holds many conversations of which few are at work. Each library takes one turn (see ``turn.py``) in each of
1,000 conversations and keeps what it needs for another turn: a state, a list of messages, an agent. What all of them
share, such as the imported library, is not counted.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python benchmarks/idle.py`

from benchmarks import environment
from benchmarks.children import Child, ChildError, Row
from benchmarks.comparison import COGSTEP, FLOOR, PEERS, STEP
from benchmarks.table import Progress, digits, machine, table


def measured(row: Row, count: int) -> tuple[str, float, int]:
    """The version, the KB of each conversation, and how many were kept."""
    child = Child(row)
    try:
        child.start()
        answer = child.idle(count)
        return child.version, answer["bytes"] / 1024, answer["count"]
    finally:
        child.end()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=1000, help="conversations kept (default: %(default)s)")
    parser.add_argument("--peers", default="all", help="all, none, or names with commas between")
    options = parser.parse_args()
    if options.sessions < 2:
        parser.error("at least two sessions are compared")
    by_name = {row.name: row for row in PEERS}
    names = {"all": list(by_name), "none": []}.get(options.peers, options.peers.split(","))
    if unknown := [name for name in names if name not in by_name]:
        parser.error(f"there is no peer {', '.join(unknown)}; choose of: all, none, {', '.join(by_name)}")
    peers = [by_name[name] for name in names]
    say = Progress()
    lines = [["an idle conversation after one turn", "version", "KB", "x cogstep", "kept"]]
    own = 0.0
    try:
        failures = environment.prepare({row.name: row.distributions for row in peers}, say)
        for row in (COGSTEP, STEP, FLOOR, *(row for row in peers if row.name not in failures)):
            say(f"keeping conversations of {row.name}")
            try:
                version, size, kept = measured(row, options.sessions)
            except ChildError as error:
                failures[row.name] = f"failed: {error}"
                continue
            own = own or size
            lines.append([row.name, version if row is not FLOOR else "", digits(size), digits(size / own), str(kept)])
    except KeyboardInterrupt:
        say.clear()
        print("interrupted", file=sys.stderr)
        return 130
    say.clear()
    print(table(lines))
    for name, reason in failures.items():
        print(f"\n{name} {reason}")
    print(f"\n{machine()} at the end")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
