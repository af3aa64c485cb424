"""Outcomes of tool calls, one line each in a file per day, and their digest for a prompt. Pure.

- 14:03 | fetch | failed | {"url": "https://example.com"} | HTTP 404
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Literal, get_args

from attrs import frozen

from runtime.files import UnusableFileError, read_regular
from runtime.stores._file_snapshot import LONGEST_FILE
from runtime.stores.markdown_entries import one_line


@frozen
class _Day:
    length: int
    """Bytes of its file that are whole lines."""
    hash: bytes
    tally: Tally


class OutcomeCounts:
    """Reads and caches the outcomes of days. Thread-safe: two threads may read the same day twice.

    Each file is read whole, since only that proves that its middle is unchanged. After a pure append, only the new
    lines are parsed.
    """

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


How = Literal["succeeded", "failed", "denied", "approved"]
OUTCOMES: tuple[str, ...] = get_args(How)

LINE = re.compile(
    r"^- (\d{2}:\d{2}) \| ([^|\n]+) \| (succeeded|failed|denied|approved)(?: \| ([^\n]*))?$", re.MULTILINE
)
"""Other lines in such a file are ignored."""

NAME, ARGUMENTS, DETAIL = 80, 80, 200
"""Maximum characters of each."""

LONGEST_DIGEST = 2_400
"""Maximum characters."""

TOOLS, LATEST = 6, 8
"""Maximum tools that a digest counts, and failed calls that it lists."""


@frozen
class ToolOutcome:
    """The outcome of one call."""

    day: str
    time: str
    tool: str
    outcome: str
    """``succeeded``, ``failed``, ``denied``, or ``approved`` by a user before it ran."""
    detail: str = ""
    """Its arguments and its result, shortened."""


def outcome_line(time: str, tool: str, outcome: str, arguments: str, detail: str) -> str:
    """Return the line of a call."""
    parts = [time, one_line(tool, NAME).replace("|", "¦"), outcome]
    parts += [one_line(arguments, ARGUMENTS)] if arguments.strip() else []
    parts += [one_line(detail, DETAIL)] if detail.strip() else []
    return f"- {' | '.join(parts)}\n"


@frozen
class Tally:
    """Statistics of the calls in a period, as a digest needs them."""

    counts: Mapping[tuple[str, str], int] = {}
    ill: tuple[ToolOutcome, ...] = ()
    """The latest unsuccessful calls, oldest first, at most ``LATEST``."""

    def and_then(self, later: Tally) -> Tally:
        """Return the statistics of both periods together."""
        return Tally(Counter(self.counts) + Counter(later.counts), (self.ill + later.ill)[-LATEST:])


def tally_of(text: str, day: str) -> Tally:
    """Return the statistics of a file of this day; ignores other lines."""
    found = LINE.findall(text)
    ill = [one for one in found if one[2] not in ("succeeded", "approved")]
    latest = tuple(ToolOutcome(day, *one) for one in ill[-LATEST:])
    return Tally(Counter((tool, outcome) for _, tool, outcome, _ in found), latest)


def digest_of(tally: Tally, days: int) -> str:
    """Return a summary of the calls for a model, deterministic; empty without calls.

    Args:
        tally: of these days.
        days: their number, for the first line.
    """
    made = Counter[str]()
    for (tool, outcome), count in tally.counts.items():
        made[tool] += count * (outcome != "approved")
    total = made.total()
    if not total:
        return ""
    well = sum(count for (_, outcome), count in tally.counts.items() if outcome == "succeeded")
    when = f"the last {days} days" if days > 1 else "today"
    lines = [f"Tool calls of {when}: {total}, of which {100 * well // total} % succeeded."]
    for tool, count in sorted(made.items(), key=lambda item: (-item[1], item[0]))[:TOOLS]:
        if count:
            how = {outcome: tally.counts.get((tool, outcome), 0) for outcome in OUTCOMES}
            lines.append(f"- {tool}: {', '.join(f'{how[one]} {one}' for one in OUTCOMES if how[one])}")
    if tally.ill:
        lines.append("The latest that did not succeed, newest first:")
    for one in reversed(tally.ill):
        line = f"- {one.day} {one.tool} {one.outcome}{': ' * bool(one.detail)}{one.detail}"
        if sum(map(len, lines)) + len(lines) + len(line) > LONGEST_DIGEST:
            break
        lines.append(line)
    return "\n".join(lines)


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
