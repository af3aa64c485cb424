"""Tables on the terminal: cells in columns, one row per line."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence


def columns(rows: Sequence[Sequence[str]], right: Collection[int]) -> Iterator[str]:
    """Format rows of equal length as lines. The columns in ``right`` are right-aligned."""
    from cognition.base.display import shown_name

    shown = [[shown_name(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in shown) for column in range(len(shown[0]))]
    for row in shown:
        cells = (
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()
