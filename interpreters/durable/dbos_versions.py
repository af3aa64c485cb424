"""Which versions of the agents have begun what DBOS keeps, and which of them are at work: for whoever deploys a change.

A process that works at sessions tells its version and its agents by its name in the store. So it can be seen that runs
wait for a version or an agent that no process has, which would else be waited for without a word.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from attrs import frozen
from sqlalchemy import select

from interpreters.durable.dbos_context import DBOSClient
from interpreters.recording.sessions import SessionInfo, list_sessions
from interpreters.recording.store import Executor, SqlStore
from interpreters.recording.store.schema import LONGEST_NAME

QUEUE: Final = "cogstep"
"""How the names of the queues begin in which runs wait."""

PROCESS: Final = "dbos"
"""How the names of processes begin that work at sessions."""

RUN: Final = "cogstep.run"
"""The name of a run's workflow; that of a worker has another one."""

POLLED_EVERY: Final = 0.1
"""Seconds between two looks at a queue, at least."""

POLLS_APART: Final = 0.02
"""Seconds at least between two looks of a process at any of its queues: each of its agents has one, and with fifty it
spent a core on looking ten times a second at each.
"""

UNDER_WAY: Final = ("PENDING", "ENQUEUED")
"""What DBOS says of a run that has not ended."""

ENDED: Final = ("SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")

TOLD_AFTER: Final = 5.0
"""Seconds of waiting for a run, after which the log says why it waits."""

TOLD_EVERY: Final = 15
"""Looks of a process of which one tells what waits for a version that nobody runs."""

LOOKED_EVERY: Final = 0.1
"""Seconds between two looks at a run that is waited for."""

LOG: Final = logging.getLogger("cogstep")

AT_ONCE: Final = 500
"""Runs that are deleted in one transaction."""


@frozen
class Version:
    """One version, as ``DBOSSessions.versions`` gives it."""

    name: str
    """cogstep's protocol version, a dash, and the versions of the agents."""
    processes: int
    """How many are at work."""
    runs: int
    """How many wait or are under way."""
    sessions: tuple[str, ...]
    """Those that it has begun, by name: what is said to one of them is for this version to answer."""
    open: tuple[str, ...]
    """Those of them in which a turn is under way, or waits for somebody."""
    absent: tuple[str, ...] = ()
    """The agents that runs of it wait for and no process at work has, by name."""


@frozen
class Working:
    """What a process at work says of itself."""

    version: str
    agents: frozenset[str] | None
    """Their names; None: they are too many to be told, so that it may have any."""

    def does(self, version: str, agent: str) -> bool:
        """Whether it takes runs of an agent, or of no known one, in this version."""
        return self.is_of(version) and (not agent or self.agents is None or agent in self.agents)

    def is_of(self, version: str) -> bool:
        """Whether it has this version."""
        return f"{PROCESS} {self.version}" == f"{PROCESS} {version}"[:LONGEST_NAME]


def queue_of(agent: str) -> str:
    """Where runs of an agent wait: of several processes only some may have it, and only they look there."""
    return f"{QUEUE}.{agent}"


def polled_every(queues: int) -> float:
    """Seconds between two looks of a process at each of so many queues."""
    return max(POLLED_EVERY, POLLS_APART * queues)


def agent_of(run: Any) -> str:
    """The agent that does what waits in a run's queue; empty: it is in none of ours, as a worker's run."""
    name = run.queue_name or ""
    return str(name.removeprefix(f"{QUEUE}.")) if name.startswith(f"{QUEUE}.") else ""


def move(client: DBOSClient, run: Any, queue: str) -> None:
    """Have a run, as it was seen, wait in a queue, and all that waits in its session with it: runs of one session are
    in one queue, which keeps their order.
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
                .values(queue_name=queue)
            )


def move_left(client: DBOSClient, working: list[Working], waiting: list[Any]) -> bool:
    """Move what has come to be first in the queue of an agent that no process has any more, and is another agent's; or
    in a queue of before, when all agents had one. Gives whether there was any.
    """
    first: dict[str, Any] = {}
    for one in sorted(waiting, key=lambda one: (one.priority or 0, one.created_at or 0, one.workflow_id)):
        if one.name == RUN and not (agent_of(one) and _done(working, one.app_version or "", agent_of(one))):
            first.setdefault(session_of(one.workflow_id), one)
    if not first:
        return False
    begun = client.list_workflows(status="PENDING", name=RUN, load_input=False, load_output=False)
    for one in begun:
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
    """What a process that works at sessions is called in the store."""
    whole = f"{PROCESS} {version} {','.join(sorted(agents))}"
    return whole if len(whole) <= LONGEST_NAME else f"{PROCESS} {version}"[:LONGEST_NAME]


def is_at_work(one: Executor) -> bool:
    """Whether a process lives and works at sessions."""
    return one.expires_in > 0 and one.name.startswith(f"{PROCESS} ")


def at_work(store: SqlStore) -> list[Working]:
    """The living processes that work at sessions; raises as ``SqlStore.executors``."""
    names = [one.name.split(" ") for one in store.executors() if is_at_work(one)]
    return [Working(one[1], frozenset(one[2].split(",")) if len(one) > 2 else None) for one in names]


def session_of(run: str) -> str:
    """The session of a run by the run's id."""
    return run.partition(":")[0]


