"""Threads for what blocks: sending a request, reading a reply. One that is idle waits a while for the next task."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

LINGER = 10.0
"""Seconds. To start a thread takes some 50 microseconds, and to wake one 10."""

Task = Callable[[], None]


class Workers:
    """As many threads as there are tasks that have not ended. A task must not raise."""

    def __init__(self) -> None:
        """Start none yet."""
        self._idle: list[SimpleQueue[Task]] = []
        os.register_at_fork(after_in_child=self._idle.clear)  # the child has none of the threads

    def run(self, task: Task) -> None:
        """Have a task done on another thread. Returns at once."""
        try:
            seat = self._idle.pop()
        except IndexError:
            threading.Thread(target=self._work, args=(task,), name="cogstep worker", daemon=True).start()
        else:
            seat.put(task)

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
