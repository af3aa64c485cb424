"""The gate: all output of the command line goes through a ``Terminal``, which escapes control sequences.

Text of models, tools, files and recordings may contain control characters and escape sequences. These could move the
cursor, rename the window or type for the user. Other characters change the display order of text. All of them are shown
in escaped form (see ``cognition.base.display``).

While a command runs, gates replace ``sys.stdout`` and ``sys.stderr``. So they also filter the output of Python,
argparse and libraries (tracebacks, warnings, logs). The only sequences written are those of this module: colours
(ECMA-48 SGR), and erasing a line.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO, cast

if TYPE_CHECKING:
    from interpreters.cli.screen.styled import Style

COLOURS: Mapping[Style, str] = {
    "plain": "",
    "dim": "\x1b[2m",
    "call": "\x1b[36m",
    "error": "\x1b[31m",
    "warning": "\x1b[33m",
    "added": "\x1b[32m",
    "removed": "\x1b[31m",
}
RESET = "\x1b[0m"
ERASE_LINE = "\r\x1b[K"

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAME_SECONDS = 0.1
BAR_WIDTH = 30
LONGEST_STATUS = 72
"""Characters of a status line. A wrapped line could not be erased."""


def json_text(data: Any, **how: Any) -> str:
    """Return JSON without control sequences, encodable anywhere. ``how`` is passed to ``json.dumps``."""
    from cognition.base.display import shown_json  # here and below, so that --help need not load the core

    return shown_json(json.dumps(data, ensure_ascii=False, **how))


def json_parts(data: Any) -> Iterator[str]:
    """Yield ``json_text`` in parts, so that text repeated many times in the data is never in memory as a whole."""
    from cognition.base.display import shown_json

    return map(shown_json, json.JSONEncoder(ensure_ascii=False).iterencode(data))


def in_pieces(parts: Iterable[str]) -> Iterator[str]:
    """Join parts into larger pieces for writing."""
    piece: list[str] = []
    length = 0
    for part in parts:
        piece.append(part)
        length += len(part)
        if length > PIECE:
            yield "".join(piece)
            piece, length = [], 0
    yield "".join(piece)


PIECE = 1 << 16


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


def bar(label: str, done: float) -> str:
    """Return a one-line progress bar; ``done`` is from 0 to 1."""
    filled = round(BAR_WIDTH * min(max(done, 0.0), 1.0))
    return f"{label} {'█' * filled}{'░' * (BAR_WIDTH - filled)} {min(max(done, 0.0), 1.0):4.0%}"


class Terminal:
    """One output stream. Replaces ``sys.stdout`` or ``sys.stderr`` while a command runs."""

    def __init__(self, stream: TextIO, environment: Mapping[str, str] | None = None) -> None:
        environment = os.environ if environment is None else environment
        self.stream = stream
        self.is_terminal: bool = stream.isatty()
        dumb = environment.get("TERM") == "dumb"
        self.moves: bool = self.is_terminal and not dumb
        """Whether a line can be redrawn in place."""
        self.colours: bool = self.moves and not environment.get("NO_COLOR")  # https://no-color.org: set and not empty
        self._before = ""
        """The end of the previous output, since some characters change their meaning after others."""
        self._held = ""
        """A carriage return at the end of a piece. The next piece decides whether it belongs to a line ending."""

    def write(self, text: str, style: Style = "plain") -> int:
        """Write text of any number of lines, and flush, so that both streams stay in order and every token appears
        immediately.

        Raises:
            OSError: the reader is gone, or the disk is full.
        """
        from cognition.base.display import shown_text

        whole = self._held + text
        self._held = "\r" if whole.endswith("\r") else ""
        whole = whole.removesuffix("\r")
        shown = shown_text(whole, self._before)
        colour, body = COLOURS[style] if self.colours else "", shown.rstrip("\n")
        if colour and body:  # the line break stays outside: a colour that is on when a line is scrolled in fills it
            shown = f"{colour}{body}{RESET}{shown[len(body) :]}"
        self.steer(shown)
        self._before = (self._before + whole)[-2:]
        return len(text)

    def write_line(self, text: str, style: Style = "plain", *, whole: bool = False) -> None:
        """Write one line. Line breaks in the text are escaped, and its length is bounded unless ``whole`` is true.
        Raises the same.
        """
        from cognition.base.display import LONGEST_LINE, shown_name

        self.write(f"{shown_name(text, None if whole else LONGEST_LINE)}\n", style)

    def write_lines(self, lines: Iterable[tuple[str, Style]], *, whole: bool = False) -> None:
        """Write each line with its style; raises the same."""
        for text, style in lines:
            self.write_line(text, style, whole=whole)

    def write_json(self, data: Any, **how: Any) -> None:
        """Write a value as JSON, with ``how`` for ``json.dumps``; raises the same."""
        self.write(f"{json_text(data, **how)}\n")

    def steer(self, sequence: str) -> None:
        """Write trusted text unescaped, such as a control sequence of this module; raises the same."""
        try:
            self.stream.write(sequence)
        except UnicodeEncodeError:  # a stream that was opened by somebody else, who is strict
            self.stream.write(sequence.encode(self.encoding, "backslashreplace").decode(self.encoding))
        self.stream.flush()

    def flush(self) -> None:
        """As in other streams, like the methods below."""
        self.stream.flush()

    def isatty(self) -> bool:
        return self.is_terminal

    def fileno(self) -> int:
        return self.stream.fileno()

    @property
    def encoding(self) -> str:
        return self.stream.encoding or "utf-8"

    @property
    def errors(self) -> str:
        return self.stream.errors or "strict"


def out() -> Terminal:
    """Return the gate for stdout."""
    return _gate(sys.stdout)


def err() -> Terminal:
    """Return the gate for stderr."""
    return _gate(sys.stderr)


def _gate(stream: TextIO) -> Terminal:
    found: object = stream
    return found if isinstance(found, Terminal) else Terminal(stream)


@contextlib.contextmanager
def gates() -> Iterator[None]:
    """Filter all output to stdout and stderr until the end of the block."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = cast("TextIO", out()), cast("TextIO", err())
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


