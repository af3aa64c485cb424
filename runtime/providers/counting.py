"""How many tokens a prompt has, asked from servers that can count; an estimate elsewhere."""

from __future__ import annotations

import json
import math
from typing import Any

from cognition import ModelRequest
from cognition.context.window import message_size, request_size
from cognition.wire import WireRequest
from runtime.providers.connection import Connection, FailedError
from runtime.providers.exchanges import Exchange
from runtime.providers.facts import PATIENCE, ServerKind

COUNTING: frozenset[ServerKind] = frozenset({"llama-server", "vllm", "anthropic"})
"""Servers that count."""

OF_TEMPLATE = ("messages", "tools", "tool_choice", "chat_template_kwargs", "parallel_tool_calls", "response_format")
"""What of a request is shown to a chat template."""


def estimated_tokens(request: ModelRequest) -> int:
    """By characters, as the core estimates sizes."""
    return math.ceil(request_size(request) + sum(map(message_size, request.messages)))


def asked_tokens(connection: Connection, kind: ServerKind, wire: WireRequest) -> int | None:
    """What the server says; None where it says nothing."""
    exchange = Exchange(PATIENCE)
    body: dict[str, Any] = json.loads(wire.body)
    try:
        match kind:
            case "llama-server":
                shown = {key: body[key] for key in OF_TEMPLATE if key in body}
                prompt = _field(connection.ask(exchange, "/apply-template", shown, root=True), "prompt")
                if not isinstance(prompt, str):
                    return None
                question = {"content": prompt, "add_special": True, "parse_special": True}
                tokens = _field(connection.ask(exchange, "/tokenize", question, root=True), "tokens")
                return len(tokens) if isinstance(tokens, list) else None
            case "vllm":
                shown = {
                    key: body[key] for key in ("model", "messages", "tools", "chat_template_kwargs") if key in body
                }
                return _count(connection.ask(exchange, "/tokenize", shown, root=True), "count")
            case "anthropic":
                kept = ("model", "messages", "system", "tools", "tool_choice", "thinking")
                shown = {key: body[key] for key in kept if key in body}
                return _count(connection.ask(exchange, "/messages/count_tokens", shown), "input_tokens")
            case _:
                return None
    except FailedError:
        return None


def _field(answer: Any, key: str) -> Any:
    return answer.get(key) if isinstance(answer, dict) else None


def _count(answer: Any, key: str) -> int | None:
    number = _field(answer, key)
    return number if type(number) is int and number >= 0 else None
