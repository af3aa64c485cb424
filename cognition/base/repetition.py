"""Recognise a model that repeats itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from attrs import frozen

from cognition.base.encoding import encoder

REPEATS = 3
"""In edition 1: the same call, or the same cycle of calls, this many times in a row is a loop."""
LONGEST_CYCLE = 3
REMEMBERED = REPEATS * LONGEST_CYCLE
"""In edition 1: the number of calls to keep, enough for the longest cycle."""
LEAST_WARNED = 2
"""The fewest rounds of a cycle that the model is warned about."""


ENCODE = encoder(ascii_only=True, sort_keys=True)


def fingerprint(name: str, arguments: Mapping[str, Any]) -> str:
    """Return a fingerprint, equal for calls of the same tool with equal arguments in any order and spacing."""
    return f"{name} {ENCODE(arguments)}"


def digest(*texts: str) -> str:
    """Return a short digest, in practice equal for equal texts only."""
    found = blake2b(digest_size=16)
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        found.update(b"%d:" % len(data))
        found.update(data)
    return found.hexdigest()


def remember(recent: tuple[str, ...], mark: str) -> tuple[str, ...]:
    """Return the fingerprints to keep after another call, in edition 1."""
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


@frozen
class Repetition:
    """A cycle of calls that repeats with its results."""

    length: int
    """How many calls it has."""
    rounds: int
    """How often it was complete, in a row."""
    final: bool
    """Whether the turn ends; else the model is warned."""


def find_repetition(before: Sequence[str], new: Sequence[str], repeats: int) -> Repetition | None:
    """Return the cycle that ends the turn, or that the model has to be warned about now.

    A cycle ends the turn after ``repeats`` rounds, if the model has seen all but the last one. It is warned about once,
    a round earlier, and not before ``LEAST_WARNED`` rounds.

    Args:
        before: digests of calls with their results, of the replies before.
        new: those of the newest reply.
        repeats: at least 2.
    """
    marks, warned = (*before, *new), max(repeats - 1, LEAST_WARNED)
    warning: Repetition | None = None
    for length in range(1, min(LONGEST_CYCLE, len(marks)) + 1):
        count = length  # of the calls that repeat with this period
        while count < len(marks) and marks[-count - 1] == marks[length - count - 1]:
            count += 1
        rounds, seen = count // length, count - len(new)
        if rounds >= repeats and seen >= length * (repeats - 1):
            return Repetition(length, rounds, final=True)
        if warning is None and rounds >= warned and seen < length * warned:
            warning = Repetition(length, rounds, final=False)
    return warning
