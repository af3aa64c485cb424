"""Reads a JSON Schema into the tree that grammars are written from.

It supports the keywords of draft 2020-12 and their older forms (lists under ``items``, ``definitions``, bounds excluded
by ``true``). Unknown keywords are annotations, as in the specification. A keyword that a grammar can't express is
omitted from the tree and noted.

Apart from those, the tree allows what the schema allows, with one exception:

- an object with ``properties`` or ``patternProperties`` has no others unless the schema sets ``additionalProperties``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any
from urllib.parse import unquote

from attrs import evolve

from runtime.constrained._conjunction import (
    ABSENT,
    HELD,
    LATER,
    Alternatives,
    Bound,
    Conjunction,
    Narrowing,
    show_value,
)
from runtime.constrained._disjoint import are_disjoint, trim_members, types_of_value
from runtime.constrained._formats import FORMATS
from runtime.constrained._numbers import integer_range, pattern_of
from runtime.constrained._patterns import PatternError, anchor_pattern, text_verdict
from runtime.constrained.nodes import (
    NOTHING,
    Anything,
    Choice,
    Either,
    Items,
    Member,
    Members,
    Node,
    Number,
    Reference,
    Text,
    Weakened,
)

OTHERS = ("type", "enum", "const", "format", "anyOf", "oneOf", "allOf", "$ref", "then", "else", "additionalItems")
READ = frozenset(OTHERS).union(LATER, *HELD.values())
"""The keywords that restrict values. All others are annotations."""

SINGLE = {"boolean": Choice(("true", "false")), "null": Choice(("null",))}

FREE: Mapping[str, Node] = {
    "string": Text(),
    "number": Number(whole=False),
    "array": Items(rest=Anything()),
    "object": Members(rest=Anything()),
    **SINGLE,
}
"""Any value of a type. A keyword restricts one type: where the schema names none, values of the others are allowed."""

MOST_CHOICES = 10_000
"""The most values in one schema's list; the grammar contains each."""

MOST_STEPS = 20_000
"""The most schemas and options processed. A schema whose parts multiply is abandoned there."""

MOST_OF_A_KIND = 16
"""The most optional members if at least one is required: each becomes an alternative."""

LARGEST_STEP = 1000
"""The largest ``multipleOf``: the engine has a state for each remainder."""

MOST_DIGITS = 400
"""The most digits of a bound. Floating point has up to 309 before its point."""

EXACT = Decimal(10**15)
"""The largest bound of a number with a step: the engine's bounds are floating point."""


class TooLargeError(Exception):
    """A schema has too many parts for a grammar."""


