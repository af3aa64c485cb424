"""Single replies with what has to come of them: faults of earlier systems, and the wire formats of model families."""

from __future__ import annotations

import pytest

from cognition.parsing import FormatSpec, Reply, parse_reply
from cognition.parsing.formats import (
    BARE_JSON,
    FIREFUNCTION,
    GEMMA4,
    GLM,
    GPT_OSS,
    HERMES,
    HERMES_THINKING,
    KIMI_K3,
    LLAMA3,
    LLAMA4,
    MINICPM5,
    MINIMAX_M3,
    MISTRAL,
    MISTRAL_LIST,
    QWEN3_CODER,
    SEED_OSS,
    TOOL_CALLS_LIST,
)
from cognition.parsing.spec import CallFormat
from cognition.values.messages import MalformedToolCall, ProposedCall
from tests.cognition.parsing.replies import read

NOT_JSON = "not valid JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"
NO_NAME = 'the call has no name: "name" has to be the name of a tool'

# The catalogue's items E.3, "theirs / ours": what cow_brain made of a reply, and what we make of it.
EARLIER_SYSTEMS = {
    "a tag in pieces (theirs: text held back by 11 characters)": (
        HERMES,
        "Hello <think>a</think>b",
        Reply("Hello b", "a"),
    ),
    "a lone angle bracket (theirs: late)": (HERMES, "a < b and more text", Reply("a < b and more text")),
    "two calls (theirs: only the first)": (
        HERMES,
        '<tool_call>{"name":"a","arguments":{}}</tool_call><tool_call>{"name":"b","arguments":{}}</tool_call>',
        Reply(tool_calls=(ProposedCall("a", "{}"), ProposedCall("b", "{}"))),
    ),
    "a bad call (theirs: silently lost)": (
        HERMES,
        "<tool_call>{bad}</tool_call>hi",
        Reply("hi", malformed=(MalformedToolCall("{bad}", NOT_JSON),)),
    ),
    "a call without its end marker": (
        HERMES,
        '<tool_call>{"name":"a","arguments":{}}',
        Reply(tool_calls=(ProposedCall("a", "{}"),)),
    ),
    "an end marker in a string (theirs: block cut early, call lost)": (
        HERMES,
        '<tool_call>{"name":"a","arguments":{"x":"</tool_call>"}}</tool_call>',
        Reply(tool_calls=(ProposedCall("a", '{"x":"</tool_call>"}'),)),
    ),
    "arguments in a string": (
        HERMES,
        '<tool_call>{"name":"a","arguments":"{\\"x\\":1}"}</tool_call>',
        Reply(tool_calls=(ProposedCall("a", '{"x":1}', ("arguments in a string",)),)),
    ),
    "a list of calls with one that is none": (
        HERMES,
        '<tool_call>[{"name":"a"},{"foo":1},{"name":"b"}]</tool_call>',
        Reply(
            tool_calls=(ProposedCall("a", "{}", ("no arguments",)), ProposedCall("b", "{}", ("no arguments",))),
            malformed=(MalformedToolCall('{"foo":1}', NO_NAME),),
        ),
    ),
    "a call hunted for in text": (
        BARE_JSON,
        'call {"name":"a","arguments":{}} now',
        Reply("call  now", tool_calls=(ProposedCall("a", "{}"),)),
    ),
    "the same text in a format with markers": (
        HERMES,
        'call {"name":"a","arguments":{}} now',
        Reply('call {"name":"a","arguments":{}} now'),
    ),
    "single quotes (theirs: no call)": (
        HERMES,
        "<tool_call>{'name':'a'}</tool_call>",
        Reply(tool_calls=(ProposedCall("a", "{}", ("single quotes", "no arguments")),)),
    ),
    "a trailing comma (theirs: no call)": (
        HERMES,
        '<tool_call>{"name":"a",}</tool_call>',
        Reply(tool_calls=(ProposedCall("a", "{}", ("trailing comma", "no arguments")),)),
    ),
    "arguments that are a list (theirs: {})": (
        HERMES,
        '<tool_call>{"name":"a","arguments":[1]}</tool_call>',
        Reply(
            malformed=(
                MalformedToolCall('{"name":"a","arguments":[1]}', "the arguments have to be a JSON object, not a list"),
            )
        ),
    ),
}

Z = '{"q": "zebra"}'
LOOKUP = (ProposedCall("lookup", Z),)

