"""Runs of DBOS at which nobody is at work, though they count as begun: they are found, and given to whoever is free.

DBOS gives a dead process's runs to nobody. And a process that lives leaves runs too: where the database fails in the
moment in which DBOS keeps what a step or a run came to, as on a full disk, DBOS ends the execution, and the run counts
as begun for as long as the process lives.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from cognition import CogstepError, ConfigError
from interpreters.durable.dbos_context import INTERNAL_QUEUE_NAME, DBOSClient, postponed
from interpreters.durable.dbos_versions import RUN, UNDER_WAY, is_at_work, move, queue_of, run_of, session_of
from interpreters.recording.store import SqlStore

WORK = "cogstep.work"
"""The name of a worker's workflow."""

LONGEST_PAUSE = 16
"""The most looks between two executions of a run that nothing can be kept of. It doubles from one on."""

NEVER = (0, 0)


class LeftRuns:
    """What one process knows of runs that somebody has begun. Its methods may be called by any thread.

    Args:
        store: where processes are seen to be alive.
        own: this process's id.
    """

    def __init__(self, store: SqlStore, own: str) -> None:
        self._store = store
        self._own = own
        self._lock = Lock()
        self._executions: Counter[str] = Counter()
        """How many executions of a run go on here: while one that was taken over ends, the next one has begun."""
        self._idle: set[str] = set()
        """Runs that are this process's and were not executed when it looked: DBOS may just be about to begin them, or
        to keep what they came to. So they are left only if that is still so at the next look."""
        self._looks = 0
        self._elsewhere: dict[str, str] = {}
        """By runs that are given up here: the queue in which they are to wait."""
        self._foreign: set[str] = set()
        """Workers' runs that were given up here since their agent is elsewhere: as long as one is this process's, no
        other one can take it."""
        self._resumed: dict[str, tuple[int, int]] = {}
        """By runs that were resumed here: how often, and the look from which on they may be again."""

    @contextmanager
    def executing(self, run: str) -> Iterator[None]:
        """A run is executed here meanwhile."""
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
        """An execution ends without an outcome: the next look finds the run left, if it is this process's then.

        Args:
            run: its id.
            queue: where the run waits from then on, and what comes behind it in its session; empty: where it did.
        """
        with self._lock:
            self._idle.add(run)
            if queue:
                self._elsewhere[run] = queue

    async def check_place(
        self, connected: Callable[[], DBOSClient], run: str, agent: str, agents: Container[str]
    ) -> None:
        """Give a run up that waited behind another agent's, or that comes behind one in another queue.

        Args:
            connected: gives what DBOS is asked with.
            run: its id.
            agent: its agent.
            agents: those of this process.

        Raises:
            DBOSWorkflowConflictIDError: it is given up.
        """
        queue, why = "", f"this process has no agent {agent}" * (agent not in agents)
        if run_of(run) == run:  # a worker's run is in no queue of ours
            try:
                queue = await asyncio.to_thread(lambda: queue_before(connected(), run))
            except (SQLAlchemyError, CogstepError) as error:
                self.give_up(run)
                raise postponed(error) from None
            queue = queue or queue_of(agent) * bool(why)
        if queue or why:
            self.give_up(run, queue)
            with self._lock:
                self._foreign.add(run)
            raise postponed(ConfigError(why or "an earlier run of its session waits for another agent"))

    def resume(self, client: DBOSClient) -> None:
        """Give what is left to whoever is free. One of the processes that live does so for all that died.

        Raises:
            Exception: what DBOS or the store raises; what is left then is found by the next look.
        """
        living = {one.id for one in self._store.executors() if is_at_work(one)}
        first = self._own == min(living | {self._own})
        begun = self._begun(client, None if first else self._own)
        with self._lock:
            mine = {one.workflow_id for one in begun if one.executor_id == self._own}
            idle = {run for run in mine if run not in self._executions}
            left = {run for run in idle & self._idle if self._resumed.get(run, NEVER)[1] <= self._looks}
        for one in begun:
            if one.workflow_id in left or (one.executor_id not in living and one.executor_id != self._own):
                self._give(client, one)
        with self._lock:
            self._idle = idle - left
            failed, self._foreign = left - self._foreign, self._foreign - left
        self._pause(failed)

    def _pause(self, resumed: set[str]) -> None:
        """Give what was resumed a while: on a full disk each execution would ask the model again, in vain."""
        self._looks += 1
        self._resumed = {run: one for run, one in self._resumed.items() if one[1] + LONGEST_PAUSE > self._looks}
        for run in resumed:
            times = self._resumed.get(run, NEVER)[0]
            self._resumed[run] = times + 1, self._looks + min(2**times, LONGEST_PAUSE)

    def hand_over(self, client: DBOSClient) -> None:
        """Give away all that this process has begun, which works no more but may live on. Raises as ``resume``."""
        for one in self._begun(client, self._own):
            self._give(client, one)

    def _begun(self, client: DBOSClient, executor: str | None) -> list[Any]:
        return client.list_workflows(
            status="PENDING", name=[RUN, WORK], executor_id=executor, load_input=False, load_output=False
        )

    def _give(self, client: DBOSClient, run: Any) -> None:
        """Have a run be executed by whoever is free, if it is that process's still. DBOS's ``resume_workflow`` would
        bring back what was cancelled since the look.
        """
        with self._lock:
            queue = self._elsewhere.pop(run.workflow_id, "")
        if queue and run.executor_id == self._own:
            move(client, run, queue)
        else:
            client._sys_db.reenqueue_for_recovery(run.workflow_id, [run.executor_id], INTERNAL_QUEUE_NAME)


def queue_before(client: DBOSClient, run: str) -> str:
    """The other queue in which a run of the session is or waits that comes before this one; empty: there is none. Two
    programs that send in the same moment, or beside a move, do not see each other's message.
    """
    runs = client.list_workflows(
        workflow_id_prefix=f"{session_of(run)}:",
        name=RUN,
        status=list(UNDER_WAY),
        load_input=False,
        load_output=False,
    )
    runs.sort(key=lambda one: (one.priority or 0, one.created_at or 0, one.workflow_id))
    own = next((one.queue_name for one in runs if one.workflow_id == run), None)
    first = runs[0].queue_name if runs and own else own
    return first if first and first != own else ""
