"""A process that leaves lets running tools end and hands over the rest: nothing is given up, and nothing runs twice."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from cognition import ConfigError, UserMessage
from interpreters import tool
from interpreters.durable._leaving import Leaving, first_signal
from interpreters.durable.definition import DurableAgent
from interpreters.testing.fakes import FunctionModel, call
from tests.interpreters.databases import needs_postgres

ROOT = Path(__file__).resolve().parents[3]
PAGE_TEXT = ROOT / "docs" / "guides" / "durable.md"


def test_only_a_run_that_rests_in_all_its_calls_is_no_longer_waited_for() -> None:
    leaving = Leaving()
    with leaving.activity() as one, leaving.activity() as other:
        with one.rest(), other.rest():
            with other.work():
                assert not leaving.wait(0.0)
            assert leaving.wait(5.0)
        with one.rest():  # the other one is between two steps
            assert not leaving.wait(0.0)
    assert leaving.wait(0.0)


def test_a_step_that_ended_is_held_back_until_the_process_ends() -> None:
    async def story() -> tuple[bool, bool, bool]:
        leaving = Leaving()
        with leaving.activity() as one:
            await one.hold_back()  # at once: nobody leaves
            left = asyncio.create_task(asyncio.to_thread(leaving.wait, 10.0))
            while not one.is_leaving:
                await asyncio.sleep(0)
            held = asyncio.create_task(one.hold_back())
            is_quiet = await left
            was_held = not held.done()
            leaving.end()
            await asyncio.wait([held])
            return is_quiet, was_held, held.cancelled()

    assert asyncio.run(story()) == (True, True, True)


def slow_agent(begun: threading.Event, ends: Callable[[], Any], done: list[str], name: str = "slow") -> DurableAgent:
    """Its model calls a tool that must not run twice, and then another one."""

    @tool
    def pay(n: int) -> str:
        """Pay, which takes its time."""
        begun.set()
        ends()
        done.append(f"paid {n}")
        return f"paid {n}"

    def answer(request: Any) -> Any:
        paid = sum(not isinstance(one, UserMessage) for one in request.messages) // 2
        return call("pay", n=paid) if paid < 2 else "Done."

    return DurableAgent(name, FunctionModel(answer), [pay])


@pytest.mark.skipif(find_spec("dbos") is None, reason="needs dbos")
@needs_postgres
@pytest.mark.slow
def test_a_tool_that_runs_ends_and_the_next_one_is_left_to_another_process() -> None:
    from interpreters.durable.dbos.sessions import DBOSSessions
    from interpreters.recording.sessions import read_transcript
    from tests.interpreters.durable.test_dbos import new_database

    begun, done = threading.Event(), list[str]()
    agent = slow_agent(begun, lambda: time.sleep(2.0), done)
    with DBOSSessions(agent, new_database("draining")) as sessions:
        run = sessions.send("ada", "Pay!")
        with sessions.worker():
            assert begun.wait(20)
        assert done == ["paid 0"]  # and nothing was decided by it yet
        assert [one.status for one in sessions._runs("ada")] == ["ENQUEUED"]
        with sessions.worker():
            ended = sessions.result(run, 60)

        assert ended.error == ""
        assert done == ["paid 0", "paid 1"]
        results = [entry for turn in read_transcript(sessions.recorder("ada")).turns for entry in turn.entries]
        assert "nobody knows" not in str(results)


PAGE = """
import time
import agents
from cogstep import DurableAgent, DBOSSessions, UserMessage, fakes, tool
from pathlib import Path

@tool
def pay(invoice: int) -> str:
    \"\"\"Pay an invoice, which takes its time.\"\"\"
    Path("begun").touch()
    time.sleep(3.0)
    with open("paid", "a") as file:
        file.write(f"{invoice}\\n")
    return "paid"

def answer(request):
    return fakes.call("pay", invoice=7) if isinstance(request.messages[-1], UserMessage) else "It is paid."

