"""Decode the whole text of a call into the call. Each text is decoded once, when its end is known.

A call never drops text that may be an argument. A call with text that has no place becomes a malformed call, which is
reported to the model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any

from attrs import astuple

from cognition.base.strict_json import DECODER
from cognition.parsing._decode_literals import decode_named_objects, decode_pythonic
from cognition.parsing._parameter_ends import find_missing_end
from cognition.parsing.call_builder import (
    NO_ARGUMENTS,
    READ_OVER,
    SURROGATE,
    Decoded,
    Decoding,
    call_of,
    check_name,
    find_name,
    unescape_name,
)
from cognition.parsing.literals import Doubt, UnreadableCallError
from cognition.parsing.nested_elements import read_elements
from cognition.parsing.spec import CallFormat, JsonFields, ParameterMarkers
from cognition.parsing.typed_values import (
    NO_TYPES,
    OTHER_PARAMETERS,
    ParameterTypes,
    parse_value,
    read_literal,
    type_of,
)
from cognition.parsing.values import Members, Value, json_values, members_of, skip
from cognition.values.messages import MalformedToolCall, ProposedCall

ARGUMENT_KEYS = ("arguments", "parameters")
"""Names of the arguments' field that models confuse. If the other name is found, it is accepted and a repair is noted.
"""

ARGUMENTS_IN_A_PARAMETER = "arguments in a parameter"
WRAPPERS = (*ARGUMENT_KEYS, "input", "properties")
"""Names under which models nest all of a tool's arguments, if the tool has no parameter of that name."""
NOT_CLOSED = "the parameter that begins with {!r} is not closed"
MISSING_END = "missing end of the call"
MISSING_NAME_END = "missing marker after the name"
NAME = re.compile(r"[\w.-]+")
"""A name without an end marker."""
DATA = re.compile(r"[{\[]")
"""Sign of an object or a list written as text. No id, index or type contains it."""
MARKUP = re.compile(r"[>\n]|</")
"""Sign of a name of a parameter that is not closed."""


def decode(
    calls: CallFormat, raw: str, *, terminated: bool = True, passed: bool = False, types: ParameterTypes = NO_TYPES
) -> Decoding:
    """Return all calls in the text between two call markers: usually one, several if the model wrote a list.

    ``terminated``: the end marker was present, or the JSON was closed. A truncated call is never completed. ``passed``:
    the call was not terminated, but the reply continued with another marker, so it was not truncated either.
    """
    stripped = raw.strip()
    if not stripped:
        return Decoding([MalformedToolCall(stripped, "the call is empty")])
    before = raw.index(stripped[0])
    listed = stripped.startswith("[")
    try:
        match calls.shape:
            case "pythonic":
                cut = not (terminated or passed)
                return _shift(decode_pythonic(calls, stripped, terminated=terminated, cut=cut), before)
            case "named_object":
                return _shift(decode_named_objects(calls, stripped), before)
            case "tagged_parameters":
                return _decode_tagged(calls, raw, terminated, passed, types)
            case "nested_tags":
                return Decoding([_decode_nested(calls, raw, terminated, types)])
            case "named_json":
                return _decode_named(calls, raw, terminated, passed)
            case _:
                usual = _decode_usual(calls, stripped) if calls.shape == "json_object" else None
                if usual is not None:
                    return Decoding([usual])
                values, repairs, doubt = json_values(stripped, terminated)
    except UnreadableCallError as error:
        broken = Decoding([MalformedToolCall(stripped, str(error))], error.doubt)
        # Calls with their names outside of their JSON were read with the white space before them.
        return broken if calls.shape in ("tagged_parameters", "named_json") else _shift(broken, before)
    decoded = [_from_value(calls, value, repairs, stripped, types) for value in values]
    return _shift(Decoding(decoded if listed else _with_their_arguments(decoded, values), doubt), before)


