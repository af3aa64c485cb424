"""Where a session stands. One class a phase, each with just what that phase needs."""

from __future__ import annotations

from attrs import frozen

from cognition.ids import EffectId
from cognition.messages import MalformedToolCall, ToolCall, ToolResult
from cognition.outcomes import LimitKind
from cognition.requests import Purpose


@frozen
class ModelAttempt:
    """One try at a model call: what for, the how manieth, and what was already done to make it fit."""

    purpose: Purpose = "answer"
    number: int = 1
    limit: LimitKind | None = None
    """With purpose ``final_answer``: the limit that ends this turn."""
    trimmed: bool = False
    """The context was cut after an overflow; it is done once."""


@frozen
class Idle:
    """Nothing is going on; the user may speak."""


@frozen
class Thinking:
    """One model call is in flight."""

    effect_id: EffectId
    attempt: ModelAttempt


@frozen
class Waiting:
    """A timer runs until the model is called again."""

    effect_id: EffectId
    attempt: ModelAttempt


@frozen
class Proposed:
    """The call has not been judged yet: calls before it are still open."""


@frozen
class AwaitingApproval:
    """The user was asked."""

    effect_id: EffectId


@frozen
class Running:
    """The tool is at work."""

    effect_id: EffectId


@frozen
class Settled:
    """The call has its one result."""

    result: ToolResult


CallStatus = Proposed | AwaitingApproval | Running | Settled


@frozen
class CallSlot:
    """One call of the reply and how far it is."""

    call: ToolCall
    status: CallStatus


@frozen
class Acting:
    """The calls of one reply are being carried out, in the reply's order."""

    slots: tuple[CallSlot, ...]
    malformed: tuple[MalformedToolCall, ...] = ()
    """What of the same reply could not be read; the model is told after the results."""
    limit: LimitKind | None = None
    """A limit that was hit on the way; it ends the turn once every call has its result."""


@frozen
class Closed:
    """The session has ended."""


Phase = Idle | Thinking | Waiting | Acting | Closed

PHASE_TYPES: tuple[type[Phase], ...] = (Idle, Thinking, Waiting, Acting, Closed)
"""Every phase there is; the transition table has a row for each."""
