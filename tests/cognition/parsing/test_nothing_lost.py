"""No text of a reply vanishes: it is shown, thought, part of a call or told, in every format."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from cognition.parsing import FormatSpec, parse_reply
from cognition.parsing.formats import HERMES, MUSE
from tests.cognition.parsing.every_format import CALLING, reply_of, thought
from tests.cognition.parsing.replies import WRITERS, Call, inner_markers_of, markers_of, read

QUOTED = '<atem:function_calls>\n<atem:invoke name="f">\n</atem:invoke>\n</atem:function_calls>'


def ends_of(spec: FormatSpec) -> list[str]:
    """What ends a call or a section of calls, and nothing else."""
    assert spec.calls is not None
    others = {*spec.stops, *spec.dropped, *((spec.reasoning.start, spec.reasoning.end) if spec.reasoning else ())}
    return [marker for marker in (spec.calls.end, spec.calls.section_end) if marker.strip() and marker not in others]


@pytest.mark.parametrize("spec", CALLING.values(), ids=list(CALLING))
@pytest.mark.behaviour("P13f")
def test_the_end_of_a_call_is_text_where_there_is_no_call(spec: FormatSpec) -> None:
    """In an answer and in reasoning, whole and in every cut. Right behind a call it is one too many."""
    for marker in ends_of(spec):
        quote = f'Write "{marker}" to end.'
        lead = "".join(spec.answers[:1])
        thoughts = thought(spec, quote) if spec.reasoning else ""
        raw = (thoughts + lead + quote).removeprefix(spec.prompted)
        reply = parse_reply(spec, raw)

        assert (reply.text, reply.tool_calls, reply.malformed) == (quote, (), ())
        assert (reply.reasoning == quote) == (spec.reasoning is not None)
        assert read(spec, [raw]) == read(spec, raw)
        once = reply_of(spec, [Call("f", {})]).raw
        assert parse_reply(spec, once) == parse_reply(spec, f"{once}\n{marker}")
        assert parse_reply(spec, f"{once} So {marker}.").text.endswith(f"So {marker}.")


def test_a_whole_call_of_muse_that_is_quoted_is_text() -> None:
    """It begins a call only behind its recipient."""
    reply = parse_reply(MUSE, f" to=user<|message|>I write\n{QUOTED}<|eot|>")

    assert f"I write\n{QUOTED}" == reply.text


def test_an_end_behind_a_call_and_more_markers_is_text_once_text_has_come() -> None:
    call = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'

    assert parse_reply(HERMES, f"{call}a <b></think> </tool_call>").text == "a <b> </tool_call>"
    assert parse_reply(HERMES, f"{call}<think>hm</think></tool_call>").text == "</tool_call>"
    assert parse_reply(HERMES, f"{call}</tool_call></tool_call>").text == ""


@pytest.mark.behaviour("P13f")
@given(st.sampled_from(list(WRITERS)), st.lists(st.integers(0, 200), max_size=12), st.sampled_from(["stop", "length"]))
def test_every_word_is_somewhere(name: str, bits: list[int], ending: str) -> None:
    """Of any disorder of markers and words: in the text, the reasoning, a call, or what is told of one."""
    spec, _ = WRITERS[name]
    pieces = [*markers_of(spec), *inner_markers_of(spec), "{", "}", '"', ", ", "\n", '{"name": "a", "arguments": {}}']
    pieces = [piece for piece in pieces if piece not in spec.stops]
    raw, words = "", []
    for place, bit in enumerate(bits):
        words.append(f"word{place}.")
        raw += pieces[bit % len(pieces)] + words[-1]
    reply = parse_reply(spec, raw, finish_reason="stop" if ending == "stop" else "length")
    told = [reply.text, reply.reasoning, *(item.raw for item in reply.malformed)]
    told += [part for call in reply.tool_calls for part in (call.name, call.arguments_json)]
    lost = [word for word in words if not any(word in part for part in told)]

    assert lost == [] or reply.tool_calls, raw  # what stands where an id does is a part of a call
