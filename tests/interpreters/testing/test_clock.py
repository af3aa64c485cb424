"""The clock of tests: its time passes while nobody is at work."""

import asyncio
import itertools
import subprocess
import sys
import threading
from pathlib import Path
from queue import SimpleQueue

import pytest

import interpreters.testing.fakes._clock
from cognition import ModelRequest
from interpreters import tool
from interpreters.testing.fakes import FakeClock, Reply, ScriptedModel, call
from runtime.threads.pool import PoolThread, ThreadPool
from tests.interpreters.ways import Way, every_way

ROOT = Path(__file__).resolve().parents[3]


def test_time_passes_when_a_test_says_so() -> None:
    clock = FakeClock(5.0)
    clock.advance(60)

    assert (clock.time(), clock.monotonic(), clock.waits) == (65.0, 65.0, [])


@every_way
@pytest.mark.parametrize("calls", [1, 3])
def test_a_tool_that_never_waits_is_never_late(talk: Way, calls: int) -> None:
    """It runs on a thread, which has to be given the time to run while the clock's own passes at once."""

    @tool(timeout=5)
    async def quick(n: int) -> str:
        return "ok"

    @tool(timeout=5)
    def plain(n: int) -> str:
        return "ok"

    for name in ["quick", "plain"] * 10:
        model = ScriptedModel([[call(name, n=n) for n in range(calls)], "done"])
        said = talk(model, "Go!", tools=[quick, plain], clock=FakeClock())
        assert said.tool_results == [("ok", "ok")] * calls


def test_a_result_that_is_handed_over_while_a_clock_looks_is_not_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread rests by then, and the event loop has yet to hear of it."""

    async def wait() -> FakeClock:
        clock, loop = FakeClock(), asyncio.get_running_loop()
        wake: asyncio.Future[None] = loop.create_future()

        def look() -> dict[int, tuple[int, int]]:
            if not wake.done():
                loop.call_soon_threadsafe(wake.set_result, None)
            return {}

        monkeypatch.setattr(interpreters.testing.fakes._clock, "_places", look)
        await clock.wait(wake, 5)
        return clock

    clock = asyncio.run(wait())

    assert (clock.waits, clock.time()) == ([], 0.0)


def test_a_clock_waits_for_a_thread_that_the_machine_has_no_time_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has to compute stands where it stood for as long as others are served."""
    looks = itertools.count()
    done: SimpleQueue[str] = SimpleQueue()
    pool, mailbox, clock = ThreadPool(), SimpleQueue[str](), FakeClock()

    def is_running(thread: PoolThread) -> bool:
        if next(looks) == 100:
            done.put("result")
        return True

    monkeypatch.setattr(interpreters.testing.fakes._clock, "_is_running", is_running)
    pool.start(lambda: mailbox.put(done.get()))  # the place where it would stand without the machine's time
    got = clock.receive(mailbox, 5)
    pool.close(10)

    assert (got, clock.waits) == ("result", [])


COLLECTED_IN_A_LOOK = """
import faulthandler, gc, sys, threading
from queue import SimpleQueue
from interpreters.testing.fakes import FakeClock
from runtime.threads.pool import ThreadPool

class Knot:
    def __init__(self):
        self.itself, self.local = self, threading.local()

def look():
    gc.collect(0)
    Knot()
    gc.set_threshold(allocations)
    try:
        return look_at_all()
    finally:
        gc.set_threshold(0)

faulthandler.dump_traceback_later(20, exit=True)
end, pool, clock = threading.Event(), ThreadPool(), FakeClock()
look_at_all, sys._current_frames = sys._current_frames, look
pool.start(end.wait)
for allocations in range(1, 20):  # one of them is the one in the middle of the look
    clock.receive(SimpleQueue(), 5)
    assert gc.isenabled()
gc.disable()
clock.receive(SimpleQueue(), 5)
print(len(clock.waits), gc.isenabled())
end.set()
"""


def test_a_clock_looks_at_threads_whatever_is_collected_meanwhile() -> None:
    """Where garbage was collected in the middle of a look, all of Python stood still for ever."""
    run = subprocess.run([sys.executable, "-c", COLLECTED_IN_A_LOOK], capture_output=True, text=True, cwd=ROOT)

    assert (run.stdout, run.returncode) == ("20 False\n", 0), run.stderr


@every_way
def test_a_tool_that_waits_is_late_when_its_time_has_passed(talk: Way) -> None:
    never = threading.Event()

    @tool(timeout=5)
    def stuck() -> str:
        never.wait(60)
        return "too late"

    def answer(request: ModelRequest) -> Reply:
        never.set()  # from here on nobody waits for it any more
        return Reply("done")

    said = talk(ScriptedModel([call("stuck"), answer]), "Go!", tools=[stuck], clock=FakeClock())

    assert said.tool_results == [("Error: stuck took longer than 5 seconds", "error")]
