"""Merges keywords that must all hold: those of a schema, of the schemas that it references, and of its ``allOf``.

Each keyword narrows the result: types and values to those that all parts allow, bounds to the tighter one, members to
those of all. ``anyOf`` and ``oneOf`` wait until all others are known; each option is then combined with them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from attrs import define, evolve, field, fields, frozen

from runtime.constrained._disjoint import canonical

TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
HELD: Mapping[str, frozenset[str]] = {
    "object": frozenset(
        {"properties", "required", "additionalProperties", "patternProperties", "minProperties", "maxProperties"}
    ),
    "array": frozenset({"items", "prefixItems", "minItems", "maxItems"}),
    "string": frozenset({"minLength", "maxLength", "pattern"}),
    "number": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
}
"""The keywords that imply a type if the schema names none. ``format`` does not: it is an annotation."""

LATER: Mapping[str, str] = {
    "not": "a grammar says what may be, not what must not",
    "if": "a grammar can't look at one member to decide on another",
    "uniqueItems": "a grammar can't compare values",
    "contains": "a grammar can't count some of the elements; use items or prefixItems",
    "propertyNames": "use properties",
    "minProperties": "use required",
    "maxProperties": "use properties",
    "dependentRequired": "a grammar can't look at one member to decide on another; use anyOf",
    "dependentSchemas": "a grammar can't look at one member to decide on another; use anyOf",
    "dependencies": "a grammar can't look at one member to decide on another; use anyOf",
    "unevaluatedProperties": "use additionalProperties in one schema",
    "unevaluatedItems": "use items in one schema",
    "$dynamicRef": "use $ref",
    "$recursiveRef": "use $ref",
}
"""The keywords left to the check after the call, each with the reason or an alternative."""

SAYS_NOTHING: Mapping[str, tuple[Any, ...]] = {
    "not": (False,),
    "uniqueItems": (False,),
    "propertyNames": (True, {}, {"type": "string"}),
    "minProperties": (0, None),
    "maxProperties": (None,),
    "dependentRequired": ({},),
    "dependentSchemas": ({},),
    "dependencies": ({},),
    "unevaluatedProperties": (True, {}),
    "unevaluatedItems": (True, {}),
}
"""The values of these keywords that allow everything."""

LARGEST_SIZE = 1_000_000
"""The largest size of texts, lists and objects: no reply is as long, and the grammar engine's counters have 32 bits."""

ABSENT: Any = object()


@frozen
class Alternatives:
    """The options of an ``anyOf`` or ``oneOf``."""

    keyword: str
    path: str
    options: tuple[Any, ...]


@frozen
class Bound:
    """One end of a range of numbers."""

    value: Decimal
    excluded: bool


@define
class Conjunction:
    """The constraints on a value, from all schemas that it must match."""

    path: str
    impossible: bool = False
    types: tuple[str, ...] | None = None
    values: dict[str, str] | None = None
    """The values that ``enum`` and ``const`` allow, as JSON text. Equal values have equal keys."""
    properties: dict[str, Any] = field(factory=dict)
    required: dict[str, None] = field(factory=dict)
    additional: Any = ABSENT
    patterned: dict[str, Any] = field(factory=dict)
    named: bool = False
    """Whether there was a keyword ``properties``, even if empty."""
    closed: bool = False
    """Whether ``unevaluatedProperties`` allows no others."""
    first: tuple[Any, ...] = ()
    items: Any = ABSENT
    sizes: dict[str, int] = field(factory=dict)
    low: Bound | None = None
    high: Bound | None = None
    step: int | None = None
    patterns: dict[str, None] = field(factory=dict)
    formats: dict[str, None] = field(factory=dict)
    counts: dict[str, int] = field(factory=dict)
    """``minProperties`` and ``maxProperties``."""
    kinds: dict[str, None] = field(factory=dict)
    """The types that its keywords imply."""
    alternatives: tuple[Alternatives, ...] = ()
    given: bool = False
    """Whether it has keywords other than alternatives."""
    combined: bool = False
    """Whether an option narrowed it, which may leave no value."""

    def copy(self, alternatives: tuple[Alternatives, ...]) -> Conjunction:
        """Return a copy with these alternatives, which can be narrowed further."""
        values = ((one.name, getattr(self, one.name)) for one in fields(Conjunction))
        own: dict[str, Any] = {name: dict(value) for name, value in values if isinstance(value, dict)}
        return evolve(self, **own, alternatives=alternatives, combined=True)


