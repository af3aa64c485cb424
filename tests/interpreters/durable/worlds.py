"""A world in which the same session can be run in every way, and what happened in it can be counted from outside.

The model answers by the effect id of its call, and so gives the same to whoever asks again. Tools count what they have
done in the world, where no killed process takes it back.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from functools import wraps
from typing import Any

from attrs import define, field, frozen

from cognition import (
    AskApproval,
    AskUser,
    CallModel,
    CancelAsked,
    Failure,
    Policy,
    Rule,
    ToolSpec,
    UserSpoke,
)
from interpreters import Agent, AsyncAgent, tool
from interpreters.durable.definition import DurableAgent
from interpreters.loop.performers import call_model, call_model_async
from interpreters.loop.program.pending import LATER
from interpreters.loop.program.program import read_answer
from interpreters.loop.program.questions import HookAnswer
from interpreters.testing.durable import MemoryEngine
from interpreters.testing.fakes import FakeClock, FunctionModel, Reply, call

ASKED: ContextVar[str] = ContextVar("asked")
"""The session and effect id of the call that is made."""

NOTHING_MORE = Reply("There is nothing more to say.")


@frozen
class Said:
    """A reply of the model; the first ``fails`` requests for it fail, each with a retry behind it."""

    reply: Reply
    fails: int = 0


@frozen
class Story:
    """A session: for each turn the model's replies, and after how many answers from outside it is cancelled."""

    turns: tuple[tuple[Said, ...], ...]
    cancel_after: int | None = None


@define
class World:
    """One world."""

    story: Story
    done: Counter[str] = field(factory=Counter)
    """What tools did, by name and argument."""
    engine: MemoryEngine | None = None
    session: str = "s"
    form: Callable[[Any], Any] = field(default=lambda function: function)
    """What becomes of its async functions: ``at_once`` for an agent without a loop."""

    async def acknowledged(self, run: Any) -> Any:
        """A run to its end; what stood on file when an earlier one was over, stands there still."""
        assert self.engine is not None
        before = list(self.engine.sessions.get(self.session, ()))
        ended = await run
        assert self.engine.sessions[self.session][: len(before)] == before
        assert ended.error == ""
        return ended

    async def moment(self) -> None:
        if self.engine is None:
            await asyncio.sleep(0)
        else:
            await self.engine.moment()

    def answer(self, _request: Any) -> Any:
        session, _, effect_id = ASKED.get().partition(" ")
        turn, step, index = map(int, effect_id.split("."))
        if session != self.session:  # a worker's
            return call("look", n=9) if step == 1 else Reply("It is done.")
        said = self.story.turns[turn - 1][step - 1 : step]
        if not said:
            return NOTHING_MORE
        if index < 2 * said[0].fails:
            return Failure("try again", kind="transient")
        return said[0].reply

    def options(self) -> dict[str, Any]:
        return {
            "system": "Be brief.",
            "policy": Policy(rules=(Rule("ask", "pay"),)),
            "features": ("questions", "workers", "memory"),
            "approve": self.form(later),
            "ask": self.form(later),
            "hooks": {"before_tool": self.form(self.hook)},
            "memory": Notes(self.form),
            "performers": {CallModel: asked_async if self.form is not at_once else asked},
            "redact": None,
            "clock": FakeClock(),
        }

    async def hook(self, request: Any) -> HookAnswer | None:
        return HookAnswer("refuse", "not this one") if request.call.arguments.get("n") == 13 else None

    def tools(self) -> list[Any]:
        async def look(n: int) -> str:
            """Look."""
            await self.moment()
            self.done[f"look {n}"] += 1
            await self.moment()
            return f"seen {n}"

        async def send(n: int) -> str:
            """Send, which must happen once."""
            await self.moment()
            self.done[f"send {n}"] += 1
            await self.moment()
            if n == 7:
                raise ValueError("seven is not sent")
            return f"sent {n}"

        async def pay(n: int) -> str:
            """Pay, when somebody has approved it."""
            self.done[f"pay {n}"] += 1
            await self.moment()
            return f"paid {n}"

        form = self.form
        return [tool(read_only=True)(form(look)), tool(form(send)), tool(form(pay)), ToolSpec("fetch", "Run outside.")]


async def later(_request: Any) -> Any:
    return LATER


class Notes:
    """Notes that are kept in memory."""

    def __init__(self, form: Callable[[Any], Any]) -> None:
        self.texts: set[str] = set()
        self.remember, self.recall = form(self._remember), form(self._recall)

    async def _remember(self, text: str) -> None:
        self.texts.add(text)

    async def _recall(self, query: str) -> Sequence[str]:
        return ("a note",)


