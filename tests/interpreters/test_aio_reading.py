"""A model is read in the session's own task where nothing goes on beside it: what that must not change."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from cognition import (
    AgentConfig,
    AgentState,
    CallModel,
    CancelAsked,
    CancelEffect,
    Cancelled,
    Completed,
    Decision,
    EffectId,
    Failed,
    History,
    Idle,
    Input,
    ModelReplied,
    ModelRequest,
    Transition,
    TurnFinished,
    Usage,
    UserSpoke,
)
from cognition.steps.config import GenerationOptions
from interpreters import AsyncAgent, tool
from interpreters.testing.fakes import FunctionModel, Reply, ScriptedModel, call
from runtime.protocol.model import Done
from tests.interpreters.loops import run


class Pieces(ScriptedModel):
    """A model of which each test says how it is awaited."""

    def __init__(self, piece: Callable[[], Awaitable[Done]]) -> None:
        super().__init__(())
        self._piece = piece

    def stream(self, request: ModelRequest) -> Any:
        return self

    def __aiter__(self) -> Pieces:
        return self

    async def __anext__(self) -> Done:
        return await self._piece()

    def cancel(self) -> None: ...


def test_a_model_that_gives_up_by_itself_is_a_failed_call() -> None:
    """Nobody cancelled the turn, so that it has to end by itself, and its task goes on."""

    async def give_up() -> Done:
        raise asyncio.CancelledError

    async def main() -> Any:
        async with AsyncAgent(Pieces(give_up)) as agent:
            outcome = (await agent.run("Hi!")).outcome
            await asyncio.sleep(0)
            return outcome

    assert run(main()) == Failed("fatal", "the model's stream broke off without an end")


def test_a_model_can_not_keep_its_turn_from_being_cancelled() -> None:
    """One that catches the cancellation, and answers nonetheless."""

    async def main() -> Any:
        asked = asyncio.Event()

        async def go_on() -> Done:
            if not asked.is_set():
                asked.set()
                with suppress(asyncio.CancelledError):
                    await asyncio.get_running_loop().create_future()
            return Reply("I go on.").done

        async with AsyncAgent(Pieces(go_on)) as agent:
            turn = asyncio.create_task(agent.run("Hi!"))
            await asked.wait()
            turn.cancel()
            with pytest.raises(asyncio.CancelledError):
                await turn
            assert isinstance(agent.state.phase, Idle)
            return (await agent.run("And now?")).text

    assert run(main()) == "I go on."


def test_a_mode_set_while_the_model_writes_holds_for_its_calls() -> None:
    paid: list[int] = []

    @tool
    async def pay(n: int) -> str:
        paid.append(n)
        return "paid"

    async def main() -> Any:
        agents: list[AsyncAgent] = []

        async def writes(request: ModelRequest) -> Any:
            if len(request.messages) > 1:
                return "Well."
            agents[0].set_mode("careful")
            return call("pay", n=1)

        async with AsyncAgent(FunctionModel(writes), [pay]) as agent:
            agents.append(agent)
            return [made.status for made in (await agent.run("Pay!")).calls]

    assert (run(main()), paid) == (["refused"], [])


def test_a_model_that_never_waits_leaves_time_to_others() -> None:
    async def main() -> Any:
        served: list[bool] = []
        async with AsyncAgent(ScriptedModel(["Hello."])) as agent:
            asyncio.get_running_loop().call_soon(served.append, True)
            await agent.run("Hi!")
            return served

    assert run(main()) == [True]


class TwoMinds:
    """Asks the model twice at once and answers with both replies."""

    def __init__(self, config: AgentConfig) -> None:
        self.config = config

    def step(self, state: AgentState, event: Input | None) -> Transition:
        said = tuple(state.returns.splitlines())
        decisions: tuple[Decision, ...] = ()
        match event:
            case UserSpoke():
                request = ModelRequest("", History(), (), GenerationOptions())
                decisions = tuple(CallModel(EffectId(f"1.1.{n}"), "answer", request) for n in (0, 1))
            case ModelReplied(text=text):
                said = (*said, text)
                if len(said) == 2:
                    decisions = (TurnFinished(Completed(" ".join(sorted(said))), Usage()),)
            case CancelAsked(reason=reason):
                cancels = [CancelEffect(EffectId(f"1.1.{n}")) for n in (0, 1)]
                decisions = (*cancels, TurnFinished(Cancelled(reason), Usage()))
            case _:
                pass
        return Transition(AgentState(returns="\n".join(said)), decisions)


def test_models_beside_each_other_are_read_at_the_same_time() -> None:
    """What an engine of another kind may decide: each waits for the other, so that one after the other would hang."""

    async def main() -> Any:
        together = asyncio.Barrier(2)
        replies = iter(["one", "two"])

        async def meet(request: ModelRequest) -> str:
            await together.wait()
            return next(replies)

        async with AsyncAgent(FunctionModel(meet), engine=TwoMinds) as agent:
            return (await agent.run("Hi!")).text

    assert run(main()) == "one two"
