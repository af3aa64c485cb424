"""A call that is damaged in one of the ways in which models damage calls is read as meant or reported."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

import pytest
from hypothesis import assume, example, given, settings, strategies as st

from cognition.parsing import FORMATS, FormatSpec, parse_reply
from cognition.parsing.formats import GEMMA4, GPT_OSS, LFM2, LLAMA4, OLMO3
from cognition.values.messages import ProposedCall
from cognition.values.tools import ToolSpec
from tests.cognition.parsing.every_format import CALLING, reply_of
from tests.cognition.parsing.replies import Call, read

KEYS = ("path", "q", "limit")
TOOLS = tuple(
    ToolSpec(name, "", {"type": "object", "properties": {key: {"type": "string"} for key in KEYS}})
    for name in ("seek", "save")
)


# ------------------------------------------------------------------------------------------------------- backslashes

WORDS = ["a", "new", "bin", "temp", "users", "x41", "d+", "s*", " ", '"', "'", "\n", "é", "0", "b", "f", "/", "$HOME"]
BACKSLASHED = st.lists(st.sampled_from([*WORDS, "\\", "\\", "\\\\"]), max_size=8).map("".join)
ARGUMENTS = st.dictionaries(st.sampled_from(KEYS), BACKSLASHED).map(
    lambda texts: {**texts, "q": texts.get("q", "") + " \\d"}  # one that is certainly no escape
)
IN_JSON = {name: spec for name, spec in CALLING.items() if spec.calls and "json" in spec.calls.shape}
APOSTROPHE = re.compile(r"\w\\'\w")


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@given(st.sampled_from(list(IN_JSON.values())), ARGUMENTS)
@example(FORMATS["hermes"], {"path": "C:\\bin\\new\\app.exe \\d"})
@example(FORMATS["hermes"], {"path": "C:\\bin\\new", "q": "\\d"})
@example(FORMATS["hermes"], {"q": "^\\s*\\bfern\\b"})
@example(FORMATS["hermes"], {"q": "\\s\n"})
@example(FORMATS["hermes"], {"q": "'\\''"})
@example(FORMATS["hermes"], {"q": "\\server\\share\\d"})
@settings(max_examples=30)
def test_backslashes_that_are_not_escaped_in_json_become_no_control_characters(
    spec: FormatSpec, arguments: dict[str, Any]
) -> None:
    """A text whose damage makes other JSON can't be told from one that was meant so."""
    right = reply_of(spec, [Call("seek", arguments)]).raw
    written = json.dumps(arguments, ensure_ascii=False)
    damaged = written.replace("\\\\", "\\")
    assume(written in right and not is_json(damaged))
    assume(not APOSTROPHE.search(damaged))  # as in it\\'s, which has one meaning
    wrong = right.replace(written, damaged)

    reply = parse_reply(spec, wrong)

    got = [json.loads(one.arguments_json) for one in reply.tool_calls]
    assert got in ([], [arguments])
    assert got or reply.malformed or spec.calls is None or not spec.calls.start
    assert read(spec, wrong) == read(spec, [wrong])


def python_call(spec: FormatSpec, arguments: dict[str, str], quote: str) -> str:
    """A call whose texts have escaped backslashes and unescaped quotation marks."""
    assert spec.calls is not None
    texts = {key: value.replace("\\", "\\\\").replace("\n", "\\n") for key, value in arguments.items()}
    body = ", ".join(f"{key}={quote}{value}{quote}" for key, value in texts.items())
    return f"{spec.calls.start}[seek({body})]{spec.calls.end}"


def is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


CODE = st.lists(
    st.sampled_from(
        ["it's", "don't ", "print('hi')", "f('x', y=\"z\")", "say ", "'red'", '"red"', ", ", "(", ")", "\\d", "\\n",
         "''", " 'a' 'b'", "\n", "= ", "x", "\\'", "sed -n '10,20p' ", "{'k': [1]}", "']", "')"]
    ),
    max_size=5,
).map("".join)  # fmt: skip


INVALID = re.compile(r"(?<!\\)(?:\\\\)*\\[^\\'\"abfnrtvxuUN0-7\n]")


