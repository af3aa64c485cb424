"""JSON as ``json.JSONEncoder.encode`` writes it, without a new C encoder for every text."""

from __future__ import annotations

import json
import json.encoder
from collections.abc import Callable
from typing import Any

from cognition.base.strict_json import DEEPEST_MESSAGE, bracket_too_deep


def encoder(*, ascii_only: bool, sort_keys: bool = False, allow_nan: bool = True) -> Callable[[Any], str]:
    """Return a function that encodes a value as JSON on one line, without blanks.

    It takes a quarter to a third less time than ``encode``, which creates a C encoder for each text. Without the C
    encoder, it calls ``encode``. Circular values are not detected as such; they count as nested too deeply.

    The returned function raises:
        TypeError: JSON has no form for a value.
        ValueError: a number is NaN or infinite, without ``allow_nan``.
        RecursionError: a value is nested in more than ``DEEPEST_MESSAGE`` levels.
    """
    usual = json.JSONEncoder(
        ensure_ascii=ascii_only, allow_nan=allow_nan, sort_keys=sort_keys, check_circular=False, separators=(",", ":")
    )
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return lambda value: bounded(usual.encode(value))
    quoted = json.encoder.encode_basestring_ascii if ascii_only else json.encoder.encode_basestring
    write = make(None, usual.default, quoted, None, ":", ",", sort_keys, False, allow_nan)

    def encode(value: Any) -> str:
        return bounded("".join(write(value, 0)))

    return encode


def bounded(text: str, deepest: int = DEEPEST_MESSAGE) -> str:
    """Return a JSON text unchanged.

    Raises:
        RecursionError: it is nested in more than ``deepest`` levels, as of an encoder whose stack is used up.
    """
    place = bracket_too_deep(text, deepest=deepest)
    if place >= 0:
        kind = "array" if text[place] == "[" else "object"
        raise RecursionError(f"maximum recursion depth exceeded while encoding a JSON {kind}")
    return text
