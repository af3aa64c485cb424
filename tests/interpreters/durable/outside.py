"""An agent for processes that are killed: what its tools do is counted in a file, which no killed process takes back.

In each turn the model is away at first, so that a timer runs; then two calls run together, one that must not happen
twice runs alone, a worker looks for itself, a payment waits for an approval, and a call for a program outside.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from cognition import AskApproval, CallModel, Failure, Policy, RetryPolicy, Rule, ToolMessage, ToolSpec, UserMessage
from interpreters import LATER, ToolContext, replay, tool
from interpreters.durable.definition import DurableAgent
from interpreters.loop.performers import call_model_async
from interpreters.recording.recorder import Recorder
from interpreters.testing.fakes import FunctionModel, Reply, call
from tests.interpreters.durable.worlds import ASKED

SLOWEST = 0.03
"""Seconds that a reply or a call takes at most: some, so that most kills come while something is under way."""

AGAIN = RetryPolicy(first_delay=0.05, longest_delay=0.05)


def agent_of(folder: Path, version: str = "1") -> DurableAgent:
    """The definition, as each process makes it."""
    return DurableAgent(
        "tester",
        FunctionModel(_answer),
        _tools(folder),
        "Be brief.",
        version=version,
        policy=Policy(rules=(Rule("ask", "pay"),)),
        features=("workers",),
        approve=_later,
        performers={CallModel: _asked},
        retry=AGAIN,
    )


def _answer(_request: Any) -> Any:
    session, _, effect_id = ASKED.get().partition(" ")
    _, step, index = map(int, effect_id.split("."))
    if "/" in session:
        return call("look", n=9) if step == 1 else Reply("It is done.")
    match step:
        case 1 if index < 2:
            return Failure("try again", kind="transient")
        case 1:
            return [call("look", n=1), call("look", n=2), call("send", n=3)]
        case 2:
            return [call("spawn_worker", name="ann", objective="look", tools=["look"]), call("send", n=4)]
        case 3:
            return [call("pay", n=5), call("fetch")]
        case _:
            return Reply("Done.")


async def _asked(effect: Any, scope: Any) -> Any:
    ASKED.set(f"{scope.program.session} {effect.effect_id}")
    await _moment()
    return await call_model_async(effect, scope)


async def _later(_request: Any) -> Any:
    return LATER


async def _moment() -> None:
    await asyncio.sleep(random.random() * SLOWEST)


def _tools(folder: Path) -> list[Any]:
    done = partial(_write, folder / "done")

    @tool(read_only=True)
    async def look(n: int, context: ToolContext) -> str:
        """Look."""
        await _moment()
        return f"seen {n}"

    @tool
    async def send(n: int, context: ToolContext) -> str:
        """Send, which must happen once."""
        await _moment()
        done(f"send {context.session} {context.effect_id}")
        await _moment()
        return f"sent {n}"

    @tool
    async def pay(n: int, context: ToolContext) -> str:
        """Pay, when somebody has approved it."""
        await _moment()
        done(f"pay {context.session} {context.effect_id}")
        await _moment()
        return f"paid {n}"

    return [look, send, pay, ToolSpec("fetch", "Run outside.")]


def _write(path: Path, line: str) -> None:
    """Write a line at once, so that it stands there when the process is killed behind it."""
    opened = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(opened, f"{line}\n".encode())
    finally:
        os.close(opened)


def answer_to(effect: Any) -> Any:
    """What the user, or the program outside, answers."""
    return True if isinstance(effect, AskApproval) else "fetched"


def check(folder: Path, recorders: Callable[[str], Recorder], said: dict[str, list[str]]) -> Counter[str]:
    """See that no session has lost anything that was acknowledged, that nothing was done twice, and that each recording
    replays. Gives the number of results of each kind.

    Args:
        folder: of the agent.
        recorders: gives the recording of a session.
        said: what was said to each session, whose turns have all ended.
    """
    path = folder / "done"
    done = Counter(path.read_text().splitlines() if path.exists() else [])
    twice = [line for line, times in done.items() if times > 1]
    assert twice == []
    results: Counter[str] = Counter()
    for session, texts in said.items():
        report = replay(recorders(session))
        assert report.same, f"{session}: {report.divergence}"
        history = report.state.history
        heard = [one.text for one in history if isinstance(one, UserMessage) and one.origin == "user"]
        assert heard == texts
        results.update(f"{one.status}" for one in history if isinstance(one, ToolMessage))
    return results
