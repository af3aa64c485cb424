"""Recordings copied and moved from one place to another, a directory or a store: each line as it is, to the byte."""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha256
from itertools import islice

from attrs import frozen

from interpreters.recording.journal import (
    FileRecorder,
    JournalError,
    JournalLockedError,
    JournalReader,
    JournalWriteError,
    NotAJournalError,
)
from interpreters.recording.places import About, Recording
from interpreters.recording.recorder import Recorder, path_of

PAYLOAD = re.compile(rb'\{"\$payload":"([0-9a-f]{64})"\}')
"""A large text that a line names: within a text the quotes would be escaped."""


@frozen
class Copied:
    """What was copied or moved."""

    records: int
    """The number of records, beside the header."""
    bytes: int
    """The size of the lines."""
    warnings: tuple[str, ...]
    """What was left behind: a last line that a crash has torn, which every reader leaves out."""


def copy(source: Recording, target: Recording) -> Copied:
    """Record in a second place what is recorded in the first: all of it or nothing, and never over something else.

    A session that is open is copied up to the newest whole record. The second recording has the age of the first, and
    its session's name and seals; the two go on apart.

    Raises:
        JournalError: the first can't be read or is damaged, or the second can't be made; says why.
        OSError: a place can't be looked at.
    """
    return _copied(source, target, _about(source))


def move(source: Recording, target: Recording) -> Copied:
    """The same, and then delete the first, which nobody may have open; if it can't be, the second is deleted again.

    Raises:
        JournalError: as ``copy``; or it is open, or has something beside it that would be lost. It is where it was.
        OSError: a place can't be looked at.
    """
    about = _about(source)
    path = path_of(source.where)
    if beside := source.beside():
        raise JournalError(f"can't be moved: {beside} would be lost; copy it, and keep this one", path=path)
    kept = source.delete(about, dry_run=True)
    if not kept:
        copied = _copied(source, target, about)
        kept = source.delete(about)
        if not kept:
            return copied
        _take_back(target)
    raise JournalLockedError(f"was not moved, because {kept}; wait for its end", path=path)


def _take_back(target: Recording) -> None:
    """Delete what was made, unless somebody goes on with it."""
    made = target.about()
    if made is not None:
        target.delete(made)


def _about(source: Recording) -> About:
    about = source.about()
    if about is None:
        raise NotAJournalError("nothing is recorded here", path=path_of(source.where))
    return about


def _copied(source: Recording, target: Recording, about: About) -> Copied:
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
        _take_back(target)
        raise JournalWriteError(
            "what was written is not what was read, as where somebody replaces the recording meanwhile; nothing is "
            "kept of it, so do it again",
            path=path_of(target.where),
        )
    return Copied(records, size, warnings)


def _lines(recording: Recording, count: int) -> Iterator[bytes]:
    """The first lines, as they stand there."""
    where = recording.where
    recorder: Recorder = where if isinstance(where, Recorder) else FileRecorder(where)
    yield from islice(recorder.lines(), count)
