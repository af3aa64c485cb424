"""The output of ``cogstep context`` and ``/context``: reports as lines and as plain data, and a prompt as text."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from itertools import groupby
from typing import Any

from attrs import asdict

from cognition import AgentConfig, AssistantMessage, Message, ModelRequest, ToolMessage, UserMessage
from cognition.values.candidates import Choice
from cognition.values.content import text_with_placeholders
from interpreters.cli.screen.styled import Style
from interpreters.cli.screen.terminal import columns
from interpreters.recording.context_report import (
    NOT_SHOWN,
    ContextChanges,
    ContextReport,
    MessageReport,
    room_of,
)
from interpreters.recording.recorded_requests import Ending, RecordedRequest
from interpreters.recording.redactor import PLACEHOLDER

NUMBERS: Mapping[str, str] = {
    "messages": "shown",
    "tokens": "used",
    "budget": "budget",
    "share": "share",
    "shortened": "shortened",
    "summarised": "summarised",
    "left out": "left_out",
    "measured": "input_tokens",
    "reused": "reused_tokens",
}
"""The columns of numbers in the table of all requests, and their names in ``row_data``."""

HEADS = ("request", "step", "purpose", *NUMBERS)

PLAIN = (
    "a recording does not say which model was asked, so this is a plain form that no model was given; "
    "--model SPEC writes it with a model's own chat template"
)
SECRETS = "placeholders stand for secrets that were not recorded; the model was given the real text"

Line = tuple[str, Style]

# --------------------------------------------------------------------------------------------------- all requests


def row_cells(request: RecordedRequest, config: AgentConfig | None, before: RecordedRequest | None) -> tuple[str, ...]:
    """Return a request as a table row. ``before`` is the previous request, to recognize another attempt at the same
    step.
    """
    data = row_data(request, config)
    if not data["input_tokens"]:
        data |= {"input_tokens": None, "reused_tokens": None}
    again = before is not None and before.step == request.step
    step = str(request.call.effect_id) if again else request.step
    return (str(request.number), step, request.call.purpose, *(_number(data[name]) for name in NUMBERS.values()))


def table_lines(rows: Sequence[Sequence[str]]) -> Iterator[Line]:
    yield from ((line, "plain") for line in columns([HEADS, *rows], (0, *range(3, len(HEADS)))))


def row_data(request: RecordedRequest, config: AgentConfig | None) -> dict[str, Any]:
    """Summarize a request, at a cost that does not grow with the conversation."""
    made, summary = request.assembled, request.state.window.summary
    budget, used = room_of(request, config)
    # Of those that a summary stands for, one may be shown beside it: the message that began the turn.
    summarised = min(summary.messages, made.dropped) if made is not None and summary.text else 0
    return {
        **_call_data(request, str(request.call.effect_id), request.call.purpose),
        "budget": budget,
        "used": used,
        "share": _ratio(used, budget),
        "shown": len(request.call.request.messages),
        "shortened": None if made is None else made.shortened,
        "summarised": None if made is None else summarised,
        "left_out": None if made is None else made.dropped - summarised,
        **_ending_data(request.ending),
    }


def _call_data(one: RecordedRequest | ContextReport, effect_id: str, purpose: str) -> dict[str, Any]:
    return {
        "request": one.number,
        "step": effect_id.rpartition(".")[0],
        "effect_id": effect_id,
        "record": one.record,
        "at": one.at,
        "purpose": purpose,
        "same": one.same,
    }


def _ending_data(ending: Ending) -> dict[str, Any]:
    return {
        "ended": ending.ended,
        "detail": ending.detail,
        "input_tokens": ending.usage.input_tokens,
        "reused_tokens": ending.usage.reused_tokens,
        "output_tokens": ending.usage.output_tokens,
    }


def _ratio(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else round(part / whole, 4)


# ---------------------------------------------------------------------------------------------------- one request


def report_data(report: ContextReport) -> dict[str, Any]:
    """Return a report as plain data, without its messages."""
    return {
        **_call_data(report, report.effect_id, report.purpose),
        "context_tokens": report.context_tokens,
        "budget": report.budget,
        "used": report.used,
        "remaining": report.remaining,
        "share": _ratio(report.used, report.budget),
        "scale": report.scale,
        "counted": report.counted,
        "system_tokens": report.system_tokens,
        "tools_tokens": report.tools_tokens,
        "sections_tokens": report.sections_tokens,
        "tools": list(report.tools),
        "shown": len(report.shown),
        "shortened": len(report.of("shortened")),
        "summarised": len(report.of("summarised")),
        "left_out": len(report.left_out),
        **_ending_data(report.ending),
        "sections": [asdict(one) for one in report.sections],
        "candidates": [
            {**_renamed(one, {"shown": "shown_tokens", "fate": "shown"}), "score": round(one.score, 4)}
            for one in report.candidates
        ],
    }


def messages_data(messages: Iterable[MessageReport]) -> list[dict[str, Any]]:
    """Return messages of a report as plain data."""
    return [_renamed(one, {"fate": "shown", "hidden": "hidden_characters"}) for one in messages]


def _renamed(value: Choice | MessageReport, names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): item for name, item in asdict(value).items()}


def request_lines(report: ContextReport, count: int = 0) -> Iterator[Line]:
    """Yield a report as lines. ``count`` is the number of requests, 0 if unknown."""
    of = f" of {count}" if count else ""
    record = f", record {report.record}" if report.record else ""
    yield f"request {report.number}{of}: step {report.effect_id.rpartition('.')[0]}, {report.purpose}{record}", "call"
    for name, text in _facts(report):
        yield f"  {name:9} {text}", "plain"
    if not report.same:
        yield "  ! this is not the request that was sent: the recording's digest is another one", "warning"
    if report.candidates:
        heads = ("section", "source", "score", "tokens", "shown", "why")
        yield from _table([heads, *map(_candidate_cells, report.candidates)], right=(2, 3))
    yield from _table([("message", "turn", "role", "tokens", "shown", ""), *_message_rows(report.messages)], right=(3,))
    reasons = dict.fromkeys((one.fate, one.why) for one in report.messages if one.why)
    if reasons:
        yield "", "plain"
    for fate, why in reasons:
        yield f"  {_words(fate)}: {why}", "dim"


def _table(rows: Sequence[Sequence[str]], right: Collection[int]) -> Iterator[Line]:
    yield "", "plain"
    for number, line in enumerate(columns(rows, right)):
        yield f"  {line}", "plain" if number else "dim"


def _candidate_cells(one: Choice) -> tuple[str, ...]:
    size = f"{one.shown:,} of {one.tokens:,}" if one.fate == "trimmed" else _number(one.tokens)
    return one.section, one.source, f"{one.score:.2f}", size, _words(one.fate), one.why


def _facts(report: ContextReport) -> Iterator[tuple[str, str]]:
    about, ending, usage = _describe(report), report.ending, report.ending.usage
    if report.budget is not None and report.context_tokens is not None:
        room = f"{report.budget:,} tokens for the prompt, of a context of {report.context_tokens:,}"
        yield "budget", f"{room}; the reply has the rest"
    if report.used is not None and report.budget is not None:
        share = _number(_ratio(report.used, report.budget))
        yield "used", f"{about} {report.used:,} tokens ({share}), {_number(report.remaining)} remain"
    detail = f": {ending.detail}" if ending.detail and ending.ended != "replied" else ""
    ended = "no answer is recorded" if ending.ended == "open" else f"{ending.ended}{detail}"
    read = f"{usage.input_tokens:,} tokens, {usage.reused_tokens:,} of them reused; {usage.output_tokens:,} written"
    yield "measured", f"{read if usage.input_tokens else 'not counted'}; {ended}"
    count = len(report.tools)
    tools = f"{count} tool{'' if count == 1 else 's'}: {', '.join(report.tools)}" if count else "tools (none)"
    sections = f", {report.sections_tokens:,} for sections" if report.sections_tokens else ""
    prompts = f"{report.system_tokens:,} tokens for the system prompt, {report.tools_tokens:,} for {tools}"
    yield "before", f"{about} {prompts}{sections}"
    if report.sections:
        yield "sections", ", ".join(f"{one.name} {one.tokens:,} of {one.budget:,}" for one in report.sections)
    text = _sum(report.shown, about)
    for fate in NOT_SHOWN:
        if found := report.of(fate):
            turns = _turn_range(found)
            text += f"; {_words(fate)}: {_sum(found, about)} (turn{'s' if ' ' in turns else ''} {turns})"
    yield "messages", text


def _describe(report: ContextReport) -> str:
    return "at most" if report.counted else "about"


def _sum(messages: Sequence[MessageReport], about: str) -> str:
    return f"{len(messages):,} of {about} {sum(one.tokens for one in messages):,} tokens"


def _message_rows(messages: Iterable[MessageReport]) -> Iterator[tuple[str, ...]]:
    """Yield a row per message. Consecutive messages that are not shown share one row."""
    for fate, group in groupby(messages, lambda one: one.fate):
        found = list(group)
        if fate in NOT_SHOWN and len(found) > 1:
            ids, size = f"{found[0].id} to {found[-1].id}", _number(sum(one.tokens for one in found))
            yield ids, _turn_range(found), f"{len(found):,} messages", size, _words(fate), ""
            continue
        for one in found:
            hidden = f" by {one.hidden:,} characters" if fate in ("cut", "shortened") else ""
            yield one.id, str(one.turn), one.role, _number(one.tokens), f"{_words(fate)}{hidden}", one.begins


def _turn_range(messages: Sequence[MessageReport]) -> str:
    first, last = messages[0].turn, messages[-1].turn
    return str(first) if first == last else f"{first} to {last}"


def _words(fate: str) -> str:
    return fate.replace("_", " ")


def _number(value: int | float | None) -> str:
    """Format a count, or a share, which is a float."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{100 * value:.0f} %"


