"""DBOS's stored runs, and the processes that execute them: their queues, their versions, and the runs that are left.

A working process publishes its version and agents in its name in the store. So runs that wait for a version or agent
that no process has can be detected and logged.

Some runs count as started but no process executes them: they are found and handed to a free process. DBOS does not
reassign a dead process's runs. A living process abandons runs too: if the database fails while DBOS stores the outcome
of a step or run, as on a full disk, DBOS ends the execution. The run then counts as started for as long as the process
lives.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, Final

from attrs import frozen
from dbos import DBOSClient
from dbos._utils import INTERNAL_QUEUE_NAME
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from cognition import CogstepError, ConfigError
from interpreters.durable.dbos._context import LOG, postpone
from interpreters.recording.sessions import SessionInfo, list_sessions
from interpreters.recording.store import Executor, SqlStore
from interpreters.recording.store.schema import LONGEST_NAME

QUEUE: Final = "cogstep"

AGENT_QUEUE: Final = f"{QUEUE}."
"""Prefix of the names of the run queues."""

WAITING_QUEUE: Final = f"{QUEUE}-waits."
"""Prefix of the names of the waiting queues, which no process polls; see ``_waiting``."""

CLOSING: Final = "!"
"""Follows the session's name in the id of a run that closes a turn; a quoted key never contains it."""

PROCESS: Final = "dbos"
"""Prefix of the names of working processes."""

RUN: Final = "cogstep.run"
"""The name of a run's workflow; a worker's workflow has another name."""

CLOSINGS: Final = 1000
"""The last priority of runs that close a turn."""

POLLED_EVERY: Final = 0.1

POLLS_APART: Final = 0.02
"""Minimum seconds between two polls by a process, of any queue. Each agent has a queue; polling fifty of them ten
times a second used a whole core.
"""

UNDER_WAY: Final = ["PENDING", "ENQUEUED"]

ENDED: Final = ("SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")

TOLD_AFTER: Final = 5.0
"""Seconds of waiting for a run after which the reason is logged."""

TOLD_EVERY: Final = 15
"""Number of checks between two logs of the versions that runs wait for and no process has."""

LOOKED_EVERY: Final = 0.1


AT_ONCE: Final = 500

WORK = "cogstep.work"

LONGEST_PAUSE = 16
"""Maximum number of checks between two executions of a run whose results can't be stored. The pause doubles from 1."""

NEVER = (0, 0)

BEGUN = "SELECT 1 FROM dbos.workflow_status WHERE status = 'PENDING' LIMIT 1"


@frozen
class Version:
    """A version, as returned by ``DBOSSessions.versions``."""

    name: str
    """cogstep's protocol version, a dash, and the versions of the agents."""
    processes: int
    """Number of working processes."""
    runs: int
    """Number of runs that wait or are executing."""
    sessions: tuple[str, ...]
    """The names of the sessions that it started: only this version handles their messages."""
    open: tuple[str, ...]
    """The sessions among them with a running turn or a pending effect."""
    absent: tuple[str, ...] = ()
    """The names of the agents that its runs wait for and no working process has."""


@frozen
class WorkerProcess:
    """A working process, as described by its name."""

    version: str
    agents: frozenset[str] | None
    """The names of its agents; None if they are too many for the name, so that it may have any."""

    def runs(self, version: str, agent: str) -> bool:
        """Whether it runs an agent, or an unknown one, in this version."""
        return self.is_of(version) and (not agent or self.agents is None or agent in self.agents)

    def is_of(self, version: str) -> bool:
        return f"{PROCESS} {self.version}" == f"{PROCESS} {version}"[:LONGEST_NAME]


def queue_of(agent: str) -> str:
    """Return the queue of an agent's runs. Each agent has a queue, since not every process has every agent."""
    return f"{AGENT_QUEUE}{agent}"


def poll_interval(queues: int) -> float:
    """Return the seconds between two polls of each queue for a process with this number of queues."""
    return max(POLLED_EVERY, POLLS_APART * queues)


