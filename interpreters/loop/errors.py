"""Errors of the embedding program in its use of an interpreter. Errors of models and tools are part of the outcome."""

from __future__ import annotations

from cognition import CogstepError, Outcome


class BusyError(CogstepError):
    """The agent was called while a turn was under way."""


class PendingError(CogstepError):
    """The previous turn waits for answers, and this call would give it up.

    Hand the answers in with ``answer``, or give the turn up with ``cancel``.
    """


class AgentClosedError(CogstepError):
    """The agent was used after ``close()``."""


class TurnFailedError(CogstepError):
    """A turn ended without an answer. Only ``RunResult.raise_for_failure`` raises it.

    Attributes:
        outcome: how the turn ended.
    """

    def __init__(self, message: str, outcome: Outcome) -> None:
        super().__init__(message)
        self.outcome = outcome
