"""Measures all tests and writes ``tests/slow.txt``, the list of those that ``make test`` leaves to ``make test-all``.

    python tests/slow.py          runs every test, on all processors; then look at the difference and commit it
    python tests/slow.py -m 'not slow'   runs those of the quick lane, and keeps what the list has of others
    python tests/slow.py LOG...   reads what such a run has written, without running anything

A test that takes longer than ``LONG`` seconds with the few examples of the quick lane is slow, unless it is one of
``QUICK``, which have to be in the quick lane: they run the shipped model on each backend. The core's tests may take
``CORE_LONG``: the quick lane reaches every line of the core. Of a test whose parameters take more than ``TOGETHER``
seconds, the quick lane has every second parameter, or every tenth: so that they take half of that.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "slow.txt"
LONG, CORE_LONG = 0.5, 1.0
"""Seconds, on two processors that are both at work. Half of the lane's time was in 2 % of its tests."""
TOGETHER = 8.0
EVERY = re.compile(r"(?P<function>[^\[]+) every (?P<step>\d+)")
"""How the list names a test of which the quick lane has every so many parameters."""
CORE = ("tests/cognition/", "tests/laws/")
IN_MANY_CUTS = "tests/cognition/parsing/"
"""Of the core, only these tests may have a part of their parameters: others are what `make mutants` runs."""
QUICK = ("tests/end_to_end/test_shipped_model.py", "tests/test_face.py", "tests/test_architecture.py")
LOG = "COGSTEP_DURATIONS"
"""The variable that names the directory for what each process of the run writes."""


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """As a plugin of that run: write down how long each phase of a test took."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is not None:
        with (Path(os.environ[LOG]) / worker).open("a") as log:
            log.write(json.dumps([report.nodeid, report.duration]) + "\n")


def slow_tests(logs: Iterable[Path], before: Iterable[str] = ()) -> list[str]:
    """Return the slow tests: functions that are slow with each parameter or have too many, and beginnings of the ids of
    others, up to the first character that a list can't hold.

    Args:
        logs: what the processes of a run have written.
        before: the list so far, of which the tests that did not run are kept.
    """
    taken: dict[str, float] = defaultdict(float)
    for log in logs:
        for line in log.read_text().splitlines():
            name, seconds = json.loads(line)
            taken[name] += seconds
    slow = {name for name, seconds in taken.items() if seconds > _longest(name)}
    often_quick = {_function(name) for name in taken if name not in slow}
    found = {_function(name) if _function(name) not in often_quick else _beginning(name) for name in slow}
    together: dict[str, float] = defaultdict(float)
    for name in taken.keys() - slow:
        if "[" in name and (not name.startswith((*QUICK, *CORE)) or name.startswith(IN_MANY_CUTS)):
            together[_function(name)] += taken[name]
    found |= {f"{name} every {math.ceil(took / TOGETHER * 2)}" for name, took in together.items() if took > TOGETHER}
    found |= {name for name in before if not any(one.startswith(_measured(name)) for one in taken)}
    return sorted(name for name in found if _function(name) not in found or "[" not in name)


def _measured(name: str) -> str:
    """Return the beginning of the ids of the tests that a line of the list is of."""
    every = EVERY.fullmatch(name)
    return f"{every['function']}[" if every else name


def _function(name: str) -> str:
    return name.partition("[")[0]


def _longest(name: str) -> float:
    return math.inf if name.startswith(QUICK) else CORE_LONG if name.startswith(CORE) else LONG


def _beginning(name: str) -> str:
    return next((name[:place] for place, one in enumerate(name) if not one.isprintable() or place > 200), name)


def main() -> int:
    before = LIST.read_text().splitlines()
    if sys.argv[1:] and not sys.argv[1].startswith("-"):
        LIST.write_text("".join(f"{name}\n" for name in slow_tests(map(Path, sys.argv[1:]), before)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, LOG: folder, "PYTHONPATH": str(ROOT / "tests")}
        command = [sys.executable, "-m", "pytest", "-p", "slow", "-n", "auto", "--dist", "worksteal"]
        command += ["--hypothesis-profile=quick", *sys.argv[1:]]
        done = subprocess.run(command, cwd=ROOT, env=environment, check=False)
        LIST.write_text("".join(f"{name}\n" for name in slow_tests(Path(folder).iterdir(), before)))
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
