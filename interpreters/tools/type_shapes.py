"""Map Python types to JSON: for each type its schema, and a function that makes values from matching JSON data.

One walk over the type produces both, so the schema and the values always agree. Recursive classes go under ``$defs``,
all others are written inline.
"""

from __future__ import annotations

import collections
import inspect
import types
from collections.abc import (
    Callable,
    Collection,
    Hashable,
    Iterable,
    Mapping,
    MutableMapping,
    MutableSequence,
    MutableSet,
    Sequence,
    Set,
)
from contextvars import ContextVar
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum, Flag
from pathlib import Path, PosixPath, PurePath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import Annotated, Any, ForwardRef, Literal, TypeVar, Union, get_args, get_origin
from uuid import UUID

from attrs import evolve, field, frozen

from cognition import ConfigError
from interpreters.tools._bounds import Test, TypeNotes, apply_bounds, find_failures, has_effect, read_notes
from interpreters.tools._pydantic_models import free_name, is_pydantic, read_model
from interpreters.tools._records import Field, record_of
from interpreters.tools._value_checks import as_date, as_date_time, as_key, as_time
from interpreters.tools.failures import RefusedError, gather
from interpreters.tools.schema import DECIMAL, SCALARS, Schema, accepts

UNIONS: tuple[Any, ...] = (Union, types.UnionType)
LISTS: Mapping[Any, Callable[[list[Any]], Any]] = {
    **dict.fromkeys((list, Sequence, MutableSequence, Iterable, Collection), list),
    tuple: tuple,
    collections.deque: collections.deque,
}
"""Array types, each with a constructor from a list."""
SETS: Mapping[Any, Callable[[list[Any]], Any]] = {
    **dict.fromkeys((set, Set, MutableSet), set),
    frozenset: frozenset,
}
OBJECTS: tuple[Any, ...] = (dict, Mapping, MutableMapping)
UNHASHABLE: tuple[Any, ...] = (list, dict, set, bytearray, collections.deque, *OBJECTS, MutableSequence, MutableSet)
PATHS = (PurePath, PurePosixPath, PureWindowsPath, Path, PosixPath, WindowsPath)

NUMBER: Schema = {"type": "number"}

KNOWN = (
    "str, int, float, bool, None, Decimal, datetime, date, time, UUID, Path, Literal, an Enum, list, tuple, set, dict, "
    "a class made with attrs, dataclass, TypedDict or NamedTuple, or a pydantic model"
)


@frozen(eq=False)
class Shape:
    """A type in its JSON form."""

    schema: Schema
    make: Callable[[Any], Any]
    """Makes a value from data that fits the schema. Exceptions of the type's own validators pass through."""
    sort: str = ""
    """The bounds that it accepts: those of a ``number``, ``text``, ``array``, ``object`` or ``moment``."""
    told: str = ""
    tests: tuple[tuple[str, Test], ...] = ()
    """Tests of the value beside the schema, each in words."""
    members: tuple[Shape, ...] = field(default=(), repr=False)

    def described(self) -> Schema:
        """Return the schema with a description that includes the tests."""
        text = "; ".join(part for part in (self.told, *(words for words, _ in self.tests)) if part)
        return {**self.schema, "description": text} if text else self.schema

    @property
    def plain(self) -> type | None:
        """The scalar type whose every value is valid and needs no conversion; None if a value needs either."""
        for kind in () if self.tests else PLAIN:
            if self.schema == FORMS[kind][0] and self.make is FORMS[kind][1]:
                return kind
        return None

    def value(self, data: Any) -> Any:
        """Make the value and run its tests.

        Raises:
            RefusedError: it fails a test. Exceptions of ``make`` pass through.
        """
        made = self.make(data)
        if self.tests and (failed := list(find_failures(made, self.tests))):
            raise RefusedError(("", words) for words in failed)
        return made


def _return_unchanged(data: Any) -> Any:
    return data


def _number(data: Any) -> Any:
    """Keep an integer that is too large for a float. Functions that take floats accept it too."""
    made = float(data)
    return made if made == data else data


def _decimal(data: Any) -> Decimal:
    return Decimal(str(data))  # of a float, the shortest text that means it


