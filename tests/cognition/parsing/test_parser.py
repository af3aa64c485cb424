"""What holds for every format, every reply and every way of cutting it into chunks."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from cognition.parsing import (
    FORMATS,
    HERMES,
    PLAIN,
    ArgumentsDelta,
    CallFinished,
    CallMalformed,
    CallStarted,
    FormatSpec,
    Output,
    Parser,
    ReasoningDelta,
    Reply,
    TextDelta,
    _machine as machine_module,
    advance,
    collect,
    finish,
    parse_reply,
    parser as parser_module,
    start,
)
from cognition.parsing._machine import LONGEST_HEAD, ParserRun
from cognition.parsing._plan import plan_of
from cognition.parsing.formats import BARE_JSON, GEMMA4, LFM2, LLAMA3, MISTRAL, QWEN3_CODER, TOOL_CALLS_LIST
from cognition.parsing.state import InCall
from cognition.values.messages import ProposedCall
from cognition.values.outcomes import FinishReason
from tests.cognition.parsing.replies import (
    Written,
    hostile_replies,
    markers_of,
    merged,
    pieces,
    read,
    replies,
    shown_markers,
)

CUTS = st.lists(st.integers(0, 10_000), max_size=6)
REASONS = st.sampled_from(["stop", "length", "cancelled"])
JSON_FORMATS = ("hermes", "llama3", "bare_json", "mistral", "mistral_list", "tool_calls_list")


@given(replies())
def test_a_reply_comes_back_as_it_was_meant(written: Written) -> None:
    """Text, reasoning and every call, argument for argument, are what the model meant to say."""
    reply = parse_reply(written.spec, written.raw)

    assert written.text == reply.text
    assert written.reasoning == reply.reasoning
    assert [(call.name, call.arguments) for call in written.calls] == [
        (call.name, json.loads(call.arguments_json)) for call in reply.tool_calls
    ]
    assert [()] * len(written.calls) == [call.repairs for call in reply.tool_calls]
    assert reply.malformed == ()


@given(replies(), CUTS)
def test_chunks_make_no_difference(written: Written, cuts: list[int]) -> None:
    """Whole, character by character and cut anywhere, a reply gives the same outputs."""
    whole = read(written.spec, [written.raw])

    assert whole == read(written.spec, written.raw)
    assert whole == read(written.spec, pieces(written.raw, cuts))


@given(hostile_replies(), CUTS, REASONS)
def test_chunks_make_no_difference_to_a_hostile_reply(
    hostile: tuple[FormatSpec, str], cuts: list[int], reason: FinishReason
) -> None:
    """Markers and JSON in any disorder raise nothing, and give the same outputs however they are cut."""
    spec, raw = hostile
    whole = read(spec, [raw], reason)

    assert whole == read(spec, raw, reason)
    assert whole == read(spec, pieces(raw, cuts), reason)


@pytest.mark.parametrize("spec", FORMATS.values(), ids=list(FORMATS))
@given(text=st.text())
def test_any_text_can_be_read(spec: FormatSpec, text: str) -> None:
    """No text raises, surrogates and control characters included."""
    outputs = read(spec, [text], "length")

    assert outputs == read(spec, text, "length")


@given(hostile_replies())
def test_no_marker_is_shown_in_its_role(hostile: tuple[FormatSpec, str]) -> None:
    """Neither text nor reasoning holds a marker, whatever the model wrote, but for ends and quotes of calls."""
    spec, raw = hostile
    parser = Parser(spec)
    outputs = [*parser.feed(raw), *parser.finish()]
    reply = collect(outputs)
    shown = [output for output in outputs if isinstance(output, TextDelta | ReasoningDelta)]

    for output in (*shown, TextDelta(reply.text), ReasoningDelta(reply.reasoning)):
        assert shown_markers(spec, output) == []


@given(hostile_replies(), CUTS)
def test_the_raw_text_is_kept(hostile: tuple[FormatSpec, str], cuts: list[int]) -> None:
    """What was fed can be had back to the character, though the outputs leave out markers and white space."""
    spec, raw = hostile
    parser = Parser(spec)
    for piece in pieces(raw, cuts):
        parser.feed(piece)
    parser.finish()
    parser.feed(" and more")

    assert raw + " and more" == parser.raw


@given(hostile_replies())
def test_the_parser_object_is_the_pure_function_with_a_memory(hostile: tuple[FormatSpec, str]) -> None:
    """``Parser`` says what ``advance`` and ``finish`` say, and old states can be read on from."""
    spec, raw = hostile
    parser, state = Parser(spec), start(spec)
    for character in raw:
        before, expected = state, parser.feed(character)
        state, outputs = advance(spec, before, character)
        assert expected == outputs
        assert advance(spec, before, character) == (state, outputs)

    assert parser.finish("length") == finish(spec, state, "length")[1]


@given(hostile_replies(), REASONS)
def test_each_call_is_announced_once_and_closed_once(hostile: tuple[FormatSpec, str], reason: FinishReason) -> None:
    """Calls count from 0, come one after the other, start before their arguments, and end exactly once."""
    spec, raw = hostile
    events = [output for output in read(spec, raw, reason) if not isinstance(output, TextDelta | ReasoningDelta)]
    closings = [output for output in events if isinstance(output, CallFinished | CallMalformed)]

    assert list(range(len(closings))) == [output.index for output in closings]
    assert sorted(output.index for output in events) == [output.index for output in events]
    for index in range(len(closings)):
        kinds = [type(output) for output in events if output.index == index]
        assert kinds.count(CallStarted) <= 1
        assert kinds[-1] in (CallFinished, CallMalformed)
        assert CallStarted not in kinds[1:]
        assert ArgumentsDelta not in kinds[:1]
        assert CallFinished not in kinds[:1]


@given(replies(JSON_FORMATS))
def test_argument_text_streams_as_it_was_written(written: Written) -> None:
    """The deltas of a call, joined, are its arguments to the byte."""
    outputs = read(written.spec, written.raw)
    streamed = [output.text for output in outputs if isinstance(output, ArgumentsDelta)]

    assert [output.call.arguments_json for output in outputs if isinstance(output, CallFinished)] == streamed


def test_text_and_arguments_come_as_soon_as_they_can() -> None:
    """Nothing waits that can no longer become a marker; what can, comes with the text that refutes it."""
    parser = Parser(HERMES)
    told = [parser.feed(chunk) for chunk in ("a <", " b", " <tool_cal", "k>", "<tool_call>", '{"name": "f", "argum')]
    told += [parser.feed(chunk) for chunk in ('ents": {"x', '": [1', ", 2]", "}", "}")]

    assert [
        (TextDelta("a"),),
        (TextDelta(" < b"),),
        (),
        (TextDelta(" <tool_calk>"),),
        (),
        (CallStarted(0, "f"),),
        (ArgumentsDelta(0, '{"x'),),
        (ArgumentsDelta(0, '": [1'),),
        (ArgumentsDelta(0, ", 2]"),),
        (ArgumentsDelta(0, "}"),),
        (),
    ] == told


def test_arguments_wait_for_a_name_that_comes_late() -> None:
    """A call is announced before its arguments, in whatever order the model wrote them."""
    outputs = read(HERMES, '<tool_call>{"arguments": {"x": 1}, "name": "f"}</tool_call>')

    assert outputs[:2] == [CallStarted(0, "f"), ArgumentsDelta(0, '{"x": 1}')]


@pytest.mark.parametrize(
    ("spec", "raw"),
    [
        (HERMES, '<tool_call>{"name": "f", "arguments": 5, "x": [1]}</tool_call>'),
        (HERMES, '<tool_call>{"name": "f", "arguments": 5}</tool_call>'),
        (BARE_JSON, '{"name": "f", "arguments": 5}'),
    ],
)
def test_arguments_that_are_no_object_end_where_their_value_ends(spec: FormatSpec, raw: str) -> None:
    """Neither the comma behind them nor the brace of the call belongs to them."""
    for chunks in ([raw], list(raw)):
        assert read(spec, chunks)[:2] == [CallStarted(0, "f"), ArgumentsDelta(0, "5")]


@pytest.mark.parametrize("between", ["", " ", ";", "; ", ";\n", " ; ", "\n", ",", " ,\n"])
@pytest.mark.parametrize("spec", [LLAMA3, BARE_JSON])
def test_a_sign_between_two_calls_without_markers_is_no_text(spec: FormatSpec, between: str) -> None:
    """Llama 3 writes a semicolon. One is read over, wherever the chunks end, and a second one is text."""
    one, two = '{"name": "f", "parameters": {"x": 1}}', '{"name": "g", "parameters": {}}'
    raw = one + between + two
    told = [read(spec, chunks) for chunks in ([raw], list(raw), [one, between, two], [one + between, two])]
    reply = collect(told[0])

    assert [told[0]] * len(told) == told
    assert ([call.name for call in reply.tool_calls], reply.text) == (["f", "g"], "")
    assert collect(read(spec, [one + ";;"])).text == ";"
    assert collect(read(spec, [one, between, "so"])).text.strip() == "so"


def test_a_sign_behind_a_call_with_a_marker_is_text() -> None:
    """Only where no marker announces calls is there need for one between them."""
    assert collect(read(HERMES, ['<tool_call>{"name": "f", "arguments": {}}</tool_call>; so'])).text == "; so"


def test_a_reading_can_be_gone_on_with_from_its_state() -> None:
    """In the middle of a call, of a string and of an escape; the parser that it was taken from is not disturbed."""
    raw = '<tool_call>{"name": "f", "arguments": {"x": "a\\"}"}}</tool_call> b'
    for cut in range(len(raw)):
        parser = Parser(HERMES)
        before = parser.feed(raw[:cut])
        state = parser.state
        after, outputs = advance(HERMES, state, raw[cut:])

        assert outputs == parser.feed(raw[cut:])
        assert after == parser.state
        assert parser.raw == raw
        assert read(HERMES, [raw]) == merged([*before, *outputs, *parser.finish()])


@pytest.mark.parametrize(
    ("spec", "raw"),
    [
        (QWEN3_CODER, "<tool_call>\n<function=>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>"),
        (HERMES, '<tool_call>{"name": "", "arguments": {"x": 1}}</tool_call>'),
        (MISTRAL, '[TOOL_CALLS] [ARGS]{"x": 1}'),
    ],
)
def test_a_call_without_a_name_is_malformed_and_nothing_else(spec: FormatSpec, raw: str) -> None:
    """It is not announced, and its arguments, which would belong to no call, are not streamed."""
    (closing,) = read(spec, [raw])

    assert isinstance(closing, CallMalformed)


# ----------------------------------------------------------------------------------------------- interruptions


@given(replies(), st.sampled_from(["length", "cancelled", "error"]), st.data())
def test_a_reply_that_breaks_off_loses_no_call(written: Written, reason: FinishReason, data: st.DataObject) -> None:
    """Wherever a reply is cut, each call that had begun is closed, and those that were complete are whole."""
    cut = data.draw(st.integers(0, len(written.raw)))
    outputs = read(written.spec, written.raw[:cut], reason)
    closings = [output for output in outputs if isinstance(output, CallFinished | CallMalformed)]
    begun = sum(place <= cut for place in written.announced)
    complete = sum(place <= cut for place in written.complete)

    assert begun == len(closings)
    assert [(call.name, call.arguments) for call in written.calls[:complete]] == [
        (output.call.name, json.loads(output.call.arguments_json))
        for output in closings[:complete]
        if isinstance(output, CallFinished)
    ]


def test_a_call_cut_at_each_place_is_finished_or_kept_as_it_stands() -> None:
    """Before its JSON is complete a cut call is malformed, with all of its text; then it is one that was not ended."""
    call = '{"name": "f", "arguments": {"x": "a}"}}'
    for cut in range(len(call) + 1):
        *_, closing = read(HERMES, ["<tool_call>\n" + call[:cut]], "length")

        if cut < len(call):
            assert isinstance(closing, CallMalformed)
            assert call[:cut].strip() == closing.malformed.raw
            assert closing.malformed.reason.startswith("the reply reached the token limit inside the call: ")
        else:
            assert closing == CallFinished(0, ProposedCall("f", '{"x": "a}"}'), terminated=False)


@pytest.mark.parametrize(
    ("spec", "call", "end"),
    [
        (HERMES, '<tool_call>\n{"name": "f", "arguments": {}}\n', "</tool_call>"),
        (LFM2, "<|tool_call_start|>[f()]", "<|tool_call_end|>"),
        (GEMMA4, "<|tool_call>call:f{}", "<tool_call|>"),
        (TOOL_CALLS_LIST, '<tool_calls>[{"name": "f", "arguments": {}}]', "</tool_calls>"),
    ],
)
def test_a_reply_that_breaks_off_in_an_end_marker_has_its_call(spec: FormatSpec, call: str, end: str) -> None:
    """What is there of the marker spoils no call that is complete, and is none itself."""
    for cut in range(len(end)):
        reply = parse_reply(spec, call + end[:cut], finish_reason="length")

        assert reply == Reply(tool_calls=(ProposedCall("f", "{}"),))


def test_text_before_a_possible_marker_is_let_go_at_the_end() -> None:
    """A reply that ends with the beginning of a marker ends with that text."""
    assert parse_reply(HERMES, "a <tool_ca", finish_reason="length") == Reply("a <tool_ca")


def test_nothing_is_read_after_a_stop_text() -> None:
    """What a runtime lets through behind the end of the turn is not the model's answer; it stays in ``raw``."""
    assert parse_reply(HERMES, "Hi<|im_end|>\n<|im_start|>user\n<tool_call>{}</tool_call>") == Reply("Hi")


