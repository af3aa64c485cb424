"""Law R9: no valid value of a schema is excluded in silence, whatever the order of its members."""

import json
from itertools import permutations
from typing import Any

import pytest

pytest.importorskip("llguidance")
from runtime.constrained._grammar_rules import Rules
from runtime.constrained._values import ValueWriter
from runtime.constrained.schema import read_schema
from tests.runtime.constrained.byte_sampling import accepts
from tests.runtime.constrained.valid_values import try_schemas


def grammar(schema: Any) -> str:
    rules, tree = Rules({}), read_schema(schema)
    return rules.text(ValueWriter(rules, tree).value(tree.root))


@pytest.mark.filterwarnings("ignore")
def test_values_of_another_generator_can_be_written() -> None:
    """``python -m tests.runtime.constrained.valid_values`` tries many more."""
    counts = try_schemas(200, seed=0)

    assert counts["excluded in silence"] == 0
    assert counts["excluded, reported as weakened"] <= counts["pairs"] / 20


def test_members_come_in_any_order() -> None:
    """Required ones and others, between others that the schema does not name."""
    properties = {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}}
    closed = grammar({"type": "object", "properties": properties, "required": ["a"]})
    opened = grammar({"type": "object", "properties": properties, "required": ["a"], "additionalProperties": True})
    for count in range(4):
        for names in permutations("abc", count):
            members = [f'"{name}": {properties[name]["const"]}' for name in names]
            between = ['"x": 0', *members[:1], '"y": []', *members[1:], '"z": {}']
            text, beside = (f"{{{', '.join(one)}}}" for one in (members, between))

            assert accepts(closed, text) == ("a" in names)
            assert accepts(opened, text) == accepts(opened, beside) == ("a" in names)
            assert not accepts(closed, beside)


@pytest.mark.parametrize(
    "value",
    [
        1234567890123456789,
        10**40,
        -74.0046539,
        1e-7,
        1.7976931348623157e308,
        "\x00\x1f\x7f\ud7ff\U0001f600\u2028",
        [[[[[[[[[1]]]]]]]]],
        {"a b": {"": {"\n": {"\x01": {"\\": {'"': {"ß": {"/": {}}}}}}}}},
    ],
)
def test_any_value_can_be_written_where_a_schema_does_not_say(value: Any) -> None:
    """Of any size and depth, with any character."""
    assert accepts(grammar({}), json.dumps(value, ensure_ascii=False))
    assert isinstance(value, dict) or accepts(grammar({}), json.dumps(value))  # a key has one spelling


@pytest.mark.parametrize("value", ["text", 7, 0.5, None, True, [1], {"b": 1}])
@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"minLength": 5}, {str}),
        ({"maximum": 0}, {int, float}),
        ({"maxItems": 0}, {list}),
        ({"required": ["a"]}, {dict}),
    ],
)
def test_a_keyword_restricts_one_type(schema: Any, kind: set[type], value: Any) -> None:
    """Where the schema names none, values of other types are allowed."""
    assert accepts(grammar(schema), json.dumps(value)) == (type(value) not in kind)


def test_a_grammar_of_many_large_objects_stays_small() -> None:
    """The last of them have their members in the schema's order."""
    thing = {"type": "object", "properties": {f"p{number}": {"const": number} for number in range(8)}}
    large = grammar(
        {"type": "object", "properties": {f"t{number}": {**thing, "title": str(number)} for number in range(8)}}
    )
    several = {
        f"t{n}": {**thing, "properties": {**thing["properties"], f"x{n}": {"const": n}, "p7": False}} for n in range(8)
    }
    many = grammar({"type": "object", "properties": several})

    assert len(large) < 40_000  # equal objects share their rules
    assert len(many) < 200_000
    assert accepts(many, '{"t7": {"p0": 0, "p1": 1}}')
