"""Render the features of an agent besides tool calls: tasks, plans, notes, modes, workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from attrs import evolve

from cognition import EffectId
from cognition.base.display import LONGEST_LINE, shown_name
from cognition.steps.vocabulary import WORKER_TOOLS
from cognition.values.features import Plan, Task, TaskStatus
from interpreters.cli.screen.styled import DisplayState, Rendered, Renderer, Style, block, note, one_line, result_text
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


def _worker_spawned(view: DisplayState, effect: events.SpawnWorker) -> Rendered:
    session, name = events.worker_session(view.session, effect), effect.worker.name
    view = evolve(view, names={**view.names, session: name})
    return note(view, f"→ worker {shown_name(name)}: {effect.worker.objective}", "call")


def _worker_ended(view: DisplayState, effect_id: EffectId, text: str, begin: str, style: Style) -> Rendered:
    name = shown_name(view.names.get(f"{view.session}/{effect_id}", str(effect_id)))
    view = evolve(view, reported=view.reported | {text})
    return block(view, f"← worker {name}: {begin}{result_text(text, whole=view.whole)}", style)


FEATURES: Mapping[type, Renderer] = {
    events.TasksChanged: _tasks_changed,
    events.PlanChanged: _plan_changed,
    events.ModeSet: one_line("dim", lambda mode: f"• mode: {mode.mode}"),
    events.Remember: one_line("dim", lambda saved: f"• noted: {saved.text}"),
    events.Recall: one_line("dim", lambda search: f"• looks for notes on: {search.query}"),
    events.SpawnWorker: _worker_spawned,
    events.WorkerFinished: lambda view, end: _worker_ended(view, end.effect_id, end.text, "", "plain"),
    events.WorkerFailed: lambda view, end: _worker_ended(view, end.effect_id, end.message, "error: ", "error"),
    events.WorkerStalled: lambda view, end: _worker_ended(view, end.effect_id, end.message, "stalled: ", "error"),
}
