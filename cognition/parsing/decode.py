"""From the whole text of a call to the call itself. Each text is decoded once, when its end is known."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

from cognition.messages import MalformedToolCall, ProposedCall
from cognition.parsing.literals import CLOSERS, Notation, Reader
from cognition.parsing.literals import Unreadable as _Unreadable
from cognition.parsing.nested import read_elements
from cognition.parsing.repair import DECODER, EXTRA_BRACE
from cognition.parsing.spec import CallFormat, JsonFields, ParameterMarkers
from cognition.parsing.typed import NO_TYPES, ParameterTypes, read_literal, typed
from cognition.parsing.values import Members, Value, json_values, members_of, skip, strictly

NO_ARGUMENTS = "no arguments"
ARGUMENTS_IN_A_STRING = "arguments in a string"
ARGUMENT_KEYS = ("arguments", "parameters")
"""Names of the arguments' field that models mix up; the other one is taken, and noted."""

ARGUMENTS_IN_A_PARAMETER = "arguments in a parameter"
WRAPPERS = (*ARGUMENT_KEYS, "input", "properties")
"""Names of a parameter that a tool does not have, in which models write all of its arguments."""
NOT_CLOSED = "the parameter that begins with {!r} is not closed"
MISSING_END = "missing end of the call"
MISSING_NAME_END = "missing marker after the name"
NAME = re.compile(r"[\w.-]+")
"""A name that nothing marks the end of."""
MISSING_PARAMETER_END = "missing end of a parameter"

CALL_SIGNS = re.compile(r"""'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"|['"()\[\]{}]""", re.DOTALL)
"""What matters in a pythonic call that can't be read: texts, brackets, and a quotation mark that none closes."""

ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
SURROGATE = re.compile("[\ud800-\udfff]")

NO_TYPE: frozenset[str] = frozenset()

Decoded = ProposedCall | MalformedToolCall


def decode(
    calls: CallFormat, raw: str, *, terminated: bool = True, passed: bool = False, types: ParameterTypes = NO_TYPES
) -> list[Decoded]:
    """All calls that the text between two call markers holds: one as a rule, several when the model wrote a list.

    ``terminated``: the end marker was there, or the JSON was closed. A call that was cut is never completed.
    ``passed``: it was not, but the reply went on with another marker, so the call was not cut.
    """
    stripped = raw.strip()
    if not stripped:
        return [MalformedToolCall(stripped, "the call is empty")]
    try:
        if calls.shape == "pythonic":
            return _pythonic(calls, stripped, terminated)
        if calls.shape == "named_object":
            return _named_objects(calls, stripped)
        if calls.shape == "tagged_parameters":
            return [_tagged(calls, raw, terminated, passed, types)]
        if calls.shape == "nested_tags":
            return [_nested(calls, raw, terminated, types)]
        if calls.shape == "named_json":
            return [_named(calls, raw, terminated)]
        usual = _usual(calls, stripped) if calls.shape == "json_object" else None
        if usual is not None:
            return [usual]
        values, repairs = json_values(stripped, terminated)
    except _Unreadable as error:
        return [MalformedToolCall(stripped, str(error))]
    return [_from_value(calls, value, repairs, stripped) for value in values]


def well_formed(calls: CallFormat, raw: str) -> bool:
    """Whether a call's JSON is right as it stands, so that strings are where they seem to be."""
    text = (raw.partition(calls.name_end)[2] if calls.shape == "named_json" else raw).strip()
    try:
        return calls.shape in ("json_object", "name_as_key", "named_json") and bool(strictly(text))
    except (ValueError, RecursionError):
        return False


# ----------------------------------------------------------------------------------------------- making the call


