"""NaN and infinity never reach a tool, a program or a model as numbers, and whole numbers keep every digit."""

from __future__ import annotations

import json
from typing import Any

import attrs
import hypothesis
import pytest
from hypothesis import strategies as st

from cognition import (
    AgentConfig,
    AgentState,
    CallTool,
    ConfigError,
    Limits,
    LLMEngine,
    ModelReplied,
    ProposedCall,
    ToolCall,
    ToolSpec,
    UserSpoke,
)
from cognition.parsing import FormatSpec, Parser, Reply, collect
from cognition.parsing.formats import GEMMA4, GPT_OSS, HERMES, LFM2, MISTRAL_LIST, QWEN3_CODER
from interpreters import Agent, tool
from interpreters.agents.structured_answers import AnswerError
from interpreters.testing.fakes import ScriptedModel
from interpreters.tools.context import ToolContext
from interpreters.tools.tool import Tool, ToolError, text_of

NO_NUMBERS = [
    "NaN",
    "Infinity",
    "-Infinity",
    "1e999",
    "-1e999",
    "1E400",
    "9" * 4500,
    "-" + "9" * 5000,
    "1" + "0" * 400 + ".5",
]

EXACT = ["9007199254740993", "-123456789012345678901234567890", "1" + "0" * 400]

CALLS = {
    "hermes": (HERMES, '<tool_call>\n{{"name": "f", "arguments": {{"x": {}}}}}\n</tool_call>'),
    "nested": (HERMES, '<tool_call>\n{{"name": "f", "arguments": {{"x": [{{"y": {}}}]}}}}\n</tool_call>'),
    "mended": (HERMES, '<tool_call>\n{{"name": "f", "arguments": {{"x": {},}}}}\n</tool_call>'),
    "in a string": (HERMES, '<tool_call>\n{{"name": "f", "arguments": "{{\\"x\\": {}}}"}}\n</tool_call>'),
    "list": (MISTRAL_LIST, '[TOOL_CALLS][{{"name": "f", "arguments": {{"x": {}}}}}]'),
    "channels": (GPT_OSS, "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{{\"x\": {}}}<|call|>"),
    "pythonic": (LFM2, "<|tool_call_start|>[f(x={})]<|tool_call_end|>"),
    "objects": (GEMMA4, "<|tool_call>call:f{{x:{}}}<tool_call|>"),
    "tagged": (QWEN3_CODER, "<tool_call>\n<function=f>\n<parameter=x>\n{}\n</parameter>\n</function>\n</tool_call>"),
}  # fmt: skip
"""A line more is a format more."""

SPEC = ToolSpec("f", "", {"type": "object", "properties": {"x": {"type": "number"}}})


def parse(spec: FormatSpec, text: str) -> Reply:
    parser = Parser(spec, (SPEC,))
    return collect((*parser.feed(text), *parser.finish("stop")))


def values(data: Any) -> list[Any]:
    if isinstance(data, dict):
        return [one for item in data.values() for one in values(item)]
    return [one for item in data for one in values(item)] if isinstance(data, list) else [data]


@pytest.mark.parametrize("number", NO_NUMBERS, ids=lambda text: text[:9])
@pytest.mark.parametrize("name", CALLS)
def test_a_call_with_no_number_is_none(name: str, number: str) -> None:
    """The model is told; where the format has bare texts it may stay the text that it is."""
    spec, text = CALLS[name]
    reply = parse(spec, text.format(number))

    for call in reply.tool_calls:
        assert all(isinstance(value, str) for value in values(call_of(call).arguments))
    assert reply.tool_calls or reply.malformed


def call_of(proposed: ProposedCall) -> ToolCall:
    return ToolCall("c1", proposed.name, proposed.arguments_json)


@pytest.mark.parametrize("number", EXACT, ids=lambda text: text[:9])
@pytest.mark.parametrize("name", CALLS)
def test_whole_numbers_keep_every_digit(name: str, number: str) -> None:
    """None is ever read as a float."""
    spec, text = CALLS[name]
    (call,) = parse(spec, text.format(number)).tool_calls

    assert values(call_of(call).arguments) == [int(number)]


