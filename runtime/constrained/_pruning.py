"""Removes impossible parts from a tree, so that a grammar can finish every value that it begins.

A member without possible values is removed. An object that requires it is impossible too, and so on upwards. A schema
that requires itself endlessly (a tree whose every node must have a child) has no value at all.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve

from runtime.constrained.nodes import NOTHING, Choice, Either, Items, Member, Members, Node, Reference


def prune(root: Node, definitions: Mapping[str, Node]) -> tuple[Node, dict[str, Node]]:
    """Return the tree without impossible parts; its root is ``NOTHING`` if no value remains."""
    possible: set[str] = set()
    while True:
        # Backwards: what is referred to was read later, so that a long chain takes one round.
        before = len(possible)
        for name in reversed([*definitions]):
            if name not in possible and _can_be(definitions[name], possible):
                possible.add(name)
        if len(possible) == before:
            break
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
    for index, one in enumerate(node.first):
        if not _can_be(one, possible):
            return index
    return len(node.first)


class _Pruner:
    def __init__(self, definitions: Mapping[str, Node]) -> None:
        self._definitions = definitions
        self._possible = set(definitions)

    def node(self, node: Node, name: str = "") -> Node:
        """Return the node without impossible parts; ``name`` is its pointer if it is a definition."""
        if not _can_be(node, self._possible):
            return NOTHING
        match node:
            case Either():
                options = tuple(self.node(one) for one in self._options(node, name) if _can_be(one, self._possible))
                return options[0] if len(options) == 1 else Either(options)
            case Members(members=members, rest=rest):
                kept = tuple(member for member in map(self._member, members) if member is not None)
                return evolve(node, members=kept, rest=None if rest is None else self._rest(rest))
            case Items(first=first, rest=rest):
                heads = _heads(node, self._possible)
                more = None if rest is None or heads < len(first) else self._rest(rest)
                return evolve(node, first=tuple(map(self.node, first[:heads])), rest=more)
            case _:
                return node

    def _member(self, member: Member) -> Member | None:
        if not _can_be(member.node, self._possible):
            return None
        return evolve(member, node=self.node(member.node))

    def _rest(self, node: Node) -> Node | None:
        return self.node(node) if _can_be(node, self._possible) else None

    def _options(self, node: Either, name: str) -> tuple[Node, ...]:
        """Return the options. If one refers back to the node, alternatives are flattened into their own options."""
        return tuple(self._leaves(node)) if self._leads_back(node, name) else node.options

    def _leads_back(self, node: Either, name: str) -> bool:
        seen: set[str] = {name}
        waiting = list(node.options)
        while waiting:
            one = waiting.pop()
            if isinstance(one, Either):
                waiting += one.options
            elif isinstance(one, Reference):
                if one.pointer in seen:
                    return True
                seen.add(one.pointer)
                target = self._definitions.get(one.pointer)
                if isinstance(target, Either | Reference):
                    waiting.append(target)
        return False

    def _leaves(self, node: Either) -> list[Node]:
        leaves: dict[Node, None] = {}
        seen: set[str] = set()
        waiting = list(reversed(node.options))
        while waiting:
            one = waiting.pop()
            target = self._definitions.get(one.pointer) if isinstance(one, Reference) else one
            if isinstance(one, Reference) and isinstance(target, Either | Reference):
                if one.pointer not in seen:
                    seen.add(one.pointer)
                    waiting.append(target)
            elif isinstance(one, Either):
                waiting += reversed(one.options)
            else:
                leaves[one] = None
        return list(leaves)