class Shapes:
    """Reads types that share one schema and its ``$defs``."""

    def __init__(self) -> None:
        self.definitions: dict[str, Schema] = {}
        self._names: dict[Any, str] = {}
        self._made: dict[str, Shape] = {}
        self._parents: list[Any] = []

    def root(self, shape: Shape) -> Schema:
        """Return a shape's schema with the shared ``$defs``."""
        return {**shape.described(), "$defs": self.definitions} if self.definitions else shape.described()

    def of(self, kind: Any, path: str) -> Shape:
        """Return the shape of a type.

        Raises:
            ConfigError: a type has no JSON form, or a bound can't be checked. The message names ``path``.
        """
        shape = self._of(kind, path)
        if not self._parents and not ends(shape.schema, self.definitions):
            raise ConfigError(f"{path}: {_name(kind)} contains itself without an end; no value of it can be written")
        return shape

    def _of(self, kind: Any, path: str) -> Shape:
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is Annotated:
            return self._annotated(kind, path)
        if kind is object or not isinstance(kind, Hashable):
            raise ConfigError(f"{path}: {_name(kind)} has no form in JSON; use {KNOWN}, or Any for whatever it is")
        if kind in FORMS:
            return Shape(*FORMS[kind])
        if isinstance(kind, TypeVar):
            constraints = kind.__constraints__
            bound = kind.__bound__ or (Union[constraints] if constraints else Any)  # noqa: UP007 - of a tuple
            return self.of(bound, path)
        if hasattr(kind, "__supertype__"):  # a NewType
            return self._of(kind.__supertype__, path)
        if origin is Literal:
            return _choice(arguments, path)
        if origin in UNIONS:
            return union_of(tuple(self._of(member, path) for member in arguments), self.definitions)
        if isinstance(kind, type) and issubclass(kind, Flag):
            raise ConfigError(
                f"{path}: {_name(kind)} has no form in JSON, since its members are combined; use list[...] of an Enum"
            )
        if isinstance(kind, type) and issubclass(kind, Enum):
            return _choice(list(kind), path)
        return self._container(kind, origin or kind, arguments, path) or self._class(kind, path)

    def _container(self, kind: Any, origin: Any, arguments: tuple[Any, ...], path: str) -> Shape | None:
        if origin is tuple and (arguments or kind is not tuple) and arguments[-1:] != (...,):
            return self._row([self._of(item, f"{path}[{index}]") for index, item in enumerate(arguments)])
        if isinstance(origin, type) and origin in LISTS:
            item = self._of(arguments[0], f"{path}[]") if arguments else Shape({}, _return_unchanged)
            return _array({"type": "array", "items": item.described()}, item, LISTS[origin])
        if isinstance(origin, type) and origin in SETS:
            item = self._of(arguments[0], f"{path}[]") if arguments else _scalar(self)
            _check_hashable(arguments[0] if arguments else str, f"{path}[]")
            schema: Schema = {"type": "array", "items": item.described(), "uniqueItems": True}
            return _array(schema, item, SETS[origin])
        if origin in OBJECTS:
            return self._mapping(arguments, path)
        return None

    def _row(self, items: list[Shape]) -> Shape:
        schema: Schema = {"type": "array", "minItems": len(items), "maxItems": len(items)}
        if items:
            schema = {"type": "array", "prefixItems": [one.described() for one in items], **schema}

        def make(data: list[Any]) -> Any:
            return tuple(gather((f"[{n}]", one.value, data[n]) for n, one in enumerate(items)))

        return Shape(schema, make)

    def _mapping(self, arguments: tuple[Any, ...], path: str) -> Shape:
        if not arguments:
            return Shape({"type": "object"}, _return_unchanged, "object")
        key = arguments[0]
        while hasattr(key, "__supertype__"):  # a NewType
            key = key.__supertype__
        if key is not str:
            raise ConfigError(f"{path}: the keys of a JSON object are texts; use dict[str, ...]")
        item = self._of(arguments[1], f"{path}{{}}")

        def make(data: dict[str, Any]) -> Any:
            values = gather((f".{name}", item.value, one) for name, one in data.items())
            return dict(zip(data, values, strict=True))

        return Shape({"type": "object", "additionalProperties": item.described()}, make, "object")

    # --------------------------------------------------------------------------------------------------------- bounds

    def _annotated(self, kind: Any, path: str) -> Shape:
        inner, *given = get_args(kind)
        notes = read_notes(given, path)
        if notes.foreign:
            return self._pydantic(kind, path)
        return apply_notes(self._of(inner, path), notes, _name(inner), path, self.definitions)

    # -------------------------------------------------------------------------------------------------------- classes

    def _class(self, kind: Any, path: str) -> Shape:
        if is_pydantic(kind):
            return self._pydantic(kind, path)
        alias = _alias_of(kind)
        record = None if alias is not None else record_of(kind, path)
        if alias is None and record is None:
            raise ConfigError(f"{path}: {_name(kind)} has no form in JSON; use {KNOWN}")
        if kind in self._names or kind in self._parents:
            return self._reference(kind)
        self._parents.append(kind)
        try:
            shape = self._record(*record, path) if record is not None else self._of(alias, path)
        finally:
            self._parents.pop()
        if kind not in self._names:
            return shape
        name = self._names[kind]
        self.definitions[name], self._made[name] = shape.schema, shape
        return self._reference(kind)

    def _reference(self, kind: Any) -> Shape:
        if kind not in self._names:
            wanted = "".join(sign if sign.isalnum() or sign in "_-" else "_" for sign in _name(kind))
            self._names[kind] = free_name(wanted, self.definitions)
            self.definitions[self._names[kind]] = {}  # until it is read
        name = self._names[kind]
        return Shape({"$ref": f"#/$defs/{name}"}, lambda data: self._made[name].value(data))

    def _record(self, fields: list[Field], constructor: Callable[..., Any], path: str) -> Shape:
        shapes = {one.name: self._of(one.kind, f"{path}.{one.name}") for one in fields}
        arguments = {one.name: one.argument for one in fields}
        required = [one.name for one in fields if one.required]
        schema: Schema = {
            "type": "object",
            "properties": {name: shape.described() for name, shape in shapes.items()},
            **({"required": required} if required else {}),
            "additionalProperties": False,
        }

        def make(data: dict[str, Any]) -> Any:
            values = gather((f".{name}", shapes[name].value, one) for name, one in data.items())
            return constructor(**{arguments[name]: one for name, one in zip(data, values, strict=True)})

        return Shape(schema, make)

    def _pydantic(self, kind: Any, path: str) -> Shape:
        schema, make, checks = read_model(kind, path, self.definitions)
        told = schema.pop("description", "") if checks else ""
        return Shape(schema, make, told=told, tests=tuple((words, lambda _: True) for words in checks))


