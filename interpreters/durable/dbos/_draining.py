"""Agents whose queues give out no new runs: a negative ``worker_concurrency`` of the queue in DBOS's table.

DBOS takes no run from such a queue, and its console shows the value. Its amount is the limit before, so ending the
drain restores that. A worker that starts keeps the sign; messages are still accepted and wait in the queue.
"""

from __future__ import annotations

from typing import Any

from dbos import DBOSClient
from sqlalchemy import func, select

from interpreters.durable.dbos._runs import AGENT_QUEUE


def queued_agents(client: DBOSClient) -> dict[str, bool]:
    """Return the agents that processes have registered queues for, and whether each is drained."""
    rows = _queues(client)
    wanted = select(rows.c.name, rows.c.worker_concurrency).where(rows.c.name.startswith(AGENT_QUEUE, autoescape=True))
    with client._sys_db.engine.connect() as connection:
        found = connection.execute(wanted).all()
    return {name.removeprefix(AGENT_QUEUE): limit is not None and limit < 0 for name, limit in found}


def drained_agents(client: DBOSClient) -> frozenset[str]:
    """Return the agents whose queues give out no new runs."""
    return frozenset(agent for agent, is_drained in queued_agents(client).items() if is_drained)


def set_drained(client: DBOSClient, agents: tuple[str, ...], drained: bool) -> None:
    """Drain agents, or end the drain."""
    rows = _queues(client)
    limit: Any = func.abs(func.coalesce(func.nullif(rows.c.worker_concurrency, 0), 1))
    chosen = rows.c.name.in_([f"{AGENT_QUEUE}{agent}" for agent in agents])
    with client._sys_db.engine.begin() as connection:
        connection.execute(rows.update().where(chosen).values(worker_concurrency=-limit if drained else limit))


def _queues(client: DBOSClient) -> Any:
    return client._sys_db.tables.queues
