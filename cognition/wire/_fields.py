"""Reads the fields of a server's JSON. A field with a type that the API does not allow makes the reply bad output."""

from __future__ import annotations

import json
import re
from typing import Any

from cognition.base.display import shown_name
from cognition.base.strict_json import LENIENT
from cognition.values.counts import MOST_TOKENS
from cognition.values.messages import Usage

Object = dict[str, Any]

SHOWN = 80


SURROGATE = re.compile("[\ud800-\udfff]")
HALF = "\N{REPLACEMENT CHARACTER}"
"""Replaces an unpaired surrogate, which JSON can express and UTF-8 can't."""


class BadOutputError(Exception):
    """Raised for server output that does not match its API. Stays within this package: it becomes a ``Failure``."""


def without_halves(text: str) -> str:
    """Return a complete text with unpaired surrogates replaced."""
    return text if text.isascii() else SURROGATE.sub(HALF, text)


def object_of(text: str) -> Object:
    """Parse a JSON object.

    Raises:
        BadOutputError: ``text`` is not a JSON object.
    """
    try:
        value = LENIENT.decode(text)
    except (ValueError, RecursionError) as error:
        why = str(error) if isinstance(error, json.JSONDecodeError) else "it can't be decoded"
        raise BadOutputError(f"the server sent no JSON where it should: {shown_name(text, SHOWN)} ({why})") from None
    if not isinstance(value, dict):
        raise BadOutputError(f"the server sent no JSON object where it should: {shown_name(text, SHOWN)}")
    return value


def text_in(value: Object, key: str) -> str:
    """Return a text; empty if missing or null."""
    if (text := value.get(key)) is None:
        return ""
    if not isinstance(text, str):
        raise _wrong(key, "a text", text)
    return text


def object_in(value: Object, key: str) -> Object:
    """Return an object; empty if missing or null."""
    if (inner := value.get(key)) is None:
        return {}
    if not isinstance(inner, dict):
        raise _wrong(key, "an object", inner)
    return inner


def objects_in(value: Object, key: str) -> list[Object]:
    """Return a list of objects; empty if missing or null."""
    if (inner := value.get(key)) is None:
        return []
    if not isinstance(inner, list) or not all(isinstance(one, dict) for one in inner):
        raise _wrong(key, "a list of objects", inner)
    return inner


def number_in(value: Object, key: str, missing: int = 0) -> int:
    """Return an index or another non-negative number; ``missing`` if absent or null."""
    if (number := value.get(key)) is None:
        return missing
    if type(number) is not int or number < 0:
        raise _wrong(key, "a whole number from 0", number)
    return number


def tokens_in(value: Object, key: str) -> int:
    """Return a number of tokens, or 0 for any other value: a wrong count does not spoil a reply."""
    number = value.get(key)
    return min(number, MOST_TOKENS) if type(number) is int and number > 0 else 0


def inner_of(value: Object, key: str) -> Object:
    """Return an object within a count; empty for any other value, as in ``tokens_in``."""
    inner = value.get(key)
    return inner if isinstance(inner, dict) else {}


def _wrong(key: str, expected: str, got: object) -> BadOutputError:
    return BadOutputError(f"the server sent {key!r} as {shown_name(repr(got)[:SHOWN], SHOWN)}, which is not {expected}")


def make_usage(input_tokens: int, output_tokens: int, reused: int, cost: object = None) -> Usage:
    """Return the usage, with ``reused`` limited to the input tokens."""
    paid = float(cost) if type(cost) in (int, float) and 0 <= cost < 1e12 else 0.0  # type: ignore[operator,arg-type]
    return Usage(input_tokens, output_tokens, min(reused, input_tokens), paid)
