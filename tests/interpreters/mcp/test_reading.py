"""What strangers send is read part by part, and nothing of it is believed."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from cognition import TextPart
from cognition.values.content import Image
from interpreters.mcp._json_limits import TOO_DEEP, limit_json
from interpreters.mcp._listing import HINTS, MOST, read_prompts, read_resources, read_tools
from interpreters.mcp._stdio_transport import LineSplitter, message_of
from interpreters.mcp._tool_call import format_parts, parts_of
from interpreters.mcp.manager import make_tool
from interpreters.mcp.server_config import MCPServer
from interpreters.tools.schema_check import FullCheck, repair_schema
from tests.interpreters.mcp.plain_server import PNG

SERVER = MCPServer("files", command="serve")

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
WORDS = [
    "type",
    "text",
    "image",
    "audio",
    "resource",
    "resource_link",
    "data",
    "uri",
    "blob",
    "mimeType",
    "content",
    "name",
]
BLOCKS = st.dictionaries(st.sampled_from(WORDS), st.sampled_from(WORDS) | JSON, max_size=4)


@given(JSON | BLOCKS | st.fixed_dictionaries({"content": st.lists(BLOCKS | JSON), "structuredContent": JSON}))
def test_any_result_has_a_text(result: Any) -> None:
    parts = parts_of(result if isinstance(result, dict) else {"content": result})

    assert isinstance(format_parts(parts), str)


def test_each_kind_of_content_is_shown() -> None:
    content = [
        {"type": "text", "text": "one"},
        {"type": "text", "text": "two"},
        {"type": "image", "data": PNG, "mimeType": "image/jpeg"},
        {"type": "image", "data": "AAAA", "mimeType": "image/svg+xml"},
        {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "a://b", "text": "inside"}},
        {"type": "resource", "resource": {"uri": "a://c", "blob": "AAAAAAAA", "mimeType": "application/zip"}},
        {"type": "resource_link", "uri": "a://d", "name": "d"},
        {"type": "hologram"},
        "nothing",
    ]
    first, image, rest = parts_of({"content": content})

    assert first == TextPart("one\ntwo")
    assert isinstance(image, Image)
    assert image.media_type == "image/png"
    assert isinstance(rest, TextPart)
    assert rest.text.splitlines() == [
        "[image image/svg+xml, 3 bytes, which can't be shown]",
        "[audio audio/wav, 3 bytes]",
        "[a://b]",
        "inside",
        "[resource a://c application/zip, 6 bytes]",
        "[d: a://d]",
        '{"type": "hologram"}',
        "[a part of the result that can't be read]",
    ]
    assert format_parts(parts_of({"content": "none"})) == "[a part of the result that can't be read]"
    assert parts_of({}) == ()


@pytest.mark.parametrize(
    ("text", "structured", "told"),
    [
        (None, {"a": 1}, '{"a": 1}'),
        ('{"a":1}', {"a": 1}, '{"a":1}'),
        ("5", {"result": 5}, "5"),
        ("five", {"result": "five"}, "five"),
        ("a\nb", {"result": ["a", "b"]}, "a\nb"),
        ("Sunny.", {"degrees": 20}, 'Sunny.\n{"degrees": 20}'),
        (None, None, ""),
    ],
)
def test_structured_content_is_told_once(text: str | None, structured: Any, told: str) -> None:
    content = [] if text is None else [{"type": "text", "text": one} for one in text.split("\n")]

    assert format_parts(parts_of({"content": content, "structuredContent": structured})) == told


TOOLS = st.fixed_dictionaries(
    {},
    optional={
        "name": st.text(max_size=5) | JSON,
        "description": JSON,
        "inputSchema": JSON | st.dictionaries(st.sampled_from(["type", "properties", "required"]), JSON),
        "annotations": JSON | st.dictionaries(st.sampled_from(HINTS), st.booleans() | st.text()),
    },
)


@settings(max_examples=60)
@given(st.lists(TOOLS | JSON, max_size=5) | JSON)
def test_every_list_is_read_and_every_tool_of_it_can_be_offered(items: Any) -> None:
    """What can't be used is said; no odd entry takes another one with it."""
    tools, problems = read_tools(SERVER, items)
    made = [make_tool(SERVER, one, f"mcp.files.t{place}", _nothing)[0] for place, one in enumerate(tools)]

    assert None not in made
    assert all(str(one) for one in problems)
    listed = (*read_resources("a", items, template=False), *read_prompts("a", items))
    assert all(isinstance(one.name, str) and isinstance(one.description, str) for one in listed)


async def _nothing(*_: Any) -> str:
    return ""


def test_a_long_list_is_read_to_a_bound() -> None:
    tools, problems = read_tools(SERVER, [{"name": f"t{place}", "inputSchema": {}} for place in range(MOST + 5)])

    assert len(tools) == MOST
    assert "of which the first 1000 are read" in problems[0].problem


def test_what_a_server_says_of_its_tools_only_tightens() -> None:
    hints = {"readOnlyHint": True, "idempotentHint": True, "destructiveHint": True, "openWorldHint": False}
    (tool,), _ = read_tools(SERVER, [{"name": "wipe", "annotations": hints}])
    made, _ = make_tool(SERVER, tool, "mcp.files.wipe", _nothing)

    assert made is not None
    spec = made.spec
    assert (spec.read_only, spec.idempotent, spec.approval, spec.tool_class) == (False, False, True, "execution")


