"""Ollama's chat (https://github.com/ollama/ollama/blob/main/docs/api.md): one JSON object per line.

::

    {"model": "m", "message": {"role": "assistant", "content": "", "thinking": "First "}, "done": false}
    {"message": {"tool_calls": [{"function": {"name": "multiply", "arguments": {"a": 17}}}]}, "done": false}
    {"message": {"content": ""}, "done": true, "done_reason": "stop", "prompt_eval_count": 21, "eval_count": 9}

Calls arrive complete, with their arguments as objects. An error within a reply is a separate line.
"""

from __future__ import annotations

from cognition.values.content import images_of, text_of
from cognition.wire._conversation import ReplyTurn, ResultTurn, Turn, arguments_object
from cognition.wire._errors import failure_in
from cognition.wire._fields import Object, make_usage, object_in, objects_in, text_in, tokens_in
from cognition.wire._openai_chat import function
from cognition.wire._replies import ReplyBuilder
from cognition.wire._request_builder import RequestBuilder, WireRequest

PATH = "/chat"
"""Its base URL ends with ``/api``, unlike ``/v1`` of the other formats."""

# ------------------------------------------------------------------------------------------------------- a request


def encode(builder: RequestBuilder) -> WireRequest:
    body, request = builder.body, builder.request
    messages = [_message(builder, turn) for turn in builder.turns()]
    if request.system:
        messages.insert(0, {"role": "system", "content": request.system})
    body["messages"] = messages
    body["stream"] = builder.stream
    if tools := builder.offered_tools():
        body["tools"] = [function(builder, tool) for tool in tools]
        builder.choice()
        builder.one_call()
    if (schema := builder.reply_schema()) is not None:
        body["format"] = schema
    builder.sampling()
    builder.thinking()
    return builder.build(PATH)


def _message(builder: RequestBuilder, turn: Turn) -> Object:
    if isinstance(turn, ResultTurn):
        return {"role": "tool", "tool_call_id": turn.id, "tool_name": turn.name, "content": turn.content}
    if isinstance(turn, ReplyTurn):
        message: Object = {"role": "assistant", "content": turn.text}
        if turn.reasoning and builder.quirks.reasoning_back == "always":
            message[builder.quirks.reasoning_field] = turn.reasoning
        if turn.calls:
            message["tool_calls"] = [
                {"id": call.id, "function": {"name": call.name, "arguments": arguments_object(call.arguments)}}
                for call in turn.calls
            ]
        return message
    message = {"role": "user", "content": text_of(turn.parts)}
    for part in turn.parts:
        builder.check_image(part)
    if images := images_of(turn.parts):
        message["images"] = [image.data for image in images]
    return message


# --------------------------------------------------------------------------------------------------------- a reply


def read(reply: ReplyBuilder, event: Object) -> None:
    if event.get("error"):
        reply.fail(failure_in(event))
        return
    if not reply.model:
        reply.model = text_in(event, "model")
    message = object_in(event, "message")
    reply.add_reasoning(text_in(message, "thinking"))
    reply.add_text(text_in(message, "content"))
    for call in objects_in(message, "tool_calls"):
        told = object_in(call, "function")
        reply.call_with_object(f"#{len(reply.calls)}", text_in(told, "name"), object_in(told, "arguments"))
    if event.get("done") is True:
        reply.ended = True
        reply.reason = text_in(event, "done_reason") or "stop"
        reply.usage = make_usage(tokens_in(event, "prompt_eval_count"), tokens_in(event, "eval_count"), 0)
