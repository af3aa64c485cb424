"""What the tools that look at files cost: Grep over 10,000 files beside ripgrep, Glob, Read, Edit.

Nothing to install, no model; where ``rg`` is on the path or beside the interpreter, its own whole command is measured
beside Grep, in turn with it, and the goal is at most 1.5 times its time. Grep is measured with it as a scout and
without it. What judging a call by policy costs is measured by ``benchmarks/policy.py``.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python benchmarks/tools.py`

from benchmarks.table import Progress, digits, machine, table
from interpreters import Tool, ToolContext
from interpreters.toolbox import _ripgrep as ripgrep, file_tools, search_tools

GOAL = 1.5
"""Times what ripgrep takes."""

WORDS = "def return import class self value error path line count open close read write test item name".split()

PATTERNS: Mapping[str, tuple[dict[str, Any], list[str]]] = {
    "a rare text": ({"pattern": "needle_in_a_haystack"}, ["needle_in_a_haystack"]),
    "a text that is nowhere": ({"pattern": "nowhere_at_all"}, ["nowhere_at_all"]),
    "a frequent text": ({"pattern": "return"}, ["return"]),
    "a rare expression": ({"pattern": r"needle_\w+_haystack"}, [r"needle_\w+_haystack"]),
    "a frequent expression": ({"pattern": r"def \w+"}, [r"def \w+"]),
    "an expression that may take long": ({"pattern": r"(needle|pin)_\w+_(hay\w*)"}, [r"(needle|pin)_\w+_(hay\w*)"]),
    "in any case": ({"pattern": "NEEDLE_IN_A", "case_insensitive": True}, ["-i", "NEEDLE_IN_A"]),
    "the files only": ({"pattern": "return", "output_mode": "files_with_matches"}, ["-l", "return"]),
}


def plant(root: Path, count: int) -> None:
    """A tree of source code, the same each time: folders of 50 files with 40 lines each, a tenth of them ignored."""
    drawn = random.Random(1)
    (root / ".git").mkdir()
    (root / ".gitignore").write_text("*.log\n/built/\n__pycache__/\n")
    for number in range(count):
        folder = root / ("built" if number % 10 == 9 else "src") / f"part{number // 500}" / f"piece{number // 50 % 10}"
        folder.mkdir(parents=True, exist_ok=True)
        lines = [" ".join(drawn.choices(WORDS, k=8)) for _ in range(40)]
        lines[3] += " ä" * (number % 50 == 0)
        lines[7] += " needle_in_a_haystack" * (number % 2000 == 17)
        (folder / f"file{number}.py").write_text("\n".join(lines) + "\n")


def timed(act: Callable[[], object]) -> float:
    """Milliseconds."""
    began = perf_counter()
    act()
    return 1e3 * (perf_counter() - began)


def searching(root: Path, rg: str | None, rounds: int, say: Progress) -> list[list[str]]:
    """A line for each pattern, the median of the rounds."""
    grep = search_tools(root)[1]
    lines: list[list[str]] = []
    for name, (arguments, command) in PATTERNS.items():
        say(f"Grep: {name}")
        times: dict[str, list[float]] = {"rg": [], "with": [], "without": []}
        for number in range(rounds + 1):
            for way, taken in times.items():
                if rg is None and way != "without":
                    continue
                if way == "without" and number > max(1, rounds // 5):
                    continue
                one = timed(partial(_once, grep, root, rg, way, arguments, command))
                taken += [one] * (number > 0)  # the first of each fills caches
        theirs, scouted = (median(times[way]) if times[way] else None for way in ("rg", "with"))
        ratio = "-" if theirs is None or scouted is None else f"{scouted / theirs:.2f}"
        shown = ["-" if value is None else digits(value) for value in (theirs, scouted)]
        lines.append([name, *shown, ratio, f"<= {GOAL}", digits(median(times["without"]))])
    say.clear()
    return lines


def _once(
    grep: Tool[..., Any], root: Path, rg: str | None, way: str, arguments: dict[str, Any], command: list[str]
) -> None:
    if way == "rg":
        subprocess.run([str(rg), *command], cwd=root, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        return
    found = rg if way == "with" else None
    ripgrep.program = lru_cache(lambda root: found)  # what is measured here
    grep.call(arguments, ToolContext(None))


def others(root: Path, rounds: int) -> list[list[str]]:
    """A line for each other tool."""
    tools = {tool.spec.name: tool for tool in (*file_tools(root), search_tools(root)[0])}
    context: ToolContext[Any] = ToolContext(None)
    (root / "one.py").write_text("".join(f"line {number} of a file\n" for number in range(1000)))
    (root / "one.txt").write_text("a\n")

    def edit() -> None:
        for old, new in (("a\n", "b\n"), ("b\n", "a\n")):
            tools["Edit"].call({"path": "one.txt", "old": old, "new": new}, context)

    tools["Read"].call({"path": "one.txt"}, context)
    acts: Mapping[str, tuple[Callable[[], object], int]] = {
        "Glob: **/*.py": (lambda: tools["Glob"].call({"pattern": "**/*.py"}, context), 1),
        "Glob: src/part0/piece1/*": (lambda: tools["Glob"].call({"pattern": "src/part0/piece1/*"}, context), 1),
        "Read: 1,000 lines": (lambda: tools["Read"].call({"path": "one.py"}, context), 1),
        "Read: 10 of 1,000 lines": (
            lambda: tools["Read"].call({"path": "one.py", "offset": 500, "limit": 10}, context),
            1,
        ),
        "Edit: one line, to the disk": (edit, 2),
    }
    return [[name, digits(median([timed(act) / calls for _ in range(rounds)]))] for name, (act, calls) in acts.items()]


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=10_000, help="of the tree (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=15, help="of each search (default: %(default)s)")
    options = parser.parse_args()
    before, say = machine(), Progress()
    rg = shutil.which("rg") or shutil.which("rg", path=str(Path(sys.executable).parent))
    with TemporaryDirectory() as name:
        root = Path(name)
        say(f"making {options.files} files")
        plant(root, options.files)
        header = ["Grep, milliseconds", "rg itself", "Grep with rg", "ratio", "goal", "Grep without rg"]
        print(table([header, *searching(root, rg, options.rounds, say)]))
        print()
        print(table([["milliseconds", "a call"], *others(root, options.rounds)]))
    print(f"\n{options.files} files. {'There is no rg here. ' if rg is None else ''}{before} at the start")
    return 0


if __name__ == "__main__":
    sys.exit(main())
