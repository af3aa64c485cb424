"""Timeouts for requests to the handle's side."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic
from typing import Any

from interpreters.loop.clock import LONGEST_WAIT


class Patience:
    """Gives up futures after a timeout. It uses a single thread, which exists only while a future waits.

    Args:
        seconds: the timeout; None for ever.
    """

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._waiting: dict[Future[Any], tuple[float, Callable[[], object]]] = {}
        """For each future: its deadline and the function that gives it up, in the order of the deadlines."""
        self._changed = threading.Condition()
        self._watched = False

    def watch(self, wait: Future[Any], give_up: Callable[[], object]) -> None:
        """Call ``give_up`` unless the future is settled in time."""
        if self._seconds is None:
            return
        with self._changed:
            self._waiting[wait] = (monotonic() + self._seconds, give_up)
            if not self._watched:
                self._watched = True
                threading.Thread(target=self._watch, name="cogstep-patience", daemon=True).start()
        wait.add_done_callback(self._settled)

    def _settled(self, wait: Future[Any]) -> None:
        with self._changed:
            self._waiting.pop(wait, None)
            self._changed.notify()

    def _watch(self) -> None:
        while (give_up := self._next()) is not None:
            give_up()

    def _next(self) -> Callable[[], object] | None:
        with self._changed:
            while self._waiting:
                wait, (when, give_up) = next(iter(self._waiting.items()))
                left = when - monotonic()
                if left <= 0.0:
                    del self._waiting[wait]
                    return give_up
                self._changed.wait(min(left, LONGEST_WAIT))
            self._watched = False
            return None
