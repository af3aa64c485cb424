"""cogstep's plugin for pytest: fixtures, cassettes, and a guard against real models in tests.

Installing cogstep makes pytest load this module. It imports only pytest, adds three fixtures and an option, and changes
no test. The guard is off by default, since a suite that uses real models must not fail because a library was installed.
A project enables it in its configuration:

    [tool.pytest.ini_options]
    cogstep_real_models = "blocked"

Then a test that loads or calls a real model fails with a message about the marker that allows it:
``@pytest.mark.real_model``. ``@pytest.mark.no_real_model`` guards a single test, module or class without the
configuration.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from interpreters.testing.cassettes import Cassette
    from interpreters.testing.fakes import FakeClock, ScriptedModel

# What belongs to cogstep is imported where a test uses it: pytest loads this module in every suite of the environment.

MODES = ("replay", "record", "new", "off")

PROPERTY = "cogstep_cassette"
"""The property of test reports with the final message for the summary; it also works with pytest-xdist."""

PASSED = pytest.StashKey[bool]()
OPENED = pytest.StashKey[set[Path]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cogstep", "cogstep: agents on language models")
    group.addoption(
        "--cassette",
        choices=MODES,
        default="replay",
        help="replay: play recorded sessions, never ask a real model (default); record: ask the real model and write "
        "its replies; new: record where there is no cassette yet; off: ask the real model and write nothing",
    )
    parser.addini("cogstep_real_models", "'blocked': only tests marked real_model can use real models", default="")
    parser.addini("cogstep_cassettes", "the folder beside a test where its cassettes are", default="cassettes")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "real_model: may load and ask real models (cogstep)")
    config.addinivalue_line("markers", "no_real_model: fails when it loads or asks a real model (cogstep)")
    config.stash[OPENED] = set()
    setting = config.getini("cogstep_real_models")
    if setting not in ("", "allowed", "blocked"):
        raise pytest.UsageError(f"cogstep_real_models is {setting!r}; it has to be 'blocked' or 'allowed'")


# ---------------------------------------------------------------------------------------------------------- the guard


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Guard a test with all its fixtures, including those shared by several tests."""
    allowed = _read_permission(item)
    if allowed is None:
        return (yield)
    from runtime.local.real_model_guard import BLOCKED, VARIABLE

    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = "allowed" if allowed else BLOCKED
    try:
        return (yield)
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def _read_permission(item: pytest.Item) -> bool | None:
    """Whether this test may use real models; None for no change."""
    if item.get_closest_marker("real_model"):
        return True
    if "cassette" in getattr(item, "fixturenames", ()) and _cassette_mode(item) != "replay":
        return True  # to be recorded was asked for on the command line
    if item.get_closest_marker("no_real_model") or item.config.getini("cogstep_real_models") == "blocked":
        return False
    return None


# ------------------------------------------------------------------------------------------------------------ fixtures


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    report = yield
    if call.when == "call":
        item.stash[PASSED] = report.passed
    return report


@pytest.fixture
def scripted_model(request: pytest.FixtureRequest) -> Iterator[Callable[..., ScriptedModel]]:
    """Creates ``fakes.ScriptedModel``: ``scripted_model(["Hello!"])``. Each must be used up at the test's end."""
    from interpreters.testing.fakes import ScriptedModel

    made: list[ScriptedModel] = []

    def make(replies: Any, **options: Any) -> ScriptedModel:
        model = ScriptedModel(replies, **options).__enter__()  # it ends with the test, and no agent closes it
        made.append(model)
        return model

    yield make
    if request.node.stash.get(PASSED, False):  # of a test that failed, what it left undone tells nothing
        for model in made:
            model.close()


@pytest.fixture
def fake_clock() -> FakeClock:
    """A ``fakes.FakeClock``, for ``Agent(..., clock=fake_clock)``: no test waits for time to pass."""
    from interpreters.testing.fakes import FakeClock

    return FakeClock()


@pytest.fixture
def cassette(request: pytest.FixtureRequest) -> Iterator[Cassette]:
    """The cassette of this test: ``Agent(cassette.model(load_model))``. See ``--cassette``.

    It is a JSON file in the folder ``cassettes`` beside the test. It is written when the test has passed.
    """
    from interpreters.testing.cassettes import Cassette

    tape = Cassette(_cassette_path(request.node), request.config.getoption("--cassette"))
    request.config.stash[OPENED].add(tape.path)
    yield tape
    passed = request.node.stash.get(PASSED, False)
    told = None
    if tape.mode == "record":
        if not passed:
            told = "not written, because its test did not pass"
        elif tape.save():
            told = f"recorded, {len(tape.exchanges)} replies"
    elif passed and tape.unused:
        numbers = ", ".join(str(position + 1) for position in tape.unused)
        told = f"of {len(tape.exchanges)} recorded replies, these were not asked for: {numbers}"
    if told is not None:
        request.node.user_properties.append((PROPERTY, f"{_format_path(tape.path, request.config)}: {told}"))


def _cassette_path(item: pytest.Item) -> Path:
    _, _, name = item.nodeid.partition("::")
    plain = re.sub(r"[^\w.-]+", "-", name.replace("::", ".")).strip("-")[:100]
    if plain != name.replace("::", "."):  # two parameters must not become one file
        plain += f"-{hashlib.blake2b(name.encode(), digest_size=4).hexdigest()}"
    folder: str = item.config.getini("cogstep_cassettes")
    return item.path.parent / folder / item.path.stem / f"{plain}.json"


def _cassette_mode(item: pytest.Item) -> str:
    mode: str = item.config.getoption("--cassette")
    return ("replay" if _cassette_path(item).exists() else "record") if mode == "new" else mode


def _format_path(path: Path, config: pytest.Config) -> str:
    return str(path.relative_to(config.rootpath)) if path.is_relative_to(config.rootpath) else str(path)


# ------------------------------------------------------------------------------------------------------------- the end


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Report recorded cassettes, unused replies and unused cassettes."""
    told = [
        value
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", "") == "teardown"
        for name, value in report.user_properties
        if name == PROPERTY
    ]
    told += [
        f"{_format_path(path, config)}: no test of this run opened it"
        for path in _find_unused(terminalreporter, config)
    ]
    if told:
        terminalreporter.section("cassettes")
        for line in sorted(set(told)):
            terminalreporter.line(line)


def _find_unused(terminalreporter: Any, config: pytest.Config) -> list[Path]:
    """Return unopened cassettes of test modules that ran completely: their tests were renamed or removed."""
    chosen = any("::" in argument for argument in config.args) or terminalreporter.stats.get("deselected")
    skipped = any(terminalreporter.stats.get(outcome) for outcome in ("skipped", "xfailed"))
    if chosen or skipped or config.getoption("numprocesses", None):
        return []
    opened = config.stash[OPENED]
    return [path for folder in {path.parent for path in opened} for path in folder.glob("*.json") if path not in opened]
