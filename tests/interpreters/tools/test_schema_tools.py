"""Tools that others have described: made of a JSON Schema, checked in full, and told where calls are not held to it."""

import asyncio
import importlib.util
import json
import re
from typing import Any

import attrs
import pytest
from hypothesis import given, settings, strategies as st

from cognition import ConfigError, History, ToolMessage
from interpreters import Agent, AsyncAgent, Tool, ToolContext, ToolError, events, fakes, tool
from interpreters.cli.screen.output import event_line
from interpreters.testing.fakes import ScriptedModel, ScriptedTool, call
from interpreters.tools._ecma import Pattern, UnreadablePatternError
from interpreters.tools.schema_check import LONGEST_PROBLEM, MOST_PROBLEMS, FullCheck
from tests.interpreters.ways import Way, every_way

TAGS = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {
        "tags": {"type": "array", "items": {"type": "string", "nullable": True}, "uniqueItems": True, "x-order": 1},
        "rate": {"type": "number", "multipleOf": 0.01},
        "when": {"type": "string", "format": "date"},
    },
    "required": ["tags"],
    "additionalProperties": False,
}


def made(function: Any, parameters: Any = TAGS, **options: Any) -> Tool[..., Any]:
    return Tool.from_schema(name="tag", description="Tag it.", parameters=parameters, function=function, **options)


def results(history: History) -> list[str]:
    return [message.content for message in history if isinstance(message, ToolMessage)]


@pytest.mark.behaviour("S13d")
@every_way
def test_the_function_is_given_what_fits_and_nothing_else(talk: Way) -> None:
    """As one dictionary; what does not fit is told with its place, and the function is not called."""
    given: list[dict[str, Any]] = []
    tagger = made(lambda arguments: given.append(arguments) or "tagged")
    wrong = [call("tag", tags=["a", "a"]), call("tag", tags=[5], rate=0.071, other=1), call("tag", when="soon")]
    agent = talk(ScriptedModel([*wrong, call("tag", tags=["a", "b"], rate=0.07), "Done."]), "Go!", tools=[tagger])

    assert given == [{"tags": ["a", "b"], "rate": 0.07}]
    said = results(agent.state.history)
    assert said[0] == "Error: wrong arguments for tag: tags: ['a', 'a'] has non-unique elements"
    assert "tags[0]: 5 is not of type 'string'" in said[1]
    assert "rate: 0.071 is not a multiple of 0.01" in said[1]
    assert "other is unknown; there are tags, rate, when" in said[1]
    assert "tags is missing" in said[2]
    assert "when: 'soon' is not a 'date'" in said[2]
    assert said[3] == "tagged"


@pytest.mark.behaviour("S13d")
def test_a_function_may_be_async_and_may_ask_for_the_context() -> None:
    async def tagging(arguments: dict[str, Any], context: ToolContext[str]) -> str:
        return f"{context.deps} tagged {arguments['tags']}"

    async def main() -> list[str]:
        tagger = made(tagging, read_only=True, timeout=5)
        assert (tagger.is_async, tagger.spec.read_only, tagger.timeout) == (True, True, 5)
        async with AsyncAgent(ScriptedModel([call("tag", tags=["a"]), "Done."]), [tagger], deps="Ada") as agent:
            await agent.run("Go!")
            return results(agent.state.history)

    assert asyncio.run(main()) == ["Ada tagged ['a']"]


@pytest.mark.behaviour("S13e")
@every_way
def test_what_calls_are_not_held_to_is_told_once(talk: Way) -> None:
    """By an event before the first turn, by the agent's description, and in JSON."""
    told: list[events.Event] = []
    talk(ScriptedModel(["Hi.", "Hi."]), "One", "Two", tools=[made(print)], observers=[told.append])

    (event,) = [one for one in told if isinstance(one.value, events.ToolWeakened)]
    assert (event.value.tool, event.turn, told.index(event)) == ("tag", 0, 0)
    kept = [(one.path, one.keyword) for one in event.value.keywords]
    assert kept == [("$.properties.tags", "uniqueItems"), ("$.properties.rate", "multipleOf")]
    with Agent(ScriptedModel([]), [made(print)]) as agent:
        assert agent.describe().weakened == {"tag": event.value.keywords}
        assert agent.describe().tools == ("tag",)
    assert json.loads(event_line(event))["value"]["keywords"][0]["reason"] == "a grammar can't compare values"


def test_tools_of_signatures_are_held_to_wholly() -> None:
    """Nothing is told of them."""

    @tool
    def move(to: tuple[int, int], how: str | None = None) -> str:
        """Move."""
        return "moved"

    with Agent(ScriptedModel([]), [move]) as agent:
        assert agent.describe().weakened == {}


