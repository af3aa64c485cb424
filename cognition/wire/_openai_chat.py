r"""OpenAI's chat completions (https://platform.openai.com/docs/api-reference/chat), as implemented by many servers.

A reply arrives in pieces as server-sent events, until ``[DONE]``::

    data: {"id": "c1", "model": "m", "choices": [{"index": 0, "delta": {"content": "It is"}, "finish_reason": null}]}

    data: {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "call_1", "type": "function",
           "function": {"name": "multiply", "arguments": "{\"a\": 17"}}]}, "finish_reason": null}]}

    data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}

    data: {"choices": [], "usage": {"prompt_tokens": 21, "completion_tokens": 9}}

    data: [DONE]

Deviations of servers that are read too:

- reasoning as ``reasoning_content`` (DeepSeek, llama-server), ``reasoning`` (OpenRouter, vLLM, mlx_lm.server) or parts
  of the content (Mistral);
- calls without an index (Gemini), with their arguments as an object, or in the old form ``function_call``;
- the usage in the last chunk with a choice, in ``x_groq`` or within the choice (Moonshot);
- a reply that ends without ``[DONE]``, or with ``stop`` although it contains calls.
"""

from __future__ import annotations

import json
from typing import Any

from cognition.values.content import Image, Part, TextPart, text_of
from cognition.values.tools import ToolSpec
from cognition.wire._conversation import ReplyTurn, ResultTurn, Turn, UserTurn
from cognition.wire._errors import failure_in
from cognition.wire._fields import (
    BadOutputError,
    Object,
    inner_of,
    make_usage,
    number_in,
    object_in,
    objects_in,
    text_in,
    tokens_in,
)
from cognition.wire._quirks import Quirks
from cognition.wire._replies import ReplyBuilder
from cognition.wire._request_builder import RequestBuilder, WireRequest

PATH = "/chat/completions"
DONE = "[DONE]"
GROWING = ("text", "summary", "data", "signature")
"""Fields of ``reasoning_details`` that arrive in pieces (https://openrouter.ai/docs/use-cases/reasoning-tokens)."""

# ------------------------------------------------------------------------------------------------------- a request


def encode(builder: RequestBuilder) -> WireRequest:
    body, request = builder.body, builder.request
    body["messages"] = _messages(builder)
    if builder.stream:
        body["stream"] = True
        if builder.quirks.usage_option:
            body["stream_options"] = {"include_usage": True}
    if tools := builder.offered_tools():
        body["tools"] = [function(builder, tool) for tool in tools]
        builder.put_choice(lambda name: {"function": {"name": name}})
    if request.options.response_format:
        _put_format(builder, json.loads(request.options.response_format))
    builder.sampling()
    builder.thinking()
    return builder.build(PATH)


def function(builder: RequestBuilder, tool: ToolSpec) -> Object:
    name, parameters = builder.names.to_wire[tool.name], tool.parameters
    told: Object = {"name": name, "description": tool.description, "parameters": parameters}
    if builder.strict(parameters):
        told["strict"] = True
    return {"type": "function", "function": told}


def _put_format(builder: RequestBuilder, schema: Object) -> None:
    match builder.quirks.response_format:
        case "schema":
            inner: Object = {"name": "reply", "schema": schema}
            if builder.strict(schema):
                inner["strict"] = True
            builder.body["response_format"] = {"type": "json_schema", "json_schema": inner}
        case "object_schema":
            builder.body["response_format"] = {"type": "json_object", "schema": schema}
        case "object":
            builder.body["response_format"] = {"type": "json_object"}
            builder.warn("this server holds replies to JSON, and not to the schema of response_format")
        case _:
            builder.refuse("response_format")


def _messages(builder: RequestBuilder) -> list[Object]:
    quirks, system = builder.quirks, builder.request.system
    turns = builder.turns()
    if system and quirks.system_role == "user":
        first = turns[0] if turns else None
        if isinstance(first, UserTurn):
            turns[0] = UserTurn((TextPart(system), *first.parts))
        else:
            turns.insert(0, UserTurn((TextPart(system),)))
    messages = [_message(builder, turn) for turn in turns]
    if system and quirks.system_role != "user":
        messages.insert(0, {"role": quirks.system_role, "content": system})
    return messages


def _message(builder: RequestBuilder, turn: Turn) -> Object:
    if isinstance(turn, ReplyTurn):
        return _reply(builder.quirks, turn)
    if isinstance(turn, ResultTurn):
        return {"role": "tool", "tool_call_id": turn.id, "content": turn.content}
    return {"role": "user", "content": _content(builder, turn.parts)}


def _reply(quirks: Quirks, turn: ReplyTurn) -> Object:
    message: Object = {"role": "assistant", "content": turn.text}
    back = quirks.reasoning_back
    if (back == "always" and turn.reasoning) or (back == "calls" and turn.calls):
        message[quirks.reasoning_field] = turn.reasoning
    if turn.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in turn.calls
        ]
        signed = {at - 2: value["extra_content"] for at, value in turn.kept if "extra_content" in value}
        if quirks.signature and 0 not in signed:  # the first call alone is signed
            signed[0] = {"google": {"thought_signature": quirks.signature}}
        for place, extra in signed.items():
            if 0 <= place < len(turn.calls):
                message["tool_calls"][place]["extra_content"] = extra
    if details := [value for _, value in turn.kept if "extra_content" not in value]:
        message["reasoning_details"] = details
    return message


