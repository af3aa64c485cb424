"""What the processes of the kill tests work at: payments that must happen once, counted in a file outside.

A process may kill itself at the moments that ``moment`` names, with the probability of each; whatever it was doing then
is for another one to find out.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path
from typing import Any

from cognition import CallModel, Failure, Policy, Rule
from interpreters import tool
from interpreters.durable.definition import DurableAgent
from interpreters.loop.performers import call_model_async
from interpreters.loop.program.pending import LATER
from interpreters.testing.fakes import FunctionModel, Reply, call
from interpreters.tools.context import ToolContext

CHANCE = float(os.environ.get("COGSTEP_DIES", "0"))
"""The probability of a death at each moment."""

PAGE = "A page.\n" * 3000
"""So long that it stands beside the lines of a recording."""


def moment(folder: Path, what: str) -> None:
    """Perhaps die here."""
    if CHANCE and random.random() < CHANCE:
        note(folder / "deaths", what)
        os.kill(os.getpid(), signal.SIGKILL)


def note(path: Path, line: str) -> None:
    """Append a line in one write, which no kill halves."""
    with open(path, "ab", buffering=0) as file:
        file.write(f"{line}\n".encode())


def shop(folder: Path, *, retries: bool = False) -> DurableAgent:
    """An agent that looks, sends, and pays when somebody has approved it."""

    @tool(read_only=True)
    def look(n: int, context: ToolContext[None]) -> str:
        """Look."""
        moment(folder, "look")
        return f"seen {n}" if n > 1 else PAGE

    @tool
    def send(n: int, context: ToolContext[None]) -> str:
        """Send, which must happen once."""
        moment(folder, "before a tool")
        note(folder / "done", f"send {n} {context.session}")
        time.sleep(0.005)
        moment(folder, "behind a tool")
        return f"sent {n}"

    @tool
    def pay(n: int, context: ToolContext[None]) -> str:
        """Pay, when somebody has approved it."""
        moment(folder, "before a tool")
        note(folder / "done", f"pay {n} {context.session}")
        moment(folder, "behind a tool")
        return f"paid {n}"

    async def asked(effect: Any, scope: Any) -> Any:
        moment(folder, "model")
        step, index = map(int, str(effect.effect_id).split(".")[1:])
        worker = "/" in scope.program.session
        scope.program.model.next = _of_worker(step) if worker else _reply(step, index, retries=retries)
        return await call_model_async(effect, scope)

    return DurableAgent(
        "shop",
        Saying(),
        [look, send, pay],
        policy=Policy(rules=(Rule("ask", "pay"),)),
        approve=later,
        performers={CallModel: asked},
        features=("workers",),
        redact=None,
    )


class Saying(FunctionModel):
    """Says what its caller has put before it, at once."""

    def __init__(self) -> None:
        super().__init__(lambda _request: self.next)
        self.next: Any = ""


def _reply(step: int, index: int, *, retries: bool) -> Any:
    if step == 1:
        return [call("look", n=1), call("look", n=2), call("send", n=1)]
    if step == 2:
        if retries and index == 0:
            return Failure("try again", kind="transient")
        return call("pay", n=2)
    if step == 3:
        return call("spawn_worker", name="ann", objective="send", tools=["send"])
    return Reply("All is done.")


def _of_worker(step: int) -> Any:
    return call("send", n=9) if step == 1 else Reply("It is sent.")


async def later(_request: Any) -> Any:
    return LATER
