"""JSON as the standard defines it. Python's own reader also accepts input unfit to run a tool with.

This reader rejects a key given twice: the last value would win, while a person who approves the call may have read the
first. It also rejects ``NaN`` and ``Infinity``, which JSON does not have, in any form: Python reads ``1e999`` as
infinite. And it rejects nesting in more than ``DEEPEST`` levels, which Python's reader bounds by its own stack.
"""

from __future__ import annotations

import json
import re
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


DEEPEST = 200
"""The most levels of nesting in JSON that models, tools, servers and recordings write.

Python's own limit is 990 levels less the caller's stack in 3.11, 1,500 in 3.12 and 10,000 in 3.13. In 3.14 it is the
C stack, and in WebAssembly a text of 20,000 brackets ends the process. At 200, a function with four frames for each
level still has room within Python's 1,000 frames.
"""

DEEPEST_MESSAGE = 250
"""As ``DEEPEST``, for a message or request that contains such JSON."""

NEXT_BRACKETS = re.compile(
    r"""(?:[^"\[\]{}]++|"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z))*+(?:([\[{]++)|([\]}]++))""", re.DOTALL
)
"""Matches up to the next opening or closing brackets, and skips whole strings."""

STRING = re.compile(rb'"[^"]*+"?')
OTHER_BYTES = bytes(set(range(256)) - set(b'"[]{}'))

WINDOW = 4000
"""The number of characters within which brackets are counted first. In longer texts they are followed to the end of
the value: else the time for many values side by side would grow with the square of their number.
"""

USUAL_LEVELS = 12
"""The levels that ``_is_flat`` removes."""


def bracket_too_deep(text: str, at: int = 0, deepest: int = DEEPEST) -> int:
    """Return the position of the first bracket below ``deepest`` levels in the JSON value at ``at``, or -1."""
    if len(text) - at <= deepest or text[at] not in "[{":
        return -1
    if (at == 0 or len(text) - at <= WINDOW) and text.count("[", at) + text.count("{", at) <= deepest:
        return -1
    if at == 0 and _is_flat(text, deepest):
        return -1
    depth = 0
    while found := NEXT_BRACKETS.match(text, at):
        at = found.end()
        if found[1]:
            depth += len(found[1])
            if depth > deepest:
                return at - (depth - deepest)
        else:
            depth -= len(found[2])
            if depth <= 0:
                break
    return -1


def _is_flat(text: str, deepest: int) -> bool:
    """Return whether a text is surely within ``deepest`` levels, in a third of the time of a look at each bracket.

    Only the brackets outside of strings stay. Then each round removes at most two levels, the innermost ones.
    """
    data = text.encode("ascii", "replace").replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, OTHER_BYTES)
    data = STRING.sub(b"", data.replace(b'""', b""))
    for levels in range(0, USUAL_LEVELS, 2):
        if len(data) + levels <= deepest:
            return True
        data = data.replace(b"[]", b"").replace(b"{}", b"")
    return False


class BoundedDecoder(json.JSONDecoder):
    """Python's decoder with a fixed limit of nesting.

    It raises the same ``RecursionError`` for a text that is nested in more than ``deepest`` levels, unless the text has
    another error before that.
    """

    def __init__(self, deepest: int = DEEPEST, **options: Any) -> None:
        super().__init__(**options)
        self._deepest = deepest

    def raw_decode(self, s: str, idx: int = 0) -> tuple[Any, int]:
        place = bracket_too_deep(s, idx, self._deepest)
        return self._read(s, idx) if place < 0 else self._raise_first(s, idx, place)

    def _read(self, text: str, at: int) -> tuple[Any, int]:
        return super().raw_decode(text, at)

    def _raise_first(self, text: str, at: int, place: int) -> NoReturn:
        """Raise the first error of a text, which it reads up to the first bracket that is too deep."""
        try:
            self._read(text[:place], at)
        except json.JSONDecodeError as error:
            if error.pos < place or error.msg != "Expecting value":
                raise json.JSONDecodeError(error.msg, text, error.pos) from None
        kind = "array" if text[place] == "[" else "object"
        raise RecursionError(f"maximum recursion depth exceeded while decoding a JSON {kind} from a unicode string")


class StrictDecoder(BoundedDecoder):
    """A decoder that rejects ``NaN``, ``Infinity`` and numbers that are too large, and optionally duplicate keys.

    A text shorter than the longest number can't contain a longer one. Its whole numbers are not checked one by one,
    which would double the time for small arguments.
    """

    def __init__(self, **options: Any) -> None:
        options |= {"parse_constant": _refuse, "parse_float": _finite}
        super().__init__(**options, parse_int=_whole)
        short: Any = json.JSONDecoder(**options)
        self._of_short, self._scan = short.raw_decode, short.scan_once

    def _read(self, text: str, at: int) -> tuple[Any, int]:
        return super()._read(text, at) if len(text) > LONGEST_NUMBER else self._of_short(text, at)

    def decode(self, s: str, *rest: Any) -> Any:
        # No white space before it, and mostly none behind: half the time.
        if len(s) <= LONGEST_NUMBER and s[:1] == "{" and bracket_too_deep(s) < 0:
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

LENIENT = BoundedDecoder(DEEPEST_MESSAGE)
"""JSON as Python reads it, for messages of other programs."""