class SchemaReader:
    """Reads one schema.

    Args:
        root: the whole schema, which references point into.
    """

    def __init__(self, root: Any) -> None:
        self.problems: list[tuple[str, str]] = []
        """Each invalid place of the schema, with the problem."""
        self.definitions: dict[str, Node] = {}
        self._root = root
        self._weakened: dict[tuple[str, str], Weakened] = {}
        self._waiting: list[tuple[str, Any]] = []
        """Unread definitions: name, which is also the path, and schema."""
        self._exclusive: list[tuple[Alternatives, tuple[Node, ...]]] = []
        self._combined: dict[str, str] = {}
        """The names of definitions that combine several schemas, by the JSON text of these."""
        self._steps = 0
        named = root.get("$schema") if isinstance(root, dict) else None
        self._hides_siblings = isinstance(named, str) and re.search(r"draft-0[3467]\b", named) is not None
        """Whether ``$ref`` hides the keywords beside it, as up to draft 7."""

    @property
    def weakened(self) -> tuple[Weakened, ...]:
        return tuple(self._weakened.values())

    def refuse(self, path: str, problem: str) -> Node:
        self.problems.append((path, problem))
        return Anything()

    def weaken(self, path: str, keyword: str, reason: str) -> None:
        self._weakened.setdefault((path, keyword), Weakened(path, keyword, reason))

    def _none(self, known: Conjunction, keyword: str, reason: str) -> Node:
        """Return ``NOTHING``. Noted as weakened unless an option of a combination caused it."""
        if not known.combined:
            self.weaken(known.path, keyword, reason)
        return NOTHING

    def whole(self) -> Node:
        """Return the root's node, after reading its definitions.

        Raises:
            TooLargeError: the schema needs more than ``MOST_STEPS``.
        """
        root = self.read(self._root, "$")
        while self._waiting:
            name, schema = self._waiting.pop()
            self.definitions[name] = self.read(schema, name)
        for alternatives, nodes in self._exclusive:
            if not are_disjoint(nodes, self.definitions):
                self.weaken(alternatives.path, "oneOf", "two of its options can hold together; use anyOf")
        return root

    def read(self, schema: Any, path: str) -> Node:
        self._step()
        if schema is True:
            return Anything()
        if schema is False:
            return NOTHING
        if not isinstance(schema, dict):
            return self.refuse(path, f"a schema is an object, not {show_value(schema)}")
        keywords = self._without_annotations(schema)
        if keywords.keys() == {"$ref"}:
            pointer = keywords["$ref"]
            found = self._target(pointer, path)
            if found is ABSENT:
                return Anything()
            if pointer not in self.definitions:
                self.definitions[pointer] = Anything()  # until it is read
                self._waiting.append((pointer, found))
            return Reference(pointer)
        if "allOf" in keywords or "$ref" in keywords:
            parts = keywords.get("allOf")
            if keywords.keys() == {"allOf"} and isinstance(parts, list) and len(parts) == 1:
                return self.read(parts[0], f"{path}.allOf[0]")
            # A combination may lead back to itself: those with the same JSON text are one definition.
            written = json.dumps(keywords, sort_keys=True)
            if written not in self._combined:
                name = self._combined[written] = f"combined {len(self._combined)}"
                self.definitions[name] = Anything()  # stands in until it is read
                self.definitions[name] = self._conjunction_of(keywords, path)
            return Reference(self._combined[written])
        return self._conjunction_of(keywords, path)

    def _step(self) -> None:
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise TooLargeError

    def _without_annotations(self, schema: dict[str, Any]) -> dict[str, Any]:
        if self._hides_siblings and "$ref" in schema:
            return {"$ref": schema["$ref"]}
        return {keyword: value for keyword, value in schema.items() if keyword in READ}

    # ------------------------------------------------------------------------------------------------- combinations

    def _target(self, pointer: Any, path: str) -> Any:
        seen: set[str] = set()
        while isinstance(pointer, str) and pointer not in seen:
            seen.add(pointer)
            if not pointer.startswith("#"):
                told = f"it has to lead to a place in the schema, such as '#/$defs/X', not {pointer!r}"
                self.weaken(path, "$ref", told)
                return ABSENT
            found = _find_place(self._root, pointer)
            if found is ABSENT:
                self.refuse(path, f"'$ref' leads nowhere: {pointer}")
            keywords = self._without_annotations(found) if isinstance(found, dict) else {}
            if keywords.keys() != {"$ref"}:
                return found
            pointer = keywords["$ref"]
        circle, no_text = f"leads in a circle: {pointer}", f"has to be a text, not {show_value(pointer)}"
        self.refuse(path, f"'$ref' {circle if isinstance(pointer, str) else no_text}")
        return ABSENT

    def _conjunction_of(self, keywords: dict[str, Any], path: str) -> Node:
        known = Conjunction(path)
        self._narrow(known, keywords, path, frozenset(), top=True)
        return self._node(known)

    def _narrow(
        self, known: Conjunction, schema: Any, path: str, through: frozenset[str], *, top: bool = False
    ) -> None:
        """Narrow ``known`` by a schema; ``through`` are the references that led to it."""
        self._step()
        if schema is True:
            return
        if schema is False:
            known.impossible = known.given = True
            return
        if not isinstance(schema, dict):
            self.refuse(path, f"a schema is an object, not {show_value(schema)}")
            return
        keywords = self._without_annotations(schema)
        known.given = known.given or bool(keywords.keys() - {"anyOf", "oneOf", "allOf", "$ref"})
        Narrowing(partial(self.refuse, path), partial(self.weaken, path), known, top).narrow(keywords)
        pointer = keywords.get("$ref", "")
        found = self._target(pointer, path) if "$ref" in keywords else ABSENT
        if found is not ABSENT and pointer in through:
            self.weaken(path, "$ref", "it leads back to the schema that it is a part of")
        elif found is not ABSENT:
            self._narrow(known, found, pointer, through | {pointer})
        for keyword in ("allOf", "anyOf", "oneOf"):
            schemas = keywords.get(keyword, ABSENT)
            if schemas is ABSENT:
                continue
            if not isinstance(schemas, list) or not schemas:
                self.refuse(path, f"{keyword!r} has to be a list of schemas")
            elif keyword == "allOf":
                for index, part in enumerate(schemas):
                    self._narrow(known, part, f"{path}.allOf[{index}]", through)
            else:
                known.alternatives += (Alternatives(keyword, path, tuple(schemas)),)

    def _node(self, known: Conjunction) -> Node:
        if known.impossible:
            return NOTHING
        if known.alternatives:
            return self._options(known)
        if known.values is not None:
            return self._choice(known)
        if known.types is None and not known.kinds:
            return Anything()
        if known.types is not None:
            return _one_of([self._of_kind(kind, known) for kind in known.types])
        nodes = [self._of_kind(kind, known) for kind in known.kinds]
        return _one_of([*nodes, *(node for kind, node in FREE.items() if kind not in known.kinds)])

    def _options(self, known: Conjunction) -> Node:
        one, others = known.alternatives[0], known.alternatives[1:]
        nodes: list[Node] = []
        for index, option in enumerate(one.options):
            place = f"{one.path}.{one.keyword}[{index}]"
            if known.given or others:
                both = known.copy(others)
                self._narrow(both, option, place, frozenset())
                nodes.append(self._node(both))
            else:
                nodes.append(self.read(option, place))
        if one.keyword == "oneOf" and (exclusive := trim_members(nodes)) is not None:
            nodes = list(exclusive)
        elif one.keyword == "oneOf":
            self._exclusive.append((one, tuple(node for node in nodes if node != NOTHING)))
        return _one_of(nodes)

    # -------------------------------------------------------------------------------------------------------- values

    def _choice(self, known: Conjunction) -> Node:
        assert known.values is not None  # whoever asks for a choice has looked
        texts = list(known.values.values())
        if known.types is not None:
            texts = [text for text in texts if types_of_value(json.loads(text)) & set(known.types)]
        kept = [text for text in texts if self._fits(json.loads(text), known)]
        if len(kept) > MOST_CHOICES:
            self.weaken(known.path, "enum", f"up to {MOST_CHOICES} values are held to, not {len(kept)}")
            types = {min(types_of_value(json.loads(text))) for text in kept}  # of "integer" and "number", the first
            return self._node(evolve(known, values=None, types=tuple(sorted(types))))
        return Choice(tuple(kept)) if kept else self._none(known, "enum", "no value is left")

    def _fits(self, value: Any, known: Conjunction) -> bool:
        """Return whether a listed value is within the sizes and bounds. The check after the call tests the other
        keywords.
        """
        sizes = known.sizes
        if isinstance(value, str):
            if known.patterns:
                self.weaken(known.path, "pattern", "beside 'enum' or 'const': leave out what it excludes")
            return sizes.get("minLength", 0) <= len(value) <= sizes.get("maxLength", len(value))
        if isinstance(value, list):
            if known.first or known.items is not ABSENT:
                self.weaken(known.path, "items", "beside 'enum' or 'const': leave out what it excludes")
            return sizes.get("minItems", 0) <= len(value) <= sizes.get("maxItems", len(value))
        if isinstance(value, dict):
            if known.properties or known.additional is not ABSENT or known.patterned or known.counts:
                self.weaken(known.path, "properties", "beside 'enum' or 'const': leave out what it excludes")
            return all(name in value for name in known.required)
        if isinstance(value, bool) or value is None:
            return True
        number, low, high = Decimal(str(value)), known.low, known.high
        above = low is None or number > low.value or (number == low.value and not low.excluded)
        below = high is None or number < high.value or (number == high.value and not high.excluded)
        return above and below and (known.step is None or (number == int(number) and int(number) % known.step == 0))

    def _of_kind(self, kind: str, known: Conjunction) -> Node:
        if kind in ("number", "integer"):
            return self._number(known, whole=kind == "integer")
        readers = {"object": self._object, "array": self._array, "string": self._text}
        return readers[kind](known) if kind in readers else SINGLE[kind]

    def _object(self, known: Conjunction) -> Node:
        path = known.path
        rest: Node | None = None
        additional = known.additional
        if additional is ABSENT:
            additional = not known.named and not known.closed
        if known.patterned:
            self.weaken(path, "patternProperties", "keys are not held to patterns; use additionalProperties")
            others = [self.read(one, f"{path}.patternProperties.{name}") for name, one in known.patterned.items()]
            if known.additional is not ABSENT and known.additional is not False:
                others.append(self.read(known.additional, f"{path}.additionalProperties"))
            rest = _one_of(others)
        elif additional is not False:
            rest = self.read(additional, f"{path}.additionalProperties")
        members = [
            Member(name, self.read(one, f"{path}.properties.{name}"), name in known.required)
            for name, one in known.properties.items()
        ]
        others_may = known.additional is ABSENT and not known.closed
        unnamed = rest if rest is not None else Anything() if others_may else NOTHING
        members += [Member(name, unnamed, True) for name in known.required if name not in known.properties]
        for member in members:
            if member.required and member.node == NOTHING:
                self._none(known, "required", f"{member.name!r} is required and can't be there")
        return self._require_members(Members(tuple(members), rest), known)

    def _require_members(self, node: Members, known: Conjunction) -> Node:
        """Return the object with at least its minimum number of members."""
        fewest, most = known.counts.get("minProperties", 0), known.counts.get("maxProperties")
        needed = sum(member.required for member in node.members)
        if most is not None and (node.rest is not None or most < len(node.members)):
            self.weaken(known.path, "maxProperties", LATER["maxProperties"])
        if fewest <= needed:
            return node
        if node.rest is None and fewest > len(node.members):
            if known.additional is ABSENT and not known.closed:  # the schema lets others through, the tree does not
                self.weaken(known.path, "minProperties", LATER["minProperties"])
                return node
            return self._none(known, "minProperties", f"there can be no more than {len(node.members)}")
        if fewest != 1 or node.rest is not None or len(node.members) > MOST_OF_A_KIND:
            self.weaken(known.path, "minProperties", LATER["minProperties"])
            return node
        firsts = [evolve(member, required=True) for member in node.members]
        return _one_of([evolve(node, members=(one, *node.members[at:])) for at, one in enumerate(firsts, 1)])

    def _array(self, known: Conjunction) -> Node:
        path, sizes = known.path, known.sizes
        fewest, most = sizes.get("minItems", 0), sizes.get("maxItems")
        if most is not None and fewest > most:
            return self._none(known, "minItems", f"{fewest} is above 'maxItems', {most}")
        nodes = tuple(self.read(one, f"{path}.prefixItems[{index}]") for index, one in enumerate(known.first))
        closed = known.items is False or (most is not None and most <= len(nodes))
        if closed and fewest > len(nodes):
            return self._none(known, "minItems", f"there can be no more than {len(nodes)} elements")
        rest = None if closed else self.read(True if known.items is ABSENT else known.items, f"{path}.items")
        return Items(nodes, rest, fewest, most)

    def _text(self, known: Conjunction) -> Node:
        path, sizes = known.path, known.sizes
        shortest, longest = sizes.get("minLength", 0), sizes.get("maxLength")
        if longest is not None and shortest > longest:
            return self._none(known, "minLength", f"{shortest} is above 'maxLength', {longest}")
        patterns: list[str] = []
        for pattern in known.patterns:
            try:
                anchor_pattern(pattern)
            except PatternError as error:
                self.weaken(path, "pattern", f"{show_value(pattern)}: {error}")
            else:
                patterns.append(pattern)
        plain = _text_of(patterns, shortest, longest)
        verdict, told = text_verdict(plain) if patterns else "fits", show_value(" and ".join(patterns))
        if verdict == "empty":
            lengths = " of these lengths" if shortest or longest is not None else ""
            return self._none(known, "pattern", f"no text{lengths} fits {told}")
        if verdict != "fits" and (shortest or longest is not None):
            any_size = _text_of(patterns, 0, None)
            if text_verdict(any_size) == "fits":
                for keyword in sizes.keys() & {"minLength", "maxLength"}:
                    self.weaken(path, keyword, f"beside {told} it is too complex for the engine")
                plain, shortest, longest, verdict = any_size, 0, None, "fits"
        if verdict != "fits":
            self.weaken(path, "pattern", f"the engine finds it too complex: {told}")
            plain, patterns = _text_of([], shortest, longest), []
        formats = [f"^(?:{FORMATS[shape]})$" for shape in known.formats if shape in FORMATS]
        if not formats:
            return plain
        both = _text_of([*formats, *patterns], shortest, longest)
        alone = len(formats) == 1 and not patterns and not shortest and longest is None
        if alone or text_verdict(both) == "fits":
            return both
        self.weaken(path, "format", "its usual forms don't go together with the other keywords")
        return plain

    def _number(self, known: Conjunction, *, whole: bool) -> Node:
        whole = whole or known.step is not None
        if known.step is not None and known.step > LARGEST_STEP:
            self.weaken(known.path, "multipleOf", f"steps of up to {LARGEST_STEP} are held to")
            known.step = 1
        low, high = known.low, known.high
        if low is not None and high is not None and (low.value, low.excluded or high.excluded) > (high.value, False):
            return self._none(known, "minimum", "no number lies in this range")
        low, high = self._usable(low, "minimum", known), self._usable(high, "maximum", known)
        node = Number(
            whole,
            None if low is None else f"{low.value:f}",
            None if high is None else f"{high.value:f}",
            low is not None and low.excluded,
            high is not None and high.excluded,
            known.step or 1,
        )
        if integer_range(node) if whole else pattern_of(node):
            return node
        if whole:
            return self._none(known, "minimum", "no whole number lies in this range")
        self.weaken(known.path, "minimum", "no floating-point number lies in this range")
        return evolve(node, low=None, high=None, above=False, below=False)

    def _usable(self, bound: Bound | None, keyword: str, known: Conjunction) -> Bound | None:
        """Return the bound; None for one that is not enforced, after noting it."""
        if bound is None:
            return None
        if abs(bound.value.adjusted()) > MOST_DIGITS:
            self.weaken(known.path, keyword, f"bounds of up to {MOST_DIGITS} digits are held to")
            return None
        if (known.step or 1) > 1 and abs(bound.value) > EXACT:
            self.weaken(known.path, keyword, f"beside 'multipleOf', bounds of up to {EXACT} are held to")
            return None
        return bound


def _text_of(patterns: list[str], shortest: int, longest: int | None) -> Text:
    return Text(patterns[0] if patterns else None, shortest, longest, tuple(patterns[1:]))


def _one_of(nodes: Sequence[Node]) -> Node:
    return nodes[0] if len(nodes) == 1 else Either(tuple(nodes))


def _find_place(root: Any, pointer: str) -> Any:
    """Return the schema that a reference leads to; ``ABSENT`` if there is none."""
    if pointer[1:2] not in ("", "/"):
        return _find_anchor(root, pointer[1:])
    for step in pointer.split("/")[1:]:
        step = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(root, dict) and step in root:
            root = root[step]
        elif isinstance(root, list) and re.fullmatch("[0-9]{1,6}", step) and int(step) < len(root):
            root = root[int(step)]
        else:
            return ABSENT
    return root


def _find_anchor(root: Any, name: str) -> Any:
    """Return the schema with this ``$anchor``, or this ``$id`` as in drafts 6 and 7; ``ABSENT`` if not found."""
    waiting = [root]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            if one.get("$anchor") == name or one.get("$id") == f"#{name}":
                return one
            waiting += reversed(one.values())
        elif isinstance(one, list):
            waiting += reversed(one)
    return ABSENT