def agent_of(run: Any) -> str:
    """Return the agent of a run's queue; empty for any other queue, such as that of a worker's run."""
    name = str(run.queue_name or "")
    found = [name.removeprefix(prefix) for prefix in (AGENT_QUEUE, WAITING_QUEUE) if name.startswith(prefix)]
    return found[0] if found else ""


def is_closing(run: Any) -> bool:
    """Whether a run closes a turn."""
    return str(run.workflow_id).startswith(f"{session_of(run.workflow_id)}:{CLOSING}")


def next_priority(before: Iterable[Any], closes: bool) -> int:
    """Return the place of a new run behind those that are under way; one that closes a turn comes before messages.

    DBOS orders by time, which is counted in seconds on SQLite and may go backwards.
    """
    taken = [one.priority or 0 for one in before if is_closing(one) or not closes]
    return 1 + max(taken, default=0) if closes else 1 + max([CLOSINGS, *taken])


def is_waiting(run: Any) -> bool:
    """Whether a run is in a waiting queue."""
    return run.status == "ENQUEUED" and str(run.queue_name or "").startswith(WAITING_QUEUE)


def list_runs(client: DBOSClient, **wanted: Any) -> list[Any]:
    """Return the runs that match, without their messages and outcomes; see ``DBOSClient.list_workflows``."""
    return client.list_workflows(**wanted, load_input=False, load_output=False)


def in_order(runs: Iterable[Any]) -> list[Any]:
    """Return runs in the order in which their queue hands them out."""
    return sorted(runs, key=lambda one: (one.priority or 0, one.created_at or 0, one.workflow_id))


def move(client: DBOSClient, run: Any, queue: str) -> None:
    """Move a run, if it is unchanged since the read, and all runs of its session that have not begun to a queue.

    The runs of a session share a queue, which preserves their order.
    """
    rows = client._sys_db.tables.workflow_status
    with client._sys_db.engine.begin() as connection:
        moved = connection.execute(
            rows.update()
            .where(rows.c.workflow_uuid == run.workflow_id, rows.c.status == run.status)
            .where(rows.c.executor_id == run.executor_id if run.executor_id else rows.c.status == "ENQUEUED")
            .values(status="ENQUEUED", queue_name=queue, owner_xid=None, started_at_epoch_ms=None)
        )
        if moved.rowcount:
            connection.execute(
                rows.update()
                .where(rows.c.queue_partition_key == session_of(run.workflow_id), rows.c.status == "ENQUEUED")
                .where(~rows.c.queue_name.startswith(WAITING_QUEUE, autoescape=True))
                .values(queue_name=queue)
            )


def move_stranded(client: DBOSClient, working: list[WorkerProcess], waiting: list[Any]) -> bool:
    """Move the first runs of sessions that wait in the wrong queue to the queue of their agent. Return whether any was
    moved.

    The wrong queue is that of another agent that no process has, or the common queue of earlier versions.
    """
    first: dict[str, Any] = {}
    for one in in_order(waiting):
        if (
            one.name == RUN
            and not is_waiting(one)
            and not (agent_of(one) and _is_done(working, one.app_version or "", agent_of(one)))
        ):
            first.setdefault(session_of(one.workflow_id), one)
    if not first:
        return False
    for one in list_runs(client, status="PENDING", name=RUN):
        first.pop(session_of(one.workflow_id), None)
    moved = False
    for one in first.values():
        for full in client.list_workflows(workflow_ids=[one.workflow_id], status="ENQUEUED", load_output=False):
            name = str(full.input["args"][0]) if full.input else ""
            if name and name != agent_of(one):
                move(client, one, queue_of(name))
                moved = True
    return moved


def process_name(version: str, agents: Iterable[str]) -> str:
    """Return the name in the store of a process that works at sessions."""
    whole = f"{PROCESS} {version} {','.join(sorted(agents))}"
    return whole if len(whole) <= LONGEST_NAME else f"{PROCESS} {version}"[:LONGEST_NAME]


def is_at_work(one: Executor) -> bool:
    return one.expires_in > 0 and one.name.startswith(f"{PROCESS} ")


