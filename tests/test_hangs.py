"""A test that hangs ends the run, with the tracebacks of all threads: nobody waits for hours, and learns nothing.
A run that is given its time ends in it.
"""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

BEGINNING = """
import ctypes, threading, pytest, tests.conftest

tests.conftest.CLOSING = 0.5
never = threading.Event()

def hangs_here():
    never.wait()
"""

IN_A_FINALLY = """
def test_closes():
    try:
        never.wait()
    finally:
        hangs_here()
"""

IN_A_FIXTURE = """
@pytest.fixture
def host():
    yield
    hangs_here()

def test_fails(host):
    assert False
"""

AT_THE_END = """
def test_leaves_a_thread():
    threading.Thread(target=hangs_here).start()
"""

ALL_OF_PYTHON = """
def hangs_here():
    lock, mutex = ctypes.PyDLL(None).pthread_mutex_lock, ctypes.create_string_buffer(64)
    lock(mutex)
    lock(mutex)  # with the GIL

def test_stands_still():
    hangs_here()
"""

GOES_ON = """
tests.conftest.CLOSING = 60.0

def test_is_quick():
    pass

def test_is_late():
    never.wait(60)

@pytest.mark.timeout(500)
def test_is_given_more_time(request):
    assert request.node.stash[tests.conftest.LIMIT] == 560
"""

MANY = """
@pytest.mark.parametrize("number", range(4))
def test_takes_an_hour(number, request):
    request.config.stash[tests.conftest.BEGAN] -= 3600
    assert False
"""


def run(tests: str, folder: Path, *more: str) -> "subprocess.CompletedProcess[str]":
    """Of tests with a limit of three seconds, and half a second beyond it."""
    file = folder / "test_hanging.py"
    file.write_text(BEGINNING + tests)
    options = ["-c", "pyproject.toml", "-p", "tests.conftest", "-p", "no:cacheprovider", "-o", "timeout=3"]
    command = [sys.executable, "-m", "pytest", *options, *more, str(file)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280)


@pytest.mark.slow
@pytest.mark.parametrize(
    "tests",
    [
        IN_A_FINALLY,
        IN_A_FIXTURE,
        AT_THE_END,
        pytest.param(ALL_OF_PYTHON, marks=pytest.mark.skipif(sys.platform != "linux", reason="a mutex of Linux")),
    ],
    ids=["in a finally", "in a fixture", "at the end", "all of Python"],
)
def test_a_run_that_hangs_ends_and_says_where(tests: str, tmp_path: Path) -> None:
    ended = run(tests, tmp_path)

    assert ended.returncode == 1
    assert "Timeout (0:00:0" in ended.stderr
    assert "in hangs_here" in ended.stderr


@pytest.mark.slow
def test_a_run_that_does_not_hang_goes_on(tmp_path: Path) -> None:
    """A test that is late fails, and one may be given more time."""
    ended = run(GOES_ON, tmp_path)

    assert "1 failed, 2 passed" in ended.stdout
    assert "Timeout (0" not in ended.stderr


@pytest.mark.slow
def test_a_run_whose_time_is_over_skips_the_rest(tmp_path: Path) -> None:
    """CI gives its last tests what is left of its time; those that failed before are failures all the same."""
    ended = run(MANY, tmp_path, "--seconds=900", "-rs")

    assert ended.returncode == 1
    assert "1 failed, 3 skipped" in ended.stdout
    assert "the 900 seconds of this run are over" in ended.stdout
