"""When a server that could not be reached is tried again."""

from __future__ import annotations

LONGEST = 30.0
"""Seconds."""


def wait_after(failures: int) -> float:
    """Seconds until the next attempt, after so many in a row that failed: none after the first, then 1 doubling to 30.

    The first call after a loss connects at once, since most servers that ended can be started again.
    """
    return 0.0 if failures < 2 else min(LONGEST, 2.0 ** min(failures - 2, 10))
