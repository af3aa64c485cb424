"""Deletes, copies and moves recordings with the data beside them.

No open session is deleted, and no file that is not this user's journal; no link is followed. In a copy each line stays
the same, to the byte.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from attrs import frozen

from cognition import ConfigError
from interpreters.recording.collections import BatchDeletable, Place, Recording, RecordingInfo
from interpreters.recording.journal import (
    FileRecorder,
    JournalError,
    JournalLockedError,
    JournalReader,
    JournalWriteError,
    NotAJournalError,
)
from interpreters.recording.recorder import Recorder, path_of
from interpreters.recording.sessions._file_recording import FileRecording, clear_parts
from interpreters.recording.sessions._listing import journals_in

AT_ONCE = 100
"""Number of recordings deleted together. Their writers, if any, wait for that time."""

PAYLOAD = re.compile(rb'\{"\$payload":"([0-9a-f]{64})"\}')
"""Reference to a large text in a line. Inside a text the quotes would be escaped."""


@frozen
class PrunedSession:
    """A journal selected for deletion, and the result."""

    path: Path
    session: str
    bytes: int
    """Size of the journal, and of its large texts and undo data."""
    reason: str
    kept: str = ""
    """Why it was not deleted; empty if it was, or would be."""
    name: str = ""
    """The path of the file, or the name of the session in its store."""


@frozen
class _Journal:
    recording: Recording
    session: str
    about: RecordingInfo
    not_ours: str

    def result(self, reason: str, kept: str) -> PrunedSession:
        where = path_of(self.recording.where)
        return PrunedSession(where, self.session, self.about.bytes, reason, kept, self.recording.name)


def prune_sessions(
    *places: Place,
    older: float | None = None,
    keep: int | None = None,
    size: int | None = None,
    dry_run: bool = False,
    now: float | None = None,
) -> Iterator[PrunedSession]:
    """Delete journals and the data beside them: those too old, and the oldest of too many or too large ones.

    - An open journal is kept.
    - A file without a complete header is kept, because it may be anything.
    - An unreadable session of a store is kept and reported. But a session without its first line is deleted like
      others, since it can never be read.
    - A link or another user's file is reported as kept, and does not count for ``keep`` or ``size``.
    - Partial files of a killed ``copy`` in a directory are deleted too.

    Args:
        places: journals, directories of journals, and stores or single sessions of them.
        older: seconds since the last write after which a journal is deleted.
        keep: maximum number of journals; the newest remain.
        size: maximum bytes of all journals.
        dry_run: only report.
        now: present time in seconds since the epoch; by default that of the place, since a store has its own clock.

    Raises:
        ConfigError: no criterion is given.
        OSError: a place can't be read.
        CogstepError: a store can't be read.
    """
    if older is None and keep is None and size is None:
        raise ConfigError("say which are to go: by age, by number or by size")
    if not dry_run:
        for place in places:
            if isinstance(place, str | os.PathLike) and os.path.isdir(place):
                clear_parts(Path(place))
    here = time.time()
    left = 0
    found = list[_Journal]()
    for one in _find_candidates(places):
        if isinstance(one, PrunedSession):
            yield one
        else:
            found.append(one)
    for journal in found:
        if journal.not_ours:
            yield journal.result("no recording of your own", journal.not_ours)
    doomed = list[tuple[_Journal, str]]()
    ours = sorted((one for one in found if not one.not_ours), key=lambda one: -one.about.changed)
    for rank, journal in enumerate(ours):
        left += journal.about.bytes
        there = here if journal.about.now is None else journal.about.now
        unchanged = (there if now is None else now) - journal.about.changed
        reason = ""
        if older is not None and unchanged > older:
            reason = f"not written for {_format_days(unchanged)}"
        elif keep is not None and rank >= keep:
            reason = f"older than the newest {keep}"
        elif size is not None and left > size:
            reason = f"beyond {size} bytes"
        if reason:
            doomed.append((journal, reason))
    yield from _delete(doomed, dry_run)


def _delete(doomed: list[tuple[_Journal, str]], dry_run: bool) -> Iterator[PrunedSession]:
    """Delete the journals, together if that is cheaper."""

    def place(one: tuple[_Journal, str]) -> object:
        recording = one[0].recording
        return recording.place if isinstance(recording, BatchDeletable) and not dry_run else None

    for shared, group in groupby(doomed, place):
        if shared is None:
            for journal, reason in group:
                yield journal.result(reason, journal.recording.delete(journal.about, dry_run=dry_run))
            continue
        while some := list(islice(group, AT_ONCE)):
            first: Any = some[0][0].recording
            kept = first.delete_batch([(journal.recording, journal.about) for journal, _ in some])
            yield from (journal.result(reason, why) for (journal, reason), why in zip(some, kept, strict=True))


def _find_candidates(places: Iterable[Place]) -> Iterator[_Journal | PrunedSession]:
    """Yield the candidates for deletion, and the unreadable sessions of stores."""
    for recording in journals_in(places):
        try:
            with JournalReader(recording.where) as reader:
                about = recording.info()
                if about is not None:
                    yield _Journal(recording, reader.header.session, about, recording.not_ours)
        except OSError:  # gone meanwhile
            continue
        except JournalError as error:
            yield from _report_unreadable(recording, error.problem)


def _report_unreadable(recording: Recording, why: str) -> Iterator[_Journal | PrunedSession]:
    if isinstance(recording, FileRecording) or recording.is_new_or_gone():
        return
    if recording.has_no_header():
        try:
            about = recording.info()
        except JournalError as error:
            why = error.problem
        else:
            if about is not None:
                yield _Journal(recording, "", about, recording.not_ours)
            return
    yield PrunedSession(path_of(recording.where), "", 0, "it can't be read", why, recording.name)


def _format_days(seconds: float) -> str:
    return f"{seconds / 86400:.1f} days" if seconds >= 86400 else f"{seconds / 3600:.1f} hours"


# ------------------------------------------------------------------------------------------------- copying and moving


@frozen
class CopyResult:
    """Result of a copy or a move."""

    records: int
    """Number of records, without the header."""
    bytes: int
    warnings: tuple[str, ...]
    """Omitted data: a last line that a crash has torn, which every reader omits."""


def copy_session(source: Recording, target: Recording) -> CopyResult:
    """Copy a recording to a second place: all of it or nothing, and never over existing data.

    An open session is copied up to its newest complete record. The copy has the age, session name and seals of the
    original. The two are independent afterwards.

    Raises:
        JournalError: the source can't be read or is damaged, or the copy can't be created; the message explains why.
        OSError: a place can't be read.
    """
    return _copy(source, target, _about(source))


def move_session(source: Recording, target: Recording) -> CopyResult:
    """Copy a recording and then delete the source, which must not be open. If that fails, the copy is deleted again.

    Raises:
        JournalError: as ``copy_session``; or the source is open, or has data beside it that would be lost. It is
            unchanged.
        OSError: a place can't be read.
    """
    about = _about(source)
    path = path_of(source.where)
    if beside := source.beside():
        raise JournalError(f"can't be moved: {beside} would be lost; copy it, and keep this one", path=path)
    kept = source.delete(about, dry_run=True)
    if not kept:
        copied = _copy(source, target, about)
        kept = source.delete(about)
        if not kept:
            return copied
        _undo_copy(target)
    raise JournalLockedError(f"was not moved, because {kept}; wait for its end", path=path)


def _undo_copy(target: Recording) -> None:
    made = target.info()
    if made is not None:
        target.delete(made)


def _about(source: Recording) -> RecordingInfo:
    about = source.info()
    if about is None:
        raise NotAJournalError("nothing is recorded here", path=path_of(source.where))
    return about


def _copy(source: Recording, target: Recording, about: RecordingInfo) -> CopyResult:
    with JournalReader(source.where) as reader:
        records = sum(1 for _ in reader.lines())  # which finds what is damaged
        warnings = tuple(reader.warnings)
    size, digest, named = 0, sha256(), set[bytes]()
    for line in _lines(source, records + 1):
        named.update(PAYLOAD.findall(line))
        size += len(line)
        digest.update(line)
    if missing := named - {name.encode() for name, _ in source.payloads()}:
        raise JournalError(f"the payload {min(missing).decode()} is missing", path=path_of(source.where))
    target.begin(lambda: _lines(source, records + 1), about.changed, source.payloads)
    stands = sha256()
    for line in _lines(target, records + 1):
        stands.update(line)
    if stands.digest() != digest.digest() or named - {name.encode() for name, _ in target.payloads()}:
        _undo_copy(target)
        raise JournalWriteError(
            "what was written is not what was read, as where somebody replaces the recording meanwhile; nothing is "
            "kept of it, so do it again",
            path=path_of(target.where),
        )
    return CopyResult(records, size, warnings)


def _lines(recording: Recording, count: int) -> Iterator[bytes]:
    where = recording.where
    recorder: Recorder = where if isinstance(where, Recorder) else FileRecorder(where)
    yield from islice(recorder.lines(), count)
