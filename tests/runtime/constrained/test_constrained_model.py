"""Constrained calls of the shipped model, at a temperature at which it writes little that makes sense."""

import json
from random import Random
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from benchmarks.random_schemas import random_parameters
from cognition import GenerationOptions, History, ModelRequest, ToolSpec, UserMessage
from runtime import Done
from runtime.local.handles import LocalRuntime

pytest.importorskip("llguidance")
from runtime.constrained.replies import weakened_tools
from tests.runtime.constrained.test_mcp_tool_lists import LISTS, judge, tools_of

ROUTE = ToolSpec(
    "route",
    "Find a route.",
    {
        "type": "object",
        "properties": {
            "to": {"type": "string", "maxLength": 12},
            "stops": {"type": "integer", "minimum": 0, "maximum": 9},
        },
        "required": ["to", "stops"],
    },
)
NOW = ToolSpec("now", "Tell the time.", {"type": "object", "properties": {}})


def sample(runtime: LocalRuntime, tools: tuple[ToolSpec, ...] = (ROUTE, NOW), **options: Any) -> Done:
    settings = {"temperature": 1.5, "seed": 1, "max_tokens": 200, "thinking": False, **options}
    messages = History((UserMessage("m1", "Find a route to the station, with two stops."),))
    *_, done = runtime.submit(ModelRequest("", messages, tools, GenerationOptions(**settings)))
    assert isinstance(done, Done)
    return done


@pytest.mark.slow
def test_sampled_calls_of_random_schemas_are_valid(runtime: LocalRuntime) -> None:
    """A few of the thousand of ``benchmarks/constrained.py``; one that the token limit cut is no call."""
    complete = 0
    for number in range(6):
        schema = random_parameters(Random(number))
        done = sample(runtime, (ToolSpec("record", "Record it.", schema),), tool_choice="record", seed=number)
        assert done.failure is None
        if done.finish_reason != "length":
            complete += 1
            assert (len(done.calls), done.malformed) == (1, ())
            judge = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
            judge.validate(json.loads(done.calls[0].arguments_json))
    assert complete


@pytest.mark.slow
def test_a_tool_of_each_list_of_others_is_called(runtime: LocalRuntime) -> None:
    """Forced, each is called once, and with what fits its schema, unless that is weakened."""
    complete = 0
    for path in LISTS:
        first = tools_of(path)[0]
        done = sample(runtime, (first,), tool_choice=first.name, parallel_calls=False, max_tokens=80, seed=3)
        assert done.failure is None
        if done.finish_reason != "length":
            complete += 1
            assert ([call.name for call in done.calls], done.malformed) == ([first.name], ())
            if not weakened_tools((first,), runtime.describe().format):
                judge(first).validate(json.loads(done.calls[0].arguments_json))
    assert complete


@pytest.mark.parametrize("seed", [1, 2])
def test_one_tool_is_called_and_no_other(runtime: LocalRuntime, seed: int) -> None:
    """Once, where calls are not to be parallel."""
    done = sample(runtime, tool_choice="route", parallel_calls=False, seed=seed)

    assert [call.name for call in done.calls] == ["route"]
    assert done.finish_reason == "tool_calls"
    assert Draft202012Validator(ROUTE.parameters).is_valid(json.loads(done.calls[0].arguments_json))


def test_the_same_seed_gives_the_same_call(runtime: LocalRuntime) -> None:
    """Masks change nothing about that. Both find the same in the cache: what is evaluated in one batch and what token
    by token differs in rounding, which at this temperature is enough for another token (docs/concepts/scheduler.md).
    """
    _, first, second = (sample(runtime, tool_choice="required", seed=7) for _ in range(3))

    assert (first.calls, first.usage.output_tokens) == (second.calls, second.usage.output_tokens)
    assert second.usage.reused_tokens > 0


def test_none_is_none(runtime: LocalRuntime) -> None:
    """However it is asked for one."""
    done = sample(runtime, tool_choice="none", max_tokens=40)

    assert (done.calls, done.malformed, done.failure) == ((), (), None)


def test_an_answer_follows_its_schema(runtime: LocalRuntime) -> None:
    """At any temperature."""
    schema = {
        "type": "object",
        "properties": {"ok": {"type": "boolean"}, "n": {"enum": [1, 2]}},
        "required": ["ok", "n"],
    }
    done = sample(runtime, (), response_format=schema)

    assert done.finish_reason == "stop"
    Draft202012Validator(schema).validate(json.loads(done.text))


def test_a_checked_answer_is_free_where_nothing_is_constrained(runtime: LocalRuntime) -> None:
    """Whoever asked tells what is wrong with it."""
    options: dict[str, Any] = {"response_format": {"type": "object"}, "response_checked": True, "constrain": False}
    done = sample(runtime, (), max_tokens=5, **options)

    assert done.failure is None


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"tool_choice": "required", "constrain": False}, "constrain is False"),
        ({"response_format": {"type": "object"}, "constrain": False}, "response_format can't be had"),
        ({"tool_choice": "fly"}, "no tool of this name"),
    ],
)
def test_what_can_not_be_had_is_a_failure_that_says_why(
    runtime: LocalRuntime, options: dict[str, Any], told: str
) -> None:
    """The model is not asked, and the next request is served as ever."""
    done = sample(runtime, **options)

    assert done.failure is not None
    assert told in done.failure.message
    assert sample(runtime, max_tokens=2).failure is None


def test_a_schema_that_is_none_is_a_failure(runtime: LocalRuntime) -> None:
    """For programs that go around the agent, which refuses such a tool at once."""
    odd = ToolSpec("odd", "", {"type": "object", "properties": {"a": {"type": 5}}})
    done = sample(runtime, (odd,))

    assert done.failure is not None
    assert "@ $.properties.a" in done.failure.message
    assert sample(runtime, (odd,), constrain=False, max_tokens=2).failure is None
