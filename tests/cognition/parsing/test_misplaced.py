"""Nothing that may have been meant as an argument is left out of a call: it is told, in every format."""

from __future__ import annotations

import json

import pytest

from cognition.parsing import FORMATS, FormatSpec, parse_reply
from cognition.parsing.formats import (
    APERTUS,
    BARE_JSON,
    DEEPSEEK_V3_2,
    GEMMA4,
    GPT_OSS,
    HERMES,
    KIMI_K2,
    KIMI_K3,
    LFM2,
    LLAMA3,
    MINIMAX_M3,
    MISTRAL,
    MUSE,
    QWEN3_CODER,
    SOLAR_OPEN,
)
from cognition.values.messages import ProposedCall
from cognition.values.tools import ToolSpec
from tests.cognition.parsing.every_format import CALLING, reply_of
from tests.cognition.parsing.replies import Call, read

JSON_CALLS = {name: spec for name, spec in CALLING.items() if spec.calls and spec.calls.shape == "json_object"}
FOLDER = '"folder": "/data"'


def as_call(spec: FormatSpec, text: str) -> str:
    """A reply whose call has this text."""
    assert spec.calls is not None
    written = reply_of(spec, [Call("wipe", {})])
    fields = spec.calls.fields
    usual = json.dumps({fields.name: "wipe", fields.arguments: {}})
    assert usual in written.raw
    return written.raw.replace(usual, text.replace("NAME", fields.name).replace("ARGUMENTS", fields.arguments))


MISPLACED = {
    "beside the name": ('{"NAME": "wipe", "folder": "/data"}', '"folder" has no place beside "NAME"'),
    "under a key of another family": ('{"NAME": "wipe", "input": {"folder": "/data"}}', '"input" has no place'),
    "before the arguments": ('{"NAME": "wipe", "folder": "/data", "ARGUMENTS": {}}', '"folder" has no place'),
    "behind the arguments": ('{"NAME": "wipe", "ARGUMENTS": {}, "folder": "/data"}', '"folder" has no place'),
    "in an object where an id stands": ('{"NAME": "wipe", "id": {"folder": "/data"}, "ARGUMENTS": {}}', '"id" has no'),
    "under both of the usual keys": ('{"NAME": "wipe", "arguments": {}, "parameters": {"a": 1}}', "has no place"),
    "mended, and misplaced": ('{"NAME": "wipe", "ARGUMENTS": {}, "folder": "/data",}', '"folder" has no place'),
    "in an object of their own": ('{"NAME": "wipe"}\n{"folder": "/data"}', "something that is no call follows it"),
}


@pytest.mark.parametrize(("text", "reason"), MISPLACED.values(), ids=list(MISPLACED))
@pytest.mark.parametrize("spec", JSON_CALLS.values(), ids=list(JSON_CALLS))
@pytest.mark.behaviour("P13c")
def test_a_misplaced_argument_is_told(spec: FormatSpec, text: str, reason: str) -> None:
    """The reason names the key, and the one under which arguments belong."""
    assert spec.calls is not None
    raw = as_call(spec, text)
    reply = parse_reply(spec, raw)
    if "\n" in text and not spec.calls.end:
        return  # there a call ends with its object

    assert reply.tool_calls == ()
    bare = not (spec.calls.start or spec.calls.section_start)
    assert reply.malformed or (bare and reply.text), "it is told, or was no call to begin with"
    if reply.malformed and '"' in reason:
        assert reason.replace("NAME", spec.calls.fields.name) in reply.malformed[0].reason
        assert f'"{spec.calls.fields.arguments}"' in reply.malformed[0].reason
    elif reply.malformed:
        assert reason in reply.malformed[0].reason
    assert read(spec, [raw]) == read(spec, raw)


@pytest.mark.parametrize(
    "text",
    [
        '{"NAME": "wipe"}',
        '{"NAME": "wipe", "id": "call_1"}',
        '{"type": "function", "NAME": "wipe"}',
        '{"index": 0, "NAME": "wipe", "ARGUMENTS": {}}',
        '{"id": "a1", "type": "function", "NAME": "wipe", "ARGUMENTS": {}}',
        '{"NAME": "wipe", "ARGUMENTS": {}, "tool_call_id": "0"}',
        '{"NAME": "wipe", "ARGUMENTS": null, "call_id": 7}',
    ],
)
def test_what_families_write_beside_a_call_is_read_over(text: str) -> None:
    for name in ("hermes", "mistral_list", "command_r7b", "minimax_m1", "granite"):
        reply = parse_reply(FORMATS[name], as_call(FORMATS[name], text))

        assert [(call.name, call.arguments_json) for call in reply.tool_calls] == [("wipe", "{}")]


