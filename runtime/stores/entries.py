"""Markdown in and out: a note as it is written into a file, and a file as the passages that are searched. Pure.

A line that begins with ``#`` to ``######`` and a space is a heading, wherever it stands, and begins a passage. What is
written for somebody can't forge one: such a line gets a backslash in front, which Markdown doesn't show and reading
takes away again.
"""

from __future__ import annotations

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


def pieces_of(text: str, name: str = "") -> list[Piece]:
    """The passages of a file in order.

    Args:
        text: what it holds.
        name: its own, without an ending: the day of sections whose headings have none, if it begins with one. As the
            first heading of the file it is no title.
    """
    return [piece for section in _sections(text, name) for piece in _split(section)]


def notes_in(text: str, like: str, name: str) -> list[str]:
    """The whole sections of a file of this name; none of them where a text that is looked for is not even in it."""
    return [one.text for one in _sections(text, name)] if escaped(like) in text else []


def day_of(text: str) -> str:
    """The text if it is a day that there is, else nothing."""
    try:
        date.fromisoformat(text)
    except ValueError:
        return ""
    return text if DAY.fullmatch(text) else ""


@frozen
class _Open:
    """A heading below which the next lines stand."""

    level: int
    title: str
    day: str


def _sections(text: str, name: str) -> Iterator[Piece]:
    file_day = day_of(name[:10])
    above: list[_Open] = []
    lines = text.replace("\r\n", "\n").split("\n")
    begin, body = 1, list[str]()

    def section(following: int) -> Iterator[Piece]:
        """What stands below the newest heading; a heading without anything is a passage, unless it heads others."""
        content = "\n".join(body)
        days = [one.day for one in above if one.day]
        own_day = days[-1] if days else file_day
        if content.strip():
            blank = len(content) - len(content.lstrip("\n"))
            title = " › ".join(one.title for one in above if one.title)
            yield Piece(begin + blank, own_day, title, unescaped(content.strip("\n").rstrip()))
        elif above and above[-1].title and following <= above[-1].level:
            title = " › ".join(one.title for one in above[:-1] if one.title)
            yield Piece(begin - 1, own_day, title, above[-1].title)

    for number, line in enumerate(lines, 1):
        found = HEADING.fullmatch(line) if line.startswith("#") and len(line) <= LONGEST_HEADING else None
        if found is None:
            body.append(line)
            continue
        level = len(found[1])
        yield from section(level)
        above = [one for one in above if one.level < level]
        when = WHEN.match(found[2] or "")
        rest = (found[2] or "")[when.end() if when else 0 :].strip()
        rest = "" if level == 1 and rest.casefold() == name.casefold() else rest
        above.append(_Open(level, rest, day_of((when and when[1]) or "")))
        begin, body = number + 1, []
    yield from section(0)


def _split(piece: Piece) -> Iterator[Piece]:
    """A section as passages: cut between paragraphs where there is one, else lines, else words."""
    text, line = piece.text, piece.line
    while len(text) > LONGEST_PASSAGE:
        window = text[:LONGEST_PASSAGE]
        least = LONGEST_PASSAGE // 2
        cut = next((at + len(gap) for gap in ("\n\n", "\n", " ") if (at := window.rfind(gap, least)) > 0), len(window))
        yield Piece(line, piece.day, piece.title, text[:cut].strip("\n").rstrip())
        line += text[:cut].count("\n")
        text = text[cut:]
    if text.strip():
        yield Piece(line, piece.day, piece.title, text.strip("\n").rstrip())
