r"""OpenAI's Responses API (https://platform.openai.com/docs/api-reference/responses).

A reply is a list of items. Each item arrives in events with its index. The last event contains the whole reply and its
status::

    data: {"type": "response.output_item.added", "output_index": 0,
           "item": {"type": "function_call", "call_id": "call_1", "name": "multiply", "arguments": ""}}

    data: {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "{\"a\": 17}"}

    data: {"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "output": [],
           "usage": {"input_tokens": 21, "output_tokens": 9}}}

The server stores no state: each request contains the whole conversation, including encrypted reasoning
(``WireReply.continuation``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from cognition.values.content import Image, Part
from cognition.wire._conversation import ReplyTurn, ResultTurn, Turn, insert_parts
from cognition.wire._errors import failure_in
from cognition.wire._fields import Object, inner_of, make_usage, number_in, object_in, objects_in, text_in, tokens_in
from cognition.wire._openai_chat import data_url
from cognition.wire._replies import ReplyBuilder
from cognition.wire._request_builder import RequestBuilder, WireRequest

PATH = "/responses"
PHASE = "phase"
"""The type of the stored parts that have the phase and the length of a message."""
KNOWN_CUTS = ("", "max_output_tokens", "content_filter")

# ------------------------------------------------------------------------------------------------------- a request


def encode(builder: RequestBuilder) -> WireRequest:
    body, request = builder.body, builder.request
    body["store"] = False
    if request.system:
        body["instructions"] = request.system
    body["input"] = [item for turn in builder.turns() for item in _items(builder, turn)]
    if builder.stream:
        body["stream"] = True
    if tools := builder.offered_tools():
        body["tools"] = [
            {
                "type": "function",
                "name": builder.names.to_wire[tool.name],
                "description": tool.description,
                "parameters": tool.parameters,
                "strict": builder.strict(tool.parameters),  # without it the server makes the schema another one
            }
            for tool in tools
        ]
        builder.put_choice(lambda name: {"name": name})
    if (schema := builder.reply_schema()) is not None:
        strict = builder.strict(schema)
        builder.put("text.format", {"type": "json_schema", "name": "reply", "schema": schema, "strict": strict})
    builder.sampling()
    builder.thinking()
    if request.options.thinking:
        body["include"] = ["reasoning.encrypted_content"]
    return builder.build(PATH)


def _items(builder: RequestBuilder, turn: Turn) -> list[Object]:
    if isinstance(turn, ResultTurn):
        return [{"type": "function_call_output", "call_id": turn.id, "output": turn.content}]
    if not isinstance(turn, ReplyTurn):
        return [{"role": "user", "content": [_part(builder, part) for part in turn.parts]}]
    told = _messages(turn.text, [value for _, value in turn.kept if value.get("type") == PHASE])
    told += [
        {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}
        for call in turn.calls
    ]
    kept = [(at, value) for at, value in turn.kept if value.get("type") != PHASE]
    return insert_parts(told, len(told) - len(turn.calls), kept)


def _messages(text: str, phases: Sequence[Mapping[str, Any]]) -> list[Object]:
    """Return the messages that a reply's text came as, each with its phase; one message if their lengths don't fit."""
    if not text:
        return []
    lengths = [value.get("length") for value in phases]
    whole = all(isinstance(length, int) and length > 0 for length in lengths)
    ends = list(accumulate(lengths)) if whole else []
    if ends[-1:] != [len(text)]:
        ends, phases = [len(text)], phases[-1:]
    messages: list[Object] = []
    for begin, end, value in zip([0, *ends], ends, phases or [{}], strict=False):
        # The type may be left out, says OpenAI, but without it llama-server refuses the request.
        message: Object = {"type": "message", "role": "assistant", "content": text[begin:end]}
        messages.append({**message, "phase": value["phase"]} if value.get("phase") else message)
    return messages


def _part(builder: RequestBuilder, part: Part) -> Object:
    builder.check_image(part)
    if isinstance(part, Image):
        return {"type": "input_image", "image_url": data_url(part), "detail": "auto"}
    return {"type": "input_text", "text": part.text}


# --------------------------------------------------------------------------------------------------------- a reply


def read(reply: ReplyBuilder, event: Object) -> None:
    """Read an event of a stream, or a whole body. Unknown kinds are skipped."""
    match text_in(event, "type"):
        case "response.output_item.added":
            item = object_in(event, "item")
            if item.get("type") == "function_call":
                reply.call(_key(event), text_in(item, "name"), text_in(item, "arguments"))
        case "response.output_item.done":
            _read_item(reply, _key(event), object_in(event, "item"))
        case "response.output_text.delta" | "response.refusal.delta":
            reply.first(f"text {_key(event)}")
            reply.add_text(text_in(event, "delta"))
        case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
            reply.first(f"thought {_key(event)}")
            reply.add_reasoning(text_in(event, "delta"))
        case "response.reasoning_summary_part.added":
            if number_in(event, "summary_index"):
                reply.add_reasoning("\n\n")
        case "response.function_call_arguments.delta":
            reply.call(_key(event), "", text_in(event, "delta"))
        case "response.function_call_arguments.done":
            reply.whole_arguments(_key(event), text_in(event, "arguments"))
        case "response.created" | "response.in_progress" | "response.queued":
            _read_head(reply, object_in(event, "response"))
        case "response.completed" | "response.incomplete" | "response.failed":
            _read_response(reply, object_in(event, "response"))
        case "error":
            reply.fail(failure_in(event))
        case _:
            if event.get("object") == "response":
                _read_response(reply, event)
            elif event.get("error"):
                reply.fail(failure_in(event))


def _key(event: Object) -> str:
    """Return the key of an event's item: its index, or its id if there is no index (llama-server)."""
    named = event.get("output_index") is None and (text_in(event, "item_id") or text_in(inner_of(event, "item"), "id"))
    return f"id {named}" if named else f"#{number_in(event, 'output_index')}"


