"""Full text search over recorded sessions: what users, models and tools said."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from attrs import evolve, frozen

from cognition import CogstepError, Input
from interpreters.recording.journal import JournalError
from interpreters.recording.journal.lines import LONGEST
from interpreters.recording.journal.payloads import MARK
from interpreters.recording.journal.reading import INPUT_TAGS
from interpreters.recording.places import Place, Recording
from interpreters.recording.recorder import path_of
from interpreters.recording.sessions.listing import BadFile, glance_at, journals_in, opened
from interpreters.recording.walking import collect

AROUND = 60
"""Characters that are shown before and behind what was found."""


@frozen
class Hit:
    """A place in a session where the text stands."""

    path: Path
    session: str
    record: int
    """The record's number, from 1."""
    turn: int
    """The turn's number in this journal, from 1; 0 before the first."""
    speaker: str
    """The type of the input: ``user_spoke``, ``model_replied``, ``tool_returned``, ..."""
    before: str
    """The text before it, shortened, on one line."""
    found: str
    """The text that was found, as it is written there."""
    after: str
    foreign: str = ""
    """Why the recording doesn't count as this user's own; empty if it does."""
    name: str = ""
    """What its place calls it: the path of a file, or the name of a session in its store."""


def search(pattern: str, *places: Place, regex: bool = False, case: bool = False) -> Iterator[Hit | BadFile]:
    """Where a text stands in the inputs of the sessions at these places; in each input, the first place.

    A scan, without an index: lines are looked at as they stand there, and only those that may hold the text are read.

    Args:
        pattern: a text, or with ``regex`` a regular expression.
        places: journals, directories of journals, and stores or single sessions of them.
        case: whether upper and lower case are different.

    Raises:
        CogstepError: it is no regular expression, or a store can't be looked at.
        OSError: a place can't be looked at.
    """
    try:
        wanted = re.compile(pattern if regex else re.escape(pattern), re.NOFLAG if case else re.IGNORECASE)
    except re.error as error:
        raise CogstepError(f"{pattern!r} is no regular expression: {error}") from error
    raw = None if regex else re.compile(_as_written(pattern), re.NOFLAG if case else re.IGNORECASE)
    for recording in journals_in(places):
        try:
            yield from _hits(recording, wanted, raw)
        except JournalError as error:
            yield BadFile(path_of(recording.where), error.problem, recording.name)


def _as_written(text: str) -> bytes:
    """A text as it stands in a journal's line. In bytes, case is ignored for ASCII only, so that the rest has to be
    left open.
    """
    written = json.dumps(text, ensure_ascii=False)[1:-1]
    return b"".join(re.escape(letter).encode() if letter.isascii() else b"[^\x00-\x7f]+" for letter in written)


def _hits(recording: Recording, wanted: re.Pattern[str], raw: re.Pattern[bytes] | None) -> Iterator[Hit]:
    reader = opened(recording)
    if reader is None:
        return
    with reader:
        if raw is not None and not _may_hold(recording, raw):
            for _ in reader.lines():  # damage is told, also where nothing is found
                pass
            return
        turn, hits = 0, list[Hit]()
        for number, line in enumerate(reader.lines(), 1):
            turn += glance_at(reader, line, number)[0]
            # A line with half a surrogate pair in it is all ASCII, and large texts stand elsewhere.
            if raw is None or raw.search(line) or b"\\u" in line or MARK in line:
                event = reader.record(line, number).input
                hit = _first(event, wanted)
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


def _may_hold(recording: Recording, raw: re.Pattern[bytes]) -> bool:
    """Looked for in the whole recording at once, unless that is large: a third of the time."""
    content = recording.content(LONGEST)
    return content is None or bool(raw.search(content)) or b"\\u" in content or MARK in content


def _first(event: Input, wanted: re.Pattern[str]) -> tuple[str, re.Match[str]] | None:
    texts: list[str] = []
    collect(event, texts)
    for text in texts:
        match = wanted.search(text)
        if match is not None and match[0]:
            return text, match
    return None


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text)
