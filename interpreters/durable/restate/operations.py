"""``RestateOperations``: the operator's view of sessions on Restate, by the server's admin API."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from datetime import timedelta
from typing import Any, Final
from uuid import uuid4

from cognition import CancelAsked, CogstepError, ConfigError
from cognition.base.checking import show
from interpreters.durable._errors import DurableError
from interpreters.durable.definition import DurableAgent, answer_input
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
from interpreters.durable.restate._client import ANSWER, VERSIONED, RestateServer, entrance_name
from interpreters.durable.restate._run_view import ENTRANCES, RunView, agent_and_version, ended_as, quoted
from interpreters.durable.restate.sessions import ADMIN, CLOSING
from interpreters.durable.serialization import input_text
from interpreters.recording.journal import JournalError
from interpreters.recording.sessions import SessionInfo, list_sessions
from interpreters.recording.store import SqlStore
from runtime.checking import checked_call

OURS: Final = f"({ENTRANCES} OR target_service_name LIKE '{VERSIONED}%')"


def _no_model() -> Any:
    raise ConfigError("an operator's process has no model: start a process that serves the agent")


class RestateOperations(DurableOperations):
    """The operator's view of sessions on a Restate server. Needs the extra ``restate``.

    Args:
        admin: the server's admin address.
        store: the URL of the sessions' recordings. ``answer`` needs it, and ``retry`` to continue an open turn.
        ingress: the server's address for messages; empty: the server tells it.
        agents: definitions, if answers need them: the results of external tools, and secrets of the definition that an
            answer may contain.

    Raises:
        StoreError: the URL names no database.
        ConfigError: an address is invalid.
    """

    engine = "Restate"

    @checked_call
    def __init__(
        self, admin: str = ADMIN, *, store: str = "", ingress: str = "", agents: Iterable[DurableAgent] = ()
    ) -> None:
        self._server = RestateServer.at(ingress or admin, admin)
        self._has_ingress = bool(ingress)
        self._store = SqlStore(store) if store else None
        self._agents = {one.name: one for one in agents}

    def close(self) -> None:
        """Nothing is open."""

    # ------------------------------------------------------------------------------------------------------- looking

    @checked_call
    def runs(
        self, session: str = "", *, statuses: Collection[RunStatus] = OF_INTEREST, newest: int = NEWEST
    ) -> list[DurableRun]:
        own = f" AND target_service_key = {quoted(session)}" if session else ""
        view = RunView(self._server)
        found: dict[str, DurableRun] = {}
        if UNDER_WAY.intersection(statuses):
            found |= view.read_all(f"status <> 'completed'{own}")
        if "waiting" in statuses:
            found |= view.waiting_runs(session)
        kinds = {
            "completed": "completion_result = 'success'",
            "failed": "(completion_failure NOT LIKE '[422%' AND completion_failure NOT LIKE '[409%')",
            "refused": "completion_failure LIKE '[422%'",
            "cancelled": "completion_failure LIKE '[409%'",
        }
        if chosen := " OR ".join(condition for status, condition in kinds.items() if status in statuses):
            ended = view.read_all(f"status = 'completed'{own} AND ({chosen})", newest + len(view.waits))
            found = ended | found
        return sorted_runs(found.values(), statuses, newest)

    @checked_call
    def run(self, run: str) -> RunDetails:
        view = RunView(self._server)
        found = self._find(view, run)
        inside = view.select(f"SELECT id FROM sys_invocation WHERE invoked_by_id = {quoted(run)}")
        inner = [one["id"] for one in inside]
        if not inner:
            return RunDetails(found, ())
        ids = ", ".join(map(quoted, inner))
        entries = view.select(
            "SELECT id, index, entry_type, name, invoked_id FROM sys_journal "
            f"WHERE id IN ({ids}) AND entry_type LIKE 'Command%' ORDER BY id, index"
        )
        steps = [RunStep(one.get("name") or "", "", one.get("invoked_id") or "") for one in entries]
        return RunDetails(found, tuple(one for one in steps if one.name or one.child))

    @checked_call
    def versions(self) -> list[DurableVersion]:
        view = RunView(self._server)
        agents: defaultdict[str, set[str]] = defaultdict(set)
        addresses: defaultdict[str, set[str]] = defaultdict(set)
        for one in view.select("SELECT endpoint, services FROM sys_deployment"):
            for service in one["services"]:
                if (named := agent_and_version(service)) is not None:
                    agents[named[1]].add(named[0])
                    addresses[named[1]].add(str(one["endpoint"]).rstrip("/"))
        runs, open_ = Counter[str](), {session for _, session in view.waits}
        absent: defaultdict[str, set[str]] = defaultdict(set)
        for run in view.read_all("status <> 'completed'").values():
            runs[run.version] += 1
            open_.add(run.session)
            if run.agent not in agents[run.version]:
                absent[run.version].add(run.agent)
        sessions: defaultdict[str, set[str]] = defaultdict(set)
        for (_, session), version in view.versions.items():
            sessions[version].add(session)
        return [
            DurableVersion(
                version,
                tuple(sorted(agents[version])),
                None,
                tuple(sorted(addresses[version])),
                runs[version],
                len(sessions[version]),
                tuple(sorted(sessions[version] & open_)),
                tuple(sorted(absent[version])),
            )
            for version in sorted({*agents, *sessions, *runs} - {""})
        ]

    def check_health(self, late: float) -> DurableHealth:
        view = RunView(self._server)
        under_way = view.read_all("status <> 'completed'").values()
        counts = Counter[str](one.status for one in under_way)
        problems = []
        for status, what in (("retrying", "failed and will be tried again"), ("paused", "are paused: use retry")):
            if found := [one for one in under_way if one.status == status]:
                problems.append(f"{len(found)} runs {what} (such as {found[0].id}: {_one_line(found[0].reason)})")
        for one in view.select(
            f"SELECT completion_result, substr(completion_failure, 1, 4) AS code, count(*) AS many FROM sys_invocation "
            f"WHERE {ENTRANCES} AND status = 'completed' GROUP BY completion_result, substr(completion_failure, 1, 4)"
        ):
            counts[ended_as(one.get("completion_result"), one.get("code") or "")] += one["many"]
        waiting = view.waiting_runs("")
        counts["waiting"] = len(waiting)
        counts["completed"] -= sum(bool(one.id) for one in waiting.values())
        return DurableHealth(not problems, tuple(problems), tuple((status, counts[status]) for status in STATUSES))

    def _find(self, view: RunView, run: str) -> DurableRun:
        found = {**view.read_one(run), **view.waiting_runs("")}
        if not run or run not in found:
            raise DurableError(f"there is no run {show(run)} on {self._server.admin}; `list` shows their ids")
        return found[run]

    # -------------------------------------------------------------------------------------------------------- acting

    @checked_call
    def cancel(self, target: str, reason: str = "") -> str:
        view = RunView(self._server)
        if target in (found := view.read_one(target)):
            run = self._find(view, target) if found[target].status == "completed" else found[target]
            if run.status == "queued" and self._server.cancel(target):
                return target
            if run.status not in UNDER_WAY and run.status != "waiting":
                raise CogstepError(f"the run {target} has ended ({run.status}): there is nothing to cancel")
            return self._cancel_session(run.agent, run.session, reason)
        return self._cancel_session(self._agent_of_session(view, target), target, reason)

    def _cancel_session(self, agent: str, session: str, reason: str) -> str:
        runs = self._server.invocations(agent, session)
        event = self._definition(agent).redactor().hide(CancelAsked(reason))[0]
        closing = self._send(agent, session, input_text(event), f"{CLOSING}{uuid4().hex}")  # before the next message
        for run in runs:
            if run["at_work"] and not str(run.get("idempotency_key") or "").startswith(CLOSING):
                self._server.cancel(run["id"])
        return closing

    @checked_call
    def retry(self, run: str) -> str:
        view = RunView(self._server)
        found = self._find(view, run)
        check_retry(found)
        if found.status in UNDER_WAY:
            for one in (view.inner.get(run, {}).get("id"), run):
                if one is not None and self._server.act(one, "resume") is not None:
                    return run
            raise CogstepError(f"the run {run} is not paused any longer: there is nothing to retry")
        if self._is_interrupted(found.session):
            return self._send(found.agent, found.session, input_text(None), "")
        again = self._server.act(run, "restart-as-new")
        if again is None:
            raise CogstepError(f"the server has not kept what the run {run} began with; send its message again")
        return str(again["new_invocation_id"])

    def _is_interrupted(self, session: str) -> bool:
        """Whether the session's turn is open and waits for nobody; False without a store."""
        if self._store is None:
            return False
        try:
            found = list(list_sessions(self._store.recording(session)))
        except JournalError:  # it has not begun
            return False
        return any(isinstance(one, SessionInfo) and one.status == "interrupted" for one in found)

    @checked_call
    def answer(self, session: str, effect_id: str, answer: Any) -> str:
        if self._store is None:
            raise ConfigError("an answer needs the recordings, which have what it answers: give store= (--store URL)")
        own = self._definition(self._agent_of_session(RunView(self._server), session))
        event = own.redactor().hide(answer_input(own, self._store.recorder(session), effect_id, answer))[0]
        return self._send(own.name, session, input_text(event), "")

    def _send(self, agent: str, session: str, body: str, idempotency: str) -> str:
        if not self._has_ingress:
            self._server = RestateServer.at(self._server.ingress_address(), self._server.admin)
            self._has_ingress = True
        return self._server.send(entrance_name(agent), session, body, idempotency, ANSWER)

    def _definition(self, agent: str) -> DurableAgent:
        return self._agents.get(agent) or DurableAgent(agent, _no_model)

    def _agent_of_session(self, view: RunView, session: str) -> str:
        newest = view.read_all(f"target_service_key = {quoted(session)}", 1)
        agents = {one.agent for one in newest.values()} or {agent for agent, name in view.versions if name == session}
        if len(agents) != 1:
            raise DurableError(
                f"several agents have a session {show(session)}: {', '.join(sorted(agents))}; give the id of a run"
                if agents
                else f"there is no run and no session {show(session)} on {self._server.admin}"
            )
        return agents.pop()

    def drain(self, agent: str = "", *, timeout: float | None = None) -> DrainResult:
        """Not on Restate: the server calls each registered process.

        Raises:
            CogstepError: always; the message has the other way.
        """
        raise CogstepError(
            "Restate has no drain: its server gives runs to every registered process. End the processes with SIGTERM: "
            "each waits for its running steps (drain=), and messages wait in the server until a process is there again"
        )

    def undrain(self, agent: str = "") -> tuple[str, ...]:
        """As ``drain``."""
        self.drain(agent)
        return ()

    @checked_call
    def clear(self, older: float) -> int:
        view = RunView(self._server)
        before = (view.now - timedelta(seconds=older)).isoformat()
        ended = view.select(
            f"SELECT id, target_service_name FROM sys_invocation WHERE {OURS} AND status = 'completed' "
            f"AND completed_at < '{before}'"
        )
        gone = [one for one in ended if self._server.act(one["id"], "purge") is not None]
        return sum(not str(one["target_service_name"]).startswith(VERSIONED) for one in gone)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:200]
