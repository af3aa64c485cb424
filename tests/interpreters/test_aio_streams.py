"""Turns as streams under asyncio: event by event, as fast as they are read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from cognition import Cancelled, Idle
from interpreters import AsyncAgent, events
from interpreters.agents import async_agent
from interpreters.observing.events import Event
from interpreters.testing.fakes import Reply, ScriptedModel, ScriptError, call
from tests.interpreters.loops import Blocking, double, run


@pytest.mark.parametrize("model", [ScriptedModel, lambda replies: Blocking(*replies)])
def test_a_slow_reader_of_a_stream_holds_the_model_up(model: Callable[[Any], Any]) -> None:
    """It is never further behind than ``BEHIND`` events, and misses none."""
    length = 5 * async_agent.BEHIND

    async def main() -> Any:
        async with AsyncAgent(model([Reply("x" * length, chunk=1)])) as agent:
            seen = 0
            async with agent.stream("Go!") as stream:
                async for event in stream:
                    seen += isinstance(event.value, events.TextDelta)
                    assert len(stream._events) <= async_agent.BEHIND
                    if seen % 50 == 0:
                        await asyncio.sleep(0.001)
            return seen

    assert length == run(main())


def test_leaving_a_stream_cancels_its_turn() -> None:
    """The block is left when the turn has ended, and the conversation goes on."""

    async def main() -> Any:
        async with AsyncAgent(ScriptedModel([Reply("x" * 1000, chunk=1), "Hello again."])) as agent:
            async with agent.stream("Go!") as stream:
                async for event in stream:
                    if isinstance(event.value, events.TextDelta):
                        break
            assert isinstance(agent.state.phase, Idle)
            return stream.result.outcome, (await agent.run("Hi!")).text

    outcome, text = run(main())
    assert (isinstance(outcome, Cancelled), text) == (True, "Hello again.")
    assert outcome.reason == "the stream was left"


def test_a_stream_ends_also_when_the_turn_can_t() -> None:
    """With the error, wherever it is read; and words for those who read it wrongly."""

    async def read(stream: async_agent.EventStream) -> list[Event]:
        async with stream:
            return [event async for event in stream]

    async def main() -> None:
        async with AsyncAgent(ScriptedModel([])) as agent:
            stream = agent.stream("Hi!")
            with pytest.raises(Exception, match="has not ended yet"):
                _ = stream.result
            with pytest.raises(Exception, match="async with"):
                await anext(stream)
            with pytest.raises(ScriptError, match="ends after 0"):
                await read(stream)
            with pytest.raises(Exception, match="read once"):
                await read(stream)

    run(main())


def test_a_turn_is_streamed() -> None:
    """Event by event as observers get them, then the result; and the next turn has a stream of its own."""

    async def main() -> Any:
        told: list[Event] = []
        model = ScriptedModel([call("double", n=21), Reply("It is 42.", chunk=3), "Bye."])
        async with AsyncAgent(model, [double], observers=[told.append]) as agent:
            async with agent.stream("Double 21!") as stream:
                read = [event async for event in stream]
            assert read == told
            assert isinstance(read[-1].value, events.TurnFinished)
            async with agent.stream("Bye!") as second:
                texts = [event.value.text async for event in second if isinstance(event.value, events.TextDelta)]
            return stream.result.text, second.result.text, texts

    assert run(main()) == ("It is 42.", "Bye.", ["Bye."])
