"""The operator's view of durable sessions: list, repair and measure their runs.

    operations = DBOSOperations("postgresql://ada@db.example/agents")     # or RestateOperations("http://...:9070")
    operations.runs()                       # [DurableRun(id='ada:5b...', status='waiting', ...), ...]
    operations.answer("ada", "1.1.1", True)
    operations.health().ok                  # for a probe
    operations.metrics_text()               # for Prometheus

No agent definition is needed: the engine's data and the recordings have everything that an operator sees. Each engine
implements ``DurableOperations`` in its own room.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import Any, Final, Literal, get_args

from attrs import asdict, frozen

from cognition import AskApproval, AskUser, CallTool, CogstepError, ReviewPlan
from interpreters.loop.program.pending import Postponable
from runtime.closeable import Closeable

RunStatus = Literal["queued", "running", "retrying", "paused", "waiting", "completed", "failed", "refused", "cancelled"]
"""The status of a run.

- ``queued``: it has not begun, or waits for another process.
- ``running``: a process executes it.
- ``retrying``: its last attempt failed and the engine will try again.
- ``paused``: the engine gave up its attempts; ``retry`` continues it.
- ``waiting``: it has ended, and its session's turn waits for answers.
- ``completed``: it has ended; its turn may have reached a limit.
- ``failed``: it has ended with an error, or its turn failed.
- ``refused``: nothing of it was carried out, such as for an answer that nothing waited for.
- ``cancelled``: it was cancelled before its end.
"""

STATUSES: Final[tuple[RunStatus, ...]] = get_args(RunStatus)

UNDER_WAY: Final[frozenset[RunStatus]] = frozenset(("queued", "running", "retrying", "paused"))

OF_INTEREST: Final[frozenset[RunStatus]] = frozenset(STATUSES) - {"completed"}
"""The statuses that ``runs`` returns by default."""

NEWEST: Final = 100
"""The default maximum number of ended runs in a list."""

LATE: Final = 60.0
"""Default seconds after which ``health`` reports a run that no process has begun."""


@frozen
class PendingAnswer:
    """An answer that a turn waits for."""

    effect_id: str
    kind: Literal["approval", "question", "plan", "tool"]
    tool: str = ""
    """The name of the tool that waits for its approval or result; empty for questions and plans."""

    def __str__(self) -> str:
        return f"{self.kind}{f' of {self.tool}' if self.tool else ''} {self.effect_id}"


@frozen
class DurableRun:
    """A run of a session, as an operator sees it."""

    id: str
    """The engine's id; empty for a waiting session whose run the engine no longer stores."""
    session: str
    agent: str
    """The definition's name; empty if unknown."""
    version: str
    """The version that executes it; empty if unknown."""
    status: RunStatus
    engine_status: str
    """The engine's own word for its status, as its console shows it."""
    reason: str = ""
    """Why it waits, failed or was refused; what it waits for. Empty if there is nothing to say."""
    attempts: int = 0
    """The number of executions so far."""
    age: float = 0.0
    """Seconds since it was sent, by the engine's clock."""
    ended: float | None = None
    """Seconds since its end; None if it has not ended."""
    waits_for: tuple[PendingAnswer, ...] = ()

    def data(self) -> dict[str, Any]:
        """Return this as plain data."""
        return asdict(self)


@frozen
class RunStep:
    """A stored step of a run: an effect, a timer or a worker."""

    name: str
    """For an effect its id."""
    error: str = ""
    child: str = ""
    """The id of the worker's run that it started."""


@frozen
class RunDetails:
    """A run with its stored steps, oldest first."""

    run: DurableRun
    steps: tuple[RunStep, ...]

    def data(self) -> dict[str, Any]:
        """Return this as plain data."""
        return asdict(self)


@frozen
class DurableVersion:
    """A version of agent logic, and what still needs it."""

    version: str
    agents: tuple[str, ...]
    """The names of the agents that its processes have; empty if none is at work."""
    processes: int | None
    """Number of working processes; None if the engine does not know it."""
    addresses: tuple[str, ...]
    """The addresses at which its processes serve, if the engine calls them."""
    runs: int
    """Number of runs under way."""
    sessions: int
    """Number of sessions that it began: only this version handles their messages."""
    open: tuple[str, ...]
    """Sessions among them with a running turn or one that waits for answers."""
    absent: tuple[str, ...] = ()
    """Agents that its runs wait for and no working process has."""

    def data(self) -> dict[str, Any]:
        """Return this as plain data."""
        return asdict(self)


