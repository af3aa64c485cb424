"""Find the problems of a value under a JSON Schema made from a signature, in words for a model.

The arguments are checked with the schema that the model sees, before values are made from them. Nothing is coerced:
``"5"`` is not an integer (``5.0`` is, as in JSON Schema), and ``5`` is not a text.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from importlib.util import find_spec
from math import isfinite
from typing import Any

from interpreters.tools._value_checks import OTHER_RULES, as_key, has_duplicates, has_format, is_multiple

Schema = dict[str, Any]

EXACT = 2.0**53
"""A float represents every integer exactly up to this value. Larger floats such as ``1e30`` are not accepted as
integers.
"""

SCALARS: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}

NAMES = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
}
"""The types of JSON Schema in words for a model."""

FORMATS = {
    "date": "a date such as 2026-11-24",
    "date-time": "a date and time such as 2026-11-24T17:30:00+01:00",
    "time": "a time such as 17:30:00",
    "uuid": "a UUID such as 123e4567-e89b-12d3-a456-426614174000",
}

DECIMAL = "^-?[0-9]{1,100}(?:\\.[0-9]{1,100})?(?:[eE][+-]?[0-9]{1,3})?$"
OWN_PATTERNS: Mapping[str, re.Pattern[str]] = {DECIMAL: re.compile(DECIMAL[:-1] + "\\Z")}
"""Patterns that need no time limit, with their compiled form."""

PATTERN_SECONDS = 0.5
"""Seconds for one pattern on one text."""

CHECKED = frozenset(
    "type enum const anyOf oneOf allOf $ref items prefixItems minItems maxItems uniqueItems properties required "
    "additionalProperties minProperties maxProperties minimum maximum exclusiveMinimum exclusiveMaximum multipleOf "
    "minLength maxLength pattern format".split()
)

SILENT = frozenset(
    "$defs $schema $id $comment title description default examples deprecated readOnly writeOnly discriminator "
    "contentMediaType contentEncoding".split()
)
"""Keywords without effect on validity."""

DEEPEST = "they are nested too deeply to be checked"


def is_within(schema: Any) -> bool:
    """Return whether ``problems`` checks all keywords of a schema. If not, use ``schema_check``."""
    waiting: list[Any] = [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, bool):
            continue
        if not one.keys() <= CHECKED | SILENT or not _is_simple(one):
            return False
        waiting += [one[key] for key in ("items", "additionalProperties") if key in one]
        waiting += [part for key in ("anyOf", "oneOf", "allOf", "prefixItems") for part in one.get(key, ())]
        waiting += [part for key in ("properties", "$defs") for part in one.get(key, {}).values()]
    return True


def _is_simple(schema: Schema) -> bool:
    kind, pattern, place = schema.get("type", ""), schema.get("pattern"), schema.get("$ref", "#/$defs/")
    known = isinstance(kind, str) and schema.get("format") not in OTHER_RULES
    readable = pattern is None or pattern in OWN_PATTERNS or find_spec("regex") is not None
    return known and readable and place.startswith("#/$defs/") and place.count("/") == 2


def problems(
    value: Any, schema: Schema, path: str = "", definitions: Mapping[str, Schema] | None = None
) -> Iterator[str]:
    """Yield every problem of a decoded JSON value, each as one readable line.

    Raises:
        RecursionError: the value is nested too deeply.
    """
    return _problems(value, schema, path, _Known(schema.get("$defs", {}) if definitions is None else definitions))


def accepts(value: Any, schema: Schema, definitions: Mapping[str, Schema] | None = None) -> bool:
    return next(problems(value, schema, "", definitions), None) is None


class _Known(dict[str, Schema]):
    """The definitions of one check, and a cache of its results by value and schema.

    For a recursive class, each level checks the levels below for a fit and then for their problems. Without the cache
    each level would double the time.
    """

    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        super().__init__(definitions)
        # By identity: the value that is checked holds all of its parts.
        self.fits: dict[tuple[int, int], bool] = {}
        self.unlike: dict[tuple[int, int, str], tuple[int, int, list[str]]] = {}


def _problems(value: Any, schema: Schema, path: str, known: _Known) -> Iterator[str]:
    if "$ref" in schema:
        yield from _problems(value, known[schema["$ref"].removeprefix("#/$defs/")], path, known)
    if "allOf" in schema:
        for part in schema["allOf"]:
            yield from _problems(value, part, path, known)
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            yield from _of_options(value, schema[keyword], path, known, alone=keyword == "oneOf")
    if not _has_type(value, schema.get("type")) or not _is_chosen(value, schema):
        yield _format_expected(path, _expectation(schema, known), value)
    elif isinstance(value, list):
        yield from _array_problems(value, schema, path, known)
    elif isinstance(value, dict):
        yield from _object_problems(value, schema, path, known)
    elif isinstance(value, str):
        yield from _text_problems(value, schema, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _number_problems(value, schema, path)


def _fits(value: Any, schema: Schema, known: _Known) -> bool:
    if not isinstance(value, list | dict):
        return next(_problems(value, schema, "", known), None) is None
    key = id(value), id(schema)
    if key not in known.fits:
        known.fits[key] = next(_problems(value, schema, "", known), None) is None
    return known.fits[key]


def _of_options(value: Any, options: list[Any], path: str, known: _Known, *, alone: bool) -> Iterator[str]:
    fits = sum(_fits(value, _resolve(option, known), known) for option in options)
    if fits == 1 or (fits and not alone):
        return
    if fits:
        yield f"{path or 'the value'} may be only one of the things that it could be"
        return
    same_kind = [option for option in options if _has_type(value, _resolve(option, known).get("type"))]
    if len(same_kind) == 1 or (same_kind and isinstance(value, dict | list)):  # one wrong field, say: name the field
        distances = [_measure_distance(value, option, path, known) for option in same_kind]
        yield from min(distances, key=lambda one: one[:2])[2]
    else:
        words = dict.fromkeys(_expectation(option, known) for option in options)
        yield _format_expected(path, " or ".join(words), value)


def _measure_distance(value: Any, option: Schema, path: str, known: _Known) -> tuple[int, int, list[str]]:
    """Return how far a value is from an option: differing tag members, number of problems, and the problems."""
    option = _resolve(option, known)
    key = id(value), id(option), path
    if key not in known.unlike:
        members = option.get("properties", {}) if isinstance(value, dict) else {}
        apart = sum(
            name not in value or not _is_chosen(value[name], one) for name, one in members.items() if "const" in one
        )
        found = list(_problems(value, option, path, known))
        known.unlike[key] = apart, len(found), found
    return known.unlike[key]


def _resolve(schema: Schema, known: Mapping[str, Schema]) -> Schema:
    return known[schema["$ref"].removeprefix("#/$defs/")] if schema.keys() == {"$ref"} else schema


def _has_type(value: Any, kind: str | None) -> bool:
    match kind:
        case "integer":
            return type(value) is int or (type(value) is float and value.is_integer() and abs(value) < EXACT)
        case "number":
            return type(value) is int or (type(value) is float and isfinite(value))
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
        case None:
            return True
        case _:
            return SCALARS.get(type(value)) == kind


def _is_chosen(value: Any, schema: Schema) -> bool:
    """Return whether a value is among the choices, compared as in JSON."""
    if "enum" not in schema and "const" not in schema:
        return True
    key = as_key(value)
    choices = [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else ())]
    return any(as_key(choice) == key for choice in choices)


def _array_problems(value: list[Any], schema: Schema, path: str, known: _Known) -> Iterator[str]:
    prefix, rest = schema.get("prefixItems", []), schema.get("items", True)
    fewest, most = schema.get("minItems", 0), schema.get("maxItems", len(value))
    if not fewest <= len(value) <= most or (rest is False and len(value) > len(prefix)):
        yield _format_expected(path, f"a list of {_count(fewest, schema.get('maxItems'))}", value)
        return
    if schema.get("uniqueItems") and has_duplicates(value):
        yield _format_expected(path, "a list in which nothing stands twice", value)
    for index, item in enumerate(value):
        part = prefix[index] if index < len(prefix) else rest
        if isinstance(part, dict):
            yield from _problems(item, part, f"{path}[{index}]", known)


def _count(fewest: int, most: int | None) -> str:
    if most is None:
        return f"at least {fewest}"
    return f"{most}" if fewest == most else f"{fewest} to {most}" if fewest else f"at most {most}"


def _object_problems(value: dict[str, Any], schema: Schema, path: str, known: _Known) -> Iterator[str]:
    members: dict[str, Schema] = schema.get("properties", {})
    rest = schema.get("additionalProperties", True)
    start = f"{path}." if path else ""
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{start}{name} is missing"
    if not schema.get("minProperties", 0) <= len(value) <= schema.get("maxProperties", len(value)):
        wanted = _count(schema.get("minProperties", 0), schema.get("maxProperties"))
        yield _format_expected(path, f"an object with {wanted} members", value)
    for name, item in value.items():
        part = members.get(name, rest)
        if isinstance(part, dict):
            yield from _problems(item, part, f"{start}{name}", known)
        elif not part:
            close = get_close_matches(name, members, n=1)
            there = f"there are {', '.join(members)}" if members else "there are none"
            yield f"{start}{name} is unknown; " + (f"did you mean {close[0]}?" if close else there)


def _text_problems(value: str, schema: Schema, path: str) -> Iterator[str]:
    fewest, most = schema.get("minLength", 0), schema.get("maxLength")
    if len(value) < fewest or (most is not None and len(value) > most):
        yield _format_expected(path, f"a text of {_count(fewest, most)} characters", value)
    pattern, shape = schema.get("pattern"), schema.get("format")
    if pattern is not None and not _matches(pattern, value):
        yield _format_expected(path, f"a text that matches {pattern}", value)
    if shape in FORMATS and not has_format(value, shape):
        yield _format_expected(path, FORMATS[shape], value)


def _matches(pattern: str, text: str) -> bool:
    own = OWN_PATTERNS.get(pattern)
    if own is not None:
        return own.match(text) is not None
    try:
        return bool(compile_pattern(pattern).matches(text, PATTERN_SECONDS))
    except TimeoutError:  # what can't be told in time does not fit
        return False


@cache
def compile_pattern(pattern: str) -> Any:
    """Return a pattern with a time limit. Needs the package ``regex``; raises UnreadablePatternError."""
    from interpreters.tools._ecma import Pattern

    return Pattern(pattern)


LIMITS: tuple[tuple[str, Callable[[Any, Any], bool], str], ...] = (
    ("minimum", operator.ge, "at least"),
    ("exclusiveMinimum", operator.gt, "above"),
    ("maximum", operator.le, "at most"),
    ("exclusiveMaximum", operator.lt, "below"),
    ("multipleOf", is_multiple, "a multiple of"),
)
"""Keywords for numbers, each with its comparison of the number and the limit, and its words."""


def _number_problems(value: float, schema: Schema, path: str) -> Iterator[str]:
    for keyword, holds, words in LIMITS:
        limit = schema.get(keyword)
        if limit is not None and not holds(value, limit):
            yield _format_expected(path, f"{words} {limit}", value)


def _expectation(schema: Schema, known: Mapping[str, Schema]) -> str:
    schema = _resolve(schema, known)
    if "enum" in schema or "const" in schema:
        choices = schema.get("enum", [schema.get("const")])
        words = ", ".join(json.dumps(choice, ensure_ascii=False) for choice in choices)
        return f"one of {words}" if len(choices) > 1 else words
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            return " or ".join(dict.fromkeys(_expectation(option, known) for option in schema[keyword]))
    return FORMATS.get(schema.get("format", ""), NAMES.get(schema.get("type", ""), "something else"))


def _format_expected(path: str, what: str, value: Any) -> str:
    try:
        given = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        given = repr(value)
    given = given if len(given) <= 80 else f"{given[:77]}..."
    if NAMES["integer"] in what and type(value) is float and value.is_integer():
        given += "; a number of this size is exact only without a fraction and an exponent"
    return f"{path or 'the value'} must be {what}, not {given}"
