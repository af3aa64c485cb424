"""What can go wrong with a durable run, beside what goes wrong with any session."""

from __future__ import annotations

from cognition import CogstepError


class DurableError(CogstepError):
    """A run on a durable engine failed; says why. What was recorded before holds."""


class DurableDivergedError(DurableError):
    """An execution of a run decided something else than an earlier one of the same run: the agent's logic was changed
    between them. The message shows both.
    """
