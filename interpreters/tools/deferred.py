"""``LATER``: a program returns it to answer later. See ``interpreters.loop.program.pending``."""

from __future__ import annotations

from enum import Enum
from typing import Final


class Later(Enum):
    """The type of ``LATER``, its only value."""

    LATER = "LATER"

    def __repr__(self) -> str:
        return "LATER"


LATER: Final = Later.LATER
"""Return this from ``approve``, ``ask``, ``review`` or your own performer of tool calls to hand in the answer later
with ``answer``. The turn waits until then, across ``close()``, a crash and a restart. Only ``cancel`` ends the wait.
"""
