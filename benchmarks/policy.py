"""What judging one call costs with 200 rules: by tool's name, by path, by text, by command line.

Nothing to install, no model. Each kind of call is judged against the same policy, in turn with the others; the policy
is made once. The goal is 20 microseconds a call, the reading of its arguments included.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from time import perf_counter

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python benchmarks/policy.py`

from benchmarks.table import Progress, digits, machine, table
from cognition import SHELL_PROTECTIONS, Policy, Rule, ToolCall, ToolSpec
from cognition.policy import Action

GOAL = 20
"""Microseconds."""

BASH = ToolSpec("Bash", command="command")
WRITE = ToolSpec("Write", paths=("path",), kind="mutation")
FETCH = ToolSpec("fetch", kind="network")
PLAIN = ToolSpec("mcp.files.list", read_only=True)

CALLS: Mapping[str, tuple[ToolSpec, dict[str, str]]] = {
    "a tool that no rule knows": (ToolSpec("look"), {}),
    "a tool by its name": (PLAIN, {"path": "src"}),
    "a path": (WRITE, {"path": "src/app/views/main.py"}),
    "a path from outside": (WRITE, {"path": "/home/me/app/src/main.py"}),
    "an address": (FETCH, {"url": "https://docs.python.org/3/library/re.html"}),
    "a command": (BASH, {"command": "git status --short"}),
    "a command with quotes": (BASH, {"command": 'git commit -m "Mend the reader"'}),
    "two commands and a pipe": (BASH, {"command": "cd src && grep -rn TODO . | head -20"}),
    "a command within a command": (BASH, {"command": "bash -c 'cd src && make test'"}),
}


def policy(rules: int) -> Policy:
    """Rules of all sorts: 40 for a tool's name, and the rest for commands, paths and addresses."""
    each = (rules - 40 - len(SHELL_PROTECTIONS)) // 3
    found = [Rule("allow", f"mcp.server{number}.*") for number in range(20)]
    found += [Rule("ask", f"tool_{number}") for number in range(20)]
    actions: tuple[Action, ...] = ("allow", "ask", "deny")
    for number in range(each):
        action = actions[number % 3]
        found.append(Rule(action, f"Bash(program{number} -x part:*)"))
        found.append(Rule(action, f"Write({('place%d/**', '**/name%d.txt')[number % 2] % number})"))
        found.append(Rule(action, f"fetch(https://host{number}.example.com:*)"))
    found += [Rule("deny", "fetch(http:*)")] * (rules - len(found) - len(SHELL_PROTECTIONS))
    return Policy((*SHELL_PROTECTIONS, *found))


def costs(rules: int, rounds: int, say: Progress) -> list[list[str]]:
    """A line for each kind of call: microseconds, the median of the rounds."""
    judge, empty = policy(rules).judge, Policy().judge
    calls = [(name, ToolCall("1", tool.name, arguments), tool) for name, (tool, arguments) in CALLS.items()]
    times: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name, _, _ in calls}
    for number in range(rounds):
        say(f"judging, round {number + 1} of {rounds}")
        for name, call, tool in calls:
            for one, taken in zip((judge, empty), times[name], strict=True):
                began = perf_counter()
                for _ in range(100):
                    one(call, tool)
                taken.append(1e4 * (perf_counter() - began))
    say.clear()
    return [[name, digits(median(many)), digits(median(none)), f"<= {GOAL}"] for name, (many, none) in times.items()]


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rules", type=int, default=200, help="of the policy, 50 or more (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=50, help="of 100 calls of each kind (default: %(default)s)")
    options = parser.parse_args()
    before = machine()
    began = perf_counter()
    made = policy(options.rules)
    seconds = perf_counter() - began
    header = ["microseconds a call", f"{len(made.rules)} rules", "Policy()", "goal"]
    print(table([header, *costs(options.rules, options.rounds, Progress())]))
    print(f"\nMaking the policy took {1e3 * seconds:.1f} ms.\n\n{before} at the start")
    return 0


if __name__ == "__main__":
    sys.exit(main())
