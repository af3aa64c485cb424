"""Schemas as nobody should write them: every keyword with every wrong value, and ones that lead back to themselves."""

import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from jsonschema import Draft202012Validator

from cognition import ConfigError, ToolSpec
from cognition.parsing import FORMATS
from interpreters import Tool
from interpreters.tools.schema_check import FullCheck
from runtime.constrained.replies import TokenFacts, reply_grammar
from runtime.constrained.tools import read_tool, read_tools

NO_TOKENS = TokenFacts({})

KEYWORDS = """
$schema $id $anchor $ref $dynamicRef $dynamicAnchor $recursiveRef $comment $defs definitions id type enum
const properties required additionalProperties patternProperties propertyNames minProperties maxProperties
dependentRequired dependentSchemas dependencies unevaluatedProperties items prefixItems additionalItems
contains minContains maxContains uniqueItems minItems maxItems unevaluatedItems minLength maxLength pattern
format contentEncoding minimum maximum exclusiveMinimum exclusiveMaximum multipleOf divisibleBy anyOf oneOf
allOf not if then else title default extends
""".split()
DRAFTS = ("draft-03", "draft-04", "draft-06", "draft-07")
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 2, 2.0, 0.5, -0.0, 1e-300, 5e-324, 1e300, 2**31, 2**64, 2**70, -(2**70), 10**400,
    "", "object", "string", "any", "(", "[", "\\", "\\p{L}", "\\cA", "(?<n>a)\\k<n>", "a{99999999999}", "(a+)+$",
    "((a{1,200}){1,200}){1,200}", "(?i)a", "\ud83d", "\0", "#", "#/", "#/$defs", "#/%zz", "#/~", "#foo", "http://[",
    *(f"http://json-schema.org/{draft}/schema#" for draft in DRAFTS), "https://json-schema.org/draft/2019-09/schema",
    "date", [], [1], ["a"], ["a", "a"], [None], [[]], [{}], [True], ["string", 3], [{"const": 1}, {}],
    {}, {"a": 1}, {"a": {}}, {"a": False}, {"a": ["b"]}, {"(": {}}, {"\\p{L}": {}}, {"$ref": "#"}, {"$ref": 3},
    {"$ref": ["#"]}, {"$ref": "#/$defs/a"}, {"type": "object"}, {"$id": "http://a/b"}, {"$id": 3}, {"$anchor": 3},
)  # fmt: skip
odd = st.dictionaries(
    st.sampled_from(KEYWORDS),
    st.recursive(
        st.sampled_from(VALUES),
        lambda inner: (
            st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=3) | st.lists(inner, min_size=1, max_size=2)
        ),
        max_leaves=6,
    ),
    max_size=5,
)


@pytest.mark.behaviour("S13a")
@settings(max_examples=400)
@given(odd)
def test_a_tool_of_any_schema_is_made_or_refused_in_plain_words(schema: Any) -> None:
    """Nothing raw comes out of any keyword, whatever stands there; and what is made can be checked."""
    try:
        tool = Tool.from_schema(name="odd", parameters={"type": "object", **schema}, function=print)
    except ConfigError:
        return
    for one in read_tool(tool.spec).weakened:
        assert len(one.reason) < 400
    for value in ({}, {"a": 1}, {"a": [[{"b": None}]], "é": 10**400}):
        assert all(isinstance(problem, str) for problem in FullCheck(tool.spec.parameters, "it").problems(value))


@pytest.mark.behaviour("S13a")
@pytest.mark.parametrize("named", [3, True, 1.5, ["a"], {"a": 1}, "http://[", "//["])
def test_a_draft_that_is_no_address_stops_nothing(named: Any) -> None:
    """A text that names no draft is as if none were named; anything else is no schema."""
    schema = {"$schema": named, "type": "object"}
    if isinstance(named, str):
        Tool.from_schema(name="odd", parameters=schema, function=print)
    else:
        with pytest.raises(ConfigError, match=re.escape("no JSON Schema: $schema")):
            Tool.from_schema(name="odd", parameters=schema, function=print)


