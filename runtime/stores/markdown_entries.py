"""Markdown in and out: writes a note into a file, and splits a file into searchable passages. Pure.

A line that begins with ``#`` to ``######`` and a space is a heading, anywhere, and begins a passage. Written text
cannot forge a heading: such a line gets a leading backslash. Markdown does not display it, and reading removes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import date

from attrs import frozen

HEADING = re.compile(r"(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*")

LONGEST_HEADING = 300
"""Maximum characters of a heading; a longer line is text."""

LIKE_HEADING = re.compile(r"^(?=\\*#{1,6}(?:[ \t]|$))", re.MULTILINE)
ESCAPED = re.compile(r"^\\(?=\\*#{1,6}(?:[ \t]|$))", re.MULTILINE)

DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
WHEN = re.compile(r"(?:(\d{4}-\d{2}-\d{2})\b[ T]*)?(?:\d{1,2}:\d{2}(?::\d{2})?\b)?[ \t]*[-–—:]?[ \t]*")
"""The optional start of a heading: a day, a time, or both."""

CONTROL = re.compile(r"[\0-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Characters that no text needs, and that some readers interpret as a line end or a command."""

LONGEST_PASSAGE = 2_000
"""Maximum characters of a passage. A longer section becomes several, each with its heading; nothing is omitted."""


@frozen
class EntryPiece:
    """A searchable part of a file."""

    line: int
    """Its first line, from 1."""
    day: str
    """``2026-11-25``, or empty."""
    title: str
    """Its headings, outermost first, without leading day and time."""
    text: str


def clean(text: str) -> str:
    """Return a text for a file: uniform line ends, and control characters replaced by ``�``."""
    return CONTROL.sub("�", text.replace("\r\n", "\n").replace("\r", "\n")).strip()


def escape_headings(text: str) -> str:
    """Escape the lines that look like headings."""
    return LIKE_HEADING.sub(r"\\", text)


def unescape_headings(text: str) -> str:
    """Undo ``escape_headings``."""
    return ESCAPED.sub("", text)


def one_line(text: str, longest: int) -> str:
    """Return a text on one line, truncated if longer; ``(empty)`` for an empty text."""
    line = " ".join(clean(text).split())
    return f"{line[: longest - 1]}…" if len(line) > longest else line or "(empty)"


def entry(heading: str, text: str) -> str:
    """Return a section of a file."""
    return f"## {heading}\n\n{escape_headings(text)}\n"


@frozen
class Heading:
    """The heading of the lines that follow."""

    level: int
    title: str
    day: str


@frozen
class Mark:
    """A place in a file where reading can continue after more was appended: appending never changes a passage before
    it. It is after a heading, or between two lines at a cut of a long section.
    """

    offset: int = 0
    """Bytes before it; whole lines."""
    lines: int = 0
    pieces: int = 0
    above: tuple[Heading, ...] = ()
    """The headings of the text after it, outermost first."""
    within: bool = False
    """Whether a passage of the same section is before it."""


BEGINNING = Mark()


def mark_text(mark: Mark) -> str:
    """Serialize a mark."""
    above = [[one.level, one.title, one.day] for one in mark.above]
    return json.dumps([mark.offset, mark.lines, mark.pieces, above, mark.within], ensure_ascii=False)


def mark_in(text: str) -> Mark:
    """Parse a mark of ``mark_text``; raises ValueError or TypeError for other texts."""
    offset, lines, pieces, above, within = json.loads(text)
    return Mark(offset, lines, pieces, tuple(Heading(*one) for one in above), within)


def pieces_of(text: str, name: str = "") -> list[EntryPiece]:
    """Return the passages of a file in order.

    Args:
        text: its content.
        name: its name without suffix. If it begins with a day, that is the day of sections without a dated heading. If
            the first heading equals it, that is not a title.
    """
    sections = (section.piece for section in _sections(text, name, BEGINNING))
    return [piece for section in sections if section is not None for piece in _split(section)[0]]


def read_after(content: bytes, name: str, since: Mark = BEGINNING) -> tuple[list[EntryPiece], Mark]:
    """Return the passages after a mark, and the next mark, where reading continues when the file has grown.

    Args:
        content: the whole file. Bytes that are not UTF-8 are read as ``�``.
        name: as in ``pieces_of``.
        since: a mark of the same file, from before text was appended.
    """
    behind = content[since.offset :] if since.offset else content
    pieces: list[EntryPiece] = []
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
    """Return the whole sections of a file; empty if the file does not contain the text ``like``."""
    if escape_headings(like) not in text:
        return []
    return [one.piece.text for one in _sections(text, name, BEGINNING) if one.piece is not None]


