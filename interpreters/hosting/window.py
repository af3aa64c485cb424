"""How far a turn may run ahead of whoever reads its events."""

from __future__ import annotations

import threading


class Window:
    """Backpressure: blocks the turn while ``size`` events are unread.

    Args:
        size: how many; None for any number.
    """

    def __init__(self, size: int | None) -> None:
        self._size = size
        self._unread = 0
        self._changed = threading.Condition()

    def take(self, *, wait: bool = True) -> None:
        """Count one event, once there is room for it; without ``wait`` in any case."""
        with self._changed:
            while wait and self._size is not None and self._unread >= self._size:
                self._changed.wait()
            self._unread += 1

    def read(self, count: int) -> None:
        """So many were read."""
        with self._changed:
            self._unread -= count
            self._changed.notify_all()

    def open(self) -> None:
        """Nobody is waited for from now on: the turn is to end."""
        with self._changed:
            self._size = None
            self._changed.notify_all()
