"""Replace an exact piece of a text: find it, and report if it is missing or not unique."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from difflib import SequenceMatcher

from attrs import frozen

from cognition.base.display import shown_name
from interpreters.toolbox._texts import Text, check_writable, end_near, with_ends
from interpreters.tools.tool import ToolError

COUNTED = 1_000
"""Places that are counted."""
NAMED = 10
"""Places whose line numbers are shown."""
NEAR_MISSES = 3
"""Places shown if nothing matches."""
COMPARED_LINES = 20_000
"""Lines compared for near misses."""
COMPARED = 300
"""Characters of a line compared for near misses."""
SIMILAR = 0.7
"""Minimum similarity of a near miss."""


@frozen
class Change:
    """One replacement.

    Attributes:
        old: must occur exactly once in the text, or at least once with ``replace_all``.
        new: the replacement.
        replace_all: whether to replace every occurrence.
    """

    old: str
    new: str
    replace_all: bool = False


@frozen
class EditResult:
    """The text with all changes made.

    Attributes:
        kept: as in ``Text``.
        places: for each change the line numbers of its places, in the text after the previous changes.
    """

    kept: str
    places: tuple[tuple[int, ...], ...]


def apply_edits(text: Text, changes: Sequence[Change]) -> EditResult:
    """Make all changes in order, each on the result of the previous changes.

    Raises:
        ToolError: a change can't be made; the message has the change and the reason.
    """
    if not changes:
        raise ToolError("there are no edits; give at least one")
    kept, shown = text.kept, text.shown
    made = []
    for number, change in enumerate(changes, 1):
        try:
            kept, shown, lines = _replace(text, kept, shown, change, _spans(shown, change))
        except ToolError as error:
            if len(changes) == 1:
                raise
            raise ToolError(f"edit {number} of {len(changes)}: {error}\nNone of the edits was made.") from error
        made.append(lines)
    if kept == text.kept:
        raise ToolError("the edits undo each other, and would change nothing")
    return EditResult(kept, tuple(made))


def _spans(shown: str, change: Change) -> list[tuple[int, int]]:
    """Return the start and end of each place to change.

    Raises:
        ToolError: there is nothing to change; or there is no place, or more than one without ``replace_all``.
    """
    if not change.old:
        raise ToolError("old is empty; give the text that is to be replaced, or use Write for a new file")
    if change.old == change.new:
        raise ToolError("old and new are the same, so nothing would change")
    check_writable(change.new)
    found = _find(shown, change.old, overlapping=not change.replace_all)
    if not found:
        similar = near_misses(shown, change.old)
        if not similar:
            raise ToolError("old does not stand in the file; Read it, and copy the text to replace from there")
        raise ToolError("\n".join(["old does not stand in the file exactly so. Similar lines are:", *similar]))
    if len(found) > 1 and not change.replace_all:
        count = f"{len(found)} places" if len(found) <= COUNTED else f"more than {COUNTED} places"
        lines = name_lines([shown.count("\n", 0, start) + 1 for start, _ in found[: NAMED + 1]])
        raise ToolError(
            f"old stands in {count}: lines {lines}. Give more of the text around the one that is meant, or set "
            "replace_all"
        )
    return found


def name_lines(numbers: Sequence[int]) -> str:
    """Return the first line numbers as text."""
    return ", ".join(map(str, numbers[:NAMED])) + (", ..." if len(numbers) > NAMED else "")


def _find(shown: str, old: str, *, overlapping: bool) -> list[tuple[int, int]]:
    r"""Return the occurrences of a text, from the left.

    A text without ``\r\n`` is found as a model reads the file, with ``\n`` line endings.

    Args:
        shown: the file's text.
        old: the text to find.
        overlapping: include overlapping occurrences, and stop not far beyond ``COUNTED``.
    """
    breaks = () if "\r\n" in old else re.finditer("\r\n", shown)
    gone = [found.start() - number for number, found in enumerate(breaks)]
    """The positions of the omitted carriage returns, in the text without them."""
    read = shown.replace("\r\n", "\n") if gone else shown
    spans: list[tuple[int, int]] = []
    at = read.find(old)
    while at >= 0 and not (overlapping and len(spans) > COUNTED):
        end = at + len(old)
        spans.append((at + bisect_left(gone, at), end + bisect_left(gone, end)))
        at = read.find(old, at + 1 if overlapping else end)
    return spans


def _replace(
    text: Text, kept: str, shown: str, change: Change, spans: list[tuple[int, int]]
) -> tuple[str, str, tuple[int, ...]]:
    """Return the changed text, as kept and as shown, and the line numbers of the changes."""
    exact = "\r\n" in change.old
    kept_parts, shown_parts, lines = [], [], []
    at, line = 0, 1
    for start, end in spans:
        new = change.new if exact else with_ends(change.new, shown[start:end], end_near(shown, start))
        kept_parts += [kept[at:start], text.to_stored_form(new)]
        shown_parts += [shown[at:start], new]
        line += shown.count("\n", at, start)
        lines.append(line)
        line += shown.count("\n", start, end)
        at = end
    changed = "".join([*kept_parts, kept[at:]])
    if changed == kept:
        raise ToolError("new is what stands there already, so nothing would change")
    return changed, "".join([*shown_parts, shown[at:]]), tuple(lines)


# -------------------------------------------------------------------------------------------------------- near misses


def near_misses(shown: str, old: str) -> list[str]:
    """Return the places most similar to a missing text, as numbered lines.

    Compares whole lines, without surrounding blanks, with the longest line of the text.
    """
    wanted = [" ".join(line.split())[:COMPARED] for line in old.split("\n")]
    key = max(range(len(wanted)), key=lambda index: len(wanted[index]))
    if not wanted[key]:
        return []
    lines = shown.split("\n", COMPARED_LINES)[:COMPARED_LINES]
    matcher = SequenceMatcher(None, "", wanted[key], autojunk=False)
    scored: list[tuple[float, int]] = []
    for number, line in enumerate(lines):
        here = " ".join(line[: 4 * COMPARED].split())[:COMPARED]
        if wanted[key] in here:
            scored.append((1.0, number))
            continue
        matcher.set_seq1(here)
        if matcher.real_quick_ratio() < SIMILAR or matcher.quick_ratio() < SIMILAR:
            continue
        if (ratio := matcher.ratio()) >= SIMILAR:
            scored.append((ratio, number))
    best = sorted(scored, key=lambda item: (-item[0], item[1]))[:NEAR_MISSES]
    near: set[int] = set()
    for _, number in best:
        first = max(0, number - key)
        near.update(range(first, min(len(lines), first + min(len(wanted), NAMED))))
    return [f"{number + 1:>6}\t{shown_name(lines[number].removesuffix(chr(13)))}" for number in sorted(near)]
