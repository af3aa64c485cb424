"""Show changes of texts as unified diffs: of bounded length for the model, complete for the approving user."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import accumulate

from attrs import frozen

from interpreters.toolbox._texts import count_common
from interpreters.tools.previews import Preview

CONTEXT = 3
COMPARED = 1_000
"""Lines compared between the first and the last difference. Beyond that, only the number of lines is shown."""
DIFF_LINES = 80
DIFF_CHARACTERS = 6_000
NO_END = "\\ No newline at end of file"


@frozen
class DisplayedChange:
    """A change of one file for display.

    Attributes:
        sign: ``A`` for created, ``M`` changed, ``D`` deleted, ``R`` renamed.
        name: the path to display.
        before: its old text; empty if it is created.
        after: its new text; empty if it is deleted.
        remark: a further note, including its separator.
    """

    sign: str
    name: str
    before: str
    after: str
    remark: str = ""

    def lines(self) -> list[str]:
        diff = list(diff_lines(self.before, self.after, whole=True))
        signs = Counter(line[:1] for line in diff)
        remark = self.remark
        if self.before != self.after and not diff:
            remark += "; only ends of lines change"
        if self.after and _ends(self.after) != _ends(self.before):
            remark += f"; lines end in {_ends(self.after)} then"
        return [f"{self.sign} {self.name}: +{signs['+']} -{signs['-']} lines{remark}", *diff]


def diff_of(files: Iterable[DisplayedChange]) -> Preview:
    return Preview([line for file in files for line in file.lines()], sort="diff")


def _ends(text: str) -> str:
    """Return the line ending of a text; LF if it has no line ending."""
    carriage = text.count("\r\n")
    return "LF" if not carriage else "CRLF" if carriage == text.count("\n") else "CRLF and LF"


def format_diff(before: str, after: str) -> str:
    """Return the hunks of a diff, possibly cut, with a note about the cut. Empty if there is no visible difference."""
    lines = list(diff_lines(before, after))
    sizes = accumulate(len(line) + 1 for line in lines)
    shown = min(DIFF_LINES, sum(size <= DIFF_CHARACTERS + 1 for size in sizes))
    more = [f"[{len(lines) - shown} more lines of the diff]"] if shown < len(lines) else []
    return "\n".join([*lines[:shown], *more])


def diff_lines(before: str, after: str, *, whole: bool = False) -> Iterator[str]:
    """Yield the lines of all hunks. Ignores differences in line endings.

    If too many lines differ to compare, it yields one line with their number. With ``whole``, it then yields all old
    lines and after them all new lines.
    """
    old, new = _visible_lines(before), _visible_lines(after)
    same, below = count_common(old, new)
    first, last = max(0, same - CONTEXT), max(0, below - CONTEXT)
    old_part, new_part = old[first : len(old) - last], new[first : len(new) - last]
    groups: Iterable[Sequence[tuple[str, int, int, int, int]]]
    if max(len(old), len(new)) - same - below <= COMPARED:
        groups = SequenceMatcher(None, old_part, new_part, autojunk=False).get_grouped_opcodes(CONTEXT)
    elif whole:
        above, old_end, new_end = same - first, len(old) - below - first, len(new) - below - first
        replaced = ("replace", above, old_end, above, new_end)
        groups = [[("equal", 0, above, 0, above), replaced, ("equal", old_end, len(old_part), new_end, len(new_part))]]
    else:
        yield f"[lines {same + 1} to {len(new) - below} are new, in the place of {len(old) - same - below}]"
        return
    for group in groups:
        (_, old_from, _, new_from, _), (_, _, old_to, _, new_to) = group[0], group[-1]
        ranges = _range(first + old_from, old_to - old_from), _range(first + new_from, new_to - new_from)
        yield f"@@ -{ranges[0]} +{ranges[1]} @@"
        for kind, from_old, to_old, from_new, to_new in group:
            if kind == "equal":
                yield from _with_sign(" ", old_part[from_old:to_old])
            else:
                yield from _with_sign("-", old_part[from_old:to_old])
                yield from _with_sign("+", new_part[from_new:to_new])


def count_changes(before: str, after: str) -> tuple[int, int]:
    """Return the numbers of added and removed lines."""
    old, new = _visible_lines(before), _visible_lines(after)
    same, below = count_common(old, new)
    old, new = old[same : len(old) - below], new[same : len(new) - below]
    kept = 0
    if max(len(old), len(new)) <= COMPARED:
        kept = sum(block.size for block in SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks())
    return len(new) - kept, len(old) - kept


def _visible_lines(text: str) -> list[str]:
    r"""Return the lines of a text, with ``\n`` for both line endings. Only the last line may have none."""
    *ended, last = text.replace("\r\n", "\n").split("\n")
    return [*(f"{line}\n" for line in ended), *([last] if last else [])]


def _range(start: int, length: int) -> str:
    first = start + 1 if length else start
    return str(first) if length == 1 else f"{first},{length}"


def _with_sign(sign: str, lines: list[str]) -> Iterator[str]:
    for line in lines:
        yield sign + line.removesuffix("\n")
        if not line.endswith("\n"):
            yield NO_END