@given(st.sampled_from([LFM2, LLAMA4, OLMO3]), ARGUMENTS)
@example(LFM2, {"path": "C:\\bin\\new", "q": "\\d"})
@settings(max_examples=30)
def test_backslashes_that_are_not_escaped_in_python_become_no_control_characters(
    spec: FormatSpec, arguments: dict[str, Any]
) -> None:
    """The same of Python's notation, where an unknown escape keeps its backslash."""
    assert spec.calls is not None
    body = ", ".join(f"{key}={value!r}" for key, value in arguments.items()).replace("\\\\", "\\")
    assume(INVALID.search(body))
    reply = parse_reply(spec, f"{spec.calls.start}[seek({body})]{spec.calls.end}")
    got = [json.loads(one.arguments_json) for one in reply.tool_calls]

    assert got in ([], [arguments])
    assert got or reply.malformed


@given(
    st.sampled_from([LFM2, LLAMA4, OLMO3]),
    st.dictionaries(st.sampled_from(KEYS), CODE, min_size=1),
    st.sampled_from(["'", '"', "'''", '"""']),
)
@example(LFM2, {"q": "draw(x, y, 'red', label='a')"}, "'")
@example(LFM2, {"q": "import os\nprint('hi')\n"}, "'''")
@example(LFM2, {"q": "print(')"}, "'")
@example(LFM2, {"q": "a' 'b"}, "'")
@example(LFM2, {"q": "sed -n '10,20p' /tmp/a"}, "'")
@settings(max_examples=30)
def test_quotes_that_are_not_escaped_in_python_cut_no_text(
    spec: FormatSpec, arguments: dict[str, str], quote: str
) -> None:
    """A text whose damage makes other Python can't be told from one that was meant so."""
    raw = python_call(spec, arguments, quote)
    body = raw.removeprefix(spec.calls.start).removesuffix(spec.calls.end) if spec.calls else raw
    assume(not is_python(body))
    reply = parse_reply(spec, raw)

    got = [json.loads(one.arguments_json) for one in reply.tool_calls]
    assert got in ([], [arguments])
    assert got or reply.malformed
    assert read(spec, raw) == read(spec, [raw])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'C:\\bin\\docs \\d'", "C:\\bin\\docs \\d"),
        ("'\\d+\\s'", "\\d+\\s"),
        ("'a\\\\d\\n'", "a\\d\n"),
        ("'''it's 'so' \\\\d'''", "it's 'so' \\d"),
        ("'it's'", "it's"),
    ],
)
def test_a_text_in_python_that_leaves_no_doubt_is_read(text: str, value: str) -> None:
    reply = parse_reply(LFM2, f"<|tool_call_start|>[seek(q={text})]<|tool_call_end|>")

    assert [json.loads(call.arguments_json) for call in reply.tool_calls] == [{"q": value}]


@pytest.mark.parametrize(
    "body",
    [
        "q='C:\\temp \\d'",
        "path='C:\\temp', q='\\d'",
        "q='it's \\' so'",
        "q='it's (', limit='x'",
        "q='it's', limit='a \\' b'",
        "q='red' or', limit='a \\' b'",
        "q='a''b'",
        "q='''a''' 'b'",
        "q='red', limit='a')'",
    ],
)
def test_a_text_in_python_that_leaves_a_doubt_is_told(body: str) -> None:
    """No part of it runs."""
    reply = parse_reply(LFM2, f"<|tool_call_start|>[seek({body})]<|tool_call_end|>")

    assert (reply.tool_calls, len(reply.malformed)) == ((), 1)


@pytest.mark.parametrize("text", ["it\\'s", "don\\'t \\'"])
def test_an_escaped_apostrophe_in_json_is_one_only_within_a_word(text: str) -> None:
    """A shell has its backslash between quotation marks on purpose."""
    reply = parse_reply(FORMATS["hermes"], f'<tool_call>{{"name": "seek", "arguments": {{"q": "{text}"}}}}</tool_call>')

    assert len(reply.malformed) == (text != "it\\'s")