# ------------------------------------------------------------------------------------------------ broken calls


def test_a_broken_call_takes_no_other_with_it() -> None:
    """A quote that is missing hides neither the end marker from the parser nor the calls and the text behind it."""
    good = '<tool_call>{"name": "g", "arguments": {"y": "z"}}</tool_call>'
    reply = parse_reply(HERMES, f'<tool_call>{{"name": "f", "arguments": {{"x": "a}}}}</tool_call>{good} and {good}.')

    assert [call.name for call in reply.tool_calls] == ["g", "g"]
    assert [item.raw for item in reply.malformed] == ['{"name": "f", "arguments": {"x": "a}}']
    assert reply.text == "and ."


@given(st.integers(1, 5), st.integers(0, 4))
def test_calls_without_end_markers_are_all_kept(count: int, good: int) -> None:
    """A new start marker ends the call before it."""
    calls = [f'<tool_call>\n{{"name": "f{n}", "arguments": {{"x": {n}}}}}\n' for n in range(count)]
    calls[good % count] += "</tool_call>"

    assert [f"f{n}" for n in range(count)] == [call.name for call in parse_reply(HERMES, "".join(calls)).tool_calls]


# -------------------------------------------------------------------------------------------------- white space


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("<think>\n\n</think>\n\nHi", Reply("Hi")),
        ("\n<think>\na\n\nb\n</think>\n\n Hi \n there", Reply("Hi \n there", "a\n\nb")),
        ("  Hi  ", Reply("  Hi  ")),
        (" \n ", Reply(" \n ")),
        ("<think>a</think> \n ", Reply("", "a")),
        ("A\n\n<tool_call>{}</tool_call>\n", Reply("A")),
        ("A\n<tool_call>{}</tool_call>\nB", Reply("A\n\nB")),
        ("<think>a</think>b<think>\nc</think>\nd", Reply("b\nd", "a\nc")),
    ],
)
def test_white_space_that_touches_a_marker_belongs_to_it(raw: str, expected: Reply) -> None:
    """Line breaks that a template writes around markers are not text, except between two pieces of it."""
    reply = parse_reply(HERMES, raw)

    assert expected == evolve(reply, malformed=())