def live_workers(store: SqlStore) -> list[WorkerProcess]:
    """Return the living processes that work at sessions; raises as ``SqlStore.executors``."""
    names = [one.name.split(" ") for one in store.executors() if is_at_work(one)]
    return [WorkerProcess(one[1], frozenset(one[2].split(",")) if len(one) > 2 else None) for one in names]


def session_of(run: str) -> str:
    return run.partition(":")[0]


def run_of(run: str) -> str:
    """Return the run that a worker's run id belongs to; any other id is returned unchanged."""
    return run.partition("/")[0]


def database_time(store: SqlStore) -> float:
    """Return the seconds since the epoch by the database's clock. Raises StoreError."""
    now: float = store.database.read(lambda one: one.execute(select(store.database.now)).scalar_one(), time.time())
    return now


def clear(client: DBOSClient, store: SqlStore, older: float | None) -> int:
    found = list_runs(client)
    recorded = set(store.names())  # asked for behind the runs: whatever has ended until then is recorded
    now = database_time(store)
    ended = [one for one in found if one.status in ENDED]
    # What a worker came to is read again where the run is executed again that waits for it.
    under_way = {run_of(one.workflow_id) for one in found if one.status in UNDER_WAY}
    newest = {session_of(one.workflow_id): run_of(one.workflow_id) for one in ended}  # they come by their age

    def is_removable(one: Any) -> bool:
        session, run = session_of(one.workflow_id), run_of(one.workflow_id)
        if run in under_way or (session in recorded and older is None):
            return False
        at = (one.completed_at or one.updated_at or 0) / 1000
        return session not in recorded or (older is not None and newest[session] != run and now - at > older)

    gone = [one.workflow_id for one in ended if is_removable(one)]
    for begin in range(0, len(gone), AT_ONCE):
        client.delete_workflows(gone[begin : begin + AT_ONCE])
    return len(gone)


def versions_of(client: DBOSClient, store: SqlStore, own: str) -> Iterator[Version]:
    """Yield ``own`` and each version that started a session or is working. Raises the errors of DBOS and the store."""
    begun: dict[str, str] = {}
    runs: Counter[str] = Counter()
    wanted: set[tuple[str, str]] = set()
    for one in list_runs(client):
        version = one.app_version or own
        begun.setdefault(session_of(one.workflow_id), version)
        if one.status in UNDER_WAY:
            runs[version] += 1
            wanted.add((version, agent_of(one)))
    listed = [one for one in list_sessions(store) if isinstance(one, SessionInfo)]
    unended = {one.name for one in listed if one.status != "idle"}
    working = live_workers(store)
    for version in sorted({own, *begun.values(), *(one.version for one in working)}):
        sessions = tuple(sorted(name for name, first in begun.items() if first == version))
        processes = sum(one.is_of(version) for one in working)
        left = tuple(name for name in sessions if name in unended)
        absent = sorted(agent for of, agent in wanted if of == version and agent and not _is_done(working, of, agent))
        yield Version(version, processes, runs[version], sessions, left, tuple(absent))


def _is_done(working: Iterable[WorkerProcess], version: str, agent: str) -> bool:
    return any(one.runs(version, agent) for one in working)


def why_it_waits(status: Any, store: SqlStore, working: list[WorkerProcess] | None = None) -> str:
    """Return the reason why a run waits; empty if unknown, or if it does not wait.

    Args:
        status: of the run.
        store: has the working processes.
        working: these, if they are known; None reads them.
    """
    working = live_workers(store) if working is None else working
    version = status.app_version or ""
    if not working:
        return "no process works at sessions; start a worker"
    if not _is_done(working, version, ""):
        others = ", ".join(sorted(one.version for one in working))
        return f"no process of version {version} is at work, which began the session, only of {others}; start one"
    if not _is_done(working, version, agent := agent_of(status)):
        return f"no process at work has the agent {agent} in version {version}; start one that has it"
    return "the turn before it waits for answers; hand them in with answer(), or cancel() it" * is_waiting(status)