def _read_head(reply: ReplyBuilder, response: Object) -> None:
    reply.response_id = text_in(response, "id")
    reply.model = text_in(response, "model")


def _read_item(reply: ReplyBuilder, key: str, item: Object) -> None:
    """Read a whole item, and skip the parts that already arrived in pieces."""
    if not reply.first(f"item {key}"):
        return
    match text_in(item, "type"):
        case "function_call":
            if key not in reply.calls:
                reply.call(key, text_in(item, "name"))
            reply.whole_arguments(key, text_in(item, "arguments"))
        case "message":
            if reply.first(f"text {key}"):
                for part in objects_in(item, "content"):
                    reply.add_text(text_in(part, "text") or text_in(part, "refusal"))
            if phase := text_in(item, "phase"):  # GPT-5.3 and later: commentary, or the final answer
                length = sum(
                    len(text_in(one, "text") or text_in(one, "refusal")) for one in objects_in(item, "content")
                )
                reply.keep(f"phase {key}", {"type": PHASE, "phase": phase, "length": length})
        case "reasoning":
            if reply.first(f"thought {key}"):
                texts = [text_in(part, "text") for name in ("summary", "content") for part in objects_in(item, name)]
                reply.add_reasoning("\n\n".join(texts))
            if item.get("encrypted_content"):
                names = ("type", "id", "summary", "encrypted_content")
                reply.keep(key, {name: item[name] for name in names if name in item})
        case _:
            pass  # of tools that the server runs, none of which was asked for


def _read_response(reply: ReplyBuilder, response: Object) -> None:
    _read_head(reply, response)
    by_id = {mark.partition(" ")[2] for mark in reply.seen} | reply.calls.keys()
    for place, item in enumerate(objects_in(response, "output")):
        known = f"id {text_in(item, 'id')}"
        _read_item(reply, known if known in by_id else f"#{place}", item)
    if usage := inner_of(response, "usage"):
        cached = tokens_in(inner_of(usage, "input_tokens_details"), "cached_tokens")
        reply.usage = make_usage(tokens_in(usage, "input_tokens"), tokens_in(usage, "output_tokens"), cached)
    reply.ended = True
    status = text_in(response, "status")
    if status == "failed" or response.get("error"):
        reply.fail(failure_in(response))
    elif status == "incomplete":
        why = text_in(object_in(response, "incomplete_details"), "reason")
        if why not in KNOWN_CUTS:
            reply.warn(f"the server cut the reply for a reason that is not known, {why[:40]!r}")
        reply.reason = why if why == "content_filter" else "length"
    else:
        reply.reason = status