def change_notes(content: bytes, note: str, name: str, instead: str | None, heading: str) -> tuple[bytes, int]:
    """Remove or replace the sections of a file whose whole text is a note; every other byte stays.

    Args:
        content: the file.
        note: the text.
        name: as in ``pieces_of``.
        instead: the new text; None removes the section with its heading.
        heading: the new heading of replaced notes; a heading with words of its own stays.

    Returns:
        The new content, and how many sections were changed.
    """
    sections = list(_sections(content.decode("utf-8-sig", "replace"), name, BEGINNING))
    lines, changed = content.split(b"\n"), 0
    for place in reversed(range(len(sections))):
        section, following = sections[place], sections[place + 1 : place + 2]
        if section.piece is None or section.piece.text != note or section.heads_only:
            continue
        changed += 1
        end = following[0].lines - 1 if following else len(lines)
        own = section.above[-1] if section.lines else None
        is_parent = bool(following) and own is not None and following[0].above[-1].level > own.level
        begin = section.lines if own is None or own.level == 1 or is_parent else section.lines - 1
        new: list[bytes] = []
        if instead is not None:
            begin = section.lines if own is None or own.title or own.level == 1 else section.lines - 1
            text = entry(heading, instead) if begin < section.lines else f"\n{escape_headings(instead)}\n"
            new = text.encode("utf-8", "replace").split(b"\n")
        lines[begin:end] = new or ([] if following else [b""])
    return b"\n".join(lines), changed


def day_of(text: str) -> str:
    """Return the text if it is a valid day, else an empty text."""
    try:
        date.fromisoformat(text)
    except ValueError:
        return ""
    return text if DAY.fullmatch(text) else ""


@frozen
class _Section:
    """The text between two headings, before the first heading, or after a mark."""

    lines: int
    """Lines of the file before it."""
    above: tuple[Heading, ...]
    """Its headings; the last is its own."""
    within: bool
    """Whether it continues a section with passages before it."""
    settled: bool
    """Whether its heading is a complete line, which appending cannot change."""
    piece: EntryPiece | None
    """The whole section, if it is a passage."""

    @property
    def heads_only(self) -> bool:
        """Whether its passage is its heading, without any text below."""
        return self.piece is not None and self.piece.line == self.lines


def _sections(text: str, name: str, since: Mark) -> Iterator[_Section]:
    file_day = day_of(name[:10])
    above, before, within, settled = since.above, since.lines, since.within, True
    lines = text.replace("\r\n", "\n").split("\n")
    last = since.lines + len(lines)
    body: list[str] = []

    def piece(following: int) -> EntryPiece | None:
        """Return the section of the newest heading. A heading without text is a passage, unless it has subheadings."""
        content = "\n".join(body)
        days = [one.day for one in above if one.day]
        own_day = days[-1] if days else file_day
        if content.strip():
            blank = 0 if within else len(content) - len(content.lstrip("\n"))
            title = " › ".join(one.title for one in above if one.title)
            return EntryPiece(before + 1 + blank, own_day, title, unescape_headings(content[blank:].rstrip()))
        if above and above[-1].title and following <= above[-1].level:
            title = " › ".join(one.title for one in above[:-1] if one.title)
            return EntryPiece(before, own_day, title, above[-1].title)
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


def _split(piece: EntryPiece) -> tuple[list[EntryPiece], int, int]:
    """Split a section into passages, preferably between paragraphs, else lines, else words.

    Also return how many passages are before the last stable cut, and the line after it. A cut is stable if appending to
    the file cannot move it. It must be between two lines, so that it has a byte offset, and depend only on text before
    the last line, which may still grow.
    """
    text, line, at = piece.text, piece.line, 0
    settled = text.rfind("\n") + 1
    found: list[EntryPiece] = []
    before, behind = 0, piece.line
    while len(text) - at > LONGEST_PASSAGE:
        window = text[at : at + LONGEST_PASSAGE]
        least = LONGEST_PASSAGE // 2
        gaps = ((gap, window.rfind(gap, least)) for gap in ("\n\n", "\n", " "))
        cut = next((place + len(gap) for gap, place in gaps if place > 0), len(window))
        found.append(EntryPiece(line, piece.day, piece.title, window[:cut].strip("\n").rstrip()))
        line += window.count("\n", 0, cut)
        if at + LONGEST_PASSAGE <= settled and window[cut - 1] == "\n":
            before, behind = len(found), line
        at += cut
    if (rest := text[at:]).strip():
        found.append(EntryPiece(line, piece.day, piece.title, rest.strip("\n").rstrip()))
    return found, before, behind
