"""An observer that writes into a memory: an episode for each turn, and the outcome of each tool call."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

from attrs import define, field

from cognition import Cancelled, Completed, Failed, LimitReached, Outcome, ToolCall
from cognition.steps.engine_tools import BY_FEATURE
from interpreters.observing.events import (
    ApprovalGiven,
    AskApproval,
    AssistantMessage,
    Event,
    ToolMessage,
    TurnFinished,
    UserSpoke,
)
from interpreters.recording.redaction import Redaction
from interpreters.recording.redactor import Redactor
from runtime import MemoryFolder, MemoryStoreError

ENGINE_TOOLS = frozenset(tool.name for tools in BY_FEATURE.values() for tool in tools)
"""Tools of the engine. Their outcomes contain no knowledge about the world."""

HOW = {"ok": "succeeded", "error": "failed", "refused": "denied"}
"""Outcome to note for the status of a result. A cancelled call counts neither way."""

NUMBERED = re.compile(r"\[redacted:([A-Za-z0-9_.-]+):[0-9]+[a-z0-9]*\]")

ARGUMENTS = 80
"""Characters of a call's arguments in an episode."""


def hide_secrets(text: str, redact: Redaction | None = None) -> str:
    """Replace texts that look like secrets by ``[redacted:api_key]`` and the like, as recordings do.

    Use it as ``MemoryFolder(hide=hide_secrets)``; add your own secrets with ``partial(hide_secrets, redact=...)``.
    """
    hidden, _ = Redactor(Redaction() if redact is None else redact).hide(text)
    return NUMBERED.sub(r"[redacted:\1]", hidden)


@define
class _EpisodeSession:
    said: str = "(a turn that was resumed)"
    calls: dict[str, ToolCall] = field(factory=dict)
    asked: dict[str, ToolCall] = field(factory=dict)
    """Calls that wait for approval, by the id of the asking effect."""
    told: list[str] = field(factory=list)


class EpisodeWriter:
    """Writes each turn of a session and the outcome of each tool call into a memory.

    An observer: ``Agent(model, observers=[EpisodeWriter(memory)])``. Calls of workers are noted, their turns are not.

    Args:
        memory: the memory to write; its ``hide`` keeps secrets out.
        origin: text for the heading of each episode, such as the name of a channel.
        on_problem: called with a message if a write fails, which does not end the session. By default the logger
            ``cogstep`` warns. Later events are written again.
    """

    def __init__(
        self, memory: MemoryFolder, *, origin: str = "", on_problem: Callable[[str], object] | None = None
    ) -> None:
        self._memory = memory
        self._origin = origin
        self._on_problem = on_problem or logging.getLogger("cogstep").warning
        self._sessions: dict[str, _EpisodeSession] = {}
        self._main: str | None = None

    def __call__(self, event: Event) -> None:
        if self._main is None:
            self._main = event.session
        session = self._sessions.setdefault(event.session, _EpisodeSession())
        try:
            self._take(event, session)
        except MemoryStoreError as error:
            self._on_problem(f"the memory misses something: {error}")

    def _take(self, event: Event, session: _EpisodeSession) -> None:
        match event.value:
            case UserSpoke(text=text):
                session.said, session.told = text, []
                session.calls.clear()
                session.asked.clear()
            case AssistantMessage(calls=calls):
                session.calls.update({call.id: call for call in calls})
            case AskApproval(effect_id=effect_id, call=call):
                session.asked[str(effect_id)] = call
            case ApprovalGiven(effect_id=effect_id) if str(effect_id) in session.asked:
                call = session.asked.pop(str(effect_id))
                self._memory.note_outcome(call.name, "approved", call.arguments_json)
            case ToolMessage(call_id=call_id, name=name, content=content, status=status) if name not in ENGINE_TOOLS:
                arguments = session.calls[call_id].arguments_json if call_id in session.calls else ""
                session.told.append(f"{name} {' '.join(arguments.split())[:ARGUMENTS]} ({status})")
                if status in HOW:
                    self._memory.note_outcome(name, HOW[status], arguments, content)  # type: ignore[arg-type]
            case TurnFinished(outcome=outcome):
                if event.session == self._main:
                    self._memory.note_episode(session.said, _describe_end(outcome), session.told, self._origin)
                else:
                    del self._sessions[event.session]
            case _:
                pass


def _describe_end(outcome: Outcome) -> str:
    match outcome:
        case Completed(text=text):
            return text
        case LimitReached(limit=limit, text=text):
            return f"(ended at the limit of {limit}) {text}".rstrip()
        case Cancelled(reason=reason, text=text):
            return f"(cancelled{': ' * bool(reason)}{reason}) {text}".rstrip()
        case Failed(kind=kind, text=text):
            return f"(failed: {kind}) {text}".rstrip()
