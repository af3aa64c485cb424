"""How often a worker asks the database: a busy one often, an idle one seldom, and after a message immediately."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

pytest.importorskip("dbos", reason="needs the extra `dbos`")

from dbos._utils import INTERNAL_QUEUE_NAME

from interpreters.durable.dbos import _polling as polling_module
from interpreters.durable.dbos._polling import (
    BUSY_FOR,
    IDLE_EVERY,
    JOBS_EVERY,
    SCHEDULES_EVERY,
    SETTINGS_EVERY,
    Polling,
    current,
    wake,
)

QUEUES = ("cogstep.a", "cogstep.b")
TICK = 0.1
"""Seconds between two looks of a queue's thread."""


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at


class Asked:
    """A worker's polling, with a database that counts what it is asked."""

    def __init__(self, busy: bool = False) -> None:
        self.clock, self.busy = Clock(), busy
        self.looks: list[float] = []
        self.waiting: set[str] = set()
        store = SimpleNamespace(location=SimpleNamespace(kind="postgresql"), run_bare=self._look)
        self.polling = Polling(QUEUES, "1", store, lambda: self.busy, self.clock)  # type: ignore[arg-type]

    def _look(self, _statement: Any) -> list[tuple[str]]:
        self.looks.append(self.clock())
        return [(name,) for name in self.waiting]

    def pass_time(self, seconds: float) -> dict[str, list[float]]:
        """Return when each queue was asked, if its thread looks every ``TICK`` seconds."""
        asked: dict[str, list[float]] = {name: [] for name in (*QUEUES, INTERNAL_QUEUE_NAME)}
        for _ in range(round(seconds / TICK)):
            self.clock.at += TICK
            for name, times in asked.items():
                if self.polling.may_ask(name):
                    times.append(self.clock())
        return asked

    def idle(self) -> Asked:
        """Let the time pass after which nothing is left of an earlier message."""
        self.pass_time(BUSY_FOR + 1)
        self.looks.clear()
        return self


def test_an_idle_worker_asks_once_for_all_its_queues_and_at_most_three_times_a_second() -> None:
    asked = Asked().idle()

    found = asked.pass_time(60)

    assert not any(found.values())
    assert 100 <= len(asked.looks) <= 60 / IDLE_EVERY


def test_an_idle_worker_finds_what_another_process_has_sent_within_half_a_second() -> None:
    asked = Asked().idle()
    asked.pass_time(3)
    asked.waiting = {QUEUES[1]}
    sent = asked.clock()

    found = asked.pass_time(1)

    assert found[QUEUES[0]] == []
    assert found[QUEUES[1]][0] - sent <= IDLE_EVERY + 2 * TICK


@pytest.mark.parametrize("queue", [*QUEUES, INTERNAL_QUEUE_NAME])
def test_a_message_of_the_same_process_is_asked_for_at_the_next_look(queue: str) -> None:
    asked = Asked().idle()
    asked.polling.wake()

    assert asked.polling.may_ask(queue)


def test_a_busy_worker_asks_as_often_as_ever() -> None:
    """At each look of a queue's thread, for as long as a run is executing and some seconds more."""
    asked = Asked(busy=True)
    during = asked.pass_time(20)
    asked.busy = False
    after = asked.pass_time(BUSY_FOR)
    asked.looks.clear()
    later = asked.pass_time(10)

    for name in (*QUEUES, INTERNAL_QUEUE_NAME):
        assert len(during[name]) == 20 / TICK
        assert len(after[name]) >= 0.9 * BUSY_FOR / TICK
    assert sum(map(len, later.values())) <= 3
    assert asked.looks


@settings(max_examples=40)
@given(st.lists(st.sampled_from(["tick", "wake", "busy", "idle", "sent"]), max_size=80))
def test_whatever_happens_a_run_that_waits_is_asked_for_within_half_a_second(events: list[str]) -> None:
    """A property of all orders of messages, work and pauses."""
    asked = Asked()
    due: float | None = None
    for event in events:
        if event == "sent" and not asked.waiting:
            asked.waiting, due = {QUEUES[0]}, asked.clock() + IDLE_EVERY + 3 * TICK
        elif event == "wake":
            asked.polling.wake()
        elif event in ("busy", "idle"):
            asked.busy = event == "busy"
        if asked.pass_time(TICK)[QUEUES[0]]:
            asked.waiting, due = set(), None
        assert due is None or asked.clock() <= due


