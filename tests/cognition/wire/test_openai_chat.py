"""OpenAI's chat completions, and what other servers make of them."""

from __future__ import annotations

import json

from hypothesis import given, strategies as st

from cognition import ProposedCall, Usage
from cognition.parsing import ArgumentsDelta, CallFinished, CallStarted, TextDelta
from tests.cognition.wire.sent import joined, pieces_of, read

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