def at_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """An async function that waits for nobody, as one that is called without a loop."""

    @wraps(function)
    def call_at_once(*arguments: Any, **named: Any) -> Any:
        waiting = function(*arguments, **named)
        try:
            while True:
                waiting.send(None)
        except StopIteration as end:
            return end.value

    return call_at_once


def asked(effect: Any, scope: Any) -> Any:
    token = ASKED.set(f"{scope.program.session} {effect.effect_id}")
    try:
        return call_model(effect, scope)
    finally:
        ASKED.reset(token)


async def asked_async(effect: Any, scope: Any) -> Any:
    token = ASKED.set(f"{scope.program.session} {effect.effect_id}")
    try:
        return await call_model_async(effect, scope)
    finally:
        ASKED.reset(token)


def by_rule(effect: Any) -> Any:
    """What the user, or the program outside, answers."""
    match effect:
        case AskApproval(call=one):
            return one.arguments.get("n", 0) % 3 != 0
        case AskUser():
            return ["a"]
        case _:
            return "fetched"


def on_sync(world: World, recorder: Any) -> World:
    """The story of a world whose ``form`` is ``at_once``."""
    story, model = world.story, FunctionModel(world.answer)
    with Agent(model, world.tools(), journal=recorder, session=world.session, **world.options()) as agent:
        answers = 0
        for number in range(len(story.turns)):
            agent.run(message(number))
            while agent.pending:
                if answers == story.cancel_after:
                    agent.cancel("enough")
                    break
                effect = agent.pending[0]
                agent.answer(str(effect.effect_id), by_rule(effect))
                answers += 1
    return world


async def on_asyncio(world: World, recorder: Any) -> World:
    """The story of a world."""
    story, model = world.story, FunctionModel(world.answer)
    async with AsyncAgent(model, world.tools(), journal=recorder, session=world.session, **world.options()) as agent:
        answers = 0
        for number in range(len(story.turns)):
            await agent.run(message(number))
            while agent.pending:
                if answers == story.cancel_after:
                    agent.cancel("enough")
                    break
                effect = agent.pending[0]
                await agent.answer(str(effect.effect_id), by_rule(effect))
                answers += 1
    return world


def message(number: int) -> str:
    """What a turn begins with."""
    return f"Do the {number + 1}. thing."


async def durably(story: Story, kills: Iterable[int], *, loses: bool = False) -> tuple[World, MemoryEngine]:
    """The story on an engine whose processes die at these moments; ``loses``: and so does the recordings' machine."""
    world = World(story)
    world.engine = engine = MemoryEngine(kills, loses=loses)
    agent = DurableAgent("tester", FunctionModel(world.answer), world.tools(), **world.options())
    tools = {one.spec.name: one for one in agent.tools}
    answers = 0
    for number in range(len(story.turns)):
        ended = await world.acknowledged(engine.run(agent, "s", UserSpoke(message(number))))
        while ended.pending:
            if answers == story.cancel_after:
                await world.acknowledged(engine.run(agent, "s", CancelAsked("enough")))
                break
            effect = ended.pending[0]
            event = read_answer(effect, by_rule(effect), tools)
            ended = await world.acknowledged(engine.run(agent, "s", event))
            answers += 1
    return world, engine


def bare(lines: Iterable[bytes]) -> list[Any]:
    """Lines without times, sums and seals."""
    return [_bare(json.loads(line)) for line in lines]


def decided(lines: Iterable[bytes]) -> tuple[Any, list[str], list[Any]]:
    """How a session began, what came to it in any order, and all that was decided, in its order.

    Answers to calls that run together arrive as they come, where nobody puts them in order; what is decided by them is
    the same (law L3).
    """
    header, *records = bare(lines)
    came = sorted(json.dumps(one["input"], sort_keys=True) for one in records)
    return header, came, [decision for one in records for decision in one["decisions"]]


ELSEWHERE = ("at", "created", "sum", "seal", "partial_text")
"""What differs with the time and the process: of a cancellation also what of a reply that has ended was seen."""


def _bare(data: Any) -> Any:
    if isinstance(data, dict):
        left_out = (*ELSEWHERE, "text") if data.get("type") == "cancelled" else ELSEWHERE
        return {name: _bare(one) for name, one in data.items() if name not in left_out}
    return [_bare(one) for one in data] if isinstance(data, list) else data
