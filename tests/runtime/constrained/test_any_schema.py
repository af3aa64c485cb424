"""Whatever schema a tool comes with, it is refused at once in plain words, or has a grammar that lets values through.

What the grammar lets through is valid wherever nothing is said to be left to the check after the call.
"""

import json
import re
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from jsonschema import Draft7Validator, Draft202012Validator

from benchmarks.random_schemas import random_foreign
from cognition import ToolSpec
from cognition.parsing import FORMATS, parse_reply
from runtime.constrained._grammar_rules import Rules
from runtime.constrained._values import ValueWriter
from runtime.constrained.replies import TokenFacts, reply_grammar, weakened_tools
from runtime.constrained.schema import SchemaError, read_loosely, read_schema
from runtime.constrained.tools import read_tools

pytest.importorskip("llguidance")
from tests.runtime.constrained.byte_sampling import compiled, sampled

NO_TOKENS = TokenFacts({})


def valid(schema: Any, value: Any) -> bool:
    """By the draft that a schema names; one that leads in a circle lets nothing through that anybody could name."""
    judge = Draft7Validator if "draft-07" in str(schema.get("$schema")) else Draft202012Validator
    try:
        return bool(judge(schema).is_valid(value))
    except RecursionError:
        return False
    except re.error:  # a pattern as ECMA 262 has it, which this judge can't read (``[^]``)
        return True


@pytest.mark.behaviour("S13a")
@settings(max_examples=120)
@given(st.integers(0, 2**32))
def test_any_schema_has_a_grammar_or_is_refused(seed: int) -> None:
    """It compiles, something may come first, and what is sampled is valid, if the whole schema is held to."""
    random = Random(seed)
    schema = random_foreign(random)
    try:
        tree = read_loosely(schema)
    except SchemaError:
        return
    rules = Rules({})
    text = rules.text(ValueWriter(rules, tree).value(tree.root))
    matcher = compiled(text)
    assert any(matcher.compute_bitmask())
    assert not matcher.is_error()
    made = sampled(text, random, limit=400)
    if made is not None and not tree.weakened:
        assert valid(schema, json.loads(made)), made


@pytest.mark.behaviour("S13a")
@pytest.mark.parametrize("name", ["hermes", "mistral", "qwen3_coder", "glm", "kimi_k3", "minimax_m3", "lfm2", "gemma4"])
def test_any_schema_has_a_grammar_in_any_notation(name: str) -> None:
    """Of each kind of notation: what is sampled is read as one call, and fits, if the whole schema is held to."""
    spec = FORMATS[name]
    for seed in range(12):
        random = Random(f"{name} {seed}")
        tool = ToolSpec("record", "", random_foreign(random))
        try:
            tools = read_tools([tool])
        except SchemaError:
            continue

        text = reply_grammar(spec, tools, NO_TOKENS, calls="must", parallel=False)
        assert any(compiled(text).compute_bitmask())
        made = sampled(text, random, limit=500)
        if made is not None and not weakened_tools([tool], spec):
            (call,) = parse_reply(spec, made, tools=[tool]).tool_calls
            assert valid(tool.parameters, json.loads(call.arguments_json)), made


@pytest.mark.behaviour("S13a")
@pytest.mark.parametrize(
    ("schema", "place", "told"),
    [
        ({"pattern": "^a{3}$", "minLength": 5}, "$.properties.v", "no text of these lengths fits"),
        ({"pattern": "^a{3}$", "maxLength": 2}, "$.properties.v", "no text of these lengths fits"),
        ({"minLength": 3, "maxLength": 2}, "$.properties.v", "3 is above 'maxLength', 2"),
        ({"items": {"pattern": "^$", "minLength": 1}, "minItems": 1}, "$.properties.v.items", "no text of these"),
        ({"type": "integer", "minimum": 1.2, "maximum": 1.8}, "$.properties.v", "no whole number"),
        ({"allOf": [{"pattern": "^a"}, {"pattern": "^b"}]}, "$.properties.v", "no text fits"),
        ({"enum": []}, "$.properties.v", "lists no value"),
    ],
)
def test_what_no_value_fits_is_told_with_its_place(schema: Any, place: str, told: str) -> None:
    """Once the tool is read and not in the library's words at a call; a call without that member can be made."""
    parameters = {"type": "object", "properties": {"v": schema, "w": {"type": "null"}}, "required": ["w"]}
    tree = read_loosely(parameters)

    assert any(one.path == place and told in one.reason for one in tree.weakened), tree.weakened
    assert not any("Regex" in one.reason for one in tree.weakened)
    with pytest.raises(SchemaError, match=told.replace("'", ".")):
        read_schema(parameters)
    rules = Rules({})
    assert sampled(rules.text(ValueWriter(rules, tree).value(tree.root)), Random(1)) in ('{"w": null}', '{"w":null}')


