"""Replies that mislead: told wrongly, too large, or with what could not go back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cognition import ProposedCall, Usage
from cognition.wire import QUIRKS, _replies as replies
from cognition.wire._conversation import continuation_of, read_continuation
from tests.cognition.wire.sent import asked, read
from tests.cognition.wire.test_quirks import anthropic, anthropic_end, block, chunk, chunks, reply_to, tool


@pytest.mark.parametrize(
    ("most", "written", "reason"), [(9, 9, "length"), (9, 8, "stop"), (9, None, "stop"), (None, 9, "stop")]
)
def test_llama_server_calls_a_response_completed_that_was_cut(
    most: int | None, written: int | None, reason: str
) -> None:
    """Only the number of its tokens shows it."""
    item = {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "It is "}]}
    response = {"status": "completed", "output": [item], "usage": written and {"output_tokens": written}}
    data = [chunks({"type": "response.completed", "response": response}, end="")]
    request, quirks = asked(max_tokens=most), QUIRKS["llama-server-responses"]

    assert read("responses", data, request=request, quirks=quirks)[1].finish_reason == reason
    assert read("responses", data, request=request)[1].finish_reason == "stop", "OpenAI's own says what it means"


def test_a_response_that_is_incomplete_was_cut_whatever_the_reason() -> None:
    """What had begun of a call then is none."""
    item = {"type": "function_call", "call_id": "c", "name": "add", "arguments": '{"a": 1'}
    response = {"status": "incomplete", "output": [item], "incomplete_details": {"reason": "steered"}}
    _, reply = read("responses", [chunks({"type": "response.incomplete", "response": response}, end="")])

    assert (reply.finish_reason, reply.calls) == ("length", ())
    assert reply.warnings == ("the server cut the reply for a reason that is not known, 'steered'",)


def test_anthropic_counts_may_be_told_in_parts() -> None:
    """What an event leaves out, or tells as none, stays as it was, each count for itself."""
    counts = {"input_tokens": 10, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 5}
    start = {"type": "message_start", "message": {"id": "r", "model": "m", "usage": counts}}
    late = anthropic_end("end_turn", input_tokens=33, output_tokens=2, cache_read_input_tokens=0)
    events = [start, *block(0, {"type": "text", "text": "Hi"}), *late]

    assert read("anthropic", [anthropic(*events)])[1].usage == Usage(45, 2, 7)


def test_an_index_that_is_null_is_none() -> None:
    """Some gateways write the fields that they don't fill."""
    detail = {"type": "reasoning.text", "index": None, "text": "Hm"}
    told = {"index": None, "delta": {"content": "Hi", "reasoning_details": [detail]}, "finish_reason": "stop"}

    assert reply_to({"choices": [told]}).text == "Hi"


def test_what_goes_back_counts_as_part_of_the_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fields that come at once, too: without a bound they could fill the memory."""
    monkeypatch.setattr(replies, "LARGEST_REPLY", 1000)
    details = [chunk({"reasoning_details": [{"index": at, "format": "f" * 300}]}) for at in range(5)]
    failure = reply_to(*details).failure

    assert failure is not None
    assert failure.message == "the reply has more than 1000 characters"


def test_a_name_has_its_bounds() -> None:
    """It is put together anew with each piece: pieces without end would take a time that grows by their square."""
    failure = reply_to(*[chunk(tool("n" * 1000, index=0)) for _ in range(5)]).failure

    assert failure is not None
    assert failure.message == "the reply has a call whose name has more than 4096 characters"


@pytest.mark.parametrize("depth", range(900, 1000, 10))
def test_what_is_nested_deeply_is_read_or_refused(depth: int) -> None:
    """Neither reading a reply nor keeping what goes back with it raises, at whatever depth."""
    told = signed_call("[" * depth + "]" * depth)
    _, reply = read("openai", [told])

    assert reply.calls == (ProposedCall("add"),) or reply.failure is not None


@pytest.mark.parametrize("signature", ["NaN", "-1e999"])
def test_what_is_no_json_is_not_kept(signature: str) -> None:
    """The next request could not be written."""
    _, reply = read("openai", [signed_call(signature)])

    assert (reply.calls, reply.continuation) == ((ProposedCall("add"),), "")


def test_what_is_no_json_is_not_taken_from_a_recording() -> None:
    kept = continuation_of("openai", "m", [(1, {"extra_content": 1})])
    strange: dict[str, Any] = json.loads(kept)
    strange["kept"] = '[[1, {"extra_content": NaN}]]'
    strange["checksum"] = 664757049
    assert read_continuation(kept, "openai", "m") != ()
    assert read_continuation(json.dumps(strange), "openai", "m") == ()


@pytest.mark.parametrize(
    ("model", "same"),
    [("m", True), ("m-2026-02-01", True), ("m@20260201", True), ("m-mini", False), ("m2", False), ("other", False)],
)
def test_what_was_kept_goes_back_to_the_same_model_alone(model: str, same: bool) -> None:
    """A model may be named with its date; one whose name is longer by a word is another."""
    kept = continuation_of("anthropic", model, [(0, {"type": "redacted_thinking", "data": "x"})])

    assert bool(read_continuation(kept, "anthropic", "m")) is same


def signed_call(signature: str) -> bytes:
    """A stream with one call, and this JSON within what goes back beside it."""
    call = f'{{"index": 0, "function": {{"name": "add", "arguments": "{{}}"}}, "extra_content": {{"s": {signature}}}}}'
    return f'data: {{"choices": [{{"delta": {{"tool_calls": [{call}]}}, "finish_reason": "tool_calls"}}]}}\n\n'.encode()