class Unattended:
    """Versions and agents that runs wait for and no process has. Each is logged once until a process has it."""

    def __init__(self) -> None:
        self._looks = 0
        self._told: set[tuple[str, str]] = set()

    def look(self, client: DBOSClient, store: SqlStore) -> bool:
        """Log them at every ``TOLD_EVERY``-th call, and return whether this was one. Raises the errors of DBOS and the
        store.
        """
        self._looks += 1
        if self._looks % TOLD_EVERY != 1:
            return False
        working = live_workers(store)
        enqueued = list_runs(client, status="ENQUEUED")
        if move_stranded(client, working, enqueued):
            enqueued = list_runs(client, status="ENQUEUED")
        waiting = Counter((one.app_version, agent_of(one)) for one in enqueued if one.app_version)
        absent = {
            (version, "" if alone else agent)
            for version, agent in waiting
            if (alone := not _is_done(working, version, "")) or not _is_done(working, version, agent)
        }
        for version, agent in sorted(absent - self._told):
            count = sum(runs for one, runs in waiting.items() if one[0] == version and agent in ("", one[1]))
            which = f"the agent {agent} in version {version}, which no process at work has; start one that has it"
            if not agent:
                which = f"the version {version}, of which no process is at work; start one"
            LOG.warning("%d runs wait for %s, or fork their sessions", count, which)
        self._told = absent
        return True


def wait_for(run: str, look: Callable[[], list[Any]], timeout: float | None, store: SqlStore) -> None:
    """Wait until a run has ended; without a timeout only until the reason for its waiting could be logged.

    Args:
        run: its id.
        look: returns DBOS's status of the run.
        timeout: in seconds; None returns after ``TOLD_AFTER`` seconds at the latest.
        store: has the working processes.

    Raises:
        TimeoutError: it has not ended in time; the message has the reason, if known.
    """
    began, told = time.monotonic(), False
    while (found := look()) and found[0].status in UNDER_WAY:
        waited = time.monotonic() - began
        if timeout is not None and waited >= timeout:
            why = why_it_waits(found[0], store)
            raise TimeoutError(f"the run {run} has not ended within {timeout:g} seconds{why and f': {why}'}")
        if not told and waited >= TOLD_AFTER:
            told, why = True, why_it_waits(found[0], store)
            if why:
                LOG.warning("the run %s waits: %s", run, why)
            if timeout is None:
                return
        time.sleep(LOOKED_EVERY if timeout is None else min(LOOKED_EVERY, timeout - waited))


