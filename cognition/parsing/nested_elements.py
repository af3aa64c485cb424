"""Read arguments written as nested tags, as in MiniMax-M3: an object's keys are tags, a list's items are tags ``item``.

::

    <city>Tokyo</city><tags><item>a</item><item>b</item></tags><size><x>1.5</x></size>

The format has its own markers for ``<``, ``</`` and ``>``. It has no types, so the tool's schema decides the type of a
value. Within an object or a list without a schema, a number or boolean is read as such.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cognition.parsing.literals import DEEPEST, UnreadableCallError
from cognition.parsing.spec import ParameterMarkers
from cognition.parsing.typed_values import ITEM, parse_value, read_literal, type_at

Types = Mapping[str, frozenset[str]]
"""The types that the tool's schema allows, by the value's path, such as ``size/x`` and ``tags/item``."""


def read_elements(raw: str, at: int, markers: ParameterMarkers, types: Types) -> tuple[dict[str, Any], int]:
    """Return the parameters from position ``at`` on, and the position after them.

    Raises:
        UnreadableCallError: a tag is not closed or occurs twice, or the nesting is too deep.
    """
    found, at = _elements(raw, at, markers, types, "")
    return _object(found), at


def _elements(
    raw: str, at: int, markers: ParameterMarkers, types: Types, path: str
) -> tuple[list[tuple[str, Any]], int]:
    found: list[tuple[str, Any]] = []
    if path.count("/") > DEEPEST:
        raise UnreadableCallError("the arguments are nested too deeply")
    while _opens(raw, at := _behind_space(raw, at), markers):
        start = at + len(markers.key_start)
        end = raw.find(markers.key_end, start)
        key = raw[start:end].strip() if end >= 0 else ""
        here = f"{path}/{key}" if path else key
        at = end + len(markers.key_end)
        if key and _opens(raw, _behind_space(raw, at), markers):
            children, close = _elements(raw, at, markers, types, here)
            value = _container(children, type_at(types, here))
        else:
            close = raw.find(markers.value_end, at)
            value = leaf(raw[at:close], type_at(types, here), nested=bool(path))
        closing = f"{markers.value_end}{key}{markers.key_end}"
        if not key or close < 0 or not raw.startswith(closing, close):
            raise UnreadableCallError(f"the parameter that begins with {raw[start : start + 40]!r} is not closed")
        found.append((key, value))
        at = close + len(closing)
    return found, at


def _opens(raw: str, at: int, markers: ParameterMarkers) -> bool:
    # What closes a tag begins as what opens one.
    return raw.startswith(markers.key_start, at) and not raw.startswith(markers.value_end, at)


def _behind_space(raw: str, at: int) -> int:
    while raw[at : at + 1].isspace():
        at += 1
    return at


def _container(children: list[tuple[str, Any]], types: frozenset[str]) -> Any:
    """Return a list if the schema wants one, or if it allows both and all children are items; else an object."""
    items = all(key == ITEM for key, _ in children)
    if items and ("array" in types or "object" not in types):
        return [value for _, value in children]
    return _object(children)


def _object(children: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in children:
        if key in values:
            raise UnreadableCallError(f"the parameter {key!r} is given twice")
        values[key] = value
    return values


def leaf(text: str, types: frozenset[str], *, nested: bool) -> Any:
    """Return the value of a text between two tags. ``nested``: whether it is inside an object or a list."""
    if not text.strip() and types and "string" not in types:
        empty: dict[str, Any] = {"array": [], "object": {}}
        return next((empty[kind] for kind in empty if kind in types), text)
    if nested and not types:
        value, repairs = read_literal(text.strip())
        return text if repairs else value
    return parse_value(text, types)[0]
