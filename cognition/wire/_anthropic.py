r"""Anthropic's Messages API (https://docs.anthropic.com/en/api/messages).

A reply arrives as named events, block by block::

    event: message_start
    data: {"type": "message_start", "message": {"id": "msg_1", "model": "m", "usage": {"input_tokens": 21}}}

    event: content_block_start
    data: {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "toolu_1",
           "name": "multiply", "input": {}}}

    event: content_block_delta
    data: {"type": "content_block_delta", "index": 0,
           "delta": {"type": "input_json_delta", "partial_json": "{\"a\": 17}"}}

    event: content_block_stop
    data: {"type": "content_block_stop", "index": 0}

    event: message_delta
    data: {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}}

    event: message_stop
    data: {"type": "message_stop"}

Adjacent messages of one role are merged, tool results come first in their message, and a conversation begins and ends
with the user. Thinking blocks are signed, and are sent back with their signatures: ``WireReply.continuation``.
"""

from __future__ import annotations

from cognition.values.content import Image, Part
from cognition.wire._conversation import CallTurn, ReplyTurn, ResultTurn, Turn, arguments_object, insert_parts
from cognition.wire._errors import failure_in
from cognition.wire._fields import Object, inner_of, make_usage, number_in, object_in, objects_in, text_in, tokens_in
from cognition.wire._replies import ReplyBuilder
from cognition.wire._request_builder import RequestBuilder, WireRequest

PATH = "/messages"
NO_TEXT = "(no text)"
"""Replaces an empty message, which the server refuses."""
THINKING = {"type": "thinking"}
COUNTS = ("output_tokens", "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
GO_ON = "(go on)"
"""The user message added if the conversation would begin or end with the model."""

# ------------------------------------------------------------------------------------------------------- a request


def encode(builder: RequestBuilder) -> WireRequest:
    body, request = builder.body, builder.request
    turns = builder.turns()
    if request.system.strip():  # the server refuses white space alone
        body["system"] = request.system
    body["messages"] = _messages(builder, turns)
    if builder.stream:
        body["stream"] = True
    _put_tools(builder, turns)
    if (schema := builder.reply_schema()) is not None:
        builder.put("output_config.format", {"type": "json_schema", "schema": schema})
    builder.sampling()
    last = next((turn for turn in reversed(turns) if isinstance(turn, ReplyTurn)), ReplyTurn())
    if request.options.thinking and last.calls and not last.kept:
        builder.warn("the model does not think while it goes on from calls whose thoughts were not kept")
    else:
        builder.thinking()
    return builder.build(PATH)


def _put_tools(builder: RequestBuilder, turns: list[Turn]) -> None:
    body = builder.body
    if tools := builder.offered_tools():
        body["tools"] = [
            {
                "name": builder.names.to_wire[tool.name],
                "description": tool.description,
                "input_schema": {"type": "object", **tool.parameters},
            }
            for tool in tools
        ]
        choice = builder.choice()
        kinds = {"auto": "auto", "none": "none", "required": "any"}
        told: Object = {"type": kinds[choice]} if choice in kinds else {"type": "tool", "name": choice}
        if choice != "none" and builder.one_call():
            told["disable_parallel_tool_use"] = True
        if told != {"type": "auto"}:
            body["tool_choice"] = told
        return
    called = [call.name for turn in turns if isinstance(turn, ReplyTurn) for call in turn.calls]
    if called:  # a conversation with calls is refused without tools
        body["tools"] = [{"name": name, "input_schema": {"type": "object"}} for name in dict.fromkeys(called)]
        body["tool_choice"] = {"type": "none"}


def _messages(builder: RequestBuilder, turns: list[Turn]) -> list[Object]:
    messages: list[Object] = []
    for turn in turns:
        role, blocks = _blocks(builder, turn)
        if not blocks:
            continue
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += blocks
        else:
            messages.append({"role": role, "content": blocks})
    said = {"role": "user", "content": [_text(GO_ON)]}
    if not messages or messages[0]["role"] != "user":
        messages.insert(0, said)
    if messages[-1]["role"] != "user":
        messages.append(said)
    return messages


def _blocks(builder: RequestBuilder, turn: Turn) -> tuple[str, list[Object]]:
    if isinstance(turn, ReplyTurn):
        return "assistant", _reply(turn)
    if isinstance(turn, ResultTurn):
        result: Object = {"type": "tool_result", "tool_use_id": turn.id, "content": turn.content}
        return "user", [result | {"is_error": True} if turn.failed else result]
    blocks = [block for part in turn.parts if (block := _part(builder, part))]
    return "user", blocks or [_text(NO_TEXT)]


def _reply(turn: ReplyTurn) -> list[Object]:
    """Return text and calls, with the parts that the server wants back at their original places."""
    told: list[Object] = [_text(turn.text)] if turn.text.strip() else []
    told += map(_call, turn.calls)
    return insert_parts(told, len(told) - len(turn.calls), turn.kept)


def _call(call: CallTurn) -> Object:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments_object(call.arguments)}


