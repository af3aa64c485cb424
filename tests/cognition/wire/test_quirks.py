"""Streams as servers write them, each in its own way: written here by what their documentation and sources say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from cognition import AssistantMessage, ProposedCall, ToolCall, ToolMessage, ToolSpec, Usage, UserMessage
from cognition.parsing import ArgumentsDelta, CallFinished, CallMalformed, CallStarted, TextDelta
from cognition.values.outcomes import Failure
from cognition.wire import QUIRKS, WireReply, decode_body, encode
from tests.cognition.wire.sent import asked, joined, read

ADDED = ProposedCall("add", '{"a": 1}')


def chunks(*events: Any, end: str = "data: [DONE]\n\n") -> bytes:
    """A stream of these events; a text stands for itself."""
    told = (one if isinstance(one, str) else f"data: {json.dumps(one)}\n\n" for one in events)
    return "".join((*told, end)).encode()


def chunk(delta: Any, reason: str | None = None, **more: Any) -> Any:
    return {"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": reason, **more}]}


def tool(name: str | None = None, arguments: Any = None, **more: Any) -> Any:
    function = {"name": name, "arguments": arguments}
    return {"tool_calls": [{"function": {key: value for key, value in function.items() if value is not None}, **more}]}


def reply_to(*events: Any, server: str = "openai", end: str = "data: [DONE]\n\n", **more: Any) -> WireReply:
    return read("openai", [chunks(*events, end=end)], quirks=QUIRKS[server], **more)[1]


def test_llama_server() -> None:
    """Thoughts as ``reasoning_content``, a call's name with its first piece, counts and times in the last chunk."""
    reply = reply_to(
        chunk({"role": "assistant", "content": None}),
        chunk({"reasoning_content": "I had "}),
        chunk({"reasoning_content": "better add."}),
        chunk(tool("add", "{", index=0, id="Zx1", type="function")),
        chunk(tool(None, '"a": 1}', index=0)),
        chunk({}, "tool_calls"),
        {
            "choices": [],
            "usage": {"prompt_tokens": 20, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 16}},
            "timings": {"cache_n": 16, "predicted_per_second": 40.5},
        },
        server="llama-server",
    )

    assert (reply.reasoning, reply.calls, reply.usage) == ("I had better add.", (ADDED,), Usage(20, 4, 16))


def test_llama_server_reports_a_failure_within_a_stream() -> None:
    """Newer builds as an event of data; older ones as a field ``error``, which is none of the standard's."""
    error = {"code": 500, "message": "Context size has been exceeded.", "type": "server_error"}
    for told in ({"error": error}, f"error: {json.dumps(error)}\n\n"):
        reply = reply_to(chunk({"content": "It"}), told, end="")
        assert reply.failure == Failure("Context size has been exceeded.", None, 500, "server_error")
        assert (reply.text, reply.finish_reason) == ("It", "error")


@given(st.text(" \n\t", max_size=4), st.text(" \n\t", max_size=4), st.booleans(), st.sampled_from(["mlx", "openai"]))
def test_white_space_behind_thoughts_is_the_templates(first: str, second: str, thought: bool, server: str) -> None:
    """``mlx_lm.server`` leaves it there; what was not thought about, and other servers' text, begins as it was said."""
    before = [chunk({"reasoning": "The sum is asked for.\n"})] if thought else []
    told = (chunk({"content": text}) for text in (first, f"{second}It is\n", "\n40."))
    outputs, reply = read("openai", [chunks(*before, *told)], quirks=QUIRKS[server])

    assert reply.text == ("" if thought and server == "mlx" else first + second) + "It is\n\n40."
    assert [one.text for one in joined(outputs) if isinstance(one, TextDelta)] == [reply.text]


def test_vllm_and_mlx_lm_server() -> None:
    """Thoughts as ``reasoning``, comments while the prompt is read, calls at once and without a further index."""
    reply = reply_to(
        ": keepalive 512/2048\n\n",
        chunk({"role": "assistant", "reasoning": "Hm."}),
        chunk({"role": "assistant", "tool_calls": [
            {"index": 0, "id": "u1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}},
            {"index": 1, "id": "u2", "type": "function", "function": {"name": "mcp.far.look", "arguments": "{}"}},
        ]}, "tool_calls"),
        {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 3}},
        server="mlx",
    )  # fmt: skip

    assert (reply.reasoning, reply.calls) == ("Hm.", (ADDED, ProposedCall("mcp.far.look", "{}")))
    assert reply.usage == Usage(9, 3)