def _usual(calls: CallFormat, text: str) -> ProposedCall | None:
    """A call as most are written: its name, then its arguments, and nothing else. None for any other.

    It is what ``_from_value`` makes of it too; here it is decoded once, and without a search for its members.
    """
    head = _usual_head(calls.fields.name, calls.fields.arguments).match(text)
    if head is None:
        return None
    try:
        _, end = DECODER.raw_decode(text, head.end())
    except (ValueError, RecursionError):
        return None
    name, arguments = head[1].strip(), text[head.end() : end]
    if not name or text[skip(text, end) :] != "}" or SURROGATE.search(arguments):
        return None
    return ProposedCall(name, arguments)


@lru_cache(maxsize=64)
def _usual_head(name: str, arguments: str) -> re.Pattern[str]:
    """What stands before the second brace of JSON such as ``{"name": "f", "arguments": {}}``, with ``f`` as a group."""
    name, arguments = (re.escape(json.dumps(key, ensure_ascii=False)) for key in (name, arguments))
    parts = ("{", name, ":", r'"([^"\\\x00-\x1f]++)"', ",", arguments, ":", "(?={)")
    return re.compile(r"[ \t\n\r]*+".join(parts))


def _from_value(calls: CallFormat, value: Value, repairs: tuple[str, ...], raw: str) -> Decoded:
    try:
        if not isinstance(value.value, dict):
            raise _Unreadable("a call has to be a JSON object")
        members = members_of(value)
        if calls.shape == "name_as_key":
            return _name_as_key(members, repairs)
        return _from_members(calls.fields, members, repairs)
    except _Unreadable as error:
        return MalformedToolCall(raw if value.text is None else value.text, str(error))


def _from_members(fields: JsonFields, members: Members, repairs: tuple[str, ...]) -> ProposedCall:
    name = members.get(fields.name)
    if name is None or not isinstance(name.value, str) or not name.value.strip():
        raise _Unreadable(f'the call has no name: "{fields.name}" has to be the name of a tool')
    arguments = members.get(fields.arguments)
    if arguments is None:
        for key in ARGUMENT_KEYS:
            if key in members:
                arguments = members[key]
                repairs = (*repairs, f'"{key}" for "{fields.arguments}"')
    return _call(name.value, arguments, repairs)


def _name_as_key(members: Members, repairs: tuple[str, ...]) -> ProposedCall:
    if len(members) != 1:
        raise _Unreadable("the call has to be an object with one key, the name of a tool")
    ((name, arguments),) = members.items()
    return _call(name, arguments, repairs)


def _call(name: str, arguments: Value | None, repairs: tuple[str, ...]) -> ProposedCall:
    """The call, once its arguments are sure to be an object. They are kept to the byte unless they were mended."""
    if not name.strip():
        raise _Unreadable("the call has no name")
    if arguments is None or arguments.value is None or arguments.value == "":
        return ProposedCall(name.strip(), "{}", (*repairs, NO_ARGUMENTS))
    if isinstance(arguments.value, str):
        arguments, inner = _in_string(arguments.value)
        repairs = (*repairs, ARGUMENTS_IN_A_STRING, *inner)
    if not isinstance(arguments.value, dict):
        raise _Unreadable(f"the arguments have to be a JSON object, not {_kind(arguments.value)}")
    text = arguments.text
    if text is None or SURROGATE.search(text):
        text = _written(arguments.value)
    return ProposedCall(name.strip(), text, repairs)


def _in_string(text: str) -> tuple[Value, tuple[str, ...]]:
    try:
        values, repairs = json_values(text.strip(), complete=True)
    except _Unreadable as error:
        raise _Unreadable(f"the arguments are a string that holds no JSON object: {error}") from None
    if len(values) != 1:
        raise _Unreadable("the arguments are a string that holds several values")
    return values[0], repairs


def _written(value: Any) -> str:
    try:
        text = ENCODER.encode(value)
    except (ValueError, RecursionError) as error:  # a number such as 1e999 was read as infinite
        raise _Unreadable(f"the arguments can't be written as JSON: {error}") from None
    # Half a surrogate pair has no UTF-8; escaped, it survives every journal and wire.
    return text if text.isascii() or not SURROGATE.search(text) else json.dumps(value, allow_nan=False)


