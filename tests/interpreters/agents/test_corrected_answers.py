"""An answer that is no value of the type asked for goes back to the model, with what is wrong with it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import attrs
import pytest

from cognition import ConfigError, Limits, UserMessage
from interpreters import LATER, Agent, AnswerError, AsyncAgent, StructuredResult, fakes, tool
from interpreters.recording.replay import replay


@attrs.frozen
class Even:
    n: int = attrs.field()

    @n.validator
    def _even(self, _attribute: Any, value: int) -> None:
        if value % 2:
            raise ValueError(f"{value} is odd")


@tool(approval=True)
def look() -> str:
    """Look around."""
    return "nothing"


def asked_sync(replies: list[Any], **options: Any) -> tuple[StructuredResult[Even], fakes.ScriptedModel]:
    model = fakes.ScriptedModel(replies)
    with Agent(model, **options) as agent:
        return agent.run("An even number, please.", returns=Even), model


def asked_async(replies: list[Any], **options: Any) -> tuple[StructuredResult[Even], fakes.ScriptedModel]:
    model = fakes.ScriptedModel(replies)

    async def run() -> StructuredResult[Even]:
        async with AsyncAgent(model, **options) as agent:
            return await agent.run("An even number, please.", returns=Even)

    return asyncio.run(run()), model


def streamed_async(replies: list[Any], **options: Any) -> tuple[StructuredResult[Even], fakes.ScriptedModel]:
    model = fakes.ScriptedModel(replies)

    async def run() -> Any:
        async with AsyncAgent(model, **options) as agent:
            async with agent.stream("An even number, please.", returns=Even) as stream:
                async for _ in stream:
                    pass
            return stream.result

    return asyncio.run(run()), model


asks = pytest.mark.parametrize("ask", [asked_sync, asked_async, streamed_async])


@asks
@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ('{"n": 3}', "3 is odd"),
        ('{"n": "4"}', 'the answer.n must be a whole number, not "4"'),
        ("Four.", "the answer is no JSON"),
        ('{"n": 4', "the answer is no JSON"),
        ('{"n": 4, "m": 1}', "the answer.m is unknown"),
        ('{"n": 4, "n": 6}', "the answer is no JSON"),
    ],
)
def test_a_wrong_answer_is_mended_by_the_model(ask: Any, wrong: str, told: str) -> None:
    """Whether the schema is missed or the class's own validator says no."""
    result, model = ask([wrong, '{"n": 4}'])

    assert (result.value, result.ok) == (Even(4), True)
    last = model.requests[-1].messages[-1]
    assert isinstance(last, UserMessage)
    assert told in last.text


@asks
@pytest.mark.parametrize("corrections", [0, 1, 3])
def test_the_option_says_how_often(ask: Any, corrections: int) -> None:
    replies = ['{"n": 3}'] * (corrections + 1)
    result, model = ask(replies, limits=Limits(corrections=corrections))

    assert len(model.requests) == corrections + 1
    assert (result.ok, result.text) == (False, '{"n": 3}')
    with pytest.raises(AnswerError, match="3 is odd"):
        _ = result.value


@asks
def test_by_default_an_answer_is_sent_back_twice(ask: Any) -> None:
    _, model = ask(['{"n": 3}'] * 3)

    assert len(model.requests) == 3


@asks
def test_the_steps_of_a_turn_bound_the_corrections(ask: Any) -> None:
    """The last reply is a final answer, whatever it is."""
    result, model = ask(['{"n": 3}'] * 3, limits=Limits(steps=2, corrections=100))

    assert (len(model.requests), result.ok) == (3, False)


def test_an_answer_in_a_text_protocol_is_checked_too() -> None:
    """A call is none, and what is read out of the reply is what counts."""
    replies = ['{"n": 3}', '{"n": 4}']
    result, model = asked_sync(replies, tools=[look], protocol="short_keys")

    assert (result.value, len(model.requests)) == (Even(4), 2)


def test_a_corrected_turn_replays(tmp_path: Path) -> None:
    """What was objected to is on file, and nobody checks it again."""
    path = tmp_path / "even.jsonl"
    asked_sync(['{"n": 3}', '{"n": 4}'], journal=path)

    assert replay(path).divergence is None


def test_a_turn_that_waited_gives_its_answer_as_a_value() -> None:
    """In the same process the type is known."""
    model = fakes.ScriptedModel([fakes.call("look"), '{"n": 3}', '{"n": 4}'])
    with Agent(model, [look], approve=lambda request: LATER) as agent:
        pending = agent.run("An even number, please.", returns=Even).pending
        result = agent.answer(pending[0].effect_id, True)

    assert isinstance(result, StructuredResult)
    assert result.value == Even(4)


def test_another_process_says_the_type_again(tmp_path: Path) -> None:
    """No recording holds a type; one of another schema is refused."""
    path = tmp_path / "even.jsonl"
    with Agent(fakes.ScriptedModel([fakes.call("look")]), [look], approve=lambda _: LATER, journal=path) as agent:
        (pending,) = agent.run("An even number, please.", returns=Even).pending

    with Agent.resume(path, fakes.ScriptedModel(['{"n": 3}', '{"n": 4}']), [look]) as agent:
        with pytest.raises(ConfigError, match="was not asked for an answer of the type"):
            agent.answer(pending.effect_id, True, returns=int)
        result = agent.answer(pending.effect_id, True, returns=Even)

    assert isinstance(result, StructuredResult)
    assert result.value == Even(4)
