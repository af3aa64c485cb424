"""Which sessions there are: found in directories, looked at without reading more than a list needs."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from attrs import frozen

from cognition import Input, UserSpoke
from cognition.content import shown_parts
from interpreters.recording.journal import JournalError, JournalReader, Origin
from interpreters.recording.journal.contents import kept_files
from interpreters.recording.journal.lines import LONGEST
from interpreters.recording.journal.locking import is_being_written
from interpreters.recording.journal.payloads import Payloads

Status = Literal["open", "interrupted", "idle"]
"""``open``: a session writes it now. ``interrupted``: it ends in the middle of a turn. ``idle``: it ends behind one."""

SUFFIX = ".jsonl"
"""Which files of a directory are looked at."""

BEGINNING = (0.0, 0.01, 0.1)
"""Seconds after which a file that holds nothing yet is looked at again: a session may have made it this very moment."""
JUST_NOW = 10.0
"""Seconds for which that may be: an older file is not waited for."""


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
    """The number of turns that have ended."""
    records: int
    bytes: int
    """The size of the journal and of the large texts beside it."""
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
            info = look_at(path)
            if info is not None and (info.damage or info.warnings):  # it may have been written at that moment
                info = look_at(path)
            if info is not None:
                yield info
        except JournalError as error:
            yield BadFile(path, error.problem)


def opened(path: Path) -> JournalReader | None:
    """The reader of a recording; None if it was deleted meanwhile, or a session is about to write its first line.

    Raises:
        JournalError: its header can't be read.
    """
    try:
        return JournalReader(path)
    except JournalError:
        return None if _begins_or_is_gone(path) else JournalReader(path)  # which may have its first line by now


def _begins_or_is_gone(path: Path) -> bool:
    for wait in BEGINNING:
        time.sleep(wait)
        try:
            about = path.stat()
            if not stat.S_ISREG(about.st_mode):
                return False
            with path.open("rb") as file:
                if file.readline(LONGEST).endswith(b"\n"):
                    return False
            if is_being_written(path):
                return True
        except OSError as error:
            return isinstance(error, FileNotFoundError)
        if abs(time.time() - about.st_mtime) > JUST_NOW:
            return False
    return False


def look_at(path: Path) -> SessionInfo | None:
    """A session at a glance; None if it is gone, or has not begun. A million records take seconds: inputs are not read,
    and nothing is folded.

    Raises:
        JournalError: its header can't be read. A damaged record is told in the result.
    """
    reader = opened(path)
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
        about, is_open = path.stat(), is_being_written(path)
    except OSError:
        return None
    return SessionInfo(
        path,
        header.session,
        header.created,
        about.st_mtime,
        "open" if is_open else "interrupted" if under_way else "idle",
        turns,
        records,
        about.st_size + Payloads(path).size() + kept_files(path).size(),
        title,
        header.origin,
        redacted,
        damage,
        () if is_open else tuple(reader.warnings),  # what looks torn, is being written
        reader.foreign,
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
