"""Copies and moves recordings between directories and stores; each line stays the same, to the byte."""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha256
from itertools import islice

from attrs import frozen

from interpreters.recording.collections import Recording, RecordingInfo
from interpreters.recording.journal import (
    FileRecorder,
    JournalError,
    JournalLockedError,
    JournalReader,
    JournalWriteError,
    NotAJournalError,
)
from interpreters.recording.recorder import Recorder, path_of

PAYLOAD = re.compile(rb'\{"\$payload":"([0-9a-f]{64})"\}')
"""Reference to a large text in a line. Inside a text the quotes would be escaped."""


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
