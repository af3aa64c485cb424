"""Grammar rules for the values of a schema, in the notation of a format.

::

    JSON        {"q": "zebra", "n": 5, "exact": true}
    PYTHONIC    q='zebra', n=5, exact=True, filter={'a': None}
    bare        {q:<|"|>zebra<|"|>,n:5,exact:true,filter:{a:null}}

Members come in the order of the schema, so that none comes twice. A model may put one space after a comma and a colon,
as templates do, and nowhere else: free white space may lead a model into endless repetition.
"""

from __future__ import annotations

import json
import re
from typing import Any

from attrs import evolve, frozen

from runtime.constrained._grammar_rules import Rules, quote_text, regex, without
from runtime.constrained._patterns import alive, anchor_pattern, literal, pattern_of, text_schema, text_verdict
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

DEEPEST = 3
"""The most levels of a value if the schema does not restrict it."""

CONTROL = "\\x00-\\x1F\\x7F"
JSON_STRING = f'"(?:[^"\\\\{CONTROL}]|\\\\["\\\\/bfnrt])*"'
JSON_KEY = f'"(?:[^"\\\\{CONTROL}]|\\\\["\\\\bfnrt])*"'
"""Without the escape of a slash, so that each key has only one spelling."""
PLAIN_LETTER = f'[^"\\\\{CONTROL}]*'
"""Text that needs no escape in JSON."""
PYTHON_LETTER = f"[^'\\\\{CONTROL}]"
NO_TEXT = '""'
WORD = "[A-Za-z_][A-Za-z0-9_]{0,40}"
BARE_KEY = r"[^\s\[\](){},:=\"'<>|\\]+"
"""Keys that the parser reads without quotes."""


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
        self._defined: dict[str, str] = {}
        self._waiting: list[str] = []
        """Definitions with a name but without a rule so far."""

    def value(self, node: Node) -> str:
        match node:
            case Anything():
                return self._anything(DEEPEST)
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
        writers = [(f"{self._key(one.name, bare)} {sign} {self.value(one.node)}", one) for one in node.members]
        first = following = ""  # what may come from here on: as the first member, and behind one
        if node.rest is not None:
            rest = self.rules.rule(f"{self._other_key(node, bare)} {sign} {self.value(node.rest)}")
            first = self.rules.rule(f"({rest} ({self._comma} {rest})*)?")
            following = self.rules.rule(f"({self._comma} {rest})*")
        for written, member in reversed(writers):
            item = self.rules.rule(written)
            behind = f"{item} {following}"
            if member.required:
                first, following = self.rules.rule(behind), self.rules.rule(f"{self._comma} {behind}")
            else:
                first = self.rules.rule(f"{behind} | {first or NO_TEXT}")
                following = self.rules.rule(f"{self._comma} {behind} | {following or NO_TEXT}")
        return first

    # ------------------------------------------------------------------------------------------------ single values

    def _text(self, node: Text) -> str:
        notation = self.notation
        free = node == Text()
        if notation.escapes == "json":
            end = without((notation.end,))
            if free:
                return self.rules.terminal(regex(JSON_STRING) + end)
            with_end = evolve(node, also=(*node.also, literal(notation.end)))
            if notation.end and text_verdict(with_end) != "empty":
                body = f'"\\"" ({raw_text(node, PLAIN_LETTER)}{end}) "\\""'
                return self.rules.terminal(body if alive(body) else regex(JSON_STRING) + end)
            return self.rules.rule(f"%json {json.dumps(text_schema(node))}")
        quote = self.rules.marker(notation.quote)
        letter = PYTHON_LETTER if notation.escapes == "python" else "(?s:.)"
        if free and notation.escapes == "python":
            content = regex(f"(?:{letter}|\\\\[\\\\'\"nt])*")
        else:
            content = raw_text(node, f"{letter}*")
        if notation.escapes == "none":
            return self.rules.rule(f"{quote} {self.rules.until(content, notation.quote)}")
        return self.rules.rule(f"{quote} {self.rules.terminal(content)} {quote}")

    def _number(self, node: Number) -> str:
        if node.step == 1:
            return self.rules.terminal(regex(pattern_of(node)))
        described: dict[str, Any] = {"type": "integer", "multipleOf": node.step}
        digits = max(15, *(len(edge) for edge in (node.low, node.high) if edge is not None), 0)
        for name, edge, excluded in (("inimum", node.low, node.above), ("aximum", node.high, node.below)):
            limit = edge or ("-" if name == "inimum" else "") + "9" * digits
            key = f"exclusiveM{name}" if excluded else f"m{name}"
            described[key] = float(limit) if "." in limit else int(limit)
        return self.rules.rule(f"%json {json.dumps(described)}")

    def _anything(self, depth: int) -> str:
        notation = self.notation
        options = [self._text(Text()), self._number(Number(whole=False))]
        options += [quote_text(text) for text in (notation.true, notation.false, notation.null)]
        if depth > 0:
            inner = self._anything(depth - 1)
            pair = f"{self._other_key(Members(), notation.bare_keys)} {self._colon} {inner}"
            options.append(f'"[" ({inner} ({self._comma} {inner})*)? "]"')
            options.append(f'"{{" ({pair} ({self._comma} {pair})*)? "}}"')
        return self.rules.rule(" | ".join(options))

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
            for sign, escaped in (("\\", "\\\\"), ("'", "\\'"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
                text = text.replace(sign, escaped)
        quote = self.rules.marker(notation.quote)
        return f"{quote} {quote_text(text)} {quote}" if text else f"{quote} {quote}"

    # ---------------------------------------------------------------------------------------------------- containers

    def _key(self, name: str, bare: bool) -> str:
        return quote_text(name) if bare and re.fullmatch(BARE_KEY, name) else self._string(name)

    def _other_key(self, node: Members, bare: bool) -> str:
        as_json = self.notation.escapes == "json"
        known = (json.dumps(one.name, ensure_ascii=False) if as_json else one.name for one in node.members)
        excluded = "|".join(map(literal, known))
        unknown = f" & ~{regex(excluded)}" if excluded else ""
        if as_json:
            return self.rules.terminal(regex(JSON_KEY) + unknown + without((self.notation.end,)))
        word, quote = self.rules.terminal(regex(WORD) + unknown), self.rules.marker(self.notation.quote)
        return word if bare else self.rules.rule(f"{quote} {word} {quote}")

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


def _repeat(body: str, fewest: int, most: int | None) -> str:
    if most == 0:  # the engine knows no repetition without any
        return '""'
    return f"({body}){{{fewest},{'' if most is None else most}}}"


def raw_text(node: Text, letters: str = "(?s:.*)") -> str:
    """Return the body of a terminal for an unescaped string; ``letters`` is the pattern of its content."""
    longest = "" if node.longest is None else node.longest
    parts = [regex(letters)]
    parts += [f"({regex(anchor_pattern(pattern))})" for pattern in (node.pattern, *node.also) if pattern is not None]
    if node.shortest or node.longest is not None:
        parts.append(regex(f"(?s:.{{{node.shortest},{longest}}})"))
    return " & ".join(parts)
