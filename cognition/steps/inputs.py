"""Events, in the past tense. Each input that answers an effect carries the effect's id.

``at`` is the time in seconds since the epoch, stamped by the interpreter: the core has no clock. ``tag`` is the
recorded name of an input; it never changes, even if the class is renamed. ``settles`` is the tag of the effect that an
input answers.
"""

from __future__ import annotations

from typing import ClassVar, Literal, get_args

from attrs import field, frozen

from cognition.base.ids import EffectId
from cognition.values.candidates import Candidate
from cognition.values.content import Image, Part, check_parts, text_of
from cognition.values.counts import TemplateCosts, Tokens
from cognition.values.features import Mode
from cognition.values.messages import MalformedToolCall, ProposedCall, Usage, schema_text
from cognition.values.outcomes import Failure, FinishReason


@frozen
class UserSpoke:
    """The user sent a message: a turn begins."""

    tag: ClassVar[str] = "user_spoke"
    text: str
    """The message's text. If ``parts`` is given, their texts replace it."""
    returns: str = field(default="", converter=schema_text)
    """The JSON Schema of this turn's answer, as JSON text (a mapping is encoded). Empty: use
    ``GenerationOptions.response_format``, which applies to every turn.
    """
    parts: tuple[Part, ...] = ()
    """Texts and pictures in order; empty for a message of text only."""
    system: str | None = None
    """The system prompt from now on, if the program changes it; None keeps the current prompt."""
    context: tuple[Candidate, ...] = ()
    """Candidates for this turn's prompts, in addition to the conversation; the engine chooses. They replace the
    candidates of earlier messages.
    """
    dense: int = field(default=0, repr=False)
    """The most tokens that any ``counts.PIECE`` characters of ``context`` have; 0 if not counted."""
    tokens: Tokens = field(default=(), repr=False)
    """The tokens that the message adds to a prompt, by the model's own tokenizer; empty if not counted (``counts``)."""
    costs: TemplateCosts | None = field(default=None, repr=False)
    """The template's costs from now on; None if unchanged or if no counts are available."""
    earlier: tuple[Tokens, ...] = field(default=(), repr=False)
    """With ``costs``: the tokens of the newest messages before this message, oldest first."""
    at: float = field(default=0.0, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.parts:
            check_parts(self.parts)
            object.__setattr__(self, "text", text_of(self.parts))


@frozen
class ModelReplied:
    """A model call ended with a reply."""

    tag: ClassVar[str] = "model_replied"
    settles: ClassVar[str] = "call_model"
    effect_id: EffectId
    text: str = ""
    reasoning: str = ""
    calls: tuple[ProposedCall, ...] = ()
    malformed: tuple[MalformedToolCall, ...] = ()
    finish_reason: FinishReason = "stop"
    usage: Usage = field(factory=Usage)
    objection: str = ""
    """The error in the reply as the turn's typed answer, sent to the model; empty if it is valid or unchecked."""
    tokens: Tokens = field(default=(), repr=False)
    """The tokens that the reply adds to the next prompt, as in ``UserSpoke``."""
    continuation: str = field(default="", repr=False)
    """As in ``AssistantMessage``."""
    at: float = field(default=0.0, kw_only=True)


@frozen
class ModelFailed:
    """A model call ended with an error."""

    tag: ClassVar[str] = "model_failed"
    settles: ClassVar[str] = "call_model"
    effect_id: EffectId
    failure: Failure
    partial_text: str = ""
    """The text that already reached the user. A call that showed text is not silently repeated."""
    usage: Usage = field(factory=Usage)
    at: float = field(default=0.0, kw_only=True)


@frozen
class ModelInterrupted:
    """A model call was stopped from outside: its time was over, or the runtime closed."""

    tag: ClassVar[str] = "model_interrupted"
    settles: ClassVar[str] = "call_model"
    effect_id: EffectId
    partial_text: str = ""
    usage: Usage = field(factory=Usage)
    late: bool = False
    """Whether it was stopped because it reached ``CallModel.seconds``."""
    at: float = field(default=0.0, kw_only=True)


@frozen
class ToolReturned:
    """A tool returned its result, as text for the model."""

    tag: ClassVar[str] = "tool_returned"
    settles: ClassVar[str] = "call_tool"
    effect_id: EffectId
    content: str
    tokens: Tokens = field(default=(), repr=False)
    """The tokens that the result adds to a prompt: without its text, then for each ``counts.PIECE`` characters of the
    text; empty if not counted. The same applies to each input that becomes a result.
    """
    images: tuple[Image, ...] = ()
    """Pictures of the result; the text names their places. The model gets them after all results."""
    at: float = field(default=0.0, kw_only=True)


@frozen
class ToolFailed:
    """A tool raised, timed out, or rejected its arguments."""

    tag: ClassVar[str] = "tool_failed"
    settles: ClassVar[str] = "call_tool"
    effect_id: EffectId
    message: str
    transient: bool = False
    """Whether the failure may pass, such as an unreachable server: a tool with ``retries`` then runs again."""
    tokens: Tokens = field(default=(), repr=False)
    """As in ``ToolReturned``, for the text from ``error_text``."""
    at: float = field(default=0.0, kw_only=True)


def error_text(message: str) -> str:
    """Return the text about a tool's failure that the model gets."""
    return f"Error: {message}"


@frozen
class ApprovalGiven:
    """The user allows a call. ``always``: also every later call of this tool, or every call that ``rule`` covers."""

    tag: ClassVar[str] = "approval_given"
    settles: ClassVar[str] = "ask_approval"
    effect_id: EffectId
    always: bool = False
    rule: str = ""
    """With ``always``: the pattern to remember instead of the whole tool, such as ``Bash(git commit:*)``. If it is for
    another tool or does not cover the call, nothing is remembered.
    """
    arguments_json: str | None = None
    """Arguments to run the tool with, instead of the arguments shown to the user. Policy judges them again: this
    approval covers a policy question, but a denied call does not run.
    """
    at: float = field(default=0.0, kw_only=True)


@frozen
class ApprovalRefused:
    """The user refuses a call. ``always``: also every later call of this tool, or every call that ``rule`` covers."""

    tag: ClassVar[str] = "approval_refused"
    settles: ClassVar[str] = "ask_approval"
    effect_id: EffectId
    reason: str = ""
    always: bool = False
    rule: str = ""
    """With ``always``: the pattern to refuse from now on, instead of the whole tool. If it is for another tool,
    nothing is remembered.
    """
    failed: bool = False
    """Nobody was asked, since the call would fail: ``reason`` is its error, which the model receives."""
    at: float = field(default=0.0, kw_only=True)


@frozen
class QuestionAnswered:
    """The user answered: the chosen options of each question, several only if the question allows it."""

    tag: ClassVar[str] = "question_answered"
    settles: ClassVar[str] = "ask_user"
    effect_id: EffectId
    answers: tuple[tuple[str, ...], ...]
    at: float = field(default=0.0, kw_only=True)


@frozen
class PlanReviewed:
    """The user approved a plan, or sent it back with feedback."""

    tag: ClassVar[str] = "plan_reviewed"
    settles: ClassVar[str] = "review_plan"
    effect_id: EffectId
    approved: bool
    feedback: str = ""
    at: float = field(default=0.0, kw_only=True)


@frozen
class MemoryRecalled:
    """The memory was searched. ``items`` are the notes found, best first."""

    tag: ClassVar[str] = "memory_recalled"
    settles: ClassVar[str] = "recall"
    effect_id: EffectId
    items: tuple[str, ...] = ()
    tokens: Tokens = field(default=(), repr=False)
    """As in ``ToolReturned``, for the items, one per line."""
    at: float = field(default=0.0, kw_only=True)


@frozen
class WorkerFinished:
    """A worker ended its work with a result."""

    tag: ClassVar[str] = "worker_finished"
    settles: ClassVar[str] = "spawn_worker"
    effect_id: EffectId
    text: str
    usage: Usage = field(factory=Usage)
    tokens: Tokens = field(default=(), repr=False)
    """As in ``ToolReturned``."""
    at: float = field(default=0.0, kw_only=True)


@frozen
class WorkerFailed:
    """A worker could not do its work."""

    tag: ClassVar[str] = "worker_failed"
    settles: ClassVar[str] = "spawn_worker"
    effect_id: EffectId
    message: str
    usage: Usage = field(factory=Usage)
    at: float = field(default=0.0, kw_only=True)


@frozen
class WorkerStalled:
    """A worker made no progress and was stopped."""

    tag: ClassVar[str] = "worker_stalled"
    settles: ClassVar[str] = "spawn_worker"
    effect_id: EffectId
    message: str = ""
    usage: Usage = field(factory=Usage)
    at: float = field(default=0.0, kw_only=True)


@frozen
class HookReturned:
    """The program's answer at a hook point.

    ``continue`` allows the message or the call in question; ``refuse`` stops it. ``go_on`` (at ``stop``) asks for
    another model call in place of the turn's end. Report a failed guard hook as a refusal: hooks fail closed.
    """

    tag: ClassVar[str] = "hook_returned"
    settles: ClassVar[str] = "run_hook"
    effect_id: EffectId
    verdict: Literal["continue", "refuse", "go_on"] = "continue"
    reason: str = ""
    arguments_json: str | None = None
    """At ``before_tool``: arguments to run the tool with instead of the model's. Policy judges them again."""
    context: str = ""
    """A note to the model."""
    at: float = field(default=0.0, kw_only=True)


@frozen
class TimerFired:
    """A timer ran out."""

    tag: ClassVar[str] = "timer_fired"
    settles: ClassVar[str] = "start_timer"
    effect_id: EffectId
    at: float = field(default=0.0, kw_only=True)


@frozen
class CancelAsked:
    """The user or the program asks the turn to stop."""

    tag: ClassVar[str] = "cancel_asked"
    reason: str = ""
    partial_text: str = ""
    """The part of the model's reply that the user has seen; it stays in history as an interrupted message."""
    usage: Usage = field(factory=Usage)
    """The usage of the stopped reply, if known: unread tokens cost the same."""
    not_begun: tuple[EffectId, ...] = ()
    """Effects in flight that certainly never began. The model is informed that any other call may have happened."""
    returned: tuple[EffectId, ...] = ()
    """Effects in flight that certainly ended, although their results are lost."""
    at: float = field(default=0.0, kw_only=True)


@frozen
class ModeChanged:
    """The user changed how much may happen without approval."""

    tag: ClassVar[str] = "mode_changed"
    mode: Mode
    at: float = field(default=0.0, kw_only=True)


@frozen
class ModelChosen:
    """The user or the program chose the model that answers from the next call on."""

    tag: ClassVar[str] = "model_chosen"
    model: str
    """A name from ``AgentConfig.models``, or empty for the agent's own."""
    at: float = field(default=0.0, kw_only=True)


@frozen
class ApprovalsForgotten:
    """The user withdraws "from now on" rules."""

    tag: ClassVar[str] = "approvals_forgotten"
    rules: tuple[str, ...] = ()
    """The patterns of the withdrawn rules, refusals too; empty for all remembered rules."""
    at: float = field(default=0.0, kw_only=True)


@frozen
class CompactionAsked:
    """A request to summarise the conversation so far; requests then show the summary in its place."""

    tag: ClassVar[str] = "compaction_asked"
    at: float = field(default=0.0, kw_only=True)


@frozen
class SessionReset:
    """The conversation starts again; ids keep counting."""

    tag: ClassVar[str] = "session_reset"
    at: float = field(default=0.0, kw_only=True)


@frozen
class ShutdownAsked:
    """The session ends for good."""

    tag: ClassVar[str] = "shutdown_asked"
    at: float = field(default=0.0, kw_only=True)


EffectAnswer = (
    ModelReplied
    | ModelFailed
    | ModelInterrupted
    | ToolReturned
    | ToolFailed
    | ApprovalGiven
    | ApprovalRefused
    | QuestionAnswered
    | PlanReviewed
    | MemoryRecalled
    | WorkerFinished
    | WorkerFailed
    | WorkerStalled
    | HookReturned
    | TimerFired
)
"""Inputs that answer an effect."""

Input = (
    UserSpoke
    | EffectAnswer
    | CancelAsked
    | ModeChanged
    | ModelChosen
    | ApprovalsForgotten
    | CompactionAsked
    | SessionReset
    | ShutdownAsked
)

INPUT_TYPES: tuple[type[Input], ...] = get_args(Input)
"""Every input type; the transition table has a row for each."""