def _kind(value: Any) -> str:
    names = {list: "a list", bool: "a truth value", int: "a number", float: "a number", str: "a string"}
    return names.get(type(value), type(value).__name__)


# -------------------------------------------------------------------------------------- names before arguments


def _named(calls: CallFormat, raw: str, terminated: bool) -> ProposedCall:
    notes: tuple[str, ...] = ()
    head, found, body = raw.partition(calls.name_end)
    if not found:
        head, found, body = raw.partition("{")
        if not found or not NAME.fullmatch(name_in(calls, head)):
            raise _Unreadable(f"{calls.name_end.strip()!r} is missing after the name")
        body, notes = found + body, (MISSING_NAME_END,)
    body = body.strip().removesuffix(calls.body_end.strip()).strip()
    name = name_in(calls, head)
    if not body:
        return _call(name, None, ())
    values, repairs = json_values(body, terminated)
    if len(values) != 1:
        raise _Unreadable("the arguments have to be one JSON object")
    return _call(name, values[0], notes + repairs)


def name_in(calls: CallFormat, head: str) -> str:
    """The name in what stands before the arguments."""
    if calls.name_start.strip():
        before, found, rest = head.partition(calls.name_start.strip())
        head = rest if found else before
    for id_start in (calls.id_start, *calls.more_id_starts):
        head = head.partition(id_start)[0] if id_start else head
    return _unescaped(calls, head.strip())


def _unescaped(calls: CallFormat, name: str) -> str:
    return name.replace("&quot;", '"').replace("&amp;", "&") if calls.escaped and "&" in name else name


def _tagged(calls: CallFormat, raw: str, terminated: bool, passed: bool, types: ParameterTypes) -> ProposedCall:
    markers = calls.parameters
    assert markers is not None  # CallFormat's own check
    name, at = _tagged_name(calls, markers, raw)
    known = types.get(name, {})
    values: dict[str, Any] = {}
    repairs: tuple[str, ...] = ()
    while raw.startswith(markers.key_start, at := skip(raw, at)):
        start = raw[at : at + 40]
        key, at = _until(raw, at + len(markers.key_start), markers.key_end, NOT_CLOSED, start)
        if markers.value_start:
            gap, at = _until(raw, at, markers.value_start, NOT_CLOSED, start)
            if gap.strip() and not markers.string_mark:
                raise _Unreadable(NOT_CLOSED.format(start))
        else:
            gap = ""
        begin, key = at, _unescaped(calls, key.strip())
        value, at = _until(raw, _behind_texts(raw, at, markers), markers.value_end, NOT_CLOSED, start, at)
        mended: tuple[str, ...] = ()
        forgotten = _next_parameter(raw, begin, at, markers, known, (key, *values)) if known else 0
        if forgotten:
            value, at, repairs = raw[begin:forgotten], forgotten, _with(repairs, MISSING_PARAMETER_END)
        value = _without_line_breaks(value)
        if key in values:
            raise _Unreadable(f"the parameter {key!r} is given twice")
        if markers.text_start and value.startswith(markers.text_start):
            if not value.endswith(markers.text_end):
                raise _Unreadable(NOT_CLOSED.format(start))
            values[key] = value[len(markers.text_start) : len(value) - len(markers.text_end)]
        elif not markers.string_mark:
            values[key], mended = typed(value, known.get(key, NO_TYPE))
        else:
            values[key], mended = (value, ()) if markers.string_mark in gap else read_literal(value.strip())
        repairs = _with(repairs, *mended) if mended else repairs
    rest = raw[at:].strip()
    if passed and values and not rest:
        repairs = _with(repairs, MISSING_END)
    else:
        _check_end(calls, rest, terminated)
    inner = _unwrapped(values, known)
    if inner:
        values, repairs = inner, (*repairs, ARGUMENTS_IN_A_PARAMETER)
    return _call(name, Value(values, None), repairs)


