"""One thread owns a model: jobs run one after another, what breaks in one stays there, and closing is clean."""

import subprocess
import sys
import threading

import pytest

from runtime import RuntimeClosedError
from runtime.local.owner import Owner


def made(**changes: object) -> Owner[list[str]]:
    return Owner(changes.get("load", list), changes.get("free", lambda _engine: None), name="test")  # type: ignore[arg-type]


def test_loading_jobs_and_freeing_happen_on_one_thread() -> None:
    """Backends may keep what belongs to a thread."""
    threads: list[int] = []

    def load() -> list[str]:
        threads.append(threading.get_ident())
        return []

    owner = made(load=load, free=lambda _engine: threads.append(threading.get_ident()))
    owner.call(lambda _engine: threads.append(threading.get_ident()))
    owner.close()

    assert len(threads) == 3
    assert len(set(threads)) == 1
    assert threads[0] != threading.get_ident()


def test_jobs_run_in_the_order_in_which_they_came() -> None:
    """The queue is fair."""
    owner = made()
    for name in "abc":
        owner.put(lambda engine, name=name: engine.append(name))  # type: ignore[misc]

    assert owner.call(list) == ["a", "b", "c"]
    owner.close()


def test_an_exception_fails_its_call_and_not_the_thread() -> None:
    """The caller gets it; the next job runs."""
    owner = made()

    with pytest.raises(ZeroDivisionError):
        owner.call(lambda _engine: 1 // 0)
    assert owner.call(len) == 0
    owner.close()


def test_a_failed_load_is_told_to_who_waits() -> None:
    """``ready`` holds the error, and nothing can be put."""

    def load() -> list[str]:
        raise OSError("no such model")

    owner = made(load=load)

    with pytest.raises(OSError, match="no such model"):
        owner.ready.result(60)
    with pytest.raises(RuntimeClosedError):
        owner.put(lambda _engine: None)
    owner.close()


def test_closing_ends_the_thread_after_the_queued_jobs() -> None:
    """What was put before the close still runs; what comes after is refused."""
    ran: list[int] = []
    owner = made()
    for number in range(3):
        owner.put(lambda _engine, number=number: ran.append(number))  # type: ignore[misc]
    owner.close()
    owner.close()

    assert ran == [0, 1, 2]
    assert not owner._thread.is_alive()
    with pytest.raises(RuntimeClosedError, match="'test' is closed"):
        owner.call(len)


def test_closing_from_its_own_thread_does_not_wait_for_itself() -> None:
    """A garbage collection may end a runtime on any thread, this one too."""
    owner = made()
    owner.call(lambda _engine: owner.close())
    owner._thread.join(60)

    assert not owner._thread.is_alive()


def test_steps_go_on_while_there_is_more_to_do_and_jobs_come_between_them() -> None:
    """What takes long is done in steps; a job that comes meanwhile waits for one of them."""
    in_step, go_on = threading.Event(), threading.Event()
    seen: list[str] = []

    def step(engine: list[str]) -> bool:
        if not engine or len(engine) > 4:
            return False
        engine.append("step")
        if len(engine) == 2:
            in_step.set()
            go_on.wait(60)
        return True

    owner = Owner[list[str]](list, seen.extend, name="test", step=step)
    owner.put(lambda engine: engine.append("begin"))
    in_step.wait(60)
    owner.put(lambda engine: engine.append("job"))
    go_on.set()
    owner.close()

    assert seen == ["begin", "step", "job", "step", "step"]


def test_a_flood_of_jobs_does_not_keep_the_engine_from_its_steps() -> None:
    """Jobs that come while jobs run wait for the next step, but for those that come during the first of all."""
    order: list[str] = []
    enough = threading.Event()

    def flood(_engine: list[str]) -> None:
        order.append("job")
        if len(order) < 20:
            owner.put(flood)

    def step(_engine: list[str]) -> bool:
        order.append("step")
        if len(order) >= 20:
            enough.set()
        return len(order) < 20

    owner = Owner[list[str]](list, lambda _engine: None, name="test", step=step)
    owner.put(flood)
    assert enough.wait(60)
    owner.close()

    assert order[:6] == ["job", "job", "step", "job", "step", "job"]


ABANDONED = """
import threading
from runtime.local import owner

going = threading.Event()

def load():
    going.set()
    {work}
    print("came to its end", flush=True)

owner.AT_EXIT_SECONDS = {seconds}
one = owner.Owner(load, lambda engine: None, name="m")
going.wait()
one.abandon()
"""


@pytest.mark.parametrize(
    ("work", "seconds", "said"),
    [
        # Python ends the threads that are left at its end, and native code that loads doesn't survive that.
        ("threading.Event().wait(0.3)", 60.0, "came to its end\n"),
        ("threading.Event().wait()", 0.1, ""),
    ],
    ids=["one that ends", "one that hangs"],
)
def test_an_abandoned_load_is_waited_for_at_the_end_of_the_program(work: str, seconds: float, said: str) -> None:
    """Ctrl-C while a model loads ended the process by SIGABRT; a load that hangs holds its end up for so long only."""
    code = ABANDONED.format(work=work, seconds=seconds)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, said, "")