# ------------------------------------------------------------------------------------------------ Gemma's quote token

TOKEN = '<|"|>'
SPOKEN = st.lists(
    st.sampled_from(['"yes"', "She said ", ", ", "n:1", "}", "[", '"', " to me", "limit:", "{", ".", "ok", '("a")']),
    max_size=6,
).map("".join)


@given(st.dictionaries(st.sampled_from(KEYS), SPOKEN, min_size=1))
@example({"q": 'She wrote "yes", and left', "limit": "x"})
@example({"q": 'a "b', "limit": 'c "d'})
@settings(max_examples=30)
def test_a_quote_token_within_a_text_is_a_quotation_mark_or_told(arguments: dict[str, str]) -> None:
    """Its pairs are, if what is behind them begins no other member."""
    body = ",".join(f"{key}:{TOKEN}{value.replace(chr(34), TOKEN)}{TOKEN}" for key, value in arguments.items())
    raw = f"<|tool_call>call:seek{{{body}}}<tool_call|>"
    reply = parse_reply(GEMMA4, raw)
    got = [json.loads(one.arguments_json) for one in reply.tool_calls]

    assert got in ([], [arguments])
    assert got or reply.malformed
    assert read(GEMMA4, raw) == read(GEMMA4, [raw])


def test_another_quote_token_within_a_text_is_told() -> None:
    """``<escape>`` looks like no quotation mark."""
    raw = "<start_function_call>call:f{q:<escape>a <escape>b<escape> c<escape>}<end_function_call>"

    assert len(parse_reply(FORMATS["functiongemma"], raw).malformed) == 1


# ---------------------------------------------------------------------------------------------------- tags

TAGGED = {name: spec for name, spec in CALLING.items() if spec.calls and spec.calls.parameters}
LINES = st.lists(st.sampled_from(["*.txt", "a b", "1 < 2", "<b>c</b>", "x", "\n"]), min_size=1, max_size=3).map("".join)
SLIPS = ("cut", "slash behind", "key", "other", "twice", "opening", "missing")


def slip(end: str, key: str, kind: str) -> str:
    """A wrong end of a parameter."""
    opening = end.replace("</", "<").replace("<|close|>", "<|open|>")
    return {
        "cut": end[:-1],
        "slash behind": end[:-1] + "/" + end[-1],
        "key": f"</{key}>",
        "other": "</value>",
        "twice": f"</{key}>{end}",
        "opening": opening,
        "missing": "",
    }[kind]


@given(
    st.sampled_from(list(TAGGED.values())),
    st.lists(LINES, min_size=2, max_size=3),
    st.sampled_from(SLIPS),
    st.integers(0, 3),
    st.booleans(),
)
@settings(max_examples=30)
def test_a_parameter_with_a_wrong_end_takes_in_no_tag(
    spec: FormatSpec, values: list[str], kind: str, place: int, known: bool
) -> None:
    """Neither the tag, nor the parameter or the call behind it."""
    assert spec.calls is not None
    assert spec.calls.parameters is not None
    nested = spec.calls.shape == "nested_tags"
    around = spec.calls.parameters
    assume(not (nested and any("<" in value for value in values)))
    # Without a schema, a text may well speak of parameters.
    assume(kind != "missing" or known)
    calls = [Call("seek", dict(zip(KEYS, values, strict=False))), Call("save", {"q": "y"})]
    right = reply_of(spec, calls).raw
    ends = [at for at in range(len(right)) if right.startswith(around.value_end, at)]
    at = ends[place % len(ends)]
    key = (*list(calls[0].arguments), "q")[ends.index(at)]
    end = around.value_end
    wrong = right[:at] + slip(end, key, kind) + "\n" + right[at + len(end) :]

    reply = parse_reply(spec, wrong, tools=TOOLS if known else ())

    got = [(one.name, json.loads(one.arguments_json)) for one in reply.tool_calls]
    meant = [(call.name, {key: plain(value) for key, value in call.arguments.items()}) for call in calls]
    assert all((name, {key: plain(value) for key, value in one.items()}) in meant for name, one in got), wrong
    assert len(got) == len(meant) or reply.malformed, wrong
    assert read(spec, wrong) == read(spec, [wrong])


