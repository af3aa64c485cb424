"""Places with many recordings, directories or stores, and operations on a recording besides reading it.

A ``Recorder`` stores only the lines of one session. Listing, searching, pruning, copying and moving sessions uses the
protocols of this module. The package ``sessions`` implements them for files, and ``store`` for sessions in a database.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

from attrs import field, frozen

from cognition.base.protocols import AttributeProtocolMeta
from interpreters.recording.recorder import Where

UNDO = "what `cogstep undo` puts back"
"""Data that a ``Recording`` may have ``beside`` it."""


@frozen
class RecordingInfo:
    """Facts about a recording that need no reading."""

    changed: float
    """Time of the last write, in seconds since the epoch."""
    bytes: int
    """Size of its lines and of all data beside them."""
    now: float | None = field(default=None, eq=False)
    """Present time at the place, if it has its own clock; None for this machine's clock."""


class Recording(Protocol):
    """One recording of a place. It need not exist.

    Methods raise ``OSError`` or ``CogstepError``.
    """

    @property
    def name(self) -> str:
        """The path of the file, or the name of the session in its store."""

    @property
    def where(self) -> Where:
        """The recorder or path that reads and continues the recording."""

    @property
    def not_ours(self) -> str:
        """Why it must not be deleted, as another user's recording; empty if it may."""

    def info(self) -> RecordingInfo | None:
        """Return facts about the recording; None if it does not exist."""

    def is_open(self) -> bool:
        """Whether a session is writing to it now."""

    def is_new_or_gone(self) -> bool:
        """Whether its header is missing because it is being written, or because the recording was deleted. It is not
        damaged.
        """

    def has_no_header(self) -> bool:
        """Whether lines exist but the first is missing, so that the recording is unreadable.

        Always False for files, since the lost first line is unknown.
        """

    def content(self, longest: int) -> bytes | None:
        """Return all lines together, perhaps without the header.

        Returns None if they are longer than ``longest``, or can't be read together.
        """

    def beside(self) -> str:
        """Return the kind of data beside it that can't be moved to another place; empty without such data."""

    def payloads(self) -> Iterator[tuple[str, bytes]]:
        """Yield its large texts, each with the SHA-256 computed from it."""

    def delete(self, about: RecordingInfo, *, dry_run: bool = False) -> str:
        """Delete the recording and all data beside it, under its lock.

        Args:
            about: facts about the recording. If it was written to since, it is not deleted.
            dry_run: only check.

        Returns:
            Why it was not deleted; empty if it was.
        """

    def begin(
        self,
        lines: Callable[[], Iterable[bytes]],
        changed: float,
        payloads: Callable[[], Iterable[tuple[str, bytes]]] = tuple,
    ) -> None:
        """Record these lines here, all or none, if no recording exists.

        Args:
            lines: returns the lines, from the first one on; may be called twice.
            changed: time of their last write, in seconds since the epoch.
            payloads: returns the large texts that the lines refer to; may be called twice.

        Raises:
            JournalExistsError: a recording exists here.
            JournalError: the lines can't be recorded here; the message explains why.
        """


@runtime_checkable
class BatchDeletable(Protocol, metaclass=AttributeProtocolMeta):
    """A recording of a place that deletes several recordings more cheaply together."""

    @property
    def place(self) -> object:
        """An object shared by all recordings of the place; None if deleting together is not cheaper."""

    def delete_batch(self, given: Sequence[tuple[Any, RecordingInfo]]) -> Sequence[str]:
        """``Recording.delete`` of several recordings of the place, all or none.

        Returns:
            For each recording, why it was not deleted.
        """


@runtime_checkable
class Collection(Protocol, metaclass=AttributeProtocolMeta):
    """A place with many recordings that is not a directory, such as a ``SqlStore``."""

    def recordings(self) -> Iterator[Recording]:
        """Yield all recordings, by name."""


Place = str | os.PathLike[str] | Collection | Recording
"""The path of a recording or of a directory of recordings, a store, or one session of a store."""
