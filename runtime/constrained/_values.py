"""Grammar rules for the values of a schema, in the notation of a format.

::

    JSON        {"q": "zebra", "n": 5, "exact": true}
    PYTHONIC    q='zebra', n=5, exact=True, filter={'a': None}
    bare        {q:<|"|>zebra<|"|>,n:5,exact:true,filter:{a:null}}

Up to ``MOST_UNORDERED`` members come in any order, each once. More of them, and those of the last objects of a large
grammar, come in that of the schema. A model may put one space after a comma and a colon, as templates do, and nowhere
else: free white space may lead a model into endless repetition.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from attrs import evolve, frozen

from runtime.constrained._grammar_rules import Rules, quote_text, regex, without
from runtime.constrained._numbers import pattern_of
from runtime.constrained._patterns import (
    Escapes,
    alive,
    anchor_pattern,
    letter,
    literal,
    text_schema,
    text_verdict,
)
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

DEEPEST = 8
"""The most levels of a recursive schema in formats whose rules can't refer to themselves."""

MOST_UNORDERED = 8
"""The most members of an object that come in any order: there is a rule for each set of them."""

HEX = "[0-9a-fA-F]"
CONTROL = "\\x00-\\x1F"
SURROGATES = f"\\\\u[Dd][89abAB]{HEX}{{2}}\\\\u[Dd][c-fC-F]{HEX}{{2}}"
JSON_STRING = (
    f'"(?:[^"\\\\{CONTROL}]|\\\\["\\\\/bfnrt]|\\\\u(?:[0-9a-cefA-CEF]{HEX}|[Dd][0-7]){HEX}{{2}}|{SURROGATES})*"'
)
JSON_KEY = f'"(?:[^"\\\\{CONTROL}]|\\\\["\\\\bfnrt]|\\\\u00(?:0[0-7bef]|1[0-9a-f]))*"'
"""Without the escapes of other characters, so that each key has only one spelling."""
PYTHON_STRING = f"(?:[^'\\\\{CONTROL}]|\\\\[\\\\'\"nrt]|\\\\x[01][0-9a-f])*"
"""The text between two quotation marks in Python's notation."""
NO_TEXT = '""'
BARE_KEY = r"[^\s\[\](){},:=\"'<>|\\]+"
"""Keys that the parser reads without quotes."""

_NAMED = {8: "b", 9: "t", 10: "n", 12: "f", 13: "r"}
JSON_ESCAPES: Escapes = (
    (0x22, '\\\\"'),
    (0x5C, "\\\\\\\\"),
    *((code, f"\\\\{_NAMED[code]}" if code in _NAMED else f"\\\\u{code:04x}") for code in range(32)),
)
PYTHON_ESCAPES: Escapes = (
    (0x27, "\\\\'"),
    (0x5C, "\\\\\\\\"),
    *((code, f"\\\\{_NAMED[code]}" if code in (9, 10, 13) else f"\\\\x{code:02x}") for code in range(32)),
)
PYTHON_SIGNS = re.compile("[\x00-\x1f'\\\\]")
"""The characters that a string in Python's notation can't contain as they are."""


@frozen
class Notation:
    """The syntax of values."""

    true: str = "true"
    false: str = "false"
    null: str = "null"
    quote: str = '"'
    escapes: str = "json"
    """The escapes in strings: as in JSON (``json``), as in Python (``python``), or ``none``."""
    bare_keys: bool = False
    """Whether keys that are words have no quotes."""
    end: str = ""
    """A marker after the value that the value must not contain: JSON escapes its first character."""


JSON = Notation()
PYTHONIC = Notation("True", "False", "None", "'", "python")


def bare(quote: str) -> Notation:
    """Return the notation of Gemma's families: JSON with bare keys, and with strings between tokens."""
    return Notation(quote=quote, escapes="none", bare_keys=True)


