"""Turn events into screen output, as a pure fold: ``render(view, event) -> (view, pieces)``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from attrs import evolve

from cognition import Cancelled, Completed, EffectId, Failed, LimitReached, ToolCall, Usage
from cognition.base.display import LONGEST_LINE, shown_json, shown_name
from cognition.steps.inputs import INPUT_TYPES
from cognition.steps.vocabulary import WORKER_TOOLS
from cognition.values.features import Plan, Task, TaskStatus
from cognition.values.messages import ResultStatus
from interpreters.cli.screen.styled import (
    DisplayState,
    Piece,
    Rendered,
    Renderer,
    Style,
    block,
    end_line,
    note,
    note_in_answer,
    one_line,
    result_text,
)
from interpreters.observing import events
from interpreters.observing.events import Event

LONGEST_ARGUMENT = 120
"""Characters shown of one argument. A file to be written may have thousands."""

MARKS: Mapping[TaskStatus, str] = {"open": "[ ]", "in_progress": "[>]", "done": "[x]"}

MOST_LINES = 20
"""Tasks or steps shown at each change; /tasks and /plan show all."""

SHOWN_OTHERWISE = frozenset(
    {"update_tasks", "enter_plan_mode", "finish_step", "remember", "TodoWrite", "EnterPlanMode"}
)
"""Tools of the engine whose effect is shown, so that their "done" result is not shown."""


def render(view: DisplayState, event: Event) -> Rendered:
    """Return the new view and the pieces to show. Events without a renderer show nothing."""
    value = event.value
    if event.session != view.session:
        if view.session:
            return _of_worker(view, event)
        view = evolve(view, session=event.session)
    if isinstance(value, INPUT_TYPES):
        view = evolve(view, at=value.at)
    renderer = RENDERERS.get(type(value))
    return (view, ()) if renderer is None else renderer(view, value)


def _of_worker(view: DisplayState, event: Event) -> Rendered:
    """Render a worker's event behind its name. Its text is shown when it ends, and is not part of the answer."""
    renderer = RENDERERS.get(type(event.value)) if isinstance(event.value, SHOWN_OF_WORKERS) else None
    if renderer is None:
        return view, ()
    before = view.workers.get(event.session, DisplayState(thinking=False, whole=view.whole))
    after, shown = renderer(before, event.value)
    view = evolve(view, workers={**view.workers, event.session: after})
    text = "".join(piece.text for piece in shown if piece.channel == "trace").removesuffix("\n")
    if not text:
        return view, ()
    name = shown_name(view.names.get(event.session, event.session))
    return block(view, f"  [{name}] {text}".replace("\n", "\n  "), shown[-1].style)


def call_text(call: ToolCall, *, whole: bool = False) -> str:
    """Format a call on one line: ``calculate(expression="17 * 23")``."""
    name = shown_name(call.name)
    try:
        items = call.arguments.items()
        arguments = [(shown_name(key if key.isidentifier() else _json(key)), _json(value)) for key, value in items]
    except (ValueError, RecursionError):
        return f"{name}({shorten(shown_name(call.arguments_json, None), whole)})"
    shown = ", ".join(f"{key}={shorten(value, whole)}" for key, value in arguments)
    return f"{name}({shown if whole else shown_name(shown, LONGEST_LINE)})"


def shorten(text: str, whole: bool = False) -> str:
    """Cut a text that is too long for a line."""
    if whole or len(text) <= LONGEST_ARGUMENT:
        return text
    return f"{text[:LONGEST_ARGUMENT]}… ({len(text)} characters)"


def _json(value: Any) -> str:
    return shown_json(json.dumps(value, ensure_ascii=False))


def usage_text(replies: int, usage: Usage, seconds: float) -> str:
    """Summarize the usage of a turn on one line."""
    reused = f" ({usage.reused_tokens} reused)" if usage.reused_tokens else ""
    return (
        f"{replies} {'reply' if replies == 1 else 'replies'}, "
        f"{usage.input_tokens} tokens in{reused}, {usage.output_tokens} out, {seconds:.2f} s in the model"
    )


