"""Server-sent events, line by line (https://html.spec.whatwg.org/multipage/server-sent-events.html).

Skips comments (servers send them to keep a connection alive), ids and retry times. The nonstandard field ``error``
counts as an event of that name: older builds of llama-server report failures with it.
"""

from __future__ import annotations

from attrs import frozen

from cognition.wire._lines import LONGEST_LINE


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
