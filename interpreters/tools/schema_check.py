"""Check arguments against any JSON Schema, completely, before a tool runs.

Sampling enforces only the part of a schema that a grammar can express. This check covers the rest, and all calls of
models without constrained sampling.

- Nothing is fetched: references must resolve within the schema.
- Patterns have a time limit.
- One check has a limited number of steps, since the parts of a schema can multiply.

Needs the extra ``schemas``. The package ``jsonschema`` is imported when the first such tool is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.util import find_spec
from itertools import islice
from typing import Any

from cognition import ConfigError
from interpreters.tools._checked_keywords import (
    TOO_DEEP,
    Budget,
    SpentError,
    find_schema_errors,
    formats,
    guarded,
    spending,
)
from interpreters.tools._ecma import Pattern, UnreadablePatternError
from runtime.constrained.schema import look_over

MOST_PROBLEMS = 8
"""Problems reported to a model in one message. It sees the others after it has corrected these."""

LONGEST_PROBLEM = 240

DRAFTS = ("Draft202012Validator", "Draft7Validator", "Draft4Validator")
"""Drafts tried in this order for a schema that does not name its draft. They differ in which schemas are valid."""


class FullCheck:
    """Checks values against one schema.

    Args:
        schema: decoded JSON.
        subject: the schema's name in errors.

    Raises:
        ConfigError: it is not a JSON Schema, is too large or too deep, has references to the outside, or has a pattern
            that can't be read; or the extra ``schemas`` is not installed.
    """

    def __init__(self, schema: Any, subject: str) -> None:
        for package in ("jsonschema", "regex"):
            if find_spec(package) is None:
                raise ConfigError(f"{subject} need the package {package} to be checked: pip install 'cogstep[schemas]'")
        look_over(schema, subject)
        from jsonschema import Draft202012Validator
        from jsonschema_specifications import REGISTRY

        self._patterns: dict[str, Pattern] = {}
        draft, registry = Draft202012Validator, REGISTRY
        if not is_plain(schema):
            draft = _draft_of(schema, subject)
            registry = self._look_around(schema, draft, subject)
        self._validator = guarded(draft)(schema, registry=registry, format_checker=formats())

    def problems(self, value: Any) -> list[str]:
        """Return the problems of a value, each with its place: at most ``MOST_PROBLEMS``, then "and more"."""
        try:
            with spending(Budget(self._patterns)):
                errors = islice(self._validator.iter_errors(value), MOST_PROBLEMS + 1)
                found = [_format_problem(error) for error in errors]
        except SpentError as spent:
            return [str(spent)]
        except RecursionError:
            return [TOO_DEEP]
        found = list(dict.fromkeys(found))
        return found if len(found) <= MOST_PROBLEMS else [*found[:MOST_PROBLEMS], "and more"]

    def _look_around(self, schema: Any, draft: Any, subject: str) -> Any:
        """Check that every reference resolves and every pattern can be read."""
        from jsonschema_specifications import REGISTRY
        from referencing.exceptions import Unresolvable
        from referencing.jsonschema import specification_with

        specification = specification_with(draft.META_SCHEMA["$schema"])
        resource = specification.create_resource(schema)
        problems: list[str] = []
        registry = REGISTRY
        try:
            registry = registry.with_resource(resource.id() or "", resource)
            waiting = [(resource, registry.resolver_with_root(resource))]
            seen: set[int] = set()
            while waiting:
                one, resolver = waiting.pop()
                part = one.contents
                if not isinstance(part, dict) or id(part) in seen:
                    continue
                seen.add(id(part))
                problems += self._patterns_of(part)
                for keyword in ("$ref", "$dynamicRef"):
                    if keyword in part:
                        try:
                            found = resolver.lookup(part[keyword])
                        except Unresolvable:
                            problems.append(f"{keyword!r} leads nowhere in it, and nothing is fetched: {part[keyword]}")
                        else:
                            waiting.append((specification.create_resource(found.contents), found.resolver))
                waiting += [(within, resolver.in_subresource(within)) for within in one.subresources()]
        except (
            ValueError,
            TypeError,
            AttributeError,
            KeyError,
            RecursionError,
        ) as error:  # broken addresses and the like
            problems.append(f"its parts can't be told apart ({type(error).__name__}: {error})")
        if problems:
            listed = "; ".join(problem[:LONGEST_PROBLEM] for problem in problems[:MOST_PROBLEMS])
            raise ConfigError(f"{subject} can't be checked: {listed}")
        return registry

    def _patterns_of(self, part: Mapping[str, Any]) -> Iterator[str]:
        """Compile the patterns of one part of the schema. Yields a problem for each unreadable pattern."""
        named = part.get("patternProperties")
        for pattern in (part.get("pattern"), *(named if isinstance(named, dict) else ())):
            if isinstance(pattern, str) and pattern not in self._patterns:
                try:
                    self._patterns[pattern] = Pattern(pattern)
                except UnreadablePatternError as error:
                    yield f"the pattern {pattern[:80]!r} can't be read: {error}"


def _draft_of(schema: Any, subject: str) -> Any:
    """Return the validator class for the draft of a schema: the draft that it names, or the newest if that is unknown.

    Raises:
        ConfigError: the schema is not valid in its draft.
    """
    import jsonschema
    from jsonschema.validators import validator_for

    drafts = [getattr(jsonschema, name) for name in DRAFTS]
    if "$schema" in schema:
        try:
            drafts = [validator_for(schema, default=drafts[0])]
        except (TypeError, ValueError, AttributeError):  # what stands there is no address
            drafts = drafts[:1]
    reasons = ""
    for draft in drafts:
        try:
            problems = [_format_problem(error) for error in find_schema_errors(draft, schema, MOST_PROBLEMS)]
        except (SpentError, RecursionError):
            problems = ["it is nested too deeply, or has too many parts"]
        if not problems:
            return draft
        reasons = reasons or "; ".join(problems)
    raise ConfigError(f"{subject} are no JSON Schema: {reasons}")


def _format_problem(error: Any) -> str:
    """Return a problem as one line with its place. For alternatives, it describes the closest alternative."""
    from jsonschema.exceptions import best_match

    path = _path(error.absolute_path)
    if error.validator == "required":
        missing = next((name for name in error.validator_value if error.message.startswith(repr(name))), "a member")
        return f"{path}{'.' if path else ''}{missing} is missing"[:LONGEST_PROBLEM]
    text = f"{path or 'the value'}: {_short(error.message, LONGEST_PROBLEM // 2)}"
    nearest = best_match(iter(error.context)) if error.context else None
    if nearest is not None:
        place = _path(nearest.absolute_path) or "the value"
        text += f" (nearest: {place}: {_short(nearest.message, LONGEST_PROBLEM // 3)})"
    return text[:LONGEST_PROBLEM]


def _path(parts: Any) -> str:
    made = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).removeprefix(".")
    return made if len(made) <= 100 else f"{made[:97]}..."


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most // 2]}...{text[-(most // 2 - 3) :]}"


# ------------------------------------------------------------------------------------------------------- plain schemas

MOST_PARTS = 500
"""Parts of a schema looked at by ``is_plain``. Larger schemas are validated against their draft, with its limits."""

DEEPEST = 12

TYPES = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})

SAYING: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("title", "description", "format"), lambda value: type(value) is str),
    **dict.fromkeys(("minimum", "maximum"), lambda value: type(value) in (int, float)),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems"), lambda value: type(value) is int and value >= 0
    ),
    **dict.fromkeys(("const", "default"), lambda _: True),
    "type": lambda value: type(value) is str and value in TYPES,
    "required": lambda value: type(value) is list and _are_names(value) and len(set(value)) == len(value),
    "enum": lambda value: type(value) is list,
    "uniqueItems": lambda value: type(value) is bool,
}
"""Keywords without subschemas, each with a test for a value of the usual form."""


def is_plain(schema: Any) -> bool:
    """Return whether a schema is certainly valid in draft 2020-12 and has neither references nor patterns.

    Nearly all tool schemas are so, with the usual keywords and the usual forms of values alone. To validate a schema
    against its draft, keyword by keyword, takes milliseconds: most of a minute for many thousand tools.
    """
    if type(schema) is not dict:
        return False
    level: list[Any] = [schema]
    parts = 0
    for _ in range(DEEPEST):
        within: list[Any] = []
        for one in level:
            if type(one) is bool:
                continue
            if type(one) is not dict:
                return False
            for key, value in one.items():
                says = SAYING.get(key)
                if says is not None:
                    if not says(value):
                        return False
                elif key in ("items", "additionalProperties"):
                    within.append(value)
                elif key == "properties" and type(value) is dict and _are_names(value):
                    within += value.values()
                elif key in ("anyOf", "oneOf", "allOf") and type(value) is list and value:
                    within += value
                else:
                    return False
        parts += len(within)
        if not within or parts > MOST_PARTS:
            return not within
        level = within
    return False


def _are_names(values: Iterable[Any]) -> bool:
    return all(type(name) is str for name in values)