def outcome_note(outcome: object) -> tuple[str, Style] | None:
    """Return a line with the reason if a turn ended without a plain answer; None otherwise."""
    match outcome:
        case LimitReached(limit="max_tokens"):
            told = "! the reply was cut at its token limit; --max-tokens raises it, up to the end of the context"
            return told, "warning"
        case LimitReached(limit=limit):
            option = {"steps": "; --max-steps raises it"}.get(limit, "")
            return f"! the turn ended at its limit of {limit.replace('_', ' ')}{option}", "warning"
        case Cancelled():
            return "! cancelled", "warning"
        case Failed(kind=kind, message=message):
            return f"✗ the turn failed ({kind.replace('_', ' ')}): {message}", "error"
        case _:
            return None


# --------------------------------------------------------------------------------------------------------- the parts


def _written(view: DisplayState, delta: events.TextDelta | events.ReasoningDelta) -> Rendered:
    """Show text of the answer or of the reasoning, which never share a line."""
    thinks = isinstance(delta, events.ReasoningDelta)
    begun = view.thought if thinks else view.said
    text = delta.text if begun else delta.text.lstrip("\n")  # the blank lines that follow the reasoning
    if not text or (thinks and not view.thinking):
        return view, ()
    writer: Literal["answer", "thinking"] = "thinking" if thinks else "answer"
    view, pieces = (view, ()) if view.line == writer else end_line(view)
    view = evolve(view, line="" if text.endswith("\n") else writer, latest="")
    view = evolve(view, thought=True) if thinks else evolve(view, said=True)
    return view, (*pieces, Piece("trace", text, "dim") if thinks else Piece("answer", text))


def _user_spoke(view: DisplayState, _: events.UserSpoke) -> Rendered:
    fresh = DisplayState(view.thinking, view.summary, view.whole, view.line, session=view.session)
    return evolve(fresh, at=view.at, dropped=view.dropped), ()


def _model_called(view: DisplayState, called: events.ModelCalled) -> Rendered:
    return evolve(view, said=False, thought=False, asked={**view.asked, called.effect_id: view.at}), ()


def _call_malformed(view: DisplayState, output: events.CallMalformed) -> Rendered:
    raw = shorten(shown_name(" ".join(output.malformed.raw.split()), None), view.whole)
    reason = shown_name(output.malformed.reason, LONGEST_LINE)
    return block(view, f"✗ the model wrote a call that can't be read ({reason}): {raw}", "error")


ReplyEnd = events.ModelReplied | events.ModelFailed | events.ModelInterrupted | events.CancelEffect


def _reply_ended(view: DisplayState, end: ReplyEnd) -> Rendered:
    """Handle the end of a reply for any reason. A cancelled effect may also be something other than a reply."""
    if end.effect_id not in view.asked:
        return view, ()
    view, pieces = end_line(view)
    seconds = max(view.at - view.asked[end.effect_id], 0.0)
    asked = {effect_id: at for effect_id, at in view.asked.items() if effect_id != end.effect_id}
    return evolve(view, asked=asked, replies=view.replies + 1, seconds=view.seconds + seconds), pieces


def _call_judged(view: DisplayState, judged: events.CallJudged) -> Rendered:
    """Show a denial, whose reason would otherwise reach only the model. With -v also show the allowing rule."""
    does = {"deny": "denies", "allow": "allows" if view.whole and judged.rule else ""}.get(judged.action)
    if not does:
        return view, ()
    call = shown_name(view.proposed.get(judged.call_id, "a call"))
    rule = f" by the rule {judged.rule}" if judged.rule else "" if judged.reason else " by default"
    return note(view, f"• policy {does} {call}{rule}{f': {judged.reason}' if judged.reason else ''}", "dim")


