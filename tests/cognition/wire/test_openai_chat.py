"""OpenAI's chat completions, and what other servers make of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from cognition import ProposedCall, Usage
from cognition.parsing import ArgumentsDelta, CallFinished, CallStarted, TextDelta, collect
from cognition.wire import Decoder, advance, decode_body, finish
from tests.cognition.wire.sent import asked, joined, pieces_of, read

PLAIN = b"""\
data: {"id": "c1", "model": "m-1", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "It is"}}]}

: keep-alive

data: {"choices": [{"index": 0, "delta": {"content": " \xc3\xbc."}, "finish_reason": null}], "usage": null}

data: {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "call_1", "type": "function",\
 "function": {"name": "add", "arguments": ""}}]}, "finish_reason": null}]}

data: {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": "{\\"a\\": "}}]}}]}

data: {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": "17}"}}]}}]}

data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}

data: {"choices": [], "usage": {"prompt_tokens": 21, "completion_tokens": 9,\
 "prompt_tokens_details": {"cached_tokens": 16}}}

data: [DONE]

"""


@given(st.lists(st.integers(0, 2000), max_size=12), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_a_reply_is_the_same_for_any_cut_of_its_bytes(cuts: list[int], end: bytes) -> None:
    """Joined, the outputs do not depend on where the network cuts, nor on how lines end."""
    data = PLAIN.replace(b"\n", end)
    outputs, reply = read("openai", pieces_of(data, cuts))

    call = ProposedCall("add", '{"a": 17}')
    assert joined(outputs) == [
        TextDelta("It is ü."),
        CallStarted(0, "add"),
        ArgumentsDelta(0, '{"a": 17}'),
        CallFinished(0, call),
    ]
    assert (reply.text, reply.calls, reply.finish_reason) == ("It is ü.", (call,), "tool_calls")
    assert (reply.usage, reply.model, reply.response_id) == (Usage(21, 9, 16), "m-1", "c1")
    assert (reply.failure, reply.warnings) == (None, ())


def test_arguments_come_in_halves_too() -> None:
    """As text within text: the halves of the JSON that holds them, and of the JSON that they are."""
    told = [r"{\"a\": \"\ud83d", r"\ude00\ud83d", r"\"}", r"\ud83d"]
    template = 'data: {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "%s"}}]}}]}\n\n'
    events = [template % one for one in told]
    named = events[0].replace('"function": {', '"function": {"name": "add", ')
    outputs, reply = read("openai", ["".join([named, *events[1:3], "data: [DONE]\n\n"]).encode()])
    assert reply.calls == (ProposedCall("add", '{"a": "😀\ufffd"}'),)
    assert ArgumentsDelta(0, '{"a": "😀\ufffd"}') in joined(outputs)
    _, reply = read("openai", ["".join([named, *events[1:], "data: [DONE]\n\n"]).encode()])
    assert reply.malformed[0].raw == 'add {"a": "😀\ufffd"}\ufffd'


def test_a_state_goes_on_elsewhere() -> None:
    decoder = Decoder("openai", asked())
    decoder.feed(PLAIN[:300])

    assert finish(decoder.plan, advance(decoder.plan, decoder.state, PLAIN[300:])[0]).text == "It is ü."
    assert not decoder.over


@given(st.integers(0, len(PLAIN)))
def test_a_reply_that_was_cut_is_no_success(place: int) -> None:
    """Only behind the server's own word for why the reply ended it is one; and nothing that was cut is a call."""
    _, reply = read("openai", [PLAIN[:place]])
    told = PLAIN.index(b'"tool_calls"}]}') + len(b'"tool_calls"}]}')

    if place >= told:
        assert reply.failure is None
        assert reply.calls == (ProposedCall("add", '{"a": 17}'),)
    else:
        assert reply.failure is not None
        assert reply.failure.kind == "transient"
        assert (reply.calls, reply.finish_reason) == ((), "error")
        assert json.dumps(reply.text)


def test_a_call_is_announced_at_the_end_if_no_earlier() -> None:
    """Of a name that no tool has, more may have come as long as nothing follows it."""
    event = b'data: {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"name": "unknown"}}]}}]}\n\n'
    outputs, reply = read("openai", [event, b"data: [DONE]\n\n"])

    assert reply.calls == (ProposedCall("unknown", "{}"),)
    assert outputs == (CallStarted(0, "unknown"), CallFinished(0, reply.calls[0]))


def test_the_end_of_a_line_may_be_cut_in_two() -> None:
    """An LF behind a CR ends no second line, also in the next piece."""
    data = PLAIN.replace(b"\n", b"\r\n")
    _, reply = read("openai", [data[at : at + 1] for at in range(len(data))])

    assert (reply.text, reply.failure) == ("It is ü.", None)


def call_piece(index: int, arguments: str, name: str = "", call: str = "") -> dict[str, Any]:
    function = {"arguments": arguments, **({"name": name} if name else {})}
    return {"index": index, "function": function, **({"id": call, "type": "function"} if call else {})}


def content(*deltas: dict[str, Any], finish: str = "stop") -> bytes:
    events = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}
    return "".join(f"data: {json.dumps(event)}\n\n" for event in (*events, end)).encode()


