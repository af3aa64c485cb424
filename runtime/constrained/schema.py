"""Reads JSON Schemas for sampling: wholly, or as far as a grammar can express them, with a list of the rest.

``read_loosely`` reads every valid schema, and lists the parts that sampling can't enforce, for a later check.
``read_schema`` is for values without a later check: it refuses a schema with such parts.
"""

from __future__ import annotations

import json
from typing import Any

from cognition import ConfigError
from runtime.constrained._pruning import prune
from runtime.constrained._schema_reader import SchemaReader, TooLargeError
from runtime.constrained.nodes import NOTHING, Anything, Members, Schema, Weakened

DEEPEST_SCHEMA = 100
"""The most levels of brackets in a schema, since the reader is recursive."""

MOST_TEXT = 1_000_000

WHOLE = "the schema"
"""Used as the keyword if a schema as a whole is not enforced."""

ADVICE = "or set GenerationOptions.constrain=False"


class SchemaError(ConfigError):
    """A schema is not valid, or sampling can't enforce it.

    Attributes:
        problems: each (path, problem), such as ``("$.properties.tags", "'uniqueItems' is not supported: ...")``.
    """

    def __init__(self, problems: tuple[tuple[str, str], ...], subject: str = "the schema") -> None:
        listed = "; ".join(f"{problem} @ {path}" for path, problem in problems[:MOST_TOLD])
        more = f"; and {len(problems) - MOST_TOLD} more" if len(problems) > MOST_TOLD else ""
        super().__init__(f"calls can't be constrained by {subject}: {listed}{more} ({ADVICE})")
        self.problems = problems
        self.subject = subject


MOST_TOLD = 20


def read_schema(schema: Any, subject: str = "the schema") -> Schema:
    """Return the tree of a schema that is enforced completely.

    Args:
        schema: decoded JSON: an object, or true.
        subject: the schema's name in the error, such as ``"the parameters of tool 'move'"``.

    Raises:
        SchemaError: it is not valid, has parts that a grammar can't express, or allows no value; names every place.
    """
    tree, problems = _read(schema, subject)
    weakened = ((one.path, f"{one.keyword!r} is not supported: {one.reason}") for one in tree.weakened)
    return _valid(tree, (*weakened, *problems), subject)


def read_loosely(schema: Any, subject: str = "the schema") -> Schema:
    """Return the tree of a tool's schema as far as a grammar can express it; ``weakened`` lists the rest.

    Raises:
        SchemaError: it is not a JSON Schema; names every place.
    """
    tree, problems = _read(schema, subject)
    if problems:
        raise SchemaError(problems, subject)
    if tree.root == NOTHING:
        return any_object(*tree.weakened, Weakened("$", WHOLE, "no value fits it: every call will be refused"))
    return tree


def read_checked(schema: Any, subject: str = "the schema") -> Schema:
    """Return the tree of a schema of any value, as far as a grammar can express it, for values that are checked later.

    Raises:
        SchemaError: it is not a JSON Schema, or allows no value; names every place.
    """
    tree = _valid(*_read(schema, subject), subject)
    given_up = any(one.keyword == WHOLE for one in tree.weakened)
    return Schema(Anything(), {}, tree.weakened) if given_up else tree


def _valid(tree: Schema, problems: tuple[tuple[str, str], ...], subject: str) -> Schema:
    if not problems and tree.root == NOTHING:
        problems = (("$", "it lets no value through"),)
    if problems:
        raise SchemaError(problems, subject)
    return tree


def any_object(*weakened: Weakened) -> Schema:
    """Return a tree that allows any object."""
    return Schema(Members(rest=Anything()), {}, weakened)


def _read(schema: Any, subject: str) -> tuple[Schema, tuple[tuple[str, str], ...]]:
    look_over(schema, subject)
    reader = SchemaReader(schema)
    try:
        root = reader.whole()
    except (TooLargeError, RecursionError):
        return any_object(Weakened("$", WHOLE, "its parts are too many for a grammar")), tuple(reader.problems)
    if reader.problems:
        return Schema(root, reader.definitions, reader.weakened), tuple(reader.problems)
    return Schema(*prune(root, reader.definitions), reader.weakened), ()


def look_over(schema: Any, subject: str) -> None:
    """Check that a schema is JSON, within the limits of size and depth.

    Raises:
        SchemaError: it is not.
    """
    depth = 0
    level = [schema]
    while level:
        depth += 1
        if depth > DEEPEST_SCHEMA:
            problem = f"the schema is nested too deeply, in more than {DEEPEST_SCHEMA} levels"
            raise SchemaError((("$", problem),), subject)
        within: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                within += one.values()
            elif isinstance(one, list):
                within += one
        if len(within) > MOST_TEXT:
            raise SchemaError((("$", f"the schema is too large: more than {MOST_TEXT} values"),), subject)
        level = within
    try:
        text = json.dumps(schema, ensure_ascii=False, allow_nan=False)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:  # a lone surrogate is a ValueError too
        raise SchemaError((("$", f"the schema is no JSON ({error})"),), subject) from None
    if len(text) > MOST_TEXT:
        raise SchemaError((("$", f"the schema is too large: {len(text)} characters of {MOST_TEXT}"),), subject)
