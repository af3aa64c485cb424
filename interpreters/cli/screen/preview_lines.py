"""Show a preview with a bar before each line, so that its text can't imitate other output.

A line longer than the terminal continues behind its own bar. If the terminal wrapped it, the rest would begin at the
left edge, like a question. A changed line with anything but printable ASCII, or with a blank at its end, has a second
row: the line in ASCII, as JSON. This reveals look-alike letters and invisible characters. Tabs are shown as arrows.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from unicodedata import east_asian_width

from cognition.base.display import LONGEST_LINE, shown_name
from interpreters.cli.screen.styled import Style
from interpreters.cli.screen.terminal import Terminal
from interpreters.tools.previews import Preview

BAR, ON, ASCII = "  │ ", "  ┆ ", "  = "
"""Prefixes of a line, of its continuation, and of its ASCII form."""

HEAD, TAIL = 30, 10
"""Lines shown at the beginning and end of a preview, until the user asks for all."""
LONGEST = 400
"""Characters of a line shown until then."""
TAB = 4
COLUMNS = 80
NARROWEST = 20

DIFF_STYLES: Mapping[str, Style] = {"+": "added", "-": "removed", " ": "plain", "@": "dim", "\\": "dim"}
"""By the first character of a line; the others name files."""

Rows = Iterator[tuple[str, Style]]


def is_cut(preview: Preview) -> bool:
    """Return whether the first view omits anything."""
    return len(preview.lines) > HEAD + TAIL or any(len(line) > LONGEST for line in preview.lines)


def preview_rows(preview: Preview, columns: int, *, whole: bool = False) -> Rows:
    """Yield the rows of a preview."""
    if preview.note:
        for row in wrap(shown_name(preview.note, LONGEST_LINE), "  ", columns):
            yield row, "dim"
    lines, left = preview.lines, len(preview.lines) - HEAD - TAIL
    if whole or left <= 0:
        shown: Iterable[str | None] = lines
    else:
        shown = chain(islice(lines, HEAD), [None], lines[-TAIL:])
    for line in shown:
        if line is None:
            yield f"  … {left} more lines are not shown here …", "warning"
        else:
            yield from _rows_of(line, preview.sort == "diff", columns, None if whole else LONGEST)


def _rows_of(line: str, in_diff: bool, columns: int, longest: int | None) -> Rows:
    sign = line[:1] if in_diff and line[:1] in ("+", "-", " ") else ""
    text = line.removeprefix(sign)
    style: Style = DIFF_STYLES.get(line[:1], "call") if in_diff else "plain"
    tabs = _show_tabs(text)
    for row in wrap(sign + shown_name(tabs, longest), BAR, columns):
        yield row, style
    if sign != " " and not _is_plain(text):
        cut = text if longest is None or len(text) <= longest else text[:longest]
        more = "" if len(cut) == len(text) else f" and {len(text) - len(cut)} more characters"
        for row in wrap(f"{json.dumps(cut)}{more}", ASCII, columns):
            yield row, style


def _is_plain(text: str) -> bool:
    """Return whether a text has no look-alike or invisible characters."""
    return text.isascii() and text.replace("\t", "").isprintable() and not text.endswith((" ", "\t"))


def _show_tabs(text: str) -> str:
    *pieces, last = text.split("\t")
    made = ""
    for piece in pieces:
        made += piece
        made += "→".ljust(TAB - len(made) % TAB)
    return made + last


def wrap(text: str, bar: str, columns: int) -> Iterator[str]:
    """Split text into rows that fit the terminal. The first row has the prefix ``bar``, the others ``ON``."""
    room = max(columns, NARROWEST) - len(ON)
    if text.isascii():
        yield f"{bar}{text[:room]}"
        for start in range(room, len(text), room):
            yield f"{ON}{text[start : start + room]}"
        return
    row, used = bar, 0
    for char in text:
        cells = 1 if char.isascii() or east_asian_width(char) not in "WFA" else 2
        if used + cells > room:
            yield row
            row, used = ON, 0
        row += char
        used += cells
    yield row


def columns_of(terminal: Terminal) -> int:
    try:
        return os.get_terminal_size(terminal.fileno()).columns or COLUMNS
    except OSError:
        return COLUMNS
