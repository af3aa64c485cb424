"""What handle and host say to each other: frozen values, each of which is one line of JSON. ``docs/embedding.md`` has
the table.

    {"type": "run_turn", "session": "a", "turn": 1, "text": "What is 17 * 23?"}
    {"type": "event", "session": "a", "turn": 1, "event": {"type": "text_delta", "text": "It is", ...}}
    {"type": "turn_ended", "session": "a", "turn": 1, "outcome": {"type": "completed", "text": "It is 391."}, ...}

Rules that both sides keep:

- A turn's number is given by the handle and is higher than that of any turn of the session before.
- Each turn is ended by exactly one ``turn_ended`` or ``turn_broken``, whatever happens, and nothing that carries its
  number comes after that. What comes late for a turn, from either side, is dropped.
- What has an ``id`` is answered by exactly one ``done``, ``ready``, ``started`` or ``refused`` with that id.
- A message that can't be read changes nothing; it is answered by ``faulted``, or as above where its id or its turn can
  be read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from cognition import CodecError, CogstepError, from_data, to_data
from interpreters import events
from interpreters.events import Event
from interpreters.handles.notices import (
    Accepted,
    ApprovalAsked,
    Faulted,
    Happened,
    HookAsked,
    PlanAsked,
    QuestionsAsked,
    Ready,
    Refused,
    Started,
    ToolCalled,
    ToolDropped,
    TurnBroken,
    TurnEnded,
)
from interpreters.handles.requests import (
    VERSION,
    ApprovalAnswer,
    Cancel,
    Choice,
    Dispose,
    Fork,
    GoOn,
    HookVerdict,
    Init,
    ModelChoice,
    NoAnswer,
    PlanVerdict,
    Read,
    Reset,
    RunTurn,
    Secrets,
    SetMode,
    Settings,
    Shutdown,
    Start,
    ToolOffer,
    ToolProgress,
    ToolResult,
)

__all__ = [
    "EVENTS",
    "EVENT_TAGS",
    "NOTICES",
    "REQUESTS",
    "TAG_OF",
    "VERSION",
    "Accepted",
    "Answer",
    "ApprovalAnswer",
    "ApprovalAsked",
    "Asked",
    "Cancel",
    "Choice",
    "Dispose",
    "Faulted",
    "Fork",
    "GoOn",
    "Happened",
    "HookAsked",
    "HookVerdict",
    "Init",
    "ModelChoice",
    "NoAnswer",
    "Notice",
    "PlanAsked",
    "PlanVerdict",
    "ProtocolError",
    "QuestionsAsked",
    "Read",
    "Ready",
    "Refused",
    "Request",
    "Reset",
    "RunTurn",
    "Secrets",
    "SetMode",
    "Settings",
    "Shutdown",
    "Start",
    "Started",
    "ToolCalled",
    "ToolDropped",
    "ToolOffer",
    "ToolProgress",
    "ToolResult",
    "TurnBroken",
    "TurnEnded",
    "event_data",
    "event_of",
    "line_of",
    "read_notice",
    "read_request",
]


class ProtocolError(CogstepError):
    """A line is no message.

    Attributes:
        data: what could be read of it; empty if it is no JSON object.
    """

    def __init__(self, message: str, data: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.data = data


Request = (
    Start
    | Init
    | Fork
    | RunTurn
    | GoOn
    | ToolResult
    | ToolProgress
    | ApprovalAnswer
    | Choice
    | PlanVerdict
    | HookVerdict
    | NoAnswer
    | Read
    | Cancel
    | SetMode
    | Reset
    | Dispose
    | Shutdown
)
Notice = (
    Started
    | Ready
    | Accepted
    | Refused
    | Happened
    | ToolCalled
    | ToolDropped
    | ApprovalAsked
    | QuestionsAsked
    | PlanAsked
    | HookAsked
    | TurnEnded
    | TurnBroken
    | Faulted
)
Answer = ToolResult | ApprovalAnswer | Choice | PlanVerdict | HookVerdict | NoAnswer
Asked = ApprovalAsked | QuestionsAsked | PlanAsked | HookAsked

REQUESTS: dict[str, type] = {
    "start": Start,
    "init": Init,
    "fork": Fork,
    "run_turn": RunTurn,
    "go_on": GoOn,
    "tool_result": ToolResult,
    "tool_progress": ToolProgress,
    "approval": ApprovalAnswer,
    "choice": Choice,
    "plan_verdict": PlanVerdict,
    "hook_verdict": HookVerdict,
    "no_answer": NoAnswer,
    "read": Read,
    "cancel": Cancel,
    "set_mode": SetMode,
    "reset": Reset,
    "dispose": Dispose,
    "shutdown": Shutdown,
}
"""What a handle may say, by tag."""

NOTICES: dict[str, type] = {
    "started": Started,
    "ready": Ready,
    "done": Accepted,
    "refused": Refused,
    "event": Happened,
    "tool_called": ToolCalled,
    "tool_dropped": ToolDropped,
    "approval_asked": ApprovalAsked,
    "questions_asked": QuestionsAsked,
    "plan_asked": PlanAsked,
    "hook_asked": HookAsked,
    "turn_ended": TurnEnded,
    "turn_broken": TurnBroken,
    "faulted": Faulted,
}
"""What a host may say, by tag."""

TAG_OF: dict[type, str] = {kind: tag for tags in (REQUESTS, NOTICES) for tag, kind in tags.items()}

EVENTS: dict[str, type[Event]] = {
    re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower(): kind
    for kind in vars(events).values()
    if isinstance(kind, type) and issubclass(kind, Event) and kind is not Event
}
"""The events by tag: their public names, in the spelling of tags."""

EVENT_TAGS: dict[type[Event], str] = {kind: tag for tag, kind in EVENTS.items()}

WRITE = json.JSONEncoder(ensure_ascii=True, allow_nan=True, separators=(",", ":")).encode


def line_of(message: Request | Notice) -> str:
    """A message as one line of JSON, in ASCII and without a line break."""
    kind = type(message)
    return WRITE({"type": TAG_OF[kind], **to_data(message, kind)})


def read_request(line: str) -> Request:
    """What a handle said; raises ProtocolError."""
    request: Request = _read(line, REQUESTS)
    return request


def read_notice(line: str) -> Notice:
    """What a host said; raises ProtocolError."""
    notice: Notice = _read(line, NOTICES)
    return notice


def _read(line: str, kinds: Mapping[str, type]) -> Any:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"this is no JSON: {error}", {}) from error
    if not isinstance(data, dict):
        raise ProtocolError("a message is a JSON object", {})
    tag = data.get("type")
    kind = kinds.get(tag) if isinstance(tag, str) else None
    if kind is None:
        raise ProtocolError(f"unknown type {tag!r}; expected one of: {', '.join(kinds)}", data)
    try:
        return from_data({name: value for name, value in data.items() if name != "type"}, kind)
    except (CodecError, ValueError, RecursionError) as error:
        raise ProtocolError(f"this is no {tag}: {error}", data) from error


def event_data(event: Event) -> dict[str, Any]:
    """An event as JSON data, with its tag."""
    kind = type(event)
    return {"type": EVENT_TAGS[kind], **to_data(event, kind)}


def event_of(data: Mapping[str, Any]) -> Event | None:
    """The event; None for one that this version doesn't know, so that a newer host does no harm."""
    kind = EVENTS.get(str(data.get("type")))
    if kind is None:
        return None
    event: Event = from_data({name: value for name, value in data.items() if name != "type"}, kind)
    return event
