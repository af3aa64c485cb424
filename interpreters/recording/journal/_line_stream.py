"""The lines of a recorder, as a file for line-by-line reading."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from interpreters.recording.journal.errors import JournalError
from interpreters.recording.recorder import Recorder, path_of
from interpreters.tools.failures import describe


class LineStream:
    """The part of the file interface that a reader uses, over a recorder's lines.

    Raises:
        JournalError: by each method, for any exception of the recorder, and for an invalid line.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._lines: Iterator[bytes] | None = None
        self._newest = b""
        self._end = 0
        self._again = False

    def readline(self, _longest: int) -> bytes:
        """Return the next line; empty at the end."""
        if self._again:
            self._again = False
            return self._newest
        try:
            if self._lines is None:
                self._lines = iter(self._recorder.lines())
            line = next(self._lines, None)
        except JournalError:
            raise
        except Exception as error:
            raise self._unreadable(describe(error)) from error
        if line is None:
            self._newest = b""
            return b""
        if line == b"":  # which a reader would take for the end, and the rest for what was never written
            raise self._unreadable("one of its lines is empty")
        if not isinstance(line, bytes):
            raise self._unreadable(f"its lines have to be bytes, and one is of the type {type(line).__name__}")
        self._newest, self._end = line, self._end + len(line)
        return line

    def _unreadable(self, why: str) -> JournalError:
        return JournalError(f"can't be read: {why}", path=path_of(self._recorder))

    def tell(self) -> int:
        """Return the end of the newest line."""
        return self._end

    def seek(self, _place: int) -> None:
        """Go back to the beginning of the newest line."""
        self._again = True

    def close(self) -> None:
        close = getattr(self._lines, "close", None)  # of a generator, which may hold something open
        if close is not None:
            with suppress(Exception):  # what was read was read
                close()