@define
class Narrowing:
    """Narrows a conjunction by one schema."""

    refuse: Callable[[str], object]
    """Receives a problem of the schema."""
    weaken: Callable[[str, str], object]
    """Receives a keyword that a grammar can't enforce, with the reason."""
    _into: Conjunction
    _top: bool
    """Whether it is the root schema, not one that it references or combines."""

    def narrow(self, schema: dict[str, Any]) -> None:
        """Narrow by all keywords of a schema except ``$ref``, ``allOf`` and alternatives."""
        into = self._into
        for kind, keywords in HELD.items():
            if keywords & schema.keys():
                into.kinds[kind] = None
        if "type" in schema:
            self._types(schema["type"])
        self._values(schema)
        self._object(schema)
        self._array(schema)
        self._text(schema)
        self._number(schema)
        for keyword, reason in LATER.items():
            if keyword in schema and not _says_nothing(keyword, schema):
                self._later(keyword, schema[keyword], reason)

    def _later(self, keyword: str, value: Any, reason: str) -> None:
        into = self._into
        if keyword in ("minProperties", "maxProperties"):
            self._size(into.counts, keyword, value)
        elif keyword == "unevaluatedProperties" and self._top:
            into.closed = True  # so that there are none whose schema would have to be looked at
        elif keyword == "unevaluatedItems" and self._top and value is False and into.items is ABSENT:
            into.items = False
        else:
            self.weaken(keyword, reason)

    # --------------------------------------------------------------------------------------------- types and values

    def _types(self, value: Any) -> None:
        into, named = self._into, value if isinstance(value, list) else [value]
        if not named or any(not isinstance(one, str) or one not in TYPES for one in named):
            self.refuse(f"'type' has to be one of {', '.join(TYPES)}, not {show_value(value)}")
            return
        named = [one for one in dict.fromkeys(named) if not (one == "integer" and "number" in named)]
        if into.types is not None:
            both = [_common_type(one, other) for one in into.types for other in named]
            named = list(dict.fromkeys(one for one in both if one is not None))
        into.types = tuple(named)
        into.impossible = into.impossible or not named

    def _values(self, schema: dict[str, Any]) -> None:
        into = self._into
        listed = [schema["enum"]] if "enum" in schema else []
        listed += [[schema["const"]]] if "const" in schema else []
        for values in listed:
            if not isinstance(values, list):
                self.refuse("'enum' has to be a list of values")
                continue
            if not values:
                self.weaken("enum", "it lists no value")
            texts: dict[str, str] = {}
            for value in values:
                text = json.dumps(value, ensure_ascii=False)
                texts.setdefault(canonical(text), text)
            known = texts if into.values is None else into.values
            into.values = {key: text for key, text in known.items() if key in texts}
            into.impossible = into.impossible or not into.values

    # --------------------------------------------------------------------------------------------- objects and lists

    def _object(self, schema: dict[str, Any]) -> None:
        into = self._into
        properties, required = schema.get("properties", {}), schema.get("required", [])
        patterned, additional = schema.get("patternProperties", {}), schema.get("additionalProperties", ABSENT)
        if not isinstance(properties, dict) or not isinstance(required, list) or not isinstance(patterned, dict):
            self.refuse("'properties' and 'patternProperties' have to be objects, and 'required' a list")
            return
        if wrong := [name for name in required if not isinstance(name, str)]:
            self.refuse(f"'required' has to be a list of names: {show_value(wrong[0])} is none")
            return
        into.named = into.named or "properties" in schema
        before = ABSENT if into.patterned else into.additional
        for name, one in properties.items():
            known = into.properties.get(name, before)
            into.properties[name] = both(known, one)
        if not patterned:
            for name in into.properties.keys() - properties.keys():
                into.properties[name] = both(into.properties[name], additional)
        into.required.update(dict.fromkeys(required))
        for pattern, one in patterned.items():
            into.patterned[pattern] = both(into.patterned.get(pattern, ABSENT), one)
        into.additional = both(into.additional, additional)

    def _array(self, schema: dict[str, Any]) -> None:
        into = self._into
        first, items = schema.get("prefixItems", []), schema.get("items", ABSENT)
        if isinstance(items, list):  # up to draft 2019-09
            first, items = items, schema.get("additionalItems", ABSENT)
        if not isinstance(first, list):
            self.refuse("'prefixItems' has to be a list of schemas")
            return
        longest = max(len(first), len(into.first))
        into.first = tuple(
            both(_element(into.first, into.items, index), _element(first, items, index)) for index in range(longest)
        )
        into.items = both(into.items, items)
        self._sizes(schema, "minItems", "maxItems")

    def _sizes(self, schema: dict[str, Any], low: str, high: str) -> None:
        for keyword in (low, high):
            if schema.get(keyword) is not None:  # a null says as little as no keyword
                self._size(self._into.sizes, keyword, schema[keyword])

    def _size(self, sizes: dict[str, int], keyword: str, value: Any) -> None:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            self.refuse(f"{keyword!r} has to be a whole number from 0 on, not {show_value(value)}")
        elif value > LARGEST_SIZE:
            self.weaken(keyword, f"sizes of up to {LARGEST_SIZE} are held to")
        else:
            tighter = max if keyword.startswith("min") else min
            sizes[keyword] = tighter(sizes.get(keyword, value), value)

    # --------------------------------------------------------------------------------------------- texts and numbers

    def _text(self, schema: dict[str, Any]) -> None:
        pattern, shape = schema.get("pattern"), schema.get("format")
        if pattern is not None and not isinstance(pattern, str):
            self.refuse(f"'pattern' has to be a text, not {show_value(pattern)}")
        elif pattern is not None:
            self._into.patterns[pattern] = None
        if isinstance(shape, str):
            self._into.formats[shape] = None
        elif shape is not None:
            self.refuse(f"'format' has to be a text, not {show_value(shape)}")
        self._sizes(schema, "minLength", "maxLength")

    def _number(self, schema: dict[str, Any]) -> None:
        into = self._into
        for plain, strict in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
            exclusive = schema.get(strict)
            if isinstance(exclusive, bool):  # draft 4: the other bound is excluded
                self._edge(plain, schema.get(plain), excluded=exclusive)
            else:
                self._edge(plain, schema.get(plain), excluded=False)
                self._edge(strict, exclusive, excluded=True)
        if schema.get("multipleOf") is None:
            return
        step, given = _decimal(schema["multipleOf"]), show_value(schema["multipleOf"])
        if step is None or step <= 0:
            self.refuse(f"'multipleOf' has to be a number above 0, not {given}")
        elif step != step.to_integral_value():
            self.weaken("multipleOf", f"whole numbers are held to, not {given}")
        else:
            into.step = math.lcm(into.step or 1, int(step))

    def _edge(self, keyword: str, value: Any, *, excluded: bool) -> None:
        if value is None:
            return
        number = _decimal(value)
        if number is None:
            self.refuse(f"{keyword!r} has to be a number, not {show_value(value)}")
            return
        into, bound = self._into, Bound(number, excluded)
        if "inimum" in keyword:
            into.low = bound if into.low is None else max(into.low, bound, key=lambda one: (one.value, one.excluded))
        else:
            known = bound if into.high is None else into.high
            into.high = min(known, bound, key=lambda one: (one.value, not one.excluded))


def _decimal(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # A large floating-point number is written shorter than it is: its digits behind the sixteenth count too.
    number = Decimal(value) if isinstance(value, float) and value.is_integer() else Decimal(str(value))
    return number if number.is_finite() else None


def both(one: Any, other: Any) -> Any:
    """Return a schema that requires both; ``ABSENT`` requires nothing."""
    if one is ABSENT or one is True or _same(one, other):
        return other if one is ABSENT or other is not ABSENT else one
    if other is ABSENT or other is True:
        return one
    return False if one is False or other is False else {"allOf": [one, other]}


def show_value(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _element(first: Sequence[Any], items: Any, index: int) -> Any:
    return first[index] if index < len(first) else items


def _common_type(one: str, other: str) -> str | None:
    if one == other:
        return one
    return "integer" if {one, other} == {"integer", "number"} else None


def _says_nothing(keyword: str, schema: Mapping[str, Any]) -> bool:
    if keyword == "if":
        return "then" not in schema and "else" not in schema
    return any(_same(schema[keyword], nothing) for nothing in SAYS_NOTHING.get(keyword, ()))


def _same(one: Any, other: Any) -> bool:
    """Return whether these are equal as JSON. In Python, 1 == True."""
    return type(one) is type(other) and bool(one == other)