def _tool_called(view: DisplayState, effect: events.CallTool) -> Rendered:
    call = effect.call
    text = call_text(call, whole=view.whole)
    view, pieces = block(view, f"→ {text}", "call")
    calls, running = {**view.calls, call.id: text}, {**view.running, effect.effect_id: call.id}
    return evolve(view, calls=calls, running=running, latest=call.id), pieces


def _tool_progress(view: DisplayState, progress: events.ToolProgress) -> Rendered:
    newest = progress.text.strip().rpartition("\n")[2]  # of a command's output, which is told as it is printed
    return note_in_answer(view, f"  {shown_name(progress.call.name)}: {newest}", "dim")


RESULT_STYLES: dict[ResultStatus, tuple[str, Style]] = {
    "ok": ("", "plain"),
    "error": ("error: ", "error"),
    "refused": ("refused: ", "error"),
    "cancelled": ("cancelled: ", "warning"),
}
"""Prefix and style of a result by status. The prefix identifies the status without colour."""


def _tool_ended(view: DisplayState, effect_id: EffectId, status: ResultStatus, content: str) -> Rendered:
    """Show a result as soon as it arrives, even if the history adds it later, after other results."""
    call_id = view.running.get(effect_id)
    if call_id is None:
        return view, ()
    view = evolve(view, ended=view.ended | {call_id})
    return _result(view, call_id, view.calls.get(call_id, ""), status, content)


def _tool_message(view: DisplayState, message: events.ToolMessage) -> Rendered:
    """Show a result that was not shown before: of a call that never ran, or was cancelled."""
    content = message.content.removeprefix("Error: ")
    if message.call_id in view.ended or is_shown(view, message, content):
        return view, ()
    return _result(view, message.call_id, message.name, message.status, content)


def _result(view: DisplayState, call_id: str, name: str, status: ResultStatus, content: str) -> Rendered:
    call = view.calls.get(call_id)
    # Right under its own call a result stands alone; elsewhere, and where the call never ran, it says whose it is.
    whose = "" if call is not None and view.latest == call_id else f"{call or shown_name(name)}: "
    begin, style = RESULT_STYLES[status]
    text = result_text(content, whole=view.whole)
    view, pieces = block(view, f"← {whose}{begin}{text}", style)
    return evolve(view, calls={key: value for key, value in view.calls.items() if key != call_id}), pieces


def _retry_planned(view: DisplayState, retry: events.RetryPlanned) -> Rendered:
    when = f"in {retry.seconds:g} s" if retry.seconds else "now"
    whose = f"{view.calls.get(retry.call_id, retry.call_id)}: " if retry.call_id else ""
    return note(view, f"! {whose}{retry.message}; trying again {when} (attempt {retry.attempt})", "warning")


def _fell_back(turned: events.FellBack) -> str:
    to, model = format_model_name(turned.to), format_model_name(turned.model)
    return f"! {turned.message}; {to} answers now instead of {model}"


def _breaker_opened(opened: events.BreakerOpened) -> str:
    told = f"{format_model_name(opened.model)} is not called for {opened.seconds:g} s, as long as another model works"
    return f"! {opened.message}; {told}"


def format_model_name(model: str) -> str:
    """Return a model's name within the agent, for a sentence."""
    return shown_name(model, 80) if model else "the agent's own model"


def _compacted(view: DisplayState, done: events.Compacted) -> Rendered:
    told = f"{done.messages} messages are summarised: a prompt of about {done.before} tokens has {done.after} now"
    return note(evolve(view, dropped=view.dropped + done.messages), f"• {told}", "dim")


def _context_assembled(view: DisplayState, context: events.ContextAssembled) -> Rendered:
    told = []
    if context.shortened > view.shortened:
        told.append(f"{context.shortened} results of tools are shortened")
    if context.dropped > view.dropped:
        told.append(f"the {context.dropped} oldest messages are left out")
    view = evolve(view, dropped=context.dropped, shortened=context.shortened)
    return note(view, f"! for want of room {' and '.join(told)}", "dim") if told else (view, ())


