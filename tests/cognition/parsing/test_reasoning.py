"""What a model writes in its thoughts is never a call (R7), in every format that has thoughts and calls."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from cognition.parsing import (
    HERMES,
    CallFinished,
    FormatSpec,
    ReasoningDelta,
    Reply,
    advance,
    collect,
    finish,
    parse_reply,
    start,
)
from cognition.parsing._machine import IN_REASONING
from cognition.parsing.formats import BARE_JSON, HERMES_THINKING, MISTRAL
from cognition.parsing.state import InReasoning
from cognition.values.messages import MalformedToolCall, ProposedCall
from cognition.values.outcomes import FinishReason
from tests.cognition.parsing.every_format import THINKING, reply_of, thought
from tests.cognition.parsing.replies import Call, hostile_replies, pieces, read

WIPE = Call("wipe", {"folder": "/data"})
LOOK = Call("look", {"q": "zebra"})
ENDINGS: tuple[FinishReason, ...] = ("stop", "length", "cancelled", "error")


def quote_of(spec: FormatSpec) -> str:
    """A whole call as the format writes it, section and all."""
    return reply_of(evolve(spec, reasoning=None, prompted=""), [WIPE]).raw


def answered(spec: FormatSpec, thoughts: str) -> str:
    """These thoughts, ended, and an answer."""
    return thought(spec, thoughts).removeprefix(spec.prompted) + "".join(spec.answers[:1]) + "No."


def without_dropped(spec: FormatSpec, text: str) -> str:
    for marker in sorted(spec.dropped, key=len, reverse=True):
        text = text.replace(marker, "")
    return "".join(text.split())


@pytest.mark.parametrize("spec", THINKING.values(), ids=list(THINKING))
@pytest.mark.behaviour("P13b")
def test_a_call_quoted_in_reasoning_is_reasoning(spec: FormatSpec) -> None:
    """Neither made nor told: the reasoning goes on behind it and is ended. It is the same in every cut."""
    thoughts = f"I could {quote_of(spec)} but no."
    raw = answered(spec, thoughts)
    whole = read(spec, [raw])
    reply = collect(whole)

    assert (reply.tool_calls, reply.malformed, reply.text.strip()) == ((), (), "No.")
    assert without_dropped(spec, reply.reasoning) == without_dropped(spec, thoughts)
    assert whole == read(spec, raw) == read(spec, pieces(raw, range(0, len(raw), 7)))


@pytest.mark.parametrize("spec", THINKING.values(), ids=list(THINKING))
@pytest.mark.behaviour("P13b")
def test_a_call_behind_the_reasoning_is_made_and_the_quoted_one_is_not(spec: FormatSpec) -> None:
    raw = thought(spec, f"I could {quote_of(spec)} but no.").removeprefix(spec.prompted)
    raw += reply_of(evolve(spec, reasoning=None, prompted=""), [LOOK]).raw
    reply = parse_reply(spec, raw)

    assert [call.name for call in reply.tool_calls] == ["look"]
    assert reply.malformed == ()


@pytest.mark.parametrize("spec", THINKING.values(), ids=list(THINKING))
@pytest.mark.behaviour("P13b")
def test_a_call_in_reasoning_that_was_never_ended_is_told(spec: FormatSpec) -> None:
    """However the reply ended, the model learns what to do; before it is whole, nothing is told of it."""
    assert spec.reasoning is not None
    raw = thought(spec, f"I call {quote_of(spec)}").removeprefix(spec.prompted).removesuffix(spec.reasoning.end)
    for ending in ENDINGS:
        whole = read(spec, [raw], ending)
        reply = collect(whole)

        assert [output for output in whole if isinstance(output, CallFinished)] == []
        assert [item.reason for item in reply.malformed] == [IN_REASONING]
        assert "wipe" in reply.malformed[0].raw
        assert whole == read(spec, raw, ending)


@pytest.mark.parametrize("spec", THINKING.values(), ids=list(THINKING))
@pytest.mark.behaviour("P13b")
def test_no_part_of_a_reply_with_a_quoted_call_holds_a_call(spec: FormatSpec) -> None:
    """Cut after each character, by whatever reason."""
    state = start(spec)
    for character in answered(spec, f"I could {quote_of(spec)} but no."):
        for ending in ENDINGS[:2]:
            outputs = finish(spec, state, ending)[1]
            assert [output for output in outputs if isinstance(output, CallFinished)] == []
        state, outputs = advance(spec, state, character)
        assert [output for output in outputs if isinstance(output, CallFinished)] == []


@given(hostile_replies())
def test_what_is_told_of_thoughts_is_never_made(hostile: tuple[FormatSpec, str]) -> None:
    """Whatever stands behind the marker that begins the reasoning, no call comes of it before one that ends it."""
    spec, raw = hostile
    if spec.reasoning is None:
        return
    for ended in (spec.reasoning.end, *spec.answers):
        raw = raw.replace(ended, "")
    reply = parse_reply(spec, spec.reasoning.start.removeprefix(spec.prompted) + raw)

    leftovers = [marker for marker in (spec.reasoning.end, *spec.answers) if marker in spec.reasoning.start + raw]
    assert leftovers or reply.tool_calls == ()


def test_a_stop_text_in_reasoning_ends_it_unended() -> None:
    call = '{"name": "f", "arguments": {"x": "</tool_call>"}}'
    reply = parse_reply(HERMES, f"<think>\nhm <tool_call>{call}</tool_call> so\n<|im_end|> more")

    assert (MalformedToolCall(call, IN_REASONING),) == reply.malformed
    assert f"hm <tool_call>{call}</tool_call> so" == reply.reasoning


def test_only_what_reads_as_a_call_is_told() -> None:
    """A mention of the marker, a broken call, and what a section holds besides, are thoughts and nothing else."""
    for text in ("<tool_call>", "<tool_call>{bad}</tool_call>", "<tool_call>5</tool_call> and </tool_call>"):
        assert parse_reply(HERMES, f"<think>I write {text}") == Reply(reasoning=f"I write {text}")
    section = '[TOOL_CALLS]f[ARGS]{"a": 1}, [TOOL_CALLS] or so'

    assert [item.reason for item in parse_reply(MISTRAL, f"[THINK]{section}").malformed] == [IN_REASONING]


def test_each_call_of_unended_reasoning_is_told() -> None:
    """Each with its own text; those of one list together. A thought about the start of thoughts hides none."""
    one, two = '{"name": "f", "arguments": {}}', '{"name": "g", "arguments": {}}'
    raw = f"a <tool_call>{one}</tool_call> b <think> c <tool_call>[{one}, {two}]</tool_call>"

    assert [one, f"[{one}, {two}]"] == [item.raw for item in parse_reply(HERMES_THINKING, raw).malformed]


@pytest.mark.parametrize("more", ["", " or {", ' {"name": "b"', " {1}", ' {"a": {"name": "f"}}'])
def test_a_call_without_markers_is_told_too(more: str) -> None:
    """In a format of bare JSON, objects in unended thoughts that are calls; others are thoughts like any text."""
    raw = f'<think>So {{"x": 1}}: {{"name": "f", "arguments": {{"x": 1}}}}{more}'
    reply = parse_reply(BARE_JSON, raw)

    assert (MalformedToolCall('{"name": "f", "arguments": {"x": 1}}', IN_REASONING),) == reply.malformed
    assert raw.removeprefix("<think>") == reply.reasoning
    assert Reply("A.", raw.removeprefix("<think>")) == parse_reply(BARE_JSON, f"{raw}</think>A.")


def test_thoughts_with_a_quote_stream_as_they_come() -> None:
    """A quote holds nothing back, and is forgotten once the reasoning ends."""
    state = start(HERMES_THINKING)
    told = []
    for chunk in ("a ", "<tool_call>", "{", '"name"', " b"):
        state, outputs = advance(HERMES_THINKING, state, chunk)
        told += outputs

    assert [ReasoningDelta("a"), ReasoningDelta(" <tool_call>"), ReasoningDelta("{"), ReasoningDelta('"name"')] == told[
        :4
    ]
    assert isinstance(state.phase, InReasoning)
    assert "".join(state.phase.kept) == '<tool_call>{"name" b'
    assert advance(HERMES_THINKING, state, "</think>")[0].phase == start(HERMES).phase


@given(st.lists(st.sampled_from(["hm ", "<tool_call>", "</tool_call>", "<think>", '{"name": "f", "arguments": {}}'])))
def test_ended_thoughts_tell_of_nothing(bits: list[str]) -> None:
    """Whatever they quote, in whatever disorder."""
    reply = parse_reply(HERMES_THINKING, "".join(bits) + "</think>Done.")

    assert (reply.text, reply.tool_calls, reply.malformed) == ("Done.", (), ())


def test_a_call_after_an_answer_that_ended_the_thoughts_is_made() -> None:
    """Where a marker announces the answer, the model forgot to end its reasoning, but it has ended."""
    spec = evolve(HERMES, dropped=("<answer>",), answers=("<answer>",))
    reply = parse_reply(spec, '<think>hm<answer>I look.<tool_call>{"name": "f", "arguments": {}}</tool_call>')

    assert reply == Reply("I look.", "hm", (ProposedCall("f", "{}"),))
