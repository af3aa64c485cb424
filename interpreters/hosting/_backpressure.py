"""Limits how far a turn may run ahead of the reader of its events."""

from __future__ import annotations

import threading


class Window:
    """Backpressure: blocks the turn while ``size`` events are unread.

    Args:
        size: the maximum; None for no limit.
    """

    def __init__(self, size: int | None) -> None:
        self._size = size
        self._unread = 0
        self._changed = threading.Condition()

    def take(self, *, wait: bool = True) -> None:
        """Count an event, after waiting for room; with ``wait=False`` immediately."""
        with self._changed:
            while wait and self._size is not None and self._unread >= self._size:
                self._changed.wait()
            self._unread += 1

    def read(self, count: int) -> None:
        """Mark ``count`` events as read."""
        with self._changed:
            self._unread -= count
            self._changed.notify_all()

    def open(self) -> None:
        """Stop waiting for the reader: the turn is about to end."""
        with self._changed:
            self._size = None
            self._changed.notify_all()
