"""How much recent passages of a memory outweigh old ones."""

from __future__ import annotations

import math
from datetime import date
from functools import lru_cache

RECENCY, HALF_LIFE = 0.5, 30
"""The extra weight of today's passages over those without a date, and its half-life in days."""


def recency(day: int, today: date) -> float:
    """Return the weight of a passage: 1.5 today, 1.25 after 30 days, approaching 1; 1 without a date.

    Args:
        day: its ordinal, 0 for none.
        today: the current day.
    """
    return 1.0 + RECENCY * math.exp2(-max(0, today.toordinal() - day) / HALF_LIFE) if day else 1.0


class Ages(dict[int, float]):
    """Weights by the ordinal of the day."""

    def __init__(self, today: date) -> None:
        self._today = today

    def __missing__(self, number: int) -> float:
        self[number] = found = recency(number, self._today)
        return found


ages_of = lru_cache(maxsize=2)(Ages)
"""Cached per day: a search has hundreds of passages."""
