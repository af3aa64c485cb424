"""Which versions of the agents have begun what DBOS keeps, and which of them are at work: for whoever deploys a change.

A process that works at sessions tells its version by its name in the store. So it can be seen that runs wait for a
version that nobody runs any more, which would else be waited for without a word.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

from attrs import frozen

from interpreters.durable.dbos_context import DBOSClient
from interpreters.recording.sessions import SessionInfo, list_sessions
from interpreters.recording.store import Executor, SqlStore
from interpreters.recording.store.schema import LONGEST_NAME

PROCESS: Final = "dbos"
"""How the names of processes begin that work at sessions."""

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


def process_name(version: str) -> str:
    """What a process that works at sessions is called in the store."""
    return f"{PROCESS} {version}"[:LONGEST_NAME]


def is_at_work(one: Executor) -> bool:
    """Whether a process lives and works at sessions."""
    return one.expires_in > 0 and one.name.startswith(f"{PROCESS} ")


def at_work(store: SqlStore) -> Counter[str]:
    """How many living processes work at sessions, by their names; raises as ``SqlStore.executors``."""
    return Counter(one.name for one in store.executors() if is_at_work(one))


def session_of(run: str) -> str:
    """The session of a run by the run's id."""
    return run.partition(":")[0]


def clear(client: DBOSClient, store: SqlStore) -> int:
    """See ``DBOSSessions.clear``."""
    ended = client.list_workflows(status=list(ENDED), load_input=False, load_output=False)
    recorded = set(store.names())  # asked for behind the runs: whatever has ended until then is recorded
    gone = [one.workflow_id for one in ended if session_of(one.workflow_id) not in recorded]
    for begin in range(0, len(gone), AT_ONCE):
        client.delete_workflows(gone[begin : begin + AT_ONCE])
    return len(gone)


def versions_of(client: DBOSClient, store: SqlStore, own: str) -> Iterator[Version]:
    """Each version that has begun a session or is at work, and ``own``; raises what DBOS and the store raise."""
    begun: dict[str, str] = {}
    runs: Counter[str] = Counter()
    for one in client.list_workflows(load_input=False, load_output=False):
        version = one.app_version or own
        begun.setdefault(session_of(one.workflow_id), version)
        runs[version] += one.status in UNDER_WAY
    listed = [one for one in list_sessions(store) if isinstance(one, SessionInfo)]
    unended = {one.name for one in listed if one.status != "idle"}
    working = at_work(store)
    running = {name.partition(" ")[2] for name in working}
    for version in sorted({own, *begun.values(), *running}):
        sessions = tuple(sorted(name for name, first in begun.items() if first == version))
        yield Version(
            version,
            working[process_name(version)],
            runs[version],
            sessions,
            tuple(name for name in sessions if name in unended),
        )


def why_it_waits(status: Any, store: SqlStore) -> str:
    """Why a run is not under way, as far as that can be told; empty: it can't, or it is."""
    working = at_work(store)
    version = status.app_version or ""
    if not working:
        return "no process works at sessions; start a worker"
    if process_name(version) not in working:
        others = ", ".join(sorted(name.partition(" ")[2] for name in working))
        return f"no process of version {version} is at work, which began the session, only of {others}; start one"
    return ""


class Unattended:
    """Versions that runs wait for and nobody runs, each told once until somebody does."""

    def __init__(self) -> None:
        self._looks = 0
        self._told: set[str] = set()

    def look(self, client: DBOSClient, store: SqlStore) -> None:
        """Have the log say it, at each of some looks; raises what DBOS and the store raise."""
        self._looks += 1
        if self._looks % TOLD_EVERY != 1:
            return
        waiting = Counter(
            one.app_version or ""
            for one in client.list_workflows(status="ENQUEUED", load_input=False, load_output=False)
        )
        working = at_work(store)
        absent = {version for version in waiting if version and process_name(version) not in working}
        for version in sorted(absent - self._told):
            LOG.warning(
                "%d runs wait for the version %s, of which no process is at work; start one, or fork their sessions",
                waiting[version],
                version,
            )
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