def _with(repairs: tuple[str, ...], *more: str) -> tuple[str, ...]:
    return repairs + tuple(note for note in more if note not in repairs)


def _next_parameter(
    raw: str, begin: int, end: int, markers: ParameterMarkers, known: Collection[str], given: Collection[str]
) -> int:
    """Where a value ends whose end marker was forgotten: at a line that begins another parameter, 0 if there is none.

    Only one that the tool has and that is given nowhere else counts: other values may well hold such text.
    """
    sign = f"\n{markers.key_start}"
    place = raw.find(sign, begin, end)
    if place < 0:
        return 0
    name = raw[place + len(sign) : end].partition(markers.key_end)[0]
    again = raw.find(f"{markers.key_start}{name}{markers.key_end}", end)
    return place if name in known and name not in given and again < 0 else 0


def _unwrapped(values: dict[str, Any], known: Mapping[str, frozenset[str]]) -> dict[str, Any]:
    """The arguments, where they stand in one parameter that the tool does not have; else none."""
    if len(values) != 1:
        return {}
    ((key, value),) = values.items()
    if key not in WRAPPERS or key in known:
        return {}
    inner = read_literal(value.strip())[0] if isinstance(value, str) else value
    return inner if isinstance(inner, dict) and set(inner) <= set(known) else {}


def _tagged_name(calls: CallFormat, markers: ParameterMarkers, raw: str) -> tuple[str, int]:
    """The name before tagged parameters, and the place behind it."""
    at = 0
    if calls.name_start:
        before, at = _until(raw, 0, calls.name_start, "{!r} is missing before the name", calls.name_start)
        if before.strip():
            raise _Unreadable(f"the call has to begin with {calls.name_start!r}")
    if calls.name_end:
        name, at = _until(raw, at, calls.name_end, "{!r} is missing after the name", calls.name_end)
    else:
        end = raw.find(markers.key_start, at)
        name, at = (raw[at:], len(raw)) if end < 0 else (raw[at:end], end)
    name = name_in(calls, name)
    closing = calls.body_end.removesuffix(calls.name_end)  # as in ``<function=f</function>``
    if "\n" in name or (closing and closing in name):
        raise _Unreadable(f"a name was expected, not {name[:40]!r}")
    return name, at


def _check_end(calls: CallFormat, rest: str, terminated: bool) -> None:
    """See that nothing stands behind the parameters, and that the call was not cut."""
    closing = calls.body_end.strip()
    if rest not in ("", closing):
        raise _Unreadable(f"a parameter was expected, not {rest[:40]!r}")
    if not terminated and rest != (closing or None):
        raise _Unreadable("its end is missing")


def _nested(calls: CallFormat, raw: str, terminated: bool, types: ParameterTypes) -> ProposedCall:
    markers = calls.parameters
    assert markers is not None  # CallFormat's own check
    name, at = _tagged_name(calls, markers, raw)
    values, at = read_elements(raw, at, markers, types.get(name, {}))
    _check_end(calls, raw[at:].strip(), terminated)
    return _call(name, Value(values, None), ())


def _until(text: str, start: int, marker: str, problem: str, subject: str, begin: int = -1) -> tuple[str, int]:
    """The text before a marker that is looked for from ``start`` on, and the place after it.

    ``problem``, of that ``subject``, is told if there is none. ``begin``: where the text begins, if not at ``start``.
    """
    end = text.find(marker, start)
    if end < 0:
        raise _Unreadable(problem.format(subject))
    return text[start if begin < 0 else begin : end], end + len(marker)


def _behind_texts(raw: str, at: int, markers: ParameterMarkers) -> int:
    """The place behind the marked texts that a value consists of: what they hold ends no value (``<![CDATA[``)."""
    while markers.text_start:
        begin = raw.find(markers.text_start, at)
        end = raw.find(markers.text_end, begin + len(markers.text_start))
        if begin < 0 or end < 0 or markers.value_end in raw[at:begin]:
            break
        at = end + len(markers.text_end)
    return at


