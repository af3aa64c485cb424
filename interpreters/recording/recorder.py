"""The protocol of recorders, for programs that store sessions outside files.

A recorder stores lines. It does not interpret their contents: the header, the records, each line's sum and seal, and
the redactions. So damage, foreign recordings and secrets are handled equally in all recorders.
``interpreters.testing.recorders`` tests a recorder against this protocol.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

from cognition.base.protocols import AttributeProtocolMeta


@runtime_checkable
class Recorder(Protocol, metaclass=AttributeProtocolMeta):
    """The place where one session is or will be recorded. Two recorders with equal arguments are the same place.

    Any exception of a method is raised as a ``JournalError`` with the recorder's name.
    """

    @property
    def name(self) -> str:
        """The name for errors and reports."""

    def lock(self, new: bool) -> bool:
        """Lock the place for one writer. Return False, without waiting, if another writer has it.

        The lock lasts until ``close``, until the recorder is garbage, or until the process ends in any way. If ``new``
        is False, create nothing that does not exist.
        """

    def append(self, number: int, line: bytes, force: bool) -> None:
        """Store a line under its number: 0, 1, 2 and so on without gaps.

        On return, the complete line survives a kill of the process; with ``force``, also a crash of the machine. If it
        raises or is interrupted, the line may or may not be stored. The next call then has the same number, and its
        line replaces the earlier one. Only one thread calls it at a time, not necessarily the one that locked the
        place.
        """

    def lines(self) -> Iterable[bytes]:
        """Return the lines in order, each unchanged to the byte; empty if there is no recording.

        Needs no lock. During writes by others, it returns complete lines from the first one on.
        """

    def close(self) -> None:
        """Release the place. A second call does nothing."""


@runtime_checkable
class Beside(Protocol, metaclass=AttributeProtocolMeta):
    """Optional part of a recorder: a place for undo data, the contents of files before the session's tools changed
    them.

    Without it, undo is not possible: see ``interpreters.undo``.
    """

    @property
    def beside(self) -> str | os.PathLike[str] | None:
        """A path that belongs to this session alone; the file need not exist.

        For ``sessions/ada``, undo data goes into the directory ``sessions/ada.files``. The first change creates it, and
        no other program may delete it. None: no place.
        """


@runtime_checkable
class KeepsPayloads(Protocol, metaclass=AttributeProtocolMeta):
    """Optional part of a recorder: a place for the large texts of a session, each stored once.

    With it, a text of 16,384 characters or more becomes a payload, and its line contains the SHA-256 of its UTF-8. The
    lines are then equal to those of a file, to the byte. Without it, these texts are in the lines. The library checks
    that a payload matches its name.
    """

    def append_with(self, number: int, line: bytes, payloads: Mapping[str, bytes], force: bool) -> None:
        """``Recorder.append`` of a line with its new payloads, by name.

        Payloads are as durable as their line: after a crash of the machine, a payload may be lost only together with
        the line. They remain stored if another line replaces this one, until the session is deleted. A resumed session
        may send payloads again.
        """

    def payload(self, name: str) -> bytes | None:
        """Return the payload with this name, unchanged to the byte, or None. Needs no lock."""


@runtime_checkable
class MayWait(Protocol, metaclass=AttributeProtocolMeta):
    """Optional part of a recorder: whether storing a line may take long, as with a database on another machine."""

    @property
    def may_wait(self) -> bool:
        """Whether the next ``append`` or ``close`` may take long.

        If so, an ``AsyncAgent`` calls it on a thread, which costs about 0.1 ms, to keep its loop free. It is read
        before each call and must return immediately.
        """


Where = str | os.PathLike[str] | Recorder
"""The place of a recording: the path of a file, or a recorder."""


def path_of(where: Where) -> Path:
    """Return the path of the file; for other recorders their name, as used in errors and reports."""
    return Path(where.name) if isinstance(where, Recorder) else Path(where)


def beside(where: Where) -> Path | None:
    """Return the path of the undo data; None if the recorder has no place for it."""
    if not isinstance(where, Recorder):
        return Path(where)
    place = where.beside if isinstance(where, Beside) else None
    return None if place is None else Path(place)
