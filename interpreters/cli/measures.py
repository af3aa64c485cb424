"""Figures as they are shown, and the memory of this process."""

from __future__ import annotations

import sys

from attrs import frozen


@frozen
class Figure:
    """One line of what was measured."""

    name: str
    value: str
    """With its unit."""
    note: str = ""


def per_second(number: float, seconds: float) -> float:
    """A rate; of something that took no time that the clock could see, 0."""
    return number / seconds if seconds > 0 else 0.0


def short(value: float) -> str:
    """A figure with as many digits as a busy machine deserves, three at the most: 0.043, 2.1, 27.3, 1250."""
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 0.995 else f"{value:.2g}"


def size(number: float) -> str:
    """Bytes in decimal units: ``639 MB``."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if number >= scale:
            return f"{short(number / scale)} {unit}"
    return f"{number:.0f} B"


def peak_memory() -> int | None:
    """Bytes of this process that were in memory at the same time, at the most; None where the system does not say."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
