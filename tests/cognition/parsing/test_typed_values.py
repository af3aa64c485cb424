"""Values that a format writes as bare text get the types that the tool's schema gives them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from cognition.parsing import Parser, collect, parse_reply
from cognition.parsing.formats import DEEPSEEK_V3_2, GLM, MINICPM5, MINIMAX_M3, QWEN3_CODER
from cognition.parsing.literals import UnreadableCallError
from cognition.parsing.typed_values import parse_value, types_of
from cognition.values.tools import ToolSpec

SCHEMAS: dict[str, tuple[Any, str, Any]] = {
    "an integer": ({"type": "integer"}, "5", 5),
    "an integer written as a float": ({"type": "integer"}, "5.0", 5),
    "a text that looks like one": ({"type": "string"}, "5", "5"),
    "no schema": ({}, "5", "5"),
    "a schema that is none": (True, "5", "5"),
    "a number": ({"type": "number"}, "0.5", 0.5),
    "a whole number": ({"type": "number"}, "5", 5),
    "a truth value": ({"type": "boolean"}, "true", True),
    "a truth value as Python has it": ({"type": "boolean"}, "False", False),
    "nothing or a text": ({"type": ["string", "null"]}, "null", None),
    "a text or nothing": ({"type": ["string", "null"]}, "nullx", "nullx"),
    "a number or a text": ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "5", 5),
    "a text or a number": ({"type": ["string", "integer"]}, "5 apples", "5 apples"),
    "an object or a text": ({"type": ["object", "string"]}, '{"a": 1}', {"a": 1}),
    "a text or nearly an object": ({"type": ["object", "string"]}, "{'a': 1}", "{'a': 1}"),
    "a number or nothing": ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "7", 7),
    "an object": ({"type": "object"}, '{"a": [1]}', {"a": [1]}),
    "an object by its properties": ({"properties": {"a": {}}}, '{"a": 1}', {"a": 1}),
    "an object as Python prints it": ({"type": "object"}, "{'a': True}", {"a": True}),
    "a list": ({"items": {"type": "string"}}, '["a"]', ["a"]),
    "a choice of numbers": ({"enum": [1, 2]}, "2", 2),
    "a constant": ({"const": 3}, "3", 3),
    "a reference": ({"$ref": "#/$defs/Count"}, "4", 4),
    "a reference to itself": ({"$ref": "#/$defs/Loop"}, "4", "4"),
    "a reference to nothing": ({"$ref": "#/$defs/Gone"}, "4", "4"),
    "a text where a number is wanted": ({"type": "integer"}, "five", "five"),
    "a number where a list is wanted": ({"type": "array"}, "5", "5"),
    "white space around it": ({"type": "integer"}, " 5 ", 5),
}


@pytest.mark.parametrize(("schema", "text", "value"), SCHEMAS.values(), ids=list(SCHEMAS))
def test_a_text_is_what_its_schema_says(schema: Any, text: str, value: Any) -> None:
    """Typed where it fits; as it was written where it does not, so that the check of the arguments can say so."""
    parameters = {
        "type": "object",
        "properties": {"x": schema},
        "$defs": {"Count": {"type": "integer"}, "Loop": {"$ref": "#/$defs/Loop"}},
    }
    tools = (ToolSpec("f", "", parameters),)
    reply = parse_reply(GLM, f"<tool_call>f<arg_key>x</arg_key><arg_value>{text}</arg_value></tool_call>", tools=tools)
    got = json.loads(reply.tool_calls[0].arguments_json)["x"]

    assert (value, type(value)) == (got, type(got))


@example('{"0":0,"0":0}', "integer")
@given(st.text(), st.sampled_from(["integer", "number", "boolean", "array", "object", "null", "string"]))
def test_any_text_is_typed(text: str, kind: str) -> None:
    """Where strings are allowed, a text stays unchanged unless it is written exactly as the other type.

    Where they are not, a text is either read or rejected for a duplicate key: it never raises another error.
    """
    value, repairs = parse_value(text, frozenset({kind, "string"}))

    assert repairs == ()
    assert value == text or not isinstance(value, str)
    assert parse_value(text, frozenset({"string"})) == (text, ())
    problem = ""
    try:
        parse_value(text, frozenset({kind}))
    except UnreadableCallError as error:
        problem = str(error)
    assert problem == "" or problem.endswith("is given twice")


ELEMENTS = {
    "an object of numbers": (
        {"type": "object", "properties": {"n": {"type": "number"}}}, "<n>1.5</n>", {"n": 1.5},
    ),
    "a list of texts": ({"type": "array", "items": {"type": "string"}}, "<item>5</item>", ["5"]),
    "a key called item": (
        {"type": "object", "properties": {"item": {"type": "string"}}}, "<item>5</item>", {"item": "5"},
    ),
    "keys that no schema names": (
        {"type": "object", "additionalProperties": {"type": "integer"}}, "<k>5</k><l>6</l>", {"k": 5, "l": 6},
    ),
    "a list or an object": (
        {"anyOf": [{"items": {"type": "string"}}, {"properties": {"max": {"type": "integer"}}}]},
        "<max>10</max>",
        {"max": 10},
    ),
    "a reference": ({"$ref": "#/$defs/Loop"}, "<next><next><n>4</n></next></next>", {"next": {"next": {"n": 4}}}),
    "a reference to nothing": ({"$ref": "#/$defs/Gone"}, "<n>4</n>", {"n": 4}),
    "no schema": ({}, "<n>4</n><t>x y</t><u>{'a': 1}</u>", {"n": 4, "t": "x y", "u": "{'a': 1}"}),
    "an empty list": ({"type": "array"}, "", []),
    "an empty object": ({"type": "object"}, "", {}),
    "an empty text": ({"type": "string"}, "", ""),
    "nothing where a number is wanted": ({"type": "integer"}, "", ""),
}  # fmt: skip


@pytest.mark.parametrize(("schema", "elements", "value"), ELEMENTS.values(), ids=list(ELEMENTS))
def test_tags_in_tags_are_what_their_schema_says(schema: Any, elements: str, value: Any) -> None:
    """Objects, lists and what is in them, by the schema of each; numbers within data that no schema describes."""
    loop = {"properties": {"next": {"$ref": "#/$defs/Loop"}, "n": {"type": "integer"}}}
    tools = (ToolSpec("f", "", {"type": "object", "properties": {"x": schema}, "$defs": {"Loop": loop}}),)
    mark = "]<]minimax[>["
    body = f"<x>{elements}</x></invoke>".replace("<", f"{mark}<")
    reply = parse_reply(MINIMAX_M3, f'{mark}<invoke name="f">{body}', tools=tools)

    assert value == json.loads(reply.tool_calls[0].arguments_json)["x"]


def test_types_reach_the_parser_in_pieces_too() -> None:
    """A call that comes character by character is typed as one that comes whole."""
    tools = (ToolSpec("f", "", {"type": "object", "properties": {"n": {"type": "integer"}}}),)
    raw = "<tool_call>\n<function=f>\n<parameter=n>\n5\n</parameter>\n</function>\n</tool_call>"
    parser = Parser(QWEN3_CODER, tools)
    outputs = [output for character in raw for output in parser.feed(character)]
    reply = collect([*outputs, *parser.finish()])

    assert reply == parse_reply(QWEN3_CODER, raw, tools=tools)
    assert [call.arguments_json for call in reply.tool_calls] == ['{"n": 5}']


def test_a_repair_of_a_value_is_noted() -> None:
    """Python's notation of an object is read, and said to have been mended."""
    tools = (ToolSpec("f", "", {"type": "object", "properties": {"o": {"type": "object"}}}),)
    raw = '<function name="f"><param name="o">{\'a\': None}</param></function>'
    (call,) = parse_reply(MINICPM5, raw, tools=tools).tool_calls

    assert call.arguments_json == '{"o": {"a": null}}'
    assert call.repairs == ("single quotes", "Python literal")