def test_deepseek() -> None:
    """The usage stands in the last chunk that has a choice, and counts hits of the cache by a name of its own."""
    usage = {"prompt_tokens": 20, "completion_tokens": 4, "prompt_cache_hit_tokens": 18, "prompt_cache_miss_tokens": 2}
    reply = reply_to(
        ": keep-alive\n\n",
        chunk({"role": "assistant", "content": None, "reasoning_content": "Hm"}),
        chunk({"content": "Yes.", "reasoning_content": None}),
        {**chunk({"content": "", "reasoning_content": None}, "stop"), "usage": usage},
        server="deepseek",
    )

    assert (reply.text, reply.reasoning, reply.usage) == ("Yes.", "Hm", Usage(20, 4, 18))


def test_deepseek_ends_a_reply_for_want_of_resources() -> None:
    reply = reply_to(chunk({"content": "Y"}), chunk({}, "insufficient_system_resource"))

    assert reply.failure is not None
    assert (reply.failure.kind, reply.text) == ("transient", "Y")


def test_openrouter() -> None:
    """Comments, thoughts with a record of them that goes back as it was, and what the reply cost."""
    details = [{"type": "reasoning.text", "text": text, "format": "f", "index": 0} for text in ("I ", "add.")]
    signed = {"type": "reasoning.text", "signature": "s==", "format": "f", "index": 0}
    request = asked()
    _, reply = read(
        "openai",
        [chunks(
            ": OPENROUTER PROCESSING\n\n",
            *(chunk({"content": "", "reasoning": one["text"], "reasoning_details": [one]}) for one in details),
            chunk({"content": "", "reasoning": None, "reasoning_details": [signed]}),
            chunk(tool("add", '{"a": 1}', index=0, id="t1", type="function")),
            chunk({}, "tool_calls", native_finish_reason="tool_use"),
            {**chunk({"content": ""}), "usage": {"prompt_tokens": 9, "completion_tokens": 3, "cost": 0.0125}},
        )],
        request=request,
        quirks=QUIRKS["openrouter"],
    )  # fmt: skip
    assert (reply.reasoning, reply.calls) == ("I add.", (ADDED,))
    assert reply.usage == Usage(9, 3, 0, 0.0125)

    history = (UserMessage("m1", "Add"), AssistantMessage("m2", "", reply.reasoning, (), False, (), reply.continuation))
    body = json.loads(encode("openai", asked(*history), "m", quirks=QUIRKS["openrouter"]).body)
    assert body["messages"][1]["reasoning_details"] == [
        {"type": "reasoning.text", "text": "I add.", "signature": "s==", "format": "f", "index": 0}
    ]


def test_openrouter_reports_a_failure_within_a_stream() -> None:
    error = {"code": 429, "message": "Provider returned error", "metadata": {"raw": "slow down", "provider_name": "P"}}
    for told in ({"error": error, "choices": []}, chunk({"content": ""}, "error", error=error)):
        reply = reply_to(chunk({"content": "It"}), told)
        assert reply.failure == Failure("Provider returned error: slow down", None, 429)


def test_groq() -> None:
    """The usage may stand in ``x_groq``."""
    reply = reply_to(
        {**chunk({"role": "assistant", "content": ""}), "x_groq": {"id": "req_1"}},
        chunk({"content": "Yes."}),
        {**chunk({}, "stop"), "x_groq": {"id": "req_1", "usage": {"prompt_tokens": 9, "completion_tokens": 3}}},
        server="groq",
    )

    assert (reply.text, reply.usage) == ("Yes.", Usage(9, 3))