def plain(value: object) -> object:
    """A text without the line breaks around it, which the damage adds."""
    return value.strip("\n") if isinstance(value, str) else value


# ------------------------------------------------------------------------------------------------- headers of gpt-oss

HEAD = ("<|channel|>", "<|start|>", "<|start|>assistant", "<|constrain|>", "<|message|>", "<|end|>")
BITS = (
    "analysis",
    "final",
    "commentary",
    "comment",
    "json",
    "code",
    "??",
    " to=functions.seek",
    " to=assistant",
    " ",
    "We",
)
BODY = '{"q": "x"}'


@given(
    st.lists(st.sampled_from([*HEAD, *BITS]), max_size=8).map("".join),
    st.sampled_from(["<|call|>", "<|return|>", "<|end|>", ""]),
)
@settings(max_examples=30)
@example(" to=functions.seek<|start|>", "<|call|>")
def test_no_header_shows_a_marker(head: str, end: str) -> None:
    """Whatever is in it; and a call in it is the one that was written."""
    raw = f"{head}<|message|>{BODY}{end}"
    reply = parse_reply(GPT_OSS, raw)
    quoted = "to=functions" in reply.reasoning  # a call in reasoning is quoted as it was written

    assert [marker for marker in HEAD if marker in reply.text] == []
    assert quoted or [marker for marker in HEAD if marker in reply.reasoning] == []
    assert all(json.loads(call.arguments_json) == {"q": "x"} for call in reply.tool_calls)
    assert {call.name for call in reply.tool_calls} <= {"seek", "assistant"}
    assert read(GPT_OSS, raw) == read(GPT_OSS, [raw])


HEADERS: dict[str, tuple[str, tuple[str, str, int, int]]] = {
    "a type between channel and recipient": (
        f"<|channel|>commentary json to=functions.seek<|message|>{BODY}<|call|>", ("", "", 1, 0),
    ),
    "a token between them": (
        f"<|channel|>commentary<|constrain|>json to=seek<|message|>{BODY}<|call|>", ("", "", 1, 0),
    ),
    "no end of the header": (f"<|channel|>comment to=functions.seek {BODY}<|call|>", ("", "", 1, 0)),
    "no message": ("<|channel|>comment to=functions.seek<|end|>", ("", "", 0, 1)),
    "cut behind the recipient": ("<|channel|>comment to=functions.seek", ("", "", 0, 1)),
    "a recipient before the channel": (
        f"<|end|><|start|>tool to=functions.seek<|channel|>commentary<|message|>{BODY}<|call|>", ("", "", 1, 0),
    ),
    "a role before the channel": ("<|end|><|start|>user<|channel|>final<|message|>Hi.<|end|>", ("Hi.", "", 0, 0)),
    "no channel": ("<|end|><|start|>user<|message|>Hi.<|end|>", ("Hi.", "", 0, 0)),
    "an unknown channel": ("<|channel|>thoughts<|message|>Hi.<|end|>", ("Hi.", "thoughts", 0, 0)),
    "reasoning with a type": ("<|channel|>analysis text<|message|>Hm.<|end|>", ("", "Hm.", 0, 0)),
    "cut within a channel": ("<|channel|>fin", ("", "", 0, 0)),
    "a channel and nothing else": ("<|channel|>final <|constrain|>json<|end|>", ("", "", 0, 0)),
    "an answer behind open reasoning": (
        "<|channel|>analysis<|message|>Hm.<|channel|>final answer<|message|>Hi.", ("Hi.", "Hm.", 0, 0),
    ),
    "more reasoning behind open reasoning": (
        "<|channel|>analysis<|message|>Hm.<|channel|>analysis text<|message|>Mh.<|end|>", ("", "Hm.Mh.", 0, 0),
    ),
    "a call in open reasoning": (
        f"<|channel|>analysis<|message|>Hm.<|channel|>comment to=seek<|message|>{BODY}<|call|>",
        ("", f"Hm.comment to=seek<|message|>{BODY}<|call|>", 0, 1),
    ),
    "two of them, and a header of reasoning": (
        f"<|channel|>analysis<|message|><|channel|>a to=seek<|message|>{BODY}<|call|><|channel|>analysis x<|message|>y",
        ("", f"a to=seek<|message|>{BODY}<|call|><|message|>y", 0, 1),
    ),
    "text without end": ("<|channel|>" + "so " * 400, ("", ("so " * 400).strip(), 0, 0)),
    "text without end in reasoning": (
        "<|channel|>analysis<|message|>Hm.<|channel|>" + "so " * 400, ("", "Hm." + ("so " * 400).strip(), 0, 0),
    ),
    "a call without end of its header": (f"<|channel|>to=seek {' ' * 1100}{BODY}<|call|>", ("", "", 1, 0)),
}  # fmt: skip