def test_the_users_word_counts() -> None:
    (tool,), _ = read_tools(SERVER, [{"name": "look_up", "annotations": {"destructiveHint": True}}])
    trusting = MCPServer("files", command="serve", read_only=("look*",), output_limit=50)
    made, _ = make_tool(trusting, tool, "mcp.files.look_up", _nothing)
    never = make_tool(MCPServer("files", command="serve", approval=False), tool, "mcp.files.x", _nothing)[0]

    assert made is not None
    assert never is not None
    assert (made.spec.read_only, made.spec.idempotent, made.spec.approval, made.spec.output_limit) == (
        True,
        True,
        False,
        50,
    )
    assert never.spec.approval is False


KEYWORDS = [
    "type",
    "pattern",
    "$ref",
    "minLength",
    "enum",
    "properties",
    "items",
    "anyOf",
    "required",
    "patternProperties",
]
SCHEMAS = st.recursive(
    st.sampled_from(["string", "strng", "(", "#/$defs/x", "https://a.example/b", "#"]) | st.integers() | st.booleans(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=100)
@given(st.dictionaries(st.sampled_from(KEYWORDS), SCHEMAS, max_size=4))
def test_a_mended_schema_can_be_checked(schema: dict[str, Any]) -> None:
    before = json.dumps(schema)
    made, left = repair_schema(schema)

    FullCheck(made, "the parameters")
    assert json.dumps(schema) == before
    assert (made == schema) == (not left) or made == {"type": "object"}


def test_only_what_can_not_be_held_is_left_out() -> None:
    inner = {"type": "string", "pattern": "(", "maxLength": 5, "enum": [{"$ref": "http://a.example"}]}
    schema = {"type": "object", "properties": {"a": inner, "b": {"type": "integer"}}, "required": ["a"]}
    made, left = repair_schema(schema)

    assert made["properties"] == {
        "a": {key: inner[key] for key in ("type", "maxLength", "enum")},
        "b": {"type": "integer"},
    }
    assert made["required"] == ["a"]
    assert [str(one) for one in left] == ["pattern @ $.properties.a: it can't be read"]


@given(st.integers(1, 400), st.booleans())
def test_what_is_too_deep_is_replaced_and_the_rest_stays(depth: int, closed: bool) -> None:
    inner = "[" * depth + "]" * depth
    text = json.dumps({"a": "[" * 300, "b": 1}).replace("1}", inner + ', "c": [2]}')
    read = json.loads(limit_json(text.encode()))

    assert (read["a"], read["c"]) == ("[" * 300, [2])
    assert (TOO_DEEP in json.dumps(read)) == (depth >= 149)


HALVES = st.text(st.characters() | st.sampled_from("\ud800\udfff\\ud\U0001f600"), max_size=12)


@given(st.lists(HALVES, max_size=4), st.booleans())
def test_half_characters_are_replaced_and_no_others(texts: list[str], escaped: bool) -> None:
    """A decoder of the SDK's refuses a whole message for one of them."""
    written = json.dumps(texts, ensure_ascii=escaped)
    read = json.loads(limit_json(written.encode("utf-8", "surrogatepass")))
    expected = [json.loads(json.dumps(text)) for text in texts]  # two halves that belong together are one character

    assert [whole(text) for text in read] == [whole(text) for text in expected]


def whole(text: str) -> str:
    """A text with something else for half characters, and for what stands for one: an encoding has up to three of
    it.
    """
    return re.sub("�+", "�", "".join("�" if "\ud800" <= one <= "\udfff" else one for one in text))


@given(st.lists(st.binary(max_size=12).filter(lambda line: b"\n" not in line), max_size=6), st.data())
def test_lines_are_the_same_however_they_are_cut(lines: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
    reader = LineSplitter()
    parts = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]

    assert [line for part in parts for line in reader.feed(part)] == lines


def test_a_message_that_is_too_long_is_answered_for_and_never_held() -> None:
    reader = LineSplitter(longest=1000)
    begun = list(reader.feed(b'{"jsonrpc": "2.0", "id": 7, "result": "' + b"x" * 5000))
    (line,) = reader.feed(b"x" * 100_000 + b'"}\n')

    assert begun == []
    assert json.loads(line)["id"] == 7
    assert "and was not read" in json.loads(line)["error"]["message"]
    assert list(reader.feed(b"next\n")) == [b"next"]


def test_an_answer_that_can_not_be_read_is_an_error_of_its_request() -> None:
    message = message_of(b'{"jsonrpc": "2.0", "id": 7, "result": {"a": tru}}')

    assert message is not None
    assert message.message.id == 7  # type: ignore[union-attr]  # it is an error
    assert "can't be read" in message.message.error.message  # type: ignore[union-attr]  # as above


@pytest.mark.parametrize("line", [b"", b"Listening...", b"{", b"[]", b'{"a": 1}', b"\xff\xfe", b"{\xff}"])
def test_a_line_that_is_no_message_is_passed_over(line: bytes) -> None:
    assert message_of(line) is None