def test_mistral() -> None:
    """Content in parts, thoughts among them; ``model_length`` for the end of the context."""
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}
    reply = reply_to(
        chunk({"content": [thought]}),
        chunk({"content": [{"type": "text", "text": "Yes"}]}),
        {**chunk({"content": ""}, "model_length"), "usage": {"prompt_tokens": 9, "completion_tokens": 3}},
        server="mistral",
    )

    assert (reply.text, reply.reasoning, reply.finish_reason) == ("Yes", "Hm", "length")
    broken = reply_to(chunk({"content": ["x"]}))
    assert broken.failure is not None
    assert broken.failure.kind == "bad_output"


def test_gemini() -> None:
    """Calls without an index, each at once or in pieces; ``stop`` although there are some; signed thoughts."""
    signature = {"google": {"thought_signature": "sig=="}}
    reply = reply_to(
        chunk(tool("add", '{"a"', id="f1", type="function", extra_content=signature)),
        chunk(tool(None, ": 1}")),
        chunk({"tool_calls": [
            {"function": {"name": "weather", "arguments": "{}"}},
            {"function": {"name": "add", "arguments": {"a": 2}}, "id": "f3"},
        ]}),
        chunk({"role": "assistant"}, "stop"),
        server="gemini",
    )  # fmt: skip
    added = ProposedCall("add", '{"a": 2}')
    assert reply.calls == (ADDED, ProposedCall("weather", "{}"), added)
    assert reply.finish_reason == "tool_calls"

    calls = (ToolCall("f1", "add", '{"a": 1}'), ToolCall("f2", "weather"))
    for continuation, wanted in ((reply.continuation, "sig=="), ("", "skip_thought_signature_validator")):
        said = AssistantMessage("m", "", "", calls, False, (), continuation)
        body = json.loads(encode("openai", asked(said), "m", quirks=QUIRKS["gemini"]).body)
        one, other = body["messages"][0]["tool_calls"]
        assert one["extra_content"] == {"google": {"thought_signature": wanted}}
        assert "extra_content" not in other


def test_moonshot_tells_the_usage_within_the_choice() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "cached_tokens": 1}

    assert reply_to(chunk({"content": "Yes."}), chunk({}, "stop", usage=usage)).usage == Usage(9, 3)


def test_azure_begins_with_a_chunk_without_choices() -> None:
    reply = reply_to({"choices": [], "prompt_filter_results": []}, chunk({"content": "Yes."}), chunk({}, "stop"))

    assert (reply.text, reply.failure) == ("Yes.", None)


def test_names_that_come_in_pieces_again_and_again_or_late() -> None:
    """A name is announced when nothing can follow it: at its arguments, at the next call, or at the end."""
    request = asked(tools=[ToolSpec("get"), ToolSpec("get_all"), ToolSpec("add")])
    outputs, reply = read(
        "openai",
        [chunks(
            chunk(tool("get", index=0)),
            chunk(tool("_all", index=0)),
            chunk(tool("add", '{"a": ', index=1)),
            chunk(tool("add", "1}", index=1)),
            chunk(tool(None, "{}", index=2)),
            chunk(tool("ge", index=2)),
            chunk(tool("t", index=2)),
            chunk(tool(None, '{"x": 1}', index=3)),
            chunk({}, "stop"),
        )],
        request=request,
    )  # fmt: skip

    assert reply.calls == (ProposedCall("get_all", "{}"), ADDED, ProposedCall("get", "{}"))
    (malformed,) = reply.malformed
    assert (malformed.raw, malformed.reason) == ('{"x": 1}', "the call has no name")
    assert joined(outputs) == [
        CallStarted(0, "get_all"),
        CallStarted(1, "add"),
        ArgumentsDelta(1, '{"a": 1}'),
        CallStarted(2, "get"),
        ArgumentsDelta(2, "{}"),
        CallFinished(0, reply.calls[0]),
        CallFinished(1, ADDED),
        CallFinished(2, reply.calls[2]),
        CallMalformed(3, malformed),
    ]


