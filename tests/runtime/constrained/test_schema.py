"""Which schemas calls can be held to, and what is said of the others."""

from typing import Any

import pytest

from runtime.constrained.nodes import Anything, Choice, Either, Items, Member, Members, Number, Reference, Text
from runtime.constrained.schema import SchemaError, read_schema


@pytest.mark.parametrize(
    ("schema", "node"),
    [
        (True, Anything()),
        ({"description": "whatever"}, Anything()),
        ({"type": "null"}, Choice(("null",))),
        ({"enum": ["a", 1, True]}, Choice(('"a"', "1", "true"))),
        ({"type": "string", "enum": ["a", 1]}, Choice(('"a"',))),
        ({"const": 1, "enum": [1.0, 2]}, Choice(("1.0",))),
        ({"type": "string", "minLength": 2}, Text(None, 2, None)),
        (
            {"minLength": 2},
            Either(
                (
                    Text(None, 2, None),
                    Number(whole=False),
                    Items(rest=Anything()),
                    Members(rest=Anything()),
                    Choice(("true", "false")),
                    Choice(("null",)),
                )
            ),
        ),
        ({"type": ["string", "null"], "maxLength": 3}, Either((Text(None, 0, 3), Choice(("null",))))),
        ({"type": ["integer", "number"]}, Number(whole=False)),
        ({"type": "integer", "minimum": 1, "exclusiveMinimum": 1}, Number(True, "1", None, above=True)),
        ({"type": "number", "multipleOf": 2.0}, Number(True, step=2)),
        ({"type": "array", "prefixItems": [True], "items": False}, Items((Anything(),))),
        ({"type": "array", "prefixItems": [True], "maxItems": 1}, Items((Anything(),), None, 0, 1)),
        ({"type": "object"}, Members((), Anything())),
        ({"type": "object", "properties": {"a": True}}, Members((Member("a", Anything(), False),))),
        (
            {"type": "object", "additionalProperties": {"type": "null"}, "required": ["a"]},
            Members((Member("a", Choice(("null",)), True),), Choice(("null",))),
        ),
        ({"allOf": [{"type": "null"}]}, Choice(("null",))),
        ({"anyOf": [{"type": "null"}]}, Choice(("null",))),
        ({"oneOf": [{"type": "null"}, {"type": "string"}]}, Either((Choice(("null",)), Text()))),
        ({"type": "object", "patternProperties": {}}, Members((), Anything())),
        ({"type": "string", "format": "colour"}, Text()),
        ({"type": "array", "items": [{}]}, Items((Anything(),), Anything(), 0, None)),
        ({"type": "string", "x-hint": 1, "nullable": True, "example": "a", "$anchor": "a"}, Text()),
    ],
)
def test_what_a_schema_means(schema: Any, node: Any) -> None:
    """It means what JSON Schema has it mean; an object with properties is closed."""
    assert node == read_schema(schema).root


def test_a_bound_that_is_null_says_as_little_as_none() -> None:
    """Libraries that print all of their fields write such."""
    bare = {"type": "array", "items": {"type": "null"}}

    assert read_schema({**bare, "minItems": None, "maxItems": None}) == read_schema(bare)


def test_references_are_kept_and_may_lead_back() -> None:
    """A tree of any depth is one definition."""
    tree = {"type": "object", "properties": {"next": {"$ref": "#/$defs/a~1b"}}}
    schema = read_schema({"$ref": "#/$defs/a~1b", "$defs": {"a/b": tree}})

    assert schema.root == Reference("#/$defs/a~1b")
    assert schema.resolve(schema.root) == Members((Member("next", schema.root, False),))


