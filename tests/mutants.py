"""Mutation testing of the core: how many of mutmut's changes to it do the fast tests notice?

``make mutants`` starts from nothing, tries every mutant, and writes its table into docs/concepts/mutants.md, with its
date and commit. ``make mutants ARGS="'cognition.steps.retry.*'"`` tries a part of them and keeps the other results.
Exits with 1 when less than ``WANTED`` of the mutants is killed. What survives is explained in docs/concepts/mutants.md,
function by function; whatever goes beyond that list is printed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parent.parent
WORKPLACE = ROOT / "mutants"
"""mutmut's own folder: the mutated copy of the sources, and the results."""
PAGE = ROOT / "docs" / "concepts" / "mutants.md"
WANTED = 0.90
KILLED = ("killed", "timeout")
"""A mutant that runs into mutmut's time limit was noticed: the suite does not end."""
RESULT = re.compile(r"\s*(?P<name>\S+): (?P<status>[a-z ]+)")
EXPLAINED = re.compile(r"\| `(?P<function>[\w.]+)` \| (?P<count>\d+) \|")
TABLE = re.compile(r"(?<=<!-- the newest whole run -->\n).*?(?=<!-- end -->)", re.DOTALL)
"""Where the page has it."""
MANGLED = re.compile(r"\.(?:x_|xǁ(?P<owner>\w+)ǁ)(?P<name>\w+)__mutmut_\d+$")


def mutmut(*arguments: str) -> str:
    """What mutmut prints; ends this program with that text if mutmut fails."""
    command = [sys.executable, "-m", "mutmut", *arguments]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        sys.exit(f"{done.stdout}\nmutmut {' '.join(arguments)} failed with {done.returncode}")
    return done.stdout


def function_of(mutant: str) -> str:
    """The function that a mutant changes: ``cognition.base.ids.x_effect_id__mutmut_4`` is one of ``ids.effect_id``."""
    found = MANGLED.search(mutant)
    if found is None:
        raise ValueError(f"{mutant!r} is no name of a mutant that mutmut 3 gives")
    module = mutant[: found.start()].removeprefix("cognition.")
    return ".".join(part for part in (module, found["owner"], found["name"]) if part)


def commit() -> str:
    """What is checked out, and whether the core or its tests were changed since."""
    git = ("git", "-C", str(ROOT))
    name = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
    changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", "cognition", "tests/cognition"], check=False)
    return f"commit {name.stdout.strip()}{' with changes' if changed.returncode else ''}"


def write_table(modules: Mapping[str, Counter[str]], minutes: float) -> None:
    """Put the result of a whole run into the page."""
    total = sum(counts.total() for counts in modules.values())
    killed = sum(counts["killed"] for counts in modules.values())
    lines = [f"{datetime.now(UTC):%-d %B %Y}, {commit()}, {minutes:.0f} minutes.", ""]
    lines += ["| module | mutants | killed | |", "|---|---:|---:|---:|"]
    for module, counts in sorted(modules.items()):
        lines.append(
            f"| `{module}` | {counts.total()} | {counts['killed']} | {counts['killed'] / counts.total():.1%} |"
        )
    lines.append(f"| all | {total} | {killed} | {killed / total:.1%} |")
    page = PAGE.read_text()
    PAGE.write_text(TABLE.sub("\n" + "\n".join(lines) + "\n\n", page))


def main(chosen: list[str]) -> int:
    if not chosen:
        shutil.rmtree(WORKPLACE, ignore_errors=True)
    print("trying mutants; this takes some minutes ...", flush=True)
    started = time.monotonic()
    mutmut("run", *chosen)
    seconds = time.monotonic() - started

    modules: dict[str, Counter[str]] = {}
    survivors: Counter[str] = Counter()
    for line in mutmut("results", "--all", "true").splitlines():
        found = RESULT.fullmatch(line)
        if found is None or found["status"] == "not checked":
            continue
        module = found["name"].rpartition(".")[0]
        status = "killed" if found["status"] in KILLED else found["status"]
        modules.setdefault(module, Counter())[status] += 1
        if status != "killed":
            survivors[function_of(found["name"])] += 1

    print(f"\n{'module':36}{'mutants':>8}{'killed':>8}")
    for module, counts in sorted(modules.items()):
        print(f"{module:36}{counts.total():8}{counts['killed']:8}{counts['killed'] / counts.total():8.1%}")
    total = sum(counts.total() for counts in modules.values())
    killed = sum(counts["killed"] for counts in modules.values())
    share = killed / total if total else 0.0
    print(f"{'all':36}{total:8}{killed:8}{share:8.1%}   in {seconds / 60:.1f} minutes")

    if total and not chosen:
        write_table(modules, seconds / 60)
    page = TABLE.sub("", PAGE.read_text())
    explained = {found["function"]: int(found["count"]) for found in EXPLAINED.finditer(page)}
    for function, count in sorted((survivors - Counter(explained)).items()):
        print(
            f"{count} more than docs/concepts/mutants.md explains in {function}: mutmut results, then mutmut show NAME"
        )
    if share < WANTED:
        print(f"less than {WANTED:.0%} are killed", file=sys.stderr)
    return int(share < WANTED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
