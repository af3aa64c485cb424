"""What can be wrong with a store as a whole. What is wrong with a session of it is a ``JournalError``."""

from __future__ import annotations

from cognition import CogstepError
from interpreters.recording.journal.errors import TakenOverError as TakenOverError, shortened


class StoreError(CogstepError):
    """The database can't be used: it can't be reached, has another schema, or its URL says nothing that can be opened.

    Attributes:
        store: the database, without a password.
        problem: what is wrong and what to do, for where the store's name stands already.
    """

    def __init__(self, problem: str, *, store: str) -> None:
        self.problem = shortened(" ".join(problem.split()))
        super().__init__(f"{store}: {self.problem}")
        self.store = store