def test_what_may_be_meant_as_an_id_or_as_a_parameter_is_told() -> None:
    """Where the tool has a parameter of that name, and the call has no arguments."""
    tool = ToolSpec("wipe", parameters={"type": "object", "properties": {"id": {}, "type": {}}})
    raw = '<tool_call>{"name": "wipe", "KEY": "VALUE"}</tool_call>'
    for key, value, calls in (("id", "5", 0), ("type", "file", 0), ("type", "function", 1), ("index", "1", 1)):
        reply = parse_reply(HERMES, raw.replace("KEY", key).replace("VALUE", value), tools=[tool])
        assert len(reply.tool_calls) == calls
    beside = parse_reply(HERMES, '<tool_call>{"name": "wipe", "id": "5", "arguments": {}}</tool_call>', tools=[tool])

    assert beside.tool_calls == (ProposedCall("wipe", "{}"),)


ELSEWHERE: dict[str, tuple[FormatSpec, str]] = {
    "as a second key": (APERTUS, '<|tools_prefix|>[{"wipe": {}, "folder": "/data"}]<|tools_suffix|>'),
    "where an id stands": (MISTRAL, '[TOOL_CALLS]wipe[CALL_ID]{"folder": "/data"}[ARGS]{}'),
    "as an attribute where an id stands": (MISTRAL, '[TOOL_CALLS]wipe[CALL_ID] folder="/data"[ARGS]{}'),
    "before the name": (
        SOLAR_OPEN,
        '<|tool_call:begin|>{"folder": "/data"}<|tool_call:name|>wipe<|tool_call:args|>{}<|tool_call:end|>',
    ),
    "behind an id": (
        KIMI_K2,
        '<|tool_call_begin|>functions.wipe:0 ["/data"]<|tool_call_argument_begin|>{}<|tool_call_end|>',
    ),
    "behind a channel": (
        GPT_OSS,
        ' to=functions.wipe<|channel|>commentary {"folder": "/data"}<|message|>{}<|call|>',
    ),
    "behind the arguments": (
        KIMI_K2,
        '<|tool_call_begin|>functions.wipe:0<|tool_call_argument_begin|>{} {"folder": "/data"}<|tool_call_end|>',
    ),
    "as an attribute": (
        KIMI_K3,
        '<|open|>call tool="wipe" index="1" folder="/data"<|sep|><|close|>call<|sep|>',
    ),
    "in a value's own attributes": (
        DEEPSEEK_V3_2,
        '<｜DSML｜invoke name="wipe">\n{"folder": "/data"}\n</｜DSML｜invoke>',
    ),
    "outside of any parameter": (QWEN3_CODER, '<tool_call><function=wipe>{"folder": "/data"}</function></tool_call>'),
    "outside of any element": (
        MINIMAX_M3,
        ']<]minimax[>[<invoke name="wipe">{"folder": "/data"}]<]minimax[>[</invoke>',
    ),
    "without a name of its own": (LFM2, "<|tool_call_start|>[wipe('/data')]<|tool_call_end|>"),
    "in a second object": (GEMMA4, '<|tool_call>call:wipe{}{folder:<|"|>/data<|"|>}<tool_call|>'),
    "for another tool": (
        MUSE,
        ' to=look<|message|><atem:function_calls>\n<atem:invoke name="wipe">\n</atem:invoke>\n</atem:function_calls>',
    ),
}


@pytest.mark.parametrize(("spec", "raw"), ELSEWHERE.values(), ids=list(ELSEWHERE))
@pytest.mark.behaviour("P13c")
def test_arguments_in_another_place_are_told(spec: FormatSpec, raw: str) -> None:
    reply = parse_reply(spec, raw)

    assert (reply.tool_calls, len(reply.malformed)) == ((), 1)


CANARY = "okapi-7"
MEANT = [
    f'{{"folder": "{CANARY}"}}',
    f', "folder": "{CANARY}"',
    f'"input": "{CANARY}", ',
    f' folder="{CANARY}"',
    f" folder={CANARY} ",
    f'(folder="{CANARY}")',
    f"<folder>{CANARY}</folder>",
    f', "id": "{{\\"folder\\": \\"{CANARY}\\"}}"',
]
"""Arguments as models write them, in all notations but the one that has a place there."""


@pytest.mark.parametrize("spec", CALLING.values(), ids=list(CALLING))
@pytest.mark.behaviour("P13c")
def test_no_argument_vanishes_wherever_in_a_call_it_stands(spec: FormatSpec) -> None:
    """At every place of a call: it is among the arguments, in the text or told. As a part of a name it is no tool's."""
    raw = reply_of(spec, [Call("wipe", {"n": 1})]).raw
    for meant in MEANT:
        for place in range(len(raw) + 1):
            written = raw[:place] + meant + raw[place:]
            reply = parse_reply(spec, written)
            made = [call.arguments_json for call in reply.tool_calls if call.name == "wipe"]
            told = [malformed.raw for malformed in reply.malformed]
            assert not made or CANARY in "\n".join((*made, *told, reply.text, reply.reasoning)), written


