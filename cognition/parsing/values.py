"""The JSON of a call, value by value, each with its text: arguments are passed on as the model wrote them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from cognition.parsing.literals import Unreadable
from cognition.parsing.repair import DECODER, repair_json

SPACE = re.compile(r"[ \t\n\r]*+")


class Value(NamedTuple):
    """A decoded value with its text as the model wrote it, or None where the text was mended."""

    value: Any
    text: str | None


Members = Mapping[str, Value]


def json_values(text: str, complete: bool) -> tuple[list[Value], tuple[str, ...]]:
    """The values that stand side by side in a text, or in its one list; else what mending makes of it.

    ``complete``: see ``repair_json``. Raises Unreadable.
    """
    repairs: tuple[str, ...] = ()
    try:
        values = strictly(text)
    except RecursionError:
        raise Unreadable("the JSON is nested too deeply") from None
    except ValueError as error:
        repaired = repair_json(text, complete=complete)
        if repaired is None:
            raise Unreadable(f"not valid JSON: {error}") from None
        several = repaired.value if isinstance(repaired.value, list) else [repaired.value]
        values, repairs = [Value(value, None) for value in several], repaired.repairs
    if not values:
        raise Unreadable("the list of calls is empty")
    return values, repairs


def strictly(text: str) -> list[Value]:
    """The same where nothing is to be mended. Raises ValueError, or RecursionError."""
    return _listed(text) if text.startswith("[") else _side_by_side(text)


def _listed(text: str) -> list[Value]:
    values: list[Value] = []
    at = skip(text, 1)
    while text[at : at + 1] != "]":
        if values:
            if text[at : at + 1] != ",":
                raise ValueError(f"expecting ',' or ']' at character {at}")
            at = skip(text, at + 1)
        value, end = DECODER.raw_decode(text, at)
        values.append(Value(value, text[at:end]))
        at = skip(text, end)
    if at + 1 < len(text):
        raise ValueError(f"extra text at character {at + 1}")
    return values


def _side_by_side(text: str) -> list[Value]:
    """Usually one. Some models write several calls between one pair of markers, each on its line."""
    values: list[Value] = []
    at = 0
    while at < len(text):
        value, end = DECODER.raw_decode(text, at)
        values.append(Value(value, text[at:end]))
        at = skip(text, end)
    return values


def members_of(value: Value) -> Members:
    """The members of a JSON object, each with its text."""
    if value.text is None:
        return {key: Value(member, None) for key, member in value.value.items()}
    text, at = value.text, skip(value.text, 1)
    members: dict[str, Value] = {}
    while text[at] != "}":
        key, at = DECODER.raw_decode(text, at)
        at = skip(text, skip(text, at) + 1)
        member, end = DECODER.raw_decode(text, at)
        members[key] = Value(member, text[at:end])
        at = skip(text, end)
        if text[at] == ",":
            at = skip(text, at + 1)
    return members


def skip(text: str, at: int) -> int:
    """The place behind the white space that stands here, if any does."""
    if text[at : at + 1] > " ":  # no white space, which is the usual case: quicker than to look for some
        return at
    found = SPACE.match(text, at)
    return found.end() if found else at
