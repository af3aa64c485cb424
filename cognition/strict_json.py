"""JSON as the standard means it. Python's own reader also lets pass what no tool should be run with.

A key that is given twice (the last one would win, while a person who approves the call may have read the first), and
``NaN`` and ``Infinity``, which JSON does not have.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, NoReturn


class DuplicateKeyError(ValueError):
    """An object gives a key twice."""


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON number")


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

DECODER = json.JSONDecoder(parse_constant=_refuse, object_pairs_hook=_unique)
LAX_DECODER = json.JSONDecoder(parse_constant=_refuse, object_pairs_hook=_unique, strict=False)
"""``DECODER`` for texts in whose strings line breaks may stand unescaped."""
