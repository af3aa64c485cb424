"""JSON Schema keywords for ``jsonschema``, each limited by the budget of its check.

Two groups of keywords are implemented here:

- Keywords with patterns: the package matches them with ``re``, which has no time limit.
- ``multipleOf``: the package computes it in floating point.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import islice
from typing import Any

from attrs import define, field

from interpreters.tools._ecma import Pattern
from interpreters.tools._value_checks import OTHER_RULES, RULES, has_duplicates, is_deep, is_multiple

MOST_STEPS = 50_000
"""Keywords that one check evaluates at most (about 0.25 s)."""

MOST_SCHEMA_STEPS = 2_000_000
"""Keywords evaluated to validate a schema itself (some seconds)."""

PATTERN_SECONDS = 0.5
"""Seconds for all patterns of one check."""

TOO_DEEP = "they are nested too deeply to be checked, or the schema refers to itself without end"


class SpentError(Exception):
    """A check has used up its budget."""


@define
class Budget:
    """The remaining keyword steps and pattern seconds of one check."""

    patterns: Mapping[str, Pattern]
    steps: int = MOST_STEPS
    seconds: float = PATTERN_SECONDS
    found: dict[tuple[str, str], bool] = field(factory=dict)

    def step(self) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise SpentError("they can't be checked: the schema has too many alternatives for them")
        if is_deep():
            raise SpentError(TOO_DEEP)

    def matches(self, pattern: str, text: str) -> bool:
        """Return whether a pattern matches anywhere in a text. Raises ``SpentError`` on a timeout."""
        known = self.found.get((pattern, text))
        if known is None:
            began = time.monotonic()
            try:
                known = (self.patterns.get(pattern) or Pattern(pattern)).matches(text, max(self.seconds, 0.001))
            except TimeoutError:
                raise SpentError(
                    f"they can't be checked: it takes too long to match a text with {pattern[:80]!r}"
                ) from None
            self.seconds -= time.monotonic() - began
            self.found[pattern, text] = known
        return known


BUDGET: ContextVar[Budget] = ContextVar("budget")


@contextmanager
def spending(budget: Budget) -> Iterator[None]:
    """Limit the check within the block."""
    token = BUDGET.set(budget)
    try:
        yield
    finally:
        BUDGET.reset(token)


def find_schema_errors(draft: Any, schema: Any, most: int | None = None) -> list[Any]:
    """Return the errors of a schema itself in its draft.

    Raises:
        SpentError, RecursionError: it is nested too deeply, or has too many parts.
    """
    with spending(Budget({}, steps=MOST_SCHEMA_STEPS)):
        return list(islice(guarded(draft)(draft.META_SCHEMA, format_checker=None).iter_errors(schema), most))


# ----------------------------------------------------------------------------------------------------------- keywords

Keyword = Callable[[Any, Any, Any, Any], Iterator[Any] | None]


@cache
def guarded(draft: Any) -> Any:
    """Return a draft's validator that counts every keyword as a step and limits the time for patterns."""
    from jsonschema import validators

    own: dict[str, Keyword] = {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
        "multipleOf": _multiple_of,
        "uniqueItems": _unique_items,
    }
    if "unevaluatedProperties" in draft.VALIDATORS:
        own["unevaluatedProperties"] = _unevaluated_properties
    keywords = {**draft.VALIDATORS, **own}
    extend: Any = validators.extend
    return extend(draft, {name: _counted(keyword) for name, keyword in keywords.items()})


def _counted(keyword: Keyword) -> Keyword:
    def counted(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        BUDGET.get().step()
        found: Iterator[Any] | None = keyword(validator, value, instance, schema)
        yield from found or ()

    return counted


def _pattern(validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[Any]:
    if isinstance(instance, str) and not BUDGET.get().matches(pattern, instance):
        yield _error(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterned: Mapping[str, Any], instance: Any, _schema: Any) -> Iterator[Any]:
    if isinstance(instance, dict):
        for pattern, schema in patterned.items():
            for key, value in instance.items():
                if BUDGET.get().matches(pattern, key):
                    yield from validator.descend(value, schema, path=key, schema_path=pattern)


def _additional_properties(validator: Any, additional: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not isinstance(instance, dict):
        return
    known, patterned = schema.get("properties", {}), schema.get("patternProperties", {})
    for key, value in instance.items():
        if key not in known and not any(BUDGET.get().matches(pattern, key) for pattern in patterned):
            if additional is False:
                there = f"there are {', '.join(known)}" if known else "there are none"
                yield _error(f"{key} is unknown; {there}")
            else:
                yield from validator.descend(value, additional, path=key)


def _unevaluated_properties(validator: Any, unevaluated: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not isinstance(instance, dict):
        return
    rest = {key: value for key, value in schema.items() if key != "unevaluatedProperties"}
    known = _evaluated(validator, instance, rest)
    for key, value in instance.items():
        if key not in known and any(True for _ in validator.descend(value, unevaluated, path=key)):
            yield _error(f"{key} is not expected here")


def _evaluated(validator: Any, instance: Mapping[str, Any], schema: Any) -> set[str]:
    """Return the members already evaluated by a keyword of the schema or of an applicable subschema."""
    BUDGET.get().step()
    if not isinstance(schema, dict):
        return set()
    known: set[str] = instance.keys() & schema.get("properties", {}).keys()
    if "additionalProperties" in schema or "unevaluatedProperties" in schema:
        return set(instance)  # whatever is left; whether it fits, its own keyword says
    known |= {key for key in instance for one in schema.get("patternProperties", ()) if BUDGET.get().matches(one, key)}
    for reference in ("$ref", "$dynamicRef"):
        if reference in schema:
            found = validator._resolver.lookup(schema[reference])
            there = validator.evolve(schema=found.contents, _resolver=found.resolver)
            known |= _evaluated(there, instance, found.contents)
    parts = [part for keyword in ("allOf", "anyOf", "oneOf") for part in schema.get(keyword, ())]
    parts += [part for key, part in schema.get("dependentSchemas", {}).items() if key in instance]
    if "if" in schema:
        holds = validator.evolve(schema=schema["if"]).is_valid(instance)
        parts += [schema["if"], schema.get("then", True)] if holds else [schema.get("else", True)]
    for part in parts:
        if validator.evolve(schema=part).is_valid(instance):
            known |= _evaluated(validator, instance, part)
    return known


def _multiple_of(validator: Any, step: Any, instance: Any, _schema: Any) -> Iterator[Any]:
    is_number = isinstance(instance, int | float) and not isinstance(instance, bool)
    if is_number and not is_multiple(instance, step):
        yield _error(f"{instance!r} is not a multiple of {step!r}")


def _unique_items(_validator: Any, unique: Any, instance: Any, _schema: Any) -> Iterator[Any]:
    if unique and isinstance(instance, list) and has_duplicates(instance):
        yield _error(f"{instance!r} has non-unique elements")


def _error(message: str) -> Any:
    from jsonschema import ValidationError

    return ValidationError(message)


# ------------------------------------------------------------------------------------------------------------ formats


@cache
def formats() -> Any:
    """Return the checked formats, the same on every machine. All other formats are annotations, as in the standard."""
    from jsonschema import FormatChecker

    checker = FormatChecker(formats=())
    for name, rule in {**RULES, **OTHER_RULES}.items():
        checker.checks(name, raises=ValueError)(_on_texts(rule))
    return checker


def _on_texts(rule: Callable[[str], object]) -> Callable[[object], bool]:
    return lambda value: not isinstance(value, str) or bool(rule(value))
