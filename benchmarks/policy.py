"""What judging one call costs with 200 rules: by tool's name, by path, by text, by command line.

Nothing to install, no model. Each kind of call is judged against the same policy, in turn with the others; the policy
is made once. No call occurs twice, so that nothing remembered from an earlier one helps. The goal is 30 microseconds a
call, the reading of its arguments included, on an idle machine. Each figure is the shortest of many rounds, which a
busy machine changes least. Exits with 1 if one is above the goal, and the rounds are enough to tell.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python benchmarks/policy.py`

from benchmarks.table import Progress, digits, machine, table
from cognition import SHELL_PROTECTIONS, Policy, Rule, ToolCall, ToolSpec
from cognition.policy import Action

GOAL = 30
"""Microseconds."""
CALLS_IN_A_ROUND = 10
"""Few, so that some rounds pass without an interruption by other processes."""

ENOUGH = 100
"""The fewest rounds that tell whether the goal is met."""

BASH = ToolSpec("Bash", command="command")
WRITE = ToolSpec("Write", paths=("path",), kind="mutation")
FETCH = ToolSpec("fetch", kind="network")
PLAIN = ToolSpec("mcp.files.list", read_only=True)

CALLS: Mapping[str, tuple[ToolSpec, Mapping[str, str]]] = {
    "a tool that no rule knows": (ToolSpec("look"), {}),
    "a tool by its name": (PLAIN, {"path": "src%"}),
    "a path": (WRITE, {"path": "src/app/views/main%.py"}),
    "a path from outside": (WRITE, {"path": "/home/me/app/src/main%.py"}),
    "an address": (FETCH, {"url": "https://docs.python.org/3/library/re%.html"}),
    "a command": (BASH, {"command": "git status src%"}),
    "a command with quotes": (BASH, {"command": 'git commit -m "Mend the reader %"'}),
    "two commands and a pipe": (BASH, {"command": "cd src% && grep -rn TODO% . | head -20"}),
    "a command within a command": (BASH, {"command": "bash -c 'cd src% && make test%'"}),
}
"""Each kind of call; a number takes the place of ``%``."""


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


def costs(rules: int, rounds: int, say: Progress) -> dict[str, tuple[float, float]]:
    """Microseconds of each kind of call, with that many rules and with none: the shortest of the rounds."""
    judges = policy(rules).judge, Policy().judge
    times: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in CALLS}
    numbers = count()
    for number in range(rounds):
        if number % 100 == 0:
            say(f"judging, round {number + 1} of {rounds}")
        for name, (tool, texts) in CALLS.items():
            for judge, taken in zip(judges, times[name], strict=True):
                calls = [ToolCall("1", tool.name, filled(texts, next(numbers))) for _ in range(CALLS_IN_A_ROUND)]
                began = perf_counter()
                for call in calls:
                    judge(call, tool)
                taken.append(1e6 * (perf_counter() - began) / CALLS_IN_A_ROUND)
    say.clear()
    return {name: (min(many), min(none)) for name, (many, none) in times.items()}


def filled(texts: Mapping[str, str], number: int) -> dict[str, str]:
    """Arguments with a number in them."""
    return {name: text.replace("%", str(number)) for name, text in texts.items()}


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rules", type=int, default=200, help="of the policy, 50 or more (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=500, help="of 10 calls of each kind (default: %(default)s)")
    options = parser.parse_args()
    before = machine()
    began = perf_counter()
    made = policy(options.rules)
    seconds = perf_counter() - began
    header = ["microseconds a call", f"{len(made.rules)} rules", "Policy()", "goal"]
    found = costs(options.rules, options.rounds, Progress())
    rows = [[name, digits(many), digits(none), f"<= {GOAL}"] for name, (many, none) in found.items()]
    print(table([header, *rows]))
    print(f"\nMaking the policy took {1e3 * seconds:.1f} ms.\n\n{before} at the start")
    return 1 if options.rounds >= ENOUGH and any(many > GOAL for many, _ in found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
