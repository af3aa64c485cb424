"""What a host says to its handle. See ``messages`` for the rules."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from cognition import Message, Outcome, Plan, Question, ToolCall, Usage
from cognition.features import HookPoint


@frozen
class Started:
    """The model is there."""

    id: str
    model: str
    backend: str
    context_tokens: int


@frozen
class Ready:
    """A session has begun."""

    id: str
    session: str
    unfinished: bool = False
    """Whether a crash interrupted a turn of it: ``go_on`` ends that."""


@frozen
class Accepted:
    """What was asked under this id is done."""

    id: str


@frozen
class Refused:
    """What was asked under this id was not done, and nothing changed."""

    id: str
    error: str
    """The error's class, such as ``"ConfigError"``."""
    message: str


@frozen
class Happened:
    """One of ``interpreters.events``."""

    session: str
    turn: int
    event: dict[str, Any]
    """See ``event_of``."""


@frozen
class ToolCalled:
    """Run a tool, and answer with a ``tool_result`` of the same number. Several may be under way."""

    session: str
    turn: int
    number: int
    """Of all that this session asked of the handle's side, from 1."""
    call: ToolCall
    owner: str
    """The session that makes the call: this one, or that of a worker."""


@frozen
class ToolDropped:
    """Nobody waits for the result of this call any more."""

    session: str
    turn: int
    number: int


@frozen
class ApprovalAsked:
    """May this call run?"""

    session: str
    turn: int
    number: int
    call: ToolCall
    reason: str
    owner: str


@frozen
class QuestionsAsked:
    """The model wants to know something of the user."""

    session: str
    turn: int
    number: int
    questions: tuple[Question, ...]
    owner: str


@frozen
class PlanAsked:
    """The model proposes a plan."""

    session: str
    turn: int
    number: int
    plan: Plan
    owner: str


@frozen
class HookAsked:
    """The session has come to a point where the program wants to be asked."""

    session: str
    turn: int
    number: int
    point: HookPoint
    owner: str
    text: str = ""
    call: ToolCall | None = None


@frozen
class TurnEnded:
    """The turn is over."""

    session: str
    turn: int
    outcome: Outcome
    usage: Usage
    messages: tuple[Message, ...]
    """What it added to the history."""
    number: int
    """The turn as the session counts them."""


@frozen
class TurnBroken:
    """There is no turn any more, and no outcome: the program's own fault, such as a full disk or a closed session."""

    session: str
    turn: int
    error: str
    message: str


@frozen
class Faulted:
    """A message could not be read, or belongs to nothing that there is."""

    message: str
