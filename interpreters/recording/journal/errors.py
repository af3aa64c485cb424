"""What can be wrong with a journal: each case has its own error, and all of them are ``JournalError``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cognition import CogstepError

if TYPE_CHECKING:
    from interpreters.recording.journal.format import Record


LONGEST = 1000
"""Characters of what an error says: it may repeat what stands in a file, where anything may stand."""


def shortened(message: str) -> str:
    """A message that somebody can read; of a longer one, both ends."""
    return message if len(message) <= LONGEST else f"{message[: LONGEST // 2]} ... {message[-LONGEST // 2 :]}"


class JournalError(CogstepError):
    """A journal can't be read or written.

    Attributes:
        path: the file.
        line: the line that it is about, from 1; None for the file as a whole.
        problem: what is wrong, for where the file's name stands already.
    """

    def __init__(self, message: str, *, path: Path, line: int | None = None) -> None:
        place = f"line {line}: " if line is not None else ""
        self.problem = f"{place}{shortened(message)}"
        super().__init__(f"{path}{', ' if place else ': '}{self.problem}")
        self.path = path
        self.line = line


class NotAJournalError(JournalError):
    """The file is something else."""


class JournalVersionError(JournalError):
    """The journal was written by a cogstep whose format this one can't read."""


class JournalDamagedError(JournalError):
    """A line is no record or was changed, records are missing, or a payload is.

    Attributes:
        record: what stands in the line now, where it was changed and still is a record; for a replay, which shows how
            its decisions differ.
    """

    def __init__(self, message: str, *, path: Path, line: int | None = None, record: Record | None = None) -> None:
        super().__init__(message, path=path, line=line)
        self.record = record


class UnknownTagError(JournalError):
    """A record holds an input of a type that this version doesn't know."""


class ForeignRecordingError(JournalError):
    """The recording was not written by this user, or nothing shows that it was, and can't be gone on with as one's own.

    What it says of policy, tools, limits and approvals is somebody else's word. Its conversation can be taken over into
    a session of one's own: ``Agent.fork(path, ..., foreign=True)``.

    Attributes:
        reason: why it doesn't count as the user's own.
    """

    def __init__(self, what: str, reason: str, *, path: Path) -> None:
        super().__init__(
            f"not recorded by this user ({reason}), and so it can't be {what}. It can be shown, searched and replayed; "
            "to take its conversation over into a session of your own, fork it with foreign=True (`cogstep fork "
            "--foreign`)",
            path=path,
        )
        self.reason = reason


class JournalExistsError(JournalError):
    """The file is there already; a recording is never overwritten."""


class JournalLockedError(JournalError):
    """Another session is writing this journal."""


class JournalWriteError(JournalError):
    """A record can't be written. Everything before it is on file, and its decisions were not carried out."""


class TakenOverError(JournalWriteError):
    """Another process has taken the session over. Nothing was written, and nothing can be by whoever gets this."""
