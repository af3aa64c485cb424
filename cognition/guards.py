"""Recognises a model that goes round in circles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cognition.encoding import encoder

REPEATS = 3
"""The same call, or the same cycle of calls, this many times in a row is a loop."""
LONGEST_CYCLE = 3
"""The number of calls in the longest cycle that is recognised."""
REMEMBERED = REPEATS * LONGEST_CYCLE
"""The number of calls to keep, so that the longest cycle can be seen."""


ENCODE = encoder(ascii_only=True, sort_keys=True)


def fingerprint(name: str, arguments: Mapping[str, Any]) -> str:
    """Equal for calls of the same tool with equal arguments, whatever their order and white space."""
    return f"{name} {ENCODE(arguments)}"


def remember(recent: tuple[str, ...], mark: str) -> tuple[str, ...]:
    """The fingerprints to keep once one more call was made."""
    return (*recent, mark)[-REMEMBERED:]


def cycle_length(recent: tuple[str, ...]) -> int:
    """The length of the cycle that the latest calls repeat ``REPEATS`` times; 0 if there is none."""
    for length in range(1, LONGEST_CYCLE + 1):
        span = length * REPEATS
        if len(recent) >= span:
            last = recent[-length:]
            if recent[-span:] == last * REPEATS:
                return length
    return 0
