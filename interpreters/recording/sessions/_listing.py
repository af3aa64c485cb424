"""Lists and searches the sessions in directories and stores, reading only as much as is needed."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from heapq import nlargest
from pathlib import Path
from typing import Literal

from attrs import evolve, frozen

from cognition import AskApproval, AskUser, CancelEffect, CogstepError, Input, ReviewPlan, UserSpoke
from cognition.steps.decisions import EFFECT_TYPES
from cognition.values.content import text_with_placeholders
from interpreters.recording._visit import collect
from interpreters.recording.collections import Collection, Place, Recording
from interpreters.recording.journal import JournalError, JournalReader, NotAJournalError, Origin, Record
from interpreters.recording.journal.payloads import MARK
from interpreters.recording.journal.reader import INPUT_TAGS
from interpreters.recording.journal.strict_lines import LONGEST
from interpreters.recording.recorder import path_of
from interpreters.recording.sessions._file_recording import FileRecording

Status = Literal["open", "waiting", "interrupted", "idle"]
"""Status of a session. ``open``: a session is writing it. ``waiting``: it ends inside a turn that only waits for a
person: for an approval, or for the answer to a question or a plan. ``interrupted``: it ends inside any other turn.
``idle``: it ends after a turn.
"""

ASKED_TAGS = frozenset(kind.tag for kind in (AskApproval, AskUser, ReviewPlan))
EFFECT_TAGS = frozenset(kind.tag for kind in EFFECT_TYPES)

SUFFIX = ".jsonl"
"""Suffix of the files that a directory's list includes."""

AROUND = 60
"""Characters shown before and after a match."""


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
            path = Path(place)
            if path.is_dir():
                found = sorted(one for one in path.iterdir() if one.suffix == SUFFIX and one.is_file())
            else:
                path.stat()
                found = [path]
            yield from map(FileRecording, found)
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
    records = turns = redacted = begun = 0
    title, damage, under_way = "", "", False
    with reader:
        header = reader.header
        redacted += sum(one["count"] for one in header.redacted)
        try:
            for line in reader.lines():
                begins, ends, hides = classify_record(reader, line, records + 1)
                records += 1
                if begins:
                    under_way, begun = True, records
                    if not title and isinstance(event := reader.record(line, records).input, UserSpoke):
                        title = text_with_placeholders(event.text, event.parts)
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
        if about is None:
            return None
        status: Status = "open" if is_open else "interrupted" if under_way else "idle"
        if status == "interrupted" and not damage and _waits(recording, begun):
            status = "waiting"
    except OSError:
        return None
    return SessionInfo(
        reader.path,
        header.session,
        header.created,
        about.changed,
        status,
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


def _waits(recording: Recording, begun: int) -> bool:
    """Whether the turn that began with this record only waits for a person."""
    in_flight: dict[str, str] = {}
    try:
        with JournalReader(recording.where) as reader:
            for number, line in enumerate(reader.lines(), 1):
                if number >= begun:
                    _follow(reader.record(line, number), in_flight)
    except JournalError:  # it has been changed since it was read first
        return False
    return bool(in_flight) and ASKED_TAGS.issuperset(in_flight.values())


def _follow(record: Record, in_flight: dict[str, str]) -> None:
    """Update the effects in flight, by id with their tags, by a record."""
    in_flight.pop(str(getattr(record.input, "effect_id", "")), None)
    for decision in record.decisions:
        if not isinstance(decision, dict):
            continue
        kind, effect_id = decision.get("type"), str(decision.get("effect_id", ""))
        if kind == CancelEffect.tag:
            in_flight.pop(effect_id, None)
        elif kind in EFFECT_TAGS:
            in_flight[effect_id] = str(kind)


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


# ----------------------------------------------------------------------------------------------------------- searching


@frozen
class Hit:
    """A match in a session."""

    path: Path
    session: str
    record: int
    turn: int
    """Number of the turn in this journal, from 1; 0 before the first."""
    speaker: str
    """The type of the input: ``user_spoke``, ``model_replied``, ``tool_returned``, ..."""
    before: str
    """The text before the match, shortened, on one line."""
    found: str
    after: str
    foreign: str = ""
    """Why the recording does not count as this user's own; empty if it does."""
    name: str = ""
    """The path of the file, or the name of the session in its store."""


def search_sessions(pattern: str, *places: Place, regex: bool = False, case: bool = False) -> Iterator[Hit | BadFile]:
    """Yield the first match of a text in each input of the sessions at these places.

    A scan without an index: raw lines are searched, and only possible matches are decoded.

    Args:
        pattern: a text, or a regular expression if ``regex`` is True.
        places: journals, directories of journals, and stores or single sessions of them.
        case: whether upper and lower case differ.

    Raises:
        CogstepError: the regular expression is invalid, or a store can't be read.
        OSError: a place can't be read.
    """
    try:
        wanted = re.compile(pattern if regex else re.escape(pattern), re.NOFLAG if case else re.IGNORECASE)
    except re.error as error:
        raise CogstepError(f"{pattern!r} is no regular expression: {error}") from error
    raw = None if regex else re.compile(_build_line_pattern(pattern), re.NOFLAG if case else re.IGNORECASE)
    for recording in journals_in(places):
        try:
            yield from _find_hits(recording, wanted, raw)
        except JournalError as error:
            yield BadFile(path_of(recording.where), error.problem, recording.name)


def _build_line_pattern(text: str) -> bytes:
    """Return a pattern of a text as it is written in a journal's line.

    Patterns of bytes ignore case only for ASCII, so other characters match anything outside ASCII.
    """
    written = json.dumps(text, ensure_ascii=False)[1:-1]
    return b"".join(re.escape(letter).encode() if letter.isascii() else b"[^\x00-\x7f]+" for letter in written)


def _find_hits(recording: Recording, wanted: re.Pattern[str], raw: re.Pattern[bytes] | None) -> Iterator[Hit]:
    reader = open_reader(recording)
    if reader is None:
        return
    with reader:
        content = None if raw is None else recording.content(LONGEST)  # searched in a third of the time
        if content is not None and not _may_contain(content, raw):
            for _ in reader.lines():  # damage is told, also where nothing is found
                pass
            return
        turn, hits = 0, list[Hit]()
        for number, line in enumerate(reader.lines(), 1):
            turn += classify_record(reader, line, number)[0]
            if _may_contain(line, raw):
                event = reader.record(line, number).input
                hit = _find_first(event, wanted)
                if hit is not None:
                    text, match = hit
                    hits.append(Hit(
                        reader.path, reader.header.session, number, turn, INPUT_TAGS[type(event)],
                        _one_line(text[max(0, match.start() - AROUND) : match.start()]),
                        match[0],
                        _one_line(text[match.end() : match.end() + AROUND]),
                        name=recording.name,
                    ))  # fmt: skip

        foreign = reader.foreign  # known of the whole recording only
        yield from (evolve(hit, foreign=foreign) for hit in hits)


def _may_contain(content: bytes, raw: re.Pattern[bytes] | None) -> bool:
    """Whether lines may contain the text. Half a surrogate pair is written in ASCII, and large texts are elsewhere."""
    return raw is None or bool(raw.search(content)) or b"\\u" in content or MARK in content


def _find_first(event: Input, wanted: re.Pattern[str]) -> tuple[str, re.Match[str]] | None:
    texts: list[str] = []
    collect(event, texts)
    matches = ((text, wanted.search(text)) for text in texts)
    return next(((text, match) for text, match in matches if match is not None and match[0]), None)


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text)
