"""What records a session: the protocol, for programs that keep sessions elsewhere than in files.

A recorder keeps lines. What stands in them (the header, the records, each line's sum and seal, what was hidden) is the
same for all recorders and none of their business; so damage, strangers' recordings and secrets are found and refused
in the same way wherever a session is kept. ``interpreters.testing.recorders`` holds a recorder to what is said here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable


@runtime_checkable
class Recorder(Protocol):
    """The place where one session is recorded, or will be. Two recorders made alike are the same place.

    Whatever a method raises, is told as a ``JournalError`` with the recorder's name.
    """

    @property
    def name(self) -> str:
        """What errors and reports call it."""

    def lock(self, new: bool) -> bool:
        """Take the place for one writer; False if somebody else has it, and without waiting for them.

        It is held until ``close``, until nobody refers to the recorder any more, or until the process ends, however it
        does. ``new`` says whether a recording is to begin: otherwise nothing is made that is not there.
        """

    def append(self, number: int, line: bytes, force: bool) -> None:
        """Keep a line under its number: 0, 1, 2 and so on, each time one more.

        When this returns, the line is kept whole though the process is killed; with ``force``, though the machine is.
        When it raises, or is interrupted, it may be kept or not: then the next call has the same number, and its line
        takes the place of what was left. Called by one thread at a time, which need not be the one that locked it.
        """

    def lines(self) -> Iterable[bytes]:
        """The lines by their numbers, each as it was given, to the byte; without any, nothing is recorded here.

        Needs no lock. While somebody else writes, it gives whole lines from the first one on.
        """

    def close(self) -> None:
        """Give the place free. A second call does nothing."""


@runtime_checkable
class Beside(Protocol):
    """What a recorder may have besides: a place for what files held before the session's tools changed them.

    Without one nothing is kept, and nothing can be undone: see ``interpreters.undo``.
    """

    @property
    def beside(self) -> str | os.PathLike[str] | None:
        """A path that is this session's alone, of a file that need not be there: ``sessions/ada`` stands for the
        directory ``sessions/ada.files``, which is made at the first change and which nobody else deletes. None: there
        is no place.
        """


@runtime_checkable
class KeepsPayloads(Protocol):
    """What a recorder may have besides: a place for the large texts of a session, each of which stands there once.

    With it a text of 16,384 characters or more is a payload, and its line names it by the SHA-256 of its UTF-8; so the
    lines are those of a file, to the byte. Without one these texts stand in their lines. That a payload is what its
    name says is the library's to check.
    """

    def append_with(self, number: int, line: bytes, payloads: Mapping[str, bytes], force: bool) -> None:
        """``Recorder.append`` of a line with the payloads that it brings, by their names.

        Wherever the line is kept, so are they: also through a crash of the machine, after which either may be gone only
        with the line. They stay though another line takes its place, until the session is deleted. Whoever goes on with
        a session may bring again what is there.
        """

    def payload(self, name: str) -> bytes | None:
        """What was brought under a name, to the byte; None if there is nothing. Needs no lock."""


@runtime_checkable
class MayWait(Protocol):
    """What a recorder may say besides: whether to keep a line may take long, as with a database on another machine."""

    @property
    def may_wait(self) -> bool:
        """Whether the next ``append`` or ``close`` may. Then an ``AsyncAgent`` has it wait on a thread, which costs
        some 0.1 ms, and not in its loop, which has to stand still meanwhile. Looked at before each; has to be known at
        once.
        """


Where = str | os.PathLike[str] | Recorder
"""Where a session is recorded: the path of a file, or a recorder."""


def path_of(where: Where) -> Path:
    """The file; of another recorder the name, by which errors and reports call it."""
    return Path(where.name) if isinstance(where, Recorder) else Path(where)


def beside(where: Where) -> Path | None:
    """The path beside which stands what its tools have overwritten; None where there is no place for that."""
    if not isinstance(where, Recorder):
        return Path(where)
    place = where.beside if isinstance(where, Beside) else None
    return None if place is None else Path(place)
