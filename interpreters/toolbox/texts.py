r"""What a file holds as text that can be changed in one place without touching a byte of the rest.

A file is read in one of four ways, and written in the same one:

    UTF-8           with or without its mark (BOM)
    UTF-16          with its mark, which says the order of the bytes
    Latin-1         what has more bytes that are no UTF-8 than characters beyond ASCII that are
    UTF-8 in part   what has such bytes, but no more of them: they are shown as in Latin-1, and what is written is UTF-8

Which of them are more decides since a text in Latin-1 may hold two letters that are a character of UTF-8 by chance
(``ß»``), and one in UTF-8 a stray byte.

Lines end in ``\n`` or ``\r\n``, also both within one file. A model reads and writes ``\n`` for either, and what it
writes gets the end that stood in its place. Where what it writes has a ``\r\n`` itself, it is taken to the letter.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
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
"""How a byte that is no UTF-8 is kept (PEP 383), to how it is shown."""
KEPT = {byte: kept for kept, byte in ESCAPED.items()}
BEYOND = re.compile("[^\0-\x7f]")


class NoTextError(Exception):
    """The bytes are no text."""


@frozen
class Text:
    """A text, and how its bytes are made.

    Attributes:
        kept: from which the bytes are made again: surrogates stand for what is no character.
        shown: what a model reads, character by character as in ``kept``.
        encoding: ``utf-8``, ``utf-16-le``, ``utf-16-be`` or ``latin-1``.
        mark: the bytes before the text.
    """

    kept: str
    shown: str
    encoding: str = "utf-8"
    mark: bytes = b""

    def bytes_of(self, kept: str) -> bytes:
        """The file with another text, some of which is ``kept`` and some made by ``written``."""
        if self.encoding.startswith("utf-16"):
            return self.mark + kept.encode(self.encoding, "surrogatepass")
        return self.mark + kept.encode("utf-8", "surrogateescape")

    def written(self, new: str) -> str:
        """Text of a model's as it is kept.

        Raises:
            ToolError: the file's encoding has no form for it.
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
    def about(self) -> str:
        """What is unusual about it, such as "UTF-16 LE, lines end in CRLF"; empty where nothing is."""
        name = NAMES[self.encoding] + (" with BOM" if self.mark and self.encoding == "utf-8" else "")
        if self.encoding == "utf-8" and SURROGATE.search(self.kept):
            name = "UTF-8, with bytes that are none shown as in Latin-1"
        parts = [] if name == "UTF-8" else [name]
        both, carriage = self.kept.count("\n"), self.kept.count("\r\n")
        if carriage:
            parts.append("lines end in CRLF" if carriage == both else "lines end in CRLF and in LF")
        return ", ".join(parts)


def read_text(content: bytes) -> Text:
    """The text that a file holds.

    Raises:
        NoTextError: it is none.
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
    """See that a model's text is one.

    Raises:
        ToolError: it holds what no text holds.
    """
    if "\0" in new:
        raise ToolError("the text holds a NUL character, which no text file has; leave it out")
    if SURROGATE.search(new):
        raise ToolError("the text holds half a character (a lone surrogate, as in \\ud800); write whole characters")


# ---------------------------------------------------------------------------------------------------- ends of lines


@frozen
class Line:
    r"""A line, and what ends it: ``\n``, ``\r\n``, or nothing, which only the last line of a text has."""

    text: str
    end: str


class Lines(Sequence[Line]):
    r"""The lines of a text. Nothing but ``\n`` ends one; a carriage return right before it belongs to the end.

    Each is made when it is asked for: a file may have millions, and few of them are shown.
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
    """All lines of a text, as ``Lines`` has them."""
    return Lines(text)[:]


def end_near(text: str, start: int) -> str:
    """How the line ends in which a place lies; where it is the last one, how the one before it does."""
    found = text.find("\n", start)
    if found < 0:
        found = text.rfind("\n", 0, start)
    return "\r\n" if found > 0 and text[found - 1] == "\r" else "\n"


def usual_end(text: str) -> str:
    """How most lines of a text end."""
    carriage = text.count("\r\n")
    return "\r\n" if carriage > text.count("\n") - carriage else "\n"


def with_ends(new: str, old: str, otherwise: str) -> str:
    r"""What is put in the place of ``old``, with its lines ending as there.

    Lines that begin or end both texts keep their own ends. The others get the end of the line that stood in their
    place, or ``otherwise``. A text that has a ``\r\n`` itself is taken to the letter.
    """
    if new == old.replace("\r\n", "\n"):
        return old
    if "\r\n" in new or ("\r\n" not in old and otherwise == "\n"):
        return new
    there = [line for line in lines_of(old) if line.end]
    wanted = new.split("\n")
    lines, last = wanted[:-1], wanted[-1]
    same = 0
    while same < min(len(lines), len(there)) and lines[same] == there[same].text:
        same += 1
    below = 0
    while below < min(len(lines), len(there)) - same and lines[-1 - below] == there[-1 - below].text:
        below += 1
    parts = []
    for index, line in enumerate(lines):
        if not there:
            end = otherwise
        elif index >= len(lines) - below:
            end = there[index - len(lines)].end
        else:
            end = there[min(index, len(there) - 1)].end
        parts.append(line + end)
    return "".join(parts) + last
