"""Grammar rules for calls in a format: from the tools and a ``FormatSpec``, the text allowed after a start marker.

White space around markers belongs to the template, so up to two blanks or line breaks are allowed there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, evolve, field

from cognition.parsing import CallFormat, FormatSpec, ParameterMarkers, types_of
from cognition.parsing.typed_values import parse_value, type_of
from runtime.constrained._disjoint import types_of_node, types_of_value
from runtime.constrained._grammar_rules import Rules, quote_text, regex, without
from runtime.constrained._patterns import alive, literal
from runtime.constrained._values import (
    PYTHON_ESCAPES,
    PYTHONIC,
    Notation,
    ValueWriter,
    bare,
    no_text,
    raw_text,
    write_members,
)
from runtime.constrained._xml_arguments import RAW_LETTERS, ElementWriter, no_other, readable
from runtime.constrained.nodes import (
    NOTHING,
    Anything,
    Choice,
    Either,
    Items,
    Members,
    Node,
    Reference,
    Schema,
    Text,
    Weakened,
)
from runtime.constrained.schema import any_object, prune
from runtime.constrained.tools import NOT_OFFERED, OWN_NAME, Tool


def _unwritable(path: str, keyword: str, what: str) -> Weakened:
    return Weakened(path, keyword, f"this model's format has no way to write {what}")


@define
class _SchemaFitter:
    """Fits schemas to a notation that can't express every value."""

    _can_write: Callable[[str], bool]
    """Whether it can write this string, as a value or a key."""
    _can_write_some: Callable[[Text], bool]
    """Whether it can write any string that matches this node."""
    _weakened: list[Weakened] = field(factory=list, init=False)

    def fit(self, schema: Schema) -> Schema:
        """Return a schema whose values can all be written; ``weakened`` lists the relaxed parts."""
        self._weakened = []
        definitions = {name: self._node(node, name) for name, node in schema.definitions.items()}
        root = self._node(schema.root, "$")
        if not self._weakened:
            return schema
        root, definitions = prune(root, definitions)
        weakened = (*schema.weakened, *self._weakened)
        return any_object(*weakened) if root == NOTHING else Schema(root, definitions, weakened)

    def _weaken(self, path: str, keyword: str, what: str) -> None:
        self._weakened.append(_unwritable(path, keyword, what))

    def _node(self, node: Node, path: str) -> Node:
        match node:
            case Choice(texts=texts):
                kept = tuple(text for text in texts if self._is_writable(json.loads(text)))
                if len(kept) < len(texts):
                    lost = next(text for text in texts if text not in kept)
                    self._weaken(path, "enum", lost if len(lost) <= 60 else f"{lost[:57]}...")
                return Choice(kept) if kept else Text()
            case Text():
                if node == Text() or self._can_write_some(node):
                    return node
                self._weaken(path, "pattern", "any text that fits it")
                return Text()
            case Items(first=first, rest=rest):
                heads = tuple(self._node(one, f"{path}.prefixItems[{index}]") for index, one in enumerate(first))
                return evolve(node, first=heads, rest=None if rest is None else self._node(rest, f"{path}.items"))
            case Members():
                return self._members(node, path)
            case Either(options=options):
                return Either(tuple(self._node(one, path) for one in options))
            case _:
                return node

    def _members(self, node: Members, path: str) -> Members:
        kept = []
        for member in node.members:
            if self._can_write(member.name):
                kept.append(evolve(member, node=self._node(member.node, f"{path}.properties.{member.name}")))
            else:
                self._weaken(path, "properties", f"the name {member.name!r}")
        rest = None if node.rest is None else self._node(node.rest, f"{path}.additionalProperties")
        return evolve(node, members=tuple(kept), rest=rest)

    def _is_writable(self, value: Any) -> bool:
        match value:
            case str():
                return self._can_write(value)
            case list():
                return all(map(self._is_writable, value))
            case dict():
                return all(self._can_write(key) and self._is_writable(one) for key, one in value.items())
            case _:
                return True


