"""Grammar rules for arguments as nested tags (MiniMax-M3), and for bare text between two tags.

::

    <city>Tokyo</city><tags><item>a</item><item>b</item></tags><size><x>1.5</x></size>

The format has its own markers for ``<``, ``</`` and ``>``. A closing tag repeats the key, and a grammar can require
that only for known keys. So members that the schema does not name are excluded. A schema that refers to itself is
followed ``DEEPEST`` levels deep.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from attrs import define, field

from cognition.parsing import ParameterMarkers
from cognition.parsing.nested_elements import leaf
from cognition.parsing.typed_values import ITEM, type_at
from runtime.constrained._grammar_rules import Rules, quote_text, regex, without
from runtime.constrained._patterns import alive
from runtime.constrained._values import DEEPEST, ValueWriter, raw_text
from runtime.constrained.nodes import (
    Anything,
    Choice,
    Either,
    Items,
    Members,
    Node,
    Number,
    Reference,
    Schema,
    Text,
)

RAW_LETTERS = "[^\\x00-\\x08\\x0B-\\x1F\\x7F]*"

READ_AS = {
    "number": "-?[0-9][0-9.eE+-]*",
    "integer": "-?[0-9][0-9.eE+-]*",
    "boolean": "true|false|True|False",
    "null": "null|None",
    "array": "\\[(?s:.*)\\]",
    "object": "\\{(?s:.*)\\}",
}
"""Texts that the parser may read as a value other than a string, by that value's type."""
QUOTED = '"(?s:.*)"'
BLANK = "[ \\n\\t]*"

MOST_ELEMENTS = 2000
"""The most tags written for one tool: schemas that refer to each other would multiply without limit."""
MOST_REFERENCES = 12
"""The most nested references followed."""

UNWRITABLE = ""
"""The rule for values that the format can't write."""


def no_other(types: frozenset[str], *, any_: bool = False) -> str:
    """Return the suffix of a text's terminal that excludes other values of these types (``any_``: of any type)."""
    kinds = READ_AS if any_ else types & READ_AS.keys()
    patterns = [*dict.fromkeys(READ_AS[kind] for kind in sorted(kinds)), *([QUOTED] if any_ else [])]
    return f" & ~{regex(BLANK + '(?:' + '|'.join(patterns) + ')' + BLANK)}" if patterns else ""


