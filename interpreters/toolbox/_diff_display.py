"""Show a change as a unified diff of bounded length."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher

from interpreters.toolbox._texts import Line, lines_of

CONTEXT = 3
COMPARED = 1_000
"""Lines compared between the first and the last difference. Beyond that, only the number of lines is shown."""
DIFF_LINES = 80
DIFF_CHARACTERS = 6_000
NO_END = "\\ No newline at end of file"


def format_diff(before: str, after: str) -> str:
    """Return the hunks of a diff, possibly cut, with a note about the cut. Empty if there is no visible difference."""
    found: list[str] = []
    size, left_out = 0, 0
    for line in diff_lines(before, after):
        if left_out or len(found) == DIFF_LINES or size + len(line) > DIFF_CHARACTERS:
            left_out += 1
            continue
        found.append(line)
        size += len(line) + 1
    if left_out:
        found.append(f"[{left_out} more lines of the diff]")
    return "\n".join(found)


def diff_lines(before: str, after: str, *, whole: bool = False) -> Iterator[str]:
    """Yield the lines of all hunks. Ignores differences in line endings.

    If too many lines differ to compare, it yields one line with their number. With ``whole``, it then yields all old
    lines and after them all new lines.
    """
    old, new = lines_of(before), lines_of(after)
    same = _count_same(old, new, False)
    below = _count_same(old[same:], new[same:], True)
    first = max(0, same - CONTEXT)
    old_part = old[first : len(old) - max(0, below - CONTEXT)]
    new_part = new[first : len(new) - max(0, below - CONTEXT)]
    if max(len(old), len(new)) - same - below > COMPARED:
        if not whole:
            yield f"[lines {same + 1} to {len(new) - below} are new, in the place of {len(old) - same - below}]"
            return
        above = len(old[first:same])
        yield f"@@ -{_range(first, len(old_part))} +{_range(first, len(new_part))} @@"
        yield from _with_sign(" ", old_part[:above])
        yield from _with_sign("-", old[same : len(old) - below])
        yield from _with_sign("+", new[same : len(new) - below])
        yield from _with_sign(" ", new[len(new) - below : len(new) - below + CONTEXT])
        return
    matcher = SequenceMatcher(None, _make_visible(old_part), _make_visible(new_part), autojunk=False)
    for group in matcher.get_grouped_opcodes(CONTEXT):
        (_, old_from, _, new_from, _), (_, _, old_to, _, new_to) = group[0], group[-1]
        ranges = _range(first + old_from, old_to - old_from), _range(first + new_from, new_to - new_from)
        yield f"@@ -{ranges[0]} +{ranges[1]} @@"
        for kind, from_old, to_old, from_new, to_new in group:
            if kind == "equal":
                yield from _with_sign(" ", old_part[from_old:to_old])
            else:
                yield from _with_sign("-", old_part[from_old:to_old])
                yield from _with_sign("+", new_part[from_new:to_new])


def _make_visible(lines: list[Line]) -> list[tuple[str, bool]]:
    return [(line.text, bool(line.end)) for line in lines]


def _count_same(old: list[Line], new: list[Line], from_below: bool) -> int:
    """Return how many lines both have in common at the beginning, or at the end."""
    count = 0
    step = -1 if from_below else 1
    for one, other in zip(old[::step], new[::step], strict=False):
        if (one.text, bool(one.end)) != (other.text, bool(other.end)):
            break
        count += 1
    return count


def _range(start: int, length: int) -> str:
    first = start + 1 if length else start
    return str(first) if length == 1 else f"{first},{length}"


def _with_sign(sign: str, lines: list[Line]) -> Iterator[str]:
    for line in lines:
        yield sign + line.text
        if not line.end:
            yield NO_END


def count_changes(before: str, after: str) -> tuple[int, int]:
    """Return the numbers of added and removed lines."""
    old, new = lines_of(before), lines_of(after)
    same = _count_same(old, new, False)
    below = _count_same(old[same:], new[same:], True)
    if max(len(old), len(new)) - same - below > COMPARED:
        return len(new) - same - below, len(old) - same - below
    middle = SequenceMatcher(
        None, _make_visible(old[same : len(old) - below]), _make_visible(new[same : len(new) - below]), autojunk=False
    )
    blocks = sum(block.size for block in middle.get_matching_blocks())
    return len(new) - same - below - blocks, len(old) - same - below - blocks