SPACE = "[ \\n]{0,2}"
ID = "[A-Za-z0-9_]{1,40}"
READ_OVER = "(?:[ \\n]?[A-Za-z0-9_.-]{1,40}){0,4}[ \\n]?"
"""Text allowed where the parser skips an id: ids and types. It excludes text that could be a misplaced argument."""
OTHER_KEY = '[^\\x00-\\x20\\x7F-\\xA0&"](?:[^\\x00-\\x1F\\x7F-\\x9F&"]*[^\\x00-\\x20\\x7F-\\xA0&"])?'
"""The name of a parameter that the schema does not name: no control characters, no blanks at its ends."""
NAMED_AGAIN = "(?:<[a-z_:]{1,40}>[ \\n]?){0,2}<[a-z_:]{1,40}"
"""Muse's tags; the last one repeats the tool's name."""
COUNT = "[0-9]{1,4}"
"""A numeric id after the name: Kimi K2 counts its calls, ``functions.NAME:0``."""
ATTRIBUTES = '(?: index="[0-9]{1,4}")?'
"""Text after the quotation mark that closes a name: Kimi K3 writes ``call tool="NAME" index="1"``."""

RAW_EDGES = regex("(?:[^\\n](?s:.*)[^\\n]|[^\\n]?)")
"""One line break on either side of a value belongs to the template, so the value itself must not have any there."""