def test_the_old_form_of_a_call_is_read() -> None:
    function = {"name": "add", "arguments": '{"a": 1}'}

    assert reply_to(chunk({"function_call": function}), chunk({}, "function_call")).calls == (ADDED,)


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("{", "not valid JSON"),
        ("[1]", "not a list"),
        ('{"a": 1, "a": 2}', "given twice"),
        ('{"a": NaN}', "NaN is no JSON number"),
        ('{"a": 1} {"a": 2}', "one JSON object"),
        ("3", "not a number"),
        ('{"a":' * 5000 + "1" + "}" * 5000, "nested too deeply"),
    ],
)
def test_arguments_that_can_t_be_read_are_told(written: str, reason: str) -> None:
    reply = reply_to(chunk(tool("add", written, index=0)), chunk({}, "tool_calls"))

    assert (reply.calls, reply.finish_reason, reply.failure) == ((), "tool_calls", None)
    assert reason in reply.malformed[0].reason
    assert reply.malformed[0].raw == f"add {written}"


def test_arguments_are_mended_as_those_of_local_models_are() -> None:
    reply = reply_to(chunk(tool("add", "{'a': True,}", index=0)), chunk({}, "tool_calls"))

    assert reply.calls == (ProposedCall("add", '{"a": true}', ("single quotes", "Python literal", "trailing comma")),)


def test_arguments_as_an_object_are_as_strict() -> None:
    """A key that the event gives twice makes it unusable, and a number that is none makes the call so."""
    once = json.dumps(chunk(tool("add", {"a": 1}, index=0)))
    twice = once.replace("1}", '1, "a": 2}')
    reply = reply_to(f"data: {twice}\n\n")
    assert reply.failure is not None
    assert "given twice" in reply.failure.message
    number = chunk(tool("add", {"a": 1}, index=0))
    reply = reply_to("data: " + json.dumps(number).replace("1}", "NaN}") + "\n\n", chunk({}, "stop"))
    assert "NaN" in reply.malformed[0].reason


def test_a_content_filter_leaves_no_answer() -> None:
    reply = reply_to(chunk({"content": "How to"}), chunk({}, "content_filter"))

    assert reply.failure == Failure("the provider's content filter stopped the reply", "fatal", code="content_filter")
    assert reply.text == "How to"


def test_a_refusal_is_an_answer_with_a_warning() -> None:
    reply = reply_to(chunk({"refusal": "I can't."}), chunk({}, "stop"))

    assert (reply.text, reply.failure) == ("I can't.", None)
    assert "refused" in reply.warnings[0]


def test_ends_that_are_not_known() -> None:
    """A word of the server's own is taken for the usual end; none at all is told, unless nothing had come."""
    assert "'tired'" in reply_to(chunk({"content": "a"}), chunk({}, "tired")).warnings[0]
    assert "did not say why" in reply_to(chunk({"content": "a"})).warnings[0]
    empty = reply_to()
    assert empty.failure is not None
    assert empty.failure.kind == "transient"
    behind = reply_to(chunk({"content": "a"}), chunk({}, "stop"), end="", cut=Failure("reset", "transient"))
    assert (behind.failure, behind.text) == (None, "a")
    assert "not known" in behind.warnings[0]


def test_what_follows_the_end_is_not_read() -> None:
    outputs, reply = read(
        "openai", [chunks(chunk({"content": "a"}), chunk({}, "stop")), chunks(chunk({"content": "b"}))]
    )

    assert (reply.text, joined(outputs)) == ("a", [TextDelta("a")])


@pytest.mark.parametrize(
    "event",
    [
        {"choices": 3},
        {"choices": [3]},
        {"choices": [{"delta": 3}]},
        {"choices": [{"delta": {"content": 3}}]},
        {"choices": [{"index": -1}]},
        {"choices": [{"delta": {"tool_calls": [{"index": True}]}}]},
        {"choices": [{"delta": {"tool_calls": [{"id": 3}]}}]},
    ],
)
def test_a_field_of_another_type_is_bad_output(event: Any) -> None:
    reply = reply_to(chunk({"content": "a"}), event)

    assert reply.failure is not None
    assert (reply.failure.kind, "which is not" in reply.failure.message) == ("bad_output", True)


def test_what_goes_back_to_a_server_has_its_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cognition.wire._replies.MOST_KEPT", 1)
    reply = reply_to(chunk({"reasoning_details": [{"index": 0, "data": "a"}, {"index": 1, "data": "b"}]}))

    assert reply.failure is not None
    assert "sent back" in reply.failure.message


