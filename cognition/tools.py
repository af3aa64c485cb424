"""What the core knows of a tool: its name, its schema and how carefully it has to be handled. Never how it runs."""

from __future__ import annotations

import re
from typing import Any

from attrs import Attribute, field, frozen

from cognition.errors import ConfigError

NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""Names that every chat template and provider accepts (OpenAI's rule, plus the dot of namespaced tools)."""


def _check_name(_instance: ToolSpec, _attribute: Attribute[str], value: str) -> None:
    if not NAME.fullmatch(value):
        raise ConfigError(f"tool name {value!r}: use 1 to 64 letters, digits, '_', '-' or '.'")


@frozen
class ToolSpec:
    """One tool as the model sees it, with what policy and recovery need to know of it."""

    name: str = field(validator=_check_name)
    description: str = ""
    parameters: dict[str, Any] = field(factory=lambda: {"type": "object", "properties": {}})
    """A JSON Schema of an object. Not to be changed after construction."""
    read_only: bool = False
    """It changes nothing; read-only calls that stand side by side in a reply may run together."""
    idempotent: bool = False
    """Running it twice does no more than running it once; it may be repeated after a crash."""
    approval: bool = False
    """The user is asked before each call, unless policy says otherwise."""
