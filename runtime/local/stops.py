"""Finding stop texts in a stream: wherever the tokens cut them, and without holding back more than has to be."""

from __future__ import annotations

from collections.abc import Sequence


class StopFilter:
    """Lets text through until one of the stop texts comes; the one that is whole first ends it and is left out.

    "Whole first", because any other rule would depend on how the text was cut into pieces; of two that end together,
    the longer. What may still become a stop text is held back until it does or doesn't.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self.stops = tuple(stop for stop in stops if stop)
        self._held = ""
        self.hit = False

    def feed(self, text: str) -> str:
        """The text that may be shown now. After a hit: nothing."""
        if self.hit:
            return ""
        if not self.stops:
            return text
        self._held += text
        found = [(start + len(stop), start) for stop in self.stops if (start := self._held.find(stop)) >= 0]
        if found:
            self.hit = True
            _end, start = min(found)
            shown, self._held = self._held[:start], ""
            return shown
        keep = max(self._possible_start(stop) for stop in self.stops)
        cut = len(self._held) - keep
        shown, self._held = self._held[:cut], self._held[cut:]
        return shown

    def finish(self) -> str:
        """What was held back, at the end of the stream."""
        rest, self._held = self._held, ""
        return rest

    def _possible_start(self, stop: str) -> int:
        """The length of the longest end of the held text that the stop text starts with."""
        longest = min(len(stop) - 1, len(self._held))
        return next((size for size in range(longest, 0, -1) if self._held.endswith(stop[:size])), 0)
