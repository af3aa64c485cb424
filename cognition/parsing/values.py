"""The JSON of a call, value by value, each with its text: arguments are passed on as the model wrote them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from cognition.base.strict_json import DECODER, BoundedDecoder, DuplicateKeyError
from cognition.parsing._repair import TOKEN, repair_json
from cognition.parsing.literals import Doubt, UnreadableCallError

SPACE = re.compile(r"[ \t\n\r]*+")
SHAPE = BoundedDecoder()
"""Accepts any text with the syntax of JSON, also duplicate keys and ``NaN``."""


class Value(NamedTuple):
    """A decoded value with its text as the model wrote it, or None if the text was repaired."""

    value: Any
    text: str | None


Members = Mapping[str, Value]


class _NotAListError(ValueError):
    """The text is not a list of values from position ``pos`` on."""

    def __init__(self, problem: str, place: int) -> None:
        super().__init__(f"{problem} at character {place}")
        self.pos = place


def json_values(text: str, complete: bool) -> tuple[list[Value], tuple[str, ...], Doubt | None]:
    """Return the values side by side in a text, or in its one list; the repairs; and the ``Decoding.doubt``.

    ``complete``: as in ``repair_json``, which repairs invalid JSON.

    Raises:
        UnreadableCallError: the text can't be repaired, has a duplicate key, is an empty list, or is nested too deeply.
    """
    repairs: tuple[str, ...] = ()
    doubt = None
    try:
        values = decode_strictly(text)
    except RecursionError:
        raise UnreadableCallError("the JSON is nested too deeply") from None
    except DuplicateKeyError as error:
        raise UnreadableCallError(str(error), doubt_in(text)) from None
    except ValueError as error:
        repaired, doubt = repair_json(text, complete=complete), doubt_in(text)
        if repaired is None:
            raise UnreadableCallError(f"not valid JSON: {error}", doubt) from None
        several = repaired.value if isinstance(repaired.value, list) else [repaired.value]
        values, repairs = [Value(value, None) for value in several], repaired.repairs
    if not values:
        raise UnreadableCallError("the list of calls is empty")
    return values, repairs, doubt


def decode_strictly(text: str, decoder: json.JSONDecoder = DECODER) -> list[Value]:
    """Return the values of a text that needs no repair. Raises ValueError or RecursionError otherwise."""
    values: list[Value] = []
    listed = text.startswith("[")  # else usually one value; some models write several calls, each on its line
    at = skip(text, 1) if listed else 0
    while text[at : at + 1] != "]" if listed else at < len(text):
        if listed and values:
            if text[at : at + 1] != ",":
                raise _NotAListError("expecting ',' or ']'", at)
            at = skip(text, at + 1)
        value, end = decoder.raw_decode(text, at)
        values.append(Value(value, text[at:end]))
        at = skip(text, end)
    if listed and at + 1 < len(text):
        raise _NotAListError("extra text", at + 1)
    return values


def doubt_in(text: str) -> Doubt | None:
    """Return the doubt in a text that is not JSON. It begins at the last string before the error, which may lack a
    quote.

    None if the text has the syntax of JSON, and only has a duplicate key or ``NaN``.
    """
    try:
        decode_strictly(text, SHAPE)
    except RecursionError:
        return None
    except ValueError as error:
        place: int = getattr(error, "pos", 0)
    else:
        return None
    at, string = 0, place
    while at <= place < len(text):
        if (token := TOKEN.match(text, at)) is None:  # a string that is never closed
            return Doubt(at, open=True)
        if at == place:
            break
        if token.lastgroup != "blank":
            string = at if token.lastgroup in ("double", "single") else place
        at = token.end()
    return Doubt(string)


def members_of(value: Value) -> Members:
    """Return the members of a JSON object, each with its text."""
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
    """Return the position after any white space at ``at``."""
    if text[at : at + 1] > " ":  # no white space, which is the usual case: quicker than to look for some
        return at
    found = SPACE.match(text, at)
    return found.end() if found else at
