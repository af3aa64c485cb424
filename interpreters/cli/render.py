"""From events to what stands on the screen: a pure fold, ``render(view, event) -> (view, pieces)``.

Pieces go to one of two channels: ``answer`` is what the model says and nothing else, ``trace`` is all the rest. Which
stream a channel is, and whether there are colours, is the business of ``screen.py``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal

from attrs import evolve, field, frozen

from cognition import Cancelled, Completed, Failed, LimitReached, ToolCall, Usage
from cognition.messages import ResultStatus
from interpreters import events
from interpreters.events import Event

Channel = Literal["answer", "trace"]
Style = Literal["plain", "dim", "call", "error", "warning"]

LONGEST_ARGUMENT = 120
"""Characters of one argument that are shown of a call; a file to be written may have thousands."""
LONGEST_RESULT = (6, 400)
"""Lines and characters that are shown of a result: enough to see what it is; -v shows all."""


@frozen
class Piece:
    """Some text for one channel, in one style."""

    channel: Channel
    text: str
    style: Style = "plain"


Pieces = tuple[Piece, ...]


@frozen
class View:
    """What has been shown so far, as far as what comes next depends on it."""

    thinking: bool = True
    """Whether reasoning is shown."""
    summary: bool = True
    """Whether a last line tells usage and time."""
    whole: bool = False
    """Whether long arguments and results are shown whole."""

    line: Literal["", "answer", "thinking"] = ""
    """Whose line has been begun and not ended."""
    said: bool = False
    """Whether the reply under way has shown any text."""
    thought: bool = False
    """Whether the reply under way has shown any reasoning."""
    calls: Mapping[str, str] = field(factory=dict)
    """The calls that run, by id, as they were shown."""
    latest: str = ""
    """The call whose line was the last to be shown; its result needs no name beside it."""
    replies: int = 0
    """Of this turn, like the next."""
    seconds: float = 0.0


Rendered = tuple[View, Pieces]


def render(view: View, event: Event) -> Rendered:
    """What to show of an event, and how the view looks after it. Events of unknown types show nothing."""
    renderer = RENDERERS.get(type(event))
    return (view, ()) if renderer is None else renderer(view, event)


def call_text(call: ToolCall, *, whole: bool = False) -> str:
    """A call as one would write it: ``calculate(expression="17 * 23")``; whatever its arguments are, on one line."""
    try:
        arguments = call.arguments
    except ValueError:
        return f"{call.name}({shortened(call.arguments_json, whole)})"
    shown = (f"{name}={shortened(json.dumps(value, ensure_ascii=False), whole)}" for name, value in arguments.items())
    return f"{call.name}({', '.join(shown)})"


def shortened(text: str, whole: bool = False) -> str:
    """The beginning of a text that is too long for a line."""
    if whole or len(text) <= LONGEST_ARGUMENT:
        return text
    return f"{text[:LONGEST_ARGUMENT]}… ({len(text)} characters)"


def result_text(content: str, *, whole: bool = False) -> str:
    """A result for the screen: its first lines, with what was left out; later lines are indented under the first."""
    text = content.rstrip()
    lines = text.splitlines() or ["(nothing)"]
    most_lines, most_characters = LONGEST_RESULT
    if not whole and (len(lines) > most_lines or len(text) > most_characters):
        shown = "\n".join(lines[:most_lines])[:most_characters].splitlines()
        left_lines, left_characters = len(lines) - len(shown), len(text) - len("\n".join(shown))
        left = f"{left_lines} more lines" if left_lines else f"{left_characters} more characters"
        lines = [*shown, f"… ({left})"]
    return "\n  ".join(lines)


def usage_text(replies: int, usage: Usage, seconds: float) -> str:
    """What a turn took, on one line."""
    reused = f" ({usage.reused_tokens} reused)" if usage.reused_tokens else ""
    return (
        f"{replies} {'reply' if replies == 1 else 'replies'}, "
        f"{usage.input_tokens} tokens in{reused}, {usage.output_tokens} out, {seconds:.2f} s in the model"
    )


def outcome_note(outcome: object) -> tuple[str, Style] | None:
    """The line that says why there is no plain answer; None where there is one."""
    match outcome:
        case Completed(finish_reason="length"):
            return "! the answer was cut at the token limit; --max-tokens raises it", "warning"
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


def end_line(view: View) -> Rendered:
    """End the line that is open: the answer's on its own channel, so that a file gets whole lines too."""
    if not view.line:
        return view, ()
    channel: Channel = "answer" if view.line == "answer" else "trace"
    return evolve(view, line=""), (Piece(channel, "\n"),)


