"""DBOS's runs as an operator sees them, at one moment."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cached_property
from typing import Any, Final

from attrs import evolve
from dbos import DBOSClient
from sqlalchemy import func, select

from cognition import CogstepError, LimitReached, UserSpoke
from cognition.base.checking import show
from interpreters.durable._errors import DurableError
from interpreters.durable.dbos._draining import drained_agents
from interpreters.durable.dbos._runs import (
    AT_ONCE,
    RUN,
    WorkerProcess,
    agent_of,
    database_time,
    is_at_work,
    is_waiting,
    live_workers,
    session_of,
    why_it_waits,
)
from interpreters.durable.operations import DurableRun, RunStatus, pending_answer, waits_reason
from interpreters.durable.serialization import RunOutcome
from interpreters.recording.store import SqlStore

ACTIVE: Final = ("ENQUEUED", "PENDING", "DELAYED")

FAILED: Final = ("ERROR", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")

PENDING_IN_OUTPUT: Final = '\\"pending\\":[{'
"""A part of the stored outcome of a run that ended while its turn waits. Within a text the quotes are escaped twice."""

ERROR_IN_OUTPUT: Final = '\\"error\\":'
"""The same of a failed run, which earlier versions stored as a success."""

BEHIND_ANSWERS: Final = "the turn before it waits for answers"

REFUSED_IN_ERROR: Final = '"refused":true'


class RunView:
    """The runs and the processes that work at them.

    Raises:
        Exception: an error of DBOS, of its driver or of the store; so do all methods.
    """

    def __init__(self, client: DBOSClient, store: SqlStore) -> None:
        self.client = client
        self.store = store
        self.now = database_time(store)
        self.working: list[WorkerProcess] = live_workers(store)
        self.drained = drained_agents(client)
        tables: Any = client._sys_db.tables
        self.table, self.ended, self._inputs = tables.workflow_status, tables.workflow_output, tables.workflow_input
        self._living = {one.id for one in store.executors() if is_at_work(one)}
        self._arguments: dict[str, tuple[str, str]] = {}
        """The agent and the kind of input of runs whose arguments were read."""

    def select(self, *conditions: Any, limit: int | None = None, offset: int = 0) -> list[Any]:
        """Return the runs under these conditions, newest first."""
        rows, ended = self.table, self.ended
        wanted = (
            select(
                rows.c.workflow_uuid.label("workflow_id"),
                rows.c.application_version.label("app_version"),
                *(rows.c[name] for name in ("status", "queue_name", "executor_id", "priority", "recovery_attempts")),
                *(rows.c[name] for name in ("created_at", "updated_at", "completed_at")),
                func.coalesce(ended.c.output, rows.c.output).label("output"),
                func.coalesce(ended.c.error, rows.c.error).label("error"),
            )
            .select_from(rows.outerjoin(ended, ended.c.workflow_uuid == rows.c.workflow_uuid))
            .where(rows.c.name == RUN, *conditions)
            .order_by(rows.c.created_at.desc(), rows.c.priority.desc(), rows.c.workflow_uuid)
            .limit(limit)
            .offset(offset)
        )
        with self.client._sys_db.engine.connect() as connection:
            found = connection.execute(wanted).all()
        self._load_arguments(one.workflow_id for one in found if not agent_of(one))  # a cancelled run has no queue
        return list(found)

    def _load_arguments(self, runs: Iterable[str]) -> None:
        missing = [run for run in runs if run not in self._arguments]
        rows, inputs = self.table, self._inputs
        for begin in range(0, len(missing), AT_ONCE):
            wanted = (
                select(rows.c.workflow_uuid, func.coalesce(inputs.c.inputs, rows.c.inputs).label("inputs"))
                .select_from(rows.outerjoin(inputs, inputs.c.workflow_uuid == rows.c.workflow_uuid))
                .where(rows.c.workflow_uuid.in_(missing[begin : begin + AT_ONCE]))
            )
            with self.client._sys_db.engine.connect() as connection:
                for run, text in connection.execute(wanted):
                    self._arguments[run] = _arguments_in(text)

    def agent_of_session(self, session: str) -> str:
        """Return the agent of a session's newest run.

        Raises:
            DurableError: DBOS has no run of the session.
        """
        own = self.table.c.workflow_uuid.startswith(f"{session}:", autoescape=True)
        found = self.select(own, limit=1)
        if not found:
            raise DurableError(f"there is no run and no session {show(session)} in {self.store.name}")
        return self._agent(found[0])

    def _agent(self, row: Any) -> str:
        return agent_of(row) or self._arguments.get(row.workflow_id, ("", ""))[0]

    @cached_property
    def executed(self) -> dict[str, str]:
        """The id of the run that is executed, by session."""
        found = [one.workflow_id for one in self.select(self.table.c.status == "PENDING")]
        self._load_arguments(found)
        return {session_of(run): run for run in found}

    @cached_property
    def waits(self) -> dict[str, Any]:
        """The run that ended while the turn waits for answers, by session, for each session that still waits."""
        candidates: dict[str, Any] = {}
        for row in self.select(
            self.table.c.status == "SUCCESS", self.ended.c.output.contains(PENDING_IN_OUTPUT, autoescape=True)
        ):
            session = session_of(row.workflow_id)
            if session not in candidates or _end_of(row) > _end_of(candidates[session]):
                candidates[session] = row
        # A message that is executed only finds that it has to wait.
        answered = {name for name, run in self.executed.items() if not self._is_message(run)}
        names = [session for session in candidates if session not in answered]
        later: dict[str, Any] = {}
        for begin in range(0, len(names), AT_ONCE):
            some = names[begin : begin + AT_ONCE]
            oldest = min(candidates[session].completed_at or 0 for session in some)
            for row in self.select(
                self.table.c.queue_partition_key.in_(some),
                self.table.c.status.in_(("SUCCESS", "ERROR")),
                self.table.c.completed_at >= oldest,
            ):
                session, outcome = session_of(row.workflow_id), _outcome_of(row)
                if not (outcome is not None and outcome.is_refused) and _end_of(row) > _end_of(candidates[session]):
                    later[session] = row
        return {
            session: candidates[session]
            for session in names
            if session not in later and (outcome := _outcome_of(candidates[session])) is not None and outcome.pending
        }

    def read(self, row: Any) -> DurableRun:
        """Return a row as an operator sees it."""
        session = session_of(row.workflow_id)
        status, reason = self._status_of(row, session)
        run = DurableRun(
            row.workflow_id,
            session,
            self._agent(row),
            row.app_version or "",
            status,
            row.status,
            reason,
            row.recovery_attempts or 0,
            max(0.0, self.now - row.created_at / 1000),
            None if row.status in ACTIVE else max(0.0, self.now - (row.completed_at or row.updated_at) / 1000),
        )
        outcome = None if row.status in ACTIVE else _outcome_of(row)
        if outcome is not None and outcome.pending and (status == "waiting" or status == "failed"):
            waits_for = tuple(map(pending_answer, outcome.pending))
            run = evolve(run, waits_for=waits_for, reason=reason or waits_reason(waits_for))
        return run

    def waits_since(self, row: Any) -> float:
        """Return the seconds since a run was sent or put back into a queue."""
        since: int = row.updated_at or row.created_at
        return max(0.0, self.now - since / 1000)

    def _status_of(self, row: Any, session: str) -> tuple[RunStatus, str]:
        if row.status == "PENDING":
            return self._status_of_begun(row, session)
        if row.status in ACTIVE:
            return "queued", self._why_queued(row, session)
        if row.status == "CANCELLED":
            return "cancelled", ""
        if row.status == "MAX_RECOVERY_ATTEMPTS_EXCEEDED":
            return "failed", "DBOS gave up its attempts"
        outcome = _outcome_of(row)
        if outcome is None:
            return ("completed", "") if row.status == "SUCCESS" else ("failed", _error_of(row))
        if outcome.is_refused:
            return "refused", outcome.failure
        if outcome.failure:
            return "failed", outcome.failure
        if (waiting := self.waits.get(session)) is not None and waiting.workflow_id == row.workflow_id:
            return "waiting", ""
        ended = outcome.finished and outcome.finished.outcome
        return "completed", f"its turn reached the limit {ended.limit}" if isinstance(ended, LimitReached) else ""

    def _status_of_begun(self, row: Any, session: str) -> tuple[RunStatus, str]:
        if row.executor_id not in self._living:
            left = "its process has ended, and another one takes it over"
            return "queued", why_it_waits(row, self.store, self.working) or left
        waits = session in self.waits and self._is_message(row.workflow_id)
        return ("queued", BEHIND_ANSWERS) if waits else ("running", "")

    def _is_message(self, run: str) -> bool:
        self._load_arguments([run])
        return self._arguments.get(run, ("", ""))[1] == UserSpoke.tag

    def _why_queued(self, row: Any, session: str) -> str:
        if is_waiting(row):
            return BEHIND_ANSWERS
        if self._agent(row) in self.drained:
            return f"the agent {self._agent(row)} is drained"
        if (before := self.executed.get(session)) is not None and before != row.workflow_id:
            return f"behind {before}"
        return why_it_waits(row, self.store, self.working)


def _end_of(row: Any) -> tuple[int, int]:
    return row.completed_at or 0, row.priority or 0


def _outcome_of(row: Any) -> RunOutcome | None:
    """Return the outcome of an ended run; None if it has none, or one that can't be read."""
    try:
        if row.error is not None:
            return RunOutcome.read(json.loads(row.error)["outcome"])
        return RunOutcome.read(json.loads(row.output))
    except (ValueError, KeyError, TypeError, CogstepError):
        return None


def _error_of(row: Any) -> str:
    try:
        return str(json.loads(row.error)["error"])
    except (ValueError, KeyError, TypeError):
        return ""


def _arguments_in(inputs: str | None) -> tuple[str, str]:
    """Return the agent and the kind of input in a run's arguments; empty if they can't be read."""
    try:
        agent, _, event = json.loads(inputs or "")["args"]
        return str(agent), str((json.loads(event) or {}).get("type", ""))
    except (ValueError, KeyError, TypeError, AttributeError):
        return "", ""
