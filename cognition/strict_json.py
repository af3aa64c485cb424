"""JSON as the standard means it. Python's own reader also lets pass what no tool should be run with.

A key that is given twice (the last one would win, while a person who approves the call may have read the first), and
``NaN`` and ``Infinity``, which JSON does not have, however they are written: ``1e999`` would be read as infinite.
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
"""Characters of a whole number. Python reads none of more than 4,300 digits."""


class StrictDecoder(json.JSONDecoder):
    """Reads no ``NaN``, no ``Infinity``, no number that is too large; and of two equal keys, where it is told so, none.

    A text that is no longer than a number may be has none that is longer: its whole numbers are read without being
    looked at one by one, which would double the time that small arguments take.
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
"""``DECODER`` for texts in whose strings line breaks may stand unescaped."""

NUMBERS = StrictDecoder()
"""Strict about numbers only."""
