"""No command that is promised breaks unseen: CI runs all that ``make help`` lists, and one round of each benchmark."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.once import ONCE

ROOT = Path(__file__).resolve().parent.parent

LISTED = re.compile(r"^  make (?P<name>[a-z0-9-]+)  ", re.MULTILINE)
RUN = re.compile(r"^ *run (?:SHORT=1 )?(?P<name>[a-z0-9-]+)", re.MULTILINE)
PROGRAM = 'if __name__ == "__main__":'

needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="a wheel's tests may run where there is no make")


# What an outer ``make`` hands to the programs that it runs: its own command line, and that it is not the first.
OF_AN_OUTER_MAKE = {"MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "GNUMAKEFLAGS", "SHORT", "ARGS"}


def said_by_make(*arguments: str) -> str:
    """What a first ``make`` prints: these tests are themselves run by one, whose ``SHORT=1`` is not meant for them."""
    environment = {name: value for name, value in os.environ.items() if name not in OF_AN_OUTER_MAKE}
    command = ["make", "--no-print-directory", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout


@needs_make
def test_ci_runs_every_command_that_make_help_lists() -> None:
    """A target that is added to the Makefile is run by CI, whole or in its short form."""
    listed = LISTED.findall(said_by_make("help"))

    assert len(listed) > 10
    assert set(RUN.findall((ROOT / ".ci" / "run").read_text())) == set(listed)


@needs_make
def test_the_quick_lane_leaves_the_slow_tests_to_the_other_one_which_leaves_nothing() -> None:
    quick, whole = (said_by_make("--dry-run", name).splitlines()[-1] for name in ("test", "test-all"))

    assert quick.replace(' -m "not slow" --hypothesis-profile=quick', "").split() == whole.split()
    assert "--ignore" not in whole
    assert "--deselect" not in whole


def test_the_slow_tests_exist() -> None:
    """A test that got another name would be back in the quick lane unseen: ``python tests/slow.py`` measures anew."""
    sources: dict[str, str] = {}
    for line in (ROOT / "tests" / "slow.txt").read_text("utf-8").splitlines():
        path, *names = line.partition("[")[0].partition(" every ")[0].split("::")
        source = sources.setdefault(path, (ROOT / path).read_text("utf-8"))
        assert names
        for name in names:
            assert name == "runTest" or re.search(rf"\b{re.escape(name)}\b", source), line  # a machine's test


@needs_make
@pytest.mark.parametrize(
    "name",
    [
        "mutants",
        "prove",
        "fuzz",
        "fuzz-policy",
        "conformance",
        "hammer",
        "hammer-isolated",
        "kills",
        "memory-kills",
        "durable-kills",
        "restate-kills",
        "tau2",
        "bench",
    ],
)
def test_a_long_command_has_a_short_form(name: str) -> None:
    """``SHORT=1`` changes what is run, and what is given as ``ARGS`` still comes last."""
    whole = said_by_make("--dry-run", name, "ARGS=--mine").splitlines()[-1]
    short = said_by_make("--dry-run", "SHORT=1", name, "ARGS=--mine").splitlines()[-1]

    assert whole != short
    assert whole.endswith(" --mine")
    assert short.endswith(" --mine")


@needs_make
def test_the_short_form_of_clean_keeps_the_environment() -> None:
    """CI cleans up at its end; whoever runs it by hand has to keep what took minutes to install."""
    removed = said_by_make("--dry-run", "SHORT=1", "clean").split()

    assert ".venv" in said_by_make("--dry-run", "clean").split()
    assert ".venv" not in removed


def test_no_benchmark_hides_a_module_of_python() -> None:
    """A script's own directory is the first place where Python looks for modules."""
    names = {path.stem for path in (ROOT / "benchmarks").glob("*.py")}

    assert names & sys.stdlib_module_names == set()


def test_every_benchmark_is_run_once_by_ci() -> None:
    """A script of ``benchmarks/`` that can be run has its small round in the table."""
    scripts = {path.stem for path in (ROOT / "benchmarks").glob("*.py") if PROGRAM in path.read_text()}

    assert ONCE.keys() == scripts - {"once", "native_tools"}  # the second only compiles what others measure beside
