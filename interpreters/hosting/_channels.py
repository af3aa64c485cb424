"""Transports for lines between the two sides: queues within a process, pipes between two processes.

For another transport, such as a websocket, write a class with these three methods.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from queue import SimpleQueue
from typing import IO, Protocol

from interpreters.hosting._protocol import LONGEST, ProtocolError
from runtime.children.line_pipe import LineSplitter

MOST_UNSENT = 200_000
"""Maximum number of lines that the other side has not read yet."""


class Channel(Protocol):
    """One side of a connection."""

    def send(self, line: str) -> None:
        """Send a line; callable from any thread. A line that can no longer be delivered is dropped."""

    def receive(self) -> str | None:
        """Wait for the next line and return it; None, from then on, when the other side has ended. Called by one
        thread.

        Raises:
            ProtocolError: the other side sent invalid data, such as an endless line; the connection is unusable.
        """

    def close(self) -> None:
        """Signal the end of this side. A second call does nothing."""


class QueueChannel:
    """A side of a connection within a process."""

    def __init__(self, incoming: SimpleQueue[str | None], outgoing: SimpleQueue[str | None]) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._ended = False

    @staticmethod
    def pair() -> tuple[QueueChannel, QueueChannel]:
        one: SimpleQueue[str | None] = SimpleQueue()
        other: SimpleQueue[str | None] = SimpleQueue()
        return QueueChannel(one, other), QueueChannel(other, one)

    def send(self, line: str) -> None:
        self._outgoing.put(line)

    def receive(self) -> str | None:
        line = None if self._ended else self._incoming.get()
        self._ended = line is None
        return line

    def close(self) -> None:
        self._outgoing.put(None)


class PipeChannel:
    """Lines through two byte streams. A separate thread writes, so that ``send`` never waits for a slow reader."""

    def __init__(self, reader: IO[bytes], writer: IO[bytes]) -> None:
        self._reader = reader
        self._writer = writer
        self._lines = LineSplitter(LONGEST)
        self._read: deque[str] = deque()
        """Complete lines that are not returned yet."""
        self._outgoing: SimpleQueue[str | None] = SimpleQueue()
        self._writing = threading.Thread(target=self._write, name="cogstep-channel", daemon=True)
        self._writing.start()

    def send(self, line: str) -> None:
        if self._outgoing.qsize() <= MOST_UNSENT:  # beyond that, the connection ends: see `receive`
            self._outgoing.put(line)

    def receive(self) -> str | None:
        while not self._read:
            if self._outgoing.qsize() > MOST_UNSENT:
                raise ProtocolError(f"nothing that matters: it has not read {MOST_UNSENT:,} messages")
            try:
                data = os.read(self._reader.fileno(), 1 << 16)
            except (OSError, ValueError):  # closed on this side
                return None
            if not data:
                return None
            self._read.extend(self._lines.feed(data))
        return self._read.popleft()

    def close(self) -> None:
        self._outgoing.put(None)

    def drain(self, seconds: float) -> None:
        """Wait up to ``seconds`` until everything sent before ``close`` is written."""
        self._writing.join(seconds)

    def _write(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # nobody reads any more; whoever receives finds out
            while (line := self._outgoing.get()) is not None:
                self._writer.write(line.encode() + b"\n")
                if self._outgoing.empty():
                    self._writer.flush()
            self._writer.flush()
        with contextlib.suppress(OSError, ValueError):
            self._writer.close()