def test_a_format_with_types_needs_no_schema() -> None:
    """Where the markup says what is text, the schema is not asked."""
    raw = (
        '<｜DSML｜function_calls><｜DSML｜invoke name="f">'
        '<｜DSML｜parameter name="a" string="true">5</｜DSML｜parameter>'
        '<｜DSML｜parameter name="b" string="false">[5]</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜function_calls>'
    )
    (call,) = parse_reply(DEEPSEEK_V3_2, raw).tool_calls

    assert json.loads(call.arguments_json) == {"a": "5", "b": [5]}


def test_tools_without_properties_have_no_types() -> None:
    """A schema may say nothing of its parameters."""
    assert types_of((ToolSpec("f", "", {"type": "object"}),)) == {}


CLOCK = ToolSpec(
    "clock", "", {"type": "object", "properties": {"place": {"type": "string"}, "hour": {"type": "integer"}}}
)
FORGOTTEN, WRAPPED = ("missing end of a parameter",), ("arguments in a parameter",)


@pytest.mark.parametrize(
    ("body", "arguments", "repairs"),
    [
        ("\nTurku\n<parameter=hour>\n7\n</parameter>", {"place": "Turku", "hour": 7}, FORGOTTEN),
        ("\nTurku\n<parameter=day>\n7\n</parameter>", {"place": "Turku\n<parameter=day>\n7"}, ()),
        ("\nTurku\n<parameter=place>\n7\n</parameter>", {"place": "Turku\n<parameter=place>\n7"}, ()),
        ("see <parameter=hour></parameter>", {"place": "see <parameter=hour>"}, ()),
        (
            "\nTurku\n<parameter=hour>\n</parameter>\n<parameter=hour>\n7\n</parameter>",
            {"place": "Turku\n<parameter=hour>", "hour": 7},
            (),
        ),
    ],
)
def test_a_value_ends_where_another_parameter_begins_that_is_given_nowhere_else(
    body: str, arguments: dict[str, Any], repairs: tuple[str, ...]
) -> None:
    """A text may well speak of parameters; one of the tool's own, at the beginning of a line, is another matter."""
    reply = parse_reply(
        QWEN3_CODER, f"<function=clock>\n<parameter=place>{body}\n</function></tool_call>", tools=[CLOCK]
    )

    assert arguments == json.loads(reply.tool_calls[0].arguments_json)
    assert repairs == reply.tool_calls[0].repairs


