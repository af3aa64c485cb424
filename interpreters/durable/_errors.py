"""Errors of durable runs, in addition to those of any session."""

from __future__ import annotations

from cognition import CogstepError


class DurableError(CogstepError):
    """A run on a durable engine failed; the message has the reason. Earlier records stay valid."""


class DurableDivergedError(DurableError):
    """An execution of a run decided differently from an earlier execution: the agent's logic was changed between them.
    The message shows both decisions.
    """

    lines = True


def is_due_to(error: BaseException | None, kinds: tuple[type[BaseException], ...]) -> bool:
    """Whether an error, or one that it came from, is of one of these classes."""
    while error is not None and not isinstance(error, kinds):
        error = error.__cause__
    return error is not None


def run_error(said: str) -> DurableError:
    """Return the error of a failed run.

    Args:
        said: the ``error`` of an ``Ended``: the class name, then the message.
    """
    kind, _, problem = said.partition(": ")
    return DurableDivergedError(problem) if kind == DurableDivergedError.__name__ else DurableError(said)