def _note(view: View, text: str, style: Style) -> Rendered:
    """A line of its own between others."""
    view, pieces = end_line(view)
    return evolve(view, latest=""), (*pieces, Piece("trace", f"{text}\n", style))


def _aside(view: View, text: str, style: Style) -> Rendered:
    """A line that may come in the middle of the answer: it must not put a line break into the answer itself."""
    line_break = (Piece("trace", "\n"),) if view.line else ()
    return evolve(view, latest=""), (*line_break, Piece("trace", f"{text}\n", style))


def _text(view: View, event: events.TextDelta) -> Rendered:
    text = event.text if view.said else event.text.lstrip("\n")  # the blank lines that follow the reasoning
    if not text:
        return view, ()
    pieces: Pieces = ()
    if view.line == "thinking":
        view, pieces = end_line(view)
    line: Literal["", "answer"] = "" if text.endswith("\n") else "answer"
    return evolve(view, line=line, said=True, latest=""), (*pieces, Piece("answer", text))


def _reasoning(view: View, event: events.ReasoningDelta) -> Rendered:
    text = event.text if view.thought else event.text.lstrip("\n")
    if not view.thinking or not text:
        return view, ()
    pieces: Pieces = ()
    if view.line == "answer":
        view, pieces = end_line(view)
    line: Literal["", "thinking"] = "" if text.endswith("\n") else "thinking"
    return evolve(view, line=line, thought=True, latest=""), (*pieces, Piece("trace", text, "dim"))


def _turn_started(view: View, _event: events.TurnStarted) -> Rendered:
    return evolve(view, calls={}, latest="", replies=0, seconds=0.0, said=False, thought=False), ()


def _model_called(view: View, _event: events.ModelCallStarted) -> Rendered:
    return evolve(view, said=False, thought=False), ()


def _call_started(view: View, _event: events.CallStarted) -> Rendered:
    return end_line(view)


def _call_malformed(view: View, event: events.CallMalformed) -> Rendered:
    raw = shortened(" ".join(event.malformed.raw.split()), view.whole)
    return _note(view, f"✗ the model wrote a call that can't be read ({event.malformed.reason}): {raw}", "error")


def _model_finished(view: View, event: events.ModelCallFinished) -> Rendered:
    view, pieces = end_line(view)
    return evolve(view, replies=view.replies + 1, seconds=view.seconds + event.seconds), pieces


def _tool_started(view: View, event: events.ToolStarted) -> Rendered:
    text = call_text(event.call, whole=view.whole)
    view, pieces = _note(view, f"→ {text}", "call")
    return evolve(view, calls={**view.calls, event.call.id: text}, latest=event.call.id), pieces


def _tool_progress(view: View, event: events.ToolProgress) -> Rendered:
    return _aside(view, f"  {event.call.name}: {event.text}", "dim")


RESULT_STYLES: dict[ResultStatus, tuple[str, Style]] = {
    "ok": ("", "plain"),
    "error": ("error: ", "error"),
    "refused": ("refused: ", "error"),
    "cancelled": ("cancelled: ", "warning"),
}
"""How a result begins, so that it tells what it is without colour too, and its style."""


