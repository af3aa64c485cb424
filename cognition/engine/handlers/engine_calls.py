"""Start the calls that the engine itself executes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import evolve

from cognition.base.errors import ConfigError
from cognition.engine.draft import Draft
from cognition.steps.config import Limits
from cognition.steps.decisions import (
    AskUser,
    ModeSet,
    PlanChanged,
    Recall,
    Remember,
    ReviewPlan,
    SpawnWorker,
    TasksChanged,
)
from cognition.steps.engine_tools import (
    ASK_USER,
    ENTER_PLAN_MODE,
    FINISH_STEP,
    RECALL,
    REMEMBER,
    SPAWN_WORKER,
    SUBMIT_PLAN,
    UPDATE_TASKS,
    read_plan,
    read_questions,
    read_tasks,
    read_text,
    read_worker,
)
from cognition.steps.phases import AwaitingAnswer, CallSlot, CallStatus, Running, Settled
from cognition.steps.vocabulary import own_arguments, worker_name_argument
from cognition.values.features import Mode, Plan, Vocabulary, WorkerSpec
from cognition.values.messages import ToolCall, ToolResult

PLANNING = "You are planning now: look around with read-only tools, then submit a plan."


def start_engine_call(draft: Draft, call: ToolCall, before: tuple[CallSlot, ...]) -> CallStatus:
    """Start a permitted engine call and return its status; ``before`` are the earlier calls of the reply."""
    setup = draft.setup
    try:
        arguments = own_arguments(call.name, call.arguments, setup.config.names)
        return STARTERS[setup.engine_tools[call.name]](draft, arguments, before)
    except ConfigError as error:
        return Settled(ToolResult(f"Error: {error}", "error"))


def set_mode(draft: Draft, mode: Mode) -> None:
    if draft.mode != mode:
        draft.mode = mode
        draft.decide(ModeSet(mode))


def _ask_user(draft: Draft, arguments: Mapping[str, Any], _before: tuple[CallSlot, ...]) -> CallStatus:
    questions = read_questions(arguments)
    effect_id = draft.new_effect()
    draft.decide(AskUser(effect_id, questions))
    return AwaitingAnswer(effect_id)


def _update_tasks(draft: Draft, arguments: Mapping[str, Any], _before: tuple[CallSlot, ...]) -> CallStatus:
    draft.tasks = read_tasks(arguments)
    draft.decide(TasksChanged(draft.tasks))
    return Settled(ToolResult("The list of tasks is updated."))


def _enter_plan_mode(draft: Draft, _arguments: Mapping[str, Any], _before: tuple[CallSlot, ...]) -> CallStatus:
    if draft.mode != "plan":
        draft.resume_mode = draft.mode
        set_mode(draft, "plan")
    return Settled(ToolResult(PLANNING))


def _submit_plan(draft: Draft, arguments: Mapping[str, Any], _before: tuple[CallSlot, ...]) -> CallStatus:
    plan = read_plan(arguments)
    effect_id = draft.new_effect()
    draft.decide(ReviewPlan(effect_id, plan))
    return AwaitingAnswer(effect_id)


def _finish_step(draft: Draft, _arguments: Mapping[str, Any], _before: tuple[CallSlot, ...]) -> CallStatus:
    plan = draft.plan
    if plan is None:
        raise ConfigError("there is no plan under execution")
    done = plan.done + 1
    draft.plan = Plan(plan.steps, done) if done < len(plan.steps) else None
    draft.decide(PlanChanged(draft.plan))
    return Settled(ToolResult(f"Next step: {plan.steps[done]}" if draft.plan else "The plan is done."))


def _remember(draft: Draft, arguments: Mapping[str, Any], _before: tuple[CallSlot, ...]) -> CallStatus:
    draft.decide(Remember(read_text(arguments, "text")))
    return Settled(ToolResult("Saved."))


def _recall(draft: Draft, arguments: Mapping[str, Any], _before: tuple[CallSlot, ...]) -> CallStatus:
    query = read_text(arguments, "query")
    effect_id = draft.new_effect()
    draft.decide(Recall(effect_id, query))
    return Running(effect_id)


def _spawn_worker(draft: Draft, arguments: Mapping[str, Any], before: tuple[CallSlot, ...]) -> CallStatus:
    worker = read_worker(arguments)
    own = tuple(tool.name for tool in draft.setup.config.tools)
    unknown = [name for name in worker.tools if name not in own]
    if unknown:
        raise ConfigError(f"a worker can't have {', '.join(unknown)}; it may have {', '.join(own) or 'no tools'}")
    context = _results_of(draft, worker, before)
    effect_id = draft.new_effect()
    draft.workers += 1
    given = evolve(worker, tools=worker.tools or own)
    draft.decide(SpawnWorker(effect_id, given, context, _remaining_limits(draft), draft.remembered, draft.mode))
    return Running(effect_id)


def _results_of(draft: Draft, worker: WorkerSpec, before: tuple[CallSlot, ...]) -> tuple[tuple[str, str], ...]:
    """Return the results of the workers that this worker waited for.

    Raises:
        ConfigError: with a message for the model: a duplicate name, or a needed worker that is missing or failed.
    """
    results: list[tuple[str, str]] = []
    own, names = draft.setup.engine_tools, draft.setup.config.names
    named = {
        _worker_name(slot.call, names): slot.status for slot in before if own.get(slot.call.name) == SPAWN_WORKER.name
    }
    if worker.name in named:
        raise ConfigError(f"two workers of this reply are named {worker.name!r}")
    for name in worker.after:
        status = named.get(name)
        if not isinstance(status, Settled):
            raise ConfigError(f"worker {worker.name!r} needs {name!r}, which is no worker before it in this reply")
        if status.result.status != "ok":
            raise ConfigError(f"worker {worker.name!r} is cancelled because {name!r}, which it needs, did not succeed")
        results.append((name, status.result.content))
    return tuple(results)


def waits_for_worker(call: ToolCall, before: Sequence[CallSlot]) -> bool:
    needed = call.arguments.get("after")
    if not isinstance(needed, list):
        return False
    return any(
        slot.call.name == SPAWN_WORKER.name
        and not isinstance(slot.status, Settled)
        and _worker_name(slot.call, "cogstep") in needed
        for slot in before
    )


def _worker_name(call: ToolCall, names: Vocabulary) -> object:
    name = call.arguments.get(worker_name_argument(call.name, names))
    return name if isinstance(name, str) else None


def _remaining_limits(draft: Draft) -> Limits:
    """Return the rest of the turn's budgets for a worker; each is at least the smallest amount."""
    limits, usage, seconds = draft.setup.config.limits, draft.usage, draft.seconds_left(draft.now)
    session = draft.total + usage

    def rest(limit: int | None, used: int) -> int | None:
        return None if limit is None else max(limit - used, 1)

    return evolve(
        limits,
        tool_calls=rest(limits.tool_calls, draft.tool_calls),
        input_tokens=rest(limits.input_tokens, usage.input_tokens),
        output_tokens=rest(limits.output_tokens, usage.output_tokens),
        workers=rest(limits.workers, draft.workers),
        cost=None if limits.cost is None else max(limits.cost - usage.cost, 1e-9),
        session_input_tokens=rest(limits.session_input_tokens, session.input_tokens),
        session_output_tokens=rest(limits.session_output_tokens, session.output_tokens),
        session_cost=None if limits.session_cost is None else max(limits.session_cost - session.cost, 1e-9),
        seconds=None if seconds is None else max(seconds, 1e-9),
    )


Starter = Callable[[Draft, Mapping[str, Any], tuple[CallSlot, ...]], CallStatus]

STARTERS: Mapping[str, Starter] = {
    ASK_USER.name: _ask_user,
    UPDATE_TASKS.name: _update_tasks,
    ENTER_PLAN_MODE.name: _enter_plan_mode,
    SUBMIT_PLAN.name: _submit_plan,
    FINISH_STEP.name: _finish_step,
    REMEMBER.name: _remember,
    RECALL.name: _recall,
    SPAWN_WORKER.name: _spawn_worker,
}
"""The start function of each engine tool; a test checks that none is missing."""
