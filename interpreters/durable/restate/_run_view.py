"""The invocations of a Restate server as an operator sees them, at one moment."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final

from attrs import define, evolve

from interpreters.durable._errors import DurableError
from interpreters.durable.operations import DurableRun, PendingAnswer, RunStatus, waits_reason
from interpreters.durable.restate._client import (
    HEAR,
    PENDING,
    VERSION,
    VERSIONED,
    WAITING,
    RestateServer,
    versioned_name,
)

ENTRANCES: Final = "target_service_name LIKE 'cogstep.%'"
"""The condition of runs; those of the objects that they call are executions of them."""

FAILURE: Final = re.compile(r"\[(\d+)[^\]]*\] ?(.*)", re.DOTALL)
"""How the server writes a failure: ``[422] the message``."""

INVOCATION: Final = re.compile(r"inv_[0-9A-Za-z]+")

TOGETHER: Final = 200
"""Maximum number of ids in one query."""

ROW: Final = (
    "id, target_service_name, target_service_key, target_handler_name, status, created_at, completed_at, "
    "completion_result, completion_failure, retry_count, last_failure, now() AS now"
)


@define
class _Waits:
    """What a turn waits for, and since when, in seconds since the epoch."""

    at: float
    answers: tuple[PendingAnswer, ...]


class RunView:
    """The server's invocations and the state of sessions, at one moment."""

    def __init__(self, server: RestateServer) -> None:
        self.select = server.select
        (row,) = self.select("SELECT now() AS now")
        self.now = _time(row["now"])
        self.versions: dict[tuple[str, str], str] = {}
        """The version that began a session, by agent and session."""
        self.waits: dict[tuple[str, str], _Waits] = {}
        for one in self.select(
            "SELECT service_name, service_key, key, value_utf8 FROM state WHERE service_name LIKE 'cogstep%' "
            f"AND key IN ('{VERSION}', '{PENDING}')"
        ):
            self._read_state(one["service_name"], one["service_key"], one["key"], one.get("value_utf8") or "")

    def _read_state(self, service: str, session: str, key: str, text: str) -> None:
        if key == VERSION:
            self.versions[service.removeprefix("cogstep."), session] = str(_json(text))
        elif (named := agent_and_version(service)) is not None and (data := _json(text)):
            self.waits[named[0], session] = _Waits(data["at"], tuple(PendingAnswer(**one) for one in data["waits_for"]))

    @cached_property
    def inner(self) -> dict[str, dict[str, Any]]:
        """The unfinished invocation that a run waits for, by the run's id."""
        rows = self.select(
            "SELECT id, invoked_by_id, status, retry_count, last_failure FROM sys_invocation "
            f"WHERE target_service_name LIKE '{VERSIONED}%' AND target_handler_name = 'run' AND status <> 'completed'"
        )
        return {str(one.get("invoked_by_id")): one for one in rows}

    def read_all(self, condition: str, limit: int | None = None) -> dict[str, DurableRun]:
        """Return the runs under this condition by id, newest first."""
        bound = "" if limit is None else f" LIMIT {limit}"
        rows = self.select(
            f"SELECT {ROW} FROM sys_invocation WHERE {ENTRANCES} AND {condition} ORDER BY created_at DESC{bound}"
        )
        return {one["id"]: self._read(one) for one in rows}

    def read_one(self, run: str) -> dict[str, DurableRun]:
        """Return the run with this id, if there is one: the server refuses a query for what is no id."""
        if not INVOCATION.fullmatch(run):
            return {}
        try:
            return self.read_all(f"id = {quoted(run)}")
        except DurableError as error:
            if "valid invocation id" in str(error):
                return {}
            raise

    def waiting_runs(self, session: str) -> dict[str, DurableRun]:
        """Return the waiting sessions, each with its newest completed run if the server still has it."""
        names = sorted({name for _, name in self.waits if not session or name == session})
        newest: dict[tuple[str, str], DurableRun] = {}
        for begin in range(0, len(names), TOGETHER):
            keys = ", ".join(map(quoted, names[begin : begin + TOGETHER]))
            ended = "status = 'completed' AND completion_result = 'success'"
            for run in self.read_all(f"{ended} AND target_service_key IN ({keys})").values():
                newest.setdefault((run.agent, run.session), run)
        found = {}
        for (agent, name), waits in self.waits.items():
            if name not in names:
                continue
            age = max(0.0, self.now.timestamp() - waits.at)
            gone = DurableRun("", name, agent, self.versions.get((agent, name), ""), "waiting", "", age=age, ended=age)
            run = newest.get((agent, name), gone)
            run = evolve(run, status="waiting", waits_for=waits.answers, reason=waits_reason(waits.answers))
            found[run.id or f"{agent} {name}"] = run
        return found

    def _read(self, row: dict[str, Any]) -> DurableRun:
        agent, session = str(row["target_service_name"]).removeprefix("cogstep."), str(row["target_service_key"])
        status, reason = self._status_of(row, (agent, session))
        inner = self.inner.get(row["id"], {})
        ended = row.get("completed_at")
        return DurableRun(
            row["id"],
            session,
            agent,
            self.versions.get((agent, session), ""),
            status,
            inner.get("status") or row["status"],
            reason,
            inner.get("retry_count") or row.get("retry_count") or (0 if status == "queued" else 1),
            max(0.0, (self.now - _time(row["created_at"])).total_seconds()),
            None if ended is None else max(0.0, (self.now - _time(ended)).total_seconds()),
        )

    def _status_of(self, row: dict[str, Any], place: tuple[str, str]) -> tuple[RunStatus, str]:
        if row["status"] == "completed":
            found = FAILURE.match(row.get("completion_failure") or "")
            code, text = (found[1], found[2]) if found is not None else ("", row.get("completion_failure") or "")
            status = ended_as(row.get("completion_result"), f"[{code}")
            return status, "" if status == "cancelled" else text
        inner = self.inner.get(row["id"])
        at_work = row if inner is None else inner
        failure = at_work.get("last_failure") or ""
        if at_work["status"] == "backing-off":
            return "retrying", failure
        if at_work["status"] == "paused":
            return "paused", failure
        if place in self.waits and row["target_handler_name"] == HEAR:
            return "queued", "the turn before it waits for answers"
        if at_work["status"] in WAITING:
            return "queued", "behind another run of its session"
        return "running", ""


def ended_as(result: Any, failure: str) -> RunStatus:
    """Return the status of a completed invocation.

    Args:
        result: ``success`` or ``failure``.
        failure: its failure's beginning, such as ``[422``.
    """
    if result == "success":
        return "completed"
    return "cancelled" if failure.startswith("[409") else "refused" if failure.startswith("[422") else "failed"


def agent_and_version(service: str) -> tuple[str, str] | None:
    """Return the agent and the version of a versioned object's name; None for another name."""
    length, _, rest = service.removeprefix(VERSIONED).partition(".")
    if not service.startswith(VERSIONED) or not length.isdecimal():
        return None
    agent, version = rest[: int(length)], rest[int(length) + 1 :]
    return (agent, version) if versioned_name(agent, version) == service else None


def quoted(text: str) -> str:
    """Return a text as an SQL literal."""
    escaped = text.replace("'", "''")
    return f"'{escaped}'"


def _time(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