def _tool_finished(view: View, event: events.ToolFinished) -> Rendered:
    call = view.calls.get(event.call_id)
    # Right under its own call a result stands alone; elsewhere, and where the call never ran, it says whose it is.
    whose = "" if call is not None and view.latest == event.call_id else f"{call or event.name}: "
    begin, style = RESULT_STYLES[event.status]
    text = result_text(event.content, whole=view.whole)
    view, pieces = _note(view, f"← {whose}{begin}{text}", style)
    return evolve(view, calls={key: value for key, value in view.calls.items() if key != event.call_id}), pieces


def _retry_planned(view: View, event: events.RetryPlanned) -> Rendered:
    when = f"in {event.seconds:g} s" if event.seconds else "now"
    return _note(view, f"! {event.message}; trying again {when} (attempt {event.number})", "warning")


def _limit_hit(view: View, event: events.LimitHit) -> Rendered:
    return _note(view, f"! {event.detail}", "warning")


def _context_trimmed(view: View, event: events.ContextTrimmed | events.ContextCompacted) -> Rendered:
    return _note(view, f"! the {event.dropped} oldest messages no longer fit and are left out", "dim")


def _warning_raised(view: View, event: events.WarningRaised) -> Rendered:
    return _aside(view, f"! {event.message}", "warning")


def _tool_weakened(view: View, event: events.ToolWeakened) -> Rendered:
    keywords = ", ".join(dict.fromkeys(one.keyword for one in event.keywords))
    return _aside(view, f"! calls of {event.tool} are checked for {keywords} after they were written", "dim")


def _turn_finished(view: View, event: events.TurnFinished) -> Rendered:
    view, pieces = end_line(view)
    outcome = event.outcome
    if isinstance(outcome, Completed | LimitReached) and outcome.text and not view.said:
        pieces = (*pieces, Piece("answer", outcome.text.rstrip("\n") + "\n"))  # a runtime that does not stream
    note = outcome_note(outcome)
    if note is not None:
        pieces = (*pieces, Piece("trace", f"{note[0]}\n", note[1]))
    if view.summary and view.replies:
        pieces = (*pieces, Piece("trace", f"{usage_text(view.replies, event.usage, view.seconds)}\n", "dim"))
    return evolve(view, calls={}, latest="", said=False, thought=False), pieces


def _nothing(view: View, _event: Event) -> Rendered:
    return view, ()


RENDERERS: Mapping[type[Event], Callable[[View, Any], Rendered]] = {
    events.TurnStarted: _turn_started,
    events.StepStarted: _nothing,
    events.ModelCallStarted: _model_called,
    events.TextDelta: _text,
    events.ReasoningDelta: _reasoning,
    events.CallStarted: _call_started,
    events.ArgumentText: _nothing,  # the call is shown once it is whole and allowed to run
    events.CallProposed: _nothing,
    events.CallMalformed: _call_malformed,
    events.ModelCallFinished: _model_finished,
    events.UsageUpdated: _nothing,
    events.ToolStarted: _tool_started,
    events.ToolProgress: _tool_progress,
    events.ToolFinished: _tool_finished,
    events.ApprovalAsked: _nothing,  # the question itself is put by whoever asks it
    events.ApprovalAnswered: _nothing,  # a call that was refused shows as its result
    events.QuestionsAsked: _nothing,
    events.QuestionsAnswered: _nothing,
    events.PlanProposed: _nothing,
    events.PlanReviewed: _nothing,
    events.PlanChanged: _nothing,
    events.TasksChanged: _nothing,
    events.HookStarted: _nothing,
    events.HookFinished: _nothing,
    events.MemorySearched: _nothing,
    events.MemoryRecalled: _nothing,
    events.NoteTaken: _nothing,
    events.WorkerStarted: _nothing,
    events.WorkerFinished: _nothing,
    events.ModeChanged: _nothing,
    events.RetryPlanned: _retry_planned,
    events.LimitHit: _limit_hit,
    events.ContextTrimmed: _context_trimmed,
    events.ContextCompacted: _context_trimmed,
    events.WarningRaised: _warning_raised,
    events.ToolWeakened: _tool_weakened,
    events.TurnFinished: _turn_finished,
}
"""Every event there is; a test compares it with ``interpreters.events``."""
