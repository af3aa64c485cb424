"""Errors of journals: one class for each case, all derived from ``JournalError``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cognition import CogstepError
from cognition.base.elision import elide
from runtime.files import reason_about

if TYPE_CHECKING:
    from interpreters.recording.journal.format import Record


LONGEST = 1000
"""Maximum characters of an error message, because it may repeat text from an untrusted file."""


def shorten(message: str) -> str:
    """Return a message of readable length: of a long one, both ends."""
    return message if len(message) <= LONGEST else elide(message, LONGEST // 2, LONGEST // 2, lambda _: " ... ")


class JournalError(CogstepError):
    """A journal can't be read or written.

    Attributes:
        path: the file.
        line: number of the line, from 1; None for the whole file.
        problem: the problem without the file's name.
    """

    def __init__(self, message: str, *, path: Path, line: int | None = None) -> None:
        place = f"line {line}: " if line is not None else ""
        self.problem: str = f"{place}{shorten(message)}"
        super().__init__(f"{path}{', ' if place else ': '}{self.problem}")
        self.path = path
        self.line = line


class NotAJournalError(JournalError):
    """The file is not a journal."""


class JournalVersionError(JournalError):
    """A cogstep with an unsupported journal version wrote this journal."""


class JournalDamagedError(JournalError):
    """A line is not a record or was changed, or records or a payload are missing.

    Attributes:
        record: the present content of a changed line, if it is still a record. A replay uses it to show how the
            decisions differ.
    """

    def __init__(self, message: str, *, path: Path, line: int | None = None, record: Record | None = None) -> None:
        super().__init__(message, path=path, line=line)
        self.record = record


class UnknownTagError(JournalError):
    """A record contains an input of a type that this version does not know."""


class ForeignRecordingError(JournalError):
    """There is no proof that this user wrote the recording, so it can't be continued as this user's own.

    Its policy, tools, limits and approvals come from a stranger. To use its conversation in your own session, call
    ``Agent.fork(path, ..., foreign=True)``.

    Attributes:
        reason: why it does not count as this user's own.
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
    """The file already exists. A recording is never overwritten."""


class JournalLockedError(JournalError):
    """Another session is writing this journal."""


class JournalWriteError(JournalError):
    """A record can't be written. All earlier records are on file, and its decisions were not carried out."""


def unwritten_error(error: OSError, path: Path) -> JournalWriteError:
    """Return the error of a record that the disk did not take."""
    return JournalWriteError(
        f"the record could not be written ({reason_about(error, path)}); everything before it is kept. "
        "Make room or choose another place, then go on",
        path=path,
    )


class TakenOverError(JournalWriteError):
    """Another process has taken over the session. The record was not written, and this process can't write again."""