@define
class ElementWriter:
    """Writes the rules for the arguments of one tool.

    Args:
        rules: receives the rules.
        schema: the schema of the arguments.
        types: the types of their values by path, as in the parser.
        markers: the format's markers.
        stops: texts that always end a call.
    """

    rules: Rules
    _schema: Schema
    _types: Mapping[str, frozenset[str]]
    _markers: ParameterMarkers
    _stops: tuple[str, ...]
    _within: list[str] = field(factory=list, init=False)
    """The references being followed, outermost first."""
    _written: int = field(default=0, init=False)

    def element(self, key: str, node: Node, path: str) -> str:
        """Return the rule for a value with its tags; UNWRITABLE if it can't be written."""
        self._written += 1
        if self._written > MOST_ELEMENTS:
            return UNWRITABLE
        markers = self._markers
        closing = f"{markers.value_end}{key}{markers.key_end}"
        options = self._options(node, path, closing)
        if not options:
            return UNWRITABLE
        opening = self.rules.marker(f"{markers.key_start}{key}{markers.key_end}")
        return self.rules.rule(f"{opening} ({' | '.join(dict.fromkeys(options))})")

    def _options(self, node: Node, path: str, closing: str) -> list[str]:
        """Return the possible texts after the tag that opens a value, each with the closing tag."""
        types, close = type_at(self._types, path), self.rules.marker(closing)
        nested, own = "/" in path, (self._markers.key_start, *self._stops)
        match node:
            case Anything():
                return [self.rules.until(f"({raw_text(Text(), RAW_LETTERS)}{without(own)})", closing)]
            case Text():
                others = no_other(types, any_=nested and not types)
                body = f"{raw_text(node, RAW_LETTERS)}{others}{without(own)}"
                return [self.rules.until(f"({body})", closing)] if node == Text() or alive(body) else []
            case Choice(texts=texts):
                values = [json.loads(text) for text in texts]
                written = [value if isinstance(value, str) else json.dumps(value) for value in values]
                pairs = zip(written, map(json.dumps, values), strict=True)
                same = (text for text, value in pairs if json.dumps(leaf(text, types, nested=nested)) == value)
                kept = (text for text in same if not any(one in text for one in own))
                return [f"{quote_text(text)} {close}" if text else close for text in kept]
            case Number():
                known = types & {"number", "integer"} or (nested and not types)
                return [f"{ValueWriter(self.rules, self._schema).value(node)} {close}"] if known else []
            case Members() | Items():
                if isinstance(node, Members):
                    inner = self._members(node, path, types)
                else:
                    inner = self._items(node, path, types)
                return [] if inner is None else [f"{inner} {close}"]
            case Either(options=options):
                return [one for option in options for one in self._options(option, path, closing)]
            case Reference(pointer=pointer):
                if self._within.count(pointer) == DEEPEST or len(self._within) == MOST_REFERENCES:
                    return []
                self._within.append(pointer)
                try:
                    return self._options(self._schema.definitions[pointer], path, closing)
                finally:
                    self._within.pop()

    def _members(self, node: Members, path: str, types: frozenset[str]) -> str | None:
        mixed = "array" in types or "object" not in types
        if mixed and any(member.name == ITEM for member in node.members):
            return None  # would be read as a list
        parts: list[tuple[str, bool]] = []
        for member in node.members:
            fine = readable(member.name, ("/", *self._stops), self._markers)
            one = self.element(member.name, member.node, f"{path}/{member.name}") if fine else UNWRITABLE
            if one:
                parts.append((one, member.required))
            elif member.required:
                return None
        if any(required for _, required in parts) or types == {"object"}:
            return self.rules.rule(" ".join(['""', *(one if needed else f"{one}?" for one, needed in parts)]))
        if not parts:
            return None
        starts = [" ".join([one, *(f"{later}?" for later, _ in parts[at + 1 :])]) for at, (one, _) in enumerate(parts)]
        return self.rules.rule(" | ".join(starts))  # an empty one would be read as something else

    def _items(self, node: Items, path: str, types: frozenset[str]) -> str | None:
        if "array" not in types and types:
            return None
        fewest, most = node.fewest, node.most
        if not ("array" in types and "string" not in types):
            fewest = max(fewest, 1)  # an empty one would be read as something else
        heads = [self.element(ITEM, one, f"{path}/{ITEM}") for one in node.first]
        heads = heads[: heads.index(UNWRITABLE)] if UNWRITABLE in heads else heads
        heads = heads if most is None else heads[:most]
        all_heads = len(heads) == (len(node.first) if most is None else min(most, len(node.first)))
        more = self.element(ITEM, node.rest, f"{path}/{ITEM}") if node.rest is not None and all_heads else UNWRITABLE
        tail = '""'
        if more and (most is None or most > len(heads)):
            most_more = "" if most is None else most - len(heads)
            tail = f"({more}){{{max(0, fewest - len(heads))},{most_more}}}"
        elif fewest > len(heads):
            return None
        for place in range(len(heads) - 1, -1, -1):
            tail = self.rules.rule(f"{heads[place]} {tail}" + (' | ""' if place >= fewest else ""))
        return self.rules.rule(tail)


def readable(key: str, others: Iterable[str], markers: ParameterMarkers) -> bool:
    """Return whether the parser can read a key back: it contains no marker and none of the ``others``."""
    own = (markers.key_start, markers.key_end, markers.value_start, markers.value_end, *others)
    return bool(key) and key == key.strip() and key.isprintable() and not any(one in key for one in own if one)
