"""Adapts a tree to the limits of a notation. For example, strings without escapes can't contain their own quotes.

If a value can't be written, any text is allowed instead, and the check after the call judges it. Members whose names
can't be written are omitted.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from attrs import evolve, frozen

from runtime.constrained._pruning import pruned
from runtime.constrained.nodes import NOTHING, Choice, Either, Items, Members, Node, Schema, Text, Weakened
from runtime.constrained.schema import any_object


@frozen
class Means:
    """The limits of a notation."""

    text: Callable[[str], bool]
    """Whether it can write this string, as a value or a key."""
    some_text: Callable[[Text], bool]
    """Whether it can write any string that matches this node."""


def fitted(schema: Schema, means: Means) -> Schema:
    """Return a schema whose values can all be written; ``weakened`` lists the relaxed parts."""
    fitting = _Fitting(means)
    definitions = {name: fitting.node(node, name) for name, node in schema.definitions.items()}
    root = fitting.node(schema.root, "$")
    if not fitting.weakened:
        return schema
    root, definitions = pruned(root, definitions)
    weakened = (*schema.weakened, *fitting.weakened)
    return any_object(*weakened) if root == NOTHING else Schema(root, definitions, weakened)


class _Fitting:
    def __init__(self, means: Means) -> None:
        self._means = means
        self.weakened: list[Weakened] = []

    def _weaken(self, path: str, keyword: str, what: str) -> None:
        self.weakened.append(Weakened(path, keyword, f"this model's format has no way to write {what}"))

    def node(self, node: Node, path: str) -> Node:
        match node:
            case Choice(texts=texts):
                kept = tuple(text for text in texts if self._writable(json.loads(text)))
                if len(kept) < len(texts):
                    lost = next(text for text in texts if text not in kept)
                    self._weaken(path, "enum", lost if len(lost) <= 60 else f"{lost[:57]}...")
                return Choice(kept) if kept else Text()
            case Text():
                if node == Text() or self._means.some_text(node):
                    return node
                self._weaken(path, "pattern", "any text that fits it")
                return Text()
            case Items(first=first, rest=rest):
                heads = tuple(self.node(one, f"{path}.prefixItems[{index}]") for index, one in enumerate(first))
                return evolve(node, first=heads, rest=None if rest is None else self.node(rest, f"{path}.items"))
            case Members():
                return self._members(node, path)
            case Either(options=options):
                return Either(tuple(self.node(one, path) for one in options))
            case _:
                return node

    def _members(self, node: Members, path: str) -> Members:
        kept = []
        for member in node.members:
            if self._means.text(member.name):
                kept.append(evolve(member, node=self.node(member.node, f"{path}.properties.{member.name}")))
            else:
                self._weaken(path, "properties", f"the name {member.name!r}")
        rest = None if node.rest is None else self.node(node.rest, f"{path}.additionalProperties")
        return evolve(node, members=tuple(kept), rest=rest)

    def _writable(self, value: Any) -> bool:
        match value:
            case str():
                return self._means.text(value)
            case list():
                return all(map(self._writable, value))
            case dict():
                return all(self._means.text(key) and self._writable(one) for key, one in value.items())
            case _:
                return True
