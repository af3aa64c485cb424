"""A JSON Schema for every type that ``codec`` writes, so that other programs can read and check recordings.

The schemas follow the rules of the codec: tags are under ``"type"``, fields with a default may be missing, and unknown
fields are invalid. They are JSON Schema 2020-12 (https://json-schema.org/draft/2020-12/schema).
"""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from attrs import NOTHING, fields, has

from cognition.base.errors import ConfigError
from cognition.steps.codec import tags_of
from cognition.values.history import History
from cognition.values.messages import Message

SCALARS: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}


def json_schema(kind: Any) -> dict[str, Any]:
    """Return the schema of ``to_data``'s output for a type: a class of the core, or a union such as ``Input``.

    ``$defs`` contains each class once, by name.

    Raises:
        ConfigError: the codec does not write this type.
    """
    definitions: dict[str, Any] = {}
    root = _schema(kind, definitions)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **root, "$defs": definitions}


def _schema(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    kind = getattr(kind, "__supertype__", kind)  # a NewType is what it renames
    if kind in SCALARS:
        return {"type": SCALARS[kind]}
    if kind is History:
        return {"type": "array", "items": _schema(Message, definitions)}
    tags = tags_of(kind)
    if tags:
        return {"oneOf": [_reference(member, definitions, tag) for member, tag in tags.items()]}
    origin = get_origin(kind)
    if origin is Literal:
        return {"enum": list(get_args(kind))}
    if origin is tuple:
        item, *others = get_args(kind)
        if others == [...]:
            return {"type": "array", "items": _schema(item, definitions)}
        row = [_schema(one, definitions) for one in (item, *others)]
        return {"type": "array", "prefixItems": row, "items": False, "minItems": len(row)}
    if origin is dict:
        return {"type": "object"}
    if origin in (Union, UnionType):
        return {"anyOf": [_schema(member, definitions) for member in get_args(kind)]}
    if isinstance(kind, type) and has(kind):
        return _reference(kind, definitions, None)
    raise ConfigError(f"{kind!r} is no type that the codec writes")


def _reference(kind: type, definitions: dict[str, Any], tag: str | None) -> dict[str, Any]:
    """Return a reference to a class's definition; as a member of a union it carries its tag."""
    name = kind.__name__ if tag is None else f"{kind.__name__}.tagged"
    if name not in definitions:
        definitions[name] = {}  # so that a class which contains itself is walked once
        definitions[name] = _definition(kind, definitions, tag)
    return {"$ref": f"#/$defs/{name}"}


def _definition(kind: Any, definitions: dict[str, Any], tag: str | None) -> dict[str, Any]:
    hints = get_type_hints(kind)
    properties = {field.name: _schema(hints[field.name], definitions) for field in fields(kind) if field.init}
    required = [field.name for field in fields(kind) if field.init and field.default is NOTHING]
    if tag is not None:
        properties, required = {"type": {"const": tag}, **properties}, ["type", *required]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