class ValueWriter:
    """Writes the rules for values of one schema."""

    def __init__(self, rules: Rules, schema: Schema, notation: Notation = JSON) -> None:
        self.rules = rules
        self.schema = schema
        self.notation = notation
        self._comma = rules.terminal(regex(", ?"))
        self._colon = rules.terminal(regex(": ?"))
        self._free = ""
        """The rule for any value."""
        self._defined: dict[str, str] = {}
        self._waiting: list[str] = []
        """Definitions with a name but without a rule so far."""

    def value(self, node: Node) -> str:
        match node:
            case Anything():
                return self._anything()
            case Choice(texts=texts):
                return self.rules.rule(" | ".join(self._write_value(json.loads(text)) for text in texts))
            case Text():
                return self._text(node)
            case Number():
                return self._number(node)
            case Items():
                return self._items(node)
            case Members():
                return self.rules.rule(f'"{{" {self.members(node, bare=self.notation.bare_keys)} "}}"')
            case Either(options=options):
                return self.rules.rule(" | ".join(dict.fromkeys(self.value(option) for option in options)))
            case Reference(pointer=pointer):
                return self._definition(pointer)

    def members(self, node: Members, sign: str = "", *, bare: bool = False) -> str:
        """Return the members of an object without its brackets.

        Args:
            node: the object.
            sign: the separator between key and value, in the grammar's syntax; empty for the notation's colon.
            bare: whether keys that are words have no quotes.
        """
        sign = sign or self._colon
        written = [
            (self.rules.rule(f"{self._key(one.name, bare)} {sign} {self.value(one.node)}"), one.required)
            for one in node.members
        ]
        rest = ""
        if node.rest is not None:
            rest = self.rules.rule(f"{self._other_key(node, bare)} {sign} {self.value(node.rest)}")
        return write_members(self.rules, written, rest, self._comma)

    # ------------------------------------------------------------------------------------------------ single values

    def _text(self, node: Text) -> str:
        notation = self.notation
        free = node == Text()
        if notation.escapes == "json":
            end = without((notation.end,))
            if free:
                return self.rules.terminal(regex(JSON_STRING) + end)
            if notation.end and text_verdict(evolve(node, also=(*node.also, literal(notation.end)))) != "empty":
                return self._text_without_end(node)
            return self.rules.rule(f"%json {json.dumps(text_schema(node))}")
        quote = self.rules.marker(notation.quote)
        if notation.escapes == "none":
            return f"{quote} {self.rules.until(raw_text(node), notation.quote)}"
        content = regex(PYTHON_STRING) if free else raw_text(node, escapes=PYTHON_ESCAPES)
        return self.rules.rule(f"{quote} {self.rules.terminal(content)} {quote}")

    def _text_without_end(self, node: Text) -> str:
        """Return a string that does not contain the marker behind it, since it escapes the marker's first character."""
        first = ord(self.notation.end[0])
        either = f"(?:{literal(chr(first))}|\\\\u{first:04x})"
        content = raw_text(node, escapes=(*JSON_ESCAPES, (first, either)))
        body = f'"\\"" ({content}{without((self.notation.end,))}) "\\""'
        return self.rules.terminal(body if alive(body) else regex(JSON_STRING) + without((self.notation.end,)))

    def _number(self, node: Number) -> str:
        if node.step == 1:
            return self.rules.terminal(regex(pattern_of(node)))
        described: dict[str, Any] = {"type": "integer", "multipleOf": node.step}
        for name, edge, excluded in (("inimum", node.low, node.above), ("aximum", node.high, node.below)):
            if edge is not None:
                described[f"exclusiveM{name}" if excluded else f"m{name}"] = float(edge) if "." in edge else int(edge)
        return self.rules.rule(f"%json {json.dumps(described)}")

    def _anything(self) -> str:
        if not self._free:
            notation = self.notation
            self._free = self.rules.reserve()
            pair = f"{self._other_key(Members(), notation.bare_keys)} {self._colon} {self._free}"
            options = [self._text(Text()), self._number(Number(whole=False))]
            options += [quote_text(text) for text in (notation.true, notation.false, notation.null)]
            options.append(f'"[" ({self._free} ({self._comma} {self._free})*)? "]"')
            options.append(f'"{{" ({pair} ({self._comma} {pair})*)? "}}"')
            self.rules.define(self._free, " | ".join(options))
        return self._free

    def _write_value(self, value: Any) -> str:
        notation = self.notation
        match value:
            case bool() | None:
                return quote_text({True: notation.true, False: notation.false, None: notation.null}[value])
            case str():
                return self._string(value)
            case list():
                return " ".join(['"["', f" {self._comma} ".join(map(self._write_value, value)), '"]"'])
            case dict():
                written = ((self._key(key, notation.bare_keys), self._write_value(one)) for key, one in value.items())
                pairs = (f"{key} {self._colon} {one}" for key, one in written)
                return " ".join(['"{"', f" {self._comma} ".join(pairs), '"}"'])
            case _:
                return quote_text(json.dumps(value))

    def _string(self, text: str) -> str:
        notation = self.notation
        if notation.escapes == "json":
            written = json.dumps(text, ensure_ascii=False)
            end = self.notation.end
            return quote_text(written.replace(end, f"\\u{ord(end[0]):04x}{end[1:]}") if end else written)
        if notation.escapes == "python":
            text = PYTHON_SIGNS.sub(_escape_python, text)
        quote = self.rules.marker(notation.quote)
        return f"{quote} {quote_text(text)} {quote}" if text else f"{quote} {quote}"

    # ---------------------------------------------------------------------------------------------------- containers

    def _key(self, name: str, bare: bool) -> str:
        return quote_text(name) if bare and re.fullmatch(BARE_KEY, name) else self._string(name)

    def _other_key(self, node: Members, bare: bool) -> str:
        """Return the rule for a key that the object does not name."""
        notation, names = self.notation, [one.name for one in node.members]
        if notation.escapes == "json":
            known = no_text(json.dumps(name, ensure_ascii=False) for name in names)
            return self.rules.terminal(regex(JSON_KEY) + known + without((notation.end,)))
        quote = self.rules.marker(notation.quote)
        if notation.escapes == "none":
            quoted = f"{quote} {self.rules.until(f'({raw_text(Text())}{no_text(names)})', notation.quote)}"
        else:
            known = no_text(PYTHON_SIGNS.sub(_escape_python, name) for name in names)
            quoted = f"{quote} {self.rules.terminal(raw_text(Text(), escapes=PYTHON_ESCAPES) + known)} {quote}"
        if not bare:
            return self.rules.rule(quoted)
        return self.rules.rule(f"{self.rules.terminal(regex(BARE_KEY) + no_text(names))} | {quoted}")

    def _items(self, node: Items) -> str:
        most = node.most
        heads = [self.value(one) for one in node.first[: len(node.first) if most is None else most]]
        tail = ""
        if node.rest is not None and (most is None or most > len(heads)):
            tail = self._more(self.value(node.rest), len(heads), node.fewest, most)
        for index in range(len(heads) - 1, -1, -1):
            comma = f"{self._comma} " if index else ""
            tail = self.rules.rule(f"{comma}{heads[index]} {tail}" + (' | ""' if index >= node.fewest else ""))
        return self.rules.rule(f'"[" {tail} "]"')

    def _more(self, item: str, before: int, fewest: int, most: int | None) -> str:
        there = max(before, 1)
        more = _repeat(f"{self._comma} {item}", max(0, fewest - there), None if most is None else most - there)
        if before:
            return self.rules.rule(more)
        several = self.rules.rule(f"{item} {more}")
        return several if fewest else self.rules.rule(f'{several} | ""')

    def _definition(self, pointer: str) -> str:
        if pointer not in self._defined:
            self._defined[pointer] = self.rules.reserve()
            self._waiting.append(pointer)
            if len(self._waiting) == 1:  # else whoever put the first one there goes on with this one: no recursion
                for one in self._waiting:  # which grows meanwhile
                    self.rules.define(self._defined[one], self.value(self.schema.definitions[one]))
                self._waiting.clear()
        return self._defined[pointer]


