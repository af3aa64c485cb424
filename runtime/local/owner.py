"""One thread owns a model: it loads the model, runs every job on it, and frees it.

Backends require this: MLX streams belong to the thread that created them; llama.cpp contexts are not thread-safe. It
also keeps everything else simple: callers exchange plain values, and jobs run one after another.

    caller ── job ──▶ queue ──▶ owner thread: load, jobs, step, jobs, step, ..., free

A job is short. Long work is done in steps, as long as ``step`` returns True, with jobs between two steps.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Generic, TypeVar
from weakref import WeakSet

from runtime.errors import RuntimeClosedError

Engine = TypeVar("Engine")
Result = TypeVar("Result")

AT_EXIT_SECONDS = 10.0
"""Seconds that the end of the program waits for abandoned loads. Python then ends the remaining threads, and native
code that is still loading aborts the process.
"""

_abandoned: WeakSet[threading.Thread] = WeakSet()


@atexit.register
def _wait_for_the_abandoned() -> None:
    deadline = time.monotonic() + AT_EXIT_SECONDS
    with contextlib.suppress(KeyboardInterrupt):  # who interrupts this doesn't want to wait
        for thread in list(_abandoned):
            thread.join(max(0.0, deadline - time.monotonic()))


class Owner(Generic[Engine]):
    """Runs jobs on an engine that no other thread touches.

    ``load`` creates the engine on the owner's thread; ``free`` destroys it there. ``ready`` is pending until ``load``
    ends; if it fails, ``ready`` contains the error and the thread has ended. ``step`` is called after jobs, and again
    while it returns True; it must not raise.
    """

    def __init__(
        self,
        load: Callable[[], Engine],
        free: Callable[[Engine], None],
        *,
        name: str,
        step: Callable[[Engine], bool] = lambda _engine: False,
    ) -> None:
        self.name = name
        self.ready: Future[None] = Future()
        self._jobs: SimpleQueue[Callable[[Engine], None] | None] = SimpleQueue()
        self._closing = threading.Event()
        # So that no job can slip in behind the last one. The owner's thread never holds it.
        self._door = threading.Lock()
        # A daemon, so that a forgotten close() can't hang the end of the program; runtimes close at exit themselves.
        parts, title = (load, step, free), f"cogstep model {name}"
        self._thread = threading.Thread(target=self._run, args=parts, name=title, daemon=True)
        self._thread.start()

    @property
    def closing(self) -> bool:
        """Whether ``close`` was called; long jobs check it and end early."""
        return self._closing.is_set()

    def wanted(self) -> bool:
        """Return whether a job waits or ``close`` was called; long steps check it."""
        return not self._jobs.empty()

    def put(self, job: Callable[[Engine], None]) -> None:
        """Queue a job. It must not raise, but report errors in its own answer.

        Raises:
            RuntimeClosedError: after ``close()``.
        """
        with self._door:
            if self.closing:
                raise RuntimeClosedError(self.name)
            self._jobs.put(job)

    def call(self, function: Callable[[Engine], Result]) -> Result:
        """Run a function on the owner's thread and wait; return its result or raise its error.

        Raises:
            RuntimeClosedError: after ``close()``.
        """
        answer: Future[Result] = Future()

        def job(engine: Engine) -> None:
            try:
                answer.set_result(function(engine))
            except BaseException as error:  # whatever it is, it is the caller's, not the thread's
                answer.set_exception(error)

        self.put(job)
        return answer.result()

    def close(self) -> None:
        """Let jobs and steps run out (they check ``closing``), free the engine and wait for the thread to end.

        May be called twice. On the owner's own thread, as in a garbage collection, it does not wait.
        """
        with self._door:
            if not self.closing:
                self._closing.set()
                self._jobs.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def abandon(self) -> None:
        """Like ``close``, without waiting: for a load without callers. Only the end of the program waits for it."""
        _abandoned.add(self._thread)
        with self._door:
            self._closing.set()
            self._jobs.put(None)

    def _run(self, load: Callable[[], Engine], step: Callable[[Engine], bool], free: Callable[[Engine], None]) -> None:
        try:
            engine = load()
        except BaseException as error:  # the waiting caller gets it, whatever it is
            self._closing.set()
            self.ready.set_exception(error)
            return
        self.ready.set_result(None)
        try:
            more = False
            while self._run_jobs(engine, wait=not more):
                more = step(engine)
            while step(engine):  # what runs sees ``closing`` and comes to its end
                pass
        finally:
            free(engine)

    def _run_jobs(self, engine: Engine, *, wait: bool) -> bool:
        """Run the queued jobs, with ``wait`` at least one; return False after the last job ever.

        Jobs that arrive in between wait for the next round, so that a flood of jobs cannot block the engine's next
        step. Jobs that arrive during the awaited job do run, since replies that start together are computed together.
        """
        if wait and not self._run_job(engine):
            return False
        return all(self._run_job(engine) for _ in range(self._jobs.qsize()))

    def _run_job(self, engine: Engine) -> bool:
        """Wait for the next job and run it; return False after the last job ever."""
        job = self._jobs.get()
        if job is None:
            return False
        job(engine)
        return True
