"""How patient a program is with a model in a process of its own."""

from __future__ import annotations

from typing import Any

from attrs import Attribute, field, frozen

from cognition.checking import checked
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
    """For ``load_model(isolate=...)``. All times are seconds, and count only while the child has something to do.

    Raises:
        ModelSpecError: a value is out of its range.
    """

    deadline: float = field(default=120.0, validator=_above_zero)
    """Of one step of native code: one batch, or the next bit of progress while weights are loaded. A process that lives
    but takes longer is held to be hung. A batch of 512 tokens takes 100 s where a model reads five tokens a second."""
    silence: float = field(default=15.0, validator=_above_zero)
    """Without any sign of life, which a process gives four times in this while whatever its native code does: it was
    stopped, or starves."""
    start: float = field(default=60.0, validator=_above_zero)
    """Until a new process gives its first sign of life: Python has to be read from the disk first."""
    restarts: int = field(default=5, validator=_not_negative)
    """How often in a row a process is started again without having finished a reply in between. After that every
    request fails, and not as one that is worth another try."""
    backoff: float = field(default=0.5, validator=_not_negative)
    """Before the second restart in a row, doubled for each further one up to 30; the first one is at once."""

    def delay(self, deaths: int) -> float:
        """Seconds before a start, after so many ends in a row."""
        return min(self.backoff * 2.0 ** min(deaths - 2, 64), LONGEST_DELAY) if deaths > 1 else 0.0


LONGEST_DELAY = 30.0
