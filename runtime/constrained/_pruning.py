"""Removes impossible parts from a tree, so that a grammar can finish every value that it begins.

A member without possible values is removed. An object that requires it is impossible too, and so on upwards. A schema
that requires itself endlessly (a tree whose every node must have a child) has no value at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile

from attrs import evolve

from runtime.constrained.nodes import NOTHING, Choice, Either, Items, Members, Node, Reference


def prune(root: Node, definitions: Mapping[str, Node]) -> tuple[Node, dict[str, Node]]:
    """Return the tree without impossible parts; its root is ``NOTHING`` if no value remains."""
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
