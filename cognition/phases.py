"""Where a session stands. One class a phase, each with just what that phase needs."""

from __future__ import annotations

from typing import ClassVar, get_args

from attrs import frozen

from cognition.features import HookPoint
from cognition.ids import EffectId
from cognition.messages import MalformedToolCall, ToolCall, ToolResult
from cognition.outcomes import Completed, Failure, LimitKind
from cognition.requests import Purpose


@frozen
class ModelAttempt:
    """One attempt at a model call: its purpose, its number, and whether history was trimmed for it."""

    purpose: Purpose = "answer"
    number: int = 1
    limit: LimitKind | None = None
    """With the purpose ``final_answer``: the limit that ends this turn."""
    trimmed: bool = False
    """Whether history was trimmed after a context overflow, which is done once."""
    model: str = ""
    """The model that is called, as in ``CallModel``."""


FIRST_ATTEMPT = ModelAttempt()


@frozen
class Idle:
    """Nothing is going on; the user may speak."""

    tag: ClassVar[str] = "idle"


IDLE = Idle()


@frozen
class Thinking:
    """One model call is in flight."""

    tag: ClassVar[str] = "thinking"
    effect_id: EffectId
    attempt: ModelAttempt


@frozen
class Waiting:
    """A timer runs until the model is called again."""

    tag: ClassVar[str] = "waiting"
    effect_id: EffectId
    attempt: ModelAttempt
    failure: Failure | None = None
    """Of an agent with several models: why the one that failed is called again, for when another one works by then."""


@frozen
class Hooked:
    """The program was asked at a point of the turn that is not about a call."""

    tag: ClassVar[str] = "hooked"
    effect_id: EffectId
    point: HookPoint
    outcome: Completed | None = None
    """At the point ``stop``: how the turn will end unless the hook asks it to go on."""


@frozen
class Recalling:
    """The memory is searched before the model is called."""

    tag: ClassVar[str] = "recalling"
    effect_id: EffectId


@frozen
class Proposed:
    """The call has not been judged yet: calls before it are still open."""

    tag: ClassVar[str] = "proposed"


PROPOSED = Proposed()


@frozen
class AwaitingApproval:
    """The user was asked."""

    tag: ClassVar[str] = "awaiting_approval"
    effect_id: EffectId


@frozen
class Running:
    """The tool is at work."""

    tag: ClassVar[str] = "running"
    effect_id: EffectId


@frozen
class Retrying:
    """The call has failed in a way that may pass, and a timer runs until it is tried again."""

    tag: ClassVar[str] = "retrying"
    effect_id: EffectId
    message: str
    """The failure."""


@frozen
class AwaitingHook:
    """The program was asked about this call, before it or after it."""

    tag: ClassVar[str] = "awaiting_hook"
    effect_id: EffectId
    result: ToolResult | None = None
    """The call's result; None before the call."""


@frozen
class AwaitingAnswer:
    """The user was asked what the model wants to know, or to review a plan."""

    tag: ClassVar[str] = "awaiting_answer"
    effect_id: EffectId


@frozen
class Settled:
    """The call has its one result."""

    tag: ClassVar[str] = "settled"
    result: ToolResult


CallStatus = Proposed | AwaitingHook | AwaitingApproval | AwaitingAnswer | Running | Retrying | Settled


@frozen
class CallSlot:
    """One call of the reply and how far it is."""

    call: ToolCall
    status: CallStatus
    context: str = ""
    """What a hook wants the model to read with the result."""
    confirm: bool = False
    """Whether the model itself wants the user to be asked."""
    approved: bool = False
    """Whether the user has approved it as it stands, so that nobody asks again before a further attempt."""
    failed: int = 0
    """How often it was run and failed in a way that may pass."""

    def now(self, status: CallStatus) -> CallSlot:
        """The same call, further on."""
        return CallSlot(self.call, status, self.context, self.confirm, self.approved, self.failed)


@frozen
class Acting:
    """The calls of one reply are being carried out, in the reply's order."""

    tag: ClassVar[str] = "acting"
    slots: tuple[CallSlot, ...]
    malformed: tuple[MalformedToolCall, ...] = ()
    """What of the same reply could not be read; the model is told after the results."""
    limit: LimitKind | None = None
    """A limit that was hit on the way; it ends the turn once every call has its result."""
    answer: str = ""
    """An answer that the reply gave beside its calls; it holds if they all succeed."""
    asked_at: float | None = None
    """Since when nothing goes on and a person is waited for. This time does not count in ``Limits.seconds``."""
    cut: str = ""
    """What is said of a reply that was cut at its token limit; it ends the turn once every call has its result. Then
    ``answer`` is what had arrived of its text."""


@frozen
class Compacting:
    """The model writes a summary of the conversation's older messages, or a timer runs until it is asked again."""

    tag: ClassVar[str] = "compacting"
    effect_id: EffectId
    attempt: ModelAttempt | None
    """The model call that the turn goes on with; None where no turn is under way and somebody asked for a summary."""
    until: int
    """The summary stands for the messages of history before this one."""
    number: int = 1
    """Which attempt at the summary it is."""
    waiting: bool = False
    """Whether the effect is the timer before that attempt."""
    model: str = ""
    """The model that is asked, as in ``CallModel``."""


@frozen
class Closed:
    """The session has ended."""

    tag: ClassVar[str] = "closed"


Phase = Idle | Hooked | Recalling | Thinking | Waiting | Acting | Compacting | Closed

PHASE_TYPES: tuple[type[Phase], ...] = get_args(Phase)
"""Every phase there is; the transition table has a row for each."""


def in_flight(phase: Phase) -> tuple[EffectId, ...]:
    """The effects that this phase waits for, in the order in which they were decided."""
    if isinstance(phase, Thinking | Waiting | Hooked | Recalling | Compacting):
        return (phase.effect_id,)
    if isinstance(phase, Acting):
        return tuple(slot.status.effect_id for slot in phase.slots if not isinstance(slot.status, Proposed | Settled))
    return ()