@pytest.mark.behaviour("S13d")
def test_a_schema_that_is_put_into_a_spec_is_checked_too() -> None:
    """The signature does not know of it."""

    @tool
    def tag(names: list[str]) -> str:
        """Tag something."""
        return "done"

    names = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
    tag.spec = attrs.evolve(tag.spec, parameters={"type": "object", "properties": {"names": names}})
    with Agent(ScriptedModel([call("tag", names=["a", "a"]), call("tag", names=["a"]), "Done."]), [tag]) as agent:
        agent.run("Go!")
        assert results(agent.state.history) == [
            "Error: wrong arguments for tag: names: ['a', 'a'] has non-unique elements",
            "done",
        ]
        assert list(agent.describe().weakened) == ["tag"]


def test_a_scripted_tool_checks_as_the_one_in_whose_place_it_stands() -> None:
    scripted = ScriptedTool(made(print), ["tagged"])
    with pytest.raises(ToolError, match="non-unique"):
        scripted.call({"tags": ["a", "a"]}, ToolContext(None))

    assert scripted.call({"tags": ["a"]}, ToolContext(None)) == "tagged"
    assert scripted.calls == [{"tags": ["a"]}]


@pytest.mark.behaviour("S13f")
@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"type": 5}, "are no JSON Schema: type"),
        ({"type": "object", "required": True}, "are no JSON Schema: required"),
        ({"type": "array"}, "the type has to be 'object'"),
        ({"properties": {"a": {"$ref": "https://example.org/a.json"}}}, "nothing is fetched: https://example.org"),
        ({"properties": {"a": {"$ref": "#/$defs/a"}}}, "leads nowhere"),
        ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "nothing is fetched"),
        ({"$ref": "#"}, "circle"),
        ({"$id": "http://[", "$ref": "#/x"}, "can't be checked"),
        ({"properties": {"a": {"pattern": "["}}}, "can't be read: it is no regular expression"),
        ({"patternProperties": {"(((a{99}){99}){99}){99}": {}}}, "repetitions within each other"),
        ({"properties": {"a": {"pattern": "a" * 3000}}}, "3000 characters"),
        ({"properties": {"a": {"const": float("inf")}}}, "have to be JSON"),
        ({"properties": {"a": {"const": "\udc00"}}}, "no JSON"),
    ],
)
def test_what_can_not_be_checked_is_refused_when_the_tool_is_made(parameters: Any, told: str) -> None:
    """Each tool for itself, so that nobody else's tool is lost with it."""
    with pytest.raises(ConfigError, match=re.escape(told)):
        made(print, parameters)


@pytest.mark.behaviour("S13f")
def test_a_schema_of_any_depth_is_read_or_refused() -> None:
    """And what is read is checked without an error of Python's own."""
    for depth in (5, 20, 45, 60, 500, 5000):
        schema: Any = {"type": "integer"}
        value: Any = 1
        for _ in range(depth):
            schema, value = {"type": "object", "properties": {"a": schema}}, {"a": value}
        if depth <= 45:
            assert made(lambda arguments: "fine", schema).call(value, ToolContext(None)) == "fine"
        else:
            with pytest.raises(ConfigError, match=r"nested too deeply|have to be JSON: maximum recursion"):
                made(print, schema)


