"""What observers are told while a session runs: the values of the core themselves, each in an envelope that says where.

An observer is a callable that takes one ``Event`` and looks at its ``value``. Of each step it is told the input as it
came, the messages that now stand in the history, what the turn has taken if that changed, and the decisions; between
them come the pieces of a reply as the model writes it. Only what the core has no value for has a class of its own here.

    match event.value:
        case events.TextDelta(text=text):
            print(text, end="")
        case events.ToolMessage(name=name, status=status):
            print(f"[{name}: {status}]")

Events are for showing and measuring; nothing depends on them. ``to_data(event)`` is plain JSON data, and
``from_data(data, Event)`` the event again; what recordings hold has the same tags there.

Nobody waits for an observer: see ``delivery`` for what becomes of one that is slow. One that is to be called where the
session runs, at the very moment, is wrapped in ``Inline``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from attrs import evolve, field, frozen

from cognition.codec import tags_of
from cognition.decisions import *  # noqa: F403 - as the inputs below
from cognition.decisions import Decision, SpawnWorker
from cognition.ids import EffectId
from cognition.inputs import *  # noqa: F403 - all are told: one that is added stands here at once
from cognition.inputs import Input
from cognition.messages import (
    AssistantMessage as AssistantMessage,
    Message as Message,
    ToolCall,
    ToolMessage as ToolMessage,
    Usage,
    UserMessage as UserMessage,
)
from cognition.parsing import (
    ArgumentsDelta as ArgumentsDelta,
    CallFinished as CallFinished,
    CallMalformed as CallMalformed,
    CallStarted as CallStarted,
    Output as Output,
    ReasoningDelta as ReasoningDelta,
    TextDelta as TextDelta,
)
from cognition.requests import Purpose
from runtime.constrained.nodes import Weakened


@frozen
class ModelCalled:
    """The model is asked.

    Stands for the decision ``CallModel``, whose request holds all of the history: with it in each event, a stream would
    grow with the square of the session.
    """

    tag: ClassVar[str] = "model_called"
    effect_id: EffectId
    purpose: Purpose
    messages: int
    """Messages in the request."""
    model: str = ""
    """As in ``CallModel``."""


@frozen
class UsageUpdated:
    """What the turn has used so far, its workers included; told after each reply and each worker."""

    tag: ClassVar[str] = "usage_updated"
    used: Usage


@frozen
class ToolProgress:
    """What a running tool reports through ``ToolContext.progress``."""

    tag: ClassVar[str] = "tool_progress"
    effect_id: EffectId
    call: ToolCall
    text: str


@frozen
class ToolWeakened:
    """Sampling holds calls of a tool to a part of its schema only; the rest is checked when a call was written.

    Told once for each such tool, before the first turn of a session, resumed ones too.
    """

    tag: ClassVar[str] = "tool_weakened"
    tool: str
    keywords: tuple[Weakened, ...]
    """The keywords that calls are not held to, each with its place in the schema and the reason."""


@frozen
class WarningRaised:
    """Something is not as it should be, and the session goes on."""

    tag: ClassVar[str] = "warning_raised"
    message: str


Own = ModelCalled | UsageUpdated | ToolProgress | ToolWeakened | WarningRaised
"""What the core has no value for."""

Told = Input | Decision | Output | Message | Own
"""What an event may be of."""

TAGS = tags_of(Told)
"""The tag of each value: in recordings, in the lines of ``--json`` and between a host and its handles."""


@frozen
class Event:
    """Something that happened, and where and when in the session."""

    session: str
    turn: int
    """Counts the user's messages from 1; 0 before the first."""
    step: int
    """Counts the replies asked of the model in this turn, from 1."""
    attempt: int
    """Counts the tries at one reply, from 1."""
    sequence: int
    """Counts the events of a session from 1; an observer that sees a gap has missed something."""
    value: Told
    """What happened. Inputs say in ``at`` when."""
    error: BaseException | None = field(default=None, init=False, eq=False)
    """Of a ``ToolFailed`` in this process: what the tool raised, with its traceback. No part of the event's data."""

    def caused_by(self, error: BaseException | None) -> Event:
        """The same event with what the tool raised."""
        caused = evolve(self)
        object.__setattr__(caused, "error", error)
        return caused


Observer = Callable[[Event], object]
"""What it returns is ignored; when it raises it is dropped, and the session goes on. For an ``AsyncAgent`` it may be an
``async def``."""


@frozen
class Inline:
    """An observer that is called where the session runs, on its thread or in its event loop, which waits for it.

    For what is quick and has to be in step with the session: a queue's ``put``, a terminal that holds the writer up, a
    test that cancels at a certain event. Also a decorator.
    """

    observer: Observer

    def __call__(self, event: Event) -> object:
        return self.observer(event)


def worker_session(parent: str, effect: SpawnWorker) -> str:
    """The name of a worker's session."""
    return f"{parent}/{effect.effect_id}"
