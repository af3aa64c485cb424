"""Grammars of calls in every format: what they let through is read back by the parser, and is what was asked for."""

import json
from random import Random

import pytest
from attrs import evolve
from jsonschema import Draft202012Validator

from cognition import ToolSpec
from cognition.parsing import FORMATS, HERMES, PLAIN, FormatSpec, Reply, parse_reply
from cognition.parsing.formats import LLAMA3
from runtime.constrained.replies import TokenFacts, call_grammar, reply_grammar, weakened_tools
from runtime.constrained.schema import SchemaError, read_schema
from runtime.constrained.tools import read_tools

pytest.importorskip("llguidance")
from benchmarks.random_schemas import random_parameters
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
NO_TOKENS = TokenFacts({})
CHECKER = Draft202012Validator.FORMAT_CHECKER
CALLING = [spec for spec in FORMATS.values() if spec.calls is not None]


def silent(spec: FormatSpec) -> FormatSpec:
    """Without reasoning, which random bytes would hardly ever end."""
    return spec if spec.reasoning is None or spec.prompted else evolve(spec, reasoning=None)


def repeats_a_key(read: Reply) -> bool:
    """Whether an object with free keys has one of them twice: it is the guide that remembers keys, not the grammar."""
    return any("is given twice" in one.reason for one in read.malformed)


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("spec", CALLING, ids=lambda spec: spec.name)
def test_forced_calls_are_read_back_valid(spec: FormatSpec, parallel: bool) -> None:
    """At least one call, no text, nothing mended, arguments that fit the schema; exactly one where only one may be."""
    random, spec = Random(spec.name), silent(spec)
    grammar = reply_grammar(spec, read_tools(TOOLS), NO_TOKENS, calls="must", parallel=parallel)
    complete = 0
    for _ in range(6):
        text = sampled(grammar, random, limit=1500)
        if text is None:
            continue
        complete += 1
        read = parse_reply(spec, text, tools=TOOLS)
        if repeats_a_key(read):
            continue

        assert (read.malformed, read.text.strip()) == ((), ""), text
        assert len(read.tool_calls) == 1 if not parallel else read.tool_calls, text
        for call in read.tool_calls:
            assert call.repairs == (), text
            Draft202012Validator(BY_NAME[call.name].parameters).validate(json.loads(call.arguments_json))
    assert complete, "nothing that was sampled ended"


@pytest.mark.parametrize("spec", CALLING, ids=lambda spec: spec.name)
def test_a_reply_without_calls_has_none(spec: FormatSpec) -> None:
    """However it is sampled; and one with a call is not let through."""
    random, spec = Random(spec.name), silent(spec)
    grammar = reply_grammar(spec, (), NO_TOKENS, calls="no")
    forced = reply_grammar(spec, read_tools(TOOLS[1:2]), NO_TOKENS, calls="must")
    for _ in range(4):
        text = sampled(grammar, random, limit=400)
        if text is not None:
            read = parse_reply(spec, text, tools=TOOLS)
            assert (read.tool_calls, read.malformed) == ((), ()), text
        call = sampled(forced, random)
        assert call is None or not accepts(grammar, call)


@pytest.mark.parametrize("spec", CALLING, ids=lambda spec: spec.name)
def test_whatever_the_grammar_allows_is_a_call_that_fits(spec: FormatSpec) -> None:
    """Of random tools, forced or not: the parser reads one call, nothing mended, whose arguments fit the tool's schema.

    Where calls are not forced, the name may be one that is not offered.
    """
    spec = silent(spec)
    for number in range(4):
        random = Random(f"{spec.name} {number}")
        tools = tuple(ToolSpec(name, "", random_parameters(random)) for name in ("record", "look.up")[: 1 + number % 2])
        by_name = {tool.name: tool for tool in tools}
        for calls, answer in (("must", None), ("may", {"const": 1})):
            grammar = reply_grammar(
                spec, read_tools(tools), NO_TOKENS, calls=calls, parallel=False, answer=answer and read_schema(answer)
            )  # type: ignore[arg-type]
            text = sampled(grammar, random, limit=500)
            if text is None:
                continue
            read = parse_reply(spec, text, tools=tools)
            if repeats_a_key(read):
                continue
            if calls == "may" and (read.text.strip(), read.tool_calls, read.malformed) == ("1", (), ()):
                continue
            (call,) = read.tool_calls
            assert (read.malformed, read.text.strip(), call.repairs) == ((), "", ()), text
            if call.name in by_name:
                check = Draft202012Validator(by_name[call.name].parameters, format_checker=CHECKER)
                assert [error.message for error in check.iter_errors(json.loads(call.arguments_json))] == [], text
            else:
                assert calls == "may", text


