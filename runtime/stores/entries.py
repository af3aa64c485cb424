"""Markdown in and out: a note as it is written into a file, and a file as the passages that are searched. Pure.

A line that begins with ``#`` to ``######`` and a space is a heading, wherever it stands, and begins a passage. What is
written for somebody can't forge one: such a line gets a backslash in front, which Markdown doesn't show and reading
takes away again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import date

from attrs import frozen

HEADING = re.compile(r"(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*")
"""A whole line."""

LONGEST_HEADING = 300
"""Characters of a line that may be a heading; a longer one is text."""

LIKE_HEADING = re.compile(r"^(?=\\*#{1,6}(?:[ \t]|$))", re.MULTILINE)
ESCAPED = re.compile(r"^\\(?=\\*#{1,6}(?:[ \t]|$))", re.MULTILINE)

DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
WHEN = re.compile(r"(?:(\d{4}-\d{2}-\d{2})\b[ T]*)?(?:\d{1,2}:\d{2}(?::\d{2})?\b)?[ \t]*[-–—:]?[ \t]*")
"""What may stand first in a heading: a day, a time, both."""

CONTROL = re.compile(r"[\0-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""What no text needs and some readers take for the end of a line or a command."""

LONGEST_PASSAGE = 2_000
"""Characters of a passage. A longer section is several, each with its heading; nothing of it is left out."""


@frozen
class Piece:
    """A part of a file that is found as one."""

    line: int
    """Where it begins, from 1."""
    day: str
    """``2026-11-25``, or nothing."""
    title: str
    """Its headings, the outermost first, without a day and a time in front."""
    text: str


def clean(text: str) -> str:
    """A text as it can stand in a file: its lines end in one way, and characters of control are shown as ``�``."""
    return CONTROL.sub("�", text.replace("\r\n", "\n").replace("\r", "\n")).strip()


def escaped(text: str) -> str:
    """A text none of whose lines is a heading."""
    return LIKE_HEADING.sub(r"\\", text)


def unescaped(text: str) -> str:
    """What ``escaped`` was given."""
    return ESCAPED.sub("", text)


def one_line(text: str, longest: int) -> str:
    """A text on one line, cut at its end where it is longer; ``(empty)`` for nothing."""
    line = " ".join(clean(text).split())
    return f"{line[: longest - 1]}…" if len(line) > longest else line or "(empty)"


def entry(heading: str, text: str) -> str:
    """A section of a file."""
    return f"## {heading}\n\n{escaped(text)}\n"


@frozen
class Heading:
    """A heading below which the next lines stand."""

    level: int
    title: str
    day: str


@frozen
class Mark:
    """A place in a file from which it can be read on once more was appended to it: nothing that is appended changes a
    passage before it. It stands behind a heading, or between two lines where a long section is cut.
    """

    offset: int = 0
    """Bytes before it, which are whole lines."""
    lines: int = 0
    pieces: int = 0
    """Passages before it."""
    above: tuple[Heading, ...] = ()
    """The headings that what follows stands below, the outermost first."""
    within: bool = False
    """Whether a passage of the section in which it stands is before it."""


BEGINNING = Mark()


def mark_text(mark: Mark) -> str:
    """A mark as it can be kept."""
    above = [[one.level, one.title, one.day] for one in mark.above]
    return json.dumps([mark.offset, mark.lines, mark.pieces, above, mark.within], ensure_ascii=False)


def mark_in(text: str) -> Mark:
    """What ``mark_text`` was given; ValueError or TypeError where it has not written this."""
    offset, lines, pieces, above, within = json.loads(text)
    return Mark(offset, lines, pieces, tuple(Heading(*one) for one in above), within)


def pieces_of(text: str, name: str = "") -> list[Piece]:
    """The passages of a file in order.

    Args:
        text: what it holds.
        name: its own, without an ending: the day of sections whose headings have none, if it begins with one. As the
            first heading of the file it is no title.
    """
    sections = (section.piece for section in _sections(text, name, BEGINNING))
    return [piece for section in sections if section is not None for piece in _split(section)[0]]