@pytest.mark.parametrize(
    ("key", "value", "arguments", "repairs"),
    [
        ("arguments", '{"place": "Turku"}', {"place": "Turku"}, WRAPPED),
        ("properties", "{'place': 'Turku', 'hour': 7}", {"place": "Turku", "hour": 7}, WRAPPED),
        ("arguments", '{"town": "Turku"}', {"arguments": '{"town": "Turku"}'}, ()),
        ("arguments", "Turku", {"arguments": "Turku"}, ()),
        ("other", '{"place": "Turku"}', {"other": '{"place": "Turku"}'}, ()),
        ("place", '{"place": "Turku"}', {"place": '{"place": "Turku"}'}, ()),
    ],
)
def test_arguments_in_one_parameter_that_the_tool_does_not_have_are_taken_out(
    key: str, value: str, arguments: dict[str, Any], repairs: tuple[str, ...]
) -> None:
    """Only where all of them are the tool's own."""
    text = f"<function=clock>\n<parameter={key}>\n{value}\n</parameter>\n</function></tool_call>"

    (call,) = parse_reply(QWEN3_CODER, text, tools=[CLOCK]).tool_calls
    (untyped,) = parse_reply(QWEN3_CODER, text).tool_calls

    assert (arguments, repairs) == (json.loads(call.arguments_json), call.repairs)
    assert ({key: value}, ()) == (json.loads(untyped.arguments_json), untyped.repairs)


def test_a_parameter_of_the_tool_may_have_such_a_name() -> None:
    tool = ToolSpec(
        "f", "", {"type": "object", "properties": {"input": {"type": "object"}, "place": {"type": "string"}}}
    )
    text = '<function=f>\n<parameter=input>\n{"place": "Turku"}\n</parameter>\n</function></tool_call>'

    (call,) = parse_reply(QWEN3_CODER, text, tools=[tool]).tool_calls

    assert json.loads(call.arguments_json) == {"input": {"place": "Turku"}}
