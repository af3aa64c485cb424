"""Exports recorded sessions: JSON, a Markdown transcript, OpenAI messages.

Redacted texts stay redacted, since a recording contains only placeholders.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from attrs import asdict

from cognition import AgentConfig, AssistantMessage, Message, Outcome, TextPart, ToolMessage, UserMessage, to_data
from cognition.base.display import LONGEST_LINE, shown_json, shown_name, shown_text
from cognition.base.strict_json import LENIENT
from cognition.values.content import text_with_placeholders
from interpreters.recording.sessions._transcript import Transcript, TranscriptEntry, TranscriptTurn, outcome_text

NO_RESULT = "(no result: the session was interrupted)"
"""Result for a call that was running when the recording ended, because each call needs an answer."""


def transcript_to_data(transcript: Transcript) -> dict[str, Any]:
    """Return a session as one JSON object: header, turns with their entries, outcomes and usage.

    Times are seconds since the epoch. Messages and outcomes are written as in the journal, each with a ``type``.
    """
    header = transcript.header
    return {
        "session": header.session,
        "engine": header.engine,
        "created": header.created,
        "origin": None if header.origin is None else asdict(header.origin),
        "config": None if header.config is None else to_data(header.config),
        "start": [to_data(message, Message) for message in header.start.history],
        "turns": [
            {
                "turn": turn.number,
                "began": turn.began,
                "ended": turn.ended,
                "entries": [_entry_data(entry) for entry in turn.entries],
                "outcome": None if turn.outcome is None else to_data(turn.outcome, Outcome),
                "usage": asdict(turn.usage),
            }
            for turn in transcript.turns
        ],
        "in_flight": list(transcript.in_flight),
        "warnings": list(transcript.warnings),
        "foreign": transcript.foreign,
    }


def _entry_data(entry: TranscriptEntry) -> dict[str, Any]:
    what: dict[str, Any] = {"note": entry.note}
    if entry.message is not None:
        what = {"message": to_data(entry.message, Message)}
    elif entry.system is not None:
        what["system"] = entry.system
    return {"record": entry.record, "at": entry.at, **what}


# ------------------------------------------------------------------------------------------------------------ OpenAI


def transcript_to_openai(transcript: Transcript, *, reasoning: bool = False) -> list[dict[str, Any]]:
    """Return a session as bodies of OpenAI chat requests, ``{"messages": [...], "tools": [...]}``.

    There is one body per conversation, since a reset begins a new conversation. Written one per line, they are a file
    for fine-tuning.

    Each call has exactly one ``tool`` message with its id, in the order of the calls, directly after the message that
    asked for it. The engine's notes to the model have the role ``user``, as the model saw them.
    https://platform.openai.com/docs/api-reference/chat/create

    Args:
        transcript: the session.
        reasoning: whether to add the model's reasoning as ``reasoning_content``. Several servers accept this field, but
            OpenAI's own refuses it.
    """
    config = transcript.header.config or AgentConfig()
    tools = [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
        }
        for tool in config.offered
    ]
    return [
        {
            "messages": [*_openai_system(config.prompt_with(system)), *openai_messages(messages, reasoning)],
            **({"tools": tools} if tools else {}),
        }
        for system, messages in transcript.conversations()
    ]


def _openai_system(prompt: str) -> Iterator[dict[str, Any]]:
    if prompt:
        yield {"role": "system", "content": prompt}


def _openai_content(message: UserMessage) -> str | list[dict[str, Any]]:
    """Return the text of a message, or its parts with each picture as a data URL."""
    if not message.parts:
        return message.text
    return [
        {"type": "text", "text": part.text}
        if isinstance(part, TextPart)
        else {"type": "image_url", "image_url": {"url": f"data:{part.media_type};base64,{part.data}"}}
        for part in message.parts
    ]


def openai_messages(messages: Sequence[Message], reasoning: bool) -> Iterator[dict[str, Any]]:
    open_calls: list[str] = []
    for message in messages:
        if not isinstance(message, ToolMessage):
            yield from _fill_unanswered(open_calls)
            open_calls = []
        match message:
            case UserMessage():
                yield {"role": "user", "content": _openai_content(message)}
            case AssistantMessage(text=text, calls=calls):
                entry: dict[str, Any] = {"role": "assistant", "content": text or (None if calls else "")}
                if reasoning and message.reasoning:
                    entry["reasoning_content"] = message.reasoning
                if calls:
                    entry["tool_calls"] = [
                        {
                            "id": call.id,
                            "type": "function",
                            "function": {"name": call.name, "arguments": call.arguments_json},
                        }
                        for call in calls
                    ]
                    open_calls = [call.id for call in calls]
                yield entry
            case ToolMessage(call_id=call_id, content=content):
                if call_id in open_calls:
                    open_calls.remove(call_id)
                    yield {"role": "tool", "tool_call_id": call_id, "content": content}
    yield from _fill_unanswered(open_calls)


def _fill_unanswered(calls: list[str]) -> Iterator[dict[str, Any]]:
    for call in calls:
        yield {"role": "tool", "tool_call_id": call, "content": NO_RESULT}


# ---------------------------------------------------------------------------------------------------------- Markdown

ACTIVE = re.compile(r"<[A-Za-z/!?]|!\[|\](?:\(|:)(?!\s*https?://)|\]\[")
"""Text that Markdown renders as more than text: HTML, images, and links other than to web pages."""


def transcript_to_markdown(transcript: Transcript, *, turn: int | None = None) -> str:
    """Return a session as Markdown: a heading for each turn, messages as quotations, calls and results as code blocks.

    No recorded text can look like part of the page, run in it or load anything. A text with HTML, images or unusual
    links becomes a code block, and terminal control characters become visible (``cognition.base.display``).

    Args:
        transcript: the session.
        turn: only this turn.
    """
    return "".join(f"{part}\n" for part in markdown_parts(transcript, turn=turn))


def markdown_parts(transcript: Transcript, *, turn: int | None = None) -> Iterator[str]:
    """Yield ``transcript_to_markdown`` in parts of some lines, each without its last line break. Repeated texts are not
    all in memory.
    """
    header = transcript.header
    recorded = f"Recorded {_time(header.created)}."
    if header.origin is not None:
        whose = ", which was not this user's own" if header.origin.foreign else ""
        recorded += f" It goes on from turn {header.origin.turn} of session {_inline(header.origin.session)}{whose}."
    yield from (f"# Session {_inline(header.session)}", "", recorded)
    if transcript.foreign:
        yield from ("", f"*Foreign: it was not recorded by this user ({_inline(transcript.foreign)}).*")
    if header.config is not None and header.config.system:
        yield from ("", "**System**", "", _quote(header.config.system))
    for one in transcript.turns:
        if turn is None or one.number == turn:
            yield ""
            yield from _turn_lines(one)
    for warning in transcript.warnings:
        yield from ("", f"*{_inline(warning)}*")


def _turn_lines(turn: TranscriptTurn) -> Iterator[str]:
    yield f"## Turn {turn.number}" if turn.number else "## Before the first turn"
    for entry in turn.entries:
        yield ""
        yield from _note(entry.note) if entry.message is None else _message_lines(entry.message)
        if entry.system is not None:
            yield from ("", _quote(entry.system))
    ending = outcome_text(turn.outcome) if turn.number else ""
    if ending:
        yield ""
        yield from _note(ending)
    usage = turn.usage
    if usage.input_tokens or usage.output_tokens:
        yield ""
        yield from _note(f"{usage.input_tokens} tokens in, {usage.output_tokens} out.")


def _note(text: str) -> Iterator[str]:
    """Yield a note in italics. Its names and rules in backticks stay as they are, if every backtick has its partner."""
    shown = shown_name(" ".join(text.split()), LONGEST_LINE)
    pieces = shown.split("`")
    if len(pieces) % 2 == 0 or "``" in shown:
        escaped = _escape(shown).replace("`", "\\`")
    else:
        escaped = "`".join(piece if place % 2 else _escape(piece) for place, piece in enumerate(pieces))
    yield f"*{escaped}*"


def _message_lines(message: Message) -> Iterator[str]:
    match message:
        case UserMessage(text=text, origin=origin, parts=parts):
            yield "**User**" if origin == "user" else "**Engine**"
            yield ""
            yield _quote(text_with_placeholders(text, parts))
        case AssistantMessage(text=text, reasoning=reasoning, calls=calls, interrupted=interrupted):
            yield f"**Assistant**{' (interrupted)' if interrupted else ''}"
            if reasoning:
                yield from ("", "<details><summary>Reasoning</summary>", "", _quote(reasoning), "", "</details>")
            if text:
                yield from ("", _quote(text))
            for call in calls:
                yield from ("", f"Call {_code(call.name)} ({_inline(call.id)}):", "")
                yield _block(_pretty(call.arguments_json), "json")
        case ToolMessage(call_id=call_id, name=name, content=content, status=status):
            ended = "" if status == "ok" else f" ({status})"
            yield from (f"Result of {_code(name)} ({_inline(call_id)}){ended}:", "", _block(content))


def _quote(text: str) -> str:
    """Return a text as a quotation that it can't leave, or as a code block if it is more than text."""
    text = shown_text(text)
    if ACTIVE.search(text):
        return _block(text)
    return "\n".join(f"> {line}" if line else ">" for line in text.rstrip("\n").split("\n"))


def _block(text: str, language: str = "") -> str:
    text = shown_text(text)
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _code(name: str) -> str:
    name = shown_name(name) or " "
    mark = "`" * (_longest_run(name) + 1)
    space = " " if name[0] == "`" or name[-1] == "`" else ""
    return f"{mark}{space}{name}{space}{mark}"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall(r"`+", text)), default=0)


def _pretty(text: str) -> str:
    try:
        return shown_json(json.dumps(LENIENT.decode(text), ensure_ascii=False, indent=2))
    except (ValueError, RecursionError):
        return text


def _inline(text: str) -> str:
    return _escape(shown_name(" ".join(text.split()), LONGEST_LINE))


def _escape(text: str) -> str:
    return re.sub(r"([\\*_<>&\[\]#|~!])", r"\\\1", text)


def _time(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, ValueError, OSError):  # beyond the years that a calendar has
        return f"{seconds:g} seconds after 1970"