def _escape_python(found: re.Match[str]) -> str:
    sign = found.group()
    name = {"\t": "t", "\n": "n", "\r": "r"}.get(sign, sign)
    return f"\\x{ord(sign):02x}" if name < " " else f"\\{name}"


def no_text(texts: Iterable[str]) -> str:
    """Return the suffix of a terminal that excludes these texts, each as a whole."""
    listed = "|".join(map(literal, texts))
    return f" & ~{regex(listed)}" if listed else ""


def _repeat(body: str, fewest: int, most: int | None) -> str:
    if most == 0:  # the engine knows no repetition without any
        return '""'
    return f"({body}){{{fewest},{'' if most is None else most}}}"


def write_members(rules: Rules, written: Sequence[tuple[str, bool]], rest: str = "", comma: str = "") -> str:
    """Return the rule for the members of an object.

    Args:
        rules: receives the rules.
        written: the rule of each named member, and whether it is required.
        rest: the rule of any other member; empty if others are excluded.
        comma: what stands between two members.
    """
    if len(written) <= MOST_UNORDERED and rules.afford_orders(1 << len(written)):
        return _in_any_order(rules, written, rest, comma)
    return _in_this_order(rules, written, rest, comma)


def _in_any_order(rules: Rules, written: Sequence[tuple[str, bool]], rest: str, comma: str) -> str:
    """Write a rule for each set of members that are left: for the text that may follow a member."""
    more = f"({comma} {rest})*" if rest else NO_TEXT
    behind: list[str] = []  # by the set, as bits
    every = (1 << len(written)) - 1
    for left in range(every + 1):
        places = [place for place in range(len(written)) if left & 1 << place]
        options = " | ".join(f"{written[place][0]} {behind[left ^ 1 << place]}" for place in places)
        others, end = (f"{more} {comma}" if rest else comma), more
        if left == every:  # the first member, which no comma precedes
            others, end = (f"({rest} {comma})*", f"({rest} {more})?") if rest else ("", NO_TEXT)
        may_end = not any(written[place][1] for place in places)
        behind.append(
            rules.rule(" | ".join(([f"{others} ({options})"] if options else []) + ([end] if may_end else [])))
        )
    return behind[every]