def stream_of(*pieces: dict[str, Any]) -> bytes:
    return content(*({"tool_calls": [piece]} for piece in pieces), finish="tool_calls")


def test_calls_of_one_index_are_separate_if_each_has_an_id() -> None:
    """Their pieces come one call after the other."""
    data = stream_of(
        call_piece(0, '{"a": ', "add", "c1"),
        call_piece(0, "1}"),
        call_piece(0, "", "add", "c2"),
        call_piece(0, '{"a": 2}', "", "c2"),
        call_piece(1, '{"a": 3}', "add", "c1"),
    )

    _, reply = read("openai", [data])

    assert reply.calls == tuple(ProposedCall("add", f'{{"a": {number}}}') for number in (1, 2, 3))


def test_another_id_without_a_name_begins_no_call() -> None:
    """Some servers make an id for each piece."""
    _, reply = read("openai", [stream_of(call_piece(0, '{"a": ', "add", "c1"), call_piece(0, "1}", "", "c2"))])

    assert reply.calls == (ProposedCall("add", '{"a": 1}'),)


THOUGHTS = {
    "<think>\nHm.\n</think>\n\nHello.": ("\nHm.\n", "Hello."),
    " \n<think>Hm.</think>": ("Hm.", ""),
    "<think>Hm. </thin": ("Hm. </thin", ""),
    "<think></think>Hello <think>x</think>": ("", "Hello <think>x</think>"),
    "Hello <think>x</think>": ("", "Hello <think>x</think>"),
    "  Hello": ("", "  Hello"),
    "<thinking>x": ("", "<thinking>x"),
    "<thi": ("", "<thi"),
    "<think>a</think></think>b": ("a", "</think>b"),
}


@pytest.mark.parametrize(("text", "read_as"), THOUGHTS.items())
def test_thoughts_at_the_beginning_of_a_text_are_reasoning(text: str, read_as: tuple[str, str]) -> None:
    """As of LM Studio, and of vLLM without a parser; streamed in any cut, and as a whole."""
    body = {"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]}
    whole = decode_body("openai", asked(), json.dumps(body).encode())
    assert (whole.reasoning, whole.text) == read_as
    for at in range(len(text) + 1):
        outputs, reply = read("openai", [content({"content": text[:at]}, {"content": text[at:]})])
        assert (reply.reasoning, reply.text) == read_as
        assert collect(outputs).text == reply.text
        assert collect(outputs).reasoning == reply.reasoning


def test_behind_reasoning_or_a_call_of_the_server_s_own_a_text_is_as_it_is() -> None:
    piece = call_piece(0, '{"a": 1}', "add", "c1")
    _, reasoned = read("openai", [content({"reasoning_content": "Hm."}, {"content": "<think>x</think>y"})])
    _, called = read("openai", [content({"content": "<th"}, {"tool_calls": [piece]}, {"content": "<think>y"})])

    assert (reasoned.reasoning, reasoned.text) == ("Hm.", "<think>x</think>y")
    assert (called.reasoning, called.text) == ("", "<th<think>y")
    assert called.calls == (ProposedCall("add", '{"a": 1}'),)


@given(st.lists(st.sampled_from(["<think>", "</think>", "<", "</", "think>", " ", "\n", "x"]), max_size=12))
def test_thoughts_are_the_same_in_any_cut(pieces: list[str]) -> None:
    text = "".join(pieces)
    whole = read("openai", [content({"content": text})])[1]
    cut = read("openai", [content(*({"content": piece} for piece in pieces))])[1]
    letters = read("openai", [content(*({"content": letter} for letter in text))])[1]

    assert (cut.reasoning, cut.text) == (letters.reasoning, letters.text) == (whole.reasoning, whole.text)
    if not text.lstrip().startswith("<think>"):
        assert (whole.reasoning, whole.text) == ("", text)
