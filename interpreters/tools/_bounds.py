"""Convert bounds in ``Annotated[...]`` (annotated-types, pydantic's ``Field``) to JSON Schema keywords.

Bounds without a JSON Schema keyword (predicates, bounds of dates) go into the description as words. They are checked on
the finished value. This module imports neither package.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from functools import partial
from itertools import product
from math import isfinite, isnan
from typing import Any

from attrs import define, field

from cognition import ConfigError
from interpreters.tools.schema import Schema, compile_pattern
from runtime.models.installation import install_line

Test = Callable[[Any], bool]

ORDER: Mapping[str, tuple[str, str, Callable[[Any, Any], bool], str]] = {
    "gt": ("exclusiveMinimum", "Gt", operator.gt, "after"),
    "ge": ("minimum", "Ge", operator.ge, "not before"),
    "lt": ("exclusiveMaximum", "Lt", operator.lt, "before"),
    "le": ("maximum", "Le", operator.le, "not after"),
}
"""Maps an order bound to its keyword, its annotated-types class, its comparison, and the words for dates and times."""

BOUNDS = (*ORDER, "multiple_of", "min_length", "max_length")

SIZES: Mapping[str, Mapping[str, str]] = {
    "text": {"min_length": "minLength", "max_length": "maxLength"},
    "array": {"min_length": "minItems", "max_length": "maxItems"},
    "object": {"min_length": "minProperties", "max_length": "maxProperties"},
}
"""The length keywords, by sort of shape."""

LOW = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"})

MOMENTS = (date, datetime, time)


@define
class TypeNotes:
    """The metadata of one ``Annotated``."""

    description: str = ""
    bounds: list[tuple[str, Any]] = field(factory=list)
    """Pairs of an annotated-types name (``gt``, ``multiple_of``, ``min_length``, ``pattern``) and its value."""
    tests: list[tuple[str, Test]] = field(factory=list)
    """Predicates, each with a text for the description."""
    foreign: bool = False
    """Whether the metadata contains a pydantic feature that only pydantic can check."""


def read_notes(given: Iterable[Any], path: str) -> TypeNotes:
    """Read the metadata of an ``Annotated``. Ignores anything that is not a bound or a description, as Python does.

    Raises:
        ConfigError: a bound can't be checked.
    """
    notes = TypeNotes()
    for note in given:
        _read(note, notes, path)
    return notes


def _read(note: Any, notes: TypeNotes, path: str) -> None:
    kind = type(note)
    if isinstance(note, str):
        notes.description = notes.description or note
    elif any(base.__module__.partition(".")[0] == "pydantic" for base in kind.__mro__):
        _read_pydantic(note, notes, path)
    elif any(base.__module__ == "annotated_types" for base in kind.__mro__):
        _read_annotated_types(note, notes, path)
    elif kind.__name__ == "Doc" and isinstance(getattr(note, "documentation", None), str):
        notes.description = notes.description or note.documentation
    elif hasattr(note, "__get_pydantic_core_schema__"):
        notes.foreign = True


def _read_annotated_types(note: Any, notes: TypeNotes, path: str) -> None:
    name = type(note).__name__
    given = {one: getattr(note, one) for one in BOUNDS if hasattr(note, one)}
    if name == "Predicate":
        words = getattr(note.func, "__name__", "")
        told = words if words.isidentifier() else "a condition of the program's"
        notes.tests.append((f"has to satisfy {told}", note.func))
    elif name == "Unit":
        notes.description = notes.description or f"in {note.unit}"
    elif name in ("DocInfo", "doc"):
        notes.description = notes.description or note.documentation
    elif given:
        notes.bounds += [(one, value) for one, value in given.items() if value is not None]
    elif isinstance(note, Iterable):  # a group that somebody made
        for one in note:
            _read(one, notes, path)
    else:
        raise ConfigError(f"{path}: {name} can't be told in a JSON Schema, and would not be checked; leave it out")


PYDANTIC_BOUNDS = frozenset({*BOUNDS, "pattern"})
FOREIGN = ("discriminator", "validation_alias", "json_schema_extra")
SAYS_LITTLE = frozenset({"strict", "allow_inf_nan", "union_mode", "regex_engine"})
"""Pydantic options without effect here: nothing is coerced, and JSON has no infinite numbers."""


def _read_pydantic(note: Any, notes: TypeNotes, path: str) -> None:
    name = type(note).__name__
    if name == "FieldInfo":
        notes.description = notes.description or note.description or ""
        for one in note.metadata:
            _read(one, notes, path)
        notes.foreign = notes.foreign or any(getattr(note, one, None) is not None for one in FOREIGN)
        return
    given = getattr(note, "__dict__", {"slots": note})
    said = {one: value for one, value in given.items() if value is not None and not one.startswith("_")}
    known = name in ("PydanticGeneralMetadata", "_PydanticGeneralMetadata", "StringConstraints", "Strict")
    more = {one for one, value in said.items() if one not in PYDANTIC_BOUNDS | SAYS_LITTLE and value is not False}
    if not known or more:
        notes.foreign = True
        return
    notes.bounds += [(one, value) for one, value in said.items() if one in PYDANTIC_BOUNDS]


def has_effect(bound: str, sort: str) -> bool:
    """Return whether a bound applies to a ``number``, ``decimal``, ``text``, ``array``, ``object`` or ``moment``."""
    if bound in ORDER or bound == "multiple_of":
        return sort in ("number", "decimal") or (sort == "moment" and bound in ORDER)
    return sort == "text" if bound == "pattern" else sort in SIZES


def apply_bounds(
    bounds: Iterable[tuple[str, Any]], sort: str, before: Schema, path: str
) -> tuple[Schema, list[tuple[str, Test]]]:
    """Return the keywords and tests for these bounds. ``before`` contains the keywords that the type already has.

    Raises:
        ConfigError: a bound's value has the wrong type, or the bounds allow no value.
    """
    keywords: Schema = {}
    tests: list[tuple[str, Test]] = []
    for bound, value in bounds:
        if bound == "pattern":
            text = value if isinstance(value, str) else value.pattern
            if "pattern" in keywords or "pattern" in before:
                keywords["allOf"] = [*keywords.get("allOf", ()), {"pattern": text}]
            else:
                keywords["pattern"] = text
            _check_pattern(text, path)
        elif sort == "moment":
            _, name, compare, word = ORDER[bound]
            if not isinstance(value, MOMENTS):
                raise ConfigError(f"{path}: {name} needs a date or time, not {value!r}")
            tests.append((f"{word} {value.isoformat()}", partial(_compares, compare, value)))
        elif sort in SIZES:
            _tighten(keywords, SIZES[sort][bound], _size(value, path), before)
        else:
            keyword = ORDER[bound][0] if bound in ORDER else "multipleOf"
            _tighten(keywords, keyword, _number(value, bound, path), before)
    _check_room({**before, **keywords}, path)
    return keywords, tests


def _compares(compare: Callable[[Any, Any], bool], to: Any, value: Any) -> bool:
    return bool(compare(value, to))


def _tighten(keywords: Schema, keyword: str, value: float | None, before: Schema) -> None:
    if value is None:
        return
    known = keywords.get(keyword, before.get(keyword))
    if keyword == "multipleOf" and known is not None and known != value:
        keywords["allOf"] = [*keywords.get("allOf", ()), {keyword: value}]
        return
    tighter = max if keyword in LOW else min
    keywords[keyword] = value if known is None else tighter(known, value)


def _size(value: Any, path: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ConfigError(f"{path}: a length is a whole number from 0 on, not {value!r}")
    return value


def _number(value: Any, bound: str, path: str) -> float | None:
    """Return a bound as a JSON number, or None if it excludes nothing (infinity)."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal) or isnan(value):
        raise ConfigError(f"{path}: {bound} needs a number, not {value!r}")
    if bound == "multiple_of" and (value <= 0 or not isfinite(value)):
        raise ConfigError(f"{path}: multiple_of needs a number above 0, not {value!r}")
    if not isfinite(value):
        if (value < 0) == (bound in ("gt", "ge")):
            return None
        raise ConfigError(f"{path}: no number is beyond {value!r}")
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value


