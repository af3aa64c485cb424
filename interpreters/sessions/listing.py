"""Which sessions there are: found in directories, looked at without reading more than a list needs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from attrs import frozen

from interpreters.journal import JournalDamagedError, JournalError, JournalReader, Origin
from interpreters.journal.payloads import Payloads
from interpreters.journal.writing import is_being_written

Status = Literal["open", "interrupted", "idle"]
"""Being written now; ended in the middle of a turn; at rest between turns."""

SUFFIX = ".jsonl"
"""Which files of a directory are looked at."""


@frozen
class SessionInfo:
    """A recorded session at a glance."""

    path: Path
    session: str
    created: float
    """Seconds since the epoch, like the next."""
    changed: float
    """When it was last written."""
    status: Status
    turns: int
    """Turns that came to their end."""
    records: int
    bytes: int
    """Of the journal, and of the large texts beside it."""
    title: str
    """What the user said first; empty if nothing was said yet."""
    origin: Origin | None
    redacted: int
    """Secrets that were hidden."""
    damage: str
    """What is wrong with a record; only what stands before it was counted. Empty for a whole journal."""
    warnings: tuple[str, ...]


@frozen
class BadFile:
    """A file that is no readable journal."""

    path: Path
    reason: str


def journals_in(places: Iterable[str | os.PathLike[str]]) -> Iterator[Path]:
    """The files that are named, and those of the directories that are named whose names end in ``.jsonl``.

    Raises:
        OSError: a place can't be looked at.
    """
    for place in map(Path, places):
        if place.is_dir():
            yield from sorted(path for path in place.iterdir() if path.suffix == SUFFIX and path.is_file())
        else:
            place.stat()
            yield place


def list_sessions(*places: str | os.PathLike[str]) -> Iterator[SessionInfo | BadFile]:
    """Every journal at these places (files, directories), by name; files that are none come with the reason.

    Raises:
        OSError: a place can't be looked at.
    """
    for path in journals_in(places):
        try:
            yield look_at(path)
        except JournalError as error:
            yield BadFile(path, bare(error))
        except OSError as error:
            yield BadFile(path, error.strerror or type(error).__name__)


def look_at(path: Path) -> SessionInfo:
    """A session at a glance. A million records take seconds: inputs are not read, and nothing is folded.

    Raises:
        JournalError: its header can't be read. A damaged record is told in the result.
        OSError: it has gone meanwhile.
    """
    records = turns = redacted = 0
    title, damage, under_way = "", "", False
    with JournalReader(path) as reader:
        header = reader.header
        redacted += sum(one["count"] for one in header.redacted)
        try:
            for line in reader.lines():
                records += 1
                # Within a text the quotes would be escaped, so that these bytes can't stand there.
                if b'"input":{"type":"user_spoke"' in line and b'{"type":"rejected"' not in line:
                    under_way = True
                    title = title or reader.record(line, records).input.text  # type: ignore[union-attr]  # it is one
                if b'{"type":"turn_finished"' in line:
                    turns += 1
                    under_way = False
                if b'"redacted":[' in line:
                    redacted += sum(one["count"] for one in json.loads(line).get("redacted", ()))
        except JournalDamagedError as error:
            damage = bare(error)
        status: Status = "open" if is_being_written(path) else "interrupted" if under_way else "idle"
        about = path.stat()
        return SessionInfo(
            path,
            header.session,
            header.created,
            about.st_mtime,
            status,
            turns,
            records,
            about.st_size + Payloads(path).size(),
            title,
            header.origin,
            redacted,
            damage,
            tuple(reader.warnings),
        )


def bare(error: JournalError) -> str:
    """What is wrong with a file, for where its name stands already."""
    return str(error).removeprefix(f"{error.path}").removeprefix(":").removeprefix(",").strip()
