"""Schemas that are valid at a glance: never one that its draft refuses, and most of those that tools have."""

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from jsonschema import Draft202012Validator

from interpreters.tools import schema_check as full_check
from interpreters.tools.schema_check import DEEPEST, MOST_PARTS, SAYING, FullCheck, is_plain
from interpreters.tools.tool_lists import read_tools
from runtime.constrained.schema import SchemaError
from tests.interpreters.tools.test_odd_schemas import KEYWORDS, VALUES

USUAL: dict[str, Any] = {
    "type": "object",
    "required": ["path", "mode"],
    "additionalProperties": False,
    "properties": {
        "path": {"type": "string", "description": "of the file", "minLength": 1},
        "mode": {"type": "string", "enum": ["read", "write"], "default": "read"},
        "lines": {"type": "array", "items": {"type": "integer", "minimum": 1}, "maxItems": 2, "uniqueItems": True},
        "limit": {"anyOf": [{"type": "number", "maximum": 1.5}, {"type": "null"}], "title": "Limit"},
        "unit": {"const": "char"},
    },
}

values = st.sampled_from(VALUES) | st.sampled_from([*SAYING, "integer", "null"])
schemas = st.recursive(
    st.dictionaries(st.sampled_from(list(SAYING)), values, max_size=3) | st.booleans(),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": values,
            "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            "items": inner,
            "additionalProperties": inner | values,
            "anyOf": st.lists(inner, max_size=2),
            "required": st.lists(st.sampled_from(["a", "b", 3]), max_size=3),
        },
    ),
    max_leaves=5,
)


@settings(max_examples=500)
@given(schemas | st.dictionaries(st.sampled_from(KEYWORDS), values, max_size=3))
def test_what_is_plain_is_valid(schema: Any) -> None:
    if not is_plain(schema):
        return
    assert list(Draft202012Validator(Draft202012Validator.META_SCHEMA).iter_errors(schema)) == []


@given(schemas, st.sampled_from([{}, {"a": 1}, {"a": "x", "b": [1, 1]}, {"c": None}]))
def test_what_is_plain_is_checked_as_the_whole_check_does(schema: Any, value: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        try:
            plain = FullCheck(schema, "it").problems(value) if is_plain(schema) else None
        except SchemaError:  # no JSON, which both are told of
            return
        patch.setattr(full_check, "is_plain", lambda _: False)
        assert plain is None or plain == FullCheck(schema, "it").problems(value)


def test_a_list_of_usual_tools_is_read_without_the_schema_of_schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    """That took most of a minute for 20,000 tools."""
    monkeypatch.setattr(full_check, "_draft_of", None)
    listed = [{"type": "function", "function": {"name": f"t{n}", "parameters": USUAL}} for n in range(3)]

    read = read_tools(listed)

    assert [tool.name for tool in read.external] == ["t0", "t1", "t2"]
    assert read.problems == ()


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {str(n): {} for n in range(MOST_PARTS + 1)}},
        {"$ref": "#"},
        {"pattern": "a"},
        {"$schema": "http://json-schema.org/draft-04/schema#"},
        {"minimum": True},
        True,
    ],
)
def test_what_is_large_or_of_another_kind_is_left_to_the_whole_check(schema: Any) -> None:
    assert not is_plain(schema)
    assert is_plain(USUAL)


def test_what_is_deep_is_left_to_the_whole_check() -> None:
    schema: Any = {}
    for _ in range(DEEPEST - 1):
        schema = {"items": schema}

    assert is_plain(schema)
    assert not is_plain({"items": schema})
