"""Render the features of an agent besides tool calls: tasks, plans, notes, modes, workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from attrs import evolve

from cognition import EffectId
from cognition.base.display import LONGEST_LINE, shown_name
from cognition.steps.vocabulary import WORKER_TOOLS
from cognition.values.features import Plan, Task, TaskStatus
from interpreters.cli.screen.styled import DisplayState, Rendered, Style, block, note, result_text
from interpreters.observing import events

MARKS: Mapping[TaskStatus, str] = {"open": "[ ]", "in_progress": "[>]", "done": "[x]"}

MOST_LINES = 20
"""Tasks or steps shown at each change; /tasks and /plan show all."""

SHOWN_OTHERWISE = frozenset(
    {"update_tasks", "enter_plan_mode", "finish_step", "remember", "TodoWrite", "EnterPlanMode"}
)
"""Tools of the engine whose effect is shown, so that their "done" result is not shown."""


def task_lines(tasks: Iterable[Task]) -> Iterator[str]:
    for task in tasks:
        yield f"  {MARKS[task.status]} {shown_name(task.title, LONGEST_LINE)}"


def plan_lines(plan: Plan) -> Iterator[str]:
    """Yield the steps of a running plan, one per line."""
    for number, step in enumerate(plan.steps):
        status: TaskStatus = "done" if number < plan.done else "in_progress" if number == plan.done else "open"
        yield f"  {MARKS[status]} {number + 1}. {shown_name(step, LONGEST_LINE)}"


def is_shown(view: DisplayState, message: events.ToolMessage, content: str) -> bool:
    """Return whether the effect of a call has already shown the content of its result."""
    if message.name in WORKER_TOOLS:
        return any(text in content if text else not content for text in view.reported)
    return message.name in SHOWN_OTHERWISE and message.status == "ok"


def _render_list(view: DisplayState, title: str, lines: Iterable[str]) -> Rendered:
    shown = list(lines)
    if not view.whole and len(shown) > MOST_LINES:
        shown = [*shown[:MOST_LINES], f"  … ({len(shown) - MOST_LINES} more)"]
    return block(view, "\n".join((title, *shown)), "plain")


def _tasks_changed(view: DisplayState, changed: events.TasksChanged) -> Rendered:
    if not changed.tasks:
        return note(view, "• no tasks", "dim")
    return _render_list(view, "• tasks", task_lines(changed.tasks))


def _plan_changed(view: DisplayState, changed: events.PlanChanged) -> Rendered:
    if changed.plan is None:
        return note(view, "• the plan is over", "dim")
    return _render_list(view, "• plan", plan_lines(changed.plan))


def _mode_set(view: DisplayState, mode: events.ModeSet) -> Rendered:
    return note(view, f"• mode: {mode.mode}", "dim")


def _remember(view: DisplayState, saved: events.Remember) -> Rendered:
    return note(view, f"• noted: {saved.text}", "dim")


def _recall(view: DisplayState, search: events.Recall) -> Rendered:
    return note(view, f"• looks for notes on: {search.query}", "dim")


def _worker_spawned(view: DisplayState, effect: events.SpawnWorker) -> Rendered:
    session, name = events.worker_session(view.session, effect), effect.worker.name
    view = evolve(view, names={**view.names, session: name})
    return note(view, f"→ worker {shown_name(name)}: {effect.worker.objective}", "call")


def _worker_finished(view: DisplayState, end: events.WorkerFinished) -> Rendered:
    return _worker_ended(view, end.effect_id, end.text, "", "plain")


def _worker_failed(view: DisplayState, end: events.WorkerFailed) -> Rendered:
    return _worker_ended(view, end.effect_id, end.message, "error: ", "error")


def _worker_stalled(view: DisplayState, end: events.WorkerStalled) -> Rendered:
    return _worker_ended(view, end.effect_id, end.message, "stalled: ", "error")


def _worker_ended(view: DisplayState, effect_id: EffectId, text: str, begin: str, style: Style) -> Rendered:
    name = shown_name(view.names.get(f"{view.session}/{effect_id}", str(effect_id)))
    view = evolve(view, reported=view.reported | {text})
    return block(view, f"← worker {name}: {begin}{result_text(text, whole=view.whole)}", style)


FEATURES: Mapping[type, Callable[[DisplayState, Any], Rendered]] = {
    events.TasksChanged: _tasks_changed,
    events.PlanChanged: _plan_changed,
    events.ModeSet: _mode_set,
    events.Remember: _remember,
    events.Recall: _recall,
    events.SpawnWorker: _worker_spawned,
    events.WorkerFinished: _worker_finished,
    events.WorkerFailed: _worker_failed,
    events.WorkerStalled: _worker_stalled,
}
