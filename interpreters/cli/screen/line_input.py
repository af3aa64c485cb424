"""Read the user's lines in a chat, with history, and messages of several lines."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from interpreters.cli._errors import CommandError
from interpreters.cli.screen.terminal import err, out

ReadLine = Callable[[str], str | None]
"""Shows a prompt and returns a line without its newline; None at the end of input."""

FENCE = '"""'
PROMPT, MORE = "> ", ". "

LONGEST_HISTORY = 1000
"""Lines of history saved for the next chat."""
LONGEST_HISTORY_FILE = 1 << 24
LONGEST_INPUT = 1 << 26
"""Characters read from stdin as one text, 64 Mi."""


def read_stdin() -> str:
    """Read all of stdin. Raises CommandError if it is not text or longer than ``LONGEST_INPUT``."""
    return _read_bounded(sys.stdin.read)


def read_argument(text: str) -> str:
    """Return the text of an argument; ``-`` reads it from stdin."""
    # Bytes of an argument that are no UTF-8 come as lone surrogates, which no tokenizer and no file takes.
    return read_stdin() if text == "-" else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _read_bounded(read: Callable[[int], str]) -> str:
    try:
        text = read(LONGEST_INPUT + 1)
    except UnicodeDecodeError as error:
        raise CommandError(f"stdin is no text in {error.encoding}; pipe text into it") from error
    if len(text) > LONGEST_INPUT:
        raise CommandError(f"stdin has more than {LONGEST_INPUT:,} characters; pipe less into it")
    return text


def read_message(read: ReadLine) -> str | None:
    r"""Read one message: a line; lines that end with ``\`` and the next line; or all lines between two lines of three
    double quotes.

    The end of input also ends a message. Returns None at the end of input.
    """
    line = read(PROMPT)
    if line is None:
        return None
    if line.strip() == FENCE:
        lines: list[str] = []
        while (line := read(MORE)) is not None and line.strip() != FENCE:
            lines.append(line)
        return "\n".join(lines)
    lines = []
    while line is not None and line.endswith("\\"):
        lines.append(line.removesuffix("\\"))
        line = read(MORE)
    return "\n".join(lines if line is None else [*lines, line])


@contextlib.contextmanager
def line_reader(history: Path) -> Iterator[ReadLine]:
    """Return a reader of stdin: with editing and history on a terminal, without them and without prompts elsewhere."""
    if not sys.stdin.isatty():
        yield _read_plain
    elif not out().is_terminal:  # input() would write its prompts to stdout, among the answers
        yield _read_prompting
    else:
        with _keep_history(history):
            yield _read_editing


def _read_plain(_prompt: str) -> str | None:
    line = _read_bounded(sys.stdin.readline)
    return line.removesuffix("\n") if line else None


def _read_prompting(prompt: str) -> str | None:
    err().write(prompt)
    return _read_plain(prompt)


def _read_editing(prompt: str) -> str | None:
    try:
        return input(prompt)
    except EOFError:
        out().write("\n")  # the shell's prompt goes on a line of its own
        return None
    except UnicodeDecodeError:
        return ""  # half a character, from a terminal of another encoding: an empty line


@contextlib.contextmanager
def _keep_history(path: Path) -> Iterator[None]:
    """Load the history of earlier chats, and save it at the end. Creates the directory only then."""
    try:
        import readline
    except ImportError:  # Pythons built without it: plain lines
        yield
        return
    from runtime.files import PRIVATE_FILE, check_regular, make_directory, open_private

    with contextlib.suppress(OSError):  # there is none yet, or it can't be read: a chat goes without
        check_regular(path, LONGEST_HISTORY_FILE)
        readline.read_history_file(path)
    readline.set_history_length(LONGEST_HISTORY)
    try:
        yield
    finally:
        if readline.get_current_history_length():
            with contextlib.suppress(OSError):  # as above
                make_directory(path.parent)
                os.close(open_private(path))  # lines may hold what nobody else is to read
                readline.write_history_file(path)
                path.chmod(PRIVATE_FILE)  # readline puts another file in its place