def test_other_choices_are_not_read() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "b"}, "finish_reason": "length"}]}

    assert reply_to(chunk({"content": "a"}), other, chunk({}, "stop")).text == "a"


def test_an_answer_in_place_of_a_stream_is_read() -> None:
    """Some gateways answer a request for a stream with plain JSON, and the status of success."""
    error = b'\n{"error": {"message": "no", "type": "authentication_error"}}\n'
    _, reply = read("openai", [error])
    assert reply.failure == Failure("no", None, 401, "authentication_error")
    body = {"choices": [{"index": 0, "message": {"content": "Yes."}, "finish_reason": "stop"}]}
    for written in (json.dumps(body), json.dumps(body, indent=1)):
        assert read("openai", [written.encode()])[1].text == "Yes."
    for page in (b"<html>hello</html>", b"{", b'{"x": 1}', b""):
        _, reply = read("openai", [page])
        assert reply.failure is not None
    _, reply = read("openai", [b"x: 1\n" * 50_000 + b"{}"])
    assert reply.failure is not None


def test_lines_of_an_event_stream_are_read_as_the_standard_says() -> None:
    """A mark at the beginning, fields without a space or a colon, data of several lines, and what is not known."""
    data = (
        '\ufeff:a comment\nid: 7\nretry: 10\ndata:{"choices": [{"index": 0,\n'
        'data: "delta": {"content": "a"}}]}\nunknown: x\n\n'
        "event: message\n\ndata\n\n"
        'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}'
    )
    _, reply = read("openai", [data.encode()])

    assert (reply.text, reply.failure) == ("a", None)


def test_an_event_that_is_no_json_ends_the_reply() -> None:
    for told in ("data: {]\n\n", "data: 3\n\n", "data: " + "[" * 100_000 + "\n\n"):
        reply = reply_to(chunk({"content": "a"}), told, chunk({"content": "b"}))
        assert reply.failure is not None
        assert (reply.failure.kind, reply.text) == ("bad_output", "a")


# --------------------------------------------------------------------------------------------------- other formats


def test_responses_tell_why_they_failed() -> None:
    def ended(status: str, **more: Any) -> WireReply:
        told = {"type": f"response.{status}", "response": {"id": "r", "status": status, **more}}
        return read("responses", [chunks(told, end="")])[1]

    failed = ended("failed", error={"code": "rate_limit_exceeded", "message": "slow"})
    assert failed.failure == Failure("slow", None, 429, "rate_limit_exceeded")
    filtered = ended("incomplete", incomplete_details={"reason": "content_filter"})
    assert filtered.failure is not None
    assert ended("incomplete", incomplete_details=None).finish_reason == "length"
    for told in (
        {"type": "error", "code": "server_error", "message": "oh", "param": None, "sequence_number": 1},
        {"error": {"message": "oh", "type": "server_error"}},
    ):
        assert read("responses", [chunks(told, end="")])[1].failure == Failure("oh", None, 500, "server_error")


def test_responses_without_pieces_are_read_from_their_items() -> None:
    """Parts of a summary, a refusal, items of tools that the server runs, and arguments told at the end alone."""
    items = [
        {"type": "reasoning", "id": "rs", "summary": [{"text": "One."}, {"text": "Two."}]},
        {"type": "web_search_call", "id": "ws"},
        {"type": "message", "content": [{"type": "refusal", "refusal": "No."}]},
        {"type": "function_call", "call_id": "c", "name": "add", "arguments": '{"a": 1}'},
    ]
    events = [{"type": "response.output_item.done", "output_index": n, "item": item} for n, item in enumerate(items)]
    last = {"type": "response.completed", "response": {"status": "completed", "output": items}}
    _, reply = read("responses", [chunks({"type": "response.tool.thing"}, *events, last, end="")])

    assert (reply.text, reply.reasoning, reply.calls) == ("No.", "One.\n\nTwo.", (ADDED,))
    assert reply.continuation == "", "only encrypted thoughts can go back"
    parts = [
        {"type": f"response.reasoning_summary_{kind}", "output_index": 0, "summary_index": n, "delta": f"{n}."}
        for n in (0, 1)
        for kind in ("part.added", "text.delta")
    ]
    assert read("responses", [chunks(*parts, last, end="")])[1].reasoning == "0.\n\n1."


