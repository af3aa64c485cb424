"""Remove the smallest uncheckable part from foreign schemas, so that the rest can be checked.

A foreign server checks its own arguments, so one uncheckable keyword is not a reason to lose the tool. Every omitted
keyword is reported.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from attrs import frozen

from cognition import ConfigError
from interpreters.tools._checked_keywords import SpentError, find_schema_errors
from interpreters.tools._ecma import Pattern, UnreadablePatternError
from interpreters.tools.schema_check import FullCheck

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
        if "pip install" in str(error):
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
