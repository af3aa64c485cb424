"""Threads for what blocks: sending a request, reading a reply. One that is idle waits a while for the next task."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue

LINGER = 10.0
"""Seconds. To start a thread takes some 50 microseconds, and to wake one 10."""

MOMENT = 0.002
"""Seconds for which a task is left to whoever may do it without a thread."""
WATCHED = 0.5
"""Seconds for which it is watched whether such tasks come, before the thread that does so ends."""

Task = Callable[[], None]


class Workers:
    """As many threads as there are tasks that have not ended. A task must not raise."""

    def __init__(self) -> None:
        """Start none yet."""
        self._idle: list[SimpleQueue[Task]] = []
        self._left: deque[tuple[float, Sequence[object], Task]] = deque()
        """Tasks that are left to others for a moment: since when, what is empty once one is taken, and the task."""
        self._watching = False
        self._changing = threading.Lock()
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        """The child has none of the threads."""
        self._idle.clear()
        self._left.clear()
        self._watching, self._changing = False, threading.Lock()

    def run(self, task: Task) -> None:
        """Have a task done on another thread. Returns at once."""
        try:
            seat = self._idle.pop()
        except IndexError:
            threading.Thread(target=self._work, args=(task,), name="cogstep worker", daemon=True).start()
        else:
            seat.put(task)

    def run_unless_taken(self, untaken: Sequence[object], task: Task) -> None:
        """Have a task done in ``MOMENT`` at the earliest, unless ``untaken`` is empty by then.

        To wake a thread for what its maker does next costs more than the rest of a short request.
        """
        self._left.append((time.monotonic(), untaken, task))
        if not self._watching:
            with self._changing:
                if not self._watching:
                    self._watching = True
                    self.run(self._watch)

    def _watch(self) -> None:
        """Do what nobody has taken; ends when nothing more comes."""
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
