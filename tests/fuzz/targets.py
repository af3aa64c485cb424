"""What is fuzzed: functions that take any bytes and raise only where something is wrong.

A byte below 128 stands for its ASCII character, one from 128 on for a whole piece out of a list: a marker of the format
at hand, a bit of JSON, a piece of Jinja. A fuzzer that changes single bytes then moves markers about, which it would
not find letter by letter.

    parser       any format, any text, any cuts: no exception, the same outputs for every cut, no marker shown, each
                 call announced and closed once, the raw text kept
    repair       any text as a call of any shape: no exception, values that go into JSON, valid JSON left alone
    derivation   any template: an error or a format; whatever it renders and derives is no exception but a
                 ``TemplateError``, and the format goes through JSON and back
    schema       any JSON as a tool's schema: a grammar for its calls, or the error that says what is not supported
    wire         any bytes as a server's reply, any cuts: no exception, the same outputs for every cut, a failure or
                 whole calls, each call announced and closed once

A new target is a function here, an entry in ``TARGETS`` and a folder of beginnings in ``corpus``.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from attrs import evolve

from cognition import AssistantMessage, GenerationOptions, History, ModelRequest, ToolCall, ToolSpec, UserMessage
from cognition.base.strict_json import DECODER
from cognition.parsing import (
    FORMATS,
    ArgumentsDelta,
    CallFinished,
    CallMalformed,
    CallStarted,
    FormatSpec,
    Parser,
    ReasoningDelta,
    TextDelta,
    types_of,
)
from cognition.parsing._decode import decode
from cognition.parsing._repair import repair_json
from cognition.parsing.literals import UnreadableCallError
from cognition.parsing.typed_values import read_literal
from cognition.steps.codec import from_data, to_data
from cognition.values.outcomes import FinishReason
from cognition.wire import Decoder, Dialect, decode_body, decode_error
from runtime.constrained.replies import TokenFacts, call_grammar
from runtime.constrained.schema import SchemaError
from runtime.constrained.tools import read_tools
from runtime.errors import ConstraintError, TemplateError
from runtime.templates.template import ChatTemplate
from tests.cognition.parsing.replies import inner_markers_of, markers_of, merged, pieces, read, shown_markers

TOOLS = (
    ToolSpec(
        "a",
        parameters={
            "type": "object",
            "properties": {"n": {"type": "integer"}, "t": {"type": "string"}, "x": {"anyOf": [{"type": "null"}, {}]}},
        },
    ),
)

BITS = (
    '"name"', '"arguments"', '"parameters"', '{"name": "a", "arguments": {"x": 1}}', '{"x": "', '"}', "True", "None",
    "\\u00e9", "\\ud83d", "\ud800", "é", "😀", "\x00", "\u2028", "\t\n", "1e999", "-0", "a(x=1)", "a{x:", "<", "</",
    "|>",
)  # fmt: skip
"""What stands inside calls."""

JINJA = (
    "{{ ", " }}", "{% ", " %}", "{%- ", " -%}", "for m in messages", "endfor", "if ", "elif ", "else", "endif",
    "set x = ", "m.role", "m.content", "m.tool_calls", "m.reasoning_content", "for c in m.tool_calls",
    "c.function.name", "c.function.arguments", " | tojson", " | trim", " | string", " | items", "tools",
    "add_generation_prompt", "enable_thinking", "messages[0]", "bos_token", "raise_exception('x')", "'<think>'",
    "'</think>'", "'<tool_call>'", "'</tool_call>'", "'<|im_start|>'", "'<|im_end|>'", " + ", " ~ ", " == ",
    " is defined", " * 9999", "loop.first", "namespace(a=1)", "macro f(x)", "endmacro", "f(f)", "range(9)",
    ".split('</think>')", "[-1]", "[1:]", "strftime_now('%Y')", "<|im_start|>", "<|im_end|>", "<think>", "</think>",
    "<tool_call>", "</tool_call>", '{"name": "', '", "arguments": ', "[TOOL_CALLS]", "continue", "break",
    "generation", "endgeneration", "c.id", "not ", " and ", " or ", "loop.index",
)  # fmt: skip
"""What chat templates are made of."""

REASONS: Sequence[FinishReason] = ("stop", "length", "cancelled", "error")

STEPS, SIZE = 20_000, 100_000
"""A template may do that much: far less than in earnest, so that one that goes on without end is stopped soon."""


def spelled(data: bytes, bits: Sequence[str]) -> str:
    """The text that these bytes stand for."""
    return "".join(chr(byte) if byte < 128 else bits[(byte - 128) % len(bits)] for byte in data)


def format_at(place: bytes) -> FormatSpec:
    """The format next to a place (2 bytes) on a ring of 65,536: a new one takes its piece from one, the others stay."""
    number = int.from_bytes(place, "big")
    return FORMATS[min(FORMATS, key=lambda name: (zlib.crc32(name.encode()) - number) % 65_536)]


def check_parser(data: bytes) -> None:
    """Two bytes choose the format, one how the reply ends and is cut, the rest is the reply."""
    if len(data) < 3:
        return
    spec, reason = format_at(data[:2]), REASONS[data[2] % 4]
    bits = [*markers_of(spec), *inner_markers_of(spec), *(marker[:-1] for marker in markers_of(spec)), *BITS]
    raw = spelled(data[3:], bits)
    parser = Parser(spec, TOOLS)
    outputs = [*parser.feed(raw), *parser.finish(reason)]
    cuts = range(data[2] // 4, len(raw), 1 + data[2] // 4)
    for chunks in (raw, pieces(raw, cuts)):
        cut = Parser(spec, TOOLS)
        told = [output for chunk in chunks for output in cut.feed(chunk)] + list(cut.finish(reason))
        assert merged(outputs) == merged(told), "cuts make a difference"
    assert parser.raw == raw, "text was lost"
    open_call = -1
    closed = 0
    for output in outputs:
        match output:
            case TextDelta() | ReasoningDelta():
                shown = shown_markers(spec, output)
                assert not shown, f"a marker is shown: {shown[0]!r}"
            case CallStarted():
                assert open_call < output.index == closed, "a call is announced twice, or out of turn"
                open_call = output.index
            case ArgumentsDelta():
                assert output.index == open_call == closed, "arguments of no open call"
            case CallFinished() | CallMalformed():
                assert output.index == closed, "a call is closed twice, or out of turn"
                closed += 1


def check_repair(data: bytes) -> None:
    """Two bytes choose the format, one whether the call was ended, the rest is its text."""
    if len(data) < 3:
        return
    spec, ended = format_at(data[:2]), bool(data[2] % 2)
    text = spelled(data[3:], [*inner_markers_of(spec), *BITS])
    repaired = repair_json(text, complete=ended)
    try:
        value = DECODER.decode(text)
    except (ValueError, RecursionError):
        value = None
    else:
        assert repaired is not None, "valid JSON is refused"
        assert repaired.repairs == (), "valid JSON is mended"
        assert json.dumps(repaired.value) == json.dumps(value), "valid JSON is changed"
    with suppress(UnreadableCallError):  # a key that is given twice
        read_literal(text)
    if spec.calls is None:
        return
    calls = decode(spec.calls, text, terminated=ended, types=types_of(TOOLS)).calls
    assert calls, "a call is lost"
    for call in calls:
        if not hasattr(call, "arguments_json"):
            continue
        assert isinstance(json.loads(call.arguments_json), dict), "arguments that are no object"
        call.arguments_json.encode("utf-8")


MESSAGES = History((UserMessage("m1", "Q"), AssistantMessage("m2", "T", "R", (ToolCall("c1", "a", '{"x": 1}'),))))


def check_derivation(data: bytes) -> None:
    """All bytes are the template."""
    source = spelled(data, JINJA)
    try:
        template = ChatTemplate(source, bos_token="<s>", eos_token="</s>", steps=STEPS, size=SIZE, apart=False)
        spec = template.format_spec()
    except TemplateError:
        return
    assert from_data(json.loads(json.dumps(to_data(spec))), FormatSpec) == spec, "the format does not go through JSON"
    try:
        rendered = template.render(ModelRequest("S", MESSAGES, TOOLS, GenerationOptions()))
    except TemplateError:
        return
    read(rendered.format, [rendered.text])


KEYWORDS = (
    "type", "properties", "required", "items", "prefixItems", "additionalProperties", "enum", "const", "anyOf", "oneOf",
    "allOf", "$ref", "$defs", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength",
    "maxLength", "pattern", "format", "minItems", "maxItems", "uniqueItems", "minProperties", "description", "not",
    "patternProperties", "a", "b",
)  # fmt: skip
SCALARS: tuple[Any, ...] = (
    "object", "string", "integer", "number", "array", "boolean", "null", "#", "#/$defs/a", "#/properties/b", "^a+$",
    "[a-z]{2,3}|x", "(", "date", "uuid", "email", "a", "", "\ud800", 0, 1, 2, -1, 3.5, 1e300, -1e-7, True, False, None,
    10**30,
)  # fmt: skip
"""What schemas are made of, right and wrong."""


def built(data: bytes, depth: int = 0) -> tuple[Any, bytes]:
    """A JSON value out of bytes, each of which chooses what comes next; and the bytes that are left."""
    if not data or depth > 12:
        return {"type": "string"}, data
    kind, data = data[0], data[1:]
    if kind < 96:
        return SCALARS[kind % len(SCALARS)], data
    count = kind % 6
    if kind < 128:
        items = []
        for _ in range(count):
            item, data = built(data, depth + 1)
            items.append(item)
        return items, data
    members: dict[str, Any] = {}
    for _ in range(count):
        key, data = (KEYWORDS[data[0] % len(KEYWORDS)], data[1:]) if data else ("type", data)
        members[key], data = built(data, depth + 1)
    return members, data


def check_schema(data: bytes) -> None:
    """Two bytes choose the format, the rest builds the schema."""
    if len(data) < 2:
        return
    spec = format_at(data[:2])
    schema, _ = built(data[2:])
    root = schema if isinstance(schema, dict) else {"properties": {"a": schema}}
    tool = ToolSpec("a", parameters={"type": "object", **root})
    types_of([tool], nested=True)
    try:
        tools = read_tools([tool])
        if spec.calls is not None:
            assert call_grammar(spec, tools, TokenFacts({}), "call", parallel=True), "the grammar is empty"
    except (SchemaError, ConstraintError):
        return


DIALECTS: Sequence[Dialect] = ("openai", "responses", "anthropic", "ollama")

WIRE = (
    "data: ", "event: ", "\n\n", "\r\n", "[DONE]", ": x\n", "error: ", '{"choices": [{"index": 0, "delta": {', "}}]}",
    '"content": "', '"reasoning_content": "', '"tool_calls": [{"index": 0, "function": {', '"name": "a"',
    '"arguments": "', '\\"', '"finish_reason": "', 'stop"', 'length"', '{"error": {"message": "', '{"type": "',
    'response.output_item.added"', 'response.output_item.done"', 'response.output_text.delta"', '"delta": ',
    'response.function_call_arguments.delta"', 'response.function_call_arguments.done"', 'response.completed"',
    '"output_index": 0', '"item": {', '"response": {', 'function_call"', 'message_start"', 'message_delta"',
    'message_stop"', 'content_block_start"', 'content_block_delta"', 'content_block_stop"', '"index": 0',
    '"content_block": {', 'tool_use"', 'thinking_delta"', 'input_json_delta"', '"partial_json": "', '"thinking": "',
    '"signature": "', '"message": {', '"done": true', '"done": false', '"usage": {', '"prompt_tokens": 3', "\ufeff",
    "\\ud83d", "\\ude00", ", ", "{", "}", "[", "]", '"', "null", "1", "1e999", "NaN",
)  # fmt: skip
"""What streams are made of, in all formats."""

ASKED = ModelRequest("", History((UserMessage("m1", "Q"),)), TOOLS, GenerationOptions())


def check_wire(data: bytes) -> None:
    """One byte chooses the format and the cuts, the rest is the stream."""
    if not data:
        return
    dialect, step = DIALECTS[data[0] % 4], 1 + data[0] // 4
    stream = spelled(data[1:], WIRE).encode()
    told = []
    for size in (len(stream) or 1, step):
        decoder = Decoder(dialect, ASKED)
        outputs = [output for at in range(0, len(stream), size) for output in decoder.feed(stream[at : at + size])]
        reply = decoder.finish()
        told.append((merged([*outputs, *reply.outputs]), evolve(reply, outputs=())))
    assert told[0] == told[1], "cuts make a difference"
    outputs, reply = told[0]
    assert (reply.failure is not None) == (reply.finish_reason == "error"), "a failure is no failure"
    assert reply.failure is None or not reply.calls, "a reply that failed has calls"
    for call in reply.calls:
        assert isinstance(json.loads(call.arguments_json), dict), "arguments that are no object"
    begun_calls = {output.index for output in outputs if isinstance(output, CallStarted)}
    closed = [output.index for output in outputs if isinstance(output, CallFinished | CallMalformed)]
    assert begun_calls <= {*closed}, "a call stays open"
    assert closed == [*range(len(closed))], "a call is closed twice, or out of turn"
    decode_body(dialect, ASKED, stream)
    assert decode_error(dialect, 500, {}, stream).message, "an error says nothing"


TARGETS: Mapping[str, Callable[[bytes], None]] = {
    "parser": check_parser,
    "repair": check_repair,
    "derivation": check_derivation,
    "schema": check_schema,
    "wire": check_wire,
}
"""By name. Each has a folder of beginnings, and of what once failed, under ``corpus``."""
