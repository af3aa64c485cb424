"""Servers of ours, as pure functions: a reply as each format writes it, in a stream or whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from attrs import frozen

from cognition import Usage
from cognition.wire import Dialect


@frozen
class Told:
    """What a server says."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    """Name and arguments, as JSON text of an object."""
    usage: Usage = Usage(7, 5, 3)
    step: int = 3
    """Characters of a piece."""
    cut: bool = False
    """Whether the reply ended at its limit."""


def pieces(told: Told, text: str) -> list[str]:
    """A text in pieces, one at least."""
    return [text[at : at + told.step] for at in range(0, len(text), told.step)] or [""]


def event(data: Any, kind: str = "") -> bytes:
    """A server-sent event."""
    name = f"event: {kind}\n" if kind else ""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return f"{name}data: {text}\n\n".encode("utf-8", "surrogatepass")


# --------------------------------------------------------------------------------------------------- chat completions


def chat_stream(told: Told) -> bytes:
    def chunk(delta: Any, reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return event({"id": "r1", "model": "m-1", "choices": [choice], "usage": None})

    def parts() -> Iterator[bytes]:
        yield chunk({"role": "assistant", "content": ""})
        for piece in pieces(told, told.reasoning):
            yield chunk({"reasoning_content": piece})
        for piece in pieces(told, told.text):
            yield chunk({"content": piece})
        waiting = []
        for place, (name, arguments) in enumerate(told.calls):
            head = {"index": place, "id": f"c{place}", "type": "function", "function": {"name": name, "arguments": ""}}
            yield chunk({"tool_calls": [head]})
            waiting.append([(place, piece) for piece in pieces(told, arguments)])
        while any(waiting):  # parallel calls take turns
            for rest in waiting:
                if rest:
                    place, piece = rest.pop(0)
                    yield chunk({"tool_calls": [{"index": place, "function": {"arguments": piece}}]})
        yield chunk({}, "length" if told.cut else "tool_calls" if told.calls else "stop")
        yield event({"id": "r1", "model": "m-1", "choices": [], "usage": chat_usage(told.usage)})
        yield event("[DONE]")

    return b": connected\n\n" + b"".join(parts())


def chat_usage(usage: Usage) -> Any:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.reused_tokens},
    }


def chat_body(told: Told) -> Any:
    calls = [
        {"id": f"c{place}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for place, (name, arguments) in enumerate(told.calls)
    ]
    message = {"role": "assistant", "content": told.text or None, "reasoning_content": told.reasoning}
    reason = "length" if told.cut else "tool_calls" if calls else "stop"
    choice = {"index": 0, "message": message | ({"tool_calls": calls} if calls else {}), "finish_reason": reason}
    return {"id": "r1", "model": "m-1", "choices": [choice], "usage": chat_usage(told.usage)}


# ----------------------------------------------------------------------------------------------------------- responses


def response_items(told: Told) -> list[Any]:
    items: list[Any] = []
    if told.reasoning:
        summary = [{"type": "summary_text", "text": told.reasoning}]
        items.append({"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "secret=="})
    if told.text:
        content = [{"type": "output_text", "text": told.text, "annotations": []}]
        items.append({"type": "message", "id": "msg_1", "role": "assistant", "content": content})
    for place, (name, arguments) in enumerate(told.calls):
        call = {"type": "function_call", "id": f"fc_{place}", "call_id": f"c{place}"}
        items.append({**call, "name": name, "arguments": arguments})
    return items


def response_body(told: Told) -> Any:
    usage = {
        "input_tokens": told.usage.input_tokens,
        "input_tokens_details": {"cached_tokens": told.usage.reused_tokens},
        "output_tokens": told.usage.output_tokens,
    }
    status = "incomplete" if told.cut else "completed"
    details = {"reason": "max_output_tokens"} if told.cut else None
    return {
        "id": "r1", "object": "response", "model": "m-1", "status": status, "error": None,
        "incomplete_details": details, "output": response_items(told), "usage": usage,
    }  # fmt: skip


def response_stream(told: Told) -> bytes:
    def parts() -> Iterator[tuple[str, Any]]:
        yield "response.created", {"response": {"id": "r1", "model": "m-1", "status": "in_progress"}}
        for place, item in enumerate(response_items(told)):
            at = {"output_index": place, "item_id": item["id"]}
            if item["type"] == "reasoning":
                yield "response.output_item.added", {**at, "item": {**item, "summary": []}}
                yield "response.reasoning_summary_part.added", {**at, "summary_index": 0}
                for piece in pieces(told, told.reasoning):
                    yield "response.reasoning_summary_text.delta", {**at, "summary_index": 0, "delta": piece}
            elif item["type"] == "message":
                yield "response.output_item.added", {**at, "item": {**item, "content": []}}
                part = {"type": "output_text", "text": "", "annotations": []}
                yield "response.content_part.added", {**at, "content_index": 0, "part": part}
                for piece in pieces(told, told.text):
                    yield "response.output_text.delta", {**at, "content_index": 0, "delta": piece}
            else:
                yield "response.output_item.added", {**at, "item": {**item, "arguments": ""}}
                for piece in pieces(told, item["arguments"]):
                    yield "response.function_call_arguments.delta", {**at, "delta": piece}
                yield "response.function_call_arguments.done", {**at, "arguments": item["arguments"]}
            yield "response.output_item.done", {**at, "item": item}
        yield "response.incomplete" if told.cut else "response.completed", {"response": response_body(told)}

    return b"".join(
        event({"type": kind, "sequence_number": number, **data}, kind) for number, (kind, data) in enumerate(parts())
    )


# ----------------------------------------------------------------------------------------------------------- Anthropic


def anthropic_blocks(told: Told) -> list[Any]:
    blocks: list[Any] = []
    if told.reasoning:
        blocks.append({"type": "thinking", "thinking": told.reasoning, "signature": "signed=="})
    if told.text:
        blocks.append({"type": "text", "text": told.text})
    for place, (name, arguments) in enumerate(told.calls):
        blocks.append({"type": "tool_use", "id": f"c{place}", "name": name, "input": json.loads(arguments)})
    return blocks


def anthropic_usage(usage: Usage) -> Any:
    cached = usage.reused_tokens
    return {
        "input_tokens": usage.input_tokens - cached, "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": 0, "output_tokens": usage.output_tokens,
    }  # fmt: skip


def anthropic_reason(told: Told) -> str:
    return "max_tokens" if told.cut else "tool_use" if told.calls else "end_turn"


def anthropic_body(told: Told) -> Any:
    return {
        "type": "message", "id": "r1", "model": "m-1", "role": "assistant", "content": anthropic_blocks(told),
        "stop_reason": anthropic_reason(told), "usage": anthropic_usage(told.usage),
    }  # fmt: skip


def anthropic_stream(told: Told) -> bytes:
    def parts() -> Iterator[tuple[str, Any]]:
        usage = anthropic_usage(told.usage)
        head = {"type": "message", "id": "r1", "model": "m-1", "content": [], "usage": {**usage, "output_tokens": 1}}
        yield "message_start", {"message": head}
        yield "ping", {}
        written = iter([arguments for _, arguments in told.calls])
        for place, block in enumerate(anthropic_blocks(told)):
            at = {"index": place}
            kind = block["type"]
            if kind == "thinking":
                yield "content_block_start", {**at, "content_block": {**block, "thinking": "", "signature": ""}}
                deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(told, told.reasoning)]
                deltas.append({"type": "signature_delta", "signature": block["signature"]})
            elif kind == "text":
                yield "content_block_start", {**at, "content_block": {**block, "text": ""}}
                deltas = [{"type": "text_delta", "text": piece} for piece in pieces(told, told.text)]
            else:
                yield "content_block_start", {**at, "content_block": {**block, "input": {}}}
                deltas = [
                    {"type": "input_json_delta", "partial_json": piece} for piece in ["", *pieces(told, next(written))]
                ]
            yield from (("content_block_delta", {**at, "delta": delta}) for delta in deltas)
            yield "content_block_stop", at
        output = {"output_tokens": told.usage.output_tokens}
        yield "message_delta", {"delta": {"stop_reason": anthropic_reason(told)}, "usage": output}
        yield "message_stop", {}

    return b"".join(event({"type": kind, **data}, kind) for kind, data in parts())


# -------------------------------------------------------------------------------------------------------------- Ollama


def ollama_calls(told: Told) -> list[Any]:
    return [
        {"id": f"c{place}", "function": {"index": place, "name": name, "arguments": json.loads(arguments)}}
        for place, (name, arguments) in enumerate(told.calls)
    ]


def ollama_end(told: Told) -> Any:
    return {
        "done": True, "done_reason": "length" if told.cut else "stop", "prompt_eval_count": told.usage.input_tokens,
        "eval_count": told.usage.output_tokens,
    }  # fmt: skip


def ollama_body(told: Told) -> Any:
    message = {"role": "assistant", "content": told.text, "thinking": told.reasoning}
    calls = ollama_calls(told)
    return {"model": "m-1", "message": message | ({"tool_calls": calls} if calls else {}), **ollama_end(told)}


def ollama_stream(told: Told) -> bytes:
    def line(message: Any, **more: Any) -> bytes:
        data = {"model": "m-1", "message": {"role": "assistant", **message}, "done": False, **more}
        return json.dumps(data, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"

    lines = [line({"content": "", "thinking": piece}) for piece in pieces(told, told.reasoning)]
    lines += [line({"content": piece}) for piece in pieces(told, told.text)]
    lines += [line({"content": "", "tool_calls": [call]}) for call in ollama_calls(told)]
    return b"".join((*lines, line({"content": ""}, **ollama_end(told))))


Stream = Callable[[Told], bytes]
STREAMS: Mapping[Dialect, Stream] = {
    "openai": chat_stream,
    "responses": response_stream,
    "anthropic": anthropic_stream,
    "ollama": ollama_stream,
}
BODIES: Mapping[Dialect, Callable[[Told], Any]] = {
    "openai": chat_body,
    "responses": response_body,
    "anthropic": anthropic_body,
    "ollama": ollama_body,
}
