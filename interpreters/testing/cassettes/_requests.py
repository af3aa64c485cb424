"""The identity of requests: two are equal if the model sees the same input and is sampled in the same way.

A request is written as readable data, and its digest is computed from that. The data omit these parts, so that a
cassette stays valid when they change:

- the ids of messages and calls, which no model sees;
- the order of keys and the spaces in calls' arguments and tools' schemas;
- the fields of a tool for policy and recovery: ``read_only``, ``idempotent``, ``approval``, ``kind`` and the like;
- whether a message in the user's role came from the user or the engine, and a result's status (its text contains it);
- options with their default value, so that a new option changes nothing until it is used.

The digest is BLAKE2b of the sorted JSON text, so it is the same on every machine, in every process and Python version.
A ``Scrub`` replaces irrelevant differences between runs, such as a date in the system prompt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher, unified_diff
from hashlib import blake2b, sha256
from typing import Any

from cognition import AssistantMessage, Message, ModelRequest, Part, TextPart, ToolMessage, to_data
from cognition.base.display import shown_json
from cognition.base.strict_json import LENIENT
from interpreters.recording.journal.payloads import map_data
from interpreters.recording.request_digest import ENCODE

Scrub = tuple[str, str]
"""A regular expression and its replacement. Also for texts that must not be written to a file."""

SIZE = 8

LONGEST_DIFF = 80


def request_data(request: ModelRequest, scrub: Iterable[Scrub] = ()) -> dict[str, Any]:
    """Return a request as readable JSON data."""
    rules = [(re.compile(pattern), replacement) for pattern, replacement in scrub]

    def clean(value: Any) -> Any:
        """Return the replacement of a text; field names are none."""
        if not isinstance(value, str):
            return None
        for pattern, replacement in rules:
            value = pattern.sub(replacement, value)
        return value

    data = {
        "system": request.system,
        "messages": [_message(message) for message in request.messages],
        "tools": [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
            for tool in request.tools
        ],
        "options": to_data(request.options),
    }
    if request.protocol != "native":
        data["protocol"] = request.protocol
    cleaned: dict[str, Any] = map_data(data, clean)
    return cleaned


def request_digest(data: dict[str, Any]) -> str:
    """Return the digest of a ``request_data`` result, as hexadecimal digits."""
    return blake2b(ENCODE(data).encode(), digest_size=SIZE).hexdigest()


def _message(message: Message) -> dict[str, Any]:
    if isinstance(message, ToolMessage):
        return {"tool": message.name, "result": message.content}
    if not isinstance(message, AssistantMessage):
        return {"user": [_part(part) for part in message.parts] if message.parts else message.text}
    data: dict[str, Any] = {"assistant": message.text}
    if message.reasoning:
        data["reasoning"] = message.reasoning
    if message.calls:
        data["calls"] = [{"name": call.name, "arguments": _decode(call.arguments_json)} for call in message.calls]
    return data


def _part(part: Part) -> Any:
    """Return a part as data. A picture is represented by its digest, since a cassette should be readable."""
    if isinstance(part, TextPart):
        return part.text
    return {"image": part.media_type, "sha256": sha256(part.content).hexdigest()}


def _decode(text: str) -> Any:
    try:
        return LENIENT.decode(text)
    except (ValueError, RecursionError):
        return text


def nearest(asked: dict[str, Any], recorded: Sequence[dict[str, Any]]) -> tuple[int, float] | None:
    """Return the position of the most similar recorded request, and its similarity from 0 to 1. The first of equals
    wins.
    """
    lines = _lines(asked)
    ratios = [SequenceMatcher(None, _lines(other), lines, autojunk=False).ratio() for other in recorded]
    return (ratios.index(max(ratios)), max(ratios)) if ratios else None


def difference(recorded: dict[str, Any], asked: dict[str, Any]) -> str:
    """Return a unified diff of both requests: ``-`` is recorded, ``+`` is the current request."""
    shown = list(unified_diff(_lines(recorded), _lines(asked), "recorded", "asked now", lineterm="", n=2))
    if len(shown) > LONGEST_DIFF:
        shown[LONGEST_DIFF:] = [f"... and {len(shown) - LONGEST_DIFF} more lines"]
    return "\n".join(f"  {line}" for line in shown)


def _lines(data: dict[str, Any]) -> list[str]:
    return shown_json(json.dumps(data, ensure_ascii=False, indent=1, sort_keys=True)).split("\n")
