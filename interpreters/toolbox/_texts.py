r"""Decode a file as text, so that one place can be changed without touching any other byte.

A file is decoded in one of four ways, and encoded in the same way:

- UTF-8: with or without a BOM.
- UTF-16: with a BOM, which gives the byte order.
- Latin-1: if the file has more bytes that are not valid UTF-8 than valid characters beyond ASCII.
- Partly UTF-8: if it has such bytes, but fewer. They are shown as Latin-1, and new text is UTF-8.

The majority decides because a Latin-1 text may by chance contain a valid UTF-8 character (``ß»``), and a UTF-8 text may
contain a stray byte.

Lines end in ``\n`` or ``\r\n``, and one file may contain both. A model reads and writes ``\n`` for both, and its text
receives the ending of the replaced lines. If its text itself contains ``\r\n``, it is used literally.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from itertools import takewhile
from typing import overload

from attrs import frozen

from interpreters.tools.tool import ToolError

MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
NAMES = {"utf-8": "UTF-8", "utf-16-le": "UTF-16 LE", "utf-16-be": "UTF-16 BE", "latin-1": "Latin-1"}

SURROGATE = re.compile("[\ud800-\udfff]")
ESCAPED = {0xDC00 + byte: byte for byte in range(0x80, 0x100)}
"""Maps the stored form of an invalid byte (PEP 383) to its shown form."""
KEPT = {byte: kept for kept, byte in ESCAPED.items()}
BEYOND = re.compile("[^\0-\x7f]")


class NoTextError(Exception):
    """The bytes are not text."""


@frozen
class Text:
    """A decoded text that can be encoded without loss.

    Attributes:
        kept: the lossless form; surrogates represent invalid bytes.
        shown: the form for a model, character by character parallel to ``kept``.
        encoding: ``utf-8``, ``utf-16-le``, ``utf-16-be`` or ``latin-1``.
        mark: the BOM.
    """

    kept: str
    shown: str
    encoding: str = "utf-8"
    mark: bytes = b""

    def bytes_of(self, kept: str) -> bytes:
        """Encode a changed text that consists of parts of ``kept`` and results of ``to_stored_form``."""
        if self.encoding.startswith("utf-16"):
            return self.mark + kept.encode(self.encoding, "surrogatepass")
        return self.mark + kept.encode("utf-8", "surrogateescape")

    def to_stored_form(self, new: str) -> str:
        """Convert a model's text to the stored form.

        Raises:
            ToolError: the file's encoding can't represent it.
        """
        check_writable(new)
        if self.encoding != "latin-1":
            return new
        for character in new:
            if character > "\xff":
                raise ToolError(
                    f"the file is in Latin-1, which has no {character!r}; leave it out, or Write the whole file, which "
                    "makes it UTF-8"
                )
        return new.translate(KEPT)

    @property
    def describe(self) -> str:
        """The unusual properties, such as "UTF-16 LE, lines end in CRLF"; empty for a plain text."""
        name = NAMES[self.encoding] + (" with BOM" if self.mark and self.encoding == "utf-8" else "")
        if self.encoding == "utf-8" and SURROGATE.search(self.kept):
            name = "UTF-8, with bytes that are none shown as in Latin-1"
        parts = [] if name == "UTF-8" else [name]
        both, carriage = self.kept.count("\n"), self.kept.count("\r\n")
        if carriage:
            parts.append("lines end in CRLF" if carriage == both else "lines end in CRLF and in LF")
        return ", ".join(parts)


def read_text(content: bytes) -> Text:
    """Decode the content of a file.

    Raises:
        NoTextError: it is not text.
    """
    mark, encoding = next((one for one in MARKS if content.startswith(one[0])), (b"", "utf-8"))
    body = content[len(mark) :]
    if encoding != "utf-8":
        try:
            kept = body.decode(encoding, "surrogatepass")
        except UnicodeDecodeError as error:  # half a character at its end
            raise NoTextError from error
        if "\0" in kept:
            raise NoTextError
        return Text(kept, SURROGATE.sub("\ufffd", kept), encoding, mark)
    if b"\0" in body:
        raise NoTextError
    kept = body.decode("utf-8", "surrogateescape")
    if not SURROGATE.search(kept):
        return Text(kept, kept, encoding, mark)
    stray = len(SURROGATE.findall(kept))
    if not mark and 2 * stray > len(BEYOND.findall(kept)):
        encoding, kept = "latin-1", body.decode("ascii", "surrogateescape")
    return Text(kept, kept.translate(ESCAPED), encoding, mark)


def check_writable(new: str) -> None:
    """Check that a model's text is valid text.

    Raises:
        ToolError: it contains a NUL or a lone surrogate.
    """
    if "\0" in new:
        raise ToolError("the text holds a NUL character, which no text file has; leave it out")
    if SURROGATE.search(new):
        raise ToolError("the text holds half a character (a lone surrogate, as in \\ud800); write whole characters")


# ---------------------------------------------------------------------------------------------------- ends of lines


@frozen
class Line:
    r"""A line and its ending: ``\n``, ``\r\n``, or empty for the last line of a text."""

    text: str
    end: str


class Lines(Sequence[Line]):
    r"""The lines of a text. Only ``\n`` ends a line; a carriage return right before it belongs to the ending.

    Lines are made on demand: a file may have millions, and only a few are shown.
    """

    def __init__(self, text: str) -> None:
        self._pieces = text.split("\n")
        self._last_is_open = self._pieces[-1] != ""
        if not self._last_is_open:
            self._pieces.pop()

    def __len__(self) -> int:
        return len(self._pieces)

    @overload
    def __getitem__(self, place: int) -> Line: ...
    @overload
    def __getitem__(self, place: slice) -> list[Line]: ...
    def __getitem__(self, place: int | slice) -> Line | list[Line]:
        places = range(len(self))[place]
        return self._line(places) if isinstance(places, int) else [self._line(one) for one in places]

    def _line(self, place: int) -> Line:
        piece = self._pieces[place]
        if self._last_is_open and place == len(self._pieces) - 1:
            return Line(piece, "")
        return Line(piece[:-1], "\r\n") if piece.endswith("\r") else Line(piece, "\n")


def lines_of(text: str) -> list[Line]:
    return Lines(text)[:]


def format_lines(count: int) -> str:
    return f"{count} line{'s' * (count != 1)}"


def end_near(text: str, start: int) -> str:
    """Return the ending of the line at a position; for the last line, the ending of the line before it."""
    found = text.find("\n", start)
    if found < 0:
        found = text.rfind("\n", 0, start)
    return "\r\n" if found > 0 and text[found - 1] == "\r" else "\n"


def usual_end(text: str) -> str:
    """Return the most frequent line ending of a text."""
    carriage = text.count("\r\n")
    return "\r\n" if carriage > text.count("\n") - carriage else "\n"


def count_common(old: list[str], new: list[str]) -> tuple[int, int]:
    """Return how many lines both have in common at the beginning, and how many of the others at the end."""
    same = _count_same(old, new)
    return same, _count_same(old[same:][::-1], new[same:][::-1])


def _count_same(old: list[str], new: list[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))


def with_ends(new: str, old: str, otherwise: str) -> str:
    r"""Return ``new`` with the line endings of ``old``, which it replaces.

    Lines that both texts share at the beginning or end keep their endings. The others receive the ending of the
    replaced line, or ``otherwise``. A text that itself contains ``\r\n`` is used literally.
    """
    if new == old.replace("\r\n", "\n"):
        return old
    if "\r\n" in new or ("\r\n" not in old and otherwise == "\n"):
        return new
    there = [line for line in lines_of(old) if line.end]
    wanted = new.split("\n")
    lines, last = wanted[:-1], wanted[-1]
    _, below = count_common(lines, [line.text for line in there])
    ends = [line.end for line in there] or [otherwise]
    parts = []
    for index, line in enumerate(lines):
        place = min(index, len(ends) - 1) if index < len(lines) - below else index - len(lines)
        parts.append(line + ends[place])
    return "".join(parts) + last
