"""OpenAI's responses, as our servers speak them (https://platform.openai.com/docs/api-reference/responses)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cognition import AssistantMessage, GenerationOptions, Message, ModelRequest, ToolCall, ToolMessage
from cognition.parsing import CallFinished, ReasoningDelta, TextDelta
from runtime import Done
from tests.runtime.providers.speaking import Json, Protocol, RefusedError, _error_of, _event, _numbered, _tools, _user


def of_responses(body: Json) -> ModelRequest:
    """A request as responses have it: items of one reply stand one behind the other."""
    messages = list[Message]()
    names: dict[str, str] = {}
    text, calls = "", list[ToolCall]()

    def end_reply() -> None:
        nonlocal text
        if text or calls:
            messages.append(AssistantMessage(f"a{len(messages)}", text, "", tuple(calls)))
        text = ""
        calls.clear()

    told = body["input"]
    if isinstance(told, str):
        told = [{"role": "user", "content": [{"type": "input_text", "text": told}]}]
    for number, item in enumerate(told):
        mark = f"m{number}"
        match item.get("type", "message"):
            case "message" if item["role"] == "assistant":
                end_reply()
                text = item["content"]
            case "message":
                end_reply()
                parts = [_part(part) for part in item["content"]]
                plain = all(part["type"] == "text" for part in parts)
                content = "\n".join(part["text"] for part in parts) if plain else parts
                messages.append(_user(mark, content, lambda part: part["url"]))
            case "function_call":
                calls.append(ToolCall(item["call_id"], item["name"], item["arguments"]))
                names[item["call_id"]] = item["name"]
            case "function_call_output":
                end_reply()
                messages.append(ToolMessage(mark, item["call_id"], names[item["call_id"]], item["output"]))
            case "reasoning":
                pass
            case kind:
                raise RefusedError(f"there is no item of the type {kind!r}")
    end_reply()
    choice = body.get("tool_choice", "auto")
    given = {key: body[key] for key in ("temperature", "top_p") if key in body}
    options = GenerationOptions(
        **given,
        max_tokens=body.get("max_output_tokens"),
        tool_choice=choice if isinstance(choice, str) else choice["name"],
        parallel_calls=body.get("parallel_tool_calls", True),
    )
    return ModelRequest(body.get("instructions", ""), _numbered(messages), _tools(body.get("tools", ())), options)


def _part(part: Json) -> Json:
    if part["type"] == "input_text":
        return {"type": "text", "text": part["text"]}
    return {"type": "image", "url": part["image_url"]}


class Responses(Protocol):
    """Events of a response."""

    def pieces(self, outputs: Iterator[Any]) -> Iterator[str]:
        head: Json = {"id": "resp_1", "object": "response", "created_at": 1, "model": "small", "output": []}
        yield self._told("response.created", response=head | {"status": "in_progress"})
        items = list[Json]()
        open_kind, written = "", ""
        for output in outputs:
            match output:
                case TextDelta(text) | ReasoningDelta(text):
                    kind = "message" if isinstance(output, TextDelta) else "reasoning"
                    if kind != open_kind:
                        yield from self._closed(items, open_kind, written)
                        open_kind, written = kind, ""
                        yield from self._opened(items, kind)
                    written += text
                    yield self._told(f"response.{DELTAS[kind]}.delta", len(items) - 1, **self._at(items), delta=text)
                case CallFinished(_, call):
                    yield from self._closed(items, open_kind, written)
                    open_kind = ""
                    place = len(items)
                    item = {"type": "function_call", "id": f"i{place}", "call_id": f"call_{place}", "name": call.name}
                    items.append(item | {"arguments": call.arguments_json, "status": "completed"})
                    yield self._told("response.output_item.added", place, item=item | {"arguments": ""})
                    half = len(call.arguments_json) // 2
                    for piece in (call.arguments_json[:half], call.arguments_json[half:]):
                        yield self._told(f"response.{ARGUMENTS}.delta", place, item_id=f"i{place}", delta=piece)
                    whole = {"item_id": f"i{place}", "name": call.name, "arguments": call.arguments_json}
                    yield self._told(f"response.{ARGUMENTS}.done", place, **whole)
                    yield self._told("response.output_item.done", place, item=items[-1])
                case Done() if output.failure is not None:
                    error = _error_of("/v1/responses", output.failure)["error"]
                    yield self._told("response.failed", response=head | {"status": "failed", "error": error})
                case Done():
                    yield from self._closed(items, open_kind, written)
                    cut = output.finish_reason == "length"
                    usage = {
                        "input_tokens": output.usage.input_tokens,
                        "input_tokens_details": {"cached_tokens": output.usage.reused_tokens},
                        "output_tokens": output.usage.output_tokens,
                        "output_tokens_details": {"reasoning_tokens": 0},
                        "total_tokens": output.usage.input_tokens + output.usage.output_tokens,
                    }
                    end = head | {"status": "incomplete" if cut else "completed", "usage": usage, "output": items}
                    if cut:
                        end["incomplete_details"] = {"reason": "max_output_tokens"}
                    yield self._told(f"response.{end['status']}", response=end)
                case _:
                    pass

    def _opened(self, items: list[Json], kind: str) -> Iterator[str]:
        """A message or thoughts begin, with their only part."""
        more: Json = {"role": "assistant", "content": []} if kind == "message" else {"summary": []}
        items.append({"type": kind, "id": f"i{len(items)}", "status": "in_progress", **more})
        yield self._told("response.output_item.added", len(items) - 1, item=items[-1])
        yield self._told(f"response.{PARTS[kind]}.added", len(items) - 1, **self._at(items), part=_part_of(kind, ""))

    def _closed(self, items: list[Json], kind: str, text: str) -> Iterator[str]:
        """They end, if any are open."""
        if kind:
            place, at, part = len(items) - 1, self._at(items), _part_of(kind, text)
            items[-1] |= {"status": "completed", "content" if kind == "message" else "summary": [part]}
            yield self._told(f"response.{DELTAS[kind]}.done", place, **at, text=text)
            yield self._told(f"response.{PARTS[kind]}.done", place, **at, part=part)
            yield self._told("response.output_item.done", place, item=items[-1])

    def _at(self, items: list[Json]) -> Json:
        index = "content_index" if items[-1]["type"] == "message" else "summary_index"
        return {"item_id": items[-1]["id"], index: 0}

    def _told(self, kind: str, place: int | None = None, **fields: Any) -> str:
        at = {} if place is None else {"output_index": place}
        return _event({"type": kind, **at, **fields}, kind)


DELTAS = {"message": "output_text", "reasoning": "reasoning_summary_text"}
PARTS = {"message": "content_part", "reasoning": "reasoning_summary_part"}
ARGUMENTS = "function_call_arguments"


def _part_of(kind: str, text: str) -> Json:
    if kind == "message":
        return {"type": "output_text", "text": text, "annotations": []}
    return {"type": "summary_text", "text": text}
