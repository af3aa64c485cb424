"""What a command prints: both ends in memory, all of it in a file, and shown so that nothing steers a terminal."""

from __future__ import annotations

import os
import secrets
import threading
import weakref
from pathlib import Path

from cognition.shown import shown_text

SHOWN = 30_000
"""Characters of an output that the model reads."""

FILE_LIMIT = 1 << 30
"""Bytes of an output that its file holds."""

WIDEST = 4
"""Bytes of a character in UTF-8: so many times the characters that are shown are kept of either end."""


class OutputFolder:
    """Where outputs are kept. It is held, since a command may put a link to somewhere else in its place.

    Attributes:
        path: as it was called when it was opened.

    Raises:
        OSError: it can't be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        flags = os.O_DIRECTORY | os.O_CLOEXEC
        self.held = os.open(path, flags | getattr(os, "O_PATH", os.O_RDONLY))
        self._release = weakref.finalize(self, os.close, self.held)

    def close(self) -> None:
        """No more files are made in it."""
        self.held = -1
        self._release()


class OutputFile:
    """A new file of a directory, which only its owner may read: ``shell-`` and a name that nobody can guess.

    Attributes:
        path: of the file.
        problem: why it doesn't hold all that was printed; empty while it does.
    """

    def __init__(self, folder: OutputFolder, limit: int = FILE_LIMIT) -> None:
        name = f"shell-{secrets.token_hex(8)}.txt"
        self.path = str(folder.path / name)
        self.problem = ""
        self._left = limit
        self._file: int | None = None
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(name, flags, 0o600, dir_fd=folder.held)
        except OSError as error:
            self.problem = f"its file can't be made: {os.strerror(error.errno or 0)}"

    def write(self, data: bytes) -> None:
        """Add to it. What can't be written is left out, and ``problem`` says why."""
        if self._file is None or self.problem:
            return
        if len(data) > self._left:
            data, self.problem = data[: self._left], "the file holds only its beginning, since it grew too large"
        self._left -= len(data)
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError as error:
            self.problem = f"the file holds only its beginning: {os.strerror(error.errno or 0)}"

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


class Output:
    """What one command prints. It may be added to on one thread and taken on another.

    Args:
        shown: characters that ``take`` gives at most, but for the line that says what is missing.
        folder: where the file goes; None for no file.
        at_once: begin the file now; else it begins when there is more than is shown.

    Attributes:
        total: bytes that have come.
    """

    def __init__(self, shown: int, folder: OutputFolder | None, *, at_once: bool = False) -> None:
        self.total = 0
        self._shown = shown
        self._folder = folder
        self._room = max(WIDEST * shown, 4096)
        self._lock = threading.Lock()
        self._head = bytearray()
        self._tail = bytearray()
        self._came = 0
        """Bytes since they were last taken: the head, what is missing between, the tail."""
        self._file = OutputFile(folder) if folder is not None and at_once else None

    @property
    def path(self) -> str:
        """Of the file that holds all of it; empty if there is none."""
        return "" if self._file is None or not os.path.exists(self._file.path) else self._file.path

    def add(self, data: bytes) -> None:
        """Take in what was printed."""
        with self._lock:
            self.total += len(data)
            self._came += len(data)
            room = self._room - len(self._head)
            if room > 0:
                self._head += data[:room]
            if len(data) > room:
                self._tail += data[max(room, 0) :]
            if self._file is not None:
                self._file.write(data)
            elif self.total > self._shown:
                self._begin_file()
            if len(self._tail) > 2 * self._room:
                del self._tail[: -self._room]

    def _begin_file(self) -> None:
        """All that has come is still in memory: the first chunk that exceeds what is shown gets here."""
        if self._folder is not None:
            self._file = OutputFile(self._folder)
            self._file.write(bytes(self._head + self._tail))

    def take(self, *, last: bool) -> tuple[str, str]:
        """What has come since the last time, at most so much as is shown; and where the rest is, if there is one.

        The two are apart, since whoever shortens the text once more may keep its end, and will hardly keep its middle.

        Args:
            last: nothing comes any more. Else the beginning of a character whose end is missing waits for the rest.
        """
        with self._lock:
            head, tail, came = bytes(self._head), bytes(self._tail), self._came
            waits = b"" if last else begun_character(tail or head)
            self._head, self._tail, self._came = bytearray(waits), bytearray(), len(waits)
            came -= len(waits)
            if waits:
                head, tail = (head, tail[: -len(waits)]) if tail else (head[: -len(waits)], tail)
            if came == len(head) + len(tail):
                text = decoded(head + tail)
                whole = visible(text)
                if len(whole) <= self._shown:
                    return whole, ""
                first, end = text, text
                if self._file is None and self.total == came:
                    self._begin_file_of(head + tail)
            else:
                first, end = decoded(head), decoded(tail)
            return self._cut(first, end, came), self._where()

    def _begin_file_of(self, data: bytes) -> None:
        if self._folder is not None:
            self._file = OutputFile(self._folder)
            self._file.write(data)

    def _cut(self, first: str, end: str, came: int) -> str:
        start = fitting(first, self._shown // 2)
        stop = fitting(end, self._shown - self._shown // 2, backwards=True)
        missing = came - len(encoded(start)) - len(encoded(stop))
        return f"{visible(start)}\n[... {missing:,} of {came:,} bytes are left out here ...]\n{visible(stop)}"

    def _where(self) -> str:
        if self._file is None:
            return "what is left out is not kept: to see it, run it again with its output in a file, or filter it"
        if not self.path:
            return f"what is left out is not kept: {self._file.problem}"
        partly = f", but {self._file.problem}" if self._file.problem else ""
        parts = "read parts of that, as with sed -n '1,200p' or tail -c 5000"
        return f"all of it is in the file {self.path}{partly}: {parts}"

    def close(self) -> None:
        with self._lock:
            if self._file is not None:
                self._file.close()


class Ticker:
    """The newest of what was printed, for those who watch a command while it runs."""

    LONGEST = 4_000
    """Bytes of one piece. Of a command that prints faster than it is told, only the newest is told."""

    def __init__(self) -> None:
        self._fresh = b""

    def add(self, data: bytes) -> None:
        self._fresh = (self._fresh + data[-self.LONGEST :])[-self.LONGEST :]

    def take(self, *, last: bool = False) -> str:
        """What came since the last time, as it may be shown."""
        waits = b"" if last else begun_character(self._fresh)
        fresh, self._fresh = self._fresh[: len(self._fresh) - len(waits)], waits
        return visible(decoded(fresh))


def decoded(data: bytes) -> str:
    """Bytes as text, from which they can be made again."""
    return data.decode("utf-8", "surrogateescape")


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def visible(text: str) -> str:
    r"""As people and models read it: ``\xff`` for a byte that is no text, ``\x1b`` for a control character."""
    return shown_text(encoded(text).decode("utf-8", "backslashreplace"))


def fitting(text: str, room: int, *, backwards: bool = False) -> str:
    """The longest beginning, or end, that is visible in so many characters."""
    low, high = 0, min(len(text), 2 * room)  # the two characters that end a line elsewhere are visible as one
    while low < high:
        middle = (low + high + 1) // 2
        part = text[len(text) - middle :] if backwards else text[:middle]
        if len(visible(part)) <= room:
            low = middle
        else:
            high = middle - 1
    return text[len(text) - low :] if backwards else text[:low]


def begun_character(data: bytes) -> bytes:
    """The bytes at the end that begin a character of UTF-8 whose other bytes are still to come."""
    for back in range(1, min(WIDEST, len(data) + 1)):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        size = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return data[-back:] if back < size else b""
    return b""