def test_bare_json_with_another_key_beside_the_name_is_text() -> None:
    """Without markers an object is a call by its first keys; another one behind these makes it one that is told."""
    for spec in (LLAMA3, BARE_JSON):
        text = f'{{"name": "wipe", {FOLDER}}}'
        assert parse_reply(spec, text).text == text
        reply = parse_reply(spec, f'{{"name": "wipe", "parameters": {{}}, {FOLDER}}}')
        assert (reply.tool_calls, len(reply.malformed)) == ((), 1)


# ------------------------------------------------------------------------------------------------ keys given twice

TWICE = '"q": 1, "q": 2'


@pytest.mark.parametrize("spec", CALLING.values(), ids=list(CALLING))
@pytest.mark.behaviour("P13d")
def test_a_key_that_is_given_twice_is_told(spec: FormatSpec) -> None:
    """At the top and within, in JSON, in tags and in Python's notation; whoever reads the call might take either."""
    assert spec.calls is not None
    inner = [Call("wipe", {"q": 1, "Q": 2})]
    if spec.calls.parameters is None:
        inner.append(Call("wipe", {"deep": [{"q": 1, "Q": 2}]}))
    for call in inner:
        written = reply_of(spec, [call]).raw
        assert written.count("Q") - written.lower().count("call_q") >= 1
        reply = parse_reply(spec, written.replace("Q", "q"))
        assert (reply.tool_calls, len(reply.malformed)) == ((), 1), written
        assert "'q' is given twice" in reply.malformed[0].reason
        assert len(parse_reply(spec, written).tool_calls) == 1


def test_a_call_s_own_keys_are_given_once() -> None:
    for text in (
        '{"name": "f", "name": "g", "arguments": {}}',
        '{"name": "f", "arguments": {}, "arguments": {"a": 1}}',
    ):
        reply = parse_reply(HERMES, f"<tool_call>{text}</tool_call>")

        assert (reply.tool_calls, len(reply.malformed)) == ((), 1)


def test_json_in_a_value_gives_no_key_twice_unless_it_is_a_text() -> None:
    schema = {"type": "object", "properties": {"data": {"type": "object"}, "text": {"type": ["string", "object"]}}}
    tool = ToolSpec("f", parameters=schema)
    call = f"<function=f><parameter=KEY>{{{TWICE}}}</parameter></function></tool_call>"
    told = parse_reply(QWEN3_CODER, call.replace("KEY", "data"), tools=[tool])
    typed = f'<｜DSML｜invoke name="f"><｜DSML｜parameter name="a" string="false">{{{TWICE}}}</｜DSML｜parameter>'
    kept = parse_reply(QWEN3_CODER, call.replace("KEY", "text"), tools=[tool])

    assert "'q' is given twice" in told.malformed[0].reason
    assert "'q' is given twice" in parse_reply(DEEPSEEK_V3_2, typed + "</｜DSML｜invoke>").malformed[0].reason
    assert json.loads(kept.tool_calls[0].arguments_json) == {"text": f"{{{TWICE}}}"}


# ------------------------------------------------------------------------- calls quoted in the arguments of others


@pytest.mark.parametrize("spec", CALLING.values(), ids=list(CALLING))
@pytest.mark.behaviour("P13e")
def test_a_call_quoted_in_a_call_that_is_refused_is_not_made(spec: FormatSpec) -> None:
    """What is wrong with the outer call makes its texts no less texts."""
    assert spec.calls is not None
    quoted = reply_of(spec, [Call("wipe", {})]).raw.replace('"', "'")
    if spec.calls.shape == "nested_tags":
        return  # there the end of a call is one wherever it stands
    written = reply_of(
        spec, [Call("write", {"text": quoted, "q": 1 if not spec.calls.parameters else "1", "Q": "2"})]
    ).raw
    reply = parse_reply(spec, written.replace("Q", "q"))

    assert [call.name for call in reply.tool_calls] == []
    assert len(reply.malformed) == 1


@pytest.mark.parametrize("spec", CALLING.values(), ids=list(CALLING))
@pytest.mark.behaviour("P13e")
def test_a_call_quoted_in_a_text_that_was_never_closed_is_not_made(spec: FormatSpec) -> None:
    """Whether the text was left open or the reply stopped in it is not known: what stands there is told."""
    assert spec.calls is not None
    quoted = reply_of(spec, [Call("wipe", {})]).raw.replace('"', "'")
    written = reply_of(spec, [Call("write", {"text": f"So: {quoted} and more"})]).raw
    if spec.calls.shape == "nested_tags" or quoted not in written:
        return
    reply = parse_reply(spec, written[: written.index(" and more")])

    assert reply.tool_calls == ()
    assert reply.malformed
