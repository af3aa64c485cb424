"""Recognise a model that repeats itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cognition.base.encoding import encoder

REPEATS = 3
"""The same call, or the same cycle of calls, this many times in a row is a loop."""
LONGEST_CYCLE = 3
REMEMBERED = REPEATS * LONGEST_CYCLE
"""The number of calls to keep, enough for the longest cycle."""


ENCODE = encoder(ascii_only=True, sort_keys=True)


def fingerprint(name: str, arguments: Mapping[str, Any]) -> str:
    """Return a fingerprint, equal for calls of the same tool with equal arguments in any order and spacing."""
    return f"{name} {ENCODE(arguments)}"


def remember(recent: tuple[str, ...], mark: str) -> tuple[str, ...]:
    """Return the fingerprints to keep after another call."""
    return (*recent, mark)[-REMEMBERED:]


def cycle_length(recent: tuple[str, ...]) -> int:
    """Return the length of the cycle that the latest calls repeat ``REPEATS`` times, or 0."""
    for length in range(1, LONGEST_CYCLE + 1):
        span = length * REPEATS
        if len(recent) >= span:
            last = recent[-length:]
            if recent[-span:] == last * REPEATS:
                return length
    return 0