def _tool_weakened(view: DisplayState, weakened: events.ToolWeakened) -> Rendered:
    keywords = ", ".join(dict.fromkeys(one.keyword for one in weakened.keywords))
    told = f"! calls of {shown_name(weakened.tool)} are checked for {keywords} after they were written"
    return note_in_answer(view, told, "dim")


def _turn_finished(view: DisplayState, turn: events.TurnFinished) -> Rendered:
    view, pieces = end_line(view)
    outcome = turn.outcome
    if isinstance(outcome, Completed | LimitReached) and outcome.text and not view.said:
        pieces = (*pieces, Piece("answer", outcome.text.rstrip("\n") + "\n"))  # a runtime that does not stream
    told = outcome_note(outcome)
    if told is not None:
        pieces = (*pieces, Piece("trace", f"{shown_name(told[0], LONGEST_LINE)}\n", told[1]))
    if view.summary and view.replies:
        pieces = (*pieces, Piece("trace", f"{usage_text(view.replies, turn.usage, view.seconds)}\n", "dim"))
    return evolve(view, calls={}, latest="", said=False, thought=False), pieces


# ------------------------------------------------------------------------------------------------------ the features


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


RENDERERS: Mapping[type, Renderer] = {
    events.UserSpoke: _user_spoke,
    events.SessionReset: lambda view, _: (evolve(view, dropped=0), ()),
    events.ModelCalled: _model_called,
    events.TextDelta: _written,
    events.ReasoningDelta: _written,
    events.CallStarted: lambda view, _: end_line(view),
    events.CallMalformed: _call_malformed,
    events.ModelReplied: _reply_ended,
    events.ModelFailed: _reply_ended,
    events.ModelInterrupted: _reply_ended,
    events.CancelEffect: _reply_ended,
    # Its calls are for later policy decisions; its text was already shown as it was written.
    events.AssistantMessage: lambda view, said: (evolve(view, proposed={one.id: one.name for one in said.calls}), ()),
    events.CallJudged: _call_judged,
    events.CallTool: _tool_called,
    events.ToolProgress: _tool_progress,
    events.ToolReturned: lambda view, answer: _tool_ended(view, answer.effect_id, "ok", answer.content),
    events.ToolFailed: lambda view, answer: _tool_ended(view, answer.effect_id, "error", answer.message),
    events.ToolMessage: _tool_message,
    events.RetryPlanned: _retry_planned,
    events.FellBack: one_line("warning", _fell_back),
    events.BreakerOpened: one_line("dim", _breaker_opened),
    events.BreakerClosed: one_line("dim", lambda closed: f"• {format_model_name(closed.model)} answers again"),
    events.LimitHit: one_line("warning", lambda hit: f"! {hit.detail}"),
    events.ContextAssembled: _context_assembled,
    events.Compacted: _compacted,
    events.NotCompacted: one_line("dim", lambda failed: f"! no summary was made: {failed.reason}"),
    events.WarningRaised: lambda view, warning: note_in_answer(view, f"! {warning.message}", "warning"),
    events.ToolWeakened: _tool_weakened,
    events.TurnFinished: _turn_finished,
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
"""The renderer of each event type. Other events show nothing:

- A call is shown once it is complete and may run.
- Questions are shown by the code that asks them.
- A refused call is shown as its result, after the rule that denied it.
"""

SHOWN_OF_WORKERS = (
    events.AssistantMessage,
    events.CallJudged,
    events.CallMalformed,
    events.CallTool,
    events.ToolProgress,
    events.ToolReturned,
    events.ToolFailed,
    events.ToolMessage,
    events.RetryPlanned,
    events.FellBack,
    events.LimitHit,
    events.WarningRaised,
    events.TasksChanged,
    events.Remember,
)