def test_a_section_whose_marker_opens_the_list_goes_on_with_a_call() -> None:
    """FireFunction: ``functools[`` is the marker, so that no second bracket follows."""
    grammar = reply_grammar(FORMATS["firefunction"], read_tools(TOOLS[1:2]), NO_TOKENS, calls="must")
    call = '{"name": "now", "arguments": {}}'

    assert accepts(grammar, f"functools[{call}]")
    assert accepts(grammar, f"functools[{call}, {call}]")
    assert not accepts(grammar, f"functools[[{call}]]")


def test_objects_and_lists_are_tags_in_tags_where_the_format_has_them_so() -> None:
    """MiniMax-M3: each value between its key's tags, an item's between tags of its own, texts as they are."""
    properties = {
        "city": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "size": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
        "mode": {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^[0-9a]+$"}]},
        "tree": {"$ref": "#/$defs/Tree"},
    }
    tree = {"type": "object", "properties": {"item": {"$ref": "#/$defs/Tree"}, "v": {"type": "null"}}}
    schema = {"type": "object", "properties": properties, "required": ["city"], "$defs": {"Tree": tree}}
    tool = ToolSpec("go", "", schema)
    m3 = silent(FORMATS["minimax_m3"])
    grammar = reply_grammar(m3, read_tools([tool]), NO_TOKENS, calls="must")

    def call(*elements: str) -> str:
        text = f'<tool_call>\n<invoke name="go">{"".join(elements)}</invoke>\n</tool_call>'
        return text.replace("<", "]<]minimax[>[<")

    good = {
        "<city>Ulm </city>": {"city": "Ulm "},
        "<city></city><tags><item>5</item><item>[b]</item></tags>": {"city": "", "tags": ["5", "[b]"]},
        "<city>5</city><size><x>1.5</x></size>": {"city": "5", "size": {"x": 1.5}},
        "<city>a</city><mode>5</mode>": {"city": "a", "mode": 5},
        "<city>a</city><mode>a5</mode>": {"city": "a", "mode": "a5"},
        "<city>a</city><tree><item><v>null</v></item></tree>": {"city": "a", "tree": {"item": {"v": None}}},
    }
    for text, arguments in good.items():
        assert accepts(grammar, call(text)), text
        (read,) = parse_reply(m3, call(text), tools=[tool]).tool_calls
        assert json.loads(read.arguments_json) == arguments
    for text in ("", "<city>a</town>", "<city>a</city><tags></tags>", "<city>a</city><size><x>b</x></size>"):
        assert not accepts(grammar, call(text)), text


def test_a_text_is_not_written_as_another_value_that_its_schema_allows() -> None:
    """Between tags ``12`` is a number where the schema allows one, so no text can be written that way."""
    mixed = {"anyOf": [{"type": "string", "pattern": "^[0-9a]{2}$"}, {"type": "number", "minimum": 50}]}
    tool = ToolSpec("f", "", {"type": "object", "properties": {"a": mixed}, "required": ["a"]})
    grammar = reply_grammar(FORMATS["qwen3_coder"], read_tools([tool]), NO_TOKENS, calls="must")
    calls = {
        value: f"<tool_call>\n<function=f>\n<parameter=a>\n{value}\n</parameter>\n</function>\n</tool_call>"
        for value in ("1a", "12", "55")
    }

    assert {value: accepts(grammar, text) for value, text in calls.items()} == {"1a": True, "12": False, "55": True}


def test_names_are_written_as_the_format_writes_them() -> None:
    """Kimi K3 has them in attributes."""
    schema = {"type": "object", "properties": {'a&"b': {"type": "string", "enum": ["x"]}}, "required": ['a&"b']}
    tool, k3 = ToolSpec("f", "", schema), silent(FORMATS["kimi_k3"])
    text = (
        '<|open|>tools<|sep|><|open|>call tool="f" index="1"<|sep|><|open|>argument key="a&amp;&quot;b" type="string"'
        "<|sep|>x<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>"
    )
    (read,) = parse_reply(k3, text, tools=[tool]).tool_calls

    assert json.loads(read.arguments_json) == {'a&"b': "x"}
    assert accepts(reply_grammar(k3, read_tools([tool]), NO_TOKENS, calls="must"), text)


def test_reasoning_before_a_forced_call_is_free() -> None:
    """Whether the prompt opened it or not; behind it there is nothing but the call."""
    tools = read_tools(TOOLS[1:2])
    call = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    grammar = reply_grammar(HERMES, tools, NO_TOKENS, calls="must")
    opened = evolve(HERMES, reasoning=evolve(HERMES.reasoning, opened=True))

    assert accepts(grammar, call)
    assert accepts(grammar, f"<think>\nI </tool_call> will.\n</think>\n\n{call}")
    assert not accepts(grammar, f"I will. {call}")
    assert not accepts(grammar, "<think>\nI will.\n</think>\n\nNo.")
    assert accepts(reply_grammar(opened, tools, NO_TOKENS, calls="must"), f"I will.\n</think>\n\n{call}")


def test_an_answer_follows_its_schema_and_may_be_calls_instead() -> None:
    """With tools, the model chooses."""
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    call = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    only, both = (
        reply_grammar(HERMES, read_tools(TOOLS), NO_TOKENS, calls=calls, answer=read_schema(schema))  # type: ignore[arg-type]
        for calls in ("no", "may")
    )

    assert accepts(only, '{"ok": true}')
    assert accepts(only, '<think>\nSo it is.\n</think>\n\n{"ok": true}')
    assert not accepts(only, "yes")
    assert not accepts(only, call)
    assert accepts(both, call)
    assert accepts(both, '{"ok": false}')
    assert accepts(reply_grammar(PLAIN, (), NO_TOKENS, calls="no", answer=read_schema(schema)), '{"ok": false}')


def test_the_grammar_of_a_call_begins_behind_its_marker() -> None:
    """And ends with its end marker: what comes next is the model's own affair."""
    grammar = call_grammar(HERMES, read_tools(TOOLS[1:2]), NO_TOKENS, "call", parallel=True)

    assert accepts(grammar, '\n{"name": "now", "arguments": {}}\n</tool_call>')
    assert accepts(grammar, '{"id": "a1", "name": "now", "arguments": {}}</tool_call>')
    assert not accepts(grammar, '\n{"name": "now", "arguments": {"x": 1}}\n</tool_call>')
    assert not accepts(grammar, '\n{"name": "then", "arguments": {}}\n</tool_call>')


def test_markers_that_are_tokens_are_meant_as_tokens() -> None:
    """No text can stand in for them, and no string can hold them."""
    grammar = call_grammar(HERMES, read_tools(TOOLS), TokenFacts({"</tool_call>": 300}), "call", parallel=True)

    assert "<[300]>" in grammar
    assert "</tool_call>" not in grammar


def test_a_bare_call_that_is_forced_is_the_whole_reply() -> None:
    """Llama 3 writes no marker."""
    grammar = reply_grammar(LLAMA3, read_tools(TOOLS[1:2]), TokenFacts({}, frozenset(LLAMA3.stops)), calls="must")

    assert accepts(grammar, '{"name": "now", "parameters": {}}')
    assert not accepts(grammar, '{"parameters": {}, "name": "now"}')
    assert not accepts(grammar, "now")


def test_what_a_format_can_not_write_is_left_to_the_check() -> None:
    """Bare text between tags has no types, and no line break at its edge: such a value is told as not held to."""
    schema = {"type": "object", "properties": {"a": {"type": "array"}}, "required": ["a"]}
    (tool,) = read_tools([ToolSpec("f", "", schema)])
    assert call_grammar(FORMATS["qwen3_coder"], (tool,), NO_TOKENS, "call", parallel=True)

    mixed = {"type": "object", "properties": {"a": {"type": "string", "enum": ["\n"]}}, "required": ["a"]}
    spec = ToolSpec("f", "", mixed)
    assert call_grammar(FORMATS["qwen3_coder"], read_tools([spec]), NO_TOKENS, "call", parallel=True)
    assert [one.path for one in weakened_tools((spec,), FORMATS["qwen3_coder"])["f"]] == ["$.properties.a"]
    assert weakened_tools((spec,), HERMES) == {}


def test_arguments_are_an_object() -> None:
    """A tool whose parameters are something else is refused."""
    with pytest.raises(SchemaError, match="arguments are an object"):
        read_tools([ToolSpec("f", "", {"type": "array"})])
    assert read_tools([ToolSpec("f", "", {"anyOf": [PARAMETERS, OPEN]})])
