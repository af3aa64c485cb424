"""What is shown: progress, plain tables, and the machine that was measured on."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Iterable, Sequence


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of equal length, the first one a heading; the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def digits(value: float) -> str:
    """A figure with as many digits as a noisy machine deserves: 0.0043, 0.18, 3.4, 27, 150."""
    if value >= 99.5:
        return f"{value:.0f}"
    return f"{value:.2g}" if value < 0.0995 else f"{value:.{2 if value < 0.995 else 1 if value < 9.95 else 0}f}"


def machine() -> str:
    """The facts that figures depend on."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{cores} cores ({platform.machine()}), {platform.system()}, {python}{load}"


class Progress:
    """One line on stderr: rewritten in place on a terminal, a line each elsewhere."""

    def __init__(self) -> None:
        self._rewrites = sys.stderr.isatty()

    def __call__(self, text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{text[:110]}" if self._rewrites else f"{text}\n")
        sys.stderr.flush()

    def detail(self, text: str) -> None:
        """Something that is worth a look in passing, and not a line in a log."""
        if self._rewrites:
            self(text)

    def clear(self) -> None:
        if self._rewrites:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def show(parts: Iterable[tuple[str, Callable[[], str]]], say: Progress) -> int:
    """Print what each part gives as soon as it is there, with the machine as it was at the start; the exit status."""
    before = machine()
    try:
        for what, part in parts:
            say(what)
            text = part()
            say.clear()
            print(f"{text}\n")
    except KeyboardInterrupt:
        say.clear()
        print("interrupted", file=sys.stderr)
        return 130
    print(f"{before} at the start")
    return 0