@pytest.mark.parametrize(("raw", "expected"), HEADERS.values(), ids=list(HEADERS))
def test_a_malformed_header_is_read_by_its_words(raw: str, expected: tuple[str, str, int, int]) -> None:
    """Text, reasoning, calls, and calls that are told."""
    reply = parse_reply(GPT_OSS, raw)
    got = (reply.text, reply.reasoning.strip(), len(reply.tool_calls), len(reply.malformed))

    assert got == expected
    assert all(call == ProposedCall("seek", BODY, call.repairs) for call in reply.tool_calls)
    assert read(GPT_OSS, raw) == read(GPT_OSS, [raw])
    if len(raw) < 400:
        assert all(read(GPT_OSS, [raw[:cut], raw[cut:]]) == read(GPT_OSS, [raw]) for cut in range(len(raw)))


# ------------------------------------------------------------------------------------------------- other parameters


@pytest.mark.parametrize("properties", [{}, {"properties": {"path": {"type": "string"}}}])
@pytest.mark.parametrize("spec", TAGGED.values(), ids=list(TAGGED))
def test_a_parameter_that_only_additional_properties_describe_is_typed(
    spec: FormatSpec, properties: dict[str, Any]
) -> None:
    """Where the format has no types of its own, as for the parameters with a name."""
    tool = ToolSpec("seek", "", {"type": "object", "additionalProperties": {"type": "integer"}, **properties})
    raw = reply_of(spec, [Call("seek", {"limit": "5", "arguments": "6"})]).raw
    (call,) = parse_reply(spec, raw, tools=[tool]).tool_calls
    texts = spec.calls is not None and spec.calls.parameters is not None and spec.calls.parameters.string_mark

    expected = {"limit": "5", "arguments": "6"} if texts else {"limit": 5, "arguments": 6}
    assert json.loads(call.arguments_json) == expected


def test_an_additional_parameter_may_be_called_arguments() -> None:
    """It is not taken for a wrapper of all arguments."""
    tool = ToolSpec("seek", "", {"type": "object", "additionalProperties": {"type": "object"}})
    raw = '<tool_call>\n<function=seek>\n<parameter=arguments>\n{"a": {}}\n</parameter>\n</function>\n</tool_call>'
    (call,) = parse_reply(FORMATS["qwen3_coder"], raw, tools=[tool]).tool_calls

    assert json.loads(call.arguments_json) == {"arguments": {"a": {}}}


