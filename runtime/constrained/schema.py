"""Reads JSON Schemas for sampling: wholly, or as far as a grammar can say, with a list of what it can't.

``read_loosely`` reads every valid schema, and notes the parts that sampling can't be held to for whoever checks values
afterwards. ``read_schema`` is for values that nobody checks: it refuses a schema with such parts.
"""

from __future__ import annotations

import json
from typing import Any

from cognition import ConfigError
from runtime.constrained.nodes import NOTHING, Anything, Members, Schema, Weakened
from runtime.constrained.pruning import pruned
from runtime.constrained.reading import Reader, TooLargeError

DEEPEST_SCHEMA = 100
"""The most levels of brackets in a schema, since reading one descends into it."""

MOST_TEXT = 1_000_000
"""The most characters of a schema as JSON."""

WHOLE = "the schema"
"""Stands for a keyword where a schema as a whole is not held to."""

ADVICE = "or set GenerationOptions.constrain=False"


class SchemaError(ConfigError):
    """A schema that is not valid, or that sampling can't be held to.

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
"""The most problems that a message names."""


def read_schema(schema: Any, subject: str = "the schema") -> Schema:
    """The tree of a schema, all of which is held to.

    Args:
        schema: decoded JSON: an object, or true.
        subject: what the error calls it, such as ``"the parameters of tool 'move'"``.

    Raises:
        SchemaError: it is not valid, asks for what a grammar can't say, or allows no value; names every place.
    """
    tree, problems = _read(schema, subject)
    problems = (*((one.path, f"{one.keyword!r} is not supported: {one.reason}") for one in tree.weakened), *problems)
    if not problems and tree.root == NOTHING:
        problems = (("$", "it lets no value through"),)
    if problems:
        raise SchemaError(problems, subject)
    return tree


def read_loosely(schema: Any, subject: str = "the schema") -> Schema:
    """The tree of a schema as far as a grammar can say it; what it leaves out is in ``weakened``.

    Raises:
        SchemaError: it is no JSON Schema; names every place.
    """
    tree, problems = _read(schema, subject)
    if problems:
        raise SchemaError(problems, subject)
    if tree.root == NOTHING:
        return any_object(*tree.weakened, Weakened("$", WHOLE, "no value fits it: every call will be refused"))
    return tree


def read_checked(schema: Any, subject: str = "the schema") -> Schema:
    """The tree of a schema of any value, as far as a grammar can say it, for values that are checked afterwards.

    Raises:
        SchemaError: it is no JSON Schema, or allows no value; names every place.
    """
    tree, problems = _read(schema, subject)
    if not problems and tree.root == NOTHING:
        problems = (("$", "it lets no value through"),)
    if problems:
        raise SchemaError(problems, subject)
    given_up = any(one.keyword == WHOLE for one in tree.weakened)
    return Schema(Anything(), {}, tree.weakened) if given_up else tree


def any_object(*weakened: Weakened) -> Schema:
    """A tree that holds to nothing but an object."""
    return Schema(Members(rest=Anything()), {}, weakened)


def _read(schema: Any, subject: str) -> tuple[Schema, tuple[tuple[str, str], ...]]:
    """The tree, which may be ``NOTHING``, and the reasons why the schema is not valid."""
    look_over(schema, subject)
    reader = Reader(schema)
    try:
        root = reader.whole()
    except (TooLargeError, RecursionError):
        return any_object(Weakened("$", WHOLE, "its parts are too many for a grammar")), tuple(reader.problems)
    if reader.problems:
        return Schema(root, reader.definitions, reader.weakened), tuple(reader.problems)
    return Schema(*pruned(root, reader.definitions), reader.weakened), ()


def look_over(schema: Any, subject: str) -> None:
    """See that a schema is JSON, and of a size and depth that can be read.

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