FORMS: Mapping[Any, tuple[Schema, Callable[[Any], Any], str]] = {
    **dict.fromkeys((Any, inspect.Parameter.empty), ({}, _return_unchanged, "")),
    **dict.fromkeys((None, type(None)), ({"type": "null"}, _return_unchanged, "")),
    str: ({"type": "string"}, _return_unchanged, "text"),
    int: ({"type": "integer"}, int, "number"),
    float: (NUMBER, _number, "number"),
    bool: ({"type": "boolean"}, _return_unchanged, ""),
    Decimal: ({"anyOf": [NUMBER, {"type": "string", "pattern": DECIMAL}]}, _decimal, "decimal"),
    datetime: ({"type": "string", "format": "date-time"}, as_date_time, "moment"),
    date: ({"type": "string", "format": "date"}, as_date, "moment"),
    time: ({"type": "string", "format": "time"}, as_time, "moment"),
    UUID: ({"type": "string", "format": "uuid"}, UUID, ""),
    **{kind: ({"type": "string"}, kind, "") for kind in PATHS},
}
"""Types without parts: schema, constructor, and the sort of bounds that they accept."""

PLAIN = (str, int, bool)
"""Types whose every value is valid JSON. For floats, infinity is not."""


_refused: ContextVar[dict[tuple[int, int], Exception] | None] = ContextVar("refused", default=None)
"""Cache of the refusals by unions within the data being read. Without it, mutually recursive members would double the
work at each level.
"""


def union_of(members: tuple[Shape, ...], definitions: Mapping[str, Schema]) -> Shape:
    """Return a union. Its value comes from the first member whose schema fits and whose validators accept the data."""

    def first(data: Any) -> Any:
        refused: Exception = TypeError("no member of the union takes it")
        for member in members:
            if accepts(data, member.schema, definitions):
                try:
                    return member.value(data)
                except Exception as error:  # a validator said no: perhaps the next member takes it
                    refused = error
        raise refused

    def make(data: Any) -> Any:
        if not isinstance(data, list | dict):
            return first(data)
        known = _refused.get()
        if known is None:  # what is made here is the outermost, and holds all data whose identity is remembered
            token = _refused.set({})
            try:
                return first(data)
            finally:
                _refused.reset(token)
        key = id(data), id(members)
        if key in known:
            raise known[key]
        try:
            return first(data)
        except Exception as error:
            known[key] = error
            raise

    return Shape({"anyOf": [member.described() for member in members]}, make, members=members)