QWEN_TAGS: dict[str, tuple[str, list[dict[str, str]]]] = {
    "a slash behind": ("*.txt\n</parameter/>\n<parameter=q>\nx", [{"path": "*.txt", "q": "x"}]),
    "a tag that is cut": ("*.txt\n</parameter\n<parameter=q>\nx", [{"path": "*.txt", "q": "x"}]),
    "half a tag": ("*.txt\n</para\n<parameter=q>\nx", [{"path": "*.txt", "q": "x"}]),
    "the parameter's name": ("*.txt\n</path>\n<parameter=q>\nx", [{"path": "*.txt", "q": "x"}]),
    "the parameter's name, opened before": ("<path>*.txt\n</path>\n<parameter=q>\nx", []),
    "another tag": ("*.txt\n</value>\n<parameter=q>\nx", []),
    "an opening tag": ("*.txt\n<parameter>\n<parameter=q>\nx", [{"path": "*.txt", "q": "x"}]),
    "a tag before a parameter that is no one's": ("*.txt\n</parameter\n<parameter=z>\nx", []),
    "both tags": ("*.txt\n</path>", []),
    "a tag that was opened": ("<path>*.txt</path>", [{"path": "<path>*.txt</path>"}]),
    "a call behind": ("*.txt\n</path>\n</function>\n</tool_call>\n<tool_call>\n<function=save>\n<parameter=q>\nx", []),
    "a marker without a name": ("<parameter=\n\n</b> <parameter=", [{"path": "<parameter=\n\n</b> <parameter="}]),
    "two lines": ("*.txt\n<parameter=z>\nx\n<parameter=q>\ny", [{"path": "*.txt\n<parameter=z>\nx\n<parameter=q>\ny"}]),
    "a forgotten end": ("*.txt\n<parameter=q>\nx", [{"path": "*.txt", "q": "x"}]),
}  # fmt: skip


@pytest.mark.parametrize(("value", "arguments"), QWEN_TAGS.values(), ids=list(QWEN_TAGS))
def test_a_wrong_end_is_read_where_it_can_be_nothing_else(value: str, arguments: list[dict[str, str]]) -> None:
    raw = f"<tool_call>\n<function=seek>\n<parameter=path>\n{value}\n</parameter>\n</function>\n</tool_call>"
    reply = parse_reply(FORMATS["qwen3_coder"], raw, tools=TOOLS)

    assert [json.loads(call.arguments_json) for call in reply.tool_calls] == arguments
    assert bool(reply.malformed) == (not arguments)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("glm", "<arg_key>q</arg_key><arg_value>a</q></tool_call><tool_call>save<arg_key>q</arg_key><arg_value>b"),
        ("glm", "<arg_key>path</key><arg_value>a</arg_value><arg_key>q</arg_key><arg_value>b"),
    ],
)  # fmt: skip
def test_a_call_behind_a_wrong_end_is_no_text(name: str, body: str) -> None:
    """Nor is a value a part of a name."""
    reply = parse_reply(FORMATS[name], f"<tool_call>seek{body}</arg_value></tool_call>", tools=TOOLS)

    assert reply.tool_calls == ()
    assert reply.malformed


@pytest.mark.parametrize("end", ["<|close|>argument<|sep|", "</argument>"])
def test_kimis_end_may_be_cut_but_not_written_otherwise(end: str) -> None:
    first = f'<|open|>argument key="path" type="string"<|sep|>a{end}\n'
    second = '<|open|>argument key="q" type="string"<|sep|>b<|close|>argument<|sep|>'
    raw = f'<|open|>tools<|sep|><|open|>call tool="seek" index="1"<|sep|>{first}{second}<|close|>call<|sep|>'
    reply = parse_reply(FORMATS["kimi_k3"], raw, tools=TOOLS)

    assert [json.loads(call.arguments_json) for call in reply.tool_calls] == (
        [{"path": "a", "q": "b"}] if end.startswith("<|close") else []
    )


@pytest.mark.parametrize(
    ("body", "arguments"),
    [
        (f"q:{TOKEN}a {TOKEN}b{TOKEN}, c{TOKEN}", [{"q": 'a "b", c'}]),
        (f"q:{TOKEN}a {TOKEN}b{TOKEN},n:{TOKEN}c {TOKEN}d{TOKEN}", []),
        (f"q:{TOKEN}a {TOKEN}b{TOKEN},{TOKEN}c{TOKEN}", []),
        (f"q:{TOKEN}a {TOKEN}b", []),
    ],
)
def test_a_pair_of_quote_tokens_is_a_quotation(body: str, arguments: list[dict[str, str]]) -> None:
    reply = parse_reply(GEMMA4, f"<|tool_call>call:seek{{{body}}}<tool_call|>")

    assert [json.loads(call.arguments_json) for call in reply.tool_calls] == arguments
    assert bool(reply.malformed) == (not arguments)