# --------------------------------------------------------------------------------------------------- two requests


def changes_data(changes: ContextChanges) -> dict[str, Any]:
    return {
        "before": report_data(changes.before),
        "after": report_data(changes.after),
        "changed_parts": list(changes.parts),
        "kept_messages": changes.kept_messages,
        "kept_tokens": changes.kept_tokens,
        "kept_share": round(changes.share, 4),
        "gone": messages_data(changes.gone),
        "came": messages_data(changes.came),
        "changed": [dict(zip(("before", "after"), messages_data(pair), strict=True)) for pair in changes.changed],
    }


def change_lines(changes: ContextChanges) -> Iterator[Line]:
    before, after = changes.before, changes.after
    names = [f"{one.number} (step {one.effect_id.rpartition('.')[0]}, {one.purpose})" for one in (before, after)]
    yield f"from request {names[0]} to request {names[1]}", "call"
    yield f"  tokens   {_describe(after)} {_number(before.used)} and {_number(after.used)}", "plain"
    words = {"system": "the system prompt", "tools": "the tools", "options": "the options"}
    if changes.parts:
        yield f"  changed  {', '.join(words[name] for name in changes.parts)}", "warning"
    if same := [word for name, word in words.items() if name not in changes.parts]:
        yield f"  the same {', '.join(same)}", "plain"
    first = f"the first {changes.kept_messages:,}" if changes.kept_messages else "none"
    kept = f"{_describe(before)} {changes.kept_tokens:,} tokens, {_number(changes.share)} of the first request"
    yield f"  kept     {first} of {len(before.shown):,} messages; with what stands before them {kept}", "plain"
    usage = after.ending.usage
    if usage.input_tokens:
        yield f"  measured {usage.reused_tokens:,} of {usage.input_tokens:,} tokens were reused", "plain"
    rows = [
        *(("-", *row) for row in _message_rows(changes.gone)),
        *(("~", *row) for _, other in changes.changed for row in _message_rows((other,))),
        *(("+", *row) for row in _message_rows(changes.came)),
    ]
    if not rows:
        return
    yield "", "plain"
    styles: dict[str, Style] = {"-": "removed", "+": "added", "~": "plain"}
    for row, line in zip(rows, columns(rows, right=(4,)), strict=True):
        yield f"  {line}", styles[row[0]]


