"""The gate: everything that the command line writes goes through a ``Terminal``, which lets nothing steer the screen.

Text of models, tools, files and recordings may hold control characters, escape sequences among them, that would move
the cursor, rename the window or type for the user; and characters that change the order in which others are read. They
are shown instead of obeyed (``cognition.shown`` draws the line). While a command runs, ``sys.stdout`` and
``sys.stderr`` are gates themselves, so that what Python, argparse and libraries print (tracebacks, warnings, lines of a
log) passes as well. The only sequences that are written are those of this module: colours (ECMA-48 SGR) and the erasing
of a line.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TextIO, cast

if TYPE_CHECKING:
    from interpreters.cli.pieces import Style

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
"""Characters of a status line: one that wraps could not be erased."""


def json_text(data: Any, **how: Any) -> str:
    """JSON of the same value that steers no terminal and can be encoded anywhere; ``how`` is as for ``json.dumps``."""
    from cognition.shown import shown_json  # here and below, so that --help need not load the core

    return shown_json(json.dumps(data, ensure_ascii=False, **how))


def json_parts(data: Any) -> Iterator[str]:
    """``json_text`` in parts: a text that the data hold a hundred times is never held written out a hundred times."""
    from cognition.shown import shown_json

    return map(shown_json, json.JSONEncoder(ensure_ascii=False).iterencode(data))


def in_pieces(parts: Iterable[str]) -> Iterator[str]:
    """The same text in pieces of a length that is worth writing."""
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
"""Characters that are written at once."""


def bar(label: str, done: float) -> str:
    """A progress bar of one line; ``done`` is from 0 to 1."""
    filled = round(BAR_WIDTH * min(max(done, 0.0), 1.0))
    return f"{label} {'█' * filled}{'░' * (BAR_WIDTH - filled)} {min(max(done, 0.0), 1.0):4.0%}"


class Terminal:
    """One output stream. It stands in for ``sys.stdout`` or ``sys.stderr`` while a command runs."""

    def __init__(self, stream: TextIO, environment: Mapping[str, str] | None = None) -> None:
        environment = os.environ if environment is None else environment
        self.stream = stream
        self.is_terminal = stream.isatty()
        dumb = environment.get("TERM") == "dumb"
        self.moves = self.is_terminal and not dumb
        """Whether a line can be drawn again in place."""
        self.colours = self.moves and not environment.get("NO_COLOR")  # https://no-color.org: set and not empty
        self._before = ""
        """The end of what was written: text comes in pieces, and some characters mean something behind others."""
        self._held = ""
        """A carriage return at the end of a piece: whether it belongs to a line's end, the next piece tells."""

    def write(self, text: str, style: Style = "plain") -> int:
        """Write a text of any number of lines, and flush, so that both streams stay in order and every token is seen as
        it comes.

        Raises:
            OSError: nobody reads, or there is no room.
        """
        from cognition.shown import shown_text

        whole = self._whole(text)
        self._coloured(shown_text(whole, self._before), style)
        self._before = (self._before + whole)[-2:]
        return len(text)

    def write_line(self, text: str, style: Style = "plain", *, whole: bool = False) -> None:
        """Write one line: whatever the text, there is no line break in it, and unless it is wanted ``whole`` its length
        is bounded; raises the same.
        """
        from cognition.shown import LONGEST_LINE, shown_name

        self.write(f"{shown_name(text, None if whole else LONGEST_LINE)}\n", style)

    def write_lines(self, lines: Iterable[tuple[str, Style]], *, whole: bool = False) -> None:
        """Write each line with its style; raises the same."""
        for text, style in lines:
            self.write_line(text, style, whole=whole)

    def write_json(self, data: Any, **how: Any) -> None:
        """Write a value as JSON, with ``how`` as for ``json.dumps``; raises the same."""
        self.write(f"{json_text(data, **how)}\n")

    def steer(self, sequence: str) -> None:
        """Write as it is what nobody else has a say in, such as a sequence of this module's; raises the same."""
        self._put(sequence)

    def flush(self) -> None:
        """As streams have it, like all that follows."""
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

    def _whole(self, text: str) -> str:
        whole = self._held + text
        self._held = "\r" if whole.endswith("\r") else ""
        return whole.removesuffix("\r")

    def _coloured(self, text: str, style: Style) -> None:
        colour = COLOURS[style] if self.colours else ""
        body = text.rstrip("\n")
        if colour and body:  # the line break stays outside: a colour that is on when a line is scrolled in fills it
            text = f"{colour}{body}{RESET}{text[len(body) :]}"
        self._put(text)

    def _put(self, text: str) -> None:
        try:
            self.stream.write(text)
        except UnicodeEncodeError:  # a stream that was opened by somebody else, who is strict
            self.stream.write(text.encode(self.encoding, "backslashreplace").decode(self.encoding))
        self.stream.flush()


def out() -> Terminal:
    """The gate before stdout."""
    return _gate(sys.stdout)


def err() -> Terminal:
    """The gate before stderr."""
    return _gate(sys.stderr)


def _gate(stream: TextIO) -> Terminal:
    found: object = stream
    return found if isinstance(found, Terminal) else Terminal(stream)


@contextlib.contextmanager
def gates() -> Iterator[None]:
    """Put gates before stdout and stderr until the end of the block, whoever writes there."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = cast("TextIO", out()), cast("TextIO", err())
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


class StatusLine:
    """A last line that says what is going on and vanishes when something is written. Drawn only where lines can move.

    It may only be shown while the cursor stands at the beginning of a line.
    """

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._lock = threading.Lock()
        self._ended: threading.Event | None = None
        self._drawn = ""
        """What stands there now."""

    def show(self, label: str) -> None:
        """Draw a line now, such as a progress bar."""
        self._draw(label)

    def spin(self, label: str) -> None:
        """Show a spinner until ``clear``; from the second frame on, so that quick things don't flicker."""
        self.clear()
        if self._terminal.moves:
            ended = self._ended = threading.Event()
            # A daemon: a spinner must not keep the program from leaving at the second Ctrl-C.
            threading.Thread(target=self._spin, args=(label, ended), name="cogstep spinner", daemon=True).start()

    def clear(self) -> None:
        """Take the line away. Must be called before anything else is written to this terminal."""
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
            self._draw(f"{FRAMES[frame % len(FRAMES)]} {label}", ended)
            frame += 1

    def _draw(self, text: str, ended: threading.Event | None = None) -> None:
        if not self._terminal.moves:
            return
        from cognition.shown import shown_name

        with self._lock:
            if ended is not None and ended.is_set():  # cleared while this frame was on its way
                return
            if text == self._drawn:  # loading reports more often than the bar moves
                return
            self._drawn = text
            dim, reset = (COLOURS["dim"], RESET) if self._terminal.colours else ("", "")
            self._put(f"{ERASE_LINE}{dim}{shown_name(text, LONGEST_STATUS)}{reset}")

    def _put(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # a decoration: where it can't be drawn nothing is lost
            self._terminal.steer(text)
