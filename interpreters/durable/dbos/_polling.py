"""How often a worker asks the database for work: as often as DBOS does while it is busy, less while it is idle.

DBOS asks for work, for the settings of each queue, for schedules and for expired workflows in several threads, all of
them several times a second, whether there is work or not. Most of these queries are answered here:

- A queue is asked for work if this process has just sent a message, and regularly while a run is executing and for some
  seconds after that. Otherwise one query for all queues together finds what other processes have sent, and the
  queues' threads wait here until then.
- The settings of queues, and schedules, are read again after some seconds.

DBOS has no options for that, so this replaces methods that are not public. If a method is missing, DBOS asks as often
as it does by itself.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from threading import Condition, Lock
from typing import Any, Final

from dbos import DBOS
from dbos._utils import INTERNAL_QUEUE_NAME

from interpreters.recording.store.database import Database

IDLE_EVERY: Final = 0.45
"""Seconds between two looks for work of an idle process."""

BUSY_FOR: Final = 5.0
"""Seconds for which a process counts as busy after its last run or message."""

SETTINGS_EVERY: Final = 10.0
"""Seconds after which the settings of the queues are read again."""

SCHEDULES_EVERY: Final = 30.0

HELD_FOR: Final = 5.0
"""Maximum seconds for which an idle queue's thread waits here."""

JOBS_EVERY: Final = 10.0
"""Seconds between two runs of DBOS's regular jobs, which cancel expired workflows and enqueue delayed ones."""

LOOK: Final = """
    SELECT DISTINCT queue_name FROM dbos.workflow_status WHERE status = 'ENQUEUED' AND queue_name = ANY(%s)
    AND (application_version = %s OR application_version IS NULL)
"""
"""The look on PostgreSQL. It comes so often that SQLAlchemy's part of the cost would count."""

LOOK_SQLITE: Final = """
    SELECT DISTINCT queue_name FROM workflow_status WHERE status = 'ENQUEUED' AND queue_name IN ({names})
    AND (application_version = ? OR application_version IS NULL)
"""