def apply_notes(shape: Shape, notes: TypeNotes, name: str, path: str, definitions: Mapping[str, Schema]) -> Shape:
    """Apply the metadata of an ``Annotated`` to a shape.

    Raises:
        ConfigError: a bound does not apply to the type.
    """
    shape = evolve(shape, told=notes.description or shape.told, tests=(*shape.tests, *notes.tests))
    if not notes.bounds:
        return shape
    parts = shape.members or (shape,)
    narrowed = tuple(_narrow(one, notes.bounds, path) for one in parts)
    for bound, _ in notes.bounds:
        if not any(has_effect(bound, one.sort) for one in parts):
            raise ConfigError(f"{path}: {bound} says nothing of {name} in a JSON Schema; check it in the function")
    if not shape.members:
        return narrowed[0]
    return evolve(union_of(narrowed, definitions), told=shape.told, tests=shape.tests)


def _narrow(shape: Shape, bounds: Iterable[tuple[str, Any]], path: str) -> Shape:
    """Return the shape with those of the bounds that apply to it."""
    own = [pair for pair in bounds if has_effect(pair[0], shape.sort)]
    if not own:
        return shape
    if shape.sort == "decimal":
        shape = evolve(shape, schema=NUMBER, sort="number")
    keywords, tests = apply_bounds(own, shape.sort, shape.schema, path)
    return evolve(shape, schema={**shape.schema, **keywords}, tests=(*shape.tests, *tests))


def _array(schema: Schema, item: Shape, made: Callable[[list[Any]], Any]) -> Shape:
    def make(data: list[Any]) -> Any:
        return made(gather((f"[{n}]", item.value, one) for n, one in enumerate(data)))

    return Shape(schema, make, "array")


def _scalar(shapes: Shapes) -> Shape:
    """The element type of a set without a type argument. Lists are excluded, since they have no hash."""
    return union_of(tuple(shapes.of(kind, "") for kind in (str, float, bool, None)), {})


def _choice(values: Sequence[Any], path: str) -> Shape:
    plain = [_plain(value) for value in values]
    kinds = {SCALARS.get(type(value)) for value in plain}
    if None in kinds or not plain:
        raise ConfigError(f"{path}: choices have to be texts, numbers or truth values, not {list(values)!r}")
    by_key = {as_key(one): value for one, value in zip(reversed(plain), reversed(values), strict=True)}
    choices = list({as_key(one): one for one in plain}.values())
    schema: Schema = {"type": kinds.pop(), "enum": choices} if len(kinds) == 1 else {"enum": choices}
    return Shape(schema, lambda data: by_key[as_key(data)])


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def _check_hashable(kind: Any, path: str) -> None:
    inner = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    made = get_origin(inner) or inner
    if made in UNIONS:
        for member in get_args(inner):
            _check_hashable(member, path)
    elif made in UNHASHABLE or (isinstance(made, type) and made.__hash__ is None):
        raise ConfigError(
            f"{path}: {_name(inner)} can't be in a set, since it has no hash; use a list, or a frozen class"
        )
    elif made is tuple:
        for item in get_args(inner):
            if item is not ...:
                _check_hashable(item, path)


def _alias_of(kind: Any) -> Any:
    """Return the type behind a named alias (``type Json = ...``, or its name in quotes), or None."""
    if isinstance(kind, ForwardRef):
        return kind.__forward_value__ if kind.__forward_evaluated__ else None
    return kind.__value__ if type(kind).__name__ == "TypeAliasType" else None


def _name(kind: Any) -> str:
    if isinstance(kind, ForwardRef):
        return kind.__forward_arg__
    return kind.__name__ if isinstance(kind, type) and get_origin(kind) is None else str(kind)


def ends(schema: Any, definitions: Mapping[str, Any], within: frozenset[str] = frozenset()) -> bool:
    """Return whether a schema allows a finite value."""
    if not isinstance(schema, dict):
        return True
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        return name not in within and ends(definitions.get(name), definitions, within | {name})
    if "anyOf" in schema:
        return any(ends(option, definitions, within) for option in schema["anyOf"])
    needed = [schema.get("properties", {}).get(name) for name in schema.get("required", ())]
    fewest = schema.get("minItems", 0)
    first = schema.get("prefixItems", [])
    needed += first[:fewest]
    if fewest > len(first):
        needed.append(schema.get("items"))
    return all(ends(part, definitions, within) for part in needed)
