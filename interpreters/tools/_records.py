"""Read the fields of classes that are JSON objects: attrs, dataclass, TypedDict and NamedTuple."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NotRequired, Required, TypeVar, get_args, get_origin, get_type_hints, is_typeddict

import attrs
from attrs import frozen

from cognition import ConfigError


@frozen
class Field:
    """One field of a class."""

    name: str
    """Its name in JSON."""
    kind: Any
    required: bool
    argument: str
    """Its name in the constructor."""


def is_typed_dict(kind: Any) -> bool:
    """Return whether a class is a TypedDict, also one of ``typing_extensions``, whose class is another."""
    return is_typeddict(kind) or (type(kind).__name__ == "_TypedDictMeta" and hasattr(kind, "__required_keys__"))


def is_named_tuple(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


def record_of(kind: Any, path: str) -> tuple[list[Field], Callable[..., Any]] | None:
    """Return the fields of a class, also of a generic class with arguments (``Box[int]``), and its constructor, which
    takes the fields by ``argument``. None for other types.

    Raises:
        ConfigError: an annotation in it can't be read.
    """
    made = get_origin(kind) or kind
    if not isinstance(made, type) or not (
        is_typed_dict(made) or attrs.has(made) or dataclasses.is_dataclass(made) or is_named_tuple(made)
    ):
        return None
    try:
        hints = get_type_hints(made, localns={made.__name__: made}, include_extras=True)
    except (NameError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{path}: an annotation of {made.__name__} can't be read ({error}); names in it have to be importable from "
            "its module"
        ) from error
    fields = _fields(made, hints)
    if variables := dict(zip(getattr(made, "__parameters__", ()), get_args(kind), strict=False)):
        fields = [attrs.evolve(field, kind=_replace_variables(field.kind, variables)) for field in fields]
    return fields, made


def _fields(made: Any, hints: Mapping[str, Any]) -> list[Field]:
    if is_typed_dict(made):
        needed: frozenset[str] = getattr(made, "__required_keys__", frozenset())
        return [_key(name, hint, name in needed) for name, hint in hints.items()]
    if attrs.has(made):
        return [
            Field(item.name, hints.get(item.name, Any), item.default is attrs.NOTHING, item.alias or item.name)
            for item in attrs.fields(made)
            if item.init
        ]
    if is_named_tuple(made):
        defaults = made._field_defaults
        return [Field(name, hints.get(name, Any), name not in defaults, name) for name in made._fields]
    missing = dataclasses.MISSING
    fields = []
    for item in made.__dataclass_fields__.values():
        hint = hints[item.name]
        if item.init and ClassVar not in (hint, get_origin(hint)):
            kind = hint.type if isinstance(hint, dataclasses.InitVar) else hint  # which only the constructor receives
            required = item.default is missing and item.default_factory is missing
            fields.append(Field(item.name, kind, required, item.name))
    return fields


def _key(name: str, hint: Any, needed: bool) -> Field:
    """Return a key of a TypedDict. If its annotations are strings, Python does not know which keys are required."""
    while get_origin(hint) in (Required, NotRequired) or getattr(get_origin(hint), "_name", "") == "ReadOnly":
        if get_origin(hint) in (Required, NotRequired):
            needed = get_origin(hint) is Required
        (hint,) = get_args(hint)
    return Field(name, hint, needed, name)


def _replace_variables(kind: Any, variables: Mapping[Any, Any]) -> Any:
    if isinstance(kind, TypeVar):
        return variables.get(kind, kind)
    inner = getattr(kind, "__parameters__", ())
    if isinstance(kind, type) and get_origin(kind) is None:  # a class itself, whose parameters are its own
        return kind
    return kind[tuple(variables.get(one, one) for one in inner)] if inner else kind
