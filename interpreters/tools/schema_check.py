"""Check arguments against any JSON Schema, completely, before a tool runs.

Sampling enforces only the part of a schema that a grammar can express. This check covers the rest, and all calls of
models without constrained sampling.

- Nothing is fetched: references must resolve within the schema.
- Patterns have a time limit.
- One check has a limited number of steps, since the parts of a schema can multiply.

``repair_schema`` removes the smallest uncheckable part from a foreign schema, so that the rest can be checked. A
foreign server checks its own arguments, so one uncheckable keyword is not a reason to lose the tool. Every omitted
keyword is reported.

Needs the extra ``schemas``. The package ``jsonschema`` is imported when the first such tool is made.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.util import find_spec
from itertools import islice
from typing import Any

from attrs import frozen

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
from runtime.models.installation import install_line

PACKAGES = ("jsonschema", "regex")
"""Those of the extra ``schemas``."""

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
        for package in PACKAGES:
            if find_spec(package) is None:
                raise ConfigError(f"{subject} need the package {package} to be checked: {install_line('schemas')}")
        from jsonschema import Draft202012Validator
        from jsonschema_specifications import REGISTRY

        look_over(schema, subject)
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
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
            # Broken addresses and the like.
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


# -------------------------------------------------------------------------------------------------------------- repair

DATA = frozenset({"enum", "const", "default", "examples", "example"})
"""Keywords whose values are data and never contain keywords."""

MOST_ROUNDS = 20
"""Rounds of validation against the draft, each after some keywords were removed."""

OPEN: dict[str, Any] = {"type": "object"}


@frozen
class LeftOut:
    """A keyword omitted from a schema."""

    path: str
    keyword: str
    reason: str

    def __str__(self) -> str:
        return f"{self.keyword} @ {self.path}: {self.reason}"


def repair_schema(schema: dict[str, Any]) -> tuple[dict[str, Any], tuple[LeftOut, ...]]:
    """Return a schema that can be checked, and the omitted keywords. A checkable schema is returned unchanged.

    Raises:
        ConfigError: the extra ``schemas`` is not installed.
    """
    reason = _find_refusal(schema)
    if not reason:
        return schema, ()
    try:
        made = copy.deepcopy(schema)
        left = [*_drop_odd_references(made), *_drop_strange_values(made)]
    except (RecursionError, SpentError):
        return dict(OPEN), (LeftOut("$", "the schema", "it is nested too deeply, or has too many parts"),)
    if left and made.get("type", "object") == "object" and not _find_refusal(made):
        return {"type": "object", **made}, tuple(left)
    return dict(OPEN), (LeftOut("$", "the schema", reason),)


def _find_refusal(schema: Any) -> str:
    try:
        FullCheck(schema, "the parameters")
    except ConfigError as error:
        if any(find_spec(package) is None for package in PACKAGES):
            raise
        return str(error)
    return ""


def _parts(schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every object that may be a subschema, outermost first."""
    waiting: list[tuple[str, Any]] = [("$", schema)]
    while waiting:
        place, one = waiting.pop()
        if isinstance(one, dict):
            yield place, one
            waiting += [(f"{place}.{name}", inner) for name, inner in one.items() if name not in DATA]
        elif isinstance(one, list):
            waiting += [(f"{place}[{index}]", inner) for index, inner in enumerate(one)]


def _drop_odd_references(schema: dict[str, Any]) -> Iterator[LeftOut]:
    for path, part in _parts(schema):
        for keyword in ("$ref", "$dynamicRef"):
            target = part.get(keyword)
            if isinstance(target, str) and not _resolves(schema, target):
                del part[keyword]
                yield LeftOut(path, keyword, "it leads nowhere in the schema, and nothing is fetched")
        if isinstance(part.get("pattern"), str) and not _is_readable(part["pattern"]):
            del part["pattern"]
            yield LeftOut(path, "pattern", "it can't be read")
        named = part.get("patternProperties")
        if isinstance(named, dict):
            for pattern in [one for one in named if not _is_readable(one)]:
                del named[pattern]
                yield LeftOut(path, "patternProperties", f"the pattern {pattern[:80]!r} can't be read")


def _resolves(schema: Any, target: str) -> bool:
    """Return whether a reference resolves. For anchors it returns True; the check itself knows more."""
    if not target.startswith("#/"):
        return target.startswith("#")
    at = schema
    for step in target[2:].split("/"):
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(at, dict) and step in at:
            at = at[step]
        elif isinstance(at, list) and step.isdecimal() and int(step) < len(at):
            at = at[int(step)]
        else:
            return False
    return isinstance(at, dict | bool)


def _is_readable(pattern: str) -> bool:
    try:
        Pattern(pattern)
    except UnreadablePatternError:
        return False
    return True


def _drop_strange_values(schema: dict[str, Any]) -> Iterator[LeftOut]:
    """Remove keywords with values that the draft does not allow, such as an unknown type."""
    import jsonschema

    schema.pop("$schema", None)  # whatever it names, it is held to the newest draft now
    for _ in range(MOST_ROUNDS):
        errors = find_schema_errors(jsonschema.Draft202012Validator, schema)
        wrong = {tuple(error.absolute_path): error.message for error in errors}
        if not wrong:
            return
        for path, message in wrong.items():
            left = _remove(schema, path)
            if left is None:
                return
            yield LeftOut(left[0], left[1], message[:120])


def _remove(schema: Any, path: tuple[Any, ...]) -> tuple[str, str] | None:
    """Remove the innermost member on a path. Returns its parent's path and its name, or None if there is no such
    member.
    """
    holders = []
    at = schema
    for step in path:
        if (isinstance(at, dict) and step in at) or (isinstance(at, list) and type(step) is int and step < len(at)):
            holders.append((at, step))
            at = at[step]
        else:
            break
    while holders:
        holder, step = holders.pop()
        if isinstance(holder, dict):
            del holder[step]
            place = "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in path[: len(holders)])
            return f"${place}", str(step)
    return None