def _shift(decoding: Decoding, by: int) -> Decoding:
    return decoding if decoding.doubt is None else Decoding(decoding.calls, decoding.doubt.shift(by))


# ----------------------------------------------------------------------------------------------- making the call


def _decode_usual(calls: CallFormat, text: str) -> ProposedCall | None:
    """Decode a call with only a name and then arguments, the usual case; None for any other.

    It returns the same as ``_from_value`` would, but decodes once and does not search for members.
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
    """Match the text before the second brace of JSON such as ``{"name": "f", "arguments": {}}``, with ``f``
    as a group.
    """
    name, arguments = (re.escape(json.dumps(key, ensure_ascii=False)) for key in (name, arguments))
    parts = ("{", name, ":", r'"([^"\\\x00-\x1f]++)"', ",", arguments, ":", "(?={)")
    return re.compile(r"[ \t\n\r]*+".join(parts))


def _from_value(calls: CallFormat, value: Value, repairs: tuple[str, ...], raw: str, types: ParameterTypes) -> Decoded:
    try:
        if not isinstance(value.value, dict):
            raise UnreadableCallError("a call has to be a JSON object")
        members = members_of(value)
        if calls.shape != "name_as_key":
            return _from_members(calls.fields, members, repairs, types)
        if len(members) != 1:
            raise UnreadableCallError("the call has to be an object with one key, the name of a tool")
        ((name, arguments),) = members.items()
        return call_of(name, arguments, repairs)
    except UnreadableCallError as error:
        return MalformedToolCall(raw if value.text is None else value.text, str(error))


def _with_their_arguments(decoded: list[Decoded], values: list[Value]) -> list[Decoded]:
    """Mark a call without arguments as malformed if an item that is not a call follows: maybe that item holds its
    arguments.
    """
    kept = list(decoded)
    for place, (one, following) in enumerate(pairwise(decoded)):
        nameless = isinstance(following, MalformedToolCall)
        if nameless and isinstance(one, ProposedCall) and NO_ARGUMENTS in one.repairs:
            raw = values[place].text or one.name
            kept[place] = MalformedToolCall(raw, "the call has no arguments, and something that is no call follows it")
    return kept


def _from_members(
    fields: JsonFields, members: Members, repairs: tuple[str, ...], types: ParameterTypes
) -> ProposedCall:
    name = members.get(fields.name)
    if name is None or not isinstance(name.value, str) or not name.value.strip():
        raise UnreadableCallError(f'the call has no name: "{fields.name}" has to be the name of a tool')
    arguments = members.get(fields.arguments)
    known = astuple(fields)
    other = next((key for key in ARGUMENT_KEYS if key in members), None)
    if arguments is None and other is not None:
        arguments, known = members[other], (*known, other)
        repairs = (*repairs, f'"{other}" for "{fields.arguments}"')
    parameters = types.get(name.value.strip(), {}) if arguments is None else {}
    for key, member in members.items():
        if key not in known and not _is_skippable(key, member.value, parameters):
            place = f'what the tool is given has to stand in "{fields.arguments}"'
            raise UnreadableCallError(f'"{key}" has no place beside "{fields.name}": {place}')
    return call_of(name.value, arguments, repairs)


def _is_skippable(key: str, value: Any, parameters: Collection[str]) -> bool:
    """Return whether this member beside the name can be skipped: a common extra key that is not one of
    ``parameters``.
    """
    data = isinstance(value, dict | list) or (isinstance(value, str) and DATA.search(value) is not None)
    if key not in READ_OVER or data:
        return False
    return key not in parameters or (key, value) == ("type", "function")


# -------------------------------------------------------------------------------------- names before arguments


def _decode_named(calls: CallFormat, raw: str, terminated: bool, passed: bool) -> Decoding:
    notes: tuple[str, ...] = ()
    head, found, body = raw.partition(calls.name_end)
    if not found:
        head, found, body = raw.partition("{")
        if not found or not NAME.fullmatch(find_name(calls, head)):
            raise UnreadableCallError(f"{calls.name_end.strip()!r} is missing after the name")
        body, notes = found + body, (MISSING_NAME_END,)
    name, body = check_name(calls, head), body.lstrip()
    before = len(raw) - len(body)
    body = body.rstrip().removesuffix(calls.body_end.strip()).rstrip()
    if not body:
        if not (terminated or passed):  # no family writes a call so, and what was to come is not known
            raise UnreadableCallError("its arguments are missing")
        return Decoding([call_of(name, None, ())])
    try:
        values, repairs, doubt = json_values(body, terminated)
    except UnreadableCallError as error:
        raise UnreadableCallError(str(error), error.doubt and error.doubt.shift(before)) from None
    if len(values) != 1:
        raise UnreadableCallError("the arguments have to be one JSON object")
    return _shift(Decoding([call_of(name, values[0], notes + repairs)], doubt), before)


def _decode_tagged(calls: CallFormat, raw: str, terminated: bool, passed: bool, types: ParameterTypes) -> Decoding:
    markers = calls.parameters
    assert markers is not None  # CallFormat's own check
    name, at = _tagged_name(calls, markers, raw)
    known = types.get(name, {})
    values: dict[str, Any] = {}
    repairs: tuple[str, ...] = ()
    doubt: Doubt | None = None
    while raw.startswith(markers.key_start, at := skip(raw, at)):
        start = raw[at : at + 40]
        here = at
        left, gap = Doubt(here, open=True), ""
        key, at = _split_at_marker(raw, at + len(markers.key_start), markers.key_end, NOT_CLOSED, start, left)
        if markers.value_start:
            gap, at = _split_at_marker(raw, at, markers.value_start, NOT_CLOSED, start, left)
            if gap.strip() and not _has_only_type(gap, markers.string_mark):
                raise UnreadableCallError(NOT_CLOSED.format(start), Doubt(here))
        begin, key = at, unescape_name(calls, key.strip())
        if MARKUP.search(key) and key not in known:
            raise UnreadableCallError(f"the name of a parameter was expected, not {key[:40]!r}", left)
        behind = _behind_texts(raw, at, markers)
        _, at = _split_at_marker(raw, behind, markers.value_end, NOT_CLOSED, start, left)
        value = raw[begin : at - len(markers.value_end)]
        mended: tuple[str, ...] = ()
        others = known.keys() - {key} - values.keys()
        span = (begin, behind, at - len(markers.value_end))
        if ended := find_missing_end(raw, span, calls, key, others):
            value, at, repairs = raw[begin : ended.stop], ended.following, _add_repairs(repairs, ended.repair)
            doubt = doubt or Doubt(begin)
        # Some templates write a line break on each side of a value. One only at the end belongs to the value: Seed-OSS
        # writes values without surrounding line breaks.
        value = value[1:].removesuffix("\n") if value.startswith("\n") else value
        if key in values:
            raise UnreadableCallError(f"the parameter {key!r} is given twice")
        if markers.text_start and value.startswith(markers.text_start):
            if not value.endswith(markers.text_end):
                raise UnreadableCallError(NOT_CLOSED.format(start), Doubt(here))
            values[key] = value[len(markers.text_start) : len(value) - len(markers.text_end)]
        elif not markers.string_mark:
            values[key], mended = parse_value(value, type_of(known, key))
        else:
            values[key], mended = (value, ()) if markers.string_mark in gap else read_literal(value.strip())
        repairs = _add_repairs(repairs, *mended) if mended else repairs
    rest = raw[at:].strip()
    if passed and values and not rest:
        repairs = _add_repairs(repairs, MISSING_END)
    else:
        _check_end(calls, rest, terminated)
    if inner := _unwrap_arguments(values, known):
        values, repairs = inner, (*repairs, ARGUMENTS_IN_A_PARAMETER)
    return Decoding([call_of(name, Value(values, None), repairs)], doubt)


def _has_only_type(gap: str, string_mark: str) -> bool:
    """Return whether the text between a key and its value contains only the type attribute.

    ``string_mark`` is that attribute with its value for strings; for other types the attribute has another value.
    """
    attribute, _, _ = string_mark.partition("=")
    return bool(string_mark) and re.fullmatch(rf'\s*{re.escape(attribute)}="\w*"\s*', gap) is not None


def _add_repairs(repairs: tuple[str, ...], *more: str) -> tuple[str, ...]:
    return repairs + tuple(note for note in more if note not in repairs)


def _unwrap_arguments(values: dict[str, Any], known: Mapping[str, frozenset[str]]) -> dict[str, Any]:
    """Return the arguments if they are nested in a single parameter that the tool does not have; else an empty dict."""
    if len(values) != 1:
        return {}
    ((key, value),) = values.items()
    if key not in WRAPPERS or key in known or OTHER_PARAMETERS in known:
        return {}
    inner = read_literal(value.strip())[0] if isinstance(value, str) else value
    return inner if isinstance(inner, dict) and set(inner) <= set(known) else {}


def _tagged_name(calls: CallFormat, markers: ParameterMarkers, raw: str) -> tuple[str, int]:
    at = 0
    if calls.name_start:
        before, at = _split_at_marker(raw, 0, calls.name_start, "{!r} is missing before the name", calls.name_start)
        if before.strip():
            raise UnreadableCallError(f"the call has to begin with {calls.name_start!r}")
    if calls.name_end:
        name, at = _split_at_marker(raw, at, calls.name_end, "{!r} is missing after the name", calls.name_end)
    else:
        end = raw.find(markers.key_start, at)
        name, at = (raw[at:], len(raw)) if end < 0 else (raw[at:end], end)
    name = check_name(calls, name)
    closing = calls.body_end.removesuffix(calls.name_end)  # as in ``<function=f</function>``
    if "\n" in name or (closing and closing in name):
        raise UnreadableCallError(f"a name was expected, not {name[:40]!r}")
    return name, at


def _check_end(calls: CallFormat, rest: str, terminated: bool) -> None:
    closing = calls.body_end.strip()
    if rest not in ("", closing):
        raise UnreadableCallError(f"a parameter was expected, not {rest[:40]!r}")
    if not terminated and rest != (closing or None):
        raise UnreadableCallError("its end is missing")


def _decode_nested(calls: CallFormat, raw: str, terminated: bool, types: ParameterTypes) -> ProposedCall:
    markers = calls.parameters
    assert markers is not None  # CallFormat's own check
    name, at = _tagged_name(calls, markers, raw)
    values, at = read_elements(raw, at, markers, types.get(name, {}))
    _check_end(calls, raw[at:].strip(), terminated)
    return call_of(name, Value(values, None), ())


def _split_at_marker(
    text: str, start: int, marker: str, problem: str, subject: str, doubt: Doubt | None = None
) -> tuple[str, int]:
    """Return the text from ``start`` to ``marker``, and the position after it.

    Raises:
        UnreadableCallError: ``problem``, formatted with ``subject``, if the marker is missing.
    """
    end = text.find(marker, start)
    if end < 0:
        raise UnreadableCallError(problem.format(subject), doubt)
    return text[start:end], end + len(marker)


def _behind_texts(raw: str, at: int, markers: ParameterMarkers) -> int:
    """Return the position after the marked texts of a value (``<![CDATA[``): an end marker inside them does
    not count.
    """
    while markers.text_start:
        stop = raw.find(markers.value_end, at)
        begin = raw.find(markers.text_start, at, max(stop, 0))
        end = raw.find(markers.text_end, begin + len(markers.text_start)) if begin >= 0 else -1
        if end < 0:
            break
        at = end + len(markers.text_end)
    return at
