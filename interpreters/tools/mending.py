"""Schemas of strangers that can't be checked as they are, with as little left out of them as makes them one that can.

A server that others wrote checks its arguments itself. So what can't be held here is no reason to lose the tool, and
what was left out is told, keyword by keyword.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from attrs import frozen

from cognition import ConfigError
from interpreters.tools.checked_keywords import BUDGET, Budget, SpentError, guarded
from interpreters.tools.ecma import Pattern, UnreadablePatternError
from interpreters.tools.full_check import MOST_SCHEMA_STEPS, FullCheck

DATA = frozenset({"enum", "const", "default", "examples", "example"})
"""Keywords whose values are data, in which nothing is a keyword."""

MOST_ROUNDS = 20
"""Times that a schema is looked at for what is no keyword of its draft, each after some of it was left out."""

OPEN: dict[str, Any] = {"type": "object"}


@frozen
class LeftOut:
    """A keyword that can't be held."""

    path: str
    keyword: str
    reason: str

    def __str__(self) -> str:
        return f"{self.keyword} @ {self.path}: {self.reason}"


def mended(schema: dict[str, Any]) -> tuple[dict[str, Any], tuple[LeftOut, ...]]:
    """A schema that can be checked, and what of the given one is not in it. What can be checked as it is stays as it
    is.

    Raises:
        ConfigError: the extra ``schemas`` is not installed.
    """
    reason = _refused(schema)
    if not reason:
        return schema, ()
    try:
        made = copy.deepcopy(schema)
        left = [*_without_odd_references(made), *_without_strange_values(made)]
    except (RecursionError, SpentError):
        return dict(OPEN), (LeftOut("$", "the schema", "it is nested too deeply, or has too many parts"),)
    if left and made.get("type", "object") == "object" and not _refused(made):
        return {"type": "object", **made}, tuple(left)
    return dict(OPEN), (LeftOut("$", "the schema", reason),)


def _refused(schema: Any) -> str:
    """Why a schema can't be checked; empty if it can."""
    try:
        FullCheck(schema, "the parameters")
    except ConfigError as error:
        if "pip install" in str(error):
            raise
        return str(error)
    return ""


def _parts(schema: Any, path: str = "$") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of a schema that may be one itself, outermost first."""
    waiting: list[tuple[str, Any]] = [(path, schema)]
    while waiting:
        place, one = waiting.pop()
        if isinstance(one, dict):
            yield place, one
            waiting += [(f"{place}.{name}", inner) for name, inner in one.items() if name not in DATA]
        elif isinstance(one, list):
            waiting += [(f"{place}[{index}]", inner) for index, inner in enumerate(one)]


def _without_odd_references(schema: dict[str, Any]) -> Iterator[LeftOut]:
    """Leave out references that lead nowhere, and patterns that nobody can read."""
    for path, part in _parts(schema):
        for keyword in ("$ref", "$dynamicRef"):
            target = part.get(keyword)
            if isinstance(target, str) and not _leads(schema, target):
                del part[keyword]
                yield LeftOut(path, keyword, "it leads nowhere in the schema, and nothing is fetched")
        if isinstance(part.get("pattern"), str) and not _readable(part["pattern"]):
            del part["pattern"]
            yield LeftOut(path, "pattern", "it can't be read")
        named = part.get("patternProperties")
        if isinstance(named, dict):
            for pattern in [one for one in named if not _readable(one)]:
                del named[pattern]
                yield LeftOut(path, "patternProperties", f"the pattern {pattern[:80]!r} can't be read")


def _leads(schema: Any, target: str) -> bool:
    """Whether a reference leads somewhere; of one by a name the check itself knows more."""
    if not target.startswith("#"):
        return False
    if not target.startswith("#/"):
        return True
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


def _readable(pattern: str) -> bool:
    try:
        Pattern(pattern)
    except UnreadablePatternError:
        return False
    return True


def _without_strange_values(schema: dict[str, Any]) -> Iterator[LeftOut]:
    """Leave out keywords with values that their draft does not know, such as a type that there is not."""
    import jsonschema

    draft = jsonschema.Draft202012Validator
    schema.pop("$schema", None)  # whatever it names, it is held to the newest draft now
    for _ in range(MOST_ROUNDS):
        token = BUDGET.set(Budget({}, steps=MOST_SCHEMA_STEPS))
        try:
            check = guarded(draft)(draft.META_SCHEMA, format_checker=None)
            wrong = {tuple(error.absolute_path): error.message for error in check.iter_errors(schema)}
        finally:
            BUDGET.reset(token)
        if not wrong:
            return
        for path, message in wrong.items():
            left = _removed(schema, path)
            if left is None:
                return
            yield LeftOut(left[0], left[1], message[:120])


def _removed(schema: Any, path: tuple[Any, ...]) -> tuple[str, str] | None:
    """Leave out the innermost member that a path leads to; where it stood, and its name. None where there is none."""
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