def _check_pattern(pattern: str, path: str) -> None:
    from importlib.util import find_spec

    if find_spec("regex") is None:
        raise ConfigError(f"{path}: a pattern needs the package regex to be checked: {install_line('schemas')}")
    try:
        compile_pattern(pattern)
    except ValueError as error:
        raise ConfigError(f"{path}: the pattern {pattern[:80]!r} can't be read: {error}") from error


ROOM = (
    *((sizes["min_length"], sizes["max_length"]) for sizes in SIZES.values()),
    *product(("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")),
)
"""Lower and upper bounds that must leave a value between them."""


def _check_room(schema: Schema, path: str) -> None:
    for low, high in ROOM:
        if low in schema and high in schema:
            none = operator.ge if "exclusive" in low + high else operator.gt
            if none(schema[low], schema[high]):
                raise ConfigError(f"{path}: nothing is left between {low} {schema[low]} and {high} {schema[high]}")


def find_failures(value: Any, tests: Iterable[tuple[str, Test]]) -> Iterator[str]:
    """Yield the texts of the tests that a value fails."""
    for words, test in tests:
        try:
            passed = bool(test(value))
        except Exception as error:  # such as a comparison of a naive time with an aware one
            yield f"{words} ({error})"
            continue
        if not passed:
            yield words