def _content(builder: RequestBuilder, parts: tuple[Part, ...]) -> Any:
    """Return plain text if there are no other parts: some servers don't support parts."""
    if not any(isinstance(part, Image) for part in parts):
        return text_of(parts)
    content = []
    for part in parts:
        builder.check_image(part)
        if isinstance(part, Image):
            content.append({"type": "image_url", "image_url": {"url": data_url(part)}})
        else:
            content.append({"type": "text", "text": part.text})
    return content


def data_url(image: Image) -> str:
    return f"data:{image.media_type};base64,{image.data}"


# --------------------------------------------------------------------------------------------------------- a reply


def read(reply: ReplyBuilder, event: Object) -> None:
    if event.get("error"):
        reply.fail(failure_in(event))
        return
    if not reply.response_id:
        reply.response_id = text_in(event, "id")
    if not reply.model:
        reply.model = text_in(event, "model")
    for choice in objects_in(event, "choices"):
        if number_in(choice, "index") == 0:  # one was asked for
            _read_choice(reply, choice)
    if usage := inner_of(event, "usage") or inner_of(inner_of(event, "x_groq"), "usage"):
        _read_usage(reply, usage)


def _read_choice(reply: ReplyBuilder, choice: Object) -> None:
    delta = object_in(choice, "delta") or object_in(choice, "message")
    if choice.get("error"):  # OpenRouter
        reply.fail(failure_in(choice))
        return
    reply.add_reasoning(text_in(delta, "reasoning_content") or text_in(delta, "reasoning"))
    if delta.get("reasoning_details"):
        _keep_details(reply, objects_in(delta, "reasoning_details"))
    content = delta.get("content")
    if isinstance(content, list):
        _read_parts(reply, content)
    elif content is not None:
        reply.add_text(text_in(delta, "content"))
    if delta.get("refusal"):
        reply.add_text(text_in(delta, "refusal"))
        reply.warn("the model refused to answer: its text says why")
    for place, call in enumerate(objects_in(delta, "tool_calls")):
        _read_call(reply, call, place)
    if delta.get("function_call") and not delta.get("tool_calls"):  # llama_cpp.server says a call in both ways
        _read_function(reply, "function_call", object_in(delta, "function_call"))
    if reason := text_in(choice, "finish_reason"):
        reply.reason = reason
    if usage := inner_of(choice, "usage"):  # Moonshot
        _read_usage(reply, usage)


def _keep_details(reply: ReplyBuilder, details: list[Object]) -> None:
    """Store OpenRouter's record of the reasoning, which it wants back unchanged. Pieces with one index are
    one detail.
    """
    for detail in details:
        key = f"detail {number_in(detail, 'index', len(reply.kept))}"
        pieces = {name: text_in(detail, name) for name in GROWING if detail.get(name)}
        reply.keep(key, {name: value for name, value in detail.items() if name not in GROWING}, **pieces)


def _read_parts(reply: ReplyBuilder, parts: list[Any]) -> None:
    for part in parts:
        if not isinstance(part, dict):
            raise BadOutputError("the server sent content with parts that are no objects")
        if part.get("type") == "thinking":
            for inner in objects_in(part, "thinking"):
                reply.add_reasoning(text_in(inner, "text"))
        else:
            reply.add_text(text_in(part, "text"))


def _read_call(reply: ReplyBuilder, call: Object, place: int) -> None:
    """Read a piece of a call, identified by its index, else by its id. A piece without both continues the last call.

    Some servers give all calls one index: with an id of its own and a name, a piece begins another call.
    """
    if call.get("index") is not None:
        key = _key_of_index(reply, call)
    elif call.get("id"):
        key = text_in(call, "id")
    elif place == 0 and reply.calls and not text_in(object_in(call, "function"), "name"):
        key = next(reversed(reply.calls))
    else:
        key = f"#{len(reply.calls)}"
    _read_function(reply, key, object_in(call, "function"))
    if call.get("extra_content"):  # Gemini: the signature of the thoughts before the call
        reply.keep(f"extra {key}", {"extra_content": object_in(call, "extra_content")})


def _key_of_index(reply: ReplyBuilder, call: Object) -> str:
    number = f"#{number_in(call, 'index')}"
    begun = next((key for key in reversed(reply.calls) if key.partition(" ")[0] == number), None)
    own = f"{number} {text_in(call, 'id')}" if call.get("id") else number
    if begun is None or (own != number and own != begun and text_in(object_in(call, "function"), "name")):
        return own
    return begun


def _read_function(reply: ReplyBuilder, key: str, function: Object) -> None:
    arguments = function.get("arguments")
    if isinstance(arguments, dict):
        reply.call_with_object(key, text_in(function, "name"), arguments)
    else:
        reply.call(key, text_in(function, "name"), text_in(function, "arguments"))


def _read_usage(reply: ReplyBuilder, usage: Object) -> None:
    """Read the counts of the whole reply; a later report replaces an earlier one."""
    written, details = tokens_in(usage, "completion_tokens"), inner_of(usage, "prompt_tokens_details")
    cached = tokens_in(details, "cached_tokens") or tokens_in(usage, "prompt_cache_hit_tokens")
    reply.usage = make_usage(tokens_in(usage, "prompt_tokens"), written, cached, usage.get("cost"))
