"""What can't be read is told with its reason, so that the model can mend it; what is merely odd is read."""

from __future__ import annotations

import json

import pytest

from cognition.parsing import FormatSpec, parse_reply
from cognition.parsing._machine import LONGEST_HEAD
from cognition.parsing.formats import (
    APERTUS,
    BARE_JSON,
    GEMMA4,
    GLM,
    HERMES,
    KIMI_K2,
    LFM2,
    LLAMA3,
    MISTRAL,
    QWEN3_CODER,
)
from tests.cognition.parsing.replies import read

REASONS: dict[str, tuple[FormatSpec, str, str]] = {
    "no call at all": (HERMES, "<tool_call>[]</tool_call>", "the list of calls is empty"),
    "a list of a comma": (HERMES, "<tool_call>[,]</tool_call>", "the list of calls is empty"),
    "a number": (HERMES, "<tool_call>5</tool_call>", "a call has to be a JSON object"),
    "a key given twice, and brackets without end": (
        HERMES,
        f'<tool_call>{{"name": "f", "arguments": {{"a": {{"x": 1, "x": 2}}, "b": {"[" * 5000}',
        "the key 'x' is given twice",
    ),
    "two names": (APERTUS, '<|tools_prefix|>[{"a": {}, "b": {}}]<|tools_suffix|>', "an object with one key"),
    "arguments that are prose": (
        HERMES,
        '<tool_call>{"name": "f", "arguments": "well, five"}</tool_call>',
        "the arguments are a string that holds no JSON object",
    ),
    "two objects of arguments in a string": (
        HERMES,
        '<tool_call>{"name": "f", "arguments": "{} {}"}</tool_call>',
        "the arguments are a string that holds several values",
    ),
    "two objects of arguments": (
        KIMI_K2,
        "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{} {}<|tool_call_end|>",
        "the arguments have to be one JSON object",
    ),
    "a list without its comma": (
        HERMES,
        '<tool_call>[{"name": "f", "arguments": {}} {"name": "g", "arguments": {}}]</tool_call>',
        "expecting ',' or ']' at character 32",
    ),
    "a list with something behind it": (
        HERMES,
        '<tool_call>[{"name": "f", "arguments": {}}]]</tool_call>',
        "extra text at character 32",
    ),
    "a number that JSON has not": (
        HERMES,
        '<tool_call>{"name": "f", "arguments": {"x": 1e999},}</tool_call>',
        "the number 1e999 is larger than any that can be read",
    ),
    "a name and nothing behind it": (MISTRAL, "[TOOL_CALLS]f", "'[ARGS]' is missing after the name"),
    "text between key and value": (
        GLM,
        "<tool_call>f<arg_key>a</arg_key> is <arg_value>1</arg_value></tool_call>",
        "is not closed",
    ),
    "a parameter given twice": (
        QWEN3_CODER,
        "<function=f><parameter=a>1</parameter><parameter=a>2</parameter></function></tool_call>",
        "the parameter 'a' is given twice",
    ),
    "text behind a parameter": (
        QWEN3_CODER,
        "<function=f><parameter=a>1</parameter> or so</function></tool_call>",
        "a parameter was expected, not 'or so</function>'",
    ),
    "a name without its brace": (GEMMA4, "<|tool_call>call:f<tool_call|>", "'{' is missing after the name"),
    "text before the name": (
        QWEN3_CODER,
        "<tool_call>please <function=f></function></tool_call>",
        "the call has to begin with '<function='",
    ),
    "calls without a comma": (LFM2, "[f() g()]", "',' or ']' was expected after a call, not 'g()]'"),
    "an empty list in Python": (LFM2, "[]", "the list of calls is empty"),
    "an argument given twice": (LFM2, "[f(x=1, x=2)]", "the parameter 'x' is given twice"),
    "a word that is no value": (LFM2, "[f(x=five)]", "'five' is no value"),
    "a name of two lines": (
        QWEN3_CODER,
        "<tool_call>\n<function=f\n</function>\n</tool_call>",
        "a name was expected, not 'f\\n</function'",
    ),
    "a name that is none": (LFM2, "[(x=1)]", "a name was expected at character 1"),
    "too many brackets": (LFM2, f"[f(x={'[' * 2000}", "the arguments are nested too deeply"),
}


@pytest.mark.parametrize(("spec", "text", "reason"), REASONS.values(), ids=list(REASONS))
def test_a_call_that_can_not_be_read_says_why(spec: FormatSpec, text: str, reason: str) -> None:
    """The reason is for the model: it names what is wrong with what was written."""
    if spec is LFM2:
        text = f"<|tool_call_start|>{text}<|tool_call_end|>"
    reply = parse_reply(spec, text)

    (malformed,) = reply.malformed
    assert reason in malformed.reason


