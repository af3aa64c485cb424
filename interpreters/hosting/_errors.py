"""Errors between a handle and its host."""

from __future__ import annotations

from collections.abc import Callable

from cognition import CogstepError
from interpreters.loop.errors import AgentClosedError, BusyError, PendingError
from runtime.children.line_pipe import Refusal


class HostError(CogstepError):
    """The host refused a request, or an error of the program itself broke off a turn.

    Attributes:
        error: the class name of the error on the host's side, such as ``"JournalWriteError"``.
    """

    def __init__(self, message: str, error: str) -> None:
        super().__init__(f"{message} ({error})" if error else message)
        self.error = error


class HostTimeoutError(CogstepError):
    """The host did not answer in time, or did not end a cancelled turn. It may hang for good.

    Attributes:
        seconds: the time waited.
    """

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"{what} within {seconds:g} seconds; close the host if this is not the first time")
        self.seconds = seconds


class HostDiedError(CogstepError):
    """The host has ended: its process was killed or crashed, or it was closed. Recorded sessions can be resumed."""


KNOWN: dict[str, Callable[[Refusal], CogstepError]] = {
    "AgentClosedError": lambda told: AgentClosedError(told.message),
    "BusyError": lambda told: BusyError(told.message),
    "PendingError": lambda told: PendingError(told.message),
    "": lambda told: HostError(told.message, told.error),
}
"""The class raised on the handle's side for an error of the host's side."""