FAMILIES = {
    "Qwen3": (
        HERMES,
        f'<think>\n\n</think>\n\n<tool_call>\n{{"name": "lookup", "arguments": {Z}}}\n</tool_call><|im_end|>\n',
        Reply(tool_calls=LOOKUP),
    ),
    "a prompt that opened the reasoning": (HERMES_THINKING, "hm\n</think>\n\nHi", Reply("Hi", "hm")),
    "MiniMax M1": (
        FormatSpec("m1", calls=CallFormat("json_object", section_start="<tool_calls>", section_end="</tool_calls>")),
        f'<tool_calls>\n{{"name": "lookup", "arguments": {Z}}}\n{{"name": "lookup", "arguments": {Z}}}\n</tool_calls>',
        Reply(tool_calls=LOOKUP * 2),
    ),
    "Apriel": (
        TOOL_CALLS_LIST,
        f'\n<tool_calls>[{{"name": "lookup", "arguments": {Z}}}]</tool_calls>\n<|end|>\n</s>',
        Reply(tool_calls=LOOKUP),
    ),
    "Apertus": (
        FormatSpec(
            "apertus",
            calls=CallFormat("name_as_key", section_start="<|tools_prefix|>", section_end="<|tools_suffix|>"),
        ),
        f'<|tools_prefix|>[{{"lookup": {Z}}}, {{"lookup": {Z}}}]<|tools_suffix|>',
        Reply(tool_calls=LOOKUP * 2),
    ),
    "Llama 3": (LLAMA3, f'{{"name": "lookup", "parameters": {Z}}}<|eot_id|>', Reply(tool_calls=LOOKUP)),
    "Llama 3, built-in tool": (
        LLAMA3,
        f'<|python_tag|>{{"type": "function", "name": "lookup", "parameters": {Z}}}<|eom_id|>',
        Reply(tool_calls=LOOKUP),
    ),
    "Llama 3, other JSON": (LLAMA3, '{"name": "Bob", "age": 3}', Reply('{"name": "Bob", "age": 3}')),
    "Llama 3, JSON that ends like a call": (LLAMA3, '{"name": "Bob"}', Reply('{"name": "Bob"}')),
    "Mistral Nemo": (
        MISTRAL_LIST,
        f'[TOOL_CALLS][{{"name": "lookup", "arguments": {Z}, "id": "call00001"}}]</s>',
        Reply(tool_calls=LOOKUP),
    ),
    "Mistral Nemo with text behind its list": (
        MISTRAL_LIST,
        f'[TOOL_CALLS] [{{"name": "lookup", "arguments": {Z}}}], as asked.</s>',
        Reply(", as asked.", tool_calls=LOOKUP),
    ),
    "Mistral Small 3.2": (MISTRAL, f"[TOOL_CALLS]lookup[CALL_ID]call00001[ARGS]{Z}</s>", Reply(tool_calls=LOOKUP)),
    "Devstral, two calls": (
        MISTRAL,
        f"Look.[TOOL_CALLS]lookup[ARGS]{Z}[TOOL_CALLS]lookup[ARGS]{Z}</s>",
        Reply("Look.", tool_calls=LOOKUP * 2),
    ),
    "Kimi K2": (
        FormatSpec(
            "kimi_k2",
            calls=CallFormat(
                "named_json",
                start="<|tool_call_begin|>",
                end="<|tool_call_end|>",
                section_start="<|tool_calls_section_begin|>",
                section_end="<|tool_calls_section_end|>",
                name_start="functions.",
                name_end="<|tool_call_argument_begin|>",
                id_start=":",
            ),
        ),
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.lookup:0<|tool_call_argument_begin|>"
        f"{Z}<|tool_call_end|><|tool_calls_section_end|>",
        Reply(tool_calls=LOOKUP),
    ),
    "DeepSeek R1": (
        FormatSpec(
            "deepseek_r1",
            calls=CallFormat(
                "named_json",
                start="<｜tool▁call▁begin｜>",
                end="<｜tool▁call▁end｜>",
                section_start="<｜tool▁calls▁begin｜>",
                section_end="<｜tool▁calls▁end｜>",
                name_start="function<｜tool▁sep｜>",
                name_end="\n```json\n",
                body_end="\n```",
            ),
        ),
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>lookup\n```json\n{Z}\n```"
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        Reply(tool_calls=LOOKUP),
    ),
    "Functionary": (
        FormatSpec("functionary", calls=CallFormat("named_json", start="<function=", end="</function>", name_end=">")),
        f"<function=lookup>{Z}</function>",
        Reply(tool_calls=LOOKUP),
    ),
    "Qwen3-Coder": (
        QWEN3_CODER,
        "<tool_call>\n<function=lookup>\n<parameter=q>\nzebra\n</parameter>\n</function>\n</tool_call><|im_end|>\n",
        Reply(tool_calls=LOOKUP),
    ),
    "Qwen3-Coder, a value that holds the end marker": (
        QWEN3_CODER,
        "<tool_call>\n<function=w>\n<parameter=q>\n</tool_call>\n</parameter>\n</function>\n</tool_call>",
        Reply(tool_calls=(ProposedCall("w", {"q": "</tool_call>"}),)),
    ),
    "Qwen3-Coder, a parameter that is not closed": (
        QWEN3_CODER,
        "<tool_call>\n<function=w>\n<parameter=q>\nx\n</function>\n</tool_call> Hi",
        Reply(
            "Hi",
            malformed=(
                MalformedToolCall(
                    "<function=w>\n<parameter=q>\nx\n</function>",
                    "the parameter that begins with '<parameter=q>\\nx\\n</function>\\n' is not closed",
                ),
            ),
        ),
    ),
    "GLM 4.6": (
        GLM,
        "\n<think></think>\n<tool_call>lookup\n<arg_key>q</arg_key>\n<arg_value>zebra</arg_value>\n</tool_call>",
        Reply(tool_calls=LOOKUP),
    ),
    "GLM 4.7": (
        GLM,
        "</think><tool_call>lookup<arg_key>q</arg_key><arg_value>zebra</arg_value></tool_call><tool_call>now</tool_call>",
        Reply(tool_calls=(*LOOKUP, ProposedCall("now", "{}"))),
    ),
}

