"""The phases of a session: a class for each, with only the data that the phase needs."""

from __future__ import annotations

from typing import ClassVar, get_args

from attrs import frozen

from cognition.base.ids import EffectId
from cognition.steps.requests import Purpose
from cognition.values.features import HookPoint
from cognition.values.messages import MalformedToolCall, ToolCall, ToolResult
from cognition.values.outcomes import Completed, Failure, LimitKind


@frozen
class ModelAttempt:
    """An attempt at a model call: its purpose, its number, and whether history was trimmed for it."""

    purpose: Purpose = "answer"
    number: int = 1
    limit: LimitKind | None = None
    """With the purpose ``final_answer``: the limit that ends this turn."""
    trimmed: bool = False
    """In edition 1: whether history was trimmed after a context overflow; this happens at most once."""
    model: str = ""
    """The called model, named as in ``CallModel``."""
    rebuilt: int = 0
    """How often the request was built smaller because this model's runtime refused it as too long."""


FIRST_ATTEMPT = ModelAttempt()


@frozen
class Idle:
    """No turn is running; the user may send a message."""

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
    """For an agent with several models: the failure behind this retry. It is needed if another model works again by
    then.
    """


@frozen
class Hooked:
    """The program was asked at a hook point that does not concern a call."""

    tag: ClassVar[str] = "hooked"
    effect_id: EffectId
    point: HookPoint
    outcome: Completed | None = None
    """At the point ``stop``: the turn's outcome unless the hook asks for another model call."""


@frozen
class Recalling:
    """The memory is searched before the model is called."""

    tag: ClassVar[str] = "recalling"
    effect_id: EffectId


@frozen
class Proposed:
    """The call has not been judged yet: earlier calls are still open."""

    tag: ClassVar[str] = "proposed"


PROPOSED = Proposed()


@frozen
class AwaitingApproval:
    """The user was asked."""

    tag: ClassVar[str] = "awaiting_approval"
    effect_id: EffectId


@frozen
class Running:
    """The tool is running."""

    tag: ClassVar[str] = "running"
    effect_id: EffectId


@frozen
class Retrying:
    """The call has failed in a way that may pass; a timer runs until the next attempt."""

    tag: ClassVar[str] = "retrying"
    effect_id: EffectId
    message: str


@frozen
class AwaitingHook:
    """The program was asked about this call, before or after it ran."""

    tag: ClassVar[str] = "awaiting_hook"
    effect_id: EffectId
    result: ToolResult | None = None
    """The call's result; None before the call ran."""


@frozen
class AwaitingAnswer:
    """The user was asked the model's question, or to review a plan."""

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
    """A call of the reply and its progress."""

    call: ToolCall
    status: CallStatus
    context: str = ""
    """A hook's note to the model, sent with the result."""
    confirm: bool = False
    """Whether the model itself requests the user's confirmation."""
    approved: bool = False
    """Whether the user has approved exactly this call. Later attempts then do not ask again."""
    failed: int = 0
    """How often it ran and failed in a way that may pass."""

    def now(self, status: CallStatus) -> CallSlot:
        return CallSlot(self.call, status, self.context, self.confirm, self.approved, self.failed)


@frozen
class Acting:
    """The calls of one reply are running, in the reply's order."""

    tag: ClassVar[str] = "acting"
    slots: tuple[CallSlot, ...]
    malformed: tuple[MalformedToolCall, ...] = ()
    """Unreadable calls of the same reply; the model gets them after the results."""
    limit: LimitKind | None = None
    """A limit reached during the calls; it ends the turn once every call has its result."""
    answer: str = ""
    """An answer in the same reply as the calls; it holds if they all succeed."""
    asked_at: float | None = None
    """The time since when only a person is being waited for. This wait does not count in ``Limits.seconds``."""
    cut: str = ""
    """The message about a reply cut at its token limit; it ends the turn once every call has its result. ``answer`` is
    then the partial text.
    """


@frozen
class Compacting:
    """The model is writing a summary of older messages, or a timer runs until the next attempt at it."""

    tag: ClassVar[str] = "compacting"
    effect_id: EffectId
    attempt: ModelAttempt | None
    """The model call that follows in the turn; None if a summary was requested between turns."""
    until: int
    """The summary replaces the messages of history before this index."""
    number: int = 1
    """The number of the attempt at the summary."""
    waiting: bool = False
    """Whether the effect is the timer before the attempt."""
    model: str = ""
    """The called model, named as in ``CallModel``."""
    target: int | None = None
    """If the messages do not fit into one request: the index before which the last of several summaries replaces all
    messages.
    """

    shares_prefix: bool = False
    """Whether the request is the conversation's own prompt, up to ``until``, with the instruction behind it."""

    @property
    def end(self) -> int:
        """The index before which all messages are to be summarised."""
        return self.until if self.target is None else self.target


@frozen
class Closed:
    """The session has ended."""

    tag: ClassVar[str] = "closed"


Phase = Idle | Hooked | Recalling | Thinking | Waiting | Acting | Compacting | Closed

PHASE_TYPES: tuple[type[Phase], ...] = get_args(Phase)
"""Every phase type; the transition table covers each."""


def in_flight(phase: Phase) -> tuple[EffectId, ...]:
    """Return the effects that this phase waits for, in the order of the decisions."""
    if isinstance(phase, Thinking | Waiting | Hooked | Recalling | Compacting):
        return (phase.effect_id,)
    if isinstance(phase, Acting):
        return tuple(slot.status.effect_id for slot in phase.slots if not isinstance(slot.status, Proposed | Settled))
    return ()
