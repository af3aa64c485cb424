"""Runs of messages that came while their session's turn waits for answers: in queues that no process polls.

    send ─▶ queue of the agent ─▶ executed, and the turn waits for answers ─▶ waiting queue
                    ▲                                                              │
                    └──────── a run of the session has ended, and nothing waits ───┘

A waiting run occupies no process, and keeps its id, its key and its place among the session's messages. It is harmless
to release one too early: it is executed, and put back.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

from dbos import DBOSClient
from sqlalchemy import func, literal, literal_column, select, update

from interpreters.durable.dbos._runs import (
    AGENT_QUEUE,
    CLOSING,
    RUN,
    UNDER_WAY,
    WAITING_QUEUE,
    is_waiting,
    list_runs,
    session_of,
)

ENQUEUED: Final[Any] = literal_column("'ENQUEUED'")
"""Part of the statement's text: for a parameter in its place, SQLite does not use DBOS's partial indexes."""


def keep_waiting(client: DBOSClient, run: str, agent: str, process: str) -> None:
    """Put a run that this process has begun into the waiting queue of its agent, unless another process has taken it
    over.
    """
    rows: Any = client._sys_db.tables.workflow_status
    begun = (rows.c.workflow_uuid == run, rows.c.status == "PENDING", rows.c.executor_id == process)
    queue = f"{WAITING_QUEUE}{agent}"
    _move(client, begun, status="ENQUEUED", queue_name=queue, owner_xid=None, started_at_epoch_ms=None)


def hold(client: DBOSClient, session: str) -> None:
    """Put a session's runs that have not begun into waiting queues, except those that close a turn."""
    _exchange(client, session, AGENT_QUEUE, WAITING_QUEUE)


def release(client: DBOSClient, session: str) -> None:
    """Put a session's waiting runs back into the queues of their agents."""
    _exchange(client, session, WAITING_QUEUE, AGENT_QUEUE)


def _exchange(client: DBOSClient, session: str, before: str, behind: str) -> None:
    system = client._sys_db
    rows: Any = system.tables.workflow_status
    chosen = (
        rows.c.status == ENQUEUED,
        rows.c.queue_partition_key == session,
        rows.c.name == RUN,
        rows.c.queue_name.startswith(before, autoescape=True),
        ~rows.c.workflow_uuid.startswith(f"{session}:{CLOSING}", autoescape=True),
    )
    with system.engine.connect() as connection:  # usually there is none, and on SQLite only one process may write
        if connection.execute(select(rows.c.workflow_uuid).where(*chosen).limit(1)).first() is None:
            return
    agent = func.substr(rows.c.queue_name, len(before) + 1)
    _move(client, chosen, queue_name=literal(behind).concat(agent))


def _move(client: DBOSClient, chosen: tuple[Any, ...], **values: Any) -> None:
    system = client._sys_db
    with system.engine.begin() as connection:
        changed = update(system.tables.workflow_status).where(*chosen)
        connection.execute(changed.values(updated_at=system._now_ms_sql(), **values))


def release_forgotten(client: DBOSClient) -> None:
    """Release the waiting runs of sessions in which another run has ended since, and nothing is under way.

    Usually the run that ends a turn has released them. A run that an operator has cancelled in the engine's tables
    has not, and neither has a process with an earlier cogstep.
    """
    waiting = [one for one in list_runs(client, status="ENQUEUED", name=RUN) if is_waiting(one)]
    since: defaultdict[str, int] = defaultdict(int)
    for one in waiting:
        session = session_of(one.workflow_id)
        since[session] = max(since[session], one.updated_at or 0)
    held = {one.workflow_id for one in waiting}
    for session, at in since.items():
        found = list_runs(client, workflow_id_prefix=f"{session}:", name=RUN)
        others = [one for one in found if one.workflow_id not in held]
        if all(one.status not in UNDER_WAY for one in others) and any((one.updated_at or 0) >= at for one in others):
            release(client, session)
