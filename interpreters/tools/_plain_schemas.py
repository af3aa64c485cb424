"""Recognize schemas that are obviously valid, as nearly all tool schemas are.

``schema_check`` validates a schema against its draft, keyword by keyword, which takes milliseconds: most of a minute
for many thousand tools. A schema with only the usual keywords and the usual forms of values is always valid, and has
neither references nor patterns to check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

TYPES = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})

MOST_PARTS = 500
"""Parts of a schema looked at here. Larger schemas are validated against their draft, with its limits."""

DEEPEST = 12


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_number(value: Any) -> bool:
    return type(value) is int or type(value) is float


def _is_size(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_flag(value: Any) -> bool:
    return type(value) is bool


def _is_anything(_value: Any) -> bool:
    return True


def _is_type(value: Any) -> bool:
    return type(value) is str and value in TYPES


def _are_names(value: Any) -> bool:
    return type(value) is list and all(type(name) is str for name in value) and len(set(value)) == len(value)


def _is_list(value: Any) -> bool:
    return type(value) is list


SAYING: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("title", "description", "format"), _is_text),
    **dict.fromkeys(("minimum", "maximum"), _is_number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _is_size),
    "type": _is_type,
    "required": _are_names,
    "enum": _is_list,
    "const": _is_anything,
    "default": _is_anything,
    "uniqueItems": _is_flag,
}
"""Keywords without subschemas, each with a test for a value of the usual form."""

PARTS = ("anyOf", "oneOf", "allOf")


def is_plain(schema: Any) -> bool:
    """Return whether a schema is certainly valid in draft 2020-12 and has neither references nor patterns."""
    if type(schema) is not dict:
        return False
    level: list[Any] = [schema]
    parts = 0
    for _ in range(DEEPEST):
        within: list[Any] = []
        for one in level:
            if type(one) is bool:
                continue
            if type(one) is not dict:
                return False
            for key, value in one.items():
                says = SAYING.get(key)
                if says is not None:
                    if not says(value):
                        return False
                elif key in ("items", "additionalProperties"):
                    within.append(value)
                elif key == "properties" and type(value) is dict and all(type(name) is str for name in value):
                    within += value.values()
                elif key in PARTS and type(value) is list and value:
                    within += value
                else:
                    return False
        parts += len(within)
        if not within or parts > MOST_PARTS:
            return not within
        level = within
    return False