def _part(builder: RequestBuilder, part: Part) -> Object | None:
    builder.check_image(part)
    if isinstance(part, Image):
        source = {"type": "base64", "media_type": part.media_type, "data": part.data}
        return {"type": "image", "source": source}
    return _text(part.text) if part.text.strip() else None


def _text(text: str) -> Object:
    return {"type": "text", "text": text}


# --------------------------------------------------------------------------------------------------------- a reply


def read(reply: ReplyBuilder, event: Object) -> None:
    """Read an event of a stream, or a whole body. Unknown kinds are skipped, as the API's versioning asks."""
    match text_in(event, "type"):
        case "message_start":
            _read_message(reply, object_in(event, "message"), began=True)
        case "content_block_start":
            _read_block(reply, _key(event), object_in(event, "content_block"))
        case "content_block_delta":
            _read_delta(reply, _key(event), object_in(event, "delta"))
        case "message_delta":
            reply.reason = text_in(object_in(event, "delta"), "stop_reason") or reply.reason
            _read_usage(reply, inner_of(event, "usage"))
        case "message_stop":
            reply.ended = True
        case "error":
            reply.fail(failure_in(event))
        case "message":
            _read_message(reply, event)
            for place, block in enumerate(objects_in(event, "content")):
                _read_block(reply, f"#{place}", block, whole=True)
            reply.reason = text_in(event, "stop_reason")
        case _:
            if event.get("error"):
                reply.fail(failure_in(event))


def _key(event: Object) -> str:
    return f"#{number_in(event, 'index')}"


def _read_message(reply: ReplyBuilder, message: Object, *, began: bool = False) -> None:
    reply.response_id = text_in(message, "id")
    reply.model = text_in(message, "model")
    usage = inner_of(message, "usage")
    # Nothing has been written when a message begins, whatever is told of it then.
    _read_usage(reply, {**usage, "output_tokens": 0} if began else usage)


def _read_block(reply: ReplyBuilder, key: str, block: Object, *, whole: bool = False) -> None:
    match text_in(block, "type"):
        case "text":
            reply.add_text(text_in(block, "text"))
        case "thinking":
            thought = text_in(block, "thinking")
            reply.add_reasoning(thought)
            reply.keep(key, THINKING, needs="signature", thinking=thought, signature=text_in(block, "signature"))
        case "redacted_thinking":
            reply.keep(key, {"type": "redacted_thinking", "data": text_in(block, "data")})
        case "tool_use":
            given = object_in(block, "input")
            if given or whole:
                reply.call_with_object(key, text_in(block, "name"), given)
            else:
                reply.call(key, text_in(block, "name"))
        case _:
            pass  # of tools that the server runs, none of which was asked for


def _read_delta(reply: ReplyBuilder, key: str, delta: Object) -> None:
    match text_in(delta, "type"):
        case "text_delta":
            reply.add_text(text_in(delta, "text"))
        case "thinking_delta":
            thought = text_in(delta, "thinking")
            reply.add_reasoning(thought)
            reply.keep(key, THINKING, needs="signature", thinking=thought)
        case "signature_delta":
            reply.keep(key, THINKING, needs="signature", signature=text_in(delta, "signature"))
        case "input_json_delta":
            if key in reply.calls:
                reply.call(key, "", text_in(delta, "partial_json"))
        case _:
            pass


def _read_usage(reply: ReplyBuilder, usage: Object) -> None:
    """Read the counts so far. An event may omit some, which then stay unchanged. Anthropic counts cached tokens
    separately.
    """
    if not usage:
        return
    reply.counts = {name: tokens_in(usage, name) or reply.counts.get(name, 0) for name in COUNTS}
    output, *prompt, reused = reply.counts.values()
    reply.usage = make_usage(sum(prompt) + reused, output, reused)
