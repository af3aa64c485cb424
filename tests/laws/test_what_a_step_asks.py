"""Law L1 catches time, randomness and I/O inside a step, and names the line that asks for it."""

from __future__ import annotations

import datetime
import functools
import io
import json
import logging
import os
import random
import secrets
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from cognition import AgentState, CogstepError, EchoEngine, Input, ModeChanged, Transition, UserSpoke
from cognition.testing import LawViolation, World, explore, laws
from cognition.testing._purity import PurityProbe

ABOVE = random.Random(3)
CLOCK, CHANCE, WORLD = "step reads a clock", "step draws randomness", "step does I/O"
HERE = str(Path(__file__))


class Asking(EchoEngine):
    """An echo that does something else at each message."""

    def __init__(self, ask: Callable[[AgentState], object]) -> None:
        self.ask = ask

    def step(self, state: AgentState, input: Input | None) -> Transition:
        if isinstance(input, UserSpoke):
            self.ask(state)
        return super().step(state, input)


ASKED: list[tuple[str, str, Callable[[AgentState], object]]] = [
    (CLOCK, "time.time()", lambda state: time.time()),
    (CLOCK, "time.monotonic_ns()", lambda state: time.monotonic_ns()),
    (CLOCK, "time.perf_counter()", lambda state: time.perf_counter()),
    (CLOCK, "time.sleep()", lambda state: time.sleep(0)),
    (CLOCK, "time.gmtime()", lambda state: time.gmtime()),
    (CLOCK, "time.ctime()", lambda state: time.ctime()),
    (CLOCK, "time.strftime()", lambda state: time.strftime("%Y")),
    (CLOCK, "datetime.now()", lambda state: datetime.datetime.now(datetime.UTC)),
    (CLOCK, "date.today()", lambda state: datetime.date.today()),
    (CHANCE, "Random.random()", lambda state: random.random()),
    (CHANCE, "Random.getrandbits()", lambda state: random.choice("ab")),
    (CHANCE, "Random.getrandbits()", lambda state: ABOVE.randint(1, 6)),
    (CHANCE, "Random.seed()", lambda state: random.Random().random()),
    (CHANCE, "os.urandom()", lambda state: random.SystemRandom().random()),
    (CHANCE, "os.urandom()", lambda state: os.urandom(4)),
    (CHANCE, "os.urandom()", lambda state: secrets.token_hex()),
    (CHANCE, "os.urandom()", lambda state: uuid.uuid4()),
    (WORLD, "io.open()", lambda state: Path(HERE).read_text("utf-8")),
    (WORLD, "io.open()", lambda state: open(HERE).close()),
    (WORLD, "print()", lambda state: print(end="")),
    (WORLD, "os.stat()", lambda state: Path(HERE).exists()),
    (WORLD, "os.listdir()", lambda state: os.listdir(".")),
    (WORLD, "os.getpid()", lambda state: os.getpid()),
    (WORLD, "socket.close()", lambda state: socket.socket().close()),
    (WORLD, "sqlite3.connect()", lambda state: sqlite3.connect(":memory:").close()),
    (WORLD, "TextIOWrapper.write()", lambda state: sys.__stderr__.write("") if sys.__stderr__ else print()),
    (WORLD, "step does I/O", lambda state: subprocess.run(["true"], check=False)),
    (WORLD, "thread.start_new_thread()", lambda state: threading.Thread(target=str).start()),
    (CLOCK, "time.time()", lambda state: logging.getLogger("cogstep.tests").critical("said")),
]

PURE: list[Callable[[AgentState], object]] = [
    lambda state: random.Random(state.counters.turn).random(),
    lambda state: time.gmtime(5.0),
    lambda state: time.strftime("%Y", time.gmtime(5.0)),
    lambda state: datetime.datetime.fromtimestamp(5.0, datetime.UTC).isoformat(),
    lambda state: uuid.uuid5(uuid.NAMESPACE_URL, "cogstep"),
    lambda state: os.path.normpath(os.path.join("a", "..", "b")),
    lambda state: Path("a") / "b",
    lambda state: io.StringIO().write(json.dumps([1])),
    lambda state: logging.getLogger("cogstep.tests").debug("not said"),
    lambda state: __import__("cognition.testing.machine"),
]


