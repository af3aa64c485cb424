"""Pydantic models and types in signatures: pydantic writes their schema and validates their values.

Only this module imports pydantic, and only for a pydantic class, so pydantic is already imported then.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from cognition import ConfigError
from interpreters.tools.failures import RefusedError
from interpreters.tools.schema import Schema

PLACE = "#/$defs/"


def is_pydantic(kind: Any) -> bool:
    """Return whether a type is a pydantic type, or defines its own pydantic schema."""
    return "pydantic" in sys.modules and (
        hasattr(kind, "__get_pydantic_core_schema__") or hasattr(kind, "__pydantic_core_schema__")
    )


def is_field(default: Any) -> bool:
    """Return whether a parameter's default is a pydantic ``Field(...)``."""
    kind = type(default)
    return kind.__name__ == "FieldInfo" and kind.__module__ == "pydantic.fields"


def default_of(info: Any) -> Any:
    """Return the default in a ``Field(...)``, or ``inspect.Parameter.empty``."""
    return inspect.Parameter.empty if info.is_required() else info.get_default(call_default_factory=True)


def read_model(kind: Any, path: str, beside: dict[str, Schema]) -> tuple[Schema, Callable[[Any], Any], tuple[str, ...]]:
    """Read a type with pydantic. Adds its definitions to ``beside``, renamed where necessary.

    Returns:
        The schema. A function that validates data, and raises RefusedError with every problem. The checks of the
        outermost type that have no schema keyword, in words; inner types have them in their descriptions.

    Raises:
        ConfigError: pydantic has no JSON Schema for it.
    """
    import pydantic

    try:
        adapter: Any = pydantic.TypeAdapter(kind)
        written = adapter.json_schema(ref_template=f"{PLACE}{{model}}", schema_generator=_generator())
    except Exception as error:  # of many kinds, such as a name that can't be resolved
        raise ConfigError(f"{path}: pydantic has no JSON Schema for {kind!r}: {error}") from error
    schema = _describe_digits({keyword: value for keyword, value in written.items() if keyword not in DIGITS})
    definitions = schema.pop("$defs", {})
    names = {name: free_name(name, beside, definition) for name, definition in definitions.items()}
    beside.update({names[name]: _rename(definition, names) for name, definition in definitions.items()})

    def make(data: Any) -> Any:
        try:
            return adapter.validate_json(json.dumps(data))
        except pydantic.ValidationError as error:
            raise RefusedError((_format_place(one["loc"]), one["msg"]) for one in error.errors()) from error

    return _rename(schema, names), make, _digits(written)


def free_name(wanted: str, beside: Mapping[str, Schema], own: Schema | None = None) -> str:
    """Return the wanted name of a definition, with a number if another one has it."""
    name, number = wanted, 1
    while name in beside and beside[name] != own:
        number += 1
        name = f"{wanted}-{number}"
    return name


DIGITS = {
    "max_digits": "at most {} digits in all",
    "decimal_places": "at most {} digits behind the decimal point",
}
"""Bounds of a ``Decimal`` that pydantic checks but JSON Schema can't express, in words for the description."""

WHOLE = "at most {} digits before it"
"""Follows from both bounds together."""

NAMED = ("properties", "$defs", "patternProperties", "dependentSchemas")
"""Keywords whose keys are names, not schema keywords."""

VALUES = ("const", "default", "enum", "examples")
"""Keywords whose values are not schemas."""


@cache
def _generator() -> Any:
    """Return pydantic's schema generator, extended by the ``Decimal`` bounds that it omits."""
    from pydantic.json_schema import GenerateJsonSchema

    class WithDigits(GenerateJsonSchema):
        def decimal_schema(self, schema: Any) -> Any:
            return {**super().decimal_schema(schema), **{name: schema[name] for name in DIGITS if name in schema}}

    return WithDigits


def _describe_digits(part: Any) -> Any:
    """Replace the keywords in ``DIGITS`` by words in the description. Newer versions of pydantic may write them
    themselves.
    """
    if isinstance(part, list):
        return [_describe_digits(one) for one in part]
    if not isinstance(part, dict):
        return part
    made: Schema = {}
    for keyword, value in part.items():
        if keyword in NAMED and isinstance(value, dict):
            made[keyword] = {name: _describe_digits(one) for name, one in value.items()}
        elif keyword not in DIGITS:
            made[keyword] = value if keyword in VALUES else _describe_digits(value)
    if words := _digits(part):
        made["description"] = "; ".join((made["description"], *words) if "description" in made else words)
    return made


def _digits(part: Schema) -> tuple[str, ...]:
    words = [text.format(part[name]) for name, text in DIGITS.items() if part.get(name) is not None]
    if len(words) == len(DIGITS):  # pydantic keeps the places free: 123.4 is none of four digits with two places
        words.append(WHOLE.format(max(part["max_digits"] - part["decimal_places"], 0)))
    return tuple(words)


def _format_place(steps: Iterable[int | str]) -> str:
    return "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in steps)


def _rename(part: Any, names: dict[str, str]) -> Any:
    if isinstance(part, list):
        return [_rename(one, names) for one in part]
    if not isinstance(part, dict):
        return part
    made = {key: _rename(one, names) for key, one in part.items()}
    place = part.get("$ref")
    if isinstance(place, str) and place.startswith(PLACE):
        made["$ref"] = PLACE + names.get(place.removeprefix(PLACE), place.removeprefix(PLACE))
    return made