class StatusLine:
    """A last line with the current status, which vanishes before other output. Drawn only if lines can be redrawn.

    Show it only while the cursor is at the beginning of a line.
    """

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._lock = threading.Lock()
        self._ended: threading.Event | None = None
        self._drawn = ""

    def spin(self, label: str) -> None:
        """Show a spinner until ``clear``. It starts after one frame, so that quick work does not flicker."""
        self.clear()
        if self._terminal.moves:
            ended = self._ended = threading.Event()
            # A daemon: a spinner must not keep the program from leaving at the second Ctrl-C.
            threading.Thread(target=self._spin, args=(label, ended), name="cogstep spinner", daemon=True).start()

    def clear(self) -> None:
        """Erase the line. Call it before any other output to this terminal."""
        if self._ended is not None:
            self._ended.set()
            self._ended = None
        with self._lock:  # the spinner's thread is not in the middle of a frame
            if self._drawn:
                self._drawn = ""
                self._put(ERASE_LINE)

    def _spin(self, label: str, ended: threading.Event) -> None:
        frame = 0
        while not ended.wait(FRAME_SECONDS):
            self.show(f"{FRAMES[frame % len(FRAMES)]} {label}", ended)
            frame += 1

    def show(self, text: str, ended: threading.Event | None = None) -> None:
        """Draw a line now, such as a progress bar, unless ``ended`` is set."""
        if not self._terminal.moves:
            return
        from cognition.base.display import shown_name

        with self._lock:
            # Cleared while this frame was on its way, or reported more often than the bar moves.
            if (ended is not None and ended.is_set()) or text == self._drawn:
                return
            self._drawn = text
            dim, reset = (COLOURS["dim"], RESET) if self._terminal.colours else ("", "")
            self._put(f"{ERASE_LINE}{dim}{shown_name(text, LONGEST_STATUS)}{reset}")

    def _put(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # a decoration: where it can't be drawn nothing is lost
            self._terminal.steer(text)
