"""Places with many recordings, a directory or a store, and what can be done with one of them besides reading it.

A ``Recorder`` keeps the lines of one session and no more. To list, search, prune, copy and move sessions takes what is
said here: ``sessions.files`` says it of files, ``store`` of sessions in a database.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

from attrs import field, frozen

from interpreters.recording.recorder import Where

UNDO = "what `cogstep undo` puts back"
"""What a ``Recording`` may have ``beside`` it."""


@frozen
class About:
    """What is known of a recording without reading it."""

    changed: float
    """When it was last written, in seconds since the epoch."""
    bytes: int
    """The size of its lines, and of all that stands beside them."""
    now: float | None = field(default=None, eq=False)
    """What time it is there, where the place has a clock of its own; None: the time is this machine's."""


class Recording(Protocol):
    """One recording of a place, which need not be there.

    What a method raises is an ``OSError`` or a ``CogstepError``.
    """

    @property
    def name(self) -> str:
        """What its place calls it: the path of a file, or the name of a session in its store."""

    @property
    def where(self) -> Where:
        """What reads it, and goes on with it."""

    @property
    def not_ours(self) -> str:
        """Why it may not be deleted, as what is another user's; empty if it may."""

    def about(self) -> About | None:
        """What is known of it; None if nothing is recorded here."""

    def is_open(self) -> bool:
        """Whether a session writes it now."""

    def begins_or_is_gone(self) -> bool:
        """Whether its header can't be read because it is being written, or because it was deleted: it is not bad."""

    def has_no_header(self) -> bool:
        """Whether lines are here and the first one is not, so that nobody can read them. Never of a file: what its
        first line was is not known.
        """

    def content(self, longest: int) -> bytes | None:
        """All its lines at once, but for the header perhaps; None if they are longer, or can't be had at once."""

    def beside(self) -> str:
        """What stands beside it that can't be taken to another place; empty: nothing."""

    def payloads(self) -> Iterator[tuple[str, bytes]]:
        """Its large texts, each by the SHA-256 that it was found to have."""

    def delete(self, about: About, *, dry_run: bool = False) -> str:
        """Delete it with all that stands beside it, while nobody can write it.

        Args:
            about: what is known of it. What was written since then is kept.
            dry_run: only see whether it would be.

        Returns:
            Why it was kept; empty: it is deleted.
        """

    def begin(
        self,
        lines: Callable[[], Iterable[bytes]],
        changed: float,
        payloads: Callable[[], Iterable[tuple[str, bytes]]] = tuple,
    ) -> None:
        """Record these lines here, all of them or none, where nothing is recorded.

        Args:
            lines: gives them, each time from the first one on; they may be asked for twice.
            changed: when they were last written, in seconds since the epoch.
            payloads: gives the large texts that they name, likewise.

        Raises:
            JournalExistsError: something is recorded here.
            JournalError: they can't be recorded here; says why.
        """


@runtime_checkable
class DeletesTogether(Protocol):
    """A recording of a place where it costs less to delete several at once."""

    @property
    def place(self) -> object:
        """What all recordings of the place have; None: here it costs no less."""

    def delete_together(self, given: Sequence[tuple[Any, About]]) -> Sequence[str]:
        """``Recording.delete`` of several recordings of the place, all of them or none.

        Returns:
            Of each of them, why it was kept.
        """


@runtime_checkable
class Collection(Protocol):
    """A place with many recordings that is no directory, such as a ``SqlStore``."""

    def recordings(self) -> Iterator[Recording]:
        """All of them, by their names."""


Place = str | os.PathLike[str] | Collection | Recording
"""The path of a recording or of a directory of recordings, a store, or one session of a store."""
