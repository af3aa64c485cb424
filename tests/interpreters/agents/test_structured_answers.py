"""Answers as values, and tools whose schemas calls can't be held to."""

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import attrs
import pytest

from cognition import ConfigError, Failure, GenerationOptions, Limits
from interpreters import Agent, AnswerError, AsyncAgent, StructuredResult, Tool, TurnFailedError, events, fakes, tool
from interpreters.agents.structured_answers import PartialAnswer, answer_type


@attrs.frozen
class City:
    name: str
    kind: Literal["town", "village"]
    people: int | None = None


@attrs.frozen
class Even:
    n: int = attrs.field()

    @n.validator
    def _even(self, _attribute: Any, value: int) -> None:
        if value % 2:
            raise ValueError(f"{value} is odd")


@dataclasses.dataclass
class Point:
    x: float


Ask = Callable[[Any, Any], StructuredResult[Any]]


def ask_agent(reply: Any, returns: Any) -> StructuredResult[Any]:
    with Agent(fakes.ScriptedModel([reply]), limits=Limits(corrections=0)) as agent:
        return agent.run("Tell me.", returns=returns)


def ask_async_agent(reply: Any, returns: Any) -> StructuredResult[Any]:
    async def run() -> StructuredResult[Any]:
        async with AsyncAgent(fakes.ScriptedModel([reply]), limits=Limits(corrections=0)) as agent:
            return await agent.run("Tell me.", returns=returns)

    return asyncio.run(run())


@pytest.fixture(params=[ask_agent, ask_async_agent], ids=["sync", "async"])
def ask(request: pytest.FixtureRequest) -> Ask:
    """Ask a model that replies so for a value of a type, with either agent."""
    asked: Ask = request.param
    return asked


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (City, '{"name": "Ulm", "kind": "town"}', City("Ulm", "town")),
        (Point, '{"x": 1}', Point(1)),
        (list[int], "[1, 2]", [1, 2]),
        (int | None, "null", None),
        (None, "null", None),
        (dict[str, bool], '{"a": true}', {"a": True}),
    ],
)
def test_an_answer_is_a_value_of_the_type_asked_for(ask: Ask, kind: Any, text: str, value: Any) -> None:
    """Of every type that a tool's parameter may have."""
    assert ask(text, kind).value == value


@pytest.mark.parametrize(
    ("kind", "text", "told"),
    [
        (City, "Ulm", "is no JSON"),
        (City, '{"name": "Ulm"}', "kind is missing"),
        (int, '"5"', "must be a whole number"),
        (Even, '{"n": 3}', "3 is odd"),
    ],
)
def test_an_answer_that_is_no_such_value_is_an_error_that_says_why(ask: Ask, kind: Any, text: str, told: str) -> None:
    """A model that is not held to the schema may write anything; the result itself is there all the same."""
    result = ask(text, kind)
    assert (result.text, result.ok) == (text, False)
    with pytest.raises(AnswerError, match=told) as caught:
        _ = result.value
    assert caught.value.text == text


def test_without_an_answer_there_is_no_value(ask: Ask) -> None:
    """The failure is told, not the missing JSON."""
    with pytest.raises(TurnFailedError):
        _ = ask(Failure("no", kind="fatal"), City).value


def test_a_type_without_a_form_in_json_is_refused(ask: Ask) -> None:
    """Before the model is asked."""
    with pytest.raises(ConfigError, match="no form in JSON"):
        ask(AssertionError("the model was asked"), object)


def test_a_turn_with_an_answer_asks_for_its_schema_and_the_next_does_not() -> None:
    """With tools and asyncio: every request of that turn holds the schema, and a call may come before the answer."""

    @tool
    def look() -> str:
        """Look around."""
        return "Ulm"

    model = fakes.ScriptedModel([fakes.call("look"), '{"name": "Ulm", "kind": "town"}', "Hello!"])

    async def run() -> tuple[Any, str]:
        async with AsyncAgent(model, [look]) as agent:
            city = (await agent.run("Which one?", returns=City)).value
            return city, (await agent.run("Hi.")).text

    assert asyncio.run(run()) == (City("Ulm", "town"), "Hello!")
    assert ['"kind"' in request.options.response_format for request in model.requests] == [True, True, False]


def odd_tool() -> Tool[..., Any]:
    @tool
    def odd(a: int) -> int:
        """Something."""
        return a

    odd.spec = attrs.evolve(odd.spec, parameters={"type": "object", "properties": {"a": {"not": {}}}})
    return odd


def test_a_tool_that_no_arguments_fit_is_told_and_stops_no_agent() -> None:
    """With its name and the place in its schema; the others are offered as ever."""
    with Agent(fakes.ScriptedModel([]), [odd_tool()]) as agent:
        assert [one.path for one in agent.describe().weakened["odd"]][:1] == ["$.properties.a"]
    Agent(fakes.ScriptedModel([]), [odd_tool()], options=GenerationOptions(constrain=False)).close()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('```\n{"a": 1}\n```\n', {"a": 1}),
        ('\n~~~~JSON\n{"a": 1}\n~~~~', {"a": 1}),
        ('```json\r\n{"a": 1}\r\n```', {"a": 1}),
        ('Here it is:\n```json\n{"a": 1}\n```', None),
        ('```json\n{"a": 1}\n```\nThere it is.', None),
        ('```python\n{"a": 1}\n```', None),
    ],
)
def test_a_fence_around_the_whole_answer_is_no_mistake(text: str, value: dict[str, int] | None) -> None:
    if value is None:
        with pytest.raises(AnswerError):
            answer_type(dict[str, int]).read(text)
        return
    assert answer_type(dict[str, int]).read(text) == value
    model = fakes.FunctionModel(lambda request: text)
    with Agent(model) as agent:
        result = agent.run("Go!", returns=dict[str, int])
    assert (result.value, len(model.requests)) == (value, 1)
    partial = PartialAnswer()
    parts = [part for event in fenced(text) for part in partial.take(event)]
    assert parts[-1] == value


def fenced(text: str) -> list[events.Event]:
    pieces = [events.TextDelta(text[place : place + 3]) for place in range(0, len(text), 3)]
    return [events.Event("s", 1, 1, 1, number, piece) for number, piece in enumerate(pieces)]