def _without_line_breaks(value: str) -> str:
    """The value without the line break that some templates write on either side, or on none.

    One at its end alone is the value's own: Seed-OSS writes values without line breaks around them.
    """
    return value[1:].removesuffix("\n") if value.startswith("\n") else value


# ------------------------------------------------------------------------------------------ values that are not JSON


def _pythonic(calls: CallFormat, text: str, terminated: bool) -> list[Decoded]:
    """``[f(x=1), g()]``, or one call without the brackets. Calls around a broken one count.

    Where a format parts calls by a line break, there are several without the brackets.
    """
    reader = Reader(text, Notation(calls.quotes, escapes=True))
    decoded: list[Decoded] = []
    listed = reader.take("[")
    start = reader.at
    try:
        while True:
            reader.skip()
            start = reader.at
            if start == len(text) and decoded and (not terminated or not listed):
                return decoded
            if listed and reader.take("]"):
                break
            try:
                name = reader.word()
                reader.expect("(")
                arguments = reader.members(")", "=")
                decoded.append(_call(name, Value(arguments, None), reader.repairs))
            except _Unreadable as error:
                end = -1 if reader.repairs else _behind_call(text, start)  # a quote too many leaves its end open
                if end < 0:
                    raise
                decoded.append(MalformedToolCall(text[start:end], str(error)))
                reader.at = end
            reader.repairs = ()
            behind = reader.at
            reader.skip()
            start = reader.at
            if not listed and calls.separator == "\n" and "\n" in text[behind:start]:
                continue
            if not reader.take(",") and not text.startswith("]", reader.at) and reader.at < len(text):
                raise _Unreadable(f"',' or ']' was expected after a call, not {text[reader.at : reader.at + 20]!r}")
            if not listed and start == len(text):
                break
        reader.skip()
        if reader.at < len(text):
            start = reader.at
            raise _Unreadable("text stands behind the calls")
        if not decoded:
            raise _Unreadable("the list of calls is empty")
    except _Unreadable as error:
        return [*decoded, MalformedToolCall(text[start:] if decoded else text, str(error))]
    return decoded


def _behind_call(text: str, start: int) -> int:
    """The place behind a pythonic call that can't be read; -1 where its brackets or quotes leave it open."""
    awaited: list[str] = []
    for found in CALL_SIGNS.finditer(text, start):
        sign = found.group()
        if sign in CLOSERS:
            awaited.append(CLOSERS[sign])
        elif len(sign) == 1:  # no text, so one of these brackets, or a quotation mark that none closes
            if not awaited or awaited.pop() != sign:
                break
            if not awaited:
                return found.end()
    return -1


def _named_objects(calls: CallFormat, text: str) -> list[Decoded]:
    """``call:f{x:1}``; some models write several calls between one pair of markers. Those before a broken one count."""
    decoded: list[Decoded] = []
    start = 0
    while start < len(text):
        try:
            head, found, _ = text[start:].partition("{")
            if not found:
                raise _Unreadable("'{' is missing after the name")
            reader = Reader(text, Notation(calls.quotes, escapes=False), start + len(head) + 1)
            arguments = reader.members("}", ":")
            rest = text[reader.at :].strip()
            extra = bool(rest) and not rest.strip("} ")  # a brace too many leaves no doubt
            if rest and not extra and not (calls.name_start and rest.startswith(calls.name_start)):
                raise _Unreadable(f"text stands behind the arguments: {rest[:40]!r}")
            decoded.append(_call(name_in(calls, head), Value(arguments, None), (EXTRA_BRACE,) if extra else ()))
        except _Unreadable as error:
            return [*decoded, MalformedToolCall(text[start:].strip(), str(error))]
        start = len(text) if extra else reader.at + len(text[reader.at :]) - len(text[reader.at :].lstrip())
    return decoded
