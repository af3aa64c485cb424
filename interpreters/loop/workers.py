"""Workers: part of a turn's work, with their own engine and state.

An interpreter of the same kind as the parent's runs the worker that is built here, on its own thread or in its own
task.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Any, Protocol

from attrs import define, evolve, frozen

from cognition import (
    AgentConfig,
    AgentState,
    ApprovalsForgotten,
    Cancelled,
    CognitiveEngine,
    Completed,
    ConfigError,
    EffectId,
    Failed,
    Input,
    LimitReached,
    ModeChanged,
    ModeSet,
    RulesForgotten,
    SpawnWorker,
    TurnFinished,
    Usage,
    UserSpoke,
    WorkerFailed,
    WorkerFinished,
    WorkerStalled,
)
from cognition.context.sections import with_standing
from cognition.values.candidates import Briefing
from cognition.values.features import Feature, HookPoint
from cognition.values.routing import order_of
from interpreters.loop.clock import Clock
from interpreters.loop.driver import Driver
from interpreters.loop.mailbox_messages import HandedInput, Turn, WorkerRequest
from interpreters.loop.program.program import Program

NOT_FOR_WORKERS: frozenset[Feature] = frozenset({"plan", "workers"})
"""Features that workers do not get. A plan belongs to the user and the parent.

Workers have no workers: each budget includes at least one worker, so their number would be unlimited.
"""

HOOKS_OF_WORKERS: frozenset[HookPoint] = frozenset({"before_tool", "after_tool"})
"""Hooks that apply to workers: those that guard a call. The others are about the dialogue with the user."""


IN_PART = "parts of its work may have happened"
"""Note for the parent about a worker that was stopped halfway."""


@frozen(eq=False)
class Worker:
    """Everything that an interpreter needs to run a worker."""

    engine: CognitiveEngine
    state: AgentState
    program: Program
    task: UserSpoke


def make_worker(effect: SpawnWorker, parent: CognitiveEngine, program: Program, state: object = None) -> Worker:
    """Return the worker for an effect. It never has more tools, budget or permissions than its parent has now.

    ``state`` is the parent's state. It supplies the system prompt, if it differs from the configured prompt, the
    sections behind the prompt, and the known failures of models.
    """
    config: AgentConfig | None = program.reveal(getattr(parent, "config", None))
    if config is None:
        raise ConfigError("an engine that decides SpawnWorker needs a `config` to make the worker's of")
    spec = effect.worker
    system: str | None = program.reveal(getattr(state, "system", None))
    briefing: Briefing | None = program.reveal(getattr(state, "briefing", None))
    own = evolve(
        config,
        system=with_standing(config.system if system is None else system, briefing),
        tools=tuple(tool for tool in config.tools if tool.name in spec.tools),
        limits=effect.limits,
        features=tuple(feature for feature in config.features if feature not in NOT_FOR_WORKERS),
        hooks=tuple(point for point in config.hooks if point in HOOKS_OF_WORKERS),
        recall_first=False,
    )
    chosen: str | None = getattr(state, "model", None)
    given = dict(config.routes).get("worker")
    if given is not None:
        # Its own model, which falls back to the models of its parent.
        routes = tuple((task, name) for task, name in own.routes if task == "summary")
        own = evolve(own, routes=routes, fallback=order_of(chosen, own.routes, own.fallback, "answer"))
        chosen = given
    parts = [spec.objective, *(f"Result of {name}:\n{text}" for name, text in effect.context)]
    return Worker(
        program.engine(own),
        AgentState(remembered=effect.remembered, mode=effect.mode, model=chosen, health=getattr(state, "health", ())),
        program.for_worker(f"{program.session}/{effect.effect_id}", spec.tools),
        UserSpoke("\n\n".join(parts)),
    )


def worker_answer(effect: SpawnWorker, finished: TurnFinished | None) -> WorkerFinished | WorkerFailed:
    """Return the input that reports a worker's end to its parent."""
    if finished is None:
        return WorkerFailed(effect.effect_id, "its engine ended the turn without an outcome")
    outcome, usage = finished.outcome, finished.usage
    match outcome:
        case Completed(text=text):
            return WorkerFinished(effect.effect_id, text, usage)
        case LimitReached(text=text, cut=False) if text:
            return WorkerFinished(effect.effect_id, text, usage)
        case LimitReached(limit=limit, text=text):
            why = f"cut its answer, which began: {text}" if text else "ended it without an answer"
            return WorkerFailed(effect.effect_id, f"its limit of {limit} {why}", usage)
        case Cancelled(reason=reason):
            return WorkerFailed(effect.effect_id, f"{reason or 'it was cancelled'}; {IN_PART}", usage)
        case Failed(message=message):
            return WorkerFailed(effect.effect_id, message, usage)