def test_a_database_that_is_away_is_no_error_of_the_queue_s_thread() -> None:
    def fail(_statement: Any) -> None:
        raise OSError("away")

    asked = Asked().idle()
    asked.polling._store.run_bare = fail  # type: ignore[method-assign, assignment]

    assert not any(asked.pass_time(2).values())


def test_a_message_wakes_the_worker_of_its_process_and_no_other() -> None:
    first, second = Asked().idle(), Asked().idle()
    wake()
    with current(first.polling):
        wake()
    wake()

    assert first.polling.may_ask(QUEUES[0])
    assert not second.polling.may_ask(QUEUES[0])


class Database:
    """DBOS's system database, as far as it is asked regularly."""

    app_name = "cogstep"

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.names = list(QUEUES)
        self.found: list[str] = []

    def start_queued_partitioned_workflows(self, queue: Any, *_rest: Any) -> list[str]:
        self.asked.append(queue.name)
        return self.found

    def start_queued_workflows(self, queue: Any, *_rest: Any) -> tuple[list[str], None]:
        self.asked.append(queue.name)
        return self.found, None

    def list_queues(self, **_named: Any) -> list[Any]:
        self.asked.append("list")
        return [SimpleNamespace(name=name) for name in self.names]

    def get_queue(self, name: str, **_named: Any) -> Any:
        self.asked.append(f"get {name}")

    def list_schedules(self, **_named: Any) -> list[Any]:
        self.asked.append("schedules")
        return []

    @contextmanager
    def background_job_lock(self, name: str) -> Iterator[bool]:
        self.asked.append(name)
        yield True


def installed() -> tuple[Asked, Database]:
    asked, database = Asked(), Database()
    asked.polling.install(SimpleNamespace(_sys_db=database))  # type: ignore[arg-type]
    asked.idle()
    database.asked.clear()
    return asked, database


def test_a_queue_of_another_program_is_asked_as_dbos_does() -> None:
    _, database = installed()
    other = SimpleNamespace(name="other")

    for _ in range(3):
        database.start_queued_workflows(other)
    database.get_queue("other")

    assert database.asked == ["other"] * 3 + ["get other"]


def test_a_worker_that_has_found_a_run_asks_again_soon() -> None:
    asked, database = installed()
    queue = SimpleNamespace(name=QUEUES[0])
    asked.polling.wake()
    database.found = ["ada:1"]
    assert database.start_queued_partitioned_workflows(queue) == ["ada:1"]
    asked.clock.at += BUSY_FOR - TICK

    assert asked.polling.may_ask(QUEUES[0])


def test_the_settings_of_all_queues_are_read_together_and_kept_for_some_seconds() -> None:
    asked, database = installed()
    asked.clock.at += SETTINGS_EVERY

    for _ in range(20):
        assert [database.get_queue(name).name for name in QUEUES] == list(QUEUES)
        assert len(database.list_queues(application_name="cogstep")) == 2
        asked.clock.at += SETTINGS_EVERY / 40

    assert database.asked == ["list"]
    asked.polling.forget_settings()
    database.get_queue(QUEUES[0])
    assert database.asked == ["list", "list"]


def test_the_settings_are_read_again_until_all_queues_are_registered() -> None:
    _, database = installed()
    database.names = [QUEUES[0]]
    polling_module.Polling.forget_settings(_.polling)

    assert database.get_queue(QUEUES[1]) is None
    database.names = list(QUEUES)
    assert database.get_queue(QUEUES[1]).name == QUEUES[1]


def test_schedules_and_regular_jobs_are_seldom() -> None:
    asked, database = installed()
    seconds = 4 * SCHEDULES_EVERY
    for _ in range(int(seconds)):
        database.list_schedules(application_name="cogstep")
        with database.background_job_lock("jobs"):
            pass
        asked.clock.at += 1

    assert database.asked.count("schedules") == 4
    assert database.asked.count("jobs") == seconds / JOBS_EVERY