class OrphanedRuns:
    """A process's knowledge of started runs. The methods are thread-safe.

    Args:
        store: has the heartbeats of processes.
        own: this process's id.
    """

    def __init__(self, store: SqlStore, own: str) -> None:
        self._store = store
        self.own = own
        self._lock = Lock()
        self._executions: Counter[str] = Counter()
        """Number of current executions of each run here: a new one may start while one that was taken over is ending.
        """
        self._idle: set[str] = set()
        """Runs of this process that were not executing at the last check. DBOS may be about to start them or to store
        their outcome, so they count as abandoned only if the next check finds the same.
        """
        self._looks = 0
        self._elsewhere: dict[str, str] = {}
        """For runs given up here: the queue to move them to."""
        self._foreign: set[str] = set()
        """Runs given up here because they must run elsewhere. While one belongs to this process, no other can take it.
        Unlike failed runs, they are resumed without a pause.
        """
        self._resumed: dict[str, tuple[int, int]] = {}
        """For runs resumed here: the number of times, and the earliest check for the next time."""

    @contextmanager
    def executing(self, run: str) -> Iterator[None]:
        with self._lock:
            self._executions[run] += 1
            self._idle.discard(run)
        try:
            yield
        finally:
            with self._lock:
                self._executions[run] -= 1
                if not self._executions[run]:
                    del self._executions[run]

    def give_up(self, run: str, queue: str = "") -> None:
        """End an execution without an outcome: the next check finds the run abandoned if it still belongs to this
        process.

        Args:
            run: its id.
            queue: the queue for the run and the later ones of its session; empty for the same queue.
        """
        with self._lock:
            self._idle.add(run)
            if queue:
                self._elsewhere[run] = queue

    async def check_place(
        self, connected: Callable[[], DBOSClient], run: str, agent: str, agents: Container[str]
    ) -> None:
        """Give up a run if this process lacks its agent, or if an earlier run of its session is in another queue.

        Args:
            connected: returns the DBOS client.
            run: its id.
            agent: its agent.
            agents: the agents of this process.

        Raises:
            DBOSWorkflowConflictIDError: the run was given up.
        """
        queue, why = "", f"this process has no agent {agent}" * (agent not in agents)
        if run_of(run) == run:  # a worker's run is in no queue of ours
            try:
                queue = await asyncio.to_thread(lambda: queue_before(connected(), run))
            except (SQLAlchemyError, CogstepError) as error:
                self.give_up(run)
                raise postpone(error) from None
            queue = queue or queue_of(agent) * bool(why)
        if queue or why:
            self.give_up(run, queue)
            with self._lock:
                self._foreign.add(run)
            raise postpone(ConfigError(why or "an earlier run of its session waits for another agent"))

    def resume(self, client: DBOSClient) -> None:
        """Hand abandoned runs to free processes. One living process does so for all dead ones.

        Raises:
            Exception: any error of DBOS or the store; the next check finds the rest.
        """
        living = {one.id for one in self._store.executors() if is_at_work(one)}
        first = self.own == min(living | {self.own})
        begun: list[Any] = []
        if has_begun(self._store):
            begun = list_runs(client, status="PENDING", name=[RUN, WORK], executor_id=None if first else self.own)
        with self._lock:
            mine = {one.workflow_id for one in begun if one.executor_id == self.own}
            idle = {run for run in mine if run not in self._executions}
            left = {run for run in idle & self._idle if self._resumed.get(run, NEVER)[1] <= self._looks}
        for one in begun:
            if one.workflow_id in left or (one.executor_id not in living and one.executor_id != self.own):
                self._requeue(client, one)
        with self._lock:
            self._idle = idle - left
            failed, self._foreign = left - self._foreign, self._foreign - left
        self._pause(failed)

    def _pause(self, resumed: set[str]) -> None:
        """Delay the next resumption: on a full disk each execution would call the model again, in vain."""
        self._looks += 1
        self._resumed = {run: one for run, one in self._resumed.items() if one[1] + LONGEST_PAUSE > self._looks}
        for run in resumed:
            times = self._resumed.get(run, NEVER)[0]
            self._resumed[run] = times + 1, self._looks + min(2**times, LONGEST_PAUSE)

    def hand_over(self, client: DBOSClient) -> None:
        """Hand over all runs that this process has started; it stops working but may live on. Raises as ``resume``."""
        for one in list_runs(client, status="PENDING", name=[RUN, WORK], executor_id=self.own):
            self._requeue(client, one)

    def _requeue(self, client: DBOSClient, run: Any) -> None:
        """Requeue a run if it still belongs to the same process. DBOS's ``resume_workflow`` would revive a run that was
        cancelled since the check.
        """
        with self._lock:
            queue = self._elsewhere.pop(run.workflow_id, "")
        if queue and run.executor_id == self.own:
            move(client, run, queue)
        else:
            client._sys_db.reenqueue_for_recovery(run.workflow_id, [run.executor_id], INTERNAL_QUEUE_NAME)


def has_begun(store: SqlStore) -> bool:
    """Whether any run has begun and not ended; on SQLite, whether one may have. An idle worker asks this regularly, and
    DBOS's list costs ten times as much.
    """
    if store.database.location.kind == "sqlite":
        return True
    return store.database.run_bare(lambda driver: driver.execute(BEGUN).fetchone()) is not None


def queue_before(client: DBOSClient, run: str) -> str:
    """Return the other queue that contains an earlier run of the session; empty if there is not any.

    This happens if two programs send at the same moment, or during a move: they don't see each other's message.
    """
    runs = in_order(list_runs(client, workflow_id_prefix=f"{session_of(run)}:", name=RUN, status=UNDER_WAY))
    own = next((one.queue_name for one in runs if one.workflow_id == run), None)
    begun = [one for one in runs if not is_waiting(one)]
    first = begun[0].queue_name if begun and own else own
    return first if first and first != own else ""
