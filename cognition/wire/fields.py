"""Reading what a server wrote: every field has the type that the API gives it, or the reply is bad output."""

from __future__ import annotations

import json
import re
from typing import Any

from cognition.counts import MOST_TOKENS
from cognition.messages import Usage
from cognition.shown import shown_name

Object = dict[str, Any]

SHOWN = 80
"""Characters of a server's text that a message of ours repeats."""


SURROGATE = re.compile("[\ud800-\udfff]")
HALF = "\N{REPLACEMENT CHARACTER}"
"""Stands for half a character, which JSON can write and UTF-8 can't."""


class BadOutputError(Exception):
    """What a server sent is not of the form that its API has. Stays within this package: it becomes a ``Failure``."""


def without_halves(text: str) -> str:
    """A text of which nothing more comes, with half characters as replacement characters."""
    return text if text.isascii() else SURROGATE.sub(HALF, text)


def object_of(text: str) -> Object:
    """The JSON object that a text is.

    Raises:
        BadOutputError: it is none.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        why = str(error) if isinstance(error, json.JSONDecodeError) else "it can't be decoded"
        raise BadOutputError(f"the server sent no JSON where it should: {shown_name(text, SHOWN)} ({why})") from None
    if not isinstance(value, dict):
        raise BadOutputError(f"the server sent no JSON object where it should: {shown_name(text, SHOWN)}")
    return value


def text_in(value: Object, key: str) -> str:
    """A text; empty where it is missing or null."""
    text = value.get(key)
    if text is None:
        return ""
    if not isinstance(text, str):
        raise _wrong(key, "a text", text)
    return text


def object_in(value: Object, key: str) -> Object:
    """An object; an empty one where it is missing or null."""
    inner = value.get(key)
    if inner is None:
        return {}
    if not isinstance(inner, dict):
        raise _wrong(key, "an object", inner)
    return inner


def objects_in(value: Object, key: str) -> list[Object]:
    """A list of objects; an empty one where it is missing or null."""
    inner = value.get(key)
    if inner is None:
        return []
    if not isinstance(inner, list) or not all(isinstance(one, dict) for one in inner):
        raise _wrong(key, "a list of objects", inner)
    return inner


def number_in(value: Object, key: str, missing: int = 0) -> int:
    """A place in a list, or another number that isn't negative; ``missing`` where there is none, or null."""
    number = value.get(key)
    if number is None:
        return missing
    if type(number) is not int or number < 0:
        raise _wrong(key, "a whole number from 0", number)
    return number


def tokens_in(value: Object, key: str) -> int:
    """A number of tokens; 0 for what is none, since a reply is no worse for a wrong count."""
    number = value.get(key)
    return min(number, MOST_TOKENS) if type(number) is int and number > 0 else 0


def inner_of(value: Object, key: str) -> Object:
    """An object within a count; an empty one for anything else, as in ``tokens_in``."""
    inner = value.get(key)
    return inner if isinstance(inner, dict) else {}


def _wrong(key: str, expected: str, got: object) -> BadOutputError:
    return BadOutputError(f"the server sent {key!r} as {shown_name(repr(got)[:SHOWN], SHOWN)}, which is not {expected}")


def counted(input_tokens: int, output_tokens: int, reused: int, cost: object = None) -> Usage:
    """What was used; no more can be reused than there was."""
    paid = float(cost) if type(cost) in (int, float) and 0 <= cost < 1e12 else 0.0  # type: ignore[operator,arg-type]
    return Usage(input_tokens, output_tokens, min(reused, input_tokens), paid)