@pytest.mark.parametrize("number", NO_NUMBERS, ids=lambda text: text[:9])
def test_the_engine_runs_no_such_call(number: str) -> None:
    """Whoever proposes it: a provider, a fake, a runtime of one's own."""
    engine = LLMEngine(AgentConfig(tools=(SPEC,)))
    asked = engine.step(AgentState(), UserSpoke("Go"))
    proposed = ProposedCall("f", f'{{"x": {number}}}')
    decisions = engine.step(asked.next_state, ModelReplied(asked.decisions[-1].effect_id, calls=(proposed,))).decisions

    assert not any(isinstance(decision, CallTool) for decision in decisions)


@tool
def take(x: float, more: list[Any] | None = None, count: int = 0) -> str:
    """Takes it."""
    return repr((x, more, count))


def given(arguments: dict[str, Any]) -> str:
    return take.call(arguments, ToolContext("c1"))  # type: ignore[call-arg,arg-type]  # what is asked of it is enough


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_tools_take_no_such_value(value: float) -> None:
    """Nor within another one, where the type says nothing; and tools with a schema of their own take none either."""
    described = Tool.from_schema(name="g", parameters={"type": "object"}, function=lambda arguments: "ran")
    for arguments in ({"x": value}, {"x": 1.0, "more": [{"a": [value]}]}, {"x": 1.0, "count": value}):
        with pytest.raises(ToolError, match="is no JSON number"):
            given(arguments)
        with pytest.raises(ToolError, match="is no JSON number"):
            described.call(arguments, ToolContext("c1"))  # type: ignore[call-arg,arg-type]  # likewise


@pytest.mark.parametrize("number", [2**53 + 1, -(10**30), 10**400])
def test_whole_numbers_reach_a_tool_as_they_are(number: int) -> None:
    """A parameter of floats takes those that no float holds too; what is too large even for that is refused."""
    if abs(number) < 10**300:
        assert given({"x": number}) == repr((number, None, 0))
    else:
        with pytest.raises(ToolError, match="too large to convert to float"):
            given({"x": number})
    assert given({"x": 1, "count": number}) == repr((1.0, None, number))


def test_a_float_that_may_have_lost_digits_is_no_whole_number() -> None:
    """``1e30`` as a float is not ten to the thirtieth."""
    assert given({"x": 1, "count": 3.0}) == "(1.0, None, 3)"
    with pytest.raises(ToolError, match="count must be a whole number"):
        given({"x": 1, "count": 1e30})


@hypothesis.given(st.integers(0, 2**60), st.sampled_from([1, -1]))
@hypothesis.example(2**53 - 1, 1)
@hypothesis.example(2**53, -1)
@hypothesis.example(2**53 + 1, 1)
def test_a_float_for_a_whole_number_is_exact_or_refused(size: int, sign: int) -> None:
    """2**53 itself is what a model's 2**53 + 1 has become."""
    text, number = f"{sign * size}.0", sign * size
    if abs(number) < 2**53:
        assert given({"x": 1, "count": json.loads(text)}) == repr((1.0, None, number))
    else:
        with pytest.raises(ToolError, match="is exact only without a fraction and an exponent"):
            given({"x": 1, "count": json.loads(text)})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"a": [float("-inf")]}])
def test_a_result_that_is_no_number_is_refused(value: Any) -> None:
    """What the model reads of a tool is JSON."""
    with pytest.raises(ToolError, match="returned a value that has no form in JSON"):
        text_of(value, "f")


@attrs.frozen
class Size:
    """What is asked for."""

    metres: float


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_an_answer_that_is_no_number_is_none(number: str) -> None:
    """``returns=`` gives a value of its type or says what is wrong."""
    with Agent(ScriptedModel([f'{{"metres": {number}}}']), limits=Limits(corrections=0)) as agent:
        result = agent.run("How long?", returns=Size)
        with pytest.raises(AnswerError, match="the answer is no JSON"):
            _ = result.value


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
def test_an_edited_recording_brings_none_to_a_tool(number: str) -> None:
    """Arguments are read anew wherever they are used."""
    call = ToolCall("c1", "take", f'{{"x": {number}}}')

    with pytest.raises(ValueError, match=r"no JSON number|larger than any"):
        _ = call.arguments


def test_a_timeout_that_is_no_number_is_refused() -> None:
    """No deadline is ever past it, nor before it."""
    with pytest.raises(ConfigError, match="timeout must be above 0 seconds, not nan"):

        @tool(timeout=float("nan"))
        def wait() -> None: ...
