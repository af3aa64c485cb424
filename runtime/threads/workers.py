"""Worker threads for blocking tasks: sending a request, reading a reply. Idle threads wait a while for another task."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue

LINGER = 10.0
"""Seconds. Starting a thread takes about 50 microseconds, waking one 10."""

MOMENT = 0.002
"""Seconds before a deferred task runs on a thread."""
WATCHED = 0.5
"""Seconds without deferred tasks after which the watching thread ends."""

Task = Callable[[], None]


class Workers:
    """A pool with as many threads as unfinished tasks. A task must not raise."""

    def __init__(self) -> None:
        self._idle: list[SimpleQueue[Task]] = []
        self._left: deque[tuple[float, Sequence[object], Task]] = deque()
        """Deferred tasks: the time, a sequence that is empty once the task was taken, and the task."""
        self._watching = False
        self._changing = threading.Lock()
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        self._idle.clear()
        self._left.clear()
        self._watching, self._changing = False, threading.Lock()

    def run(self, task: Task) -> None:
        """Run a task on another thread. Returns immediately."""
        try:
            seat = self._idle.pop()
        except IndexError:
            threading.Thread(target=self._work, args=(task,), name="cogstep worker", daemon=True).start()
        else:
            seat.put(task)

    def run_unless_taken(self, untaken: Sequence[object], task: Task) -> None:
        """Run a task after at least ``MOMENT``, unless ``untaken`` is empty by then.

        Waking a thread for a task that the caller does next costs more than the rest of a short request.
        """
        self._left.append((time.monotonic(), untaken, task))
        if not self._watching:
            with self._changing:
                if not self._watching:
                    self._watching = True
                    self.run(self._watch)

    def _watch(self) -> None:
        last = time.monotonic()
        while self._watching:
            time.sleep(MOMENT)
            now = time.monotonic()
            while self._left and self._left[0][0] <= now - MOMENT:
                last, untaken, task = self._left.popleft()
                if untaken:
                    self.run(task)
            if now - last > WATCHED:
                with self._changing:
                    self._watching = False  # first: whoever leaves a task from here on begins to watch anew
                    self._watching = bool(self._left)

    def _work(self, task: Task) -> None:
        seat: SimpleQueue[Task] = SimpleQueue()
        while True:
            task()
            del task  # which holds a reply
            self._idle.append(seat)
            try:
                task = seat.get(timeout=LINGER)
            except Empty:
                try:
                    self._idle.remove(seat)
                except ValueError:  # somebody has taken the seat in this instant, and puts a task there
                    task = seat.get()
                else:
                    return


WORKERS = Workers()
