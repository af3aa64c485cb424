"""What the conformance suite asks, and where it asks it: on each backend, in this process and in one of its own."""

from __future__ import annotations

from typing import Any

import pytest

from cognition import (
    GenerationOptions,
    History,
    Message,
    ModelRequest,
    ToolSpec,
    UserMessage,
)
from runtime import Done, Runtime
from tests.runtime.conftest import POOL, installed_or_skip, load_or_skip
from tests.runtime.steering import Rig, isolated_rig, local_rig

PLACES = [
    pytest.param(f"{place} {backend}".strip(), marks=getattr(pytest.mark, backend))
    for place in ("", "isolated")
    for backend in ("llama", "mlx")
] + [POOL]

MULTIPLY = ToolSpec(
    "multiply",
    "Multiply two numbers.",
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]},
)
QUESTION = UserMessage("m1", "What is 17 * 23?")
LONG = UserMessage("m1", "word " * 60)
"""More than two chunks of ``CHUNK`` tokens."""
CHUNK = 32


def ask(*messages: Message, system: str = "", tools: tuple[ToolSpec, ...] = (), **options: Any) -> ModelRequest:
    return ModelRequest(system, History(messages or (QUESTION,)), tools, GenerationOptions(**options))


def reply(runtime: Runtime, request: ModelRequest) -> Done:
    *_, done = runtime.submit(request)
    assert isinstance(done, Done)
    return done


def rig_of(place: str, context_tokens: int | None = None) -> Rig:
    if place.startswith("isolated"):
        backend = installed_or_skip(place.rpartition(" ")[2])
        return isolated_rig(backend, context_tokens)  # type: ignore[arg-type]  # one of the two names
    return local_rig(load_or_skip(place, context_tokens))