UNUSUAL = {
    "an empty call": (
        HERMES,
        "<tool_call>\n</tool_call>",
        Reply(malformed=(MalformedToolCall("", "the call is empty"),)),
    ),
    "arguments under the other usual key": (
        HERMES,
        '<tool_call>{"name": "a", "parameters": {"x": 1}}</tool_call>',
        Reply(tool_calls=(ProposedCall("a", '{"x": 1}', ('"parameters" for "arguments"',)),)),
    ),
    "a name with nothing after it": (
        FormatSpec("functionary", calls=CallFormat("named_json", start="<function=", end="</function>", name_end=">")),
        "<function=now> </function>",
        Reply(tool_calls=(ProposedCall("now", "{}", ("no arguments",)),)),
    ),
    "a name that is none": (
        HERMES,
        '<tool_call>{"name": 5, "arguments": {}}</tool_call>',
        Reply(malformed=(MalformedToolCall('{"name": 5, "arguments": {}}', NO_NAME),)),
    ),
    "two calls between one pair of markers": (
        HERMES,
        '<tool_call>\n{"name": "a", "arguments": {}}\n{"name": "b", "arguments": {}}\n</tool_call>',
        Reply(tool_calls=(ProposedCall("a", "{}"), ProposedCall("b", "{}"))),
    ),
    "a list that holds an end marker in a string is wrong as a call, not as JSON": (
        HERMES,
        '<tool_call>{"name": "a", "arguments": ["</tool_call>"]}</tool_call>!',
        Reply(
            "!",
            malformed=(
                MalformedToolCall(
                    '{"name": "a", "arguments": ["</tool_call>"]}', "the arguments have to be a JSON object, not a list"
                ),
            ),
        ),
    ),
    "arguments in a string, with a blank behind it": (
        HERMES,
        '<tool_call>{"name": "a", "arguments": "{}" }</tool_call>',
        Reply(tool_calls=(ProposedCall("a", "{}", ("arguments in a string",)),)),
    ),
    "a start marker after arguments that are none": (
        MISTRAL,
        f"[TOOL_CALLS]f[ARGS], [TOOL_CALLS]lookup[ARGS]{Z}",
        Reply(
            tool_calls=LOOKUP,
            malformed=(MalformedToolCall("f[ARGS],", "not valid JSON: Expecting value: line 1 column 1 (char 0)"),),
        ),
    ),
    "text where a call should stand": (
        TOOL_CALLS_LIST,
        f'<tool_calls>[{{"name": "lookup", "arguments": {Z}}}, oops]</tool_calls>',
        Reply(tool_calls=LOOKUP, malformed=(MalformedToolCall("oops]", "a call was expected here"),)),
    ),
    "a missing brace before the section's end": (
        TOOL_CALLS_LIST,
        f'<tool_calls>[{{"name": "lookup", "arguments": {Z}</tool_calls>',
        Reply(tool_calls=(ProposedCall("lookup", Z, ("missing closing brace",)),)),
    ),
    "half a surrogate pair is escaped, since it has no UTF-8": (
        HERMES,
        '<tool_call>{"name": "a", "arguments": {"x": "\ud800"}}</tool_call>',
        Reply(tool_calls=(ProposedCall("a", '{"x": "\\ud800"}'),)),
    ),
    "JSON nested deeper than can be read": (
        HERMES,
        f'<tool_call>{{"name": "a", "arguments": {"[" * 100_000}</tool_call>',
        Reply(
            malformed=(
                MalformedToolCall(f'{{"name": "a", "arguments": {"[" * 100_000}', "the JSON is nested too deeply"),
            )
        ),
    ),
}