@pytest.mark.parametrize(("what", "call", "ask"), ASKED)
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # what is opened here is not closed: nothing comes of it
def test_what_a_step_asks_is_found_with_its_line(what: str, call: str, ask: Callable[[AgentState], object]) -> None:
    """The line is the engine's own, also where a function of the library asks for it."""
    with pytest.raises(LawViolation) as raised:
        laws(Asking(ask))[0].check(max_examples=20)
    line = ask.__code__.co_firstlineno

    assert raised.value.law.name == "L1"
    assert raised.value.problem.startswith(what)
    assert call in raised.value.problem
    assert f"{HERE}:{line}, in <lambda>" in raised.value.problem


@pytest.mark.parametrize("ask", PURE)
def test_what_follows_from_the_arguments_is_nothing_that_a_step_asks(ask: Callable[[AgentState], object]) -> None:
    """Generators that a step seeds itself, times that it is given, files in memory, and an import at first use."""
    laws(Asking(ask), without=("model", "tools"))[0].check(max_examples=20)


def test_an_exploration_finds_what_a_step_asks_in_one_phase_only() -> None:
    engine = Asking(lambda state: time.monotonic() if state.history else None)
    others = tuple(law.name for law in laws(engine) if law.name != "L1")

    found = explore(Asking(lambda state: time.monotonic()), limit=50, leave_out=others)

    assert found.violation is not None
    assert "time.monotonic() is called at" in found.violation.problem
    with pytest.raises(LawViolation):
        laws(engine)[0].check(max_examples=50)


def test_a_step_that_raises_for_what_it_asks_is_told_of_what_it_asked() -> None:
    engine = Asking(lambda state: Path("/nowhere/at/all").read_text("utf-8"))

    with pytest.raises(LawViolation, match=r"step does I/O: io.open\(\) is called at"):
        laws(engine)[0].check(max_examples=20)


def test_a_module_that_asks_when_it_is_imported_first_is_no_fault_of_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "asks_at_import.py").write_text("import time\nBEGAN = time.time()\n")
    monkeypatch.syspath_prepend(tmp_path)

    def late(_state: AgentState) -> ModuleType:
        import asks_at_import  # type: ignore[import-not-found]  # written above

        module: ModuleType = asks_at_import
        return module

    assert laws(Asking(late))[0].before(World(), UserSpoke("Hello")) is None


def test_what_is_done_when_memory_is_freed_is_no_fault_of_the_step() -> None:
    """The garbage collector's turn may come at any moment, and finalizers and its callbacks run then."""

    class Dying:
        def __del__(self) -> None:
            time.time()

    def free(_state: AgentState) -> None:
        dying = Dying()
        del dying

    assert laws(Asking(free))[0].before(World(), UserSpoke("Hello")) is None


def test_a_profile_function_that_was_there_is_there_again() -> None:
    def mine(*_event: object) -> None: ...

    before = sys.getprofile()
    sys.setprofile(mine)
    try:
        with PurityProbe() as watch:
            time.time()
        after = sys.getprofile()
    finally:
        sys.setprofile(before)

    assert after is mine
    assert watch.asked is not None
    assert watch.asked.call == "time.time"


def test_what_only_c_code_calls_is_not_seen() -> None:
    """What the docs say is missed: Python tells nobody of it."""
    with PurityProbe() as watch:
        functools.partial(time.time)()

    assert watch.asked is None


def test_what_no_file_of_the_engine_calls_is_told_where_it_stands() -> None:
    """Code that was made of a text has no file; its caller is named, and where there is none, it."""
    made: dict[str, object] = {"time": time}
    exec("def late(state=None):\n    time.time()", made)
    late = made["late"]
    assert callable(late)
    with PurityProbe() as watch:
        late()

    assert watch.asked is not None
    assert (watch.asked.file, watch.asked.line) == ("<string>", 2)
    with pytest.raises(LawViolation, match=r"test_what_a_step_asks.py:\d+, in Asking.step"):
        laws(Asking(late))[0].check(max_examples=20)


def test_the_law_is_stated_as_it_is_checked() -> None:
    assert "reads no clock, draws no randomness and does no I/O" in laws(EchoEngine())[0].statement
    assert issubclass(LawViolation, CogstepError)
    assert laws(Asking(lambda state: time.time()))[0].before(World(), ModeChanged("auto")) is None
