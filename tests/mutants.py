"""Mutation testing of the core: how many of mutmut's changes to it do the fast tests notice?

``make mutants`` starts from nothing, tries every mutant, and writes its table into docs/concepts/mutants.md, with its
date and commit. ``make mutants ARGS="'cognition.steps.retry.*'"`` tries a part of them and keeps the other results.
``make mutants ARGS=--rest`` goes on after a change: it tries the mutants of changed functions, and survivors without a
reason in docs/concepts/mutants.md; other results stay. What goes beyond the reasons of that page is printed, function
by function. Exits with 1 when less than ``WANTED`` of the mutants is killed. ``mutmut results`` reads the results too.
"""

from __future__ import annotations

import fnmatch
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import mutant_trials

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "concepts" / "mutants.md"
WANTED = 0.97
KILLED = (mutant_trials.KILLED, mutant_trials.TIMEOUT)
"""A mutant whose tests run far beyond their time was noticed: the suite does not end."""
EXPLAINED = re.compile(r"\| `(?P<function>[\w.]+)` \| (?P<count>\d+) \|")
TABLE = re.compile(r"(?<=<!-- the newest whole run -->\n).*?(?=<!-- end -->)", re.DOTALL)
"""Where the page has it."""
MANGLED = re.compile(r"\.(?:x_|xǁ(?P<owner>\w+)ǁ)(?P<name>\w+)__mutmut_\d+$")


def function_of(mutant: str) -> str:
    """The function that a mutant changes: ``cognition.base.ids.x_effect_id__mutmut_4`` is one of ``ids.effect_id``."""
    found = MANGLED.search(mutant)
    if found is None:
        raise ValueError(f"{mutant!r} is no name of a mutant that mutmut 3 gives")
    module = mutant[: found.start()].removeprefix("cognition.")
    return ".".join(part for part in (module, found["owner"], found["name"]) if part)


def unexplained(survivors: Iterable[str]) -> Counter[str]:
    """The functions with more survivors than the page explains, and how many more."""
    page = TABLE.sub("", PAGE.read_text())
    explained = {found["function"]: int(found["count"]) for found in EXPLAINED.finditer(page)}
    return Counter(map(function_of, survivors)) - Counter(explained)


def commit() -> str:
    """What is checked out, and whether the core or its tests were changed since."""
    git = ("git", "-C", str(ROOT))
    name = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
    changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", "cognition", "tests/cognition"], check=False)
    return f"commit {name.stdout.strip()}{' with changes' if changed.returncode else ''}"


def write_table(modules: Mapping[str, Counter[str]], minutes: float, part: str) -> None:
    """Put the results of all mutants into the page. ``part``: of how many of them the minutes are."""
    total = sum(counts.total() for counts in modules.values())
    killed = sum(counts["killed"] for counts in modules.values())
    lines = [f"{datetime.now(UTC):%-d %B %Y}, {commit()}, {minutes:.0f} minutes for {part}.", ""]
    lines += ["| module | mutants | killed | |", "|---|---:|---:|---:|"]
    for module, counts in sorted(modules.items()):
        lines.append(
            f"| `{module}` | {counts.total()} | {counts['killed']} | {counts['killed'] / counts.total():.1%} |"
        )
    lines.append(f"| all | {total} | {killed} | {killed / total:.1%} |")
    page = PAGE.read_text()
    PAGE.write_text(TABLE.sub("\n" + "\n".join(lines) + "\n\n", page))


def main(chosen: list[str]) -> int:
    rest = chosen == ["--rest"]
    if not chosen:
        shutil.rmtree(ROOT / mutant_trials.WORKPLACE, ignore_errors=True)
    started = time.monotonic()
    mutant_trials.say("making mutants ...")
    mutant_trials.make_mutants()
    known = {key: code for data in mutant_trials.results().values() for key, code in data.exit_code_by_key.items()}
    if rest:
        without_reason = unexplained(key for key, code in known.items() if code not in (None, *KILLED))
        keys = [
            key
            for key, code in known.items()
            if code is None or (code not in KILLED and function_of(key) in without_reason)
        ]
    else:
        keys = [key for key in known if not chosen or any(fnmatch.fnmatch(key, pattern) for pattern in chosen)]
    if not keys and not rest:
        sys.exit(f"no mutant has a name like {' or '.join(chosen)}")
    mutant_trials.say("running the tests once to see what each of them reaches ...")
    mutant_trials.try_mutants(keys, mutant_trials.record_reach())
    seconds = time.monotonic() - started

    modules: dict[str, Counter[str]] = {}
    survivors: list[str] = []
    for data in mutant_trials.results().values():
        for key, code in data.exit_code_by_key.items():
            if code is None:
                continue
            killed = code in KILLED
            modules.setdefault(key.rpartition(".")[0], Counter())["killed" if killed else "survived"] += 1
            if not killed:
                survivors.append(key)

    print(f"\n{'module':42}{'mutants':>8}{'killed':>8}")
    for module, counts in sorted(modules.items()):
        print(f"{module:42}{counts.total():8}{counts['killed']:8}{counts['killed'] / counts.total():8.1%}")
    total = sum(counts.total() for counts in modules.values())
    killed_in_all = sum(counts["killed"] for counts in modules.values())
    share = killed_in_all / total
    print(f"{'all':42}{total:8}{killed_in_all:8}{share:8.1%}   in {seconds / 60:.1f} minutes")

    if rest or not chosen:
        write_table(modules, seconds / 60, f"{len(keys)} of the mutants" if rest else "all")
    for function, count in sorted(unexplained(survivors).items()):
        print(
            f"{count} more than docs/concepts/mutants.md explains in {function}: mutmut results, then mutmut show NAME"
        )
    if share < WANTED:
        print(f"less than {WANTED:.0%} are killed", file=sys.stderr)
    return int(share < WANTED)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit("stopped; what was tried is kept: mutmut results")
