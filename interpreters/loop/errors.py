"""What the embedding program does wrong with an interpreter. What models and tools do wrong is in the outcome."""

from __future__ import annotations

from cognition import CogstepError, Outcome


class BusyError(CogstepError):
    """An agent was asked to do something while a turn was under way."""


class PendingError(CogstepError):
    """The turn before waits for answers, and what was asked of the agent would give it up.

    Hand the answers in with ``answer``, or give the turn up with ``cancel``.
    """


class AgentClosedError(CogstepError):
    """An agent was used after ``close()``."""


class TurnFailedError(CogstepError):
    """A turn brought no answer; raised by ``RunResult.raise_for_failure`` and by nothing else.

    Attributes:
        outcome: how the turn ended.
    """

    def __init__(self, message: str, outcome: Outcome) -> None:
        super().__init__(message)
        self.outcome = outcome
