"""Servers that leave thoughts and calls in the text, as llama_cpp.server does: read there as a local model's are."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings, strategies as st

from cognition import Failure, MalformedToolCall, ProposedCall
from cognition.parsing import HERMES, CallFinished, CallMalformed, CallStarted, TextDelta, collect, parse_reply
from cognition.wire import QUIRKS, WireReply, WireState, advance, decode_body, finish, plan_of
from tests.cognition.wire.sent import TOOLS, asked, joined, pieces_of, read

SERVER = QUIRKS["llama-cpp-python"]
ADDED = ProposedCall("add", '{"a": 1}')
WRITTEN = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'

PARTS = st.sampled_from(
    [
        "<think>",
        "\nI should add.\n",
        "</think>",
        "\n\n",
        "It is 3.",
        WRITTEN,
        WRITTEN[:40],
        "<tool_call>",
        "</tool_call>",
        "{",
        "ü",
    ]
)


def stream(pieces: list[str], reason: str | None = "stop", end: str = "data: [DONE]\n\n") -> bytes:
    """As that server sends it: a piece of text an event, and at the end why."""
    deltas: list[tuple[Any, str | None]] = [
        ({"role": "assistant"}, None),
        *(({"content": one}, None) for one in pieces),
    ]
    told = [*deltas, ({}, reason)] if reason else deltas
    events = ({"choices": [{"index": 0, "delta": delta, "finish_reason": why}]} for delta, why in told)
    return ("".join(f"data: {json.dumps(event)}\n\n" for event in events) + end).encode()


def reply_to(pieces: list[str], reason: str | None = "stop", **more: Any) -> WireReply:
    return read("openai", [stream(pieces, reason)], quirks=SERVER, **more)[1]


@given(st.lists(PARTS, max_size=8), st.lists(st.integers(0, 3000), max_size=6), st.sampled_from(["stop", "length"]))
@settings(max_examples=60)
def test_it_is_read_as_a_local_models_text(pieces: list[str], cuts: list[int], reason: Any) -> None:
    """In any cut, as a stream and at once, in one go and from state to state; outputs and reply tell the same."""
    data = stream(pieces, reason)
    outputs, reply = read("openai", pieces_of(data, cuts), quirks=SERVER)
    local = parse_reply(HERMES, "".join(pieces), tools=TOOLS, finish_reason=reason)

    assert (reply.text, reply.reasoning, reply.calls, reply.malformed) == (
        local.text, local.reasoning, local.tool_calls, local.malformed,
    )  # fmt: skip
    assert collect(outputs) == local
    assert reply.finish_reason == ("tool_calls" if reason == "stop" and local.tool_calls else reason)
    assert reply.failure is None

    plan, state = plan_of("openai", asked(), SERVER), WireState()
    again = list[Any]()
    for piece in pieces_of(data, cuts):
        state, more = advance(plan, state, piece)
        again += more
    end = finish(plan, state)
    assert end == reply if pieces_of(data, cuts) else end.failure
    assert joined((*again, *end.outputs)) == joined(outputs)

    message = {"role": "assistant", "content": "".join(pieces)}
    body = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": reason}]}).encode()
    whole = decode_body("openai", asked(), body, SERVER)
    assert (whole.text, whole.calls, whole.malformed) == (reply.text, reply.calls, reply.malformed)


def test_calls_go_by_the_names_of_their_tools() -> None:
    """Also where the server takes no dots, and so was told of another name."""
    written = WRITTEN.replace('"add"', '"mcp_far_look"')
    quirks = evolve(SERVER, any_names=False)
    outputs, reply = read("openai", [stream([written])], quirks=quirks)

    assert [call.name for call in reply.calls] == ["mcp.far.look"]
    assert CallStarted(0, "mcp.far.look") in outputs


@pytest.mark.parametrize("end", ["", 'data: {"error": {"message": "it broke", "type": "server_error"}}\n\n'])
def test_no_call_of_a_reply_that_failed_counts(end: str) -> None:
    outputs, reply = read("openai", [stream(["Well.", WRITTEN, "<tool_call>no</tool_call>"], None, end)], quirks=SERVER)

    assert (reply.text, reply.calls, reply.finish_reason) == ("Well.", (), "error")
    assert MalformedToolCall('add {"a": 1}', "the reply broke off") in reply.malformed
    assert len(reply.malformed) == 2
    assert not [one for one in outputs if isinstance(one, CallFinished)]
    assert [one.malformed for one in outputs if isinstance(one, CallMalformed)] == [*reply.malformed]


def test_calls_that_the_server_has_read_pass_by() -> None:
    """What it is forced to call, that server says as a call, in the new form and the old one at once."""
    function = {"name": "add", "arguments": '{"a": 1}'}
    call = {
        "tool_calls": [{"index": 0, "id": "c", "type": "function", "function": function}],
        "function_call": function,
    }
    told = [{"content": "Hm."}, {"content": WRITTEN}, {"content": None, "reasoning": "So."}, call, {"content": WRITTEN}]
    events = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in told]
    events[-1]["choices"][0]["finish_reason"] = "tool_calls"
    data = "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode()
    outputs, reply = read("openai", [data], quirks=SERVER)

    assert (reply.text, reply.reasoning, reply.calls) == (f"Hm.{WRITTEN}", "So.", (ADDED, ADDED))
    assert [one.index for one in outputs if isinstance(one, CallStarted)] == [0, 1]
    assert [one.index for one in outputs if isinstance(one, CallFinished)] == [0, 1]
    assert "".join(one.text for one in outputs if isinstance(one, TextDelta)) == reply.text


def test_half_a_character_at_the_end_is_told() -> None:
    data = stream(["It is "]).replace(b"It is ", b"It is \\ud83d")

    assert read("openai", [data], quirks=SERVER)[1].text == "It is \ufffd"


def test_a_reply_without_its_reason_was_given_up() -> None:
    """llama_cpp.server ends a reply so when another request comes, unless ``--interrupt_requests False`` is said."""
    reply = reply_to(["It is "], None)

    assert (reply.text, reply.finish_reason) == ("It is ", "error")
    assert reply.failure == Failure(
        "the server gave the reply up, as for another request", "transient", code="incomplete_stream"
    )


def test_a_reply_without_a_word_was_refused() -> None:
    """llama_cpp.server says nothing else to a stream whose prompt is too long; a connection that was cut is one."""
    cut = Failure("gone", "transient")

    silent = read("openai", [], quirks=SERVER)[1].failure
    assert silent is not None
    assert (silent.kind, silent.code) == ("context_overflow", "empty_stream")
    assert read("openai", [], quirks=SERVER, cut=cut)[1].failure == cut
