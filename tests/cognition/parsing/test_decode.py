"""What makes a call of its text: the usual way, the general one, and what may have been left out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from cognition.parsing import HERMES, FormatSpec, parse_reply
from cognition.parsing._decode import decode
from cognition.parsing.formats import MINIMAX_M2, MISTRAL, QWEN3_CODER
from cognition.values.messages import ProposedCall

assert HERMES.calls is not None
CALLS = HERMES.calls

BLANKS = st.text(" \t\r\n", max_size=2)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.just("\ud83d"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.text(max_size=4) | st.sampled_from(["f", " f ", "", " ", 'a"b', "a\\b", "\ud83d"])
ARGUMENTS = st.dictionaries(st.text(max_size=3), VALUES, max_size=3) | VALUES


@st.composite
def calls(draw: st.DrawFn) -> str:
    """Calls as most are written, some of them with a mistake."""
    ascii_only = draw(st.booleans())
    name, arguments = (json.dumps(draw(part), ensure_ascii=ascii_only) for part in (NAMES, ARGUMENTS))
    key = draw(st.sampled_from(["arguments", "arguments", "parameters", "name"]))
    ending = draw(st.sampled_from(["}", "}", "}", "}}", "", ', "id": 1}', ',"name":"g"}', ',"arguments":{}}']))
    parts = ["{", '"name"', ":", name, ",", f'"{key}"', ":", arguments, ending]
    return "".join(part + draw(BLANKS) for part in parts)


def in_a_list(text: str) -> object:
    """What the general way makes of a call: a list of one is not the usual one."""
    (decoded,) = decode(CALLS, f"[{text}]").calls
    return decoded


@given(calls())
def test_the_quicker_way_reads_what_the_general_one_reads(text: str) -> None:
    """A call that is read at once is the one that it is in a list; what only mending reads is not compared."""
    decoded = decode(CALLS, text).calls
    right = [call for call in decoded if isinstance(call, ProposedCall) and not call.repairs]

    assert not right or [in_a_list(text)] == right == decoded


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ('{"name": "f", "arguments": {"a": [1]}}', ProposedCall("f", '{"a": [1]}')),
        ('\n{"name" :" f ","arguments":\t{} }\n', ProposedCall("f", "{}")),
        ('{"name": "f", "arguments": {"a": "\ud83d"}}', ProposedCall("f", '{"a": "\\ud83d"}')),
        ('{"name": "\\u0066", "arguments": {}}', ProposedCall("f", "{}")),
        ('{"name": "f", "arguments": {}, "id": 1}', ProposedCall("f", "{}")),
        ('{"name": "f", "arguments": {"a": 1,}}', ProposedCall("f", '{"a": 1}', ("trailing comma",))),
    ],
)
def test_a_call_with_its_name_and_its_arguments_is_read(text: str, call: ProposedCall) -> None:
    """Its name, and its arguments to the byte, unless they had to be mended or can't be kept so."""
    assert [call] == decode(CALLS, text).calls


@pytest.mark.parametrize("name", ["", " ", "\\t"])
def test_a_call_needs_a_name(name: str) -> None:
    """White space is none."""
    (decoded,) = decode(CALLS, f'{{"name": "{name}", "arguments": {{}}}}').calls

    assert not isinstance(decoded, ProposedCall)


@pytest.mark.parametrize(
    ("spec", "raw", "call"),
    [
        (
            MINIMAX_M2,
            '<minimax:tool_call><invoke name="f"><parameter name="a">x</parameter>\n</minimax:tool_call>',
            ProposedCall("f", '{"a": "x"}', ("missing end of the call",)),
        ),
        (MISTRAL, '[TOOL_CALLS]f{"a": 1}', ProposedCall("f", '{"a": 1}', ("missing marker after the name",))),
    ],
)
def test_a_marker_that_was_left_out_is_noted_on_the_call(spec: FormatSpec, raw: str, call: ProposedCall) -> None:
    """Where what follows leaves no doubt about it."""
    reply = parse_reply(spec, raw)

    assert (call,) == reply.tool_calls


@pytest.mark.parametrize(
    ("spec", "raw"),
    [
        (MINIMAX_M2, '<minimax:tool_call><invoke name="f"><parameter name="a">x</parameter>\n'),
        (MINIMAX_M2, '<minimax:tool_call><invoke name="f">\n</minimax:tool_call>'),
        (MISTRAL, "[TOOL_CALLS]f"),
        (MISTRAL, '[TOOL_CALLS]see here {"a": 1}'),
        (QWEN3_CODER, "<tool_call>\n<function=f</function>\n</tool_call>"),
    ],
)
def test_what_leaves_a_doubt_is_no_call(spec: FormatSpec, raw: str) -> None:
    """A call that was cut, one of which only the name has come, and a name that is none go back to the model."""
    reply = parse_reply(spec, raw)

    assert (reply.tool_calls, len(reply.malformed)) == ((), 1)
