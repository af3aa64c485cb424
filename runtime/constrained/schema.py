"""Reads JSON Schemas for sampling: wholly, or as far as a grammar can express them, with a list of the rest.

``read_loosely`` reads every valid schema, and lists the parts that sampling can't enforce, for a later check.
``read_schema`` is for values without a later check: it refuses a schema with such parts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import chain, takewhile
from typing import Any

from attrs import evolve

from cognition import ConfigError
from runtime.constrained._schema_reader import SchemaReader, TooLargeError
from runtime.constrained.nodes import (
    NOTHING,
    Anything,
    Choice,
    Either,
    Items,
    Members,
    Node,
    Reference,
    Schema,
    Weakened,
)

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
        groups = (one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list))
        within = [*chain.from_iterable(groups)]
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


# ------------------------------------------------------------------------------------------------- impossible parts


def prune(root: Node, definitions: Mapping[str, Node]) -> tuple[Node, dict[str, Node]]:
    """Return the tree without impossible parts, so that a grammar can finish every value that it begins.

    A member without possible values is removed. An object that requires it is impossible too, and so on upwards. A
    schema that requires itself endlessly (a tree whose every node must have a child) has no value at all: its root is
    ``NOTHING``.
    """
    possible: set[str] = set()
    before = -1
    while before < len(possible):
        before = len(possible)
        for name in reversed([*definitions]):  # what is referred to was read later: a long chain takes one round
            if name not in possible and _can_be(definitions[name], possible):
                possible.add(name)
    kept = {name: node for name, node in definitions.items() if name in possible}
    prune = _Pruner(kept)
    return prune.node(root), {name: prune.node(node, name) for name, node in kept.items()}


def _can_be(node: Node, possible: set[str]) -> bool:
    """Return whether the node has a value, assuming that the ``possible`` references have one."""
    match node:
        case Choice(texts=texts):
            return bool(texts)
        case Either(options=options):
            return any(_can_be(option, possible) for option in options)
        case Members(members=members):
            return all(_can_be(member.node, possible) for member in members if member.required)
        case Items():
            return _heads(node, possible) >= node.fewest or (
                node.rest is not None and _heads(node, possible) == len(node.first) and _can_be(node.rest, possible)
            )
        case Reference(pointer=pointer):
            return pointer in possible
        case _:
            return True


def _heads(node: Items, possible: set[str]) -> int:
    return len([*takewhile(lambda one: _can_be(one, possible), node.first)])


class _Pruner:
    def __init__(self, definitions: Mapping[str, Node]) -> None:
        self._definitions = definitions
        self._possible = set(definitions)

    def node(self, node: Node, name: str = "") -> Node:
        """Return the node without impossible parts; ``name`` is its pointer if it is a definition."""
        if not self._can_be(node):
            return NOTHING
        match node:
            case Either():
                options = tuple(self.node(one) for one in self._options(node, name) if self._can_be(one))
                return options[0] if len(options) == 1 else Either(options)
            case Members(members=members, rest=rest):
                kept = tuple(evolve(one, node=self.node(one.node)) for one in members if self._can_be(one.node))
                return evolve(node, members=kept, rest=self._rest(rest))
            case Items(first=first, rest=rest):
                heads = _heads(node, self._possible)
                more = None if heads < len(first) else self._rest(rest)
                return evolve(node, first=tuple(map(self.node, first[:heads])), rest=more)
            case _:
                return node

    def _can_be(self, node: Node) -> bool:
        return _can_be(node, self._possible)

    def _rest(self, node: Node | None) -> Node | None:
        return self.node(node) if node is not None and self._can_be(node) else None

    def _options(self, node: Either, name: str) -> tuple[Node, ...]:
        """Return the options. If one refers back to the node, alternatives are flattened into their own options."""
        leaves: dict[Node, None] = {}
        seen: set[str] = set()
        leads_back = False
        waiting = list(reversed(node.options))
        while waiting:
            one = waiting.pop()
            if isinstance(one, Either):
                waiting += reversed(one.options)
                continue
            if isinstance(one, Reference):
                known = one.pointer in seen
                leads_back = leads_back or known or one.pointer == name
                seen.add(one.pointer)
                target = self._definitions.get(one.pointer)
                if isinstance(target, Either | Reference):
                    waiting += [] if known else [target]
                    continue
            leaves[one] = None
        return tuple(leaves) if leads_back else node.options
