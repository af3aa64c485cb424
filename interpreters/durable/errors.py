"""What can go wrong with a durable run, beside what goes wrong with any session."""

from __future__ import annotations

from cognition import CogstepError


class DurableError(CogstepError):
    """A run on a durable engine failed; says why. What was recorded before holds."""


class DurableDivergedError(DurableError):
    """An execution of a run decided something else than an earlier one of the same run: the agent's logic was changed
    between them. The message shows both, below each other.
    """

    lines = True


def failed(said: str) -> DurableError:
    """The error of a run that has ended with one.

    Args:
        said: as an ``Ended`` has it, the name of its class before it.
    """
    kind, _, problem = said.partition(": ")
    return DurableDivergedError(problem) if kind == DurableDivergedError.__name__ else DurableError(said)
