"""A command's output: both ends in memory, all of it in a file, shown without control sequences for a terminal."""

from __future__ import annotations

import os
import secrets
import threading
import weakref
from pathlib import Path

from cognition.base.display import shown_text

SHOWN = 30_000
"""Characters of an output that the model reads."""

FILE_LIMIT = 1 << 30
"""Bytes of an output in its file."""

WIDEST = 4
"""Bytes of the longest UTF-8 character. Either end is stored with this many bytes per shown character."""


class OutputFolder:
    """A folder for output files. Its descriptor stays open, since a command may replace the path by a link.

    Attributes:
        path: its path when it was opened.

    Raises:
        OSError: it can't be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        flags = os.O_DIRECTORY | os.O_CLOEXEC
        self.held: int = os.open(path, flags | getattr(os, "O_PATH", os.O_RDONLY))
        self._release = weakref.finalize(self, os.close, self.held)

    def close(self) -> None:
        """Close the folder. It accepts no new files afterwards."""
        self.held = -1
        self._release()


class OutputFile:
    """A new file in a folder, readable only by its owner: ``shell-`` and a random name.

    Attributes:
        path: its path.
        problem: why it does not contain the whole output; empty if it does.
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
        """Append data. If it can't be written, it is dropped, and ``problem`` has the reason."""
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


class CommandOutput:
    """The output of one command. One thread may add to it while another takes from it.

    Args:
        shown: characters that ``take`` returns at most, without the line about omitted bytes.
        folder: the folder for its file; None for no file.
        at_once: create the file immediately, not only when the output exceeds ``shown``.

    Attributes:
        total: bytes received.
    """

    def __init__(self, shown: int, folder: OutputFolder | None, *, at_once: bool = False) -> None:
        self.total: int = 0
        self._shown = shown
        self._folder = folder
        self._room = max(WIDEST * shown, 4096)
        self._lock = threading.Lock()
        self._head = bytearray()
        self._tail = bytearray()
        self._came = 0
        """Bytes since the last ``take``: head, omitted middle and tail."""
        self._file = OutputFile(folder) if folder is not None and at_once else None

    @property
    def path(self) -> str:
        """The path of the file with the whole output; empty if there is no such file."""
        return "" if self._file is None or not os.path.exists(self._file.path) else self._file.path

    def add(self, data: bytes) -> None:
        """Receive a piece of output."""
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
            elif self.total > self._shown:  # at the first piece beyond: the whole output is still in memory
                self._begin_file(bytes(self._head + self._tail))
            if len(self._tail) > 2 * self._room:
                del self._tail[: -self._room]

    def _begin_file(self, data: bytes) -> None:
        if self._folder is not None:
            self._file = OutputFile(self._folder)
            self._file.write(data)

    def take(self, *, last: bool) -> tuple[str, str]:
        """Return the new output, at most ``shown`` characters, and where to find the omitted rest (or an empty text).

        The two are separate texts: if the caller shortens the output again, its end is more likely to remain than its
        middle.

        Args:
            last: the output is complete. If False, an incomplete UTF-8 character at the end waits for the next call.
        """
        with self._lock:
            head, tail, came = bytes(self._head), bytes(self._tail), self._came
            waits = b"" if last else incomplete_character(tail or head)
            self._head, self._tail, self._came = bytearray(waits), bytearray(), len(waits)
            came -= len(waits)
            if waits:
                head, tail = (head, tail[: -len(waits)]) if tail else (head[: -len(waits)], tail)
            if came == len(head) + len(tail):
                text = decode(head + tail)
                whole = visible(text)
                if len(whole) <= self._shown:
                    return whole, ""
                first, end = text, text
                if self._file is None and self.total == came:
                    self._begin_file(head + tail)
            else:
                first, end = decode(head), decode(tail)
            return self._cut(first, end, came), self._where()

    def _cut(self, first: str, end: str, came: int) -> str:
        start = fit_text(first, self._shown // 2)
        stop = fit_text(end, self._shown - self._shown // 2, backwards=True)
        missing = came - len(encode(start)) - len(encode(stop))
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
    """The newest output, for display while a command runs."""

    LONGEST = 4_000
    """Bytes of one piece. If a command prints faster than the display, only the newest output is shown."""

    def __init__(self) -> None:
        self._fresh = b""

    def add(self, data: bytes) -> None:
        self._fresh = (self._fresh + data[-self.LONGEST :])[-self.LONGEST :]

    def take(self, *, last: bool = False) -> str:
        """Return the output since the last call, in visible form."""
        waits = b"" if last else incomplete_character(self._fresh)
        fresh, self._fresh = self._fresh[: len(self._fresh) - len(waits)], waits
        return visible(decode(fresh))


def decode(data: bytes) -> str:
    """Decode bytes as text without loss."""
    return data.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def visible(text: str) -> str:
    r"""Return text as shown to users and models: ``\xff`` for an invalid byte, ``\x1b`` for a control character."""
    return shown_text(encode(text).decode("utf-8", "backslashreplace"))


def fit_text(text: str, room: int, *, backwards: bool = False) -> str:
    """Return the longest beginning, or end, whose visible form has at most ``room`` characters."""
    low, high = 0, min(len(text), 2 * room)  # the two characters that end a line elsewhere are visible as one
    while low < high:
        middle = (low + high + 1) // 2
        part = text[len(text) - middle :] if backwards else text[:middle]
        if len(visible(part)) <= room:
            low = middle
        else:
            high = middle - 1
    return text[len(text) - low :] if backwards else text[:low]


def incomplete_character(data: bytes) -> bytes:
    """Return the bytes at the end that begin an incomplete UTF-8 character."""
    for back in range(1, min(WIDEST, len(data) + 1)):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        size = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return data[-back:] if back < size else b""
    return b""
