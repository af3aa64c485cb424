"""What a line of a journal may hold: strict JSON, read without trust.

A line may come from anybody, with a sum that fits. So what JSON readers usually let through is no line of a journal: a
key that stands there twice, numbers that are none, brackets so deep that whoever walks them runs out of stack.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from math import isfinite
from typing import Any

LONGEST = 1 << 26
"""Bytes of a line, 64 MiB: neither written nor read beyond. Texts of 16,384 characters stand in files of their own, so
that only the header of a fork, which holds a conversation, comes anywhere near."""

DEEPEST = 200
"""Brackets within one another. A record has a dozen; the schema of a tool, which stands in the header, has its own."""


DIGITS = 100
"""Of a whole number. With many more of them no float can stand for it, as whoever reckons with it needs."""


def decoded(line: bytes) -> Any:
    """The value of a line, or None if it holds none that a journal may hold."""
    try:
        # As a text: of bytes, json would first find out how they are coded.
        return read_strictly(line.decode("utf-8", "surrogatepass"))
    except ValueError:
        return None


def read_strictly(text: str) -> Any:
    """The value of a JSON text, which can be worked with whoever wrote it.

    Raises:
        ValueError: it is none, or none of ours.
    """
    try:
        value = _value(text)
    except RecursionError:
        raise ValueError("it has too many brackets within one another") from None
    if len(text) > 2 * DEEPEST and text.count("[") + text.count("{") > DEEPEST and _is_too_deep(value):
        raise ValueError("it has too many brackets within one another")
    return value


def _is_too_deep(value: Any) -> bool:
    """Whether brackets stand within one another deeper than a journal has them."""
    level = [value]
    for _ in range(DEEPEST):
        level = [inner for one in level for inner in _inner(one)]
        if not level:
            return False
    return any(isinstance(one, dict | list | tuple) for one in level)


def _inner(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("a key stands there twice")
    return value


def _float(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"{text} is no number that can be held")
    return value


def _int(text: str) -> int:
    if len(text) > DIGITS:
        raise ValueError("a number has too many digits")
    return int(text)


def _constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


_decoder = json.JSONDecoder(object_pairs_hook=_object, parse_float=_float, parse_int=_int, parse_constant=_constant)


def _value(text: str) -> Any:
    """What ``decode`` gives. It searches for blanks at both ends, which takes a tenth of the time, and a line of ours
    has none but its line break.
    """
    if text.startswith("{"):
        value, end = _decoder.raw_decode(text)
        if text[end:] in ("", "\n"):
            return value
    return _decoder.decode(text)
