"""Lists the sessions in directories and stores, reading only as much as a list needs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from heapq import nlargest
from pathlib import Path
from typing import Literal

from attrs import frozen

from cognition import Input, UserSpoke
from cognition.values.content import text_with_placeholders
from interpreters.recording.collections import Collection, Place, Recording
from interpreters.recording.journal import JournalError, JournalReader, NotAJournalError, Origin
from interpreters.recording.recorder import path_of
from interpreters.recording.sessions._file_recording import FileRecording

Status = Literal["open", "interrupted", "idle"]
"""Status of a session. ``open``: a session is writing it. ``interrupted``: it ends inside a turn, for example one that
waits for an answer. ``idle``: it ends after a turn.
"""

SUFFIX = ".jsonl"
"""Suffix of the files that a directory's list includes."""


@frozen
class SessionInfo:
    """Summary of a recorded session."""

    path: Path
    """The file; for a session in a store, its name in errors."""
    session: str
    created: float
    """Time of creation, in seconds since the epoch."""
    changed: float
    """Time of the last write, in seconds since the epoch."""
    status: Status
    turns: int
    records: int
    bytes: int
    """Size of the journal and of all data beside it."""
    title: str
    """The user's first message; empty if there is none yet."""
    origin: Origin | None
    redacted: int
    damage: str
    """Problem with a record. Neither it nor later records are counted. Empty for an intact journal."""
    warnings: tuple[str, ...]
    foreign: str
    """Why the recording does not count as this user's own; empty if it does."""
    name: str
    """The path of the file, or the name of the session in its store."""


@frozen
class BadFile:
    """A file, or a session of a store, that is not a readable journal."""

    path: Path
    reason: str
    name: str


def journals_in(places: Iterable[Place]) -> Iterator[Recording]:
    """Yield the named files, the ``.jsonl`` files of the named directories, and the sessions of stores.

    Raises:
        OSError: a place can't be read.
        CogstepError: a store can't be read, or has no session with a name.
    """
    for place in places:
        if isinstance(place, str | os.PathLike):
            yield from map(FileRecording, _files_of(Path(place)))
        elif isinstance(place, Collection):
            yield from place.recordings()
        elif not _exists(place):
            raise NotAJournalError("nothing is recorded here", path=path_of(place.where))
        else:
            yield place


def _exists(recording: Recording) -> bool:
    try:
        return recording.info() is not None
    except JournalError:  # it is damaged
        return True


def _files_of(place: Path) -> Iterator[Path]:
    if place.is_dir():
        yield from sorted(path for path in place.iterdir() if path.suffix == SUFFIX and path.is_file())
    else:
        place.stat()
        yield place


def list_sessions(*places: Place, newest: int | None = None) -> Iterator[SessionInfo | BadFile]:
    """Yield every journal at these places, by name. Unreadable files come with the reason.

    Args:
        places: files, directories, a ``SqlStore``, or a result of its ``recording``.
        newest: yield only this number of last written journals, newest first; the others are not read. None: all.

    Raises:
        OSError: a place can't be read.
        CogstepError: a store can't be read.
    """
    found: Iterable[Recording] = journals_in(places)
    if newest is not None:
        found = nlargest(newest, found, key=_modified_at)
    for recording in found:
        try:
            info = summarize_session(recording)
            if info is not None and (info.damage or info.warnings):  # it may have been written at that moment
                info = summarize_session(recording)
            if info is not None:
                yield info
        except JournalError as error:
            yield BadFile(path_of(recording.where), error.problem, recording.name)


def _modified_at(recording: Recording) -> float:
    try:
        about = recording.info()
    except (OSError, JournalError):  # who reads it is told why
        return 0.0
    return 0.0 if about is None else about.changed


def open_reader(recording: Recording) -> JournalReader | None:
    """Return the reader of a recording; None if it was deleted, or a session is about to write its first line.

    Raises:
        JournalError: the header can't be read.
    """
    try:
        return JournalReader(recording.where)
    except JournalError:
        if recording.is_new_or_gone():
            return None
        return JournalReader(recording.where)  # which may have its first line by now


def summarize_session(recording: Recording) -> SessionInfo | None:
    """Return the summary of a session; None if it is gone or has not begun.

    A million records take seconds: inputs are not decoded, and nothing is replayed.

    Raises:
        JournalError: the header can't be read. The result reports a damaged record.
    """
    reader = open_reader(recording)
    if reader is None:
        return None
    records = turns = redacted = 0
    title, damage, under_way = "", "", False
    with reader:
        header = reader.header
        redacted += sum(one["count"] for one in header.redacted)
        try:
            for line in reader.lines():
                begins, ends, hides = classify_record(reader, line, records + 1)
                records += 1
                if begins:
                    under_way = True
                    title = title or _text(reader.record(line, records).input)
                if ends:
                    turns += 1
                    under_way = False
                if hides:
                    redacted += sum(one["count"] for one in reader.record(line, records).redacted)
        except JournalError as error:
            damage = error.problem
    try:
        about = recording.info()
        is_open = about is not None and recording.is_open()
    except OSError:
        return None
    if about is None:
        return None
    return SessionInfo(
        reader.path,
        header.session,
        header.created,
        about.changed,
        "open" if is_open else "interrupted" if under_way else "idle",
        turns,
        records,
        about.bytes,
        title,
        header.origin,
        redacted,
        damage,
        () if is_open else tuple(reader.warnings),  # what looks torn, is being written
        reader.foreign,
        recording.name,
    )


def classify_record(reader: JournalReader, line: bytes, number: int) -> tuple[bool, bool, bool]:
    """Return whether a turn begins with record ``number``, whether a turn ends, and whether a secret was hidden in it.

    In a line written by a session, this needs no decoding: half a microsecond instead of 30.

    Raises:
        JournalError: the line has another form and can't be decoded.
    """
    if line.startswith(b'{"seq":%d,"input":{"type":"' % number):
        # Within a text the quotes would be escaped, so that these bytes can't stand there.
        spoke = b'"input":{"type":"user_spoke"' in line and b'{"type":"rejected"' not in line
        return spoke, b'{"type":"turn_finished"' in line, b'"redacted":[' in line
    record = reader.record(line, number)
    kinds = [one.get("type") for one in record.decisions if isinstance(one, dict)]
    spoke = isinstance(record.input, UserSpoke) and "rejected" not in kinds
    return spoke, "turn_finished" in kinds, bool(record.redacted)


def _text(event: Input) -> str:
    return text_with_placeholders(event.text, event.parts) if isinstance(event, UserSpoke) else ""