@pytest.mark.parametrize(
    ("schema", "path", "told"),
    [
        ({"not": {}}, "$", "'not' is not supported"),
        ({"properties": {"a": {"items": {"uniqueItems": True}}}}, "$.properties.a.items", "uniqueItems"),
        ({"oneOf": [{"type": "string"}, {"minLength": 1}]}, "$", "use anyOf"),
        ({"anyOf": [], "type": "string"}, "$", "list of schemas"),
        ({"anyOf": []}, "$", "list of schemas"),
        ({"$ref": "https://example.org/x"}, "$", "a place in the schema"),
        ({"$ref": "#/$defs/a"}, "$", "leads nowhere"),
        ({"$ref": "#"}, "$", "circle"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, None, "circle"),
        ({"enum": []}, "$", "lists no value"),
        ({"type": "string", "enum": [1]}, "$", "no value is left"),
        ({"enum": ["a"], "minLength": 3}, "$", "no value is left"),
        ({"type": "text"}, "$", "'type' has to be one of"),
        ({"type": "string", "pattern": "(?=a)"}, "$", "pattern"),
        ({"type": "string", "format": "date", "pattern": "a"}, "$", "don't go together"),
        ({"minLength": -1}, "$", "from 0 on"),
        ({"minItems": 3, "maxItems": 2}, "$", "above"),
        ({"prefixItems": [{}], "items": False, "minItems": 2}, "$", "no more than 1"),
        ({"type": "integer", "minimum": 1.2, "maximum": 1.8}, "$", "no whole number"),
        ({"type": "number", "minimum": 2, "maximum": 1}, "$", "no number"),
        ({"type": "number", "minimum": "2"}, "$", "has to be a number"),
        ({"type": "number", "multipleOf": 0.1}, "$", "whole number"),
        ({"properties": []}, "$", "have to be objects"),
        (False, "$", "no value"),
        ("x", "$", "a schema is an object"),
    ],
)
def test_what_can_not_be_held_to_is_refused(schema: Any, path: str | None, told: str) -> None:
    """Each with its place, and with what to do where there is something."""
    with pytest.raises(SchemaError, match="tool 'x'") as caught:
        read_schema(schema, "the parameters of tool 'x'")
    assert any((path is None or place == path) and told in problem for place, problem in caught.value.problems)


def test_all_problems_are_told_at_once() -> None:
    """A schema is put right in one go."""
    with pytest.raises(SchemaError) as caught:
        read_schema({"properties": {"a": {"not": {}}, "b": {"type": "strin"}}})
    assert [path for path, _ in caught.value.problems] == ["$.properties.a", "$.properties.b"]


@pytest.mark.parametrize(
    ("a", "b", "apart"),
    [
        ({"const": 1}, {"const": 1.0}, False),
        ({"const": 1}, {"const": True}, True),
        ({"type": "integer"}, {"type": "number"}, False),
        ({"anyOf": [{"type": "null"}, {"type": "string"}]}, {"type": "integer"}, True),
        ({"anyOf": [{"type": "null"}, {"type": "string"}]}, {"type": ["integer", "null"]}, False),
        (
            {"type": "object", "properties": {"kind": {"const": "a"}}, "required": ["kind"]},
            {"type": "object", "properties": {"kind": {"const": "b"}}, "required": ["kind"]},
            True,
        ),
        (
            {"properties": {"kind": {"const": "a"}}, "required": ["kind"]},
            {"properties": {"kind": {"const": "b"}}, "required": ["kind"]},
            False,
        ),
        ({"properties": {"kind": {"const": "a"}}}, {"properties": {"kind": {"const": "b"}}}, False),
    ],
)
def test_one_of_wants_options_that_can_not_hold_together(a: Any, b: Any, apart: bool) -> None:
    """By their types, or by a member that both must have."""
    try:
        read_schema({"oneOf": [a, b]})
    except SchemaError:
        assert not apart
    else:
        assert apart


def test_a_schema_nested_without_measure_is_refused() -> None:
    """It is the program's fault, and no crash."""
    schema: Any = {}
    for _ in range(5000):
        schema = {"items": schema}
    with pytest.raises(SchemaError, match="nested too deeply"):
        read_schema(schema)
