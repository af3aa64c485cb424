"""Read foreign tool lists into the specifications that a model receives.

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
"""The keys that may contain a tool's schema."""


@frozen
class ListedDefinition:
    """One tool of a list."""

    place: int
    """Its index in the list, from 0."""
    name: str
    """Empty if the tool has no name."""
    spec: ToolSpec | None
    problem: str = ""
    """The reason if ``spec`` is None."""


@frozen
class Unreadable:
    """Replaces unreadable data in decoded JSON, so that only the tool with that data is lost."""

    why: str


DEEPEST = 150
"""Nesting depth at which a text is no longer decoded. Schemas are limited to fewer levels."""

MOST_DIGITS = 1000
"""Digits of a whole number at most. Python itself reads four times as many."""

SIGNS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[{]|[\]}]', re.DOTALL)
"""Matches brackets. Also matches whole strings, to skip the brackets in them."""

TOO_DEEP = "-Infinity"
"""Replaces data that is nested too deeply. It is not JSON, but Python's decoder passes it to a hook."""


def decode_listing(text: str, *, twice: bool = True) -> Any:
    """Decode JSON, with ``Unreadable`` in place of unusable parts.

    Unusable are values that are nested too deeply, integers that are too long, and constants such as ``NaN``. With
    ``twice=False``, so are objects with a repeated key, since other readers may choose the other value.

    Raises:
        ValueError: it is not JSON.
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
    """Replace everything nested ``DEEPEST`` brackets deep or deeper by ``stand_in``."""
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
    """Return why a part of decoded data could not be read, or an empty text."""
    waiting, seen = [data], set[int]()
    while waiting:
        one = waiting.pop()
        if isinstance(one, Unreadable):
            return one.why
        if isinstance(one, dict | list) and id(one) not in seen:  # what a program decoded may hold itself
            seen.add(id(one))
            waiting += one.values() if isinstance(one, dict) else one
    return ""


def read_listing(data: Any) -> tuple[ListedDefinition, ...]:
    """Return the tools of a list, including the unusable ones.

    Args:
        data: decoded JSON: a list, or an object with the list under ``tools``, possibly within ``result``.

    Raises:
        ConfigError: the data does not contain a list of tools.
    """
    if isinstance(data, Mapping) and isinstance(data.get("result"), Mapping):
        data = data["result"]
    items = data.get("tools") if isinstance(data, Mapping) else data
    if not isinstance(items, list):
        raise ConfigError('no list of tools; one is {"name": ..., "inputSchema": JSON Schema}')
    return tuple(_read_entry(place, item) for place, item in enumerate(items))


def _read_entry(place: int, item: Any) -> ListedDefinition:
    if isinstance(item, Mapping):
        item = item.get("function", item)
    name = item.get("name") if isinstance(item, Mapping) else None
    schema: Any = None
    if isinstance(item, Mapping):
        schema = next((item[key] for key in SCHEMAS if item.get(key) is not None), {})
    if not isinstance(schema, dict) or not isinstance(name, str):
        return ListedDefinition(place, "", None, "it has to be an object with a name and, as parameters, a JSON Schema")
    if why := unreadable([schema, item.get("description")]):
        return ListedDefinition(place, name[:80], None, f"it can't be read: {why}")
    try:
        return ListedDefinition(place, name, ToolSpec(name, str(item.get("description") or ""), schema))
    except ConfigError as error:
        return ListedDefinition(place, name[:80], None, str(error)[:1000])
