"""Timeouts and restarts of a model in a child process."""

from __future__ import annotations

from typing import Any

from attrs import Attribute, field, frozen

from cognition.base.checking import checked
from runtime.errors import ModelSpecError


def _above_zero(_settings: Isolation, attribute: Attribute[Any], value: float) -> None:
    if not value > 0:
        raise ModelSpecError(f"Isolation.{attribute.name} must be above 0, not {value!r}")


def _not_negative(_settings: Isolation, attribute: Attribute[Any], value: float) -> None:
    if not value >= 0:
        raise ModelSpecError(f"Isolation.{attribute.name} must not be negative, but is {value!r}")


@checked
@frozen(kw_only=True)
class Isolation:
    """Options of ``load_model(isolate=...)``. All times are in seconds, and run only while the child has work.

    Raises:
        ModelSpecError: a value is out of range.
    """

    deadline: float = field(default=120.0, validator=_above_zero)
    """Maximum time of one step of native code: one batch, or the next progress while loading weights. A process that
    lives but takes longer counts as hung. A batch of 512 tokens takes 100 s at five tokens a second.
    """
    silence: float = field(default=15.0, validator=_above_zero)
    """Maximum time without any sign of life. A process sends four in this time, even during native code; if they are
    missing, it is stopped or starved.
    """
    start: float = field(default=60.0, validator=_above_zero)
    """Maximum time until the first sign of life of a new process: it first loads Python from disk."""
    restarts: int = field(default=5, validator=_not_negative)
    """Maximum consecutive restarts without a finished reply. After that every request fails permanently, not as
    ``transient``.
    """
    backoff: float = field(default=0.5, validator=_not_negative)
    """Delay before the second consecutive restart, doubled for each further one up to 30; the first restart is
    immediate.
    """

    def delay(self, deaths: int) -> float:
        """Return the seconds before a start, after ``deaths`` consecutive ends."""
        return min(self.backoff * 2.0 ** min(deaths - 2, 64), LONGEST_DELAY) if deaths > 1 else 0.0


LONGEST_DELAY = 30.0
