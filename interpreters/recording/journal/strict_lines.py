"""Contents of a journal line: strict JSON, read without trust.

A line may come from a stranger, with a correct sum. So a journal rejects some input that JSON readers usually accept:
duplicate keys, numbers that are not finite, and nesting in more than ``DEEPEST`` levels. A record uses
about 12 of these; the header also contains the schemas of tools.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

from cognition.base.strict_json import BoundedDecoder

LONGEST = 1 << 26
"""Maximum bytes of a line, 64 MiB, both for writing and reading.

Texts of 16,384 characters are in separate files, so only the header of a fork, with a conversation, is similarly large.
"""

DIGITS = 100
"""Maximum digits of an integer. Much larger ones have no float value, which calculations need."""


def decode_line(line: bytes) -> Any:
    """Return the value of a line, or None if a journal can't contain it."""
    try:
        # As a text: of bytes, json would first find out how they are coded.
        return read_strictly(line.decode("utf-8", "surrogatepass"))
    except ValueError:
        return None


def read_strictly(text: str) -> Any:
    """Return the value of an untrusted JSON text.

    Raises:
        ValueError: the text is invalid, or not allowed in a journal.
    """
    try:
        return _decode_value(text)
    except RecursionError:
        raise ValueError("it has too many brackets within one another") from None


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("a key stands there twice")
    return value


def _parse_float(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"{text} is no number that can be held")
    return value


def _parse_int(text: str) -> int:
    if len(text) > DIGITS:
        raise ValueError("a number has too many digits")
    return int(text)


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


_decoder = BoundedDecoder(
    object_pairs_hook=_build_object,
    parse_float=_parse_float,
    parse_int=_parse_int,
    parse_constant=_refuse_constant,
)


def _decode_value(text: str) -> Any:
    """Return the same as ``decode``, in 90% of its time. ``decode`` searches for white space at both ends."""
    if text.startswith("{"):
        value, end = _decoder.raw_decode(text)
        if text[end:] in ("", "\n"):
            return value
    return _decoder.decode(text)
