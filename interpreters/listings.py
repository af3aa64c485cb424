"""Lists of tools as others give them, read into what the model is told of a tool.

::

    {"tools": [{"name": "search", "description": "...", "inputSchema": {...}}]}           MCP, the result of tools/list
    [{"type": "function", "function": {"name": "search", "parameters": {...}}}]           OpenAI
    [{"name": "search", "input_schema": {...}}]                                           Anthropic
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from cognition import ConfigError, ToolSpec

SCHEMAS = ("inputSchema", "input_schema", "parameters")
"""Where the schema of a tool stands."""


@frozen
class Listed:
    """One tool of a list."""

    place: int
    """Counts from 0."""
    name: str
    """Empty where it has none."""
    spec: ToolSpec | None
    problem: str = ""
    """Why there is no ``spec``."""


def read_listing(data: Any) -> tuple[Listed, ...]:
    """The tools of a list, those that can't be used among them.

    Args:
        data: decoded JSON: a list, or an object with it under ``tools``, perhaps within ``result``.

    Raises:
        ConfigError: it holds no list of tools.
    """
    if isinstance(data, Mapping) and isinstance(data.get("result"), Mapping):
        data = data["result"]
    items = data.get("tools") if isinstance(data, Mapping) else data
    if not isinstance(items, list):
        raise ConfigError('no list of tools; one is {"name": ..., "inputSchema": JSON Schema}')
    return tuple(_listed(place, item) for place, item in enumerate(items))


def _listed(place: int, item: Any) -> Listed:
    if isinstance(item, Mapping):
        item = item.get("function", item)
    name = item.get("name") if isinstance(item, Mapping) else None
    schema: Any = None
    if isinstance(item, Mapping):
        schema = next((item[key] for key in SCHEMAS if item.get(key) is not None), {})
    if not isinstance(schema, dict) or not isinstance(name, str):
        return Listed(place, "", None, "it has to be an object with a name and, as parameters, a JSON Schema")
    try:
        return Listed(place, name, ToolSpec(name, str(item.get("description") or ""), schema))
    except ConfigError as error:
        return Listed(place, name, None, str(error))
