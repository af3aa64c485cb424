"""From Python types to JSON Schema, and what is wrong with a value under such a schema.

The schema that the model sees is the one that its arguments are checked with, before cattrs makes values of them. So
nothing is coerced: ``"5"`` is no integer (``5.0`` is one, as JSON Schema says), and ``5`` is no text.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from enum import Enum
from math import isfinite
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import attrs

from cognition import ConfigError

Schema = dict[str, Any]

EXACT = 2.0**53
"""Up to which a float holds every whole number: what is written as ``1e30`` is none that a tool could count on."""

SCALARS: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
ARRAYS: tuple[Any, ...] = (list, tuple, Sequence, Iterable, set, frozenset)
OBJECTS: tuple[Any, ...] = (dict, Mapping)
UNIONS: tuple[Any, ...] = (Union, types.UnionType)

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


def schema_of(kind: Any, path: str, parents: tuple[Any, ...] = ()) -> Schema:
    """The schema of a type.

    Raises:
        ConfigError: a type that JSON has no form for; ``path`` says where it stands.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        schema = schema_of(arguments[0], path, parents)
        texts = [note for note in arguments[1:] if isinstance(note, str)]
        return {**schema, "description": texts[0]} if texts else schema
    if kind is Any or kind is inspect.Parameter.empty:
        return {}
    if kind is None or kind in SCALARS:
        return {"type": SCALARS[type(None) if kind is None else kind]}
    if origin is Literal:
        return _choice(arguments, path)
    if origin in UNIONS:
        return {"anyOf": [schema_of(member, path, parents) for member in arguments]}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _choice([member.value for member in kind], path)
    if origin is tuple and arguments and arguments[-1] is not Ellipsis:
        items = [schema_of(item, f"{path}[{index}]", parents) for index, item in enumerate(arguments)]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    if (origin or kind) in ARRAYS:
        return {"type": "array", "items": schema_of(arguments[0], f"{path}[]", parents) if arguments else {}}
    if (origin or kind) in OBJECTS:
        return _mapping(arguments, path, parents)
    fields = _fields(kind)
    if fields is not None:
        if kind in parents:
            raise ConfigError(f"{path}: {_name(kind)} contains itself; a tool's arguments have to end somewhere")
        return _object(fields, path, (*parents, kind))
    raise ConfigError(
        f"{path}: {_name(kind)} has no form in JSON; use str, int, float, bool, None, Literal, an Enum, list, tuple, "
        "dict, or a class made with attrs, dataclass or TypedDict"
    )


def problems(value: Any, schema: Schema, path: str = "") -> Iterator[str]:
    """Everything that is wrong with a decoded JSON value, one readable line each."""
    if "anyOf" in schema:
        options: list[Schema] = schema["anyOf"]
        if not any(accepts(value, option) for option in options):
            same_kind = [option for option in options if _has_type(value, option.get("type"))]
            if len(same_kind) == 1:  # an object with a wrong field, say: name the field
                yield from problems(value, same_kind[0], path)
            else:
                yield _expected(path, " or ".join(dict.fromkeys(_expectation(option) for option in options)), value)
        return
    kind = schema.get("type")
    if not _has_type(value, kind) or ("enum" in schema and not _is_one_of(value, schema["enum"])):
        yield _expected(path, _expectation(schema), value)
    elif kind == "array":
        yield from _array_problems(value, schema, path)
    elif kind == "object":
        yield from _object_problems(value, schema, path)


def accepts(value: Any, schema: Schema) -> bool:
    return next(problems(value, schema), None) is None


def _choice(values: Iterable[Any], path: str) -> Schema:
    choices = list(values)
    kinds = {SCALARS.get(type(value)) for value in choices}
    if None in kinds or not choices:
        raise ConfigError(f"{path}: choices have to be texts, numbers or truth values, not {choices!r}")
    return {"type": kinds.pop(), "enum": choices} if len(kinds) == 1 else {"enum": choices}


def _mapping(arguments: tuple[Any, ...], path: str, parents: tuple[Any, ...]) -> Schema:
    if not arguments:
        return {"type": "object"}
    if arguments[0] is not str:
        raise ConfigError(f"{path}: the keys of a JSON object are texts; use dict[str, ...]")
    return {"type": "object", "additionalProperties": schema_of(arguments[1], f"{path}{{}}", parents)}


def _object(fields: Mapping[str, tuple[Any, bool]], path: str, parents: tuple[Any, ...]) -> Schema:
    properties = {name: schema_of(kind, f"{path}.{name}", parents) for name, (kind, _) in fields.items()}
    required = [name for name, (_, is_required) in fields.items() if is_required]
    needed: Schema = {"required": required} if required else {}
    return {"type": "object", "properties": properties, **needed, "additionalProperties": False}


def _fields(kind: Any) -> dict[str, tuple[Any, bool]] | None:
    """Name, type and whether it is needed, for each field of an attrs class, dataclass or TypedDict; else None."""
    if not isinstance(kind, type):
        return None
    if is_typeddict(kind):
        total: frozenset[str] = getattr(kind, "__required_keys__", frozenset())
        return {name: (_bare(hint), name in total) for name, hint in get_type_hints(kind, include_extras=True).items()}
    if attrs.has(kind):
        hints = get_type_hints(kind, include_extras=True)
        made = [item for item in attrs.fields(kind) if item.init]
        return {item.name: (hints.get(item.name, Any), item.default is attrs.NOTHING) for item in made}
    if dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind, include_extras=True)
        missing = dataclasses.MISSING
        return {
            item.name: (hints[item.name], item.default is missing and item.default_factory is missing)
            for item in dataclasses.fields(kind)
            if item.init
        }
    return None


def _bare(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) in (Required, NotRequired) else hint


def _name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)


def _has_type(value: Any, kind: str | None) -> bool:
    match kind:
        case "integer":
            return type(value) is int or (type(value) is float and value.is_integer() and abs(value) <= EXACT)
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


def _is_one_of(value: Any, choices: list[Any]) -> bool:
    return any(value == choice and type(value) is type(choice) for choice in choices)


def _array_problems(value: list[Any], schema: Schema, path: str) -> Iterator[str]:
    prefix = schema.get("prefixItems")
    if prefix is not None and len(value) != len(prefix):
        yield _expected(path, f"a list of {len(prefix)}", value)
        return
    for index, item in enumerate(value):
        yield from problems(item, prefix[index] if prefix is not None else schema.get("items", {}), f"{path}[{index}]")


def _object_problems(value: dict[str, Any], schema: Schema, path: str) -> Iterator[str]:
    known: dict[str, Schema] = schema.get("properties", {})
    rest = schema.get("additionalProperties", "properties" not in schema)
    start = f"{path}." if path else ""
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{start}{name} is missing"
    for name, item in value.items():
        if name in known:
            yield from problems(item, known[name], f"{start}{name}")
        elif isinstance(rest, dict):
            yield from problems(item, rest, f"{start}{name}")
        elif not rest:
            close = get_close_matches(name, known, n=1)
            there = f"there are {', '.join(known)}" if known else "there are none"
            yield f"{start}{name} is unknown; " + (f"did you mean {close[0]}?" if close else there)


def _expectation(schema: Schema) -> str:
    if "enum" in schema:
        return "one of " + ", ".join(json.dumps(choice, ensure_ascii=False) for choice in schema["enum"])
    return NAMES.get(schema.get("type", ""), "something else")


def _expected(path: str, what: str, value: Any) -> str:
    try:
        given = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        given = repr(value)
    given = given if len(given) <= 80 else f"{given[:77]}..."
    return f"{path or 'the value'} must be {what}, not {given}"
