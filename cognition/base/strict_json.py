"""JSON as the standard defines it. Python's own reader also accepts input unfit to run a tool with.

This reader rejects a key given twice: the last value would win, while a person who approves the call may have read the
first. It also rejects ``NaN`` and ``Infinity``, which JSON does not have, in any form: Python reads ``1e999`` as
infinite.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from math import isfinite
from typing import Any, NoReturn


class DuplicateKeyError(ValueError):
    """An object gives a key twice."""


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"the number {text[:40]} is larger than any that can be read")
    return value


def _whole(text: str) -> int:
    if len(text) > LONGEST_NUMBER:
        raise ValueError(f"a number of {len(text)} digits is longer than any that can be read")
    return int(text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        ((key, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise DuplicateKeyError(f"the key {key!r} is given twice")
    return members


SCALARS: Mapping[Any, str] = {
    str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null",
}  # fmt: skip
"""The names that JSON Schema has for Python's plain types."""

LONGEST_NUMBER = 4000
"""The most characters of a whole number. Python reads at most 4,300 digits."""


class StrictDecoder(json.JSONDecoder):
    """A decoder that rejects ``NaN``, ``Infinity`` and numbers that are too large, and optionally duplicate keys.

    A text shorter than the longest number can't contain a longer one. Its whole numbers are not checked one by one,
    which would double the time for small arguments.
    """

    def __init__(self, **options: Any) -> None:
        options |= {"parse_constant": _refuse, "parse_float": _finite}
        super().__init__(**options, parse_int=_whole)
        short: Any = json.JSONDecoder(**options)
        self._of_short, self._scan = short.raw_decode, short.scan_once

    def raw_decode(self, s: str, idx: int = 0) -> tuple[Any, int]:
        return super().raw_decode(s, idx) if len(s) > LONGEST_NUMBER else self._of_short(s, idx)

    def decode(self, s: str, *rest: Any) -> Any:
        if len(s) <= LONGEST_NUMBER and s[:1] == "{":  # no white space before it, and mostly none behind: half the time
            try:
                value, end = self._scan(s, 0)
            except StopIteration:  # nothing stands where a value should, which is told below
                value, end = None, -1
            if end == len(s):
                return value
        return super().decode(s, *rest)


DECODER = StrictDecoder(object_pairs_hook=_unique)
LAX_DECODER = StrictDecoder(object_pairs_hook=_unique, strict=False)
"""``DECODER`` for texts with unescaped line breaks in strings."""

NUMBERS = StrictDecoder()
"""Strict about numbers only."""
