"""The text of a prompt: from a chat template, or in a plain form if no template is given."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime

from attrs import frozen

from cognition import AssistantMessage, Message, ModelRequest, ToolMessage, UserMessage
from cognition.values.content import text_with_placeholders
from interpreters.cli.reports.format_report import NO_TEMPLATE
from interpreters.recording.recorded_requests import RecordedRequest
from interpreters.recording.redactor import PLACEHOLDER

PLAIN = (
    "a recording does not say which model was asked, so this is a plain form that no model was given; "
    "--model SPEC writes it with a model's own chat template"
)
SECRETS = "placeholders stand for secrets that were not recorded; the model was given the real text"


@frozen
class Prompt:
    """A prompt as text."""

    text: str
    template: str | None
    """Origin of the chat template; None for the plain form."""
    notes: tuple[str, ...]
    """Notes for the reader, one sentence each."""


def prompt_of(request: RecordedRequest, model: str | None) -> Prompt:
    """Return the text of a recorded request.

    Args:
        request: the request.
        model: the owner of the chat template, as in ``find_template``; empty for the model that ships, None for the
            plain form.

    Raises:
        ModelLoadError: there is no such template, or it can't be used.
        TemplateError: the template refuses the conversation.
    """
    asked = request.call.request
    if model is None:
        text, template, notes = "".join(plain_parts(asked)), None, [PLAIN]
    else:
        from runtime.templates.files import find_template, open_template

        file = find_template(model or None)
        with closing(open_template(file, now=lambda: _day_of(request))) as chat_template:
            rendered = chat_template.render(asked)
        text, template = rendered.text, file.origin
        notes = [*([NO_TEMPLATE] if file.source is None else []), *rendered.notes, *rendered.warnings]
    if PLACEHOLDER.search(text):
        notes.append(SECRETS)
    return Prompt(text, template, tuple(notes))


def _day_of(request: RecordedRequest) -> datetime:
    """Return the day of the request, for templates that write the date."""
    try:
        return datetime.fromtimestamp(request.at)
    except (OverflowError, ValueError, OSError):  # a recording may say anything
        return datetime.fromtimestamp(0)


def plain_parts(request: ModelRequest) -> Iterator[str]:
    """Yield a request in cogstep's own plain form: each part as a heading and its text."""
    if request.system:
        yield from _part("system", request.system)
    if request.tools:
        lines = (
            json.dumps(
                {"name": tool.name, "description": tool.description, "parameters": tool.parameters}, ensure_ascii=False
            )
            for tool in request.tools
        )
        yield from _part("tools", "\n".join(lines))
    for message in request.messages:
        yield from _part(*_plain(message))


def _part(heading: str, text: str) -> Iterator[str]:
    yield f"[{heading}]\n{text}\n\n"


def _plain(message: Message) -> tuple[str, str]:
    match message:
        case UserMessage(text=text, origin=origin, parts=parts):
            return origin, text_with_placeholders(text, parts)
        case AssistantMessage(text=text, reasoning=reasoning, calls=calls):
            thought = f"(reasoning) {reasoning}" if reasoning else ""
            called = (f"(call {call.id}) {call.name} {call.arguments_json}" for call in calls)
            return "assistant", "\n".join(part for part in (thought, text, *called) if part)
        case ToolMessage(call_id=call_id, name=name, content=content, status=status):
            return f"tool {name}, call {call_id}{'' if status == 'ok' else f', {status}'}", content
