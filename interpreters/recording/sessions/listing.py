"""Which sessions there are: found in directories and stores, looked at without reading more than a list needs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from heapq import nlargest
from pathlib import Path
from typing import Literal

from attrs import frozen

from cognition import Input, UserSpoke
from cognition.content import shown_parts
from interpreters.recording.journal import JournalError, JournalReader, NotAJournalError, Origin
from interpreters.recording.places import Collection, Place, Recording
from interpreters.recording.recorder import path_of
from interpreters.recording.sessions.files import FileRecording

Status = Literal["open", "interrupted", "idle"]
"""``open``: a session writes it now. ``interrupted``: it ends in the middle of a turn, such as one
that waits for an answer. ``idle``: it ends behind one."""

SUFFIX = ".jsonl"
"""Which files of a directory are looked at."""


@frozen
class SessionInfo:
    """A recorded session at a glance."""

    path: Path
    """The file; of a session in a store, what errors call it."""
    session: str
    created: float
    """Seconds since the epoch, like the next."""
    changed: float
    """When it was last written."""
    status: Status
    turns: int
    """The number of turns that have ended."""
    records: int
    bytes: int
    """The size of the journal and of all that stands beside it."""
    title: str
    """The user's first message; empty if there is none yet."""
    origin: Origin | None
    redacted: int
    """The number of secrets that were hidden."""
    damage: str
    """What is wrong with a record, of which and behind which nothing was counted. Empty for a whole journal."""
    warnings: tuple[str, ...]
    foreign: str
    """Why it doesn't count as this user's own; empty if it does."""
    name: str
    """What its place calls it: the path of a file, or the name of a session in its store."""


@frozen
class BadFile:
    """A file, or a session of a store, that is no readable journal."""

    path: Path
    reason: str
    name: str
    """As in ``SessionInfo``."""


def journals_in(places: Iterable[Place]) -> Iterator[Recording]:
    """The files that are named, those of the directories that are named whose names end in ``.jsonl``, and the sessions
    of stores.

    Raises:
        OSError: a place can't be looked at.
        CogstepError: a store can't, or it has no session of a name.
    """
    for place in places:
        if isinstance(place, str | os.PathLike):
            yield from map(FileRecording, _files_of(Path(place)))
        elif isinstance(place, Collection):
            yield from place.recordings()
        elif not _is_there(place):
            raise NotAJournalError("nothing is recorded here", path=path_of(place.where))
        else:
            yield place


def _is_there(recording: Recording) -> bool:
    try:
        return recording.about() is not None
    except JournalError:  # it is damaged
        return True


def _files_of(place: Path) -> Iterator[Path]:
    if place.is_dir():
        yield from sorted(path for path in place.iterdir() if path.suffix == SUFFIX and path.is_file())
    else:
        place.stat()
        yield place


def list_sessions(*places: Place, newest: int | None = None) -> Iterator[SessionInfo | BadFile]:
    """Every journal at these places, by name; what is none comes with the reason.

    Args:
        places: files, directories, a ``SqlStore``, or what its ``recording`` gives.
        newest: how many, those that were written last, the newest first; the others are not read. None: all.

    Raises:
        OSError: a place can't be looked at.
        CogstepError: a store can't.
    """
    found: Iterable[Recording] = journals_in(places)
    if newest is not None:
        found = nlargest(newest, found, key=_changed)
    for recording in found:
        try:
            info = look_at(recording)
            if info is not None and (info.damage or info.warnings):  # it may have been written at that moment
                info = look_at(recording)
            if info is not None:
                yield info
        except JournalError as error:
            yield BadFile(path_of(recording.where), error.problem, recording.name)


def _changed(recording: Recording) -> float:
    try:
        about = recording.about()
    except (OSError, JournalError):  # who reads it is told why
        return 0.0
    return 0.0 if about is None else about.changed


def opened(recording: Recording) -> JournalReader | None:
    """The reader of a recording; None if it was deleted meanwhile, or a session is about to write its first line.

    Raises:
        JournalError: its header can't be read.
    """
    try:
        return JournalReader(recording.where)
    except JournalError:
        if recording.begins_or_is_gone():
            return None
        return JournalReader(recording.where)  # which may have its first line by now


def look_at(recording: Recording) -> SessionInfo | None:
    """A session at a glance; None if it is gone, or has not begun. A million records take seconds: inputs are not read,
    and nothing is folded.

    Raises:
        JournalError: its header can't be read. A damaged record is told in the result.
    """
    reader = opened(recording)
    if reader is None:
        return None
    records = turns = redacted = 0
    title, damage, under_way = "", "", False
    with reader:
        header = reader.header
        redacted += sum(one["count"] for one in header.redacted)
        try:
            for line in reader.lines():
                begins, ends, hides = glance_at(reader, line, records + 1)
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
        about = recording.about()
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


def glance_at(reader: JournalReader, line: bytes, number: int) -> tuple[bool, bool, bool]:
    """Whether a turn begins with record ``number``, whether one ends, and whether a secret was hidden in it.

    That is seen in its line without reading it, where a session wrote it: half a microsecond instead of thirty.

    Raises:
        JournalError: it was written in another way, and can't be read.
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
    return shown_parts(event.text, event.parts) if isinstance(event, UserSpoke) else ""