def run_of(run: str) -> str:
    """The run that a worker's run belongs to, by its id; any other is its own."""
    return run.partition("/")[0]


def clear(client: DBOSClient, store: SqlStore, older: float | None) -> int:
    """See ``DBOSSessions.clear``."""
    found = client.list_workflows(load_input=False, load_output=False)
    recorded = set(store.names())  # asked for behind the runs: whatever has ended until then is recorded
    now: float = store.database.read(lambda one: one.execute(select(store.database.now)).scalar_one(), time.time())
    ended = [one for one in found if one.status in ENDED]
    # What a worker came to is read again where the run is executed again that waits for it.
    under_way = {run_of(one.workflow_id) for one in found if one.status in UNDER_WAY}
    newest = {session_of(one.workflow_id): run_of(one.workflow_id) for one in ended}  # they come by their age

    def goes(one: Any) -> bool:
        session, run = session_of(one.workflow_id), run_of(one.workflow_id)
        if run in under_way or (session in recorded and older is None):
            return False
        at = (one.completed_at or one.updated_at or 0) / 1000
        return session not in recorded or (older is not None and newest[session] != run and now - at > older)

    gone = [one.workflow_id for one in ended if goes(one)]
    for begin in range(0, len(gone), AT_ONCE):
        client.delete_workflows(gone[begin : begin + AT_ONCE])
    return len(gone)


def versions_of(client: DBOSClient, store: SqlStore, own: str) -> Iterator[Version]:
    """Each version that has begun a session or is at work, and ``own``; raises what DBOS and the store raise."""
    begun: dict[str, str] = {}
    runs: Counter[str] = Counter()
    wanted: set[tuple[str, str]] = set()
    for one in client.list_workflows(load_input=False, load_output=False):
        version = one.app_version or own
        begun.setdefault(session_of(one.workflow_id), version)
        if one.status in UNDER_WAY:
            runs[version] += 1
            wanted.add((version, agent_of(one)))
    listed = [one for one in list_sessions(store) if isinstance(one, SessionInfo)]
    unended = {one.name for one in listed if one.status != "idle"}
    working = at_work(store)
    for version in sorted({own, *begun.values(), *(one.version for one in working)}):
        sessions = tuple(sorted(name for name, first in begun.items() if first == version))
        yield Version(
            version,
            sum(one.is_of(version) for one in working),
            runs[version],
            sessions,
            tuple(name for name in sessions if name in unended),
            tuple(sorted(agent for of, agent in wanted if of == version and agent and not _done(working, of, agent))),
        )


def _done(working: Iterable[Working], version: str, agent: str) -> bool:
    return any(one.does(version, agent) for one in working)


def why_it_waits(status: Any, store: SqlStore) -> str:
    """Why a run is not under way, as far as that can be told; empty: it can't, or it is."""
    working = at_work(store)
    version = status.app_version or ""
    if not working:
        return "no process works at sessions; start a worker"
    if not _done(working, version, ""):
        others = ", ".join(sorted(one.version for one in working))
        return f"no process of version {version} is at work, which began the session, only of {others}; start one"
    if not _done(working, version, agent := agent_of(status)):
        return f"no process at work has the agent {agent} in version {version}; start one that has it"
    return ""


class Unattended:
    """Versions and agents that runs wait for and no process has, each told once until one does."""

    def __init__(self) -> None:
        self._looks = 0
        self._told: set[tuple[str, str]] = set()

    def look(self, client: DBOSClient, store: SqlStore) -> None:
        """Have the log say it, at each of some looks; raises what DBOS and the store raise."""
        self._looks += 1
        if self._looks % TOLD_EVERY != 1:
            return
        working = at_work(store)
        enqueued = client.list_workflows(status="ENQUEUED", load_input=False, load_output=False)
        if move_left(client, working, enqueued):
            enqueued = client.list_workflows(status="ENQUEUED", load_input=False, load_output=False)
        waiting = Counter((one.app_version, agent_of(one)) for one in enqueued if one.app_version)
        absent = {
            (version, "" if alone else agent)
            for version, agent in waiting
            if (alone := not _done(working, version, "")) or not _done(working, version, agent)
        }
        for version, agent in sorted(absent - self._told):
            count = sum(runs for one, runs in waiting.items() if one[0] == version and agent in ("", one[1]))
            which = f"the agent {agent} in version {version}, which no process at work has; start one that has it"
            if not agent:
                which = f"the version {version}, of which no process is at work; start one"
            LOG.warning("%d runs wait for %s, or fork their sessions", count, which)
        self._told = absent


def wait_for(run: str, look: Callable[[], list[Any]], timeout: float | None, store: SqlStore) -> None:
    """Wait until a run has ended, or the log has said why it has not.

    Args:
        run: its id.
        look: gives what DBOS says of it.
        timeout: in seconds; None: as long as it takes to have something to say.
        store: where processes are seen to be at work.

    Raises:
        TimeoutError: it has not ended within this time; says why, as far as that is known.
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
