"""The delay before the next attempt to reach a server."""

from __future__ import annotations

LONGEST = 30.0
"""Seconds."""


def wait_after(failures: int) -> float:
    """Return the seconds until the next attempt after ``failures`` in a row: 0 after the first, then 1, doubling up to
    30.

    The first call after a loss connects immediately, since most servers that ended can be started again.
    """
    return 0.0 if failures < 2 else min(LONGEST, 2.0 ** min(failures - 2, 10))