def test_responses_of_llama_server_have_no_places() -> None:
    """Items are known by their ids there, and told whole at the end of them and at the end of the reply."""
    items = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm"}]},
        {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "Well:"}]},
        {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "add", "arguments": '{"a": 1}'},
    ]
    events = [
        {"type": "response.output_item.added", "item": {**items[0], "content": []}},
        {"type": "response.reasoning_text.delta", "item_id": "rs_1", "delta": "Hm"},
        {"type": "response.output_item.added", "item": {**items[1], "content": []}},
        {"type": "response.output_text.delta", "item_id": "msg_1", "delta": "Well:"},
        {"type": "response.output_item.added", "item": {**items[2], "arguments": ""}},
        {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "delta": '{"a": 1}'},
        *({"type": "response.output_item.done", "item": item} for item in items),
        {"type": "response.completed", "response": {"status": "completed", "output": items}},
    ]
    for told in (events, [*events[:6], events[-1]]):
        _, reply = read("responses", [chunks(*told, end="")])
        assert (reply.failure, reply.text, reply.reasoning, reply.calls) == (None, "Well:", "Hm", (ADDED,))
    nameless = {"type": "response.output_text.delta", "delta": "Hi"}
    last = {"type": "response.completed", "response": {"status": "completed", "output": []}}
    assert read("responses", [chunks(nameless, last, end="")])[1].text == "Hi"


def test_responses_that_contradict_themselves_are_bad_output() -> None:
    item = {"type": "function_call", "call_id": "c", "name": "add", "arguments": ""}
    events = [
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": '{"a": 1}'},
        {"type": "response.function_call_arguments.done", "output_index": 0, "arguments": '{"a": 2}'},
    ]
    _, reply = read("responses", [chunks(*events, end="")])

    assert reply.failure is not None
    assert "two different texts" in reply.failure.message


def test_responses_get_their_thoughts_back_where_they_stood() -> None:
    items = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x=="},
        {"type": "message", "content": [{"type": "output_text", "text": "First."}]},
        {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "y=="},
        {"type": "function_call", "call_id": "c", "name": "add", "arguments": '{"a": 1}'},
        {"type": "reasoning", "id": "rs_3", "summary": [], "encrypted_content": "z=="},
    ]
    body = json.dumps({"object": "response", "status": "completed", "model": "m-1", "output": items}).encode()
    reply = decode_body("responses", asked(), body)

    said = AssistantMessage("m", reply.text, "", (ToolCall("c", "add", '{"a": 1}'),), False, (), reply.continuation)
    again = json.loads(encode("responses", asked(said), "m").body)["input"]
    told = [item.get("encrypted_content") or item.get("name") or item.get("content") for item in again[:4]]
    assert told == ["x==", "First.", "y==", "add"], "and none that nothing follows"
    other = json.loads(encode("responses", asked(said), "other").body)["input"]
    assert "encrypted_content" not in json.dumps(other), "no other model takes them"
    thinks = json.loads(encode("responses", asked(said, thinking=True), "m").body)
    assert thinks["include"] == ["reasoning.encrypted_content"]


def anthropic(*events: Any) -> bytes:
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


