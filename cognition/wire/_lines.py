"""Splits bytes, in chunks of any size, into lines, and combines lines into server-sent events.

A line ends with CR, LF or CRLF, and has a maximum length. Of the events
(https://html.spec.whatwg.org/multipage/server-sent-events.html), comments (servers send them to keep a connection
alive), ids and retry times are skipped. The nonstandard field ``error`` counts as an event of that name: older builds
of llama-server report failures with it.
"""

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


@frozen
class Event:
    """A server-sent event."""

    data: str
    kind: str = ""
    """The event's name, or empty."""


@frozen
class EventState:
    """The fields of the incomplete event."""

    data: tuple[str, ...] = ()
    kind: str = ""


class Events:
    """Combines lines into events."""

    __slots__ = ("_data", "_kind", "_size")

    def __init__(self, state: EventState = EventState()) -> None:
        self._data = list(state.data)
        self._size = sum(map(len, state.data))
        self._kind = state.kind

    @property
    def state(self) -> EventState:
        return EventState(tuple(self._data), self._kind)

    def read(self, line: bytes) -> tuple[Event | None, bool]:
        """Return the event that this line ends, if any, and whether the line belongs to an event stream."""
        if not line:
            return self.end(), True
        if line[:6] == b"data: ":  # nearly every line
            self._add(line[6:].decode("utf-8", "replace"))
            return None, True
        if line[:7] == b"event: ":  # each event has one, in some APIs
            self._kind = line[7:].decode("utf-8", "replace")
            return None, True
        name, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        match name:
            case "data":
                self._add(value)
            case "event":
                self._kind = value
            case "error":
                return Event(value, "error"), True
            case "" | "id" | "retry":
                pass
            case _:
                return None, False
        return None, True

    def end(self) -> Event | None:
        """Return the current event, as an empty line would end it; None if it has no data."""
        data, kind = self._data, self._kind
        self._kind = ""
        if not data:
            return None
        self._data, self._size = [], 0
        return Event("\n".join(data) if len(data) > 1 else data[0], kind)

    def _add(self, value: str) -> None:
        self._size += len(value) + 1
        self._data.append(value)

    @property
    def too_long(self) -> bool:
        return self._size > LONGEST_LINE
