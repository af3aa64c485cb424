"""The events that observers receive: the core's own values, each in an envelope with its place in the session.

An observer is a callable that takes one ``Event`` and looks at its ``value``. Each step emits:

- its input,
- the messages added to the history,
- the turn's usage, if it changed,
- the decisions.

Between the steps come the pieces of a reply while the model writes it. Only values that the core lacks have a class in
this module.

    match event.value:
        case events.TextDelta(text=text):
            print(text, end="")
        case events.ToolMessage(name=name, status=status):
            print(f"[{name}: {status}]")

Events are for display and measurement; no behavior depends on them. ``to_data(event)`` returns plain JSON data, and
``from_data(data, Event)`` restores the event. Recordings use the same tags.

The session does not wait for observers; ``_delivery`` describes the handling of slow ones. Wrap an observer in
``Inline`` to call it immediately, on the session's own thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from attrs import evolve, field, frozen

from cognition.base.ids import EffectId
from cognition.parsing import (
    ArgumentsDelta as ArgumentsDelta,
    CallFinished as CallFinished,
    CallMalformed as CallMalformed,
    CallStarted as CallStarted,
    Output as Output,
    ReasoningDelta as ReasoningDelta,
    TextDelta as TextDelta,
)
from cognition.steps import requests  # its `Purpose` comes with a star too, and pyright then knows no type for it
from cognition.steps.codec import tags_of
from cognition.steps.decisions import *  # noqa: F403 - as the inputs below
from cognition.steps.decisions import Decision, SpawnWorker
from cognition.steps.inputs import *  # noqa: F403 - all are told: one that is added stands here at once
from cognition.steps.inputs import Input
from cognition.values.messages import (
    AssistantMessage as AssistantMessage,
    Message as Message,
    ToolCall,
    ToolMessage as ToolMessage,
    Usage,
    UserMessage as UserMessage,
)
from runtime.constrained.nodes import Weakened


@frozen
class ModelCalled:
    """A call of the model starts.

    Replaces the decision ``CallModel``, whose request contains the whole history. With the history in every event, a
    stream would grow with the square of the session's length.
    """

    tag: ClassVar[str] = "model_called"
    effect_id: EffectId
    purpose: requests.Purpose
    messages: int
    model: str = ""
    """As in ``CallModel``."""


@frozen
class UsageUpdated:
    """The usage of the turn so far, including its workers. Emitted after each reply and each worker."""

    tag: ClassVar[str] = "usage_updated"
    used: Usage


@frozen
class ToolProgress:
    """A running tool reports progress through ``ToolContext.progress``."""

    tag: ClassVar[str] = "tool_progress"
    effect_id: EffectId
    call: ToolCall
    text: str


@frozen
class ToolWeakened:
    """Sampling enforces only a part of a tool's schema. The rest is checked on the finished call.

    Emitted once for each such tool, before the first turn of a session, also of a resumed session.
    """

    tag: ClassVar[str] = "tool_weakened"
    tool: str
    keywords: tuple[Weakened, ...]
    """The keywords that sampling does not enforce, each with its place in the schema and the reason."""


@frozen
class WarningRaised:
    """A problem that does not stop the session."""

    tag: ClassVar[str] = "warning_raised"
    message: str


OwnEvent = ModelCalled | UsageUpdated | ToolProgress | ToolWeakened | WarningRaised

EventValue = Input | Decision | Output | Message | OwnEvent
"""All types of ``Event.value``."""

TAGS = tags_of(EventValue)
"""The tag of each type: in recordings, in the lines of ``--json``, and between a host and its handles."""


@frozen
class Event:
    """Something that happened, with its place in the session."""

    session: str
    turn: int
    """Number of the user message, from 1; 0 before the first."""
    step: int
    """Number of the model reply in this turn, from 1."""
    attempt: int
    """Number of the attempt at this reply, from 1."""
    sequence: int
    """Number of the event in the session, from 1. A gap means that the observer missed events."""
    value: EventValue
    """The event itself. Inputs have their time in ``at``."""
    error: BaseException | None = field(default=None, init=False, eq=False)
    """For a ``ToolFailed`` of this process: the tool's exception with its traceback. Not part of the event's data."""
    begun: tuple[tuple[object, object], ...] = field(default=(), init=False, eq=False, repr=False)
    """The observers that began this event before its delivery (``Surrounding``), each with its own note of it."""

    def caused_by(self, error: BaseException | None) -> Event:
        """Return the same event with the tool's exception."""
        caused = evolve(self)
        object.__setattr__(caused, "error", error)
        return caused

    def note_begun(self, observer: object, note: object) -> None:
        """Note that an observer began this event. Not part of the event's data."""
        object.__setattr__(self, "begun", (*self.begun, (observer, note)))


Observer = Callable[[Event], object]
"""Receives events. Its result is ignored. If it raises, it is dropped and the session continues. With an
``AsyncAgent`` it may be an ``async def``.
"""


@frozen
class Inline:
    """Calls an observer synchronously, on the session's thread or in its event loop. The session waits for it.

    For quick work in step with the session: a queue's ``put``, a terminal that slows the writer down, a test that
    cancels at a certain event. Also usable as a decorator.
    """

    observer: Observer

    def __call__(self, event: Event) -> object:
        return self.observer(event)


def worker_session(parent: str, effect: SpawnWorker) -> str:
    return f"{parent}/{effect.effect_id}"