@frozen
class DrainResult:
    """How far a drain has come."""

    agents: tuple[str, ...]
    """The agents whose runs no longer begin."""
    running: tuple[DurableRun, ...]
    """The runs that were still executed when the wait ended."""


@frozen
class DurableHealth:
    """The health of durable sessions at one moment."""

    ok: bool
    """Whether the engine answers, and each run under way has a process that executes it or will."""
    problems: tuple[str, ...]
    """What a person should look at, one sentence each; empty if ``ok``."""
    counts: tuple[tuple[RunStatus, int], ...] = ()
    """The number of runs of each status that the engine stores."""
    workers: int | None = None
    """Number of working processes; None if unknown."""
    oldest_queued: float = 0.0
    """Seconds since the oldest run was sent that could begin and has not; 0 without one."""
    drained: tuple[str, ...] = ()
    """Agents that take no new runs, see ``drain``."""

    def data(self) -> dict[str, Any]:
        """Return this as plain data."""
        return {**asdict(self), "counts": dict(self.counts)}


class DurableOperations(Closeable, ABC):
    """What an operator does with an engine's durable sessions."""

    engine: str
    """The engine's name: ``DBOS`` or ``Restate``."""

    @abstractmethod
    def runs(
        self, session: str = "", *, statuses: Collection[RunStatus] = OF_INTEREST, newest: int = NEWEST
    ) -> list[DurableRun]:
        """Return runs, newest first.

        Args:
            session: its runs only; empty for all sessions.
            statuses: runs of these statuses only.
            newest: the maximum number of ended runs; runs under way and waiting ones are all returned.

        Raises:
            CogstepError: the engine does not answer, or can't be used.
        """

    @abstractmethod
    def run(self, run: str) -> RunDetails:
        """Return one run by its id.

        Raises:
            CogstepError: there is no such run, or as ``runs``.
        """

    @abstractmethod
    def cancel(self, target: str, reason: str = "") -> str:
        """Cancel what a run or a session does; return the id of the run that was cancelled or that closes the turn.

        Args:
            target: a session's name or the id of a run that is executed: its turn is stopped and closed, also one that
                waits for answers. The id of a queued run: only its message is taken back.
            reason: recorded with the end of the turn.

        Raises:
            CogstepError: there is no such run or session, the run has ended, or as ``runs``.
        """

    @abstractmethod
    def retry(self, run: str) -> str:
        """Execute a failed, refused, cancelled or paused run again, and return the id of the run that does.

        If the run has left its turn open, the turn continues. Otherwise its message or answer is taken again.

        Raises:
            CogstepError: there is no such run, there is nothing to retry, or as ``runs``.
        """

    @abstractmethod
    def answer(self, session: str, effect_id: str, answer: Any) -> str:
        """Answer what a session's turn waits for, and return the id of the run that continues it.

        Raises:
            CogstepError: nothing waits under this id, the answer does not fit, or as ``runs``.
        """

    @abstractmethod
    def drain(self, agent: str = "", *, timeout: float | None = None) -> DrainResult:
        """Let no process begin another run, and wait until those that are executed have ended.

        Messages and answers are still accepted; they wait until ``undrain``.

        Args:
            agent: the runs of this agent only; empty for all agents.
            timeout: the maximum wait in seconds; None waits for ever.

        Raises:
            CogstepError: the engine can't do this, there is no such agent, or as ``runs``.
        """

    @abstractmethod
    def undrain(self, agent: str = "") -> tuple[str, ...]:
        """End a drain, and return the agents whose runs begin again; raises as ``drain``."""

    @abstractmethod
    def clear(self, older: float) -> int:
        """Delete the engine's data of runs that ended more than ``older`` seconds ago; return their number.

        The recordings stay. Raises as ``runs``.
        """

    @abstractmethod
    def versions(self) -> list[DurableVersion]:
        """Return the versions that began sessions or are working; raises as ``runs``."""

    @abstractmethod
    def check_health(self, late: float) -> DurableHealth:
        """``health``, but an engine that does not answer raises a CogstepError."""

    def health(self, *, late: float = LATE) -> DurableHealth:
        """Return the health of the sessions; never raises a CogstepError.

        Args:
            late: the seconds after which a queued run counts as a problem.
        """
        try:
            return self.check_health(late)
        except (CogstepError, TimeoutError) as error:
            return DurableHealth(False, (str(error) or "the engine did not answer in time",))

    def metrics_text(self, *, late: float = LATE) -> str:
        """Return the health as metrics, in Prometheus's text format; never raises a CogstepError."""
        return metrics_text(self.health(late=late), self.engine)


METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""The content type of ``metrics_text``."""


def metrics_text(health: DurableHealth, engine: str) -> str:
    """Return a health check as metrics, in Prometheus's text format 0.0.4.

    Args:
        health: the result of ``DurableOperations.health``.
        engine: the engine's name, for the label ``engine``.
    """
    own = ("engine", engine.lower())
    is_known = bool(health.counts)
    metrics: list[tuple[str, str, Iterable[tuple[tuple[tuple[str, str], ...], float]]]] = [
        ("up", "Whether the durable engine answers.", [((own,), float(is_known))]),
        ("healthy", "Whether each run under way has a process.", [((own,), float(health.ok))]),
        (
            "runs",
            "Stored runs by status.",
            [((own, ("status", status)), float(count)) for status, count in health.counts],
        ),
    ]
    if is_known:
        oldest = [((own,), health.oldest_queued)]
        metrics.append(("oldest_queued_seconds", "Age of the oldest run that could begin and has not.", oldest))
        if health.workers is not None:
            metrics.append(("workers", "Processes that work at sessions.", [((own,), float(health.workers))]))
        drained = [((own, ("agent", agent)), 1.0) for agent in health.drained]
        metrics.append(("drained", "Agents that take no new runs.", drained))
    return "".join(line for name, text, samples in metrics for line in _metric_lines(name, text, samples))


def _metric_lines(name: str, what: str, samples: Iterable[tuple[tuple[tuple[str, str], ...], float]]) -> Iterable[str]:
    full = f"cogstep_durable_{name}"
    lines = []
    for labels, value in samples:
        written = ",".join(f'{label}="{_escape(text)}"' for label, text in labels)
        lines.append(f"{full}{{{written}}} {value:.12g}\n")
    return [f"# HELP {full} {what}\n", f"# TYPE {full} gauge\n", *lines] if lines else []


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def pending_answer(effect: Postponable) -> PendingAnswer:
    """Return what a pending effect waits for, without its arguments or texts."""
    match effect:
        case AskApproval():
            return PendingAnswer(str(effect.effect_id), "approval", effect.call.name)
        case CallTool():
            return PendingAnswer(str(effect.effect_id), "tool", effect.call.name)
        case AskUser():
            return PendingAnswer(str(effect.effect_id), "question")
        case ReviewPlan():
            return PendingAnswer(str(effect.effect_id), "plan")


def waits_reason(waits_for: Iterable[PendingAnswer]) -> str:
    """Return the reason of a run that waits for these answers."""
    return f"waits for a person: {', '.join(map(str, waits_for))}"


def sorted_runs(runs: Iterable[DurableRun], statuses: Collection[RunStatus], newest: int) -> list[DurableRun]:
    """Return the runs of these statuses, newest first, with at most ``newest`` ended ones that don't wait."""
    left, found = newest, []
    for one in sorted(runs, key=lambda one: (one.age, one.session, one.id)):
        is_bounded = one.status not in UNDER_WAY and one.status != "waiting"
        if one.status in statuses and (left > 0 or not is_bounded):
            found.append(one)
            left -= is_bounded
    return found


def check_retry(run: DurableRun) -> None:
    """Check that a run has ended in a way that can be retried.

    Raises:
        CogstepError: it is under way, or it completed.
    """
    if run.status in ("queued", "running"):
        why = run.reason and f" ({run.reason})"
        raise CogstepError(f"the run {run.id} is {run.status}{why}: there is nothing to retry")
    if run.status in ("completed", "waiting"):
        raise CogstepError(f"the run {run.id} has completed: send a new message to the session {run.session}")
