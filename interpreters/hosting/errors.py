"""What goes wrong between a handle and its host."""

from __future__ import annotations

from collections.abc import Callable

from cognition import CogstepError
from interpreters.loop.errors import AgentClosedError, BusyError, PendingError
from runtime.children.lines import Refusal, restored


class HostError(CogstepError):
    """The host refused something, or a turn there broke off by an error of the program's own.

    Attributes:
        error: the class of the error on the host's side, such as ``"JournalWriteError"``.
    """

    def __init__(self, message: str, error: str) -> None:
        super().__init__(f"{message} ({error})" if error else message)
        self.error = error


class HostTimeoutError(CogstepError):
    """The host gave no answer in time, or no end of a turn that was cancelled. What hangs there may hang for good.

    Attributes:
        seconds: how long it was waited for.
    """

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"{what} within {seconds:g} seconds; close the host if this is not the first time")
        self.seconds = seconds


class HostDiedError(CogstepError):
    """The host has gone: its process was killed or crashed, or it was closed. What was recorded can be resumed."""


KNOWN: dict[str, Callable[[Refusal], CogstepError]] = {
    "AgentClosedError": lambda told: AgentClosedError(told.message),
    "BusyError": lambda told: BusyError(told.message),
    "PendingError": lambda told: PendingError(told.message),
    "": lambda told: HostError(told.message, told.error),
}
"""How errors of the host's side are raised on the handle's."""


def error_named(name: str, message: str) -> CogstepError:
    """The error of a class on the host's side, as it is raised here."""
    return restored(Refusal(name, message), KNOWN)