def _in_this_order(rules: Rules, written: Sequence[tuple[str, bool]], rest: str, comma: str) -> str:
    first = following = ""  # what may come from here on: as the first member, and behind one
    if rest:
        first = rules.rule(f"({rest} ({comma} {rest})*)?")
        following = rules.rule(f"({comma} {rest})*")
    for member, required in reversed(written):
        behind = f"{member} {following}"
        if required:
            first, following = rules.rule(behind), rules.rule(f"{comma} {behind}")
        else:
            first = rules.rule(f"{behind} | {first or NO_TEXT}")
            following = rules.rule(f"{comma} {behind} | {following or NO_TEXT}")
    return first


def raw_text(node: Text, letters: str = "", escapes: Escapes = ()) -> str:
    """Return the body of a terminal for the text within a string.

    Args:
        node: the texts.
        letters: a pattern for texts of the characters that may occur; empty for all.
        escapes: how some characters are written.
    """
    parts = [regex(letters)] if letters else []
    patterns = (pattern for pattern in (node.pattern, *node.also) if pattern is not None)
    parts += [f"({regex(anchor_pattern(pattern, escapes))})" for pattern in patterns]
    if node.shortest or node.longest is not None or not parts:
        longest = "" if node.longest is None else node.longest
        parts.append(regex(f"{letter(escapes)}{{{node.shortest},{longest}}}"))
    return " & ".join(parts)