class WorkerInterpreter(Protocol):
    """The part of a worker's interpreter that the crew uses, from any thread."""

    driver: Driver

    def cancel_turn(self, turn: Turn, reason: str) -> None: ...
    def hand_in(self, event: HandedInput) -> None: ...


@define(eq=False)
class RunningWorker:
    """One running worker."""

    effect: SpawnWorker
    child: WorkerInterpreter
    turn: Turn


class Workers:
    """Watches the workers and passes on cancellations, modes and forgotten approvals.

    Args:
        deadlines: deadlines of the session; a silent worker gets one here.
        clock: clock of the session.
        patience: seconds without a sign of life before a worker is given up; None waits for ever.
    """

    def __init__(
        self, deadlines: dict[EffectId, tuple[float, Callable[[], Input]]], clock: Clock, patience: float | None
    ) -> None:
        self._deadlines = deadlines
        self._clock = clock
        self._patience = patience
        self._members: dict[EffectId, RunningWorker] = {}
        self._stopping: dict[EffectId, RunningWorker] = {}
        """Abandoned workers that are being stopped.

        ``cancel`` stops these too, since none of their effects may begin after it.
        """

    def add(self, effect: SpawnWorker, child: WorkerInterpreter) -> Turn:
        """Watch a worker that is about to begin. Return the turn that it has to run."""
        member = self._members[effect.effect_id] = RunningWorker(effect, child, Turn())
        self.note_activity(effect.effect_id)
        return member.turn

    def waits_for(self, turn: Turn) -> bool:
        """Whether the session still waits for the answer of a worker's turn."""
        return any(member.turn is turn for member in list(self._members.values()))

    def note_activity(self, effect_id: EffectId) -> None:
        """Extend the deadline of a worker that has done something."""
        member, patience = self._members.get(effect_id), self._patience
        if member is not None and patience is not None:
            when = self._clock.monotonic() + patience
            self._deadlines[effect_id] = (when, partial(_report_stalled, member, patience))

    def stop(self, effect_id: EffectId, reason: str = "its parent needs it no longer") -> None:
        """Stop a worker that has become unnecessary."""
        member = self._members.get(effect_id)
        if member is not None:
            self._stopping[effect_id] = member
            self._members.pop(effect_id, None)
            member.child.cancel_turn(member.turn, reason)
            self._stopping.pop(effect_id, None)

    def cancel(self, reason: str) -> None:
        """Cancel all workers, because their parent's turn is cancelled. Safe in a signal handler."""
        for member in [*list(self._members.values()), *list(self._stopping.values())]:
            member.child.cancel_turn(member.turn, reason)

    def pass_on(self, decision: ModeSet | RulesForgotten) -> None:
        """Pass a mode or forgotten approvals on to all workers. Workers may never do more than their parent."""
        told = ModeChanged(decision.mode) if isinstance(decision, ModeSet) else ApprovalsForgotten(decision.rules)
        for member in self._members.values():
            member.child.hand_in(told)

    def usage(self) -> list[Usage]:
        return [member.child.driver.state.spent.usage for member in self._members.values()]

    def remove(self, effect_id: EffectId) -> None:
        """Forget a worker whose answer has arrived."""
        self._members.pop(effect_id, None)

    def stop_all(self) -> None:
        for effect_id in list(self._members):
            self.stop(effect_id)


def _report_stalled(member: RunningWorker, patience: float) -> WorkerStalled:
    """Return the input that reports to the parent a worker without a sign of life."""
    usage: Usage = member.child.driver.state.spent.usage
    return WorkerStalled(member.effect.effect_id, f"no sign of life for {patience:g} seconds", usage)


def run_worker_request(errand: WorkerRequest, *, wanted: bool) -> None:
    """Ask the program for a worker, on the session's own thread.

    ``wanted`` is False if the worker's turn is over; the answer is then cancelled.
    """
    if not wanted:
        errand.answer.cancel()
    if not errand.answer.set_running_or_notify_cancel():
        return
    try:
        answer = errand.ask()
    except Exception as error:  # ``NotBegun`` too: the worker's own turn may be over
        errand.answer.set_exception(error)
        return
    if isinstance(answer, Future):
        answer.add_done_callback(partial(_pass_on, errand.answer))
    else:
        errand.answer.set_result(answer)


def _pass_on(answer: Future[Any], source: Future[Any]) -> None:
    try:
        answer.set_result(source.result())
    except (CancelledError, Exception) as error:
        answer.set_exception(error)