@pytest.mark.behaviour("S13f")
@pytest.mark.parametrize("missing", ["jsonschema", "regex"])
def test_without_the_extra_such_a_tool_can_not_be_made(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails closed, and says what to install."""
    found = importlib.util.find_spec
    monkeypatch.setattr(
        "interpreters.tools.schema_check.find_spec", lambda name: None if name == missing else found(name)
    )
    with pytest.raises(ConfigError, match=rf"{missing}.*\[schemas\]"):
        made(print)


@pytest.mark.behaviour("S13g")
def test_problems_are_few_and_short() -> None:
    """A model is told what it can use, however wrong its arguments are."""
    check = FullCheck({"items": {"type": "integer", "enum": [1]}, "maxItems": 5}, "the values")
    found = check.problems(["x" * 100_000] * 50)

    assert len(found) == MOST_PROBLEMS + 1
    assert found[-1] == "and more"
    assert all(len(problem) <= LONGEST_PROBLEM for problem in found)


@pytest.mark.behaviour("S13g")
@pytest.mark.parametrize(
    ("schema", "value", "told"),
    [
        ({"pattern": "^(a|aa)+$"}, "a" * 60 + "b", "takes too long"),
        ({"patternProperties": {"^(a|aa)+$": False}}, {"a" * 60 + "b": 1}, "takes too long"),
        ({"patternProperties": {"^(a|aa)+$": {}}, "additionalProperties": False}, {"a" * 60 + "b": 1}, "too long"),
        ({"patternProperties": {"^(a|aa)+$": {}}, "unevaluatedProperties": False}, {"a" * 60 + "b": 1}, "too long"),
        ({"allOf": [{"anyOf": [{"$ref": "#/$defs/d0"}]}], "$defs": {
            **{f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(30)}, "d30": False}},
         1, "too many alternatives"),
        (
            {"$ref": "#/$defs/a", "$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}},
            json.loads("[" * 400 + "]" * 400),
            "deep",
        ),
        ({"anyOf": [{"$ref": "#"}, {"type": "null"}]}, 1, "refers to itself without end"),
    ],
)  # fmt: skip
def test_a_check_takes_no_longer_than_it_may(schema: Any, value: Any, told: str) -> None:
    """What can't be told in time does not fit: nothing fails open."""
    (problem,) = FullCheck(schema, "the value").problems(value)

    assert told in problem


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"items": [{"type": "integer"}], "additionalItems": False}, [1], [1, 2]),
        ({"minimum": 0, "exclusiveMinimum": True}, 1, 0),
        ({"definitions": {"a": {"type": "null"}}, "$ref": "#/definitions/a"}, None, 1),
        ({"pattern": "^\\d+$"}, "12", "12\n"),
        ({"pattern": "^\\w+$"}, "ab", "é"),
        ({"pattern": "^\\p{L}+$"}, "é", "1"),
        ({"pattern": "^(?!no)\\w+$"}, "yes", "nope"),
        ({"pattern": "^(?<year>\\d{4})\\/\\k<year>$"}, "2026/2026", "2026/2027"),
        ({"pattern": "^[^]$"}, "\n", ""),
        ({"pattern": "^\\u{1F600}\\cJ$"}, "\U0001f600\n", "x"),
        ({"multipleOf": 0.01}, 0.07, 0.071),
        ({"multipleOf": 7}, 10**30 - 10**30 % 7, 10**30),
        ({"unevaluatedProperties": False, "allOf": [{"properties": {"a": {}}}], "patternProperties": {"^x": {}}},
         {"a": 1, "xy": 2}, {"b": 1}),
        ({"if": {"required": ["a"]}, "then": {"properties": {"b": {}}}, "unevaluatedProperties": False}, {}, {"b": 1}),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1, "b": 1}, {"a": 1}),
        ({"contains": {"const": 1}}, [2, 1], [2]),
        ({"propertyNames": {"pattern": "^[A-Z]+$"}}, {"A": 1}, {"a": 1}),
        ({"format": "date-time"}, "2026-02-28T10:00:00Z", "2026-02-30T10:00:00Z"),
        ({"format": "uuid"}, "12345678-1234-1234-1234-123456789abc", "12345678"),
        ({"format": "int32"}, 2**40, None),
        ({"nullable": True, "type": "string"}, "a", None),
    ],
)  # fmt: skip
def test_what_fits_a_schema(schema: Any, good: Any, bad: Any) -> None:
    """Keywords of every draft, patterns as ECMA 262 has them, annotations read over."""
    check = FullCheck(schema, "the value")

    assert check.problems(good) == []
    assert (bad is None and "nullable" not in schema) or check.problems(bad) != []


@settings(max_examples=150)
@given(st.text(alphabet="ab()[]{}|*+?\\^$.-,0129dwskupPcJ<>:=!", max_size=12), st.text("ab\n0", max_size=8))
def test_any_pattern_is_matched_or_refused(pattern: str, text: str) -> None:
    """Whatever it is made of."""
    try:
        found = Pattern(pattern).matches(text, 1.0)
    except (UnreadablePatternError, TimeoutError):
        return
    assert found in (True, False)


def test_a_text_that_is_too_long_to_be_matched_in_time_does_not_fit() -> None:
    """Since a search through one goes on long behind its time limit; shorter ones, and sizes alone, are no matter."""
    check = FullCheck({"anyOf": [{"pattern": "^a+$"}, {"maxLength": 5}]}, "the value")

    assert check.problems("a" * 1000) == []
    assert check.problems("a" * 3_000_000) != []
    assert FullCheck({"minLength": 5}, "the value").problems("a" * 3_000_000) == []


def test_a_fake_model_tells_a_format_too() -> None:
    """So that what is weakened is known in tests as well."""
    assert fakes.ScriptedModel([]).describe().format is not None
