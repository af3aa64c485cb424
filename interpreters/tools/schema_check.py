"""Check arguments against any JSON Schema, completely, before a tool runs.

Sampling enforces only the part of a schema that a grammar can express. This check covers the rest, and all calls of
models without constrained sampling.

- Nothing is fetched: references must resolve within the schema.
- Patterns have a time limit.
- One check has a limited number of steps, since the parts of a schema can multiply.

Needs the extra ``schemas``. The package ``jsonschema`` is imported when the first such tool is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from itertools import islice
from typing import Any

from cognition import ConfigError
from interpreters.tools._checked_keywords import BUDGET, Budget, SpentError, formats, guarded
from interpreters.tools._ecma import Pattern, UnreadablePatternError
from interpreters.tools._plain_schemas import is_plain
from runtime.constrained.schema import look_over

MOST_PROBLEMS = 8
"""Problems reported to a model in one message. It sees the others after it has corrected these."""

LONGEST_PROBLEM = 240

MOST_SCHEMA_STEPS = 2_000_000
"""Keywords evaluated to validate a schema itself (some seconds)."""

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
        self._patterns: dict[str, Pattern] = {}
        draft, registry = self._plain() if is_plain(schema) else self._examine(schema, subject)
        self._validator = guarded(draft)(schema, registry=registry, format_checker=formats())

    def problems(self, value: Any) -> list[str]:
        """Return the problems of a value, each with its place: at most ``MOST_PROBLEMS``, then "and more"."""
        token = BUDGET.set(Budget(self._patterns))
        try:
            found = [_format_problem(error) for error in islice(self._validator.iter_errors(value), MOST_PROBLEMS + 1)]
        except SpentError as spent:
            return [str(spent)]
        except RecursionError:
            return ["they are nested too deeply to be checked, or the schema refers to itself without end"]
        finally:
            BUDGET.reset(token)
        found = list(dict.fromkeys(found))
        return found if len(found) <= MOST_PROBLEMS else [*found[:MOST_PROBLEMS], "and more"]

    @staticmethod
    def _plain() -> tuple[Any, Any]:
        from jsonschema import Draft202012Validator
        from jsonschema_specifications import REGISTRY

        return Draft202012Validator, REGISTRY

    def _examine(self, schema: Any, subject: str) -> tuple[Any, Any]:
        draft = _draft_of(schema, subject)
        return draft, self._look_around(schema, draft, subject)

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
    """Return the validator class for the draft of a schema.

    Raises:
        ConfigError: the schema is not valid in its draft.
    """
    import jsonschema

    reasons = ""
    for draft in [_named_draft(schema)] if "$schema" in schema else [getattr(jsonschema, name) for name in DRAFTS]:
        problems = _problems_of(draft, schema)
        if not problems:
            return draft
        reasons = reasons or "; ".join(problems)
    raise ConfigError(f"{subject} are no JSON Schema: {reasons}")


def _named_draft(schema: Mapping[str, Any]) -> Any:
    """Return the draft that a schema names, or the newest draft if the name is unknown."""
    import jsonschema
    from jsonschema.validators import validator_for

    try:
        return validator_for(schema, default=jsonschema.Draft202012Validator)
    except (TypeError, ValueError, AttributeError):  # what stands there is no address
        return jsonschema.Draft202012Validator


def _problems_of(draft: Any, schema: Any) -> list[str]:
    check = guarded(draft)(draft.META_SCHEMA, format_checker=None)
    token = BUDGET.set(Budget({}, steps=MOST_SCHEMA_STEPS))
    try:
        return [_format_problem(error) for error in islice(check.iter_errors(schema), MOST_PROBLEMS)]
    except (SpentError, RecursionError):
        return ["it is nested too deeply, or has too many parts"]
    finally:
        BUDGET.reset(token)


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
