"""Errors of a store as a whole. Errors of one session in it are ``JournalError``."""

from __future__ import annotations

from cognition import CogstepError
from interpreters.recording.journal.errors import TakenOverError as TakenOverError, shorten


class StoreError(CogstepError):
    """The database can't be used: it is unreachable, has another schema, or its URL is invalid.

    Attributes:
        store: the database, without a password.
        problem: the problem and its solution, without the store's name.
    """

    def __init__(self, problem: str, *, store: str) -> None:
        self.problem: str = shorten(" ".join(problem.split()))
        super().__init__(f"{store}: {self.problem}")
        self.store = store
