"""A model that nobody closes: it goes when nobody holds it any more, and with the program."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interpreters import Agent, AsyncAgent
from runtime import load_model
from runtime.models.specs import BackendName

ROOT = Path(__file__).resolve().parents[2]

ISOLATE = [pytest.param(False, id="thread"), pytest.param(True, id="process")]


def dropped(backend: BackendName, isolate: bool) -> None:
    Agent(load_model(backend=backend, isolate=isolate)).run("Hi!")


def closed(backend: BackendName, isolate: bool) -> None:
    with Agent(load_model(backend=backend, isolate=isolate)) as agent:
        agent.run("Hi!")


def dropped_in_a_loop(backend: BackendName, isolate: bool) -> None:
    async def main() -> None:
        await AsyncAgent(load_model(backend=backend, isolate=isolate)).run("Hi!")

    asyncio.run(main())


def closed_in_a_loop(backend: BackendName, isolate: bool) -> None:
    async def main() -> None:
        async with AsyncAgent(load_model(backend=backend, isolate=isolate)) as agent:
            await agent.run("Hi!")

    asyncio.run(main())


LEAVING = (dropped, closed, dropped_in_a_loop, closed_in_a_loop)


def threads_of_models() -> set[threading.Thread]:
    return {one for one in threading.enumerate() if one.name.startswith(("cogstep model", "cogstep process"))}


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Nobody collects the garbage: weights of gigabytes can't wait for that."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("isolate", ISOLATE)
@pytest.mark.parametrize("leave", LEAVING, ids=lambda leave: leave.__name__)
def test_a_model_goes_with_the_last_who_holds_it(
    leave: Callable[[BackendName, bool], None], isolate: bool, backend_name: BackendName
) -> None:
    """Its thread ends, or its process and the thread that looks after that."""
    before = threads_of_models()
    leave(backend_name, isolate)

    for thread in threads_of_models() - before:  # one that brings replies into a loop may hold it for an instant more
        thread.join(60)
        assert not thread.is_alive()


@pytest.mark.usefixtures("uncollected")
def test_a_process_has_ended_with_it(backend_name: BackendName) -> None:
    """It is waited for, so that not even its number is left."""
    agent = Agent(load_model(backend=backend_name, isolate=True))
    pid = agent.model.pid  # type: ignore[attr-defined]  # that of an isolated one
    os.kill(pid, 0)
    del agent

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


ASKED = "print(agent.run('Hi!').ok)"


@pytest.mark.parametrize("isolate", ISOLATE)
@pytest.mark.parametrize("how", [f"with agent: {ASKED}", ASKED], ids=["closed", "open"])
def test_a_program_ends_with_a_model_that_nobody_closed(how: str, isolate: bool, backend_name: BackendName) -> None:
    """With agents that were closed, and others that were not, and nothing on the terminal."""
    code = (
        "from interpreters import Agent; from runtime import load_model\n"
        f"model = load_model(backend={backend_name!r}, isolate={isolate})\n"
        f"agent = Agent(model)\nif {isolate}: print(model.pid)\n{how}"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    *pids, ok = done.stdout.split()

    assert (done.returncode, ok, done.stderr) == (0, "True", "")
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)