SELF = {"$ref": "#"}
LEADS_BACK: tuple[Any, ...] = (
    {"allOf": [SELF]}, {"oneOf": [SELF]}, {"not": SELF}, {"if": SELF, "then": SELF}, SELF, {"$dynamicRef": "#"},
    {"properties": {"a": SELF}}, {"items": SELF}, {"contains": SELF}, {"additionalProperties": SELF, "anyOf": [SELF]},
    {**SELF, "unevaluatedProperties": False}, {**SELF, "unevaluatedItems": False}, {"dependentSchemas": {"a": SELF}},
)  # fmt: skip


def nested(depth: int, around: Callable[[Any], Any]) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = around(value)
    return value


def called_from(depth: int, function: Callable[[], Any]) -> Any:
    return function() if depth == 0 else called_from(depth - 1, function)


@pytest.mark.behaviour("S13f")
@pytest.mark.parametrize("depth", [0, 1, 2, 3, 300, 600])
@pytest.mark.parametrize("schema", LEADS_BACK)
def test_a_check_ends_wherever_it_is_called_from(schema: Any, depth: int) -> None:
    """The stack never ends within native code, which would take the process with it."""
    schema = {"type": ["object", "array", "integer"], **schema}
    values = ({}, {"a": [1]}, [[1]], nested(300, lambda value: {"a": value}), nested(300, lambda value: [value]))
    try:
        check = called_from(depth, lambda: FullCheck(schema, "the value"))
    except ConfigError:
        return
    for value in values:
        assert isinstance(called_from(depth, lambda value=value: check.problems(value)), list)


@pytest.mark.behaviour("S13a")
def test_whole_numbers_may_be_written_as_decimals() -> None:
    """2.0 is a whole number to JSON Schema, in every keyword that counts."""
    for keyword in ("minProperties", "maxProperties", "minItems", "maxItems", "minLength", "maxLength"):
        read_tool(ToolSpec("odd", "", {"type": "object", "properties": {"a": {keyword: 2.0}}, keyword: 2.0}))


SIZES = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
LARGE = (2**31, 2**32, 2**63, 2**64, 2**70, 1e300)


@pytest.mark.behaviour("S13b")
@pytest.mark.parametrize("name", ["hermes", "qwen3_coder", "gemma4", "minimax_m3", "lfm2"])
def test_sizes_and_numbers_beyond_the_engine_are_left_to_the_check(name: str) -> None:
    """Each is told, and the grammar of the call is one that the engine takes, so that no turn ends for it."""
    pytest.importorskip("llguidance")
    from tests.runtime.constrained.byte_sampling import compiled

    large: list[Any] = [{keyword: size} for keyword in SIZES for size in LARGE]
    large += [{"multipleOf": step} for step in (10**400, 1e-300, 1e300)]
    large += [{"allOf": [{"multipleOf": 10**4000 + 1}, {"multipleOf": 10**4000 + 3}]}]
    large += [{"enum": list(range(20_000))}]
    for schema in large:
        tool = ToolSpec("odd", "", {"type": "object", "properties": {"a": schema}, "required": ["a"]})
        assert read_tool(tool).weakened, schema
        assert any(
            compiled(reply_grammar(FORMATS[name], read_tools([tool]), NO_TOKENS, calls="must")).compute_bitmask()
        )


@pytest.mark.parametrize("item", [lambda n: {"x": n}, lambda n: [n, {"x": [n]}], lambda n: n, lambda n: str(n)])
def test_a_long_list_is_looked_through_for_equal_ones_in_time(item: Callable[[int], Any]) -> None:
    """Comparing each with each would take minutes; what comes twice is found all the same."""
    check = FullCheck({"properties": {"l": {"uniqueItems": True}}}, "the parameters")
    items = [item(n) for n in range(20_000)]
    began = time.monotonic()

    assert check.problems({"l": items}) == []
    assert "non-unique" in check.problems({"l": [*items, item(19_999)]})[0]
    assert time.monotonic() - began < 10


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from([0.0, 1.0, 0.5]) | st.text("ab", max_size=1),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)


@given(st.lists(JSON, max_size=6))
def test_equal_items_are_those_that_json_calls_equal(items: list[Any]) -> None:
    """The package's own answer is the judge."""
    ours = FullCheck({"properties": {"l": {"uniqueItems": True}}}, "the parameters").problems({"l": items})

    assert (not ours) == Draft202012Validator({"uniqueItems": True}).is_valid(items)
