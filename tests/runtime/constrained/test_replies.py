"""Grammars of calls in every format: what they let through is read back by the parser, and is what was asked for."""

import json
from random import Random

import pytest
from attrs import evolve
from jsonschema import Draft202012Validator

from cognition import ToolSpec
from cognition.parsing import FORMATS, HERMES, PLAIN, FormatSpec, parse_reply
from cognition.parsing.formats import LLAMA3
from runtime.constrained.calls import read_tools, writable
from runtime.constrained.replies import Vocabulary, begun, reply
from runtime.constrained.schema import SchemaError

pytest.importorskip("llguidance")
from tests.runtime.constrained.byte_sampling import accepts, sampled

PARAMETERS = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "n": {"type": "integer", "minimum": 1, "maximum": 20},
        "tags": {"type": "array", "items": {"enum": ["x", "y"]}, "maxItems": 3},
        "code": {"anyOf": [{"type": "string", "pattern": "^[a-z]{2}$"}, {"type": "null"}]},
        "filter": {"type": "object", "properties": {"deep": {"type": "boolean"}}, "required": ["deep"]},
        "kind": {"enum": ["it's", 3, None]},
    },
    "required": ["city", "n"],
}
OPEN = {"type": "object", "properties": {"a": {"type": "boolean"}}, "additionalProperties": {"type": "string"}}
TOOLS = (
    ToolSpec("look.up", "", PARAMETERS),
    ToolSpec("now", "", {"type": "object", "properties": {}}),
    ToolSpec("any", "", {"type": "object"}),
    ToolSpec("open", "", OPEN),
)
BY_NAME = {tool.name: tool for tool in TOOLS}
NO_TOKENS = Vocabulary({})
CALLING = [spec for spec in FORMATS.values() if writable(spec)]


def silent(spec: FormatSpec) -> FormatSpec:
    """Without reasoning, which random bytes would hardly ever end."""
    return spec if spec.reasoning is None or spec.prompted else evolve(spec, reasoning=None)


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("spec", CALLING, ids=lambda spec: spec.name)
def test_forced_calls_are_read_back_valid(spec: FormatSpec, parallel: bool) -> None:
    """At least one call, no text, nothing mended, arguments that fit the schema; exactly one where only one may be."""
    random, spec = Random(spec.name), silent(spec)
    grammar = reply(spec, read_tools(TOOLS), NO_TOKENS, calls="must", parallel=parallel)
    complete = 0
    for _ in range(6):
        text = sampled(grammar, random, limit=1500)
        if text is None:
            continue
        complete += 1
        read = parse_reply(spec, text, tools=TOOLS)

        assert (read.malformed, read.text.strip()) == ((), ""), text
        assert len(read.calls) == 1 if not parallel else read.calls, text
        for call in read.calls:
            assert call.repairs == (), text
            Draft202012Validator(BY_NAME[call.name].parameters).validate(json.loads(call.arguments_json))
    assert complete, "nothing that was sampled ended"


@pytest.mark.parametrize("spec", CALLING, ids=lambda spec: spec.name)
def test_a_reply_without_calls_has_none(spec: FormatSpec) -> None:
    """However it is sampled; and one with a call is not let through."""
    random, spec = Random(spec.name), silent(spec)
    grammar = reply(spec, (), NO_TOKENS, calls="no")
    forced = reply(spec, read_tools(TOOLS[1:2]), NO_TOKENS, calls="must")
    for _ in range(4):
        text = sampled(grammar, random, limit=400)
        if text is not None:
            read = parse_reply(spec, text, tools=TOOLS)
            assert (read.calls, read.malformed) == ((), ()), text
        call = sampled(forced, random)
        assert call is None or not accepts(grammar, call)


