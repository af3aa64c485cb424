"""Splits bytes, in chunks of any size, into lines. A line ends with CR, LF or CRLF, and has a maximum length."""

from __future__ import annotations

from attrs import frozen

LONGEST_LINE = 1 << 24
"""Bytes of a line, 16 MiB. The last event of a reply may contain the whole reply: a million tokens are about five
million bytes.
"""

BOM = b"\xef\xbb\xbf"


@frozen
class LineState:
    """The state between two pieces."""

    held: tuple[bytes, ...] = ()
    """The incomplete line so far."""
    carriage: bool = False
    """Whether the last byte was a CR: a following LF then does not end another line."""
    begun: bool = False
    """Whether the first line, which may begin with a byte order mark, has been read."""


class Lines:
    """Splits bytes into lines, without their line ends."""

    __slots__ = ("_begun", "_carriage", "_held", "_size")

    def __init__(self, state: LineState = LineState()) -> None:
        self._held = list(state.held)
        self._size = sum(map(len, state.held))
        self._carriage = state.carriage
        self._begun = state.begun

    @property
    def state(self) -> LineState:
        return LineState(tuple(self._held), self._carriage, self._begun)

    def feed(self, data: bytes) -> tuple[list[bytes], bool]:
        """Return the lines that end in this piece, and whether a line exceeds ``LONGEST_LINE``. That line and all later
        lines are omitted.
        """
        if not data:
            return [], False
        if self._carriage and data[:1] == b"\n":
            data = data[1:]
        self._carriage = data[-1:] == b"\r"
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *ended, rest = data.split(b"\n")
        if ended and self._held:
            self._held.append(ended[0])
            ended[0] = b"".join(self._held)
            self._held.clear()
            self._size = 0
        if ended and not self._begun:
            self._begun = True
            ended[0] = ended[0].removeprefix(BOM)
        if len(data) + len(ended[0] if ended else b"") > LONGEST_LINE:  # else none of them can be too long
            for place, line in enumerate(ended):
                if len(line) > LONGEST_LINE:
                    return ended[:place], True
        if rest:
            self._held.append(rest)
            self._size += len(rest)
        return ended, self._size > LONGEST_LINE

    def rest(self) -> bytes:
        """Return the line that has not ended."""
        rest = b"".join(self._held)
        return rest if self._begun else rest.removeprefix(BOM)
