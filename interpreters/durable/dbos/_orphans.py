"""Runs of DBOS that count as started but that no process executes: they are found and handed to a free process.

DBOS does not reassign a dead process's runs. A living process abandons runs too: if the database fails while DBOS
stores the outcome of a step or run, as on a full disk, DBOS ends the execution. The run then counts as started for as
long as the process lives.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from dbos import DBOSClient
from dbos._utils import INTERNAL_QUEUE_NAME
from sqlalchemy.exc import SQLAlchemyError

from cognition import CogstepError, ConfigError
from interpreters.durable.dbos._context import postpone
from interpreters.durable.dbos._versions import (
    RUN,
    UNDER_WAY,
    in_order,
    is_at_work,
    list_runs,
    move,
    queue_of,
    run_of,
    session_of,
)
from interpreters.recording.store import SqlStore

WORK = "cogstep.work"

LONGEST_PAUSE = 16
"""Maximum number of checks between two executions of a run whose results can't be stored. The pause doubles from 1."""

NEVER = (0, 0)


class OrphanedRuns:
    """A process's knowledge of started runs. The methods are thread-safe.

    Args:
        store: has the heartbeats of processes.
        own: this process's id.
    """

    def __init__(self, store: SqlStore, own: str) -> None:
        self._store = store
        self._own = own
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
        first = self._own == min(living | {self._own})
        begun = self._find_started(client, None if first else self._own)
        with self._lock:
            mine = {one.workflow_id for one in begun if one.executor_id == self._own}
            idle = {run for run in mine if run not in self._executions}
            left = {run for run in idle & self._idle if self._resumed.get(run, NEVER)[1] <= self._looks}
        for one in begun:
            if one.workflow_id in left or (one.executor_id not in living and one.executor_id != self._own):
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
        for one in self._find_started(client, self._own):
            self._requeue(client, one)

    def _find_started(self, client: DBOSClient, executor: str | None) -> list[Any]:
        return list_runs(client, status="PENDING", name=[RUN, WORK], executor_id=executor)

    def _requeue(self, client: DBOSClient, run: Any) -> None:
        """Requeue a run if it still belongs to the same process. DBOS's ``resume_workflow`` would revive a run that was
        cancelled since the check.
        """
        with self._lock:
            queue = self._elsewhere.pop(run.workflow_id, "")
        if queue and run.executor_id == self._own:
            move(client, run, queue)
        else:
            client._sys_db.reenqueue_for_recovery(run.workflow_id, [run.executor_id], INTERNAL_QUEUE_NAME)


def queue_before(client: DBOSClient, run: str) -> str:
    """Return the other queue that contains an earlier run of the session; empty if there is not any.

    This happens if two programs send at the same moment, or during a move: they don't see each other's message.
    """
    runs = in_order(list_runs(client, workflow_id_prefix=f"{session_of(run)}:", name=RUN, status=UNDER_WAY))
    own = next((one.queue_name for one in runs if one.workflow_id == run), None)
    first = runs[0].queue_name if runs and own else own
    return first if first and first != own else ""
