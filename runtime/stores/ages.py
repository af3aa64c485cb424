"""How much more what is new counts in a memory than what is old."""

from __future__ import annotations

import math
from datetime import date
from functools import lru_cache

RECENCY, HALF_LIFE = 0.5, 30
"""What the passages of today count more than those without a date, and the days after which that is half as much."""


def recency(day: int, today: date) -> float:
    """What the words of a passage are multiplied by: 1.5 today, 1.25 after 30 days, towards 1; 1 without a date.

    Args:
        day: its ordinal, 0 for none.
        today: the day from which it counts.
    """
    return 1.0 + RECENCY * math.exp2(-max(0, today.toordinal() - day) / HALF_LIFE) if day else 1.0


class Ages(dict[int, float]):
    """How much the passages of days count, by the days' numbers."""

    def __init__(self, today: date) -> None:
        self._today = today

    def __missing__(self, number: int) -> float:
        self[number] = found = recency(number, self._today)
        return found


ages_of = lru_cache(maxsize=2)(Ages)
"""Those of a day: a search has hundreds of passages."""
