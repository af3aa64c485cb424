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

    for number, item in enumerate(body["input"]):
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
        head = {"id": "resp_1", "object": "response", "model": "small", "output": []}
        yield self._told("response.created", response=head | {"status": "in_progress"})
        place, open_kind = -1, ""
        for output in outputs:
            match output:
                case TextDelta(text) | ReasoningDelta(text):
                    kind = "message" if isinstance(output, TextDelta) else "reasoning"
                    if kind != open_kind:
                        place, open_kind = place + 1, kind
                        yield self._told("response.output_item.added", place, item={"type": kind, "id": f"i{place}"})
                    told = "output_text" if kind == "message" else "reasoning_summary_text"
                    yield self._told(f"response.{told}.delta", place, delta=text)
                case CallFinished(_, call):
                    place, open_kind = place + 1, ""
                    item = {"type": "function_call", "call_id": f"call_{place}", "name": call.name}
                    yield self._told("response.output_item.added", place, item=item | {"arguments": ""})
                    half = len(call.arguments_json) // 2
                    for piece in (call.arguments_json[:half], call.arguments_json[half:]):
                        yield self._told("response.function_call_arguments.delta", place, delta=piece)
                    whole = item | {"arguments": call.arguments_json}
                    yield self._told("response.output_item.done", place, item=whole)
                case Done() if output.failure is not None:
                    error = _error_of("/v1/responses", output.failure)["error"]
                    yield self._told("response.failed", response=head | {"status": "failed", "error": error})
                case Done():
                    cut = output.finish_reason == "length"
                    usage = {
                        "input_tokens": output.usage.input_tokens,
                        "input_tokens_details": {"cached_tokens": output.usage.reused_tokens},
                        "output_tokens": output.usage.output_tokens,
                    }
                    end = head | {"status": "incomplete" if cut else "completed", "usage": usage}
                    if cut:
                        end["incomplete_details"] = {"reason": "max_output_tokens"}
                    yield self._told(f"response.{end['status']}", response=end)
                case _:
                    pass

    def _told(self, kind: str, place: int | None = None, **fields: Any) -> str:
        at = {} if place is None else {"output_index": place}
        return _event({"type": kind, **at, **fields}, kind)
