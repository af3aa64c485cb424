"""Lists of tools as others give them, read into what the model is told of a tool.

::

    {"tools": [{"name": "search", "description": "...", "inputSchema": {...}}]}           MCP, the result of tools/list
    [{"type": "function", "function": {"name": "search", "parameters": {...}}}]           OpenAI
    [{"name": "search", "input_schema": {...}}]                                           Anthropic
"""

from __future__ import annotations

import json
import re
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
    """Its place in the list, from 0."""
    name: str
    """Empty where the tool has no name."""
    spec: ToolSpec | None
    problem: str = ""
    """Why there is no ``spec``."""


@frozen
class Unreadable:
    """Stands in decoded data for what can't be read, so that only its own tool is lost."""

    why: str


DEEPEST = 150
"""The number of brackets within brackets from which on a text is not decoded; no schema is read that has as many."""

MOST_DIGITS = 1000
"""The most digits of a whole number; Python itself reads four times as many."""

SIGNS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[{]|[\]}]', re.DOTALL)
"""Finds brackets, and strings, in which brackets don't count."""

TOO_DEEP = "-Infinity"
"""Stands in the place of what is nested too deeply: it is no JSON, but Python's decoder hands it to a hook."""


def decode_listing(text: str, *, twice: bool = True) -> Any:
    """Decoded JSON, with ``Unreadable`` in place of what is too deep or too long, or is no JSON number; and unless
    ``twice``, of an object that has a key twice, which others may read otherwise.

    Raises:
        ValueError: it is no JSON.
    """
    pairs = None if twice else _object
    return json.loads(shallow(text, TOO_DEEP), parse_int=_int, parse_constant=_constant, object_pairs_hook=pairs)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any] | Unreadable:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            return Unreadable(f"it has the key {name[:80]!r} twice")
        found[name] = value
    return found


def _int(digits: str) -> int | Unreadable:
    if len(digits) > MOST_DIGITS:
        return Unreadable(f"it holds a number of {len(digits)} digits")
    return int(digits)


def _constant(text: str) -> Unreadable:
    return Unreadable("it is nested too deeply" if text == TOO_DEEP else f"it holds {text}, which is no JSON")


def shallow(text: str, stand_in: str) -> str:
    """JSON with ``stand_in`` for what is nested ``DEEPEST`` brackets deep or deeper."""
    kept, depth, begun = [], 0, 0
    for sign in SIGNS.finditer(text):
        if sign[0] in "[{":
            depth += 1
            if depth == DEEPEST:
                kept.append(text[begun : sign.start()])
        elif sign[0] in "]}":
            depth -= 1
            if depth == DEEPEST - 1:
                kept.append(stand_in)
                begun = sign.end()
    return "".join([*kept, text[begun:]]) if depth < DEEPEST else text


def unreadable(data: Any) -> str:
    """Why something in decoded data could not be read; empty if all could."""
    waiting, seen = [data], set[int]()
    while waiting:
        one = waiting.pop()
        if isinstance(one, Unreadable):
            return one.why
        if isinstance(one, dict | list) and id(one) not in seen:  # what a program decoded may hold itself
            seen.add(id(one))
            waiting += one.values() if isinstance(one, dict) else one
    return ""


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
    if why := unreadable([schema, item.get("description")]):
        return Listed(place, name[:80], None, f"it can't be read: {why}")
    try:
        return Listed(place, name, ToolSpec(name, str(item.get("description") or ""), schema))
    except ConfigError as error:
        return Listed(place, name[:80], None, str(error)[:1000])
