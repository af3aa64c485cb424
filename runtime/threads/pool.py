"""Threads for tools that run in parallel to the session's own thread.

This module takes no locks. Ctrl-C may interrupt a caller of ``start`` at any place, and a lock left behind would block
all others for ever. Threads share queues and dicts, whose operations are atomic. Code that adds to one of them checks
the others *afterwards*. So if two threads might miss each other, one of them checks last.
"""

from __future__ import annotations

import contextlib
import threading
import time
from _thread import start_new_thread
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TypeVar

KEEP_IDLE = 10.0
"""Seconds before an idle thread ends. Starting a thread takes 0.1 ms to some ms, reusing an idle one 0.02 ms."""

Job = Callable[[], object]
Inbox = SimpleQueue[Job | None]
"""Queue of one thread for its next job; None ends the thread."""


Item = TypeVar("Item")


class PoolThread(threading.Thread):
    """A thread of a pool."""

    idle: Callable[[], bool] = staticmethod(lambda: True)
    """Whether the thread waits for a job and none is on its way."""


class ThreadPool:
    """Runs each job immediately on its own thread. Idle threads wait some time for the next job.

    The threads are daemons, so a tool that never returns can't keep the program from ending.

    Args:
        at_most: maximum number of threads; further jobs wait. None for no limit.
    """

    def __init__(self, at_most: int | None = None) -> None:
        self._at_most = at_most
        self._threads: dict[threading.Thread, Inbox] = {}
        self._idle: list[Inbox] = []
        """Queues of idle threads. Code that removes a queue must put a job or None into it."""
        self._waiting: list[Job] = []
        """Jobs without a thread. A list, since each session has one and a deque takes 700 bytes."""
        self._closed = False

    def start(self, job: Job) -> None:
        """Run a job on an idle or a new thread. The job must not raise."""
        inbox = _pop(self._idle, -1)
        if inbox is not None:
            inbox.put(job)
        elif self._is_full():
            self._waiting.append(job)
            self._serve()  # a thread may have become idle meanwhile, or gone
        else:
            self._begin(job)

    def has_room(self) -> bool:
        """Whether no job waits for a thread."""
        return not self._waiting

    def dismiss(self) -> None:
        """End idle threads. Busy threads and later jobs are not affected."""
        while (inbox := _pop(self._idle, -1)) is not None:
            inbox.put(None)

    def forget(self) -> None:
        """Drop all threads after a fork. They do not exist in the new process, so a job for an idle thread would never
        run.
        """
        self._idle.clear()
        self._threads.clear()
        self._waiting.clear()

    def close(self, seconds: float) -> int:
        """End idle threads and wait up to ``seconds`` for busy ones. Return how many still run after that."""
        deadline = time.monotonic() + seconds
        self._closed = True
        self.dismiss()
        threads = list(self._threads.items())
        for thread, inbox in threads:
            inbox.put(None)  # also for one whose job was kept from it by an interrupt
            if thread is not threading.current_thread():  # a tool that closes its own agent
                _join(thread, deadline)
        return sum(thread.is_alive() for thread, _ in threads)

    def _is_full(self) -> bool:
        return self._at_most is not None and len(self._threads) >= self._at_most

    def _serve(self) -> None:
        """Find threads for the waiting jobs. Busy threads look for waiting jobs when they are done."""
        while self._waiting:
            inbox = _pop(self._idle, -1)
            if inbox is None and self._is_full():
                return
            job = _pop(self._waiting, 0) or (lambda: None)  # another thread has taken it
            if inbox is None:
                self._begin(job)
            else:
                inbox.put(job)

    def _begin(self, job: Job) -> None:
        """Run a job on a new thread, started from another new thread.

        Interrupts reach only the main thread. An interrupt inside ``Thread.start`` would leave a lock behind, and the
        new thread would wait for it for ever.
        """
        inbox: Inbox = SimpleQueue()
        started: SimpleQueue[BaseException | None] = SimpleQueue()
        start_new_thread(self._start_thread, (inbox, [job], started))
        error = started.get()
        if error is not None:
            raise error

    def _start_thread(self, inbox: Inbox, first: list[Job], started: SimpleQueue[BaseException | None]) -> None:
        thread = PoolThread(target=self._work, args=(inbox, first), name="cogstep tool", daemon=True)
        thread.idle = lambda: inbox in self._idle
        self._threads[thread] = inbox
        try:
            thread.start()
        except BaseException as error:  # there can be no more threads
            self._threads.pop(thread, None)
            started.put(error)
        else:
            started.put(None)

    def _work(self, inbox: Inbox, first: list[Job]) -> None:
        job: Job | None = first.pop()
        while job is not None:
            job()
            job = None  # while the thread is idle it holds nobody's agent
            job = self._next_job(inbox) or self._last_look(inbox)

    def _next_job(self, inbox: Inbox) -> Job | None:
        if self._closed:
            return None
        self._idle.append(inbox)
        if self._waiting:
            self._serve()
        if self._closed:
            self._withdraw(inbox)
            return None
        while True:
            try:
                return inbox.get(timeout=KEEP_IDLE)
            except Empty:
                if self._withdraw(inbox):
                    return None  # else somebody has just counted on this thread: a job is on its way

    def _withdraw(self, inbox: Inbox) -> bool:
        with contextlib.suppress(ValueError):
            self._idle.remove(inbox)
            return True
        return False

    def _last_look(self, inbox: Inbox) -> Job | None:
        """Remove this thread from the pool, unless a job waits. Return that job."""
        thread = threading.current_thread()
        self._threads.pop(thread, None)
        job = (None if inbox.empty() else inbox.get_nowait()) or _pop(self._waiting, 0)
        if job is not None:
            self._threads[thread] = inbox
        return job


def _pop(items: list[Item], place: int) -> Item | None:
    """Remove and return an item; None if there is none any more."""
    try:
        return items.pop(place)
    except IndexError:
        return None


def _join(thread: threading.Thread, deadline: float) -> None:
    while True:
        try:
            thread.join(max(0.0, deadline - time.monotonic()))
        except RuntimeError:  # it is about to be started; whoever wanted it was interrupted
            if time.monotonic() < deadline:
                time.sleep(0.001)
                continue
        return
