"""One output stream as a terminal shows it: colours, a line that comes and goes, and nothing that could steer it.

Colours are ANSI's (ECMA-48 SGR). Text of models, tools and files may hold control characters, escape sequences among
them, that would move the cursor or rename the window; on a terminal they are shown instead of obeyed.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from interpreters.cli.render import Style

COLOURS: Mapping[Style, str] = {
    "plain": "",
    "dim": "\x1b[2m",
    "call": "\x1b[36m",
    "error": "\x1b[31m",
    "warning": "\x1b[33m",
}
RESET = "\x1b[0m"
ERASE_LINE = "\r\x1b[K"

CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""C0 without tab and line feed, DEL, and C1, which some terminals obey as well."""

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAME_SECONDS = 0.1
BAR_WIDTH = 30


def visible(text: str) -> str:
    r"""The text with control characters written out, such as ``\x1b``; the carriage return of CRLF goes."""
    return CONTROLS.sub(lambda match: f"\\x{ord(match[0]):02x}", text.replace("\r\n", "\n"))


def json_text(data: Any, **how: Any) -> str:
    r"""JSON that steers no terminal either, and has a form in UTF-8: the control characters that JSON leaves as they
    are, and halves of surrogate pairs, are escaped. It stands for the same data. ``how`` is as for ``json.dumps``.
    """
    return _escaped(json.dumps(data, ensure_ascii=False, **how))


def json_parts(data: Any) -> Iterator[str]:
    """``json_text`` in parts: a text that the data hold a hundred times is never held written out a hundred times."""
    return map(_escaped, json.JSONEncoder(ensure_ascii=False).iterencode(data))


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

LEFT_BY_JSON = re.compile("[\x7f-\x9f\ud800-\udfff]")


def _escaped(json_: str) -> str:
    return LEFT_BY_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", json_)


def bar(label: str, done: float) -> str:
    """A progress bar of one line; ``done`` is from 0 to 1."""
    filled = round(BAR_WIDTH * min(max(done, 0.0), 1.0))
    return f"{label} {'█' * filled}{'░' * (BAR_WIDTH - filled)} {min(max(done, 0.0), 1.0):4.0%}"


class Terminal:
    """A stream to write to. Without a terminal behind it everything is written as it is and nothing moves."""

    def __init__(self, stream: TextIO, environment: Mapping[str, str] | None = None) -> None:
        environment = os.environ if environment is None else environment
        self.stream = stream
        self.is_terminal = stream.isatty()
        dumb = environment.get("TERM") == "dumb"
        self.moves = self.is_terminal and not dumb
        """Whether a line can be drawn again in place."""
        self.colours = self.moves and not environment.get("NO_COLOR")  # https://no-color.org: set and not empty

    def write(self, text: str, style: Style = "plain") -> None:
        """Write and flush, so that both streams stay in order and every token is seen as it comes.

        Raises:
            OSError: nobody reads, or there is no room.
        """
        if self.is_terminal:
            text = visible(text)
        colour = COLOURS[style] if self.colours else ""
        body = text.rstrip("\n")
        if colour and body:  # the line break stays outside: a colour that is on when a line is scrolled in fills it
            text = f"{colour}{body}{RESET}{text[len(body) :]}"
        self.stream.write(text)
        self.stream.flush()

    def write_lines(self, lines: Iterable[tuple[str, Style]]) -> None:
        """Write each line with its style; raises the same."""
        for text, style in lines:
            self.write(f"{text}\n", style)


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
        with self._lock:
            if ended is not None and ended.is_set():  # cleared while this frame was on its way
                return
            if text == self._drawn:  # loading reports more often than the bar moves
                return
            self._drawn = text
            dim, reset = (COLOURS["dim"], RESET) if self._terminal.colours else ("", "")
            self._put(f"{ERASE_LINE}{dim}{visible(text)}{reset}")

    def _put(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # a decoration: where it can't be drawn nothing is lost
            self._terminal.stream.write(text)
            self._terminal.stream.flush()
