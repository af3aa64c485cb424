"""Answers as values, and tools whose schemas calls can't be held to."""

import dataclasses
from typing import Any, Literal

import attrs
import pytest

from cognition import ConfigError, Failure, GenerationOptions
from interpreters import Agent, AnswerError, StructuredResult, Tool, TurnFailedError, fakes, tool
from runtime.constrained.schema import SchemaError


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


def ask(reply: Any, returns: Any) -> StructuredResult[Any]:
    with Agent(fakes.ScriptedModel([reply])) as agent:
        return agent.run("Tell me.", returns=returns)


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
def test_an_answer_is_a_value_of_the_type_asked_for(kind: Any, text: str, value: Any) -> None:
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
def test_an_answer_that_is_no_such_value_is_an_error_that_says_why(kind: Any, text: str, told: str) -> None:
    """A model that is not held to the schema may write anything; the result itself is there all the same."""
    result = ask(text, kind)
    assert result.text == text
    with pytest.raises(AnswerError, match=told) as caught:
        _ = result.value
    assert caught.value.text == text


def test_without_an_answer_there_is_no_value() -> None:
    """The failure is told, not the missing JSON."""
    with pytest.raises(TurnFailedError):
        _ = ask(Failure("no", kind="fatal"), City).value


def test_a_type_without_a_form_in_json_is_refused() -> None:
    """Before the model is asked."""
    with Agent(fakes.ScriptedModel([])) as agent, pytest.raises(ConfigError, match="no form in JSON"):
        agent.run("Tell me.", returns=object)


def odd_tool() -> Tool[..., Any]:
    @tool
    def odd(a: int) -> int:
        """Something."""
        return a

    odd.spec = attrs.evolve(odd.spec, parameters={"type": "object", "properties": {"a": {"not": {}}}})
    return odd


def test_a_tool_that_calls_can_not_be_held_to_is_refused_when_it_is_registered() -> None:
    """With its name, the place in its schema, and what to do."""
    with pytest.raises(
        SchemaError, match=r"tool 'odd': 'not' is not supported.* @ \$\.properties\.a .*constrain=False"
    ):
        Agent(fakes.ScriptedModel([]), [odd_tool()])
    Agent(fakes.ScriptedModel([]), [odd_tool()], options=GenerationOptions(constrain=False)).close()