def test_reasoning_before_a_forced_call_is_free() -> None:
    """Whether the prompt opened it or not; behind it there is nothing but the call."""
    tools = read_tools(TOOLS[1:2])
    call = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    grammar = reply(HERMES, tools, NO_TOKENS, calls="must")
    opened = evolve(HERMES, reasoning=evolve(HERMES.reasoning, opened=True))

    assert accepts(grammar, call)
    assert accepts(grammar, f"<think>\nI </tool_call> will.\n</think>\n\n{call}")
    assert not accepts(grammar, f"I will. {call}")
    assert not accepts(grammar, "<think>\nI will.\n</think>\n\nNo.")
    assert accepts(reply(opened, tools, NO_TOKENS, calls="must"), f"I will.\n</think>\n\n{call}")


def test_an_answer_follows_its_schema_and_may_be_calls_instead() -> None:
    """With tools, the model chooses."""
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    call = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    only, both = (
        reply(HERMES, read_tools(TOOLS), NO_TOKENS, calls=calls, answer=schema)  # type: ignore[arg-type]
        for calls in ("no", "may")
    )

    assert accepts(only, '{"ok": true}')
    assert accepts(only, '<think>\nSo it is.\n</think>\n\n{"ok": true}')
    assert not accepts(only, "yes")
    assert not accepts(only, call)
    assert accepts(both, call)
    assert accepts(both, '{"ok": false}')
    assert accepts(reply(PLAIN, (), NO_TOKENS, calls="no", answer=schema), '{"ok": false}')


def test_the_grammar_of_a_call_begins_behind_its_marker() -> None:
    """And ends with its end marker: what comes next is the model's own affair."""
    grammar = begun(HERMES, read_tools(TOOLS[1:2]), NO_TOKENS, "call", parallel=True)

    assert accepts(grammar, '\n{"name": "now", "arguments": {}}\n</tool_call>')
    assert accepts(grammar, '{"id": "a1", "name": "now", "arguments": {}}</tool_call>')
    assert not accepts(grammar, '\n{"name": "now", "arguments": {"x": 1}}\n</tool_call>')
    assert not accepts(grammar, '\n{"name": "then", "arguments": {}}\n</tool_call>')


def test_markers_that_are_tokens_are_meant_as_tokens() -> None:
    """No text can stand in for them, and no string can hold them."""
    grammar = begun(HERMES, read_tools(TOOLS), Vocabulary({"</tool_call>": 300}), "call", parallel=True)

    assert "<[300]>" in grammar
    assert "</tool_call>" not in grammar


def test_a_bare_call_that_is_forced_is_the_whole_reply() -> None:
    """Llama 3 writes no marker."""
    grammar = reply(LLAMA3, read_tools(TOOLS[1:2]), Vocabulary({}, frozenset(LLAMA3.stops)), calls="must")

    assert accepts(grammar, '{"name": "now", "parameters": {}}')
    assert not accepts(grammar, '{"parameters": {}, "name": "now"}')
    assert not accepts(grammar, "now")


def test_what_a_format_can_not_write_is_an_error_that_names_it() -> None:
    """Bare text between tags has no types: a parameter that may be a text or a list can't be a list."""
    schema = {"type": "object", "properties": {"a": {"type": "array"}}, "required": ["a"]}
    (tool,) = read_tools([ToolSpec("f", "", schema)])
    assert begun(FORMATS["qwen3_coder"], (tool,), NO_TOKENS, "call", parallel=True)

    mixed = {"type": "object", "properties": {"a": {"type": "string", "enum": ["\n"]}}, "required": ["a"]}
    (tool,) = read_tools([ToolSpec("f", "", mixed)])
    with pytest.raises(SchemaError, match=r"no way to write such a value @ \$\.properties\.a"):
        begun(FORMATS["qwen3_coder"], (tool,), NO_TOKENS, "call", parallel=True)


def test_arguments_are_an_object() -> None:
    """A tool whose parameters are something else is refused."""
    with pytest.raises(SchemaError, match="the tool 'f'"):
        read_tools([ToolSpec("f", "", {"type": "array"})])
    assert read_tools([ToolSpec("f", "", {"anyOf": [PARAMETERS, OPEN]})])