agents.sessions.close()
agents.sessions = DBOSSessions(DurableAgent("helper", fakes.FunctionModel(answer), [pay]), "sqlite:///sessions.db")
"""
"""Replaces the page's tool by one that is slow."""


@pytest.mark.skipif(find_spec("dbos") is None, reason="needs dbos")
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_page_s_process_ends_in_order_at_a_signal(number: int, tmp_path: Path) -> None:
    """Its 3 s tool, which must not run twice, is not given up; the next process ends the turn."""
    blocks = re.findall(r"^cat > (\S+) <<'END'\n(.*?)^END$", PAGE_TEXT.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    for name, text in blocks:
        (tmp_path / name).write_text(text)
    (tmp_path / "sitecustomize.py").write_text("import tests.interpreters.durable.sqlite\n")
    (tmp_path / "slowly.py").write_text(PAGE)
    (tmp_path / "work.py").write_text(f"import slowly\n{(tmp_path / 'work.py').read_text()}")
    environ = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, *arguments], cwd=tmp_path, env=environ, stdout=subprocess.PIPE)

    asked = "import slowly; print(slowly.agents.sessions.send('ada', 'Pay.'))"
    ended = "import sys, slowly; print(slowly.agents.sessions.result(sys.argv[1]).finished.outcome.text)"
    run = start("-c", asked).communicate(timeout=60)[0].decode().strip()
    first = start("work.py")
    try:
        until = time.monotonic() + 60
        while not (tmp_path / "begun").exists():
            assert first.poll() is None
            assert time.monotonic() < until
            time.sleep(0.01)
        first.send_signal(number)
        first.communicate(timeout=60)
        paid = (tmp_path / "paid").read_text()
        second = start("work.py")
        try:
            said = start("-c", ended, run).communicate(timeout=60)[0].decode()
        finally:
            second.terminate()
            second.communicate(timeout=60)
    finally:
        first.kill()

    assert (first.returncode, paid, said) == (0, "7\n", "It is paid.\n")
    assert (second.returncode, (tmp_path / "paid").read_text()) == (0, "7\n")


def test_a_signal_is_waited_for_in_the_main_thread_alone_and_its_handler_is_put_back() -> None:
    before = signal.getsignal(signal.SIGUSR1)
    with first_signal(signal.SIGUSR1) as wait:
        os.kill(os.getpid(), signal.SIGUSR1)
        wait()
        assert signal.getsignal(signal.SIGUSR1) != before
    assert signal.getsignal(signal.SIGUSR1) == before

    def elsewhere() -> None:
        with pytest.raises(ConfigError, match=r"use worker\(\)"), first_signal(signal.SIGUSR1):
            pass
        refused.append(True)

    refused: list[bool] = []
    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert refused == [True]


@pytest.mark.skipif(find_spec("restate") is None, reason="needs restate")
@pytest.mark.slow
def test_so_it_is_on_restate(server: Any, tmp_path: Path) -> None:
    from interpreters.durable.restate.sessions import RestateSessions
    from interpreters.recording.sessions import read_transcript
    from tests.interpreters.durable.restate_rig import free_port

    begun, done = threading.Event(), list[str]()
    agent = slow_agent(begun, lambda: time.sleep(4.0), done, "slow-restate")
    store, address = f"sqlite:///{tmp_path}/sessions.db", f"http://127.0.0.1:{free_port()}"
    sessions = RestateSessions(agent, store, ingress=server.ingress, admin=server.admin)
    with sessions.worker(address):
        run = sessions.send("ada", "Pay!")
        assert begun.wait(20)
    assert done == ["paid 0"]
    with sessions.worker(address):
        ended = sessions.result(run, 60)

    assert ended.error == ""
    assert done == ["paid 0", "paid 1"]
    assert "nobody knows" not in str(read_transcript(sessions.recorder("ada")))
