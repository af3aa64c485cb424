"""cogstep: the public ``Agent`` on a scripted model, and below it ``LLMEngine.step`` without any interpreter.

They have no ``lengthen``: their histories are really walked.
"""

from __future__ import annotations

import asyncio
from itertools import repeat
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.peers.protocol import ANSWER, ARGUMENTS, TOOL
from benchmarks.sessions import CONTEXT, new_engine, turn_inputs
from cognition import AgentState, ModelRequest, ProposedCall, ToolMessage, Transition, TurnFinished
from interpreters import Agent, AsyncAgent, fakes, tool

CALL = fakes.Reply(calls=ProposedCall(TOOL, ARGUMENTS))
FINAL = fakes.Reply(ANSWER)


def model(request: ModelRequest) -> fakes.Reply:
    return FINAL if isinstance(request.messages[-1], ToolMessage) else CALL


def multiply(a: int, b: int) -> int:
    """Multiply two whole numbers."""
    return a * b


class Cogstep:
    def __init__(self, *, read_only: bool = True, journal: bool = False) -> None:
        self.tool = tool(read_only=read_only)(multiply)
        self.directory = TemporaryDirectory(prefix="cogstep-turn-") if journal else None
        self.agents: list[Agent] = []

    def begin(self) -> None:
        while self.agents:
            self.agents.pop().close()
        path = Path(self.directory.name, "session.jsonl") if self.directory else None
        if path is not None:
            path.unlink(missing_ok=True)
        scripted = fakes.ScriptedModel(repeat(model), context_tokens=CONTEXT)
        self.agents.append(Agent(scripted, tools=[self.tool], journal=path, fsync="never"))

    def turn(self, text: str) -> str:
        return self.agents[0].run(text).text

    def keep(self) -> object:
        """The conversation, which the next ``begin`` then does not close."""
        return self.agents.pop()


class OnALoop:
    """``AsyncAgent`` with an ``async def`` tool, in a loop of its own."""

    def __init__(self, *, journal: bool = False) -> None:
        self.directory = TemporaryDirectory(prefix="cogstep-turn-") if journal else None

        @tool(read_only=True, name=TOOL)
        async def multiply_soon(a: int, b: int) -> int:
            """Multiply two whole numbers."""
            return a * b

        self.tool = multiply_soon
        self.loop = asyncio.new_event_loop()
        self.agents: list[AsyncAgent] = []

    def begin(self) -> None:
        while self.agents:
            self.loop.run_until_complete(self.agents.pop().close())
        path = Path(self.directory.name, "session.jsonl") if self.directory else None
        if path is not None:
            path.unlink(missing_ok=True)
        scripted = fakes.ScriptedModel(repeat(model), context_tokens=CONTEXT)
        self.agents.append(AsyncAgent(scripted, tools=[self.tool], journal=path, fsync="never"))

    def turn(self, text: str) -> str:
        return self.loop.run_until_complete(self.agents[0].run(text)).text

    def keep(self) -> object:
        """The conversation, which the next ``begin`` then does not close."""
        return self.agents.pop()


class StepOnly:
    def begin(self) -> None:
        self.engine, self.latest, self.turns = new_engine(), Transition(AgentState()), 0

    def turn(self, text: str) -> str:
        self.turns += 1
        for event in turn_inputs(self.turns, text):
            self.latest = self.engine.step(self.latest.next_state, event)
        end = self.latest.decisions[-1]
        return end.outcome.text if isinstance(end, TurnFinished) else repr(end)

    def keep(self) -> object:
        """The state: all there is of a session that waits."""
        return self.latest.next_state


def peer() -> Cogstep:
    return Cogstep()


def on_thread() -> Cogstep:
    return Cogstep(read_only=False)


def on_a_loop() -> OnALoop:
    return OnALoop()


def recorded() -> Cogstep:
    return Cogstep(journal=True)


def recorded_on_a_loop() -> OnALoop:
    return OnALoop(journal=True)


def step_only() -> StepOnly:
    return StepOnly()