# --------------------------------------------------------------------------------------------------------- a prompt


def prompt_of(request: RecordedRequest, model: str | None) -> tuple[str, str | None, list[str]]:
    """Return the text of a recorded request, the origin of its chat template, and notes for the reader.

    Args:
        request: the request.
        model: the owner of the chat template, as in ``find_template``; empty for the model that ships, None for a plain
            form, which has no template.

    Raises:
        ModelLoadError: there is no such template, or it can't be used.
        TemplateError: the template refuses the conversation.
    """
    asked = request.call.request
    template: str | None = None
    if model is None:
        text, notes = "".join(f"[{heading}]\n{part}\n\n" for heading, part in _plain_parts(asked)), [PLAIN]
    else:
        from interpreters.cli.reports.format_report import NO_TEMPLATE
        from runtime.templates.files import find_template, open_template

        file = find_template(model or None)
        with closing(open_template(file, now=lambda: _day_of(request))) as chat_template:
            rendered = chat_template.render(asked)
        text, template = rendered.text, file.origin
        notes = [*([NO_TEMPLATE] if file.source is None else []), *rendered.notes, *rendered.warnings]
    if PLACEHOLDER.search(text):
        notes.append(SECRETS)
    return text, template, notes


def _day_of(request: RecordedRequest) -> datetime:
    """Return the day of the request, for templates that write the date."""
    try:
        return datetime.fromtimestamp(request.at)
    except (OverflowError, ValueError, OSError):  # a recording may say anything
        return datetime.fromtimestamp(0)


def _plain_parts(request: ModelRequest) -> Iterator[tuple[str, str]]:
    """Yield the parts of a request, each as a heading and its text."""
    if request.system:
        yield "system", request.system
    if request.tools:
        tools = [{name: getattr(one, name) for name in ("name", "description", "parameters")} for one in request.tools]
        yield "tools", "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
    yield from map(_plain_message, request.messages)


def _plain_message(message: Message) -> tuple[str, str]:
    match message:
        case UserMessage(text=text, origin=origin, parts=parts):
            return origin, text_with_placeholders(text, parts)
        case AssistantMessage(text=text, reasoning=reasoning, calls=calls):
            thought = f"(reasoning) {reasoning}" if reasoning else ""
            called = (f"(call {call.id}) {call.name} {call.arguments_json}" for call in calls)
            return "assistant", "\n".join(part for part in (thought, text, *called) if part)
        case ToolMessage(call_id=call_id, name=name, content=content, status=status):
            return f"tool {name}, call {call_id}{'' if status == 'ok' else f', {status}'}", content
