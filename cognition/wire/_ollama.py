"""Ollama's chat (https://github.com/ollama/ollama/blob/main/docs/api.md): one JSON object per line.

::

    {"model": "m", "message": {"role": "assistant", "content": "", "thinking": "First "}, "done": false}
    {"message": {"tool_calls": [{"function": {"name": "multiply", "arguments": {"a": 17}}}]}, "done": false}
    {"message": {"content": ""}, "done": true, "done_reason": "stop", "prompt_eval_count": 21, "eval_count": 9}

Calls arrive complete, with their arguments as objects. An error within a reply is a separate line.
"""

from __future__ import annotations

import json

from cognition.values.content import images_of, text_of
from cognition.wire._conversation import Replied, Resulted, Turn, arguments_object
from cognition.wire._errors import failure_in
from cognition.wire._fields import Object, counted, object_in, objects_in, text_in, tokens_in
from cognition.wire._openai_chat import function
from cognition.wire._replies import Gathering
from cognition.wire._request_builder import Making, WireRequest

PATH = "/chat"
"""Its base URL ends with ``/api``, unlike ``/v1`` of the other formats."""

# ------------------------------------------------------------------------------------------------------- a request


def encode(making: Making) -> WireRequest:
    body, request = making.body, making.request
    body["model"] = making.model
    messages = [_message(making, turn) for turn in making.turns()]
    if request.system:
        messages.insert(0, {"role": "system", "content": request.system})
    body["messages"] = messages
    body["stream"] = making.stream
    if tools := making.offered():
        body["tools"] = [
            {"type": "function", "function": function(making, tool.name, tool.description, tool.parameters)}
            for tool in tools
        ]
        making.choice()
        making.one_call()
    if request.options.response_format:
        if making.habits.response_format == "schema":
            body["format"] = json.loads(request.options.response_format)
        else:
            making.refuse("response_format")
    making.sampling()
    making.thinking()
    return making.sent(PATH)


def _message(making: Making, turn: Turn) -> Object:
    if isinstance(turn, Resulted):
        return {"role": "tool", "tool_call_id": turn.id, "tool_name": turn.name, "content": turn.content}
    if isinstance(turn, Replied):
        message: Object = {"role": "assistant", "content": turn.text}
        if turn.reasoning and making.habits.reasoning_back == "always":
            message[making.habits.reasoning_field] = turn.reasoning
        if turn.calls:
            message["tool_calls"] = [
                {"id": call.id, "function": {"name": call.name, "arguments": arguments_object(call.arguments)}}
                for call in turn.calls
            ]
        return message
    message = {"role": "user", "content": text_of(turn.parts)}
    for part in turn.parts:
        making.check_image(part)
    if images := images_of(turn.parts):
        message["images"] = [image.data for image in images]
    return message


# --------------------------------------------------------------------------------------------------------- a reply


def read(reply: Gathering, event: Object) -> None:
    if event.get("error"):
        reply.fail(failure_in(event))
        return
    if not reply.model:
        reply.model = text_in(event, "model")
    message = object_in(event, "message")
    reply.think(text_in(message, "thinking"))
    reply.say(text_in(message, "content"))
    for call in objects_in(message, "tool_calls"):
        told = object_in(call, "function")
        reply.call_with_object(f"#{len(reply.calls)}", text_in(told, "name"), object_in(told, "arguments"))
    if event.get("done") is True:
        reply.ended = True
        reply.reason = text_in(event, "done_reason") or "stop"
        reply.usage = counted(tokens_in(event, "prompt_eval_count"), tokens_in(event, "eval_count"), 0)