def read_on(content: bytes, name: str, since: Mark = BEGINNING) -> tuple[list[Piece], Mark]:
    """The passages of a file behind a mark in order, and the mark from which it can be read on when it has grown.

    Args:
        content: all that it holds. Bytes that are no UTF-8 are read as ``�``.
        name: as ``pieces_of`` takes it.
        since: a mark of the same file, which had no more than this before it was appended to.
    """
    behind = content[since.offset :] if since.offset else content
    pieces: list[Piece] = []
    above, within, lines, before = since.above, since.within, since.lines, 0
    for section in _sections(behind.decode("utf-8" if since.offset else "utf-8-sig", "replace"), name, since):
        found, cut, line = ([], 0, 0) if section.piece is None else _split(section.piece)
        if section.settled:
            above, lines, before = section.above, line - 1 if cut else section.lines, len(pieces) + cut
            within = section.within or cut > 0
        pieces += found
    offset = 0
    for _ in range(lines - since.lines):
        offset = behind.index(b"\n", offset) + 1
    return pieces, Mark(since.offset + offset, lines, since.pieces + before, above, within)


def notes_in(text: str, like: str, name: str) -> list[str]:
    """The whole sections of a file of this name; none of them where a text that is looked for is not even in it."""
    if escaped(like) not in text:
        return []
    return [one.piece.text for one in _sections(text, name, BEGINNING) if one.piece is not None]


def day_of(text: str) -> str:
    """The text if it is a day that there is, else nothing."""
    try:
        date.fromisoformat(text)
    except ValueError:
        return ""
    return text if DAY.fullmatch(text) else ""


@frozen
class _Section:
    """What stands between two headings, before the first one, or behind a mark."""

    lines: int
    """Of the file before it."""
    above: tuple[Heading, ...]
    """The headings it stands below; the last one is its own."""
    within: bool
    """Whether it is the rest of one, of which passages stand before it."""
    settled: bool
    """Whether its heading is a whole line, so that nothing that is appended makes it another one."""
    piece: Piece | None
    """All of it, where it is a passage."""


def _sections(text: str, name: str, since: Mark) -> Iterator[_Section]:
    file_day = day_of(name[:10])
    above, before, within, settled = since.above, since.lines, since.within, True
    lines = text.replace("\r\n", "\n").split("\n")
    last = since.lines + len(lines)
    body: list[str] = []

    def piece(following: int) -> Piece | None:
        """What stands below the newest heading; a heading without anything is a passage, unless it heads others."""
        content = "\n".join(body)
        days = [one.day for one in above if one.day]
        own_day = days[-1] if days else file_day
        if content.strip():
            blank = 0 if within else len(content) - len(content.lstrip("\n"))
            title = " › ".join(one.title for one in above if one.title)
            return Piece(before + 1 + blank, own_day, title, unescaped(content[blank:].rstrip()))
        if above and above[-1].title and following <= above[-1].level:
            title = " › ".join(one.title for one in above[:-1] if one.title)
            return Piece(before, own_day, title, above[-1].title)
        return None

    for number, line in enumerate(lines, since.lines + 1):
        found = HEADING.fullmatch(line) if line.startswith("#") and len(line) <= LONGEST_HEADING else None
        if found is None:
            body.append(line)
            continue
        level = len(found[1])
        yield _Section(before, above, within, settled, piece(level))
        when = WHEN.match(found[2] or "")
        rest = (found[2] or "")[when.end() if when else 0 :].strip()
        rest = "" if level == 1 and rest.casefold() == name.casefold() else rest
        heading = Heading(level, rest, day_of((when and when[1]) or ""))
        above = (*(one for one in above if one.level < level), heading)
        before, within, settled, body = number, False, number < last, []
    yield _Section(before, above, within, settled, piece(0))


def _split(piece: Piece) -> tuple[list[Piece], int, int]:
    """A section as passages: cut between paragraphs where there is one, else lines, else words.

    Also how many of them are before the last cut that nothing which is appended changes, and the line behind it. All
    that was looked at for such a cut is in front of the last line, which may become another one; and it is between two
    lines, so that it has a place among the bytes of the file.
    """
    text, line, at = piece.text, piece.line, 0
    settled = text.rfind("\n") + 1
    found: list[Piece] = []
    before, behind = 0, piece.line
    while len(text) - at > LONGEST_PASSAGE:
        window = text[at : at + LONGEST_PASSAGE]
        least = LONGEST_PASSAGE // 2
        gaps = ((gap, window.rfind(gap, least)) for gap in ("\n\n", "\n", " "))
        cut = next((place + len(gap) for gap, place in gaps if place > 0), len(window))
        found.append(Piece(line, piece.day, piece.title, window[:cut].strip("\n").rstrip()))
        line += window.count("\n", 0, cut)
        if at + LONGEST_PASSAGE <= settled and window[cut - 1] == "\n":
            before, behind = len(found), line
        at += cut
    if (rest := text[at:]).strip():
        found.append(Piece(line, piece.day, piece.title, rest.strip("\n").rstrip()))
    return found, before, behind
