"""Full text search over recorded sessions: texts of users, models and tools."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from attrs import evolve, frozen

from cognition import CogstepError, Input
from interpreters.recording._visit import collect
from interpreters.recording.collections import Place, Recording
from interpreters.recording.journal import JournalError
from interpreters.recording.journal.payloads import MARK
from interpreters.recording.journal.reader import INPUT_TAGS
from interpreters.recording.journal.strict_lines import LONGEST
from interpreters.recording.recorder import path_of
from interpreters.recording.sessions._listing import BadFile, classify_record, journals_in, open_reader

AROUND = 60
"""Characters shown before and after a match."""


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
        if raw is not None and not _may_contain(recording, raw):
            for _ in reader.lines():  # damage is told, also where nothing is found
                pass
            return
        turn, hits = 0, list[Hit]()
        for number, line in enumerate(reader.lines(), 1):
            turn += classify_record(reader, line, number)[0]
            # A line with half a surrogate pair in it is all ASCII, and large texts stand elsewhere.
            if raw is None or raw.search(line) or b"\\u" in line or MARK in line:
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


def _may_contain(recording: Recording, raw: re.Pattern[bytes]) -> bool:
    """Search the whole recording in one step, unless it is large. Takes a third of the time."""
    content = recording.content(LONGEST)
    return content is None or bool(raw.search(content)) or b"\\u" in content or MARK in content


def _find_first(event: Input, wanted: re.Pattern[str]) -> tuple[str, re.Match[str]] | None:
    texts: list[str] = []
    collect(event, texts)
    for text in texts:
        match = wanted.search(text)
        if match is not None and match[0]:
            return text, match
    return None


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text)
