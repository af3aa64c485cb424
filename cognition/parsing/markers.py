"""Find markers in text that is still incomplete.

The leftmost marker wins; of several at one position, the longest. So the parser holds back the end of a chunk exactly
if it may still become a marker or part of one, and never more than that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable


class Markers:
    """A set of texts to search for. Immutable after construction."""

    __slots__ = ("_pattern", "longest", "prefixes", "sign", "texts")

    texts: tuple[str, ...]
    """Longest first."""
    longest: int
    """Length of the longest marker. At most one character less is ever held back."""

    prefixes: frozenset[str]
    """All proper prefixes of the markers."""
    sign: Callable[..., re.Match[str] | None]
    """Finds the first position where a marker could begin. Most chunks have no such position; this check is the
    fastest.
    """

    def __init__(self, markers: Iterable[str]) -> None:
        known = sorted(set(markers) - {""}, key=lambda marker: (-len(marker), marker))
        self.texts = tuple(known)
        self.longest = len(known[0]) if known else 0
        # (?!) matches nothing: an empty set of markers is never found.
        self._pattern = re.compile("|".join(map(re.escape, known)) or "(?!)")
        self.sign = re.compile("|".join(sorted({re.escape(marker[0]) for marker in known})) or "(?!)").search
        self.prefixes = frozenset(marker[:size] for marker in known for size in range(1, len(marker)))

    def next(self, text: str, start: int, final: bool = False) -> tuple[int, str]:
        """Return the position and text of the next marker.

        Without a marker the text is empty, and the position is the start of the text to hold back, or the text's end.
        ``final``: no text will follow, so no text is held back.
        """
        found = self._pattern.search(text, start)
        end = found.start() if found else len(text)
        if not final and (held := self.find_held(text, start, end)) is not None:
            return held, ""
        return (end, found.group()) if found else (end, "")

    def find_begun(self, text: str) -> str:
        """Return the longest suffix of ``text`` that is a proper prefix of a marker."""
        return next((text[at:] for at in range(len(text)) if text[at:] in self.prefixes), "")

    def can_continue(self, text: str, sign: str) -> bool:
        """Return whether ``text`` ends with a prefix of a marker that continues with the character ``sign``."""
        more = (text[at:] + sign for at in range(len(text)))
        return any(beginning in self.prefixes or beginning in self.texts for beginning in more)

    def find_held(self, text: str, start: int, end: int) -> int | None:
        """Return the first position from ``start`` to ``end`` where the text may be an incomplete marker."""
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
