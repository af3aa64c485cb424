"""Finds stop texts in a stream, at any token boundaries, and buffers only the necessary text."""

from __future__ import annotations

from collections.abc import Sequence


class StopFilter:
    """Passes text on until a stop text is complete; the first complete stop text ends the reply and is omitted.

    Any other rule would depend on how the text was split. Of two that end together, the longer counts. Text that may
    still become a stop text is buffered until that is decided.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self.stops: tuple[str, ...] = tuple(stop for stop in stops if stop)
        self._held = ""
        self.hit: bool = False

    def feed(self, text: str) -> str:
        """Return the text that may be shown now; nothing after a hit."""
        if self.hit:
            return ""
        if not self.stops:
            return text
        self._held += text
        found = [(start + len(stop), start) for stop in self.stops if (start := self._held.find(stop)) >= 0]
        self.hit = bool(found)
        cut = min(found)[1] if found else len(self._held) - max(map(self._possible_start, self.stops))
        shown, self._held = self._held[:cut], "" if found else self._held[cut:]
        return shown

    def finish(self) -> str:
        """Return the buffered text at the end of the stream."""
        rest, self._held = self._held, ""
        return rest

    def _possible_start(self, stop: str) -> int:
        """Return the length of the longest end of the buffered text that is a start of ``stop``."""
        longest = min(len(stop) - 1, len(self._held))
        return next((size for size in range(longest, 0, -1) if self._held.endswith(stop[:size])), 0)