READ: dict[str, tuple[FormatSpec, str, list[tuple[str, object]]]] = {
    "a comma at the end of the arguments": (
        LFM2,
        "<|tool_call_start|>[f(x=1,)]<|tool_call_end|>",
        [("f", {"x": 1})],
    ),
    "a comma at the end of a list": (
        LFM2,
        "<|tool_call_start|>[f(x=[1, 2,])]<|tool_call_end|>",
        [("f", {"x": [1, 2]})],
    ),
    "a quote that is escaped": (
        LFM2,
        "<|tool_call_start|>[f(x='it\\'s')]<|tool_call_end|>",
        [("f", {"x": "it's"})],
    ),
    "letters by their number": (
        LFM2,
        "<|tool_call_start|>[f(x='\\x41\\u00e9')]<|tool_call_end|>",
        [("f", {"x": "Aé"})],
    ),
    "a number that ends with its point": (GEMMA4, "<|tool_call>call:f{x:5.}<tool_call|>", [("f", {"x": 5.0})]),
    "a list that was not closed": (LFM2, "<|tool_call_start|>[f(x=1)", [("f", {"x": 1})]),
    "a name with an escape": (
        HERMES,
        '<tool_call>{"name": "f\\u0072om", "arguments": {}}</tool_call>',
        [("from", {})],
    ),
    "a name with an escape that JSON has not": (
        HERMES,
        '<tool_call>{"name": "f\\q", "arguments": {}}</tool_call>',
        [("f\\q", {})],
    ),
    "a marker in a string behind what was mended": (
        HERMES,
        """<tool_call>{"name": "f", "arguments": {'x': "a </tool_call> b"}}</tool_call>""",
        [("f", {"x": "a </tool_call> b"})],
    ),
    "a marker in the string of a call that was mended": (
        HERMES,
        '<tool_call>{"name": "f", "arguments": {"x": "a </tool_call> b"},}</tool_call>',
        [("f", {"x": "a </tool_call> b"})],
    ),
}


@pytest.mark.parametrize(("spec", "text", "calls"), READ.values(), ids=list(READ))
def test_a_call_that_is_written_oddly_is_read(spec: FormatSpec, text: str, calls: list[tuple[str, object]]) -> None:
    reply = parse_reply(spec, text)

    assert calls == [(call.name, json.loads(call.arguments_json)) for call in reply.tool_calls]
    assert read(spec, text) == read(spec, [text])


@pytest.mark.parametrize(
    ("broken", "rest", "names"),
    [
        ("bad(x=b'z')", "", ["f", "g"]),
        ("bad(x=[1, b'a)'], y={'k': (1)})", "", ["f", "g"]),
        ("sum(x=1e999)", "", ["f", "g"]),
        ("bad(x)", "", ["f", "g"]),
        ("bad(x=five]", "bad(x=five], g()", ["f"]),
        ("bad(x=five, y='it')", "", ["f", "g"]),
        ("bad(x=five, y=(1", "bad(x=five, y=(1, g()", ["f"]),
        ("bad(x='a 'b', y=c')", "bad(x='a 'b', y=c'), g()", ["f"]),
        ("bad(x=five, y='a)", "bad(x=five, y='a), g()", ["f"]),
    ],
)
def test_a_call_behind_a_broken_one_counts_where_that_one_ends_beyond_doubt(
    broken: str, rest: str, names: list[str]
) -> None:
    """Its brackets and its quotation marks have to agree; otherwise what looks like a call may be a part of a text."""
    text = f"<|tool_call_start|>[f(), {broken}, g()]<|tool_call_end|>"
    reply = parse_reply(LFM2, text)

    assert names == [call.name for call in reply.tool_calls]
    assert [rest + "]" if rest else broken] == [each.raw for each in reply.malformed]
    assert read(LFM2, text) == read(LFM2, [text])


def test_a_quote_left_open_hides_neither_the_text_nor_the_call_behind_it() -> None:
    """The first call ends at its marker although a string is open there; what comes then is read for itself."""
    text = (
        '<tool_call>{"name": "a", "arguments": {"x": "oops}}</tool_call> said "quoted'
        '<tool_call>{"name": "b", "arguments": {}}</tool_call>'
    )
    reply = parse_reply(HERMES, text)

    assert (reply.tool_calls[-1].name, reply.tool_calls[-1].arguments_json) == ("b", "{}")
    assert "quoted" in reply.text
    assert read(HERMES, text) == read(HERMES, [text])


def test_what_is_no_call_after_all_is_read_as_text_in_every_cut() -> None:
    """Where it is found to be too long for the beginning of a call, a marker may have begun in an earlier piece."""
    head = '{"name": "'
    text = head + "x" * (LONGEST_HEAD - len(head) - 6) + "<think>Hmm.</think>Done."
    whole = read(BARE_JSON, [text])

    assert all(read(BARE_JSON, [text[:cut], text[cut:]]) == whole for cut in range(LONGEST_HEAD - 10, len(text)))


def test_a_call_without_a_marker_ends_with_its_brace() -> None:
    reply = parse_reply(LLAMA3, '{"name": "f", "parameters": {"x": 1}}')

    assert [(call.name, call.arguments_json) for call in reply.tool_calls] == [("f", '{"x": 1}')]