class CallWriter:
    """Writes the rules for calls of these tools."""

    def __init__(
        self, rules: Rules, spec: FormatSpec, tools: tuple[Tool, ...], *, named: bool = False, others: bool = False
    ) -> None:
        """Prepare the shared rules.

        Args:
            rules: receives the rules.
            spec: the format.
            tools: the offered tools.
            named: whether the call began with the marker before the name, so that the name is next.
            others: whether the model may finish the name of an unknown tool, which is then reported to it.
        """
        assert spec.calls is not None  # whoever writes calls has looked
        self._named = named
        self._stops = spec.stops
        self.rules = rules
        self.calls: CallFormat = spec.calls
        self._names = tuple(tool.spec.name for tool in tools)
        if (fitter := self._fitter()) is not None:
            tools = tuple(evolve(tool, schema=fitter.fit(tool.schema)) for tool in tools)
        self._tools = (*tools, NOT_OFFERED) if others else tools
        self._loosened: dict[tuple[str, Weakened], None] = {}
        self._types = types_of((tool.spec for tool in tools), nested=self.calls.shape == "nested_tags")
        self.space = rules.terminal(regex(SPACE))
        self._in_call = (self.calls.end, self.calls.section_end, self.calls.start, *self.calls.more_starts)

    def _fitter(self) -> _SchemaFitter | None:
        """Return what fits schemas to the arguments' notation; None if it can express every value."""
        if self.calls.shape == "named_object":
            end = without((self.calls.quotes[0],))
            return _SchemaFitter(
                lambda text: self.calls.quotes[0] not in text, lambda text: alive(f"({raw_text(text)}){end}")
            )
        if self.calls.shape == "pythonic":
            return _SchemaFitter(lambda _: True, lambda text: alive(raw_text(text, escapes=PYTHON_ESCAPES)))
        return None

    def weakened(self, tool: Tool) -> tuple[Weakened, ...]:
        """Return the parts of a tool's schema that this format can't enforce; complete once the rules are written."""
        known = next(one for one in self._tools if one.spec.name == tool.spec.name and one.offered)
        own = (one for name, one in self._loosened if name == tool.spec.name)
        return (*known.weakened, *own)

    def section(self, *, parallel: bool) -> str:
        """Return the rule for the text after a section's marker: one call or several, and the section's end."""
        calls, space = self.calls, self.space
        end = self._around(calls.section_end, after=False)
        if calls.start:
            one = self.rules.rule(f"{self.starts()} {self.call()}")
            several = f"({self.separator()} {one})*" if parallel else ""
            return self.rules.rule(f"{space} {one} {several} {end}")
        one = self._bodies()
        comma = self.rules.terminal(regex(",[ \\n]{0,5}"))
        items = f"{one} ({comma} {one})*" if parallel else one
        listed = f'{space} {items} {space} "]"'
        if calls.section_start.endswith("["):  # the list has begun
            return self.rules.rule(f"{listed} {end}")
        options, sign = [f'"[" {listed}', f"{one} ({space} {one})*" if parallel else one], calls.separator.strip()
        if sign == "," or (calls.separator and not sign):  # only a list, or none
            options = options[:1] if sign else options[1:]
        return self.rules.rule(f"{space} ({' | '.join(options)}) {end}")

    def starts(self, opening: Callable[[str], str] | None = None) -> str:
        """Return the rule for the markers that a call may begin with."""
        write = opening or self.rules.marker
        starts = (self.calls.start, *self.calls.more_starts)
        written = [write(start) for start in starts if not start or start != self.calls.name_start]
        return self.rules.rule(" | ".join(start or '""' for start in dict.fromkeys(written)))

    def call(self, *, parallel: bool = True) -> str:
        """Return the rule for the text after a call's marker, including its end marker.

        ``parallel``: whether a list of calls may have several.
        """
        calls, end = self.calls, self._around(self.calls.end, after=False)
        if calls.shape == "pythonic":
            one, lined = self._bodies(), calls.separator == "\n"
            between = "\\n" if lined else ", ?"
            more = f"({self.rules.terminal(regex(between))} {one})*" if parallel else ""
            listed = f"{one} {more}" if lined else f'"[" {one} {more} "]"'
            return self.rules.rule(f"{self.space} {listed} {end}")
        # Outside of an object, a line break before the name would be part of it.
        spaced = calls.shape in ("json_object", "name_as_key", "named_object") or (
            calls.name_start.strip() and self._is_sign(calls.name_start)
        )
        return self.rules.rule(f"{self.space if spaced and not self._named else ''} {self._bodies()} {end}")

    # ---------------------------------------------------------------------------------------------------- each shape

    def _bodies(self) -> str:
        shapes: Mapping[str, Callable[[Tool], str]] = {
            "json_object": self._json_object,
            "name_as_key": self._name_as_key,
            "named_json": self._named_json,
            "tagged_parameters": self._tagged_arguments,
            "nested_tags": self._tagged_arguments,
            "pythonic": self._pythonic,
            "named_object": self._named_object,
        }
        write = shapes[self.calls.shape]
        return self.rules.rule(" | ".join(write(tool) for tool in self._tools))

    def _arguments(self, tool: Tool) -> str:
        writer = ValueWriter(self.rules, tool.schema)
        return self.rules.rule(" | ".join(writer.value(one) for one in tool.options))

    def _json_object(self, tool: Tool) -> str:
        fields, colon = self.calls.fields, self.rules.terminal(regex(": ?"))
        comma = self.rules.terminal(regex(",[ \\n]{0,5}"))
        marked = self.calls.start or self.calls.section_start
        indent = self.rules.terminal(regex("[ \\n]{0,5}"))
        name = f"{quote_text(_string(fields.name))} {colon} {self._key(tool)}"
        arguments = f"{quote_text(_string(fields.arguments))} {colon} {self._arguments(tool)}"
        body = f"{name} {comma} {arguments}"
        if not marked:
            other = self.rules.terminal(regex(f'"(?:type|id)": ?"{ID}"'))
            return self.rules.rule(f'"{{" {indent} ({other} {comma})? {body} {indent} "}}"')
        # One may stand before and one behind, but none of them twice: no call has a key twice.
        kind, own = (self.rules.terminal(regex(f'"{key}": ?"{ID}"')) for key in ("type", "(?:tool_call_)?id"))
        options = (f"({first} {comma})? {body} ({comma} {last})?" for first, last in ((kind, own), (own, kind)))
        return self.rules.rule(f'"{{" {indent} ({" | ".join(options)}) {indent} "}}"')

    def _name_as_key(self, tool: Tool) -> str:
        colon = self.rules.terminal(regex(": ?"))
        return self.rules.rule(f'"{{" {self._key(tool)} {colon} {self._arguments(tool)} "}}"')

    def _named_json(self, tool: Tool) -> str:
        return self.rules.rule(f"{self._head(tool)} {self._arguments(tool)} {self._around(self.calls.body_end)}")

    def _pythonic(self, tool: Tool) -> str:
        writer = ValueWriter(self.rules, tool.schema, PYTHONIC)
        options = " | ".join(writer.members(one, '"="', bare=True) or '""' for one in tool.options)
        return self.rules.rule(f'{self._name(tool)} "(" ({options}) ")"')

    def _named_object(self, tool: Tool) -> str:
        writer = ValueWriter(self.rules, tool.schema, bare(self.calls.quotes[0]))
        options = " | ".join(writer.members(one, bare=True) or '""' for one in tool.options)
        start = self.rules.marker(self.calls.name_start)
        return self.rules.rule(f'{start} {self._name(tool)} "{{" ({options}) "}}"')

    def _head(self, tool: Tool) -> str:
        calls = self.calls
        before = "" if self._named else self.rules.marker(calls.name_start)
        if before and calls.shape == "named_json" and self._is_sign(calls.name_start):  # an id may stand before it
            before = self.rules.until(self._skipped_keys(tool), calls.name_start)
        starts = [start for start in (calls.id_start, *calls.more_id_starts) if start]
        told = self.rules.marker(calls.name_end) or '""'
        if starts:
            blank = self.rules.terminal(regex(" ?"))
            marks = " | ".join(self.rules.marker(start) for start in starts)
            read_over = self._skipped_keys(tool)
            if not self._is_sign(calls.id_start):  # ids without a marker of their own are short, or models babble
                read_over = regex(ATTRIBUTES if calls.id_start.endswith('"') else COUNT)
            behind = self.rules.until(read_over, calls.name_end)
            last = f"{blank} ({marks}) {behind}"
            if self._is_sign(calls.id_start):  # it may be left out
                told = f"{told} | {last}"
                if len(starts) > 1:  # there may be two, in this order: Harmony's channel, and the type
                    first = " | ".join(self.rules.marker(start) for start in calls.more_id_starts)
                    short = self.rules.terminal(regex(ID))
                    told += f" | {blank} ({first}) {short} {blank} {self.rules.marker(calls.id_start)} {behind}"
            else:
                told = last
        return self.rules.rule(f"{before} {self._name(tool)} ({told})")

    def _name(self, tool: Tool) -> str:
        if tool.offered:
            return quote_text(self._escape_name(tool.spec.name))
        return self.rules.terminal(regex(OWN_NAME) + (f" & ~({_texts(self._names)})" if self._names else ""))

    def _escape_name(self, name: str) -> str:
        return name.replace("&", "&amp;").replace('"', "&quot;") if self.calls.escaped else name

    def _key(self, tool: Tool) -> str:
        if tool.offered:
            return quote_text(_string(tool.spec.name))
        known = tuple(map(_string, self._names))
        return self.rules.terminal(regex(f'"{OWN_NAME}"') + (f" & ~({_texts(known)})" if known else ""))

    def _is_sign(self, text: str) -> bool:
        """Return whether a text of the format is a real marker and not only a quotation mark or a word."""
        return self.rules.begins_special(text) or text.strip()[:1] in ("<", "[")

    def _skipped_keys(self, tool: Tool) -> str:
        told = tuple(text for text in (*self._in_call, self.calls.name_end, self.calls.name_start) if text)
        plain = tuple(text for text in told if not self.rules.begins_special(text))
        read_over = READ_OVER
        if self.calls.name_end.startswith('"'):
            name = literal(self._escape_name(tool.spec.name)) if tool.offered else OWN_NAME
            read_over = f'{NAMED_AGAIN} name="{name}'
        return regex(read_over) + without(plain)

    # ------------------------------------------------------------------------------------------------------- tagging

    def _tagged_arguments(self, tool: Tool) -> str:
        markers = self.calls.parameters
        assert markers is not None  # CallFormat's own check
        types, elements = self._types.get(tool.spec.name, {}), None
        if self.calls.shape == "nested_tags":
            elements = ElementWriter(self.rules, tool.schema, types, markers, self._stops)

        def write(name: str, node: Node) -> str:
            if elements is not None:
                return elements.element(name, node, name)
            return self._parameter(tool, quote_text(self._escape_name(name)), name, node, markers)

        options = [self._parameters(tool, one, markers, write) for one in tool.options]
        body_end = self.rules.marker(self.calls.body_end)
        return self.rules.rule(f"{self._head(tool)} {self.space} ({' | '.join(options)}) {body_end}")

    def _parameters(
        self, tool: Tool, node: Members, markers: ParameterMarkers, write: Callable[[str, Node], str]
    ) -> str:
        """Return the rule for all parameters. ``write`` returns that of one, empty if its values can't be written."""
        parts: list[tuple[str, bool]] = []
        for member in node.members:
            name, path = member.name, f"$.properties.{member.name}"
            if not readable(self._escape_name(name), (*self._in_call, *self._stops, self.calls.body_end), markers):
                self._loosened[tool.spec.name, _unwritable(path, "properties", "this name")] = None
                continue
            one = write(name, member.node)
            if not one:
                self._loosened[tool.spec.name, _unwritable(path, "the schema", "such a value")] = None
                one = write(name, Text())
            if one:
                parts.append((f"({one} {self.space})", member.required))
        rest = ""
        if node.rest is not None and self.calls.shape == "tagged_parameters":
            signs = (markers.key_start, markers.value_start, markers.value_end, self.calls.body_end, *self._in_call)
            known = no_text(self._escape_name(member.name) for member in node.members)
            other = f"({regex(OTHER_KEY)}{known}{without((*signs, *self._stops))})"
            rest = self._parameter(tool, other, "", node.rest, markers)
            rest = rest and self.rules.rule(f"{rest} {self.space}")
        return write_members(self.rules, parts, rest)

    def _parameter(self, tool: Tool, key: str, name: str, node: Node, markers: ParameterMarkers) -> str:
        """Return the rule for one parameter; empty if its values can't be written in this format.

        ``key``: the rule of its name; if ``name`` is empty, the body of a terminal for any other.
        """
        types = type_of(self._types.get(tool.spec.name, {}), name)
        as_text = not types or types == {"string"} or "any type" in types
        told = bool(markers.string_mark)
        texts, others = _split(tool.schema, node)
        line = self.rules.terminal(regex("\\n?"))
        close = self.rules.marker(markers.value_end)
        written: list[tuple[str, str]] = []  # the mark of its type, and the value with its end
        for text in texts:
            raw = self._raw(text, frozenset() if told or as_text else types)
            if not raw:
                continue
            lone = f"{raw} & {RAW_EDGES}{without((markers.text_start,))}"
            if text != Text() and not alive(f"{lone}{without((markers.value_end,))}"):
                continue
            # A line break behind the value is the template's only where there is one before it.
            broken = self.rules.until(f"(({lone}) {regex(chr(92) + 'n?')})", markers.value_end)
            plain = self.rules.until(f"({lone})", markers.value_end)
            written.append(("string", self.rules.rule(f"{quote_text(chr(10))} {broken} | {plain}")))
        if told or not as_text:
            writer = ValueWriter(self.rules, tool.schema, Notation(end=markers.value_end))
            written += [(max(types_of_node(one)), f"{line} {writer.value(one)} {line} {close}") for one in others]
        if not written:
            return ""
        parts = (markers.key_start, markers.key_end, markers.value_start)
        start, end, between = map(self.rules.marker, parts)
        named = f"{key} {end}" if name else self.rules.until(key, markers.key_end)
        options = (f"{start} {named} {self._mark(markers, kind)} {between} {value}" for kind, value in written)
        return self.rules.rule(" | ".join(options))

    def _raw(self, node: Text | Choice, types: frozenset[str]) -> str:
        """Return a terminal's body for an unquoted text that can't be read as another value of these types."""
        if isinstance(node, Text):
            return raw_text(node, RAW_LETTERS) + no_other(types)
        texts = tuple(str(json.loads(text)) for text in node.texts)
        kept = tuple(text for text in texts if not types or parse_value(text, types)[0] == text)
        return f"({_texts(kept)})" if kept else ""

    def _mark(self, markers: ParameterMarkers, kind: str) -> str:
        if not markers.string_mark:
            return self.space if markers.value_start else ""
        attribute, _, value = markers.string_mark.partition("=")
        if kind == "string":
            return quote_text(f" {markers.string_mark}")
        return quote_text(f' {attribute}="{"false" if value == chr(34) + "true" + chr(34) else kind}"')

    # --------------------------------------------------------------------------------------------------------- space

    def _around(self, marker: str, *, after: bool = True) -> str:
        """Return a marker with white space around it; with ``after=False`` only before it."""
        if not marker:
            return ""
        return f"{self.space} {self.rules.marker(marker)}" + (f" {self.space}" if after else "")

    def separator(self) -> str:
        sign = self.calls.separator.strip()
        return f"{self.space} {self.rules.marker(sign)} {self.space}" if sign else self.space


def _split(schema: Schema, node: Node) -> tuple[list[Text | Choice], list[Node]]:
    """Return the value's possible texts, which are written unquoted, and its other possible nodes."""
    texts: list[Text | Choice] = []
    others: list[Node] = []
    match schema.resolve(node) if isinstance(node, Reference) else node:
        case Text() as text:
            texts.append(text)
        case Anything():
            texts.append(Text())
        case Choice(texts=values):
            strings = tuple(
                one for one in values if one.startswith('"') and json.loads(one).strip("\n") == json.loads(one)
            )
            texts += [Choice(strings)] if strings else []
            rest = [one for one in values if not one.startswith('"')]
            kinds = {one: max(types_of_value(json.loads(one))) for one in rest}
            for kind in dict.fromkeys(kinds.values()):
                others.append(Choice(tuple(one for one in rest if kinds[one] == kind)))
        case Either(options=options):
            for option in options:
                more, further = _split(schema, option)
                texts += more
                others += further
        case other:
            others.append(other)
    return texts, others


def _texts(texts: tuple[str, ...]) -> str:
    return " | ".join(quote_text(text) for text in texts)


def _string(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