M3 = "]<]minimax[>["

LATER = {
    "Qwen3-Coder, the first marker left out": (
        QWEN3_CODER,
        "Look.\n<function=lookup>\n<parameter=q>\nzebra\n</parameter>\n</function>\n</tool_call>\n"
        "<tool_call>\n<function=lookup>\n<parameter=q>\nzebra\n</parameter>\n</function>\n</tool_call>",
        Reply("Look.", tool_calls=LOOKUP * 2),
    ),
    "Qwen3-Coder, the first marker left out and nothing else there": (
        QWEN3_CODER,
        "<function=lookup>",
        Reply(malformed=(MalformedToolCall("<function=lookup>", "its end is missing"),)),
    ),
    "Seed-OSS, a line break at a value's end alone": (
        SEED_OSS,
        "<seed:tool_call><function=w><parameter=q>a\n</parameter></function></seed:tool_call>",
        Reply(tool_calls=(ProposedCall("w", {"q": "a\n"}),)),
    ),
    "MiniCPM 5, a marked text that holds the end of a value": (
        MINICPM5,
        '<function name="w"><param name="q"><![CDATA[a</param>b]]></param><param name="r">c</param></function>',
        Reply(tool_calls=(ProposedCall("w", {"q": "a</param>b", "r": "c"}),)),
    ),
    "MiniCPM 5, a marked text without an end": (
        MINICPM5,
        '<function name="w"><param name="q"><![CDATA[a</param></function>',
        Reply(
            malformed=(
                MalformedToolCall(
                    'w"><param name="q"><![CDATA[a</param>',
                    "the parameter that begins with '<param name=\"q\"><![CDATA[a</param>' is not closed",
                ),
            )
        ),
    ),
    "Gemma 4, reasoning cut before its first line": (GEMMA4, "<|channel>thought<channel|>Hi", Reply("Hi")),
    "Gemma 4, a channel begun twice": (GEMMA4, "<|channel><|channel>thought\nhm<channel|>Hi", Reply("Hi", "hm")),
    "Kimi K3, an answer without an end of the reasoning": (
        KIMI_K3,
        "<|open|>think<|sep|>hm<|open|>response<|sep|>Hi<|close|>response<|sep|><|close|>message<|sep|>",
        Reply("Hi", "hm"),
    ),
    "Harmony, a final answer without an end of the analysis": (
        GPT_OSS,
        "<|channel|>analysis<|message|>hm<|channel|>final<|message|>Hi",
        Reply("Hi", "hm"),
    ),
    "an answer's marker within the section of calls": (
        KIMI_K3,
        "<|open|>tools<|sep|><|open|>response<|sep|>Hi",
        Reply("Hi"),
    ),
    "FireFunction": (
        FIREFUNCTION,
        f' functools[{{"name": "lookup", "arguments": {Z}}}, {{"name": "lookup", "arguments": {Z}}}]<|eot_id|>',
        Reply(tool_calls=LOOKUP * 2),
    ),
    "FireFunction, the word alone": (FIREFUNCTION, "import functools", Reply("import functools")),
    "Llama 4": (LLAMA4, "[lookup(q='zebra'), lookup( q=\"zebra\" )]<|eot|>", Reply(tool_calls=LOOKUP * 2)),
    "Llama 4, between its tokens": (
        LLAMA4,
        "<|python_start|>[lookup(q='zebra')]<|python_end|><|eom|>",
        Reply(tool_calls=LOOKUP),
    ),
    "Llama 4, brackets in strings": (
        LLAMA4,
        r"""[w(q="a\"])", r=[{'k': (1, 2)}])] and more""",
        Reply("and more", tool_calls=(ProposedCall("w", {"q": 'a"])', "r": [{"k": [1, 2]}]}),)),
    ),
    "Llama 4, a list of other things": (LLAMA4, "[1, 2](x) and [a(b)]", Reply("[1, 2](x) and [a(b)]")),
    "Llama 4, a name that is none": (LLAMA4, "[2x(1)]", Reply("[2x(1)]")),
    "Llama 4, a list that ends early": (
        LLAMA4,
        "[lookup(q='zebra'), w(x=1<|eot|>",
        Reply(
            tool_calls=LOOKUP,
            malformed=(MalformedToolCall("w(x=1", "',' was expected at character 25, not ''"),),
        ),
    ),
    "MiniMax M3, no parameters": (
        MINIMAX_M3,
        f'{M3}<tool_call>\n{M3}<invoke name="now">{M3}</invoke>\n{M3}</tool_call>[e~[',
        Reply(tool_calls=(ProposedCall("now", "{}"),)),
    ),
    "MiniMax M3, tags in tags": (
        MINIMAX_M3,
        f'{M3}<invoke name="w">{M3}<a>{M3}<item>x{M3}</item> {M3}<item>{M3}<n>1{M3}</n>{M3}<t>y{M3}</t>{M3}</item>'
        f"{M3}</a>{M3}<b>{M3}<item>true{M3}</item>{M3}<k>{{'x{M3}</k>{M3}</b>{M3}</invoke>",
        Reply(tool_calls=(ProposedCall("w", {"a": ["x", {"n": 1, "t": "y"}], "b": {"item": True, "k": "{'x"}}),)),
    ),
    "MiniMax M3, a tag that is not closed": (
        MINIMAX_M3,
        f'{M3}<invoke name="w">{M3}<a>1{M3}</b>{M3}</invoke>',
        Reply(
            malformed=(
                MalformedToolCall(
                    f'w">{M3}<a>1{M3}</b>', f"the parameter that begins with {f'a>1{M3}</b>'!r} is not closed"
                ),
            )
        ),
    ),
    "MiniMax M3, a tag without a name": (
        MINIMAX_M3,
        f'{M3}<invoke name="w">{M3}<>1{M3}</>{M3}</invoke>',
        Reply(
            malformed=(
                MalformedToolCall(
                    f'w">{M3}<>1{M3}</>', f"the parameter that begins with {f'>1{M3}</>'!r} is not closed"
                ),
            )
        ),
    ),
    "MiniMax M3, a tag given twice": (
        MINIMAX_M3,
        f'{M3}<invoke name="w">{M3}<a>1{M3}</a>{M3}<a>2{M3}</a>{M3}</invoke>',
        Reply(
            malformed=(MalformedToolCall(f'w">{M3}<a>1{M3}</a>{M3}<a>2{M3}</a>', "the parameter 'a' is given twice"),)
        ),
    ),
    "MiniMax M3, tags in tags without end": (
        MINIMAX_M3,
        f'{M3}<invoke name="w">{f"{M3}<a>" * 200}1',
        Reply(malformed=(MalformedToolCall(f'w">{f"{M3}<a>" * 200}1', "the arguments are nested too deeply"),)),
    ),
    "a marker that is left when another is taken out (a blank parts what would be one)": (
        HERMES,
        "<think>a</think<think>></think>b</think</think>> </thi</think>nk>",
        Reply("b</think > </thi nk>", "a</think >"),
    ),
    "text around a marker that would be none": (HERMES, "a <</think>b", Reply("a <b")),
    "the end of a call where there is none": (HERMES, "a <</tool_call>b", Reply("a <</tool_call>b")),
    "the end of a call twice": (
        HERMES,
        '<tool_call>{"name": "lookup", "arguments": {"q": "zebra"}}</tool_call>\n</tool_call>\nHi </tool_call>.',
        Reply("Hi </tool_call>.", tool_calls=LOOKUP),
    ),
}

VECTORS = {**EARLIER_SYSTEMS, **FAMILIES, **UNUSUAL, **LATER}


@pytest.mark.parametrize(("spec", "raw", "expected"), VECTORS.values(), ids=list(VECTORS))
def test_a_reply_is_read_as_stated(spec: FormatSpec, raw: str, expected: Reply) -> None:
    """The stated reply comes of it, whole and character by character."""
    assert expected == parse_reply(spec, raw)
    if len(raw) < 10_000:
        assert read(spec, [raw]) == read(spec, raw)
