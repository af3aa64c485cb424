"""The tree that a JSON Schema is read into and grammars are written from. Plain frozen values."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen


@frozen
class Anything:
    """Any JSON value."""


@frozen
class Choice:
    """One of these values, each as JSON text. Booleans and null are choices too."""

    texts: tuple[str, ...]


@frozen
class Text:
    """A string: ``pattern`` as in JSON Schema (it may match anywhere), lengths in code points."""

    pattern: str | None = None
    shortest: int = 0
    longest: int | None = None
    also: tuple[str, ...] = ()
    """Further patterns that must match too."""


@frozen
class Number:
    """A number between two decimals, inclusive; with ``whole``, an integer, optionally a multiple of ``step``."""

    whole: bool
    low: str | None = None
    """As decimal text, so that 0.1 is exact."""
    high: str | None = None
    above: bool = False
    """Whether ``low`` itself is excluded."""
    below: bool = False
    """Whether ``high`` itself is excluded."""
    step: int = 1


@frozen
class Items:
    """An array: the nodes of its first elements, and ``rest`` for all later ones; None allows no more elements."""

    first: tuple[Node, ...] = ()
    rest: Node | None = None
    fewest: int = 0
    most: int | None = None


@frozen
class Member:
    """A member of an object that the schema names."""

    name: str
    node: Node
    required: bool


@frozen
class Members:
    """An object: its members in the schema's order, and ``rest`` for all others; None allows no others."""

    members: tuple[Member, ...] = ()
    rest: Node | None = None


@frozen
class Either:
    """One of these. Without options no value matches; such a node exists only while a tree is being read."""

    options: tuple[Node, ...]


NOTHING = Either(())


@frozen
class Reference:
    """A reference to a definition of the same schema, by its JSON pointer: ``#/$defs/Tree``."""

    pointer: str


Node = Anything | Choice | Text | Number | Items | Members | Either | Reference


@frozen
class Weakened:
    """A keyword of a schema that sampling does not enforce, or only in part: it is checked after the call."""

    path: str
    """The path to the schema: ``$.properties.tags``."""
    keyword: str
    reason: str

    def __str__(self) -> str:
        return f"{self.keyword} @ {self.path}: {self.reason}"


@frozen
class Schema:
    """A whole schema. References may be cyclic."""

    root: Node
    definitions: Mapping[str, Node]
    weakened: tuple[Weakened, ...] = ()
    """The keywords that the tree omits. If empty, every value that the tree allows is valid."""

    def resolve(self, node: Node) -> Node:
        """Return the node, or the final target of a reference."""
        while isinstance(node, Reference):
            node = self.definitions[node.pointer]
        return node