@pytest.mark.behaviour("S13a")
@pytest.mark.parametrize(
    "pattern", ["\\d", "(a*)*", "^(.{1,64}@.{1,255})$", "(x+x+)+y", "^[a-z]{1,63}( [a-z]{1,63}){0,20}$"]
)
@pytest.mark.parametrize("sizes", [{"minLength": 50}, {"minLength": 50, "maxLength": 2000}, {"maxLength": 500}])
def test_what_the_engine_can_not_tell_is_not_taken_for_what_no_value_fits(pattern: str, sizes: Any) -> None:
    """The pattern is held to, or the sizes are, and the rest is left to the check."""
    tree = read_loosely({"type": "object", "properties": {"a": {"type": "string", "pattern": pattern, **sizes}}})

    assert not any("no text" in one.reason for one in tree.weakened)
    assert "pattern" not in {one.keyword for one in tree.weakened}


@pytest.mark.behaviour("S13e")
@pytest.mark.parametrize("bound", [{"maxProperties": 0}, {"minProperties": 2}])
def test_a_number_of_members_that_is_not_held_to_is_told_without_a_type_too(bound: dict[str, int]) -> None:
    """It means an object, as other keywords of one do."""
    tree = read_loosely({"type": "object", "properties": {"a": bound}})

    assert [one.keyword for one in tree.weakened] == list(bound)


@pytest.mark.behaviour("S13a")
def test_a_schema_that_no_arguments_fit_is_told_and_not_held_to() -> None:
    """It is a JSON Schema: its tool is offered, and the check refuses each call."""
    tree = read_loosely({"type": "object", "properties": {"a": False}, "required": ["a"]})

    assert "every call will be refused" in tree.weakened[-1].reason


def test_schemas_that_need_themselves_for_ever_have_no_value() -> None:
    """A tree whose every node must have a child: where it may be left out, it is."""
    node = {"type": "object", "properties": {"child": {"$ref": "#/$defs/Node"}}, "required": ["child"]}
    schema = {"type": "object", "properties": {"tree": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": node}}
    rules, tree = Rules({}), read_schema(schema)

    assert sampled(rules.text(ValueWriter(rules, tree).value(tree.root)), Random(1)) == "{}"


MANY = range(30_000)


def chain(link: Any, length: int) -> Any:
    """A schema that refers to a second one, that to a third, and so on."""
    links = {f"d{number}": link({"$ref": f"#/$defs/d{number + 1}"}) for number in range(length)}
    return {"$ref": "#/$defs/d0", "$defs": {**links, f"d{length}": {}}}


@pytest.mark.behaviour("S13b")
@pytest.mark.parametrize(
    "make",
    [
        lambda: {"allOf": [{"anyOf": [{"minLength": number}, {"maxLength": number}]} for number in range(30)]},
        lambda: {"properties": {f"p{number}": {"type": "string"} for number in MANY}},
        lambda: {"enum": [f"value {number}" for number in MANY]},
        lambda: chain(lambda reference: {"items": reference}, 3000),
        lambda: chain(lambda reference: {"allOf": [reference, reference]}, 40),
        lambda: chain(lambda reference: {"anyOf": [reference, reference]}, 40),
        lambda: {"type": "string", "pattern": "(" * 500 + "a" + ")" * 500},
        lambda: {"type": "string", "pattern": "((a{1,200}){1,200}){1,200}"},
        lambda: {"type": "array", "items": {"type": "null"}, "minItems": 1_000_000},
        lambda: {"type": "integer", "multipleOf": 10**12},
    ],
)
def test_large_schemas_take_no_longer_than_they_are_worth(make: Any) -> None:
    """Those whose parts multiply are given up; the test's own time limit is what would notice."""
    tree = read_loosely({"type": "object", "properties": {"a": make()}, "required": ["a"], **make()})
    rules = Rules({})
    text = rules.text(ValueWriter(rules, tree).value(tree.root))

    assert text
    assert all(len(one.reason) < 400 for one in tree.weakened)


@pytest.mark.behaviour("S13b")
@pytest.mark.parametrize(
    "schema",
    [{"const": float("nan")}, {"const": "\ud800"}, {"const": {1, 2}}, {"title": "x" * 2_000_000}, {"enum": [1e400]}],
)
def test_what_is_no_json_is_refused(schema: Any) -> None:
    """In plain words, whatever Python values it is made of."""
    with pytest.raises(SchemaError, match="the schema is"):
        read_loosely({"type": "object", "properties": {"a": schema}})