def test_plain_text_is_left_alone() -> None:
    """Without markers in the format every character is text, and nothing waits."""
    parser = Parser(PLAIN)

    assert parser.feed(" \n<think> </tool_call> ") == (TextDelta(" \n<think> </tool_call> "),)
    assert parser.finish() == ()


# ------------------------------------------------------------------------------------------------------ the work


def characters_read(monkeypatch: pytest.MonkeyPatch, spec: FormatSpec, chunks: Iterable[str]) -> int:
    """How many characters all runs together were given, what was held back or read again counted each time."""
    total = 0

    class Counted(ParserRun):
        __slots__ = ()

        def read(self, text: str, **options: Any) -> tuple[Output, ...]:
            nonlocal total
            total += len(self.phase.held + text)
            return super().read(text, **options)

    with monkeypatch.context() as patch:
        patch.setattr(machine_module, "ParserRun", Counted)
        patch.setattr(parser_module, "ParserRun", Counted)
        read(spec, chunks)
    return total


WORST = {
    "broken calls": (HERMES, '<tool_call>{"x": "a}</tool_call>'),
    "broken calls of even quotes": (HERMES, '<tool_call>{"</tool_call>'),
    "start markers": (HERMES, "<tool_call>"),
    "ends of reasoning": (HERMES, "</think>\n"),
    "almost markers": (HERMES, "<tool_cal</thin"),
    "white space": (HERMES, " \n"),
    "braces": (BARE_JSON, '{ {"name": {"a'),
    "endless heads": (BARE_JSON, '{"name": "'),
}


