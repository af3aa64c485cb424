"""Finding markers in text that is not all there yet.

Of several markers the leftmost is found, and of those that start at one place the longest. So the end of a chunk is
held back exactly when it may still turn out to be (the beginning of) a marker, and never more of it than that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable


class Markers:
    """A set of texts to look for. Immutable after construction."""

    __slots__ = ("_pattern", "longest", "prefixes", "sign", "texts")

    texts: tuple[str, ...]
    """The longest first."""
    longest: int
    """Length of the longest marker; at most one character less is ever held back."""

    prefixes: frozenset[str]
    """The beginnings of all markers, of every length but the whole."""
    sign: Callable[..., re.Match[str] | None]
    """Finds the first place where a marker could begin. Most chunks have none, which this shows most quickly."""

    def __init__(self, markers: Iterable[str]) -> None:
        known = sorted(set(markers) - {""}, key=lambda marker: (-len(marker), marker))
        self.texts = tuple(known)
        self.longest = len(known[0]) if known else 0
        # (?!) matches nothing: an empty set of markers is never found.
        self._pattern = re.compile("|".join(map(re.escape, known)) or "(?!)")
        self.sign = re.compile("|".join(sorted({re.escape(marker[0]) for marker in known})) or "(?!)").search
        self.prefixes = frozenset(marker[:size] for marker in known for size in range(1, len(marker)))

    def next(self, text: str, start: int, final: bool = False) -> tuple[int, str]:
        """Where the next marker starts, and the marker.

        The marker is empty when there is none; the position then is that from which on the text has to be held back,
        or the text's end. ``final``: nothing will follow, so nothing is held back.
        """
        found = self._pattern.search(text, start)
        end = found.start() if found else len(text)
        if not final:
            held = self.held(text, start, end)
            if held is not None:
                return held, ""
        return (end, found.group()) if found else (end, "")

    def begun(self, text: str) -> str:
        """The longest end of a text that is the beginning of a marker, and not a whole one."""
        return next((text[at:] for at in range(len(text)) if text[at:] in self.prefixes), "")

    def goes_on(self, text: str, sign: str) -> bool:
        """Whether an end of this text is the beginning of a marker that goes on with this character."""
        more = (text[at:] + sign for at in range(len(text)))
        return any(beginning in self.prefixes or beginning in self.texts for beginning in more)

    def held(self, text: str, start: int, end: int) -> int | None:
        """The first place from ``start`` to ``end`` at which the text may be a marker that is not all there yet."""
        near = max(start, len(text) - self.longest + 1)
        if near > end:
            return None
        while found := self.sign(text, near):
            near = found.start()
            if near > end:
                break
            if text[near:] in self.prefixes:
                return near
            near += 1
        return None
