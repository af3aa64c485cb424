"""The output of ``cogstep context`` and ``/context``, as lines and as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from cognition import AgentConfig
from cognition.values.candidates import Choice
from interpreters.cli.screen.columns import columns
from interpreters.cli.screen.styled import Style
from interpreters.recording.context_report import (
    NOT_SHOWN,
    ContextChanges,
    ContextReport,
    Fate,
    MessageReport,
    room_of,
)
from interpreters.recording.recorded_requests import Ending, RecordedRequest

HEADS = (
    "request",
    "step",
    "purpose",
    "messages",
    "tokens",
    "budget",
    "share",
    "shortened",
    "summarised",
    "left out",
    "measured",
    "reused",
)
NUMBERS = (0, *range(3, len(HEADS)))

FATES: Mapping[Fate, str] = {
    "whole": "whole",
    "cut": "cut",
    "shortened": "shortened",
    "extended": "extended",
    "as_text": "as text",
    "summarised": "summarised",
    "left_out": "left out",
    "added": "added",
}

Line = tuple[str, Style]

# --------------------------------------------------------------------------------------------------- all requests


def row_cells(request: RecordedRequest, config: AgentConfig | None, before: RecordedRequest | None) -> tuple[str, ...]:
    """Return a request as a table row. ``before`` is the previous request, to recognize another attempt at the same
    step.
    """
    data = row_data(request, config)
    again = before is not None and before.step == request.step
    return (
        str(request.number),
        str(request.call.effect_id) if again else request.step,
        request.call.purpose,
        *(_count(data[name]) for name in ("shown", "used", "budget")),
        _share(data["share"]),
        *(_count(data[name]) for name in ("shortened", "summarised", "left_out")),
        _count(data["input_tokens"] or None),
        _count(data["reused_tokens"] if data["input_tokens"] else None),
    )


def table_lines(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield from columns([HEADS, *rows], NUMBERS)


def row_data(request: RecordedRequest, config: AgentConfig | None) -> dict[str, Any]:
    """Summarize a request, at a cost that does not grow with the conversation."""
    made, summary = request.assembled, request.state.window.summary
    budget, used = room_of(request, config)
    # Of those that a summary stands for, one may be shown beside it: the message that began the turn.
    summarised = min(summary.messages, made.dropped) if made is not None and summary.text else 0
    return {
        "request": request.number,
        "step": request.step,
        "effect_id": str(request.call.effect_id),
        "record": request.record,
        "at": request.at,
        "purpose": request.call.purpose,
        "same": request.same,
        "budget": budget,
        "used": used,
        "share": None if used is None or budget is None else _ratio(used, budget),
        "shown": len(request.call.request.messages),
        "shortened": None if made is None else made.shortened,
        "summarised": None if made is None else summarised,
        "left_out": None if made is None else made.dropped - summarised,
        **_ending_data(request.ending),
    }


def _ending_data(ending: Ending) -> dict[str, Any]:
    usage = ending.usage
    return {
        "ended": ending.ended,
        "detail": ending.detail,
        "input_tokens": usage.input_tokens,
        "reused_tokens": usage.reused_tokens,
        "output_tokens": usage.output_tokens,
    }


def _ratio(part: float, whole: float) -> float | None:
    return round(part / whole, 4) if whole else None


# ---------------------------------------------------------------------------------------------------- one request


def report_data(report: ContextReport) -> dict[str, Any]:
    return {
        "request": report.number,
        "step": report.effect_id.rpartition(".")[0],
        "effect_id": report.effect_id,
        "record": report.record,
        "at": report.at,
        "purpose": report.purpose,
        "same": report.same,
        "context_tokens": report.context_tokens,
        "budget": report.budget,
        "used": report.used,
        "remaining": report.remaining,
        "share": None if report.used is None or report.budget is None else _ratio(report.used, report.budget),
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
        "sections": [{"name": one.name, "budget": one.budget, "tokens": one.tokens} for one in report.sections],
        "candidates": [
            {
                "section": one.section,
                "source": one.source,
                "score": round(one.score, 4),
                "tokens": one.tokens,
                "shown_tokens": one.shown,
                "shown": one.fate,
                "why": one.why,
            }
            for one in report.candidates
        ],
        "messages": [message_data(one) for one in report.messages],
    }


def message_data(one: MessageReport) -> dict[str, Any]:
    """Return a message of a report as plain data."""
    return {
        "id": one.id,
        "role": one.role,
        "turn": one.turn,
        "shown": one.fate,
        "why": one.why,
        "tokens": one.tokens,
        "characters": one.characters,
        "hidden_characters": one.hidden,
        "begins": one.begins,
    }


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
        yield "", "plain"
        rows = [("section", "source", "score", "tokens", "shown", "why"), *map(_candidate_cells, report.candidates)]
        for number, line in enumerate(columns(rows, right=(2, 3))):
            yield f"  {line}", "plain" if number else "dim"
    yield "", "plain"
    rows = [("message", "turn", "role", "tokens", "shown", ""), *_message_rows(report.messages)]
    for number, line in enumerate(columns(rows, right=(3,))):
        yield f"  {line}", "plain" if number else "dim"
    reasons = dict.fromkeys((FATES[one.fate], one.why) for one in report.messages if one.why)
    if reasons:
        yield "", "plain"
    for what, why in reasons:
        yield f"  {what}: {why}", "dim"


def _candidate_cells(one: Choice) -> tuple[str, ...]:
    size = f"{one.shown:,} of {one.tokens:,}" if one.fate == "trimmed" else _count(one.tokens)
    return one.section, one.source, f"{one.score:.2f}", size, one.fate.replace("_", " "), one.why


def _facts(report: ContextReport) -> Iterator[tuple[str, str]]:
    budget, used, remaining = report.budget, report.used, report.remaining
    if budget is not None and report.context_tokens is not None:
        yield (
            "budget",
            f"{budget:,} tokens for the prompt, of a context of {report.context_tokens:,}; the reply has the rest",
        )
    if used is not None and budget is not None:
        yield (
            "used",
            f"{_describe(report)} {used:,} tokens ({_share(_ratio(used, budget))}), {_count(remaining)} remain",
        )
    usage, ending = report.ending.usage, report.ending
    detail = f": {ending.detail}" if ending.detail and ending.ended != "replied" else ""
    ended = "no answer is recorded" if ending.ended == "open" else f"{ending.ended}{detail}"
    if usage.input_tokens:
        yield (
            "measured",
            f"{usage.input_tokens:,} tokens, {usage.reused_tokens:,} of them reused; "
            f"{usage.output_tokens:,} written; {ended}",
        )
    else:
        yield "measured", f"not counted; {ended}"
    count = len(report.tools)
    tools = f"{count} tool{'' if count == 1 else 's'}: {', '.join(report.tools)}" if count else "tools (none)"
    prompts = f"{report.system_tokens:,} tokens for the system prompt, {report.tools_tokens:,} for {tools}"
    system = f"{_describe(report)} {prompts}"
    yield "before", f"{system}{f', {report.sections_tokens:,} for sections' if report.sections_tokens else ''}"
    if report.sections:
        yield "sections", ", ".join(f"{one.name} {one.tokens:,} of {one.budget:,}" for one in report.sections)
    text = _sum(report.shown, _describe(report))
    for fate in NOT_SHOWN:
        found = report.of(fate)
        if found:
            text += f"; {FATES[fate]}: {_sum(found, _describe(report))} ({_turns(found)})"
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
            ids = f"{found[0].id} to {found[-1].id}"
            size = _count(sum(one.tokens for one in found))
            yield ids, _turn_range(found), f"{len(found):,} messages", size, FATES[fate], ""
            continue
        for one in found:
            hidden = f" by {one.hidden:,} characters" if one.fate in ("cut", "shortened") else ""
            yield (
                one.id,
                str(one.turn),
                one.role,
                _count(one.tokens),
                f"{FATES[one.fate]}{hidden}",
                one.begins,
            )


def _turns(messages: Sequence[MessageReport]) -> str:
    several = messages[0].turn != messages[-1].turn
    return f"turn{'s' if several else ''} {_turn_range(messages)}"


def _turn_range(messages: Sequence[MessageReport]) -> str:
    first, last = messages[0].turn, messages[-1].turn
    return str(first) if first == last else f"{first} to {last}"


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _share(ratio: float | None) -> str:
    return "-" if ratio is None else f"{100 * ratio:.0f} %"


# --------------------------------------------------------------------------------------------------- two requests


def changes_data(changes: ContextChanges) -> dict[str, Any]:
    return {
        "before": _side(changes.before),
        "after": _side(changes.after),
        "changed_parts": list(changes.parts),
        "kept_messages": changes.kept_messages,
        "kept_tokens": changes.kept_tokens,
        "kept_share": round(changes.share, 4),
        "gone": [message_data(one) for one in changes.gone],
        "came": [message_data(one) for one in changes.came],
        "changed": [{"before": message_data(one), "after": message_data(other)} for one, other in changes.changed],
    }


def _side(report: ContextReport) -> dict[str, Any]:
    data = report_data(report)
    del data["messages"]
    return data


def change_lines(changes: ContextChanges) -> Iterator[Line]:
    before, after = changes.before, changes.after
    names = [f"{one.number} (step {one.effect_id.rpartition('.')[0]}, {one.purpose})" for one in (before, after)]
    yield f"from request {names[0]} to request {names[1]}", "call"
    yield f"  tokens   {_describe(after)} {_count(before.used)} and {_count(after.used)}", "plain"
    same = [name for name in ("system", "tools", "options") if name not in changes.parts]
    words = {"system": "the system prompt", "tools": "the tools", "options": "the options"}
    if changes.parts:
        yield f"  changed  {', '.join(words[name] for name in changes.parts)}", "warning"
    if same:
        yield f"  the same {', '.join(words[name] for name in same)}", "plain"
    first = f"the first {changes.kept_messages:,}" if changes.kept_messages else "none"
    yield (
        f"  kept     {first} of {len(before.shown):,} messages; with what stands before them {_describe(before)} "
        f"{changes.kept_tokens:,} tokens, {_share(changes.share)} of the first request",
        "plain",
    )
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