@pytest.mark.parametrize(("spec", "unit"), WORST.values(), ids=list(WORST))
def test_the_work_grows_with_the_text_and_not_faster(
    spec: FormatSpec, unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice the text is twice the characters read, in one chunk and in many: nothing is read again and again."""
    for size in (1, 4, 10_000_000):
        once, twice = (
            characters_read(monkeypatch, spec, pieces(text, range(0, len(text), size)))
            for text in (unit * 300, unit * 600)
        )
        assert twice <= 2.2 * once + LONGEST_HEAD
        assert twice <= len(unit) * 600 * max(plan_of(spec).in_text.longest, 3)


def test_the_state_stays_small_in_a_long_call() -> None:
    """The text of a call is kept in a few pieces, and held back is never more than a marker lacks."""
    state = start(HERMES)
    longest = max(map(len, markers_of(HERMES)))
    for chunk in ["<tool_call>", '{"name": "f", "arguments": {"x": "', *(["word <"] * 5000)]:
        state, _ = advance(HERMES, state, chunk)
        assert len(state.phase.held) < longest
        if isinstance(state.phase, InCall):
            assert len(state.phase.raw) <= 16  # log2 of 30,000 characters, and one


def test_json_that_is_no_call_is_not_held_back_for_long() -> None:
    """In a format without call markers, text that could be a call is let go at the first key that no call has."""
    parser = Parser(BARE_JSON)

    assert parser.feed('{"title') == ()
    assert merged(parser.feed('"')) == [TextDelta('{"title"')]
    assert merged(parser.feed(': {"x": 1}}')) == [TextDelta(': {"x": 1}}')]
    assert len(collect(parser.feed('{"name": "' + "a" * (LONGEST_HEAD - 10))).text) == LONGEST_HEAD


def test_a_second_name_is_one_too_many() -> None:
    """However the reply is cut, the call is announced by its first name."""
    raw = '<tool_call>{"name": "add", "name": "", "arguments": {"a": 1}'

    whole = read(HERMES, [raw])

    assert whole[0] == CallStarted(0, "add")
    assert whole == read(HERMES, list(raw))
