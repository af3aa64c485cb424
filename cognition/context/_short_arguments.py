"""Shorten the arguments of a call for a request. They stay a JSON object, and long texts in them become shorter."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from cognition.base.elision import elide
from cognition.base.strict_json import LENIENT

CUT = "\n[... {} characters of this argument are left out here for want of room ...]\n"
"""In place of the middle of a text; the field is the number of characters."""
ALL_CUT = "[... {} characters of these arguments are left out here for want of room ...]"
"""In place of all arguments; the field is the number of characters."""
LEFT_OUT = "left_out"
"""The key of ``ALL_CUT``."""
LONGEST_NOTE = len(json.dumps(CUT.format(10**7)))
AROUND_A_KEY = 32
"""Bytes that a template may write around an argument beside its key, as XML tags do."""


@lru_cache(maxsize=256)
def shorten_arguments(text: str, limit: int) -> str:
    """Return arguments of about ``limit`` characters: long texts keep their two ends, all of the same length.

    If short values alone take more, a note replaces all arguments. The result is never longer than ``text``, and what
    is not a JSON object stays unchanged. Results are cached, since each request shows them again.
    """
    if len(text) <= limit:
        return text
    try:
        value = LENIENT.decode(text)
        if not isinstance(value, dict):
            return text
        room = limit - len(json.dumps(_each_text(value, lambda _: ""), ensure_ascii=False))
        most = _share(sorted(map(len, _texts(value))), room) - LONGEST_NOTE
        short = json.dumps(_each_text(value, lambda one: _cut(one, most)), ensure_ascii=False)
    except (ValueError, RecursionError):
        return text
    if most <= 0 or len(short) >= len(text):
        short = json.dumps({LEFT_OUT: ALL_CUT.format(len(text))})
    return short if len(short) < len(text) else text


def written_length(text: str) -> int:
    """Return an upper bound of the bytes of shortened arguments, however a template writes them."""
    value = LENIENT.decode(text)
    return len(json.dumps(value, indent=4)) + AROUND_A_KEY * text.count(":")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most + LONGEST_NOTE else elide(text, most - most // 4, most // 4, CUT.format)


def _share(lengths: list[int], room: int) -> int:
    """Return the length at which these texts, shortest first, take the room."""
    for place, length in enumerate(lengths):
        share = room // (len(lengths) - place)
        if length > share:
            return share
        room -= length
    return 0


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    """Return the value with each text in it changed, except for keys."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _each_text(one, change) for key, one in value.items()}
    return [_each_text(one, change) for one in value] if isinstance(value, list) else value
