"""Whether two options of a ``oneOf`` can both match: if none can, a value of one option matches only that option."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve

from runtime.constrained.nodes import Anything, Choice, Either, Items, Members, Node, Number, Reference, Text


def are_disjoint(nodes: Sequence[Node], definitions: Mapping[str, Node]) -> bool:
    """Return whether no value sampled for one of these nodes matches another.

    So it is if their types differ, or the types of a member required by both, or if each requires a member that is
    never written for the other.
    """
    judge = _Judge(definitions)
    return not any(judge.may_meet(a, b) for index, a in enumerate(nodes) for b in nodes[:index])


def trim_members(nodes: Sequence[Node]) -> tuple[Node, ...] | None:
    """Return objects that are disjoint, by removing from each the members that only others require.

    None unless each then has a required member that the others lack.
    """
    objects = [node for node in nodes if isinstance(node, Members) and node.rest is None]
    if len(objects) < len(nodes):
        return None
    needed = [frozenset(member.name for member in node.members if member.required) for node in objects]
    made = []
    for node, own in zip(objects, needed, strict=True):
        others = frozenset().union(*needed) - own
        made.append(evolve(node, members=tuple(member for member in node.members if member.name not in others)))
    pairs = ((a, b) for a in made for b in made if a is not b)
    return tuple(made) if all(_is_never_written(a, b) for a, b in pairs) else None


class _Judge:
    def __init__(self, definitions: Mapping[str, Node]) -> None:
        self._definitions = definitions
        self._asked: set[tuple[str, str]] = set()
        """Pairs of references being compared: a schema may refer back to itself."""

    def may_meet(self, a: Node, b: Node) -> bool:
        if isinstance(a, Reference) and isinstance(b, Reference):
            if (a.pointer, b.pointer) in self._asked:
                return True
            self._asked.add((a.pointer, b.pointer))
        return self._may_meet(self._resolve(a), self._resolve(b))

    def _may_meet(self, a: Node, b: Node) -> bool:
        if isinstance(a, Either):
            return any(self.may_meet(option, b) for option in a.options)
        if isinstance(b, Either):
            return any(self.may_meet(a, option) for option in b.options)
        if isinstance(a, Anything) or isinstance(b, Anything):
            return True
        if isinstance(a, Members) and isinstance(b, Members):
            if _is_never_written(a, b) and _is_never_written(b, a):
                return False
            others = {member.name: member for member in b.members if member.required}
            return all(
                self.may_meet(member.node, others[member.name].node)
                for member in a.members
                if member.required and member.name in others
            )
        if isinstance(a, Choice) and isinstance(b, Choice):
            return not {canonical(text) for text in a.texts}.isdisjoint(canonical(text) for text in b.texts)
        return not types_of_node(a).isdisjoint(types_of_node(b))

    def _resolve(self, node: Node) -> Node:
        seen: set[str] = set()
        while isinstance(node, Reference):
            if node.pointer in seen:
                return Anything()
            seen.add(node.pointer)
            node = self._definitions[node.pointer]
        return node


def _is_never_written(a: Members, b: Members) -> bool:
    """Return whether b requires a member that is never written for a."""
    return a.rest is None and any(
        member.required and all(member.name != other.name for other in a.members) for member in b.members
    )


def canonical(text: str) -> str:
    """Return equal texts for values that JSON Schema considers equal: 1 and 1.0, but not 1 and true."""
    return json.dumps(json.loads(text, parse_float=float, parse_int=_number), sort_keys=True)


def _number(text: str) -> float | int:
    number = int(text)
    return float(number) if abs(number) < 2**53 else number  # beyond, floats that differ would be the same


def types_of_value(value: Any) -> set[str]:
    if isinstance(value, bool):
        return {"boolean"}
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return {"integer", "number"}
    names: dict[type, str] = {float: "number", str: "string", list: "array", dict: "object", type(None): "null"}
    return {names[type(value)]}


def types_of_node(node: Node) -> set[str]:
    if isinstance(node, Choice):
        return set().union(*(types_of_value(json.loads(text)) for text in node.texts))
    kinds: dict[type, set[str]] = {Text: {"string"}, Number: {"integer", "number"}, Items: {"array"}}
    return kinds.get(type(node), {"object"})
