"""OpenAI's chat completions, and what other servers make of them."""

from __future__ import annotations

import json

from hypothesis import given, strategies as st

from cognition import ProposedCall, Usage
from cognition.parsing import ArgumentsDelta, CallFinished, CallStarted, TextDelta
from cognition.wire import Decoder, advance, finish
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
