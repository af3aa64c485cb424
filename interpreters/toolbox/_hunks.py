"""Apply hunks of a diff to a text: each at its stated line, or at the only other place where its lines match."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from cognition.base.display import shown_name
from interpreters.toolbox._diffs import Hunk, HunkLine
from interpreters.toolbox._edits import NAMED
from interpreters.toolbox._texts import Line, Text, lines_of, usual_end
from interpreters.tools.tool import ToolError


@frozen
class Patched:
    """A text with hunks applied.

    Attributes:
        kept: as in ``Text``.
        offsets: for each hunk, how many lines below its stated line it was applied; None if it states no line.
    """

    kept: str
    offsets: tuple[int | None, ...]


def patched(text: Text, hunks: Sequence[Hunk]) -> Patched:
    """Apply all hunks or none.

    Raises:
        ToolError: a hunk's old lines match nowhere, or at several places but not at the stated line.
    """
    shown, kept = lines_of(text.shown), lines_of(text.kept)
    usual = usual_end(text.shown)
    parts: list[Line] = []
    offsets: list[int | None] = []
    at = 0
    for number, hunk in enumerate(hunks, 1):
        try:
            place = _place(shown, hunk, at)
            parts += kept[at:place]
            parts += _hunk_applied(text, shown, kept, hunk, place, usual)
        except ToolError as error:
            raise ToolError(f"hunk {number} of {len(hunks)}: {error}") from error
        offsets.append(None if hunk.start is None else place + 1 - max(1, hunk.start))
        at = place + len(hunk.old)
    parts += kept[at:]
    whole = [line.text + (line.end or (usual if index < len(parts) - 1 else "")) for index, line in enumerate(parts)]
    return Patched("".join(whole), tuple(offsets))


def _place(lines: list[Line], hunk: Hunk, first: int) -> int:
    """Return the index of a hunk's first line. Lines before ``first`` belong to earlier hunks."""
    old = hunk.old
    if not old:
        if lines:
            raise ToolError("it has no line of the file in it; give at least one line of context around the new ones")
        return 0
    stated = None if hunk.start is None else max(0, hunk.start - 1)
    if stated is not None and stated >= first and _stands(lines, old, stated):
        return stated
    found = [place for place in range(first, len(lines) - len(old) + 1) if _stands(lines, old, place)]
    if len(found) == 1:
        return found[0]
    said = "" if stated is None else f" at line {stated + 1}"
    if found:
        numbers = ", ".join(str(place + 1) for place in found[:NAMED]) + (", ..." if len(found) > NAMED else "")
        raise ToolError(
            f"its lines do not stand{said or ' in one place only'}, and do at {len(found)} others: lines {numbers}. "
            "Give more lines of context, or the right line number"
        )
    raise ToolError(f"its lines do not stand{said} or anywhere else in the file{_nearest(lines, old, first, stated)}")


def _stands(lines: list[Line], old: list[HunkLine], place: int) -> bool:
    if place + len(old) > len(lines):
        return False
    return all(_same(lines[place + index], line) for index, line in enumerate(old))


def _same(line: Line, wanted: HunkLine) -> bool:
    r"""Return whether a line matches a hunk's line. The hunk may write ``\r\n`` as it is or as ``\n``."""
    if not wanted.ended:
        return line.end == "" and line.text == wanted.text
    return line.text == wanted.text or (line.end == "\r\n" and line.text + "\r" == wanted.text)


def _nearest(lines: list[Line], old: list[HunkLine], first: int, stated: int | None) -> str:
    """Describe the place that matches most of a hunk's lines, and its first different line."""
    best, score = None, 0
    for place in range(first, len(lines)):
        two = zip(lines[place : place + 2], old, strict=False)
        if place != stated and not any(_same(line, wanted) for line, wanted in two):
            continue
        right = sum(_same(line, wanted) for line, wanted in zip(lines[place : place + len(old)], old, strict=False))
        if right > score:
            best, score = place, right
    if best is None:
        return "; Read it, and take the lines of context from there"
    for index, wanted in enumerate(old):
        if best + index >= len(lines):
            return f". Most of them stand from line {best + 1} on, and the file ends before {shown_name(wanted.text)!r}"
        if not _same(lines[best + index], wanted):
            return (
                f". Most like them is line {best + 1} and what follows, where line {best + index + 1} is "
                f"{shown_name(lines[best + index].text)!r} and not {shown_name(wanted.text)!r}"
            )
    return ""  # pragma: no cover - it would have been found


def _hunk_applied(text: Text, shown: list[Line], kept: list[Line], hunk: Hunk, place: int, usual: str) -> list[Line]:
    """Return the lines that replace a hunk's old lines. A new line has the ending of the line that it replaces."""
    exact = any(line.text.endswith("\r") for line in hunk.lines)
    before = shown[place - 1].end if place else usual
    ends: list[str] = []
    for old in shown[place : place + len(hunk.old)]:
        before = old.end or before  # the last line of a file may have none
        ends.append(before)
    found: list[Line] = []
    at, removed = 0, 0
    for line in hunk.lines:
        if line.sign == " ":
            found.append(kept[place + at])
            at, removed = at + 1, 0
        elif line.sign == "-":
            at, removed = at + 1, removed + 1
        else:
            if exact:
                end = "\r\n" if line.text.endswith("\r") else "\n"
            elif removed:
                end, removed = ends[at - removed], removed - 1
            else:
                end = ends[min(max(at - 1, 0), len(ends) - 1)] if ends else usual
            body = line.text[:-1] if end == "\r\n" and line.text.endswith("\r") and line.ended else line.text
            found.append(Line(text.written(body), end if line.ended else ""))
    return found
