"""``DBOSOperations``: the operator's view of sessions on DBOS, read from the tables of DBOS and of the store."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from dbos import DBOSClient
from sqlalchemy import func, inspect, or_, select

from cognition import CogstepError, ConfigError
from cognition.base.checking import show
from interpreters.durable._errors import DurableError
from interpreters.durable.dbos._context import database_urls, unusable_error
from interpreters.durable.dbos._draining import queued_agents, set_drained
from interpreters.durable.dbos._run_view import ACTIVE, ERROR_IN_OUTPUT, FAILED, REFUSED_IN_ERROR, RunView
from interpreters.durable.dbos._runs import RUN, queue_of, session_of, versions_of
from interpreters.durable.dbos.sessions import LOOKED_AFTER_EVERY, DBOSSessions
from interpreters.durable.definition import DurableAgent
from interpreters.durable.operations import (
    NEWEST,
    OF_INTEREST,
    STATUSES,
    UNDER_WAY,
    DrainResult,
    DurableHealth,
    DurableOperations,
    DurableRun,
    DurableVersion,
    RunDetails,
    RunStatus,
    RunStep,
    check_retry,
    sorted_runs,
)
from interpreters.recording.journal import JournalError
from interpreters.recording.sessions import SessionInfo, list_sessions
from interpreters.recording.store.locations import locate
from runtime.checking import checked_call

PAGE: Final = 200

SETTLED: Final = LOOKED_AFTER_EVERY + 1.0
"""Seconds until every worker has read that its queues are drained."""

LOOKED_EVERY: Final = 0.2
"""Seconds between two looks at a run that is waited for."""

TAKEN_WITHIN: Final = 5.0
"""Seconds after which a queued run counts as executed if it is never found in its queue."""


def _no_model() -> Any:
    raise ConfigError("an operator's process has no model: start a worker")


class DBOSOperations(DurableOperations):
    """The operator's view of sessions on DBOS. Needs the extra ``dbos``.

    Args:
        url: the sessions' store, as for ``DBOSSessions``.
        agents: definitions, if answers need them: the results of external tools, and secrets of the definition that an
            answer may contain.

    Raises:
        StoreError, DurableError: the database can't be used, or DBOS has no data in it.
    """

    engine = "DBOS"

    @checked_call
    def __init__(self, url: str, agents: Iterable[DurableAgent] = ()) -> None:
        place = database_urls(url)
        given = tuple(agents) or (DurableAgent("operator", _no_model),)
        self._sessions = DBOSSessions(given, url)
        self._store = self._sessions.store
        self._store.check_there()
        self._check_there(locate(place.engine).path)

    def _check_there(self, path: str) -> None:
        """Check that DBOS has tables: looking must not create them."""
        if path:
            is_there = os.path.exists(path)
        else:
            is_there = self._store.database.run(
                lambda connection: inspect(connection).has_table("workflow_status", "dbos")
            )
        if not is_there:
            raise DurableError(
                f"DBOS has no data in {self._store.name}: no program has sent a message to a durable session there"
            )

    def close(self) -> None:
        """Close the connections."""
        self._sessions.close()

    # ------------------------------------------------------------------------------------------------------- looking

    @checked_call
    def runs(
        self, session: str = "", *, statuses: Collection[RunStatus] = OF_INTEREST, newest: int = NEWEST
    ) -> list[DurableRun]:
        with self._asked() as view:
            found = [view.read(row) for row in self._rows(view, session, statuses, newest)]
            return sorted_runs(found, statuses, newest)

    @checked_call
    def run(self, run: str) -> RunDetails:
        with self._asked() as view:
            found = self._find(view, run)
            steps = view.client.list_workflow_steps(run, load_output=False)
        return RunDetails(found, tuple(map(_read_step, steps)))

    @checked_call
    def versions(self) -> list[DurableVersion]:
        with self._asked() as view:
            found = list(versions_of(view.client, self._store, self._sessions.version))
        return [
            DurableVersion(
                one.name,
                tuple(sorted({agent for each in view.working if each.is_of(one.name) for agent in each.agents or ()})),
                one.processes,
                (),
                one.runs,
                len(one.sessions),
                one.open,
                one.absent,
            )
            for one in found
            if one.processes or one.sessions or one.runs
        ]

    def check_health(self, late: float) -> DurableHealth:
        with self._asked() as view:
            under_way = [
                (view.read(row), view.waits_since(row)) for row in view.select(view.table.c.status.in_(ACTIVE))
            ]
            free = [since for run, since in under_way if run.status == "queued" and not run.reason]
            oldest, problems = max(free, default=0.0), list[str]()
            absent = Counter(run.reason for run, _ in under_way if run.reason.startswith("no process"))
            problems += [f"{count} runs wait: {reason}" for reason, count in sorted(absent.items())]
            if oldest > late:
                problems.append(f"{len(free)} runs wait for a place, the oldest for {oldest:.0f} s; start more workers")
            counts = self._count(view, [run for run, _ in under_way])
            workers = len(view.working)
            return DurableHealth(not problems, tuple(problems), counts, workers, oldest, tuple(sorted(view.drained)))

    def _count(self, view: RunView, under_way: Iterable[DurableRun]) -> tuple[tuple[RunStatus, int], ...]:
        rows, ended = view.table, view.ended
        is_refused = ended.c.error.contains(REFUSED_IN_ERROR, autoescape=True)
        is_failed = ended.c.output.contains(ERROR_IN_OUTPUT, autoescape=True)
        wanted = (
            select(rows.c.status, is_refused.label("refused"), is_failed.label("failed"), func.count().label("many"))
            .select_from(rows.outerjoin(ended, ended.c.workflow_uuid == rows.c.workflow_uuid))
            .where(rows.c.name == RUN, rows.c.status.not_in(ACTIVE))
            .group_by(rows.c.status, is_refused, is_failed)
        )
        counts = Counter[str](one.status for one in under_way)
        with view.client._sys_db.engine.connect() as connection:
            for status, refused, failed, many in connection.execute(wanted):
                counts[_ended_as(status, bool(refused), bool(failed))] += many
        counts["waiting"] = len(view.waits)
        counts["completed"] -= counts["waiting"]
        return tuple((status, counts[status]) for status in STATUSES)

    def _rows(self, view: RunView, session: str, statuses: Collection[RunStatus], newest: int) -> Iterator[Any]:
        rows, ended = view.table, view.ended
        own = [rows.c.workflow_uuid.startswith(f"{session}:", autoescape=True)] if session else []
        if UNDER_WAY.intersection(statuses):
            yield from view.select(*own, rows.c.status.in_(ACTIVE))
        if "waiting" in statuses:
            yield from (row for row in view.waits.values() if not session or session_of(row.workflow_id) == session)
        kinds = {
            "completed": rows.c.status == "SUCCESS",
            "failed": or_(rows.c.status.in_(FAILED), ended.c.output.contains(ERROR_IN_OUTPUT, autoescape=True)),
            "refused": rows.c.status == "ERROR",
            "cancelled": rows.c.status == "CANCELLED",
        }
        chosen = [condition for status, condition in kinds.items() if status in statuses]
        if not chosen:
            return
        waiting = {row.workflow_id for row in view.waits.values()}
        offset, left = 0, newest
        while left > 0:
            page = view.select(*own, rows.c.status.not_in(ACTIVE), or_(*chosen), limit=PAGE, offset=offset)
            for row in page:
                if left > 0 and row.workflow_id not in waiting and view.read(row).status in statuses:
                    left -= 1
                    yield row
            if len(page) < PAGE:
                return
            offset += PAGE

    def _find(self, view: RunView, run: str) -> DurableRun:
        found = view.select(view.table.c.workflow_uuid == run)
        if not found:
            raise DurableError(f"there is no run {show(run)} in {self._store.name}; `list` shows their ids")
        return view.read(found[0])

    @contextmanager
    def _asked(self) -> Iterator[RunView]:
        """Give a view of this moment; translate the errors of DBOS and its driver."""
        try:
            yield RunView(self._sessions._connect(), self._store)
        except CogstepError:
            raise
        except Exception as error:
            raise unusable_error(self._store.database, error) from error

    # -------------------------------------------------------------------------------------------------------- acting

    @checked_call
    def cancel(self, target: str, reason: str = "") -> str:
        until = time.monotonic() + TAKEN_WITHIN
        while True:
            with self._asked() as view:
                rows = view.select(view.table.c.workflow_uuid == target)
                if not rows:
                    return self._cancel_session(view, target, reason)
                run = view.read(rows[0])
                if rows[0].status == "ENQUEUED" and _take_back(view.client, target):
                    return target
                if run.status not in UNDER_WAY and run.status != "waiting":
                    raise CogstepError(f"the run {target} has ended ({run.status}): there is nothing to cancel")
                if run.status != "queued" or time.monotonic() > until:
                    return self._cancel_session(view, run.session, reason)
            time.sleep(LOOKED_EVERY)  # a process looks whether its turn may begin, and puts it back

    def _cancel_session(self, view: RunView, session: str, reason: str) -> str:
        return self._sessions.cancel(session, reason, agent=self._define(view.agent_of_session(session)))

    @checked_call
    def retry(self, run: str) -> str:
        with self._asked() as view:
            found = self._find(view, run)
            check_retry(found)
            agent = self._define(found.agent or view.agent_of_session(found.session))
            if self._is_interrupted(found.session):
                return self._sessions.resume_turn(found.session, agent=agent)
            view.client.rewind_workflow(run, queue_name=queue_of(agent), queue_partition_key=found.session)
        return run

    def _is_interrupted(self, session: str) -> bool:
        """Whether the session's turn is open and waits for nobody."""
        try:
            found = list(list_sessions(self._store.recording(session)))
        except JournalError:  # it has not begun
            return False
        return any(isinstance(one, SessionInfo) and one.status == "interrupted" for one in found)

    @checked_call
    def answer(self, session: str, effect_id: str, answer: Any) -> str:
        with self._asked() as view:
            agent = self._define(view.agent_of_session(session))
        return self._sessions.answer(session, effect_id, answer, agent=agent)

    def _define(self, agent: str) -> str:
        """Make sure that the sessions know an agent: cancelling and approving needs no more than its name."""
        if agent not in self._sessions.agents:
            self._sessions.agents[agent] = DurableAgent(agent, _no_model)
        return agent

    @checked_call
    def drain(self, agent: str = "", *, timeout: float | None = None) -> DrainResult:
        began = time.monotonic()
        with self._asked() as view:
            queues = self._choose(view, agent)
            set_drained(view.client, queues, True)
        while True:
            with self._asked() as view:
                active = map(view.read, view.select(view.table.c.status == "PENDING"))
                running = tuple(one for one in active if one.agent in queues and one.status == "running")
            waited = time.monotonic() - began
            if (not running and (waited >= SETTLED or not view.working)) or (timeout is not None and waited >= timeout):
                return DrainResult(queues, running)
            time.sleep(LOOKED_EVERY)

    @checked_call
    def undrain(self, agent: str = "") -> tuple[str, ...]:
        with self._asked() as view:
            queues = self._choose(view, agent)
            set_drained(view.client, queues, False)
        return queues

    def _choose(self, view: RunView, agent: str) -> tuple[str, ...]:
        known = tuple(sorted(queued_agents(view.client)))
        if agent and agent not in known:
            raise CogstepError(
                f"no process has worked for an agent {show(agent)} here; there are {', '.join(known) or 'none'}"
            )
        return (agent,) if agent else known

    @checked_call
    def clear(self, older: float) -> int:
        return self._sessions.clear(older)


def _take_back(client: DBOSClient, run: str) -> bool:
    """Cancel a run if no process has begun it; return whether it was cancelled."""
    system = client._sys_db
    rows, now = system.tables.workflow_status, system._now_ms_sql()
    changed = rows.update().where(rows.c.workflow_uuid == run, rows.c.status == "ENQUEUED")
    ended = {"status": "CANCELLED", "queue_name": None, "updated_at": now, "completed_at": now}
    with system.engine.begin() as connection:
        return bool(connection.execute(changed.values(**ended)).rowcount)


def _ended_as(status: str, refused: bool, failed: bool) -> RunStatus:
    if status == "CANCELLED":
        return "cancelled"
    if status in FAILED:
        return "refused" if refused else "failed"
    return "failed" if failed else "completed"


def _read_step(step: Any) -> RunStep:
    error = step["error"]
    return RunStep(step["function_name"], "" if error is None else str(error), step["child_workflow_id"] or "")
