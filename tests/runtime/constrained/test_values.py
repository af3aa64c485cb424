"""Values of a schema in each notation: what the grammar lets through is valid, and what is usual is let through."""

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from jsonschema import Draft202012Validator

from benchmarks.random_schemas import random_parameters
from runtime.constrained._grammar_rules import Rules
from runtime.constrained._values import JSON, PYTHONIC, Notation, ValueWriter, bare
from runtime.constrained.schema import read_schema

pytest.importorskip("llguidance")
from tests.runtime.constrained.byte_sampling import accepts, sampled

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}, "ok": {"type": "boolean"}},
    "required": ["age"],
}
TREE = {
    "$ref": "#/$defs/Tree",
    "$defs": {"Tree": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Tree"}, "v": {"enum": [1, None]}}}},
}


def grammar(schema: Any, notation: Notation = JSON) -> str:
    rules, tree = Rules({}), read_schema(schema)
    return rules.text(ValueWriter(rules, tree, notation).value(tree.root))


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_whatever_is_sampled_is_valid(seed: int) -> None:
    """Random schemas of all features, random values of each; ``jsonschema`` is the judge, formats included."""
    random = Random(seed)
    schema = random_parameters(random)
    text = sampled(grammar(schema), random, limit=400)
    if text is not None:
        Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER).validate(json.loads(text))


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "string"}, ['""', '"a \\"b\\" \\n naïve"'], ['"a', '"\n"', "1", "'a'"]),
        ({"type": "string", "pattern": "b"}, ['"abc"', '"b"'], ['"ac"']),
        ({"type": "string", "pattern": '^["\\\\]$'}, ['"\\""', '"\\\\"'], ['"a"']),
        ({"type": "string", "minLength": 2, "maxLength": 3}, ['"ab"', '"äöü"'], ['"a"', '"abcd"']),
        ({"type": "string", "format": "date"}, ['"2026-02-28"'], ['"2026-02-30"', '"today"']),
        ({"type": "integer"}, ["0", "-17", "9" * 40], ["01", "1.5", "+1"]),
        ({"type": "integer", "minimum": -5, "exclusiveMaximum": 20}, ["-5", "19"], ["-6", "20"]),
        ({"type": "integer", "multipleOf": 5, "minimum": 3}, ["5", "100"], ["0", "7"]),
        ({"type": "number"}, ["0.5", "-1e-7", "12"], [".5", "1.", "1e999", "NaN"]),
        ({"type": "number", "exclusiveMinimum": 0, "maximum": 1}, ["0.5", "1", "0.000001"], ["0", "1.01", "-0.5"]),
        ({"type": ["boolean", "null"]}, ["true", "null"], ["True", "0"]),
        ({"enum": ["a", 1, [None]]}, ['"a"', "1", "[null]"], ['"b"', "2"]),
        (
            {"type": "array", "items": {"type": "integer"}, "maxItems": 2},
            ["[]", "[1]", "[1, 2]", "[1,2]"],
            ["[1,2,3]", "[1,]"],
        ),
        ({"type": "array", "items": {"type": "null"}, "minItems": 2}, ["[null,null]"], ["[null]", "[]"]),
        ({"type": "array", "maxItems": 0}, ["[]"], ["[1]"]),
        (
            {"prefixItems": [{"type": "integer"}, {"type": "null"}], "minItems": 1},
            ["[1]", '[1, null, "x"]'],
            ["[]", "[null]"],
        ),
        ({"prefixItems": [{"type": "integer"}], "items": False}, ["[]", "[1]"], ["[1, 2]"]),
        (
            PERSON,
            ['{"age": 3}', '{"name": "a", "age":3, "ok": true}', '{"ok": true, "age": 3, "name": ""}'],
            ["{}", '{"age": 3, "age": 3}', '{"age": 3, "x": 1}', '{"ok": true}'],
        ),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}, "properties": {"a": {"type": "null"}}},
            ["{}", '{"a": null, "b": 1, "c": 2}', '{"aa": 1}', '{"b": 1, "a": null, "c": 2}'],
            ['{"a": 1}', '{"b": null}', '{"b": 1, "a": 1}', '{"a": null, "a": null}'],
        ),
        ({"anyOf": [{"type": "null"}, PERSON]}, ["null", '{"age": 1}'], ["1"]),
        (TREE, ["{}", '{"next": {"next": {}, "v": 1}}'], ['{"next": 1}', '{"v": 2}']),
        ({}, ['{"a": [1, {"b": null}]}', '"x"', "[" * 9 + "1" + "]" * 9], ["[1}"]),
    ],
)
def test_features_by_example(schema: Any, good: list[str], bad: list[str]) -> None:
    """Each feature with values that are let through, which are valid, and with values that are not."""
    written, judge = grammar(schema), Draft202012Validator(schema)

    assert [text for text in good if accepts(written, text)] == good
    assert [text for text in good if judge.is_valid(json.loads(text))] == good
    assert [text for text in bad if accepts(written, text)] == []


@pytest.mark.parametrize(
    ("schema", "notation", "good", "bad"),
    [
        ({"type": "string"}, PYTHONIC, ["''", "'it\\'s'", "'a\\nb'"], ['"a"', "'it's'"]),
        ({"type": "string", "pattern": "^[a-z]+$"}, PYTHONIC, ["'abc'"], ["'A'"]),
        ({"enum": ["it's", True, None]}, PYTHONIC, ["'it\\'s'", "True", "None"], ["true", "null"]),
        (PERSON, PYTHONIC, ["{'age': 1, 'ok': True}"], ["{age: 1}"]),
        (PERSON, bare("<q>"), ["{name:<q>it's<q>,age:3}"], ['{"age": 1}', "{name:<q>a<q>b<q>,age:3}"]),
        ({"properties": {"a b": {"type": "null"}}}, bare("<q>"), ["{<q>a b<q>:null}", "{}"], ["{a b:null}"]),
        ({"type": "string", "maxLength": 2}, bare("<q>"), ["<q>ab<q>"], ["<q>abc<q>"]),
        ({"type": "object", "additionalProperties": True}, PYTHONIC, ["{'k': [1, {'a': None}]}"], ["{k: 1}"]),
    ],
)
def test_other_notations(schema: Any, notation: Notation, good: list[str], bad: list[str]) -> None:
    """Strings, constants and keys as the format has them."""
    written = grammar(schema, notation)

    assert [text for text in good if accepts(written, text)] == good
    assert [text for text in bad if accepts(written, text)] == []
