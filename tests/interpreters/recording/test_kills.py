"""Three hundred kills: a session whose process dies by SIGKILL at any moment loses nothing and pays nothing twice."""

from __future__ import annotations

import itertools
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from cognition import (
    Failure,
    Idle,
    ModelRequest,
    RetryPolicy,
    ToolMessage,
)
from interpreters import Agent, ToolContext, replay, tool
from interpreters.loop.clock import SystemClock
from interpreters.recording.journal.payloads import LARGE
from interpreters.testing.fakes import Scripted, ScriptedModel
from runtime import Notes
from tests.interpreters.secrets import KEY
from tests.interpreters.signs import PATIENCE
from tests.interpreters.thinking import FEATURES, reply_to

PAGE = "A page.\n" * (LARGE // 8)  # stands beside the journal


MOMENTS = ("model", "tool", "approval", "question", "hook", "timer", "journal write", "journal written")
"""Where a process may be when it dies. At a write, half of it is on the disk."""

Fate = tuple[str, int] | None
"""The moment at which a process dies, and how often it comes through there before; None: whenever its parent likes."""


class Moments:
    """Of one child: ends it at the one that it was given."""

    def __init__(self, fate: Fate) -> None:
        self._where, self._left = fate or ("", 0)
        self._lock = threading.Lock()

    def strikes(self, where: str) -> bool:
        if where != self._where:
            return False
        with self._lock:
            self._left -= 1
            return self._left < 0

    def come(self, where: str) -> None:
        if self.strikes(where):
            os.kill(os.getpid(), signal.SIGKILL)

    def write(self, write: Callable[[int, Any], int], descriptor: int, data: Any) -> int:
        """``os.write`` of the journal and of what stands beside it."""
        if self.strikes("journal write"):
            write(descriptor, data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        written = write(descriptor, data)
        self.come("journal written")
        return written


class WatchedClock(SystemClock):
    """Waits for a timer are a moment of their own."""

    def __init__(self, moments: Moments) -> None:
        self._moments = moments

    def receive(self, mailbox: SimpleQueue[Any], seconds: float | None) -> Any:
        if seconds is not None:
            self._moments.come("timer")
        return super().receive(mailbox, seconds)


def live(path: Path, ledger: Path, turns: int, fate: Fate) -> None:
    """What the child does: take the session up, or begin it, and go on until all its turns are done.

    What it calls takes a little while, so that a kill at a random moment hits it at work as often as between.
    """
    moments = Moments(fate)
    write = os.write
    os.write = partial(moments.write, write)  # of this process, which ends with this

    def note(what: str) -> None:
        descriptor = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        write(descriptor, f"{what}\n".encode())
        os.close(descriptor)

    @tool(read_only=True)
    def look(n: int) -> str:
        time.sleep(0.002)
        moments.come("tool")
        return f"{n} {KEY}" if n == 1 else PAGE

    @tool(approval=True)
    def pay(amount: int, context: ToolContext[None]) -> str:
        moments.come("tool")  # and nothing has happened
        note(f"pay {context.call_id}")
        time.sleep(0.003)
        moments.come("tool")  # and nobody was told
        return f"paid {amount}"

    @tool(idempotent=True)
    def mark(n: int) -> str:
        note("mark")
        return f"marked {n}"

    def slowly(moment: str, answer: Any) -> Any:
        def ask(request: Any) -> Any:
            time.sleep(0.002)
            moments.come(moment)
            return answer

        return ask

    def think(request: ModelRequest) -> Scripted:
        time.sleep(0.001)
        moments.come("model")
        if random.random() < 0.2:  # so that timers run, too
            return Failure("busy", kind="transient")
        return reply_to(request)

    model = ScriptedModel(itertools.repeat(think), context_tokens=10**7)
    tools = [look, pay, mark]
    options: dict[str, Any] = {
        "ask": slowly("question", ["a"]),
        "approve": slowly("approval", True),
        "memory": Notes(),
        "hooks": {"stop": slowly("hook", None)},
        "clock": WatchedClock(moments),
        "fsync": "never",
    }
    if path.exists() and path.read_bytes().count(b"\n"):
        agent = Agent.resume(path, model, tools, **options)
    else:
        path.unlink(missing_ok=True)  # killed while the header was written: nothing was recorded
        retry = RetryPolicy(attempts=100, first_delay=0.002, longest_delay=0.004)
        agent = Agent(model, tools, features=FEATURES, journal=path, retry=retry, **options)
    with agent:
        if agent.unfinished:
            agent.resume_turn()
            note(f"answered {agent.state.counters.turn}")
        while agent.state.counters.turn < turns:
            agent.run("Go!")
            note(f"answered {agent.state.counters.turn}")


@pytest.mark.slow
def test_three_hundred_kills(tmp_path: Path) -> None:
    """Killed at any moment, a session loses nothing that was answered, pays for nothing twice, and comes to its end."""
    chance = random.Random(20260101)
    kills: Counter[str] = Counter()
    sessions, turns, longest = 0, 4, 0.15
    patience = longest
    while kills.total() < 300:
        sessions += 1
        path, ledger = tmp_path / f"{sessions}.jsonl", tmp_path / f"{sessions}.txt"
        ledger.touch()
        while True:
            where = chance.choice((*MOMENTS, *[""] * 4))
            fate = (where, chance.randrange(6)) if where else None
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    live(path, ledger, turns, fate)
                    code = 0
                finally:
                    os._exit(code)
            before = path.stat().st_size if path.exists() else 0
            after = chance.uniform(0.0, patience) if fate is None else PATIENCE
            killer = threading.Timer(after, os.kill, (child, signal.SIGKILL))
            killer.start()
            # It is left a zombie until the killer is done: else its number might be another's by then.
            os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
            killer.cancel()
            killer.join()
            _, status = os.waitpid(child, 0)
            if not os.WIFSIGNALED(status):
                break
            kills[where] += 1
            # A busy machine may take longer than that for the first record alone: without this it would go on for ever.
            progress = path.exists() and path.stat().st_size > before
            patience = longest if progress else patience * 1.2
            answered = sum(line.startswith("answered") for line in ledger.read_text().splitlines())
            if answered:
                assert replay(path).raise_for_divergence().turns >= answered, "an answer was lost"

        assert os.WEXITSTATUS(status) == 0
        happened = Counter(ledger.read_text().splitlines())
        report = replay(path).raise_for_divergence()
        paid = {what: count for what, count in happened.items() if what.startswith("pay")}
        results = [m for m in report.state.history if isinstance(m, ToolMessage) and m.name == "pay"]
        said_paid = {f"pay {m.call_id}" for m in results if m.content == "paid 5"}
        assert set(paid.values()) <= {1}, "a tool that is not idempotent ran twice"
        assert said_paid <= paid.keys(), "the model was told of a payment that never was"
        assert len(results) == turns
        assert KEY.encode() not in path.read_bytes()
        assert (turns, Idle()) == (report.turns, report.state.phase)
    assert {moment for moment in ("", *MOMENTS) if kills[moment] >= 3} == {"", *MOMENTS}, "each moment was met"
