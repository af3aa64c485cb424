"""Threads for tools that run beside the session's own thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue

KEEP_IDLE = 10.0
"""Seconds an idle thread stays. Starting one costs 0.1 ms to some ms, handing a job to an idle one 0.02 ms."""


class Workers:
    """Runs jobs at once, each on a thread of its own; threads that are done wait for the next job for a while.

    The threads are daemons: a tool that never returns can't keep the program from ending.

    Args:
        at_most: threads at the same time; further jobs wait until one is free. None for no limit.
    """

    def __init__(self, at_most: int | None = None) -> None:
        self._at_most = at_most
        self._jobs: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        """Threads that wait for a job and have none promised; below zero: jobs that wait for a thread."""
        self._threads: set[threading.Thread] = set()
        self._closed = False

    def start(self, job: Callable[[], object]) -> None:
        """Run a job on a thread that is idle or new. It must not raise."""
        with self._lock:
            if self._idle > 0 or (self._at_most is not None and len(self._threads) >= self._at_most):
                self._idle -= 1
                self._jobs.put(job)
                return
            thread = threading.Thread(target=self._work, args=([job],), name="cogstep tool", daemon=True)
            self._threads.add(thread)
        thread.start()

    def dismiss(self) -> None:
        """Send idle threads home; busy ones and later jobs are not touched."""
        with self._lock:
            for _ in range(self._idle):
                self._jobs.put(None)
            self._idle = min(self._idle, 0)

    def close(self, seconds: float) -> int:
        """Send idle threads home and wait up to so many seconds for busy ones; how many still run after that."""
        deadline = time.monotonic() + seconds
        with self._lock:
            self._closed = True
            threads = list(self._threads)
            for _ in range(self._idle):
                self._jobs.put(None)
            self._idle = min(self._idle, 0)
        for thread in threads:
            if thread is not threading.current_thread():  # a tool that closes its own agent
                thread.join(max(0.0, deadline - time.monotonic()))
        return sum(thread.is_alive() for thread in threads)

    def _work(self, first: list[Callable[[], object]]) -> None:
        job: Callable[[], object] | None = first.pop()
        while job is not None or not self._leave():
            if job is not None:
                job()
                job = None  # while the thread is idle it holds nobody's agent
            job = self._next_job()

    def _leave(self) -> bool:
        """Sent home: the thread goes, unless a job waits for one."""
        with self._lock:
            if self._idle < 0:
                return False
            self._threads.discard(threading.current_thread())
            return True

    def _next_job(self) -> Callable[[], object] | None:
        with self._lock:
            if self._closed and self._idle >= 0:
                return None
            self._idle += 1
        try:
            return self._jobs.get(timeout=KEEP_IDLE)
        except Empty:
            with self._lock:
                if self._idle > 0:
                    self._idle -= 1
                    return None
        return self._jobs.get()  # start() or close() has just counted on this thread: their job is on its way
