"""Settings for all tests."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings

# What tests record is sealed, and no key of the person who runs them is used or made for it.
_state = tempfile.TemporaryDirectory(prefix="cogstep-tests-")
os.environ["XDG_STATE_HOME"] = _state.name

# No test of ours is about time, and the machines that run them are shared: a slow example is no failure.
settings.register_profile("cogstep", deadline=None, print_blob=True)
# For `make mutants`: thousands of runs, each of which only has to say whether a test fails, always in the same way.
settings.register_profile(
    "mutants",
    parent=settings.get_profile("cogstep"),
    max_examples=20,
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate),
)
# For `make test`: what it leaves to `make test-all` is more examples of the same properties, and the slow tests.
settings.register_profile("quick", parent=settings.get_profile("cogstep"), max_examples=25)
# For `make test-pythons`: the same tests on further Pythons. More examples are drawn on the first one.
settings.register_profile("few", parent=settings.get_profile("cogstep"), max_examples=5)
settings.load_profile("cogstep")


# A shell starts background jobs with Ctrl-C ignored, which they and their children inherit: tests of Ctrl-C would hang.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# ------------------------------------------------------------------------------------------------------- the two lanes

SLOW = Path(__file__).with_name("slow.txt")
"""Slow tests: functions, beginnings of ids with parameters, and functions of which every so many parameters are quick.
``python tests/slow.py`` measures and writes it.
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    explanation = "start no test after this time: the others are skipped. Each run begins in another place"
    parser.addoption("--seconds", type=float, metavar="S", help=explanation)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the slow tests, which ``make test`` leaves to ``make test-all``. Where the time is bounded, begin at another
    test each time, so that each has its turn on a slow machine too. The workers of a run have to agree on it.
    """
    listed = SLOW.read_text("utf-8").splitlines()
    functions, beginnings = set(listed), tuple(name for name in listed if "[" in name)
    every = {name: int(step) for name, _, step in (line.partition(" every ") for line in listed) if step.isdecimal()}
    seen: Counter[str] = Counter()
    for item in items:
        function = item.nodeid.partition("[")[0]
        is_left_out = function in every and seen[function] % every[function]
        seen[function] += 1
        if is_left_out or function in functions or item.nodeid.startswith(beginnings):
            item.add_marker("slow")
    if config.getoption("--seconds", None) is not None:
        run = getattr(config, "workerinput", {}).get("testrunuid")
        first = random.Random(run).randrange(len(items) or 1)
        items[:] = items[first:] + items[:first]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    seconds = item.config.getoption("--seconds", None)
    if seconds is not None and time.monotonic() > item.config.stash[BEGAN] + seconds:
        pytest.skip(f"the {seconds:g} seconds of this run are over")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[Any]:
    """Halves of characters, which tests of ours write, can't be sent to the process that gathers the reports."""
    report = yield
    report.sections = [(name, _encodable(text)) for name, text in report.sections]
    if not isinstance(report.longrepr, tuple | None) and not _is_encodable(str(report.longrepr)):
        report.longrepr = _encodable(str(report.longrepr))
    return report


def _is_encodable(text: str) -> bool:
    return _encodable(text) == text


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


# ------------------------------------------------------------------------------------------------- what does not end

CLOSING = 180.0
"""Seconds that a test still has when it has failed by its time limit, for what it does in the end. Hosts are waited for
there, for a minute and more. Then the run ends, with the tracebacks of all threads: the limit is an exception in the
main thread, and a block that hangs in its ``finally``, or a lock of Python's own, keeps that from coming anywhere."""

BEGAN = pytest.StashKey[float]()
LIMIT = pytest.StashKey[float]()
ERRORS = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[BEGAN] = time.monotonic()
    with contextlib.suppress(OSError):  # mutmut's own is no file: it looks after the time of its runs itself
        config.stash[ERRORS] = os.dup(sys.stderr.fileno())  # what tests write is taken in later


def _watch(config: pytest.Config, seconds: float) -> None:
    if ERRORS in config.stash:
        faulthandler.dump_traceback_later(seconds, exit=True, file=config.stash[ERRORS])


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> None:
    item.stash[LIMIT] = settings.timeout + CLOSING
    _watch(item.config, item.stash[LIMIT])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Once more: pytest and pytest-timeout look after a test no longer that has failed, whatever its fixtures do."""
    if LIMIT in item.stash:
        _watch(item.config, item.stash[LIMIT])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol() -> Iterator[None]:
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def pytest_unconfigure(config: pytest.Config) -> None:
    """A thread that a test has left may keep the process from its end, which is not this one where mutmut runs it."""
    threading._register_atexit(_watch, config, CLOSING)
