"""Build a call from its name and arguments, for every format: the last step of each reader."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from cognition.parsing.literals import Doubt, UnreadableCallError
from cognition.parsing.spec import CallFormat
from cognition.parsing.values import Value, json_values
from cognition.values.messages import MalformedToolCall, ProposedCall

NO_ARGUMENTS = "no arguments"
ARGUMENTS_IN_A_STRING = "arguments in a string"

KINDS: dict[type, str] = {list: "a list", bool: "a truth value", int: "a number", float: "a number", str: "a string"}
ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
SURROGATE = re.compile("[\ud800-\udfff]")

READ_OVER = frozenset({"id", "type", "tool_call_id", "call_id", "index"})
"""Keys that model families write beside a call's name and arguments. Any other key may be an intended argument."""
ATTRIBUTE = rf"\b(?:{'|'.join(sorted(READ_OVER | {'name', 'to'}))})="
WORD = r"\b[\w.-]++(?::[\w.-]++)*+"
ID = re.compile(
    rf"""(?:\s++|{WORD}(?!\s*+[=:])|{ATTRIBUTE}(?:{WORD}|"[\w.:-]*+"?)|<[\w:]++(?=[\s>])|>(?=\s*+(?:<|$)))*+"""
)
"""Text allowed at the place of an id: words, attributes and opening tags. Any other text may be arguments."""
NAME_END = re.compile(r"\s+|(?=<\|)")
"""White space, or a token: what ends a name that is ``CallFormat.spaced``."""
SECOND_NAME = re.compile(r'\b(?:name="|to=)([\w.:-]*)')

Decoded = ProposedCall | MalformedToolCall


class Decoding(NamedTuple):
    """The calls decoded from a text."""

    calls: list[Decoded]
    doubt: Doubt | None = None
    """None if all string boundaries are certain, so that a marker inside a string is quoted text."""

    @property
    def readable(self) -> bool:
        return not [item for item in self.calls if isinstance(item, MalformedToolCall)]

    @property
    def flawless(self) -> bool:
        return not [item for item in self.calls if isinstance(item, MalformedToolCall) or item.repairs]


def call_of(name: str, arguments: Value | None, repairs: tuple[str, ...]) -> ProposedCall:
    """Return the call. The text of the arguments stays unchanged to the byte unless it was repaired.

    Raises:
        UnreadableCallError: the name is empty, or the arguments are not an object.
    """
    if not name.strip():
        raise UnreadableCallError("the call has no name")
    if arguments is None or arguments.value is None or arguments.value == "":
        return ProposedCall(name.strip(), "{}", (*repairs, NO_ARGUMENTS))
    if isinstance(arguments.value, str):
        arguments, inner = _in_string(arguments.value)
        repairs = (*repairs, ARGUMENTS_IN_A_STRING, *inner)
    if not isinstance(arguments.value, dict):
        kind = type(arguments.value)
        raise UnreadableCallError(f"the arguments have to be a JSON object, not {KINDS.get(kind, kind.__name__)}")
    text = arguments.text
    if text is None or SURROGATE.search(text):
        text = _format_value(arguments.value)
    return ProposedCall(name.strip(), text, repairs)


def _in_string(text: str) -> tuple[Value, tuple[str, ...]]:
    try:
        values, repairs, _ = json_values(text.strip(), complete=True)
    except UnreadableCallError as error:
        raise UnreadableCallError(f"the arguments are a string that holds no JSON object: {error}") from None
    if len(values) != 1:
        raise UnreadableCallError("the arguments are a string that holds several values")
    return values[0], repairs


def _format_value(value: Any) -> str:
    try:
        text = ENCODER.encode(value)
    except (ValueError, RecursionError) as error:  # a number such as 1e999 was read as infinite
        raise UnreadableCallError(f"the arguments can't be written as JSON: {error}") from None
    # Half a surrogate pair has no UTF-8; escaped, it survives every journal and wire.
    return text if text.isascii() or not SURROGATE.search(text) else json.dumps(value, allow_nan=False)


def find_name(calls: CallFormat, head: str) -> str:
    """Return the name in the text before the arguments."""
    return _parts(calls, head)[0]


def check_name(calls: CallFormat, head: str) -> str:
    """Like ``find_name``, but refuse a head whose skipped parts, such as an id, contain arguments or another name.

    Raises:
        UnreadableCallError: they may contain some, and the call would not be the intended call without them.
    """
    name, *others = _parts(calls, head)
    for other in others:
        if not ID.fullmatch(other):
            raise UnreadableCallError(
                f"no arguments can stand in {other.strip()[:40]!r}: they have a place of their own"
            )
        for second in SECOND_NAME.finditer(other):
            if second[1].removeprefix(calls.name_start.strip()) != name:
                raise UnreadableCallError(f"the call names two tools, {name!r} and {second[1]!r}")
    return name


def _parts(calls: CallFormat, head: str) -> list[str]:
    """Return the name, then the skipped texts before and after it."""
    others: list[str] = []
    if calls.name_start.strip():
        first, found, last = head.partition(calls.name_start.strip())
        others, head = ([first], last) if found else ([], first)
    for id_start in (calls.id_start, *calls.more_id_starts):
        if id_start:
            head, _, more = head.partition(id_start)
            others.append(more)
    if calls.spaced and (end := NAME_END.search(head := head.strip())):
        others.append(head[end.end() :])
        head = head[: end.start()]
    return [unescape_name(calls, head.strip()), *others]


def unescape_name(calls: CallFormat, name: str) -> str:
    """Return a name of a tool or a parameter without the format's escapes."""
    return name.replace("&quot;", '"').replace("&amp;", "&") if calls.escaped and "&" in name else name
