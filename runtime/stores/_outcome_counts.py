"""Tool outcomes per day, counted from a memory's files.

Each file is read whole, since only that proves that its middle is unchanged. After a pure append, only the new lines
are parsed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

from attrs import frozen

from runtime.files import UnusableFileError, read_regular
from runtime.stores._file_snapshot import LONGEST_FILE
from runtime.stores._outcomes import Tally, tally_of


@frozen
class _Day:
    length: int
    """Bytes of its file that are whole lines."""
    hash: bytes
    tally: Tally


class Tallies:
    """Reads and caches the outcomes of days. Thread-safe: two threads may read the same day twice."""

    def __init__(self) -> None:
        self._days: dict[str, _Day] = {}

    def of(self, folder: Path, days: Sequence[str]) -> Tally:
        """Return the outcomes of these days, oldest first; skips days without a readable file.

        Raises:
            OSError: a file exists but cannot be read.
        """
        read: dict[str, _Day] = {}
        whole = Tally()
        for day in days:
            with contextlib.suppress(FileNotFoundError, UnusableFileError):
                content = read_regular(folder / f"{day}.md", LONGEST_FILE, links=False)
                read[day] = lines = _whole_lines(content, day, self._days.get(day))
                whole = whole.and_then(lines.tally).and_then(_tally(content, lines.length, len(content), day))
        self._days = read
        return whole


def _whole_lines(content: bytes, day: str, known: _Day | None) -> _Day:
    """Return the outcomes in the whole lines of a file; reuses ``known`` if the file starts with it."""
    end, view = content.rfind(b"\n") + 1, memoryview(content)
    length, tally = (0, Tally()) if known is None else (known.length, known.tally)
    hasher = blake2b(view[:length], digest_size=16)
    if known is None or hasher.digest() != known.hash:
        length, tally, hasher = 0, Tally(), blake2b(digest_size=16)
    hasher.update(view[length:end])
    return _Day(end, hasher.digest(), tally.and_then(_tally(content, length, end, day)))


def _tally(content: bytes, begin: int, end: int, day: str) -> Tally:
    return tally_of(content[begin:end].decode("utf-8" if begin else "utf-8-sig", "replace"), day)
