"""JSON Schema read once into a small tree: what a grammar is written from. Plain frozen values."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen


@frozen
class Anything:
    """Any JSON value, nested three deep at most: a model that samples freely would not come back from deeper."""


@frozen
class Choice:
    """One of these values, each as JSON text. Truth values and null are choices too."""

    texts: tuple[str, ...]


@frozen
class Text:
    """A string: ``pattern`` as JSON Schema writes it (it may match anywhere), lengths in code points."""

    pattern: str | None = None
    shortest: int = 0
    longest: int | None = None
    also: tuple[str, ...] = ()
    """Further patterns that hold together with the first."""
    untyped: bool = field(default=False, eq=False)
    """Whether the schema names no type, and so allows values of other types too, which are not sampled."""


@frozen
class Number:
    """A number between two decimals, both included; with ``whole``, an integer, perhaps a multiple of ``step``."""

    whole: bool
    low: str | None = None
    """As decimal text, so that 0.1 is 0.1."""
    high: str | None = None
    above: bool = False
    """Whether ``low`` itself is excluded."""
    below: bool = False
    """Whether ``high`` itself is excluded."""
    step: int = 1
    untyped: bool = field(default=False, eq=False)
    """As in ``Text``."""


@frozen
class Items:
    """An array: the nodes of its first elements, and ``rest`` for all behind them, of which None allows none."""

    first: tuple[Node, ...] = ()
    rest: Node | None = None
    fewest: int = 0
    most: int | None = None
    untyped: bool = field(default=False, eq=False)
    """As in ``Text``."""


@frozen
class Member:
    """One member of an object that the schema names."""

    name: str
    node: Node
    required: bool


@frozen
class Members:
    """An object: its members in the schema's order, and ``rest`` for all others, of which None allows none."""

    members: tuple[Member, ...] = ()
    rest: Node | None = None
    untyped: bool = field(default=False, eq=False)
    """As in ``Text``."""


@frozen
class Either:
    """One of these. Without options no value fits it; such a node stands only in a tree that is being read."""

    options: tuple[Node, ...]


NOTHING = Either(())


@frozen
class Reference:
    """A reference to a definition of the same schema, by its JSON pointer: ``#/$defs/Tree``."""

    pointer: str


Node = Anything | Choice | Text | Number | Items | Members | Either | Reference


@frozen
class Weakened:
    """A keyword of a schema that sampling is not held to, or not wholly: it is checked after the call."""

    path: str
    """Where it stands: ``$.properties.tags``."""
    keyword: str
    reason: str

    def __str__(self) -> str:
        return f"{self.keyword} @ {self.path}: {self.reason}"


@frozen
class Schema:
    """A whole schema. References may lead back to where they stand."""

    root: Node
    definitions: Mapping[str, Node]
    weakened: tuple[Weakened, ...] = ()
    """The keywords that the tree leaves out. Without any, every value that the tree allows is valid."""

    def resolve(self, node: Node) -> Node:
        """The node itself, or what its reference stands for in the end."""
        while isinstance(node, Reference):
            node = self.definitions[node.pointer]
        return node
