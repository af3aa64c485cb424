"""A preview on the screen: each of its lines stands behind a bar, so that none can pass for anything else there.

A line that is longer than the terminal is wide goes on behind a bar of its own: left to the terminal, its rest would
begin at the edge, where questions begin. A changed line that is more than printable ASCII, or that ends in a blank, has
a second row with what it is in ASCII, as JSON: so letters that pass for others, and what isn't seen at all, are told
from what they look like. A tab is an arrow.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from unicodedata import east_asian_width

from cognition.shown import LONGEST_LINE, shown_name
from interpreters.cli.pieces import Style
from interpreters.cli.terminal import Terminal
from interpreters.tools.previews import Preview

BAR, ON, ASCII = "  │ ", "  ┆ ", "  = "
"""Before a line, before the rest of one, and before what one is in ASCII."""

HEAD, TAIL = 30, 10
"""Lines of a preview that are shown before somebody asks for all of it."""
LONGEST = 400
"""Characters of a line that are shown until then."""
TAB = 4
COLUMNS = 80
"""Where nobody says how wide the terminal is."""
NARROWEST = 20

Rows = Iterator[tuple[str, Style]]


def is_cut(preview: Preview) -> bool:
    """Whether there is more of it than is shown at first."""
    return len(preview.lines) > HEAD + TAIL or any(len(line) > LONGEST for line in preview.lines)


def preview_rows(preview: Preview, columns: int, *, whole: bool = False) -> Rows:
    """What is written of a preview, row by row."""
    if preview.note:
        for row in wrapped(shown_name(preview.note, LONGEST_LINE), "  ", columns):
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
    sign, text, style = "", line, "plain"
    if in_diff and line[:1] in ("+", "-", " "):
        sign, text = line[0], line[1:]
        style = {"+": "added", "-": "removed", " ": "plain"}[sign]
    elif in_diff:
        style = "dim" if line[:1] in ("@", "\\") else "call"
    as_style: Style = style  # type: ignore[assignment]  # each of them is one
    tabs = _with_arrows(text)
    for row in wrapped(sign + shown_name(tabs, longest), BAR, columns):
        yield row, as_style
    if sign != " " and not _is_plain(text):
        cut = text if longest is None or len(text) <= longest else text[:longest]
        more = "" if len(cut) == len(text) else f" and {len(text) - len(cut)} more characters"
        for row in wrapped(f"{json.dumps(cut)}{more}", ASCII, columns):
            yield row, as_style


def _is_plain(text: str) -> bool:
    """Whether a text is what it looks like."""
    return text.isascii() and text.replace("\t", "").isprintable() and not text.endswith((" ", "\t"))


def _with_arrows(text: str) -> str:
    if "\t" not in text:
        return text
    pieces = text.split("\t")
    made = ""
    for piece in pieces[:-1]:
        made += piece
        made += "→".ljust(TAB - len(made) % TAB)
    return made + pieces[-1]


def wrapped(text: str, bar: str, columns: int) -> Iterator[str]:
    """A text that is shown, in rows that no terminal of this width breaks: the first behind a bar, and the others."""
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
    """How wide a terminal is."""
    try:
        return os.get_terminal_size(terminal.fileno()).columns or COLUMNS
    except OSError:
        return COLUMNS