def test_an_engine_without_these_methods_polls_by_itself() -> None:
    """A later DBOS may have other methods; then nothing is replaced."""
    asked = Asked()

    asked.polling.install(SimpleNamespace(_sys_db=SimpleNamespace(app_name="cogstep")))  # type: ignore[arg-type]
    asked.polling.install(SimpleNamespace())  # type: ignore[arg-type]


class Waiting:
    """Threads of queues that wait, with the time of this machine."""

    def __init__(self, queues: tuple[str, ...] = QUEUES) -> None:
        self.waiting: set[str] = set()
        self.looks = 0
        store = SimpleNamespace(location=SimpleNamespace(kind="postgresql"), run_bare=self._look)
        self.polling = Polling(queues, "1", store)  # type: ignore[arg-type]
        self.polling._woken.clear()
        self.polling._busy_until = 0.0
        self.found: dict[str, bool] = {}
        self.threads = [Thread(target=self._wait, args=(queue,), daemon=True) for queue in queues]
        for thread in self.threads:
            thread.start()

    def _look(self, _statement: Any) -> list[tuple[str]]:
        self.looks += 1
        return [(name,) for name in self.waiting]

    def _wait(self, queue: str) -> None:
        self.found[queue] = self.polling.wait_to_ask(queue)

    def end(self, seconds: float = 2.0) -> dict[str, bool]:
        """Return what each thread found that ended in time."""
        until = time.monotonic() + seconds
        for thread in self.threads:
            thread.join(max(0.0, until - time.monotonic()))
        return self.found


def test_a_message_of_the_same_process_wakes_all_queues_that_wait() -> None:
    waiting = Waiting()
    waiting.polling.wake()

    assert waiting.end() == dict.fromkeys(QUEUES, True)


def test_one_thread_looks_for_all_and_wakes_the_one_whose_run_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling_module, "IDLE_EVERY", 0.02)
    for queue in QUEUES:
        waiting = Waiting()
        waiting.waiting = {queue}
        until = time.monotonic() + 5
        while queue not in waiting.found and time.monotonic() < until:
            time.sleep(0.002)

        assert waiting.found[queue]
        waiting.polling.stop()
        waiting.end()


@pytest.mark.parametrize("change", [Polling.stop, Polling.forget_settings])
def test_threads_that_wait_return_if_the_worker_leaves_or_a_queue_s_settings_change(change: Any) -> None:
    """A queue that was drained in the meantime must not be asked with its old settings."""
    waiting = Waiting()
    until = time.monotonic() + 2
    while len(waiting.found) < len(QUEUES) and time.monotonic() < until:
        change(waiting.polling)
        time.sleep(0.005)

    assert waiting.end() == dict.fromkeys(QUEUES, False)


def test_a_queue_is_not_asked_with_settings_that_have_changed_though_a_message_came() -> None:
    waiting = Waiting((QUEUES[0],))
    until = time.monotonic() + 2
    while not waiting.looks and time.monotonic() < until:
        time.sleep(0.002)
    waiting.polling._returns += 1
    waiting.polling.wake()

    assert waiting.end() == {QUEUES[0]: False}


def test_a_forked_child_is_no_worker() -> None:
    """It would wait for a lock that a thread of its parent may have held."""
    asked = Asked().idle()
    with current(asked.polling):
        polling_module._after_fork()
        wake()

    assert not asked.polling.may_ask(QUEUES[0])


def test_a_worker_that_leaves_asks_no_more() -> None:
    asked = Asked()
    asked.polling.wake()
    asked.polling.stop()

    assert not any(asked.pass_time(1).values())
    assert not asked.polling.wait_to_ask(QUEUES[0])


def test_a_busy_worker_s_threads_don_t_wait() -> None:
    asked = Asked(busy=True)

    assert [asked.polling.wait_to_ask(QUEUES[0]) for _ in range(3)] == [True] * 3