def block(index: int, begun: Any, *deltas: Any) -> list[Any]:
    return [
        {"type": "content_block_start", "index": index, "content_block": begun},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def anthropic_end(reason: str, **usage: int) -> list[Any]:
    return [{"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}, {"type": "message_stop"}]


ANTHROPIC_START = {
    "type": "message_start",
    "message": {
        "id": "r", "model": "m-1",
        "usage": {"input_tokens": 3, "cache_creation_input_tokens": 4, "cache_read_input_tokens": 5},
    },
}  # fmt: skip


def test_anthropic_thoughts_go_back_signed_and_where_they_stood() -> None:
    events = [
        ANTHROPIC_START,
        {"type": "ping"},
        *block(0, {"type": "thinking", "thinking": "", "signature": ""},
               {"type": "thinking_delta", "thinking": "I "}, {"type": "thinking_delta", "thinking": "add."},
               {"type": "signature_delta", "signature": "si"}, {"type": "signature_delta", "signature": "g=="}),
        *block(1, {"type": "redacted_thinking", "data": "secret"}),
        *block(2, {"type": "thinking", "thinking": "unsigned", "signature": ""}),
        *block(3, {"type": "server_tool_use", "id": "s", "name": "web"},
               {"type": "input_json_delta", "partial_json": "{"}, {"type": "citations_delta"}),
        *block(4, {"type": "tool_use", "id": "t", "name": "add", "input": {"a": 1}}),
        *anthropic_end("tool_use", output_tokens=7),
    ]  # fmt: skip
    _, reply = read("anthropic", [anthropic(*events)])
    assert (reply.reasoning, reply.calls, reply.usage) == ("I add.unsigned", (ADDED,), Usage(12, 7, 5))

    call = ToolCall("t", "add", '{"a": 1}')
    history = (
        UserMessage("m1", "Add"),
        AssistantMessage("m2", "", reply.reasoning, (call,), False, (), reply.continuation),
        ToolMessage("m3", "t", "add", "1"),
    )
    made = encode("anthropic", asked(*history, thinking=True), "m")
    body = json.loads(made.body)
    assert body["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "I add.", "signature": "sig=="},
        {"type": "redacted_thinking", "data": "secret"},
        {"type": "tool_use", "id": "t", "name": "add", "input": {"a": 1}},
    ]
    assert (body["thinking"]["type"], made.warnings) == ("adaptive", ())


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"dialect": "anthropic"}', "hidden"])
def test_anthropic_does_not_think_on_where_its_thoughts_were_not_kept(damage: str) -> None:
    """It refuses calls of its own without the thoughts before them, and thoughts that were changed."""
    if damage == "hidden":  # as in a recording, which hides what looks like a secret
        events = [ANTHROPIC_START, *block(0, {"type": "thinking", "thinking": "a", "signature": "sk-1234"})]
        _, reply = read("anthropic", [anthropic(*events, *anthropic_end("end_turn", output_tokens=1))])
        damage = reply.continuation.replace("sk-1234", "[secret]")
        assert "[secret]" in damage
    said = AssistantMessage("m", "", "Hm", (ToolCall("t", "add"),), False, (), damage)
    made = encode("anthropic", asked(said, thinking=True), "m")

    assert "thinking" not in json.loads(made.body)
    assert "does not think" in made.warnings[0]


def test_anthropic_reports_a_failure_within_a_stream() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    for told in (error, {"type": "new_kind", "error": {"type": "overloaded_error", "message": "Overloaded"}}):
        _, reply = read("anthropic", [anthropic(ANTHROPIC_START, told)])
        assert reply.failure == Failure("Overloaded", None, 529, "overloaded_error")
        assert reply.usage == Usage(12, 0, 5)
    _, reply = read("anthropic", [anthropic(ANTHROPIC_START, {"type": "new_kind"}, *anthropic_end("refusal"))])
    assert reply.failure is not None
    assert reply.failure.code == "refusal"


def test_anthropic_counts_may_be_told_late() -> None:
    """As its other hosts do: all of them at the end."""
    start = {"type": "message_start", "message": {"id": "r", "model": "m", "usage": None}}
    events = [
        start,
        *block(0, {"type": "text", "text": "Hi"}),
        *anthropic_end("end_turn", input_tokens=9, output_tokens=2),
    ]

    assert read("anthropic", [anthropic(*events)])[1].usage == Usage(9, 2)


def test_ollama_without_a_reason_and_with_an_error() -> None:
    old = b'{"message": {"content": "Hi"}, "done": false}\n\r\n{"message": {"content": ""}, "done": true}'
    assert read("ollama", [old])[1].finish_reason == "stop"
    failed = b'{"message": {"content": "Hi"}, "done": false}\n{"error": "an error was encountered: CUDA"}\n'
    _, reply = read("ollama", [failed])
    assert reply.failure == Failure("an error was encountered: CUDA", "transient")
    limit = b'{"error": "you have reached your usage limit, please upgrade: too many requests"}\n'
    assert read("ollama", [limit])[1].failure == Failure(json.loads(limit)["error"])