class Polling:
    """Decides which of DBOS's regular queries are sent. The methods are thread-safe.

    Args:
        queues: the names of the process's queues.
        version: the version of the runs that it executes.
        store: PostgreSQL is asked over its connections.
        is_busy: returns whether a run is executing.
        now: returns seconds, monotonic.
    """

    def __init__(
        self,
        queues: Iterable[str],
        version: str,
        store: Database,
        is_busy: Callable[[], bool] = lambda: False,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._own = tuple(queues)
        self._watched = frozenset({*self._own, INTERNAL_QUEUE_NAME})
        self._version = version
        self._store = store
        self._is_busy = is_busy
        self._now = now
        self._lock = Lock()
        self._changed = Condition(self._lock)
        """Notified when a queue may be asked, and when waiting threads have to return."""
        self._looker = ""
        """The queue whose thread looks for all."""
        self._returns = 0
        """Number of times that waiting threads had to return."""
        self._is_over = False
        self._woken = set(self._watched)
        self._busy_until = now() + BUSY_FOR
        self._look_at = 0.0
        self._settings: dict[str, Any] = {}
        self._settings_until = 0.0
        self._database: Any = None

    def wake(self) -> None:
        """Ask each queue for work at its thread's next look: this process has sent something."""
        with self._lock:
            self._woken |= self._watched
            self._busy_until = self._now() + BUSY_FOR
            self._changed.notify_all()

    def stop(self) -> None:
        """Ask no queue any more."""
        with self._lock:
            self._is_over = True
            self._changed.notify_all()

    def wait_to_ask(self, queue: str) -> bool:
        """Return ``may_ask``; while the process is idle, wait for it for up to ``HELD_FOR`` seconds."""
        until, returns = self._now() + HELD_FOR, self._returns
        try:
            while returns == self._returns:
                if self.may_ask(queue):
                    return True
                with self._lock:
                    now = self._now()
                    if self._is_over or returns != self._returns:
                        break
                    if queue in self._woken or now < self._busy_until:
                        continue
                    if now >= until:
                        break
                    self._looker = self._looker or queue
                    self._changed.wait(min(until, self._look_at if self._looker == queue else until) - now)
            return False
        finally:
            with self._lock:
                if self._looker == queue:
                    self._looker = ""
                    self._changed.notify_all()

    def may_ask(self, queue: str) -> bool:
        """Whether to ask a queue for work now."""
        with self._lock:
            now = self._now()
            if self._is_over:
                return False
            if self._is_busy():
                self._busy_until = now + BUSY_FOR
            if queue in self._woken or now < self._busy_until:
                self._woken.discard(queue)
                return True
            if now < self._look_at:
                return False
            self._look_at = now + IDLE_EVERY
        found = self._look()
        with self._lock:
            self._woken |= found - {queue}
            if found:
                self._changed.notify_all()
        return queue in found

    def forget_settings(self) -> None:
        """Read the settings of the queues again: they have changed."""
        with self._lock:
            self._settings_until = 0.0
            self._returns += 1
            self._changed.notify_all()

    def install(self, dbos: DBOS) -> None:
        """Answer the queries of a launched DBOS instance."""
        database: Any = getattr(dbos, "_sys_db", None)
        self._database = database
        wrappers: dict[str, Callable[[Any], Any]] = {
            "start_queued_partitioned_workflows": self._ask_seldom(list),
            "start_queued_workflows": self._ask_seldom(lambda: ([], None)),
            "list_queues": self._keep_settings,
            "list_schedules": self._keep_schedules,
            "background_job_lock": self._lock_seldom,
        }
        if all(hasattr(database, name) for name in ("list_queues", "get_queue")):
            database.get_queue = self._settings_from_list(database.get_queue)
        for name, wrapper in wrappers.items():
            if hasattr(database, name):
                setattr(database, name, wrapper(getattr(database, name)))

    def _look(self) -> set[str]:
        """Return the queues with runs that wait for this version; none if the database is away."""
        with suppress(Exception):  # the next look sees the same
            if self._store.location.kind == "postgresql":
                given = (sorted(self._watched), self._version)
                rows = self._store.run_bare(lambda driver: driver.execute(LOOK, given).fetchall())
                return {row[0] for row in rows or ()}
            names = sorted(self._watched)
            look = LOOK_SQLITE.format(names=",".join("?" * len(names)))
            with self._database.engine.connect() as connection:
                return {row[0] for row in connection.exec_driver_sql(look, (*names, self._version))}
        return set()

    def _ask_seldom(self, empty: Callable[[], Any]) -> Callable[[Any], Any]:
        def wrap(ask: Callable[..., Any]) -> Callable[..., Any]:
            def ask_or_not(queue: Any, *rest: Any, **named: Any) -> Any:
                if queue.name not in self._watched:
                    return ask(queue, *rest, **named)
                if not self.wait_to_ask(queue.name):
                    return empty()
                found = ask(queue, *rest, **named)
                if found != empty():
                    with self._lock:
                        self._busy_until = self._now() + BUSY_FOR
                        self._changed.notify_all()
                return found

            return ask_or_not

        return wrap

    def _keep_settings(self, read: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
        def read_or_keep(**named: Any) -> list[Any]:
            if named != {"application_name": self._database.app_name}:
                return read(**named)
            with self._lock:
                if self._now() < self._settings_until:
                    return list(self._settings.values())
            found = {one.name: one for one in read(**named)}
            with self._lock:
                self._settings = found
                if found.keys() >= set(self._own):  # else they are being registered
                    self._settings_until = self._now() + SETTINGS_EVERY
            return list(found.values())

        return read_or_keep

    def _settings_from_list(self, read: Callable[..., Any]) -> Callable[..., Any]:
        def read_or_keep(name: str, **named: Any) -> Any:
            if name not in self._own or named:
                return read(name, **named)
            self._database.list_queues(application_name=self._database.app_name)
            found = self._settings.get(name)
            return read(name) if found is None else found

        return read_or_keep

    def _keep_schedules(self, read: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
        until, kept = 0.0, list[Any]()

        def read_or_keep(**named: Any) -> list[Any]:
            nonlocal until, kept
            if named != {"application_name": self._database.app_name}:
                return read(**named)
            if self._now() >= until:
                kept = read(**named)
                until = self._now() + SCHEDULES_EVERY
            return list(kept)

        return read_or_keep

    def _lock_seldom(
        self, lock: Callable[[str], AbstractContextManager[bool]]
    ) -> Callable[[str], AbstractContextManager[bool]]:
        due = 0.0

        @contextmanager
        def lock_or_not(name: str) -> Iterator[bool]:
            nonlocal due
            if self._now() < due:
                yield False
                return
            due = self._now() + JOBS_EVERY
            with lock(name) as is_held:
                yield is_held

        return lock_or_not


_current: Polling | None = None


@contextmanager
def current(polling: Polling) -> Iterator[None]:
    """Wake this polling by ``wake`` within the block: a process has one worker."""
    global _current
    _current = polling
    try:
        yield
    finally:
        _current = None


def _after_fork() -> None:
    global _current
    _current = None  # the worker is the parent, whose threads may hold the lock


os.register_at_fork(after_in_child=_after_fork)


def wake() -> None:
    """Have the worker of this process, if it is one, look for a message that was just sent."""
    polling = _current
    if polling is not None:
        polling.wake()
