"""What observers are told while a session runs: frozen values, in order, each tagged with where it belongs.

An observer is a plain callable that takes one event. Events are for showing and measuring; nothing depends on them,
and they are not recorded: what is recorded are the inputs and decisions.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from cognition import FinishReason, MalformedToolCall, Outcome, ToolCall, Usage
from cognition.messages import ResultStatus
from cognition.outcomes import ErrorKind, LimitKind
from cognition.requests import Purpose


@frozen(kw_only=True)
class Event:
    """Base of all events: where and when in the session it happened."""

    session: str
    turn: int
    """Counts the user's messages from 1; 0 before the first."""
    step: int
    """Counts the replies asked of the model in this turn, from 1."""
    attempt: int
    """Counts the tries at one reply, from 1."""
    sequence: int
    """Counts the events of a session from 1; an observer that sees a gap has missed something."""


@frozen(kw_only=True)
class TurnStarted(Event):
    """The user said something."""

    text: str


@frozen(kw_only=True)
class ModelCallStarted(Event):
    """The model is asked."""

    purpose: Purpose
    messages: int
    """Messages in the request."""


@frozen(kw_only=True)
class TextDelta(Event):
    """More of the reply's visible text."""

    text: str


@frozen(kw_only=True)
class ReasoningDelta(Event):
    """More of what the model thinks."""

    text: str


@frozen(kw_only=True)
class CallStarted(Event):
    """The model began to write a tool call."""

    index: int
    """Counts the calls of one reply from 0."""
    name: str


@frozen(kw_only=True)
class ArgumentText(Event):
    """More of a call's arguments as the model writes them; not checked yet."""

    index: int
    text: str


@frozen(kw_only=True)
class CallMalformed(Event):
    """The model wrote a tool call that can't be read; it will be told."""

    index: int
    malformed: MalformedToolCall


@frozen(kw_only=True)
class ModelCallFinished(Event):
    """The reply has ended, for whatever reason."""

    finish_reason: FinishReason
    usage: Usage
    seconds: float
    """Wall time of the call."""


@frozen(kw_only=True)
class ToolStarted(Event):
    """A tool runs."""

    call: ToolCall


@frozen(kw_only=True)
class ToolProgress(Event):
    """What a running tool says of itself through ``ToolContext.progress``."""

    call: ToolCall
    text: str


@frozen(kw_only=True)
class ToolFinished(Event):
    """A call has its one result, also one that never ran because it was refused, cancelled or over a limit."""

    call_id: str
    name: str
    status: ResultStatus
    content: str
    """The result, or what went wrong."""
    seconds: float
    """Wall time of the call; 0 for one that never ran."""


@frozen(kw_only=True)
class ApprovalAsked(Event):
    """A call waits for the user's approval."""

    call: ToolCall
    reason: str


@frozen(kw_only=True)
class RetryPlanned(Event):
    """A model call failed and will be made again."""

    kind: ErrorKind
    message: str
    number: int
    """Of the attempt to come, from 2."""
    seconds: float


@frozen(kw_only=True)
class LimitHit(Event):
    """A budget is used up; the turn ends, perhaps after one last answer."""

    limit: LimitKind
    detail: str


@frozen(kw_only=True)
class ContextTrimmed(Event):
    """Old turns had to be left out of the request."""

    dropped: int
    """Messages of history that are not shown to the model, oldest first."""
    tokens: int
    budget: int


@frozen(kw_only=True)
class WarningRaised(Event):
    """Something is not as it should be, and the session goes on."""

    message: str


@frozen(kw_only=True)
class TurnFinished(Event):
    """The turn is over; the last event of each turn."""

    outcome: Outcome
    usage: Usage


Observer = Callable[[Event], object]
"""What it returns is ignored; when it raises it is dropped, and the session goes on."""
