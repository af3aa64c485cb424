"""Grammar rules for calls in a format: from the tools and a ``FormatSpec``, the text allowed after a start marker.

White space around markers belongs to the template, so up to two blanks or line breaks are allowed there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from attrs import evolve, frozen

from cognition.parsing import CallFormat, FormatSpec, ParameterMarkers, types_of
from cognition.parsing.typed_values import parse_value
from runtime.constrained._grammar_rules import Rules, quote_text, regex, without
from runtime.constrained._pattern_check import alive
from runtime.constrained._patterns import literal
from runtime.constrained._pruning import prune
from runtime.constrained._values import PYTHON_LETTER, PYTHONIC, WORD, Notation, ValueWriter, bare, raw_text
from runtime.constrained._xml_arguments import RAW_LETTERS, ElementWriter, no_other, readable
from runtime.constrained.nodes import (
    NOTHING,
    Anything,
    Choice,
    Either,
    Items,
    Member,
    Members,
    Node,
    Reference,
    Schema,
    Text,
    Weakened,
)
from runtime.constrained.schema import any_object
from runtime.constrained.tools import NOT_OFFERED, OWN_NAME, Tool


@frozen
class NotationLimits:
    """The limits of a notation."""

    text: Callable[[str], bool]
    """Whether it can write this string, as a value or a key."""
    some_text: Callable[[Text], bool]
    """Whether it can write any string that matches this node."""


class _SchemaFitter:
    def __init__(self, means: NotationLimits) -> None:
        self._notation_limits = means
        self.weakened: list[Weakened] = []

    def _weaken(self, path: str, keyword: str, what: str) -> None:
        self.weakened.append(Weakened(path, keyword, f"this model's format has no way to write {what}"))

    def node(self, node: Node, path: str) -> Node:
        match node:
            case Choice(texts=texts):
                kept = tuple(text for text in texts if self._writable(json.loads(text)))
                if len(kept) < len(texts):
                    lost = next(text for text in texts if text not in kept)
                    self._weaken(path, "enum", lost if len(lost) <= 60 else f"{lost[:57]}...")
                return Choice(kept) if kept else Text()
            case Text():
                if node == Text() or self._notation_limits.some_text(node):
                    return node
                self._weaken(path, "pattern", "any text that fits it")
                return Text()
            case Items(first=first, rest=rest):
                heads = tuple(self.node(one, f"{path}.prefixItems[{index}]") for index, one in enumerate(first))
                return evolve(node, first=heads, rest=None if rest is None else self.node(rest, f"{path}.items"))
            case Members():
                return self._members(node, path)
            case Either(options=options):
                return Either(tuple(self.node(one, path) for one in options))
            case _:
                return node

    def _members(self, node: Members, path: str) -> Members:
        kept = []
        for member in node.members:
            if self._notation_limits.text(member.name):
                kept.append(evolve(member, node=self.node(member.node, f"{path}.properties.{member.name}")))
            else:
                self._weaken(path, "properties", f"the name {member.name!r}")
        rest = None if node.rest is None else self.node(node.rest, f"{path}.additionalProperties")
        return evolve(node, members=tuple(kept), rest=rest)

    def _writable(self, value: Any) -> bool:
        match value:
            case str():
                return self._notation_limits.text(value)
            case list():
                return all(map(self._writable, value))
            case dict():
                return all(self._notation_limits.text(key) and self._writable(one) for key, one in value.items())
            case _:
                return True


SPACE = "[ \\n]{0,2}"
ID = "[A-Za-z0-9_]{1,40}"
READ_OVER = "(?:[ \\n]?[A-Za-z0-9_.-]{1,40}){0,4}[ \\n]?"
"""Text allowed where the parser skips an id: ids and types. It excludes text that could be a misplaced argument."""
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
        means = self._limits()
        if means is not None:
            tools = tuple(evolve(tool, schema=fit_schema(tool.schema, means)) for tool in tools)
        self._tools = (*tools, NOT_OFFERED) if others else tools
        self._loosened: dict[tuple[str, str, str], Weakened] = {}
        self._types = types_of((tool.spec for tool in tools), nested=self.calls.shape == "nested_tags")
        self.space = rules.terminal(regex(SPACE))
        self._in_call = (self.calls.end, self.calls.section_end, self.calls.start, *self.calls.more_starts)

    def _limits(self) -> NotationLimits | None:
        """Return the limits of the arguments' notation; None if it can express every value."""
        calls = self.calls
        if calls.shape == "named_object":
            quote = calls.quotes[0]
            return NotationLimits(
                lambda text: quote not in text, lambda text: alive(f"({raw_text(text)}){without((quote,))}")
            )
        if calls.shape == "pythonic":
            return NotationLimits(
                lambda text: text.isprintable(), lambda text: alive(raw_text(text, f"{PYTHON_LETTER}*"))
            )
        return None

    def weakened(self, tool: Tool) -> tuple[Weakened, ...]:
        """Return the parts of a tool's schema that this format can't enforce; complete once the rules are written."""
        known = next(one for one in self._tools if one.spec.name == tool.spec.name and one.offered)
        own = (one for (name, _, _), one in self._loosened.items() if name == tool.spec.name)
        return (*known.weakened, *own)

    def _loosen(self, tool: Tool, path: str, keyword: str, what: str) -> None:
        note = Weakened(path, keyword, f"this model's format has no way to write {what}")
        self._loosened.setdefault((tool.spec.name, path, keyword), note)

    def section(self, *, parallel: bool) -> str:
        """Return the rule for the text after a section's marker: one call or several, and the section's end."""
        calls = self.calls
        end = self._around(calls.section_end, after=False) if calls.section_end else ""
        if calls.start:
            one = self.rules.rule(f"{self.starts()} {self.call()}")
            between = self._separator()
            several = f"({between} {one})*" if parallel else ""
            return self.rules.rule(f"{self.space} {one} {several} {end}")
        one = self._bodies()
        comma = self.rules.terminal(regex(",[ \\n]{0,5}"))
        line = self.rules.terminal(regex("[ \\n]{0,2}"))
        listed = f'"[" {self.space} {one} ' + (f"({comma} {one})* " if parallel else "") + f'{self.space} "]"'
        aside = f"{one} " + (f"({line} {one})* " if parallel else "")
        sign = calls.separator.strip()
        if calls.section_start.endswith("["):  # the list has begun
            rest = listed.removeprefix('"["')
            return self.rules.rule(f"{rest} {end}")
        options = [listed] if sign == "," else [aside] if calls.separator and not sign else [listed, aside]
        return self.rules.rule(f"{self.space} ({' | '.join(options)}) {end}")

    def starts(self, opening: Callable[[str], str] | None = None) -> str:
        """Return the rule for the markers that a call may begin with."""
        write = opening or self.rules.marker
        starts = (self.calls.start, *self.calls.more_starts)
        written = [write(start) for start in starts if not start or start != self.calls.name_start]
        return self.rules.rule(" | ".join(start or '""' for start in dict.fromkeys(written)))

    def call(self) -> str:
        """Return the rule for the text after a call's marker, including its end marker."""
        calls = self.calls
        if calls.shape == "pythonic":
            one = self._bodies()
            if calls.separator == "\n":
                line = self.rules.terminal(regex("\\n"))
                return self.rules.rule(f"{self.space} {one} ({line} {one})* {self._around(calls.end, after=False)}")
            comma = self.rules.terminal(regex(", ?"))
            return self.rules.rule(
                f'{self.space} "[" {one} ({comma} {one})* "]" {self._around(calls.end, after=False)}'
            )
        if self._named:
            lead = ""
        elif calls.shape not in ("json_object", "name_as_key", "named_object"):
            # A line break before the name would be part of it.
            lead = self.space if calls.name_start.strip() and self._is_sign(calls.name_start) else ""
        else:
            lead = self.space
        end = self._around(calls.end, after=False) if calls.end else ""
        return self.rules.rule(f"{lead} {self._bodies()} {end}")

    def single(self) -> str:
        """Like ``call``, for a reply with only one call."""
        if self.calls.shape != "pythonic":
            return self.call()
        opener, closer = ("", "") if self.calls.separator == "\n" else ('"["', '"]"')
        return self.rules.rule(
            f"{self.space} {opener} {self._bodies()} {closer} {self._around(self.calls.end, after=False)}"
        )

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
        if (
            not self._named and self._is_sign(calls.name_start) and calls.shape == "named_json"
        ):  # an id may stand before it
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

    def _part(self, member: Member, written: str) -> str:
        """Return a parameter's rule with white space after it; optional unless the parameter is required."""
        return f"({written} {self.space})" + ("" if member.required else "?") if written else ""

    def _writable_key(self, tool: Tool, name: str, markers: ParameterMarkers) -> bool:
        fine = readable(self._escape_name(name), (*self._in_call, *self._stops, self.calls.body_end), markers)
        if not fine:
            self._loosen(tool, f"$.properties.{name}", "properties", "this name")
        return fine

    def _parameters(
        self, tool: Tool, node: Members, markers: ParameterMarkers, write: Callable[[str, Node], str]
    ) -> str:
        """Return the rule for all parameters. ``write`` returns that of one, empty if its values can't be written."""
        parts = ['""']
        for member in node.members:
            name = member.name
            if not self._writable_key(tool, name, markers):
                continue
            one = write(name, member.node)
            if not one and member.required:
                self._loosen(tool, f"$.properties.{name}", "the schema", "such a value")
                one = write(name, Text())
            parts.append(self._part(member, one))
        if node.rest is not None and self.calls.shape == "tagged_parameters":
            known = tuple(member.name for member in node.members)
            other = self.rules.terminal(regex(WORD) + (f" & ~({_texts(known)})" if known else ""))
            one = self._parameter(tool, other, "", node.rest, markers)
            parts.append(f"({one} {self.space})*" if one else "")
        return self.rules.rule(" ".join(parts))

    def _parameter(self, tool: Tool, key: str, name: str, node: Node, markers: ParameterMarkers) -> str:
        """Return the rule for one parameter; empty if its values can't be written in this format."""
        types = self._types.get(tool.spec.name, {}).get(name, frozenset())
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
        writer = ValueWriter(self.rules, tool.schema, Notation(end=markers.value_end))
        for other in others:
            if told or not as_text:
                written.append((_json_type(tool.schema, other), f"{line} {writer.value(other)} {line} {close}"))
        if not written:
            return ""
        start, end = self.rules.marker(markers.key_start), self.rules.marker(markers.key_end)
        options = []
        for kind, value in written:
            mark = self._mark(markers, kind)
            options.append(f"{start} {key} {end} {mark} {self.rules.marker(markers.value_start)} {value}")
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

    def _separator(self) -> str:
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
            for kind in dict.fromkeys(_json_type(schema, Choice((one,))) for one in rest):
                others.append(Choice(tuple(one for one in rest if _json_type(schema, Choice((one,))) == kind)))
        case Either(options=options):
            for option in options:
                more, further = _split(schema, option)
                texts += more
                others += further
        case other:
            others.append(other)
    return texts, others


def _json_type(schema: Schema, node: Node) -> str:
    match schema.resolve(node):
        case Choice(texts=(text, *_)):
            value = json.loads(text)
            names: dict[type, str] = {bool: "boolean", type(None): "null", list: "array", dict: "object"}
            return names.get(type(value), "number")
        case Members():
            return "object"
        case Items():
            return "array"
        case _:
            return "number"


def _texts(texts: tuple[str, ...]) -> str:
    return " | ".join(quote_text(text) for text in texts)


def _string(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def fit_schema(schema: Schema, means: NotationLimits) -> Schema:
    """Return a schema whose values can all be written; ``weakened`` lists the relaxed parts."""
    fitting = _SchemaFitter(means)
    definitions = {name: fitting.node(node, name) for name, node in schema.definitions.items()}
    root = fitting.node(schema.root, "$")
    if not fitting.weakened:
        return schema
    root, definitions = prune(root, definitions)
    weakened = (*schema.weakened, *fitting.weakened)
    return any_object(*weakened) if root == NOTHING else Schema(root, definitions, weakened)
