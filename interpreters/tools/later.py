"""``LATER``: the answer of a program that will give its answer another time. See ``interpreters.program.later``."""

from __future__ import annotations

from enum import Enum
from typing import Final


class Later(Enum):
    """The type of ``LATER``, which is its only value."""

    LATER = "LATER"

    def __repr__(self) -> str:
        return "LATER"


LATER: Final = Later.LATER
"""Returned by a program's ``approve``, ``ask`` or ``review``, or by its own performer of a tool's call: the answer will
be handed in by ``answer``. Until then the turn waits, across ``close()``, a crash and a restart; only ``cancel`` gives
it up."""
