"""Types the values of parameters that a format writes as bare text, by the tool's JSON Schema.

``5`` is a number if the schema wants a number, and a string if it wants a string or without a schema. A text that does
not match its schema stays unchanged: the check of the arguments then reports the error to the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cognition.base.strict_json import DECODER, DuplicateKeyError
from cognition.parsing._repair import repair_json
from cognition.parsing.literals import CONSTANTS, UnreadableCallError
from cognition.values.tools import ToolSpec

ParameterTypes = Mapping[str, Mapping[str, frozenset[str]]]
"""For each tool and each of its parameters, the JSON types that its schema allows; empty if any type is allowed."""

NO_TYPES: ParameterTypes = {}

PYTHON_TYPES: dict[type, str] = {
    bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object", type(None): "null",
}  # fmt: skip

ANY_TYPE = frozenset({"any type"})
"""For a schema that refers to itself, or does not state its types: texts then stay unchanged."""

DEEPEST = 8
"""The limit of nested schemas searched for the types of one parameter."""

ITEM, ANY_KEY = "item", "*"
"""Names in paths: of a list's items, and of keys that a schema does not name."""
OTHER_PARAMETERS = f"/{ANY_KEY}"
"""The path of the parameters that a tool's schema does not name, if it has a schema for them."""


def types_of(tools: Iterable[ToolSpec], *, nested: bool = False) -> ParameterTypes:
    """Return the types that the schemas of these tools allow for their parameters.

    Parameters that a schema does not name have the path ``OTHER_PARAMETERS``. ``nested``: include the values within
    parameters, by their paths, such as ``size/x`` and ``tags/item``.
    """
    types: dict[str, dict[str, frozenset[str]]] = {}
    for tool in tools:
        properties, others = tool.parameters.get("properties"), tool.parameters.get("additionalProperties")
        known = dict(properties) if isinstance(properties, dict) else {}
        if isinstance(others, dict):
            known[OTHER_PARAMETERS] = others
        if known or isinstance(properties, dict):
            types[tool.name] = {key: _types(schema, tool.parameters, 0) for key, schema in known.items()}
            for key, schema in known.items() if nested else ():
                _note_within(types[tool.name], key, schema, tool.parameters, 0)
    return types


def _note_within(types: dict[str, frozenset[str]], path: str, schema: Any, root: Mapping[str, Any], depth: int) -> None:
    """Record the types that a schema allows within its values. Alternatives are merged."""
    if not isinstance(schema, dict) or depth > DEEPEST:
        return
    within: list[tuple[str, Any]] = []
    if isinstance(schema.get("properties"), dict):
        within += schema["properties"].items()
    within += [
        (name, schema[key]) for name, key in ((ITEM, "items"), (ANY_KEY, "additionalProperties")) if key in schema
    ]
    for name, inner in within:
        here = f"{path}/{name}"
        types[here] = types.get(here, frozenset()) | _types(inner, root, 0)
        _note_within(types, here, inner, root, depth + 1)
    others = [_target(schema["$ref"], root)] if isinstance(schema.get("$ref"), str) else []
    for several in ("anyOf", "oneOf", "allOf"):
        others += schema[several] if isinstance(schema.get(several), list) else []
    for other in others:
        _note_within(types, path, other, root, depth + 1)


def type_at(types: Mapping[str, frozenset[str]], path: str) -> frozenset[str]:
    """Return the types of a value by its path; empty if unknown, or if any type is allowed."""
    found = types.get(path)
    if found is None:
        found = types.get(f"{path.rpartition('/')[0]}/{ANY_KEY}", frozenset())
    return frozenset() if found & ANY_TYPE else found


def type_of(types: Mapping[str, frozenset[str]], parameter: str) -> frozenset[str]:
    """Return the types of a parameter; empty if unknown, or if any type is allowed."""
    return types.get(parameter, types.get(OTHER_PARAMETERS, frozenset()))


def _types(schema: Any, root: Mapping[str, Any], depth: int) -> frozenset[str]:
    if not isinstance(schema, dict) or depth > DEEPEST:
        return ANY_TYPE
    named = schema.get("type")
    if isinstance(named, str):
        return frozenset({named})
    if isinstance(named, list):
        return frozenset(item for item in named if isinstance(item, str))
    if "const" in schema:
        return _types_of_values([schema["const"]])
    if isinstance(schema.get("enum"), list):
        return _types_of_values(schema["enum"])
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return _types(_target(reference, root), root, depth + 1)
    for several in ("anyOf", "oneOf", "allOf"):
        if isinstance(schema.get(several), list):
            return frozenset().union(*(_types(each, root, depth + 1) for each in schema[several]))
    if "properties" in schema:
        return frozenset({"object"})
    return frozenset({"array"}) if "items" in schema else ANY_TYPE


def _types_of_values(values: Iterable[Any]) -> frozenset[str]:
    return frozenset(PYTHON_TYPES.get(type(value), "string") for value in values)


def _target(reference: str, root: Mapping[str, Any]) -> Any:
    """Return the target of a reference within the schema, such as ``#/$defs/Color``."""
    found: Any = root
    for step in reference.removeprefix("#").split("/")[1:]:
        found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return found


def parse_value(text: str, types: frozenset[str]) -> tuple[Any, tuple[str, ...]]:
    """Return the value of a parameter's text, and the repairs needed to read it.

    If the schema allows strings and another type, only text that is exactly valid for the other type is not a string.

    Raises:
        UnreadableCallError: the text is not a string, and has a duplicate key.
    """
    stripped = text.strip()
    if not types or types & ANY_TYPE or types == {"string"}:
        return text, ()
    if "null" in types and stripped in ("null", "None"):
        return None, ()
    try:
        value, repairs = read_literal(stripped)
    except UnreadableCallError:
        if "string" in types:
            return text, ()
        raise
    if repairs and "string" in types:
        return text, ()
    if isinstance(value, float) and "integer" in types and "number" not in types and value.is_integer():
        value = int(value)
    kind = PYTHON_TYPES.get(type(value), "")
    if (kind in types and kind != "string") or (kind == "integer" and "number" in types):
        return value, repairs
    return text, ()


def read_literal(text: str) -> tuple[Any, tuple[str, ...]]:
    """Return a value written as JSON, or nearly so; otherwise the text itself.

    Raises:
        UnreadableCallError: it is JSON with a duplicate key.
    """
    if text in CONSTANTS:
        return CONSTANTS[text], ()
    try:
        return DECODER.decode(text), ()
    except DuplicateKeyError as error:
        raise UnreadableCallError(str(error)) from None
    except (ValueError, RecursionError):
        repaired = repair_json(text, complete=False)
    return (text, ()) if repaired is None else (repaired.value, repaired.repairs)
