"""Workers: part of a turn's work, with their own engine and state.

An interpreter of the same kind as the parent's runs the worker that is built here.
"""

from __future__ import annotations

from attrs import evolve, frozen

from cognition import (
    AgentConfig,
    AgentState,
    Cancelled,
    CognitiveEngine,
    Completed,
    ConfigError,
    Failed,
    LimitReached,
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
        own, chosen = _with_model(own, chosen), given
    parts = [spec.objective, *(f"Result of {name}:\n{text}" for name, text in effect.context)]
    return Worker(
        program.engine(own),
        AgentState(remembered=effect.remembered, mode=effect.mode, model=chosen, health=getattr(state, "health", ())),
        program.for_worker(f"{program.session}/{effect.effect_id}", spec.tools),
        UserSpoke("\n\n".join(parts)),
    )


def _with_model(config: AgentConfig, chosen: str | None) -> AgentConfig:
    """Return the configuration of a worker with its own model, which falls back to the models of its parent."""
    parents = order_of(chosen, config.routes, config.fallback, "answer")
    routes = tuple((task, name) for task, name in config.routes if task == "summary")
    return evolve(config, routes=routes, fallback=parents)


def worker_answer(effect: SpawnWorker, finished: TurnFinished | None) -> WorkerFinished | WorkerFailed:
    """Return the input that reports a worker's end to its parent."""
    if finished is None:
        return WorkerFailed(effect.effect_id, "its engine ended the turn without an outcome")
    outcome, usage = finished.outcome, finished.usage
    match outcome:
        case Completed(text=text):
            return WorkerFinished(effect.effect_id, text, usage)
        case LimitReached(limit=limit, text=text):
            if text and not outcome.cut:
                return WorkerFinished(effect.effect_id, text, usage)
            if text:
                return WorkerFailed(
                    effect.effect_id, f"its limit of {limit} cut its answer, which began: {text}", usage
                )
            return WorkerFailed(effect.effect_id, f"its limit of {limit} ended it without an answer", usage)
        case Cancelled(reason=reason):
            return WorkerFailed(effect.effect_id, f"{reason or 'it was cancelled'}; {IN_PART}", usage)
        case Failed(message=message):
            return WorkerFailed(effect.effect_id, message, usage)


def worker_stalled(effect: SpawnWorker, seconds: float, state: AgentState) -> WorkerStalled:
    """Return the input that reports to the parent a worker without a sign of life for ``seconds``."""
    usage: Usage = state.spent.usage
    return WorkerStalled(effect.effect_id, f"no sign of life for {seconds:g} seconds", usage)
