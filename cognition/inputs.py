"""What happened, in the past tense. Each input that answers an effect carries the effect's id.

``at`` is the time in seconds since the epoch, stamped by the interpreter: the core has no clock. ``tag`` is the name
under which an input is recorded: it stays what it is, whatever becomes of the class's name. ``settles`` is the tag of
the effect that an input answers.
"""

from __future__ import annotations

from typing import ClassVar, Literal, get_args

from attrs import field, frozen

from cognition.candidates import Candidate
from cognition.content import Image, Part, check_parts, text_of
from cognition.counts import TemplateCosts, Tokens
from cognition.features import Mode
from cognition.ids import EffectId
from cognition.messages import MalformedToolCall, ProposedCall, Usage, schema_text
from cognition.outcomes import Failure, FinishReason


@frozen
class UserSpoke:
    """The user said something: a turn begins."""

    tag: ClassVar[str] = "user_spoke"
    text: str
    """All that was said in words; of a message in parts, their texts, whatever is given here."""
    returns: str = field(default="", converter=schema_text)
    """The JSON Schema of this turn's answer, as JSON text (a mapping is encoded); empty for the configuration's
    ``GenerationOptions.response_format``, which holds for every turn."""
    parts: tuple[Part, ...] = ()
    """Texts and pictures in their order; empty for a message of nothing but text."""
    system: str | None = None
    """The system prompt from here on, where the program makes it anew; None where it stays as it is."""
    context: tuple[Candidate, ...] = ()
    """What may stand in this turn's prompts beside the conversation; the engine chooses. Nothing stays of what came
    with earlier messages."""
    dense: int = field(default=0, repr=False)
    """The most tokens that ``counts.PIECE`` characters of ``context`` have; 0 where nobody has counted."""
    tokens: Tokens = field(default=(), repr=False)
    """What the message adds to a prompt, counted by the model's own tokenizer; empty where nobody has (``counts``)."""
    costs: TemplateCosts | None = field(default=None, repr=False)
    """What prompts have beside their messages from here on; None where that stays as it is, or nobody can count."""
    earlier: tuple[Tokens, ...] = field(default=(), repr=False)
    """With ``costs``: the tokens of the newest messages before this one, oldest first."""
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
    """What is wrong with the reply as the turn's answer, where one of a type was asked for; empty if nothing is, or
    nobody looked. The model is told."""
    tokens: Tokens = field(default=(), repr=False)
    """What the reply adds to the next prompt, as in ``UserSpoke``."""
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
    """What had already reached the user; a call that showed text is not silently made again."""
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
    """Whether it was stopped because it took as long as ``CallModel.seconds`` says."""
    at: float = field(default=0.0, kw_only=True)


@frozen
class ToolReturned:
    """A tool gave its result, as text for the model."""

    tag: ClassVar[str] = "tool_returned"
    settles: ClassVar[str] = "call_tool"
    effect_id: EffectId
    content: str
    tokens: Tokens = field(default=(), repr=False)
    """What the result adds to a prompt: beside its text, and for each ``counts.PIECE`` characters of it; empty where
    nobody has counted. So in each input that becomes a result."""
    images: tuple[Image, ...] = ()
    """Pictures of the result, which the text names where they belong. The model is shown them behind all results."""
    at: float = field(default=0.0, kw_only=True)


@frozen
class ToolFailed:
    """A tool raised, timed out, or was given arguments that it can't take."""

    tag: ClassVar[str] = "tool_failed"
    settles: ClassVar[str] = "call_tool"
    effect_id: EffectId
    message: str
    transient: bool = False
    """Whether it may pass, such as an unreachable server: then a tool with ``retries`` is run again."""
    tokens: Tokens = field(default=(), repr=False)
    """As in ``ToolReturned``, of the text that ``error_text`` gives."""
    at: float = field(default=0.0, kw_only=True)


def error_text(message: str) -> str:
    """What the model reads of a tool's failure."""
    return f"Error: {message}"


@frozen
class ApprovalGiven:
    """The user lets a call run. ``always``: every later call of this tool may run too, or what ``rule`` says."""

    tag: ClassVar[str] = "approval_given"
    settles: ClassVar[str] = "ask_approval"
    effect_id: EffectId
    always: bool = False
    rule: str = ""
    """With ``always``: the pattern that is remembered instead of the whole tool, such as ``Bash(git commit:*)``. One
    that is not for this tool, or does not cover the call, is not remembered, and nothing is in its place."""
    arguments_json: str | None = None
    """Arguments to run the tool with instead of those that the user was asked about. They are judged again; what policy
    asks about is approved by this, and what it denies does not run."""
    at: float = field(default=0.0, kw_only=True)


@frozen
class ApprovalRefused:
    """The user refuses a call. ``always``: every later call of this tool is refused too, or what ``rule`` says."""

    tag: ClassVar[str] = "approval_refused"
    settles: ClassVar[str] = "ask_approval"
    effect_id: EffectId
    reason: str = ""
    always: bool = False
    rule: str = ""
    """With ``always``: the pattern of what is refused from now on, instead of the whole tool. One that is not for this
    tool is not remembered, and nothing is in its place."""
    at: float = field(default=0.0, kw_only=True)


@frozen
class QuestionAnswered:
    """The user answered: for each question the chosen options, several only where the question allows it."""

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
    """The memory was searched. ``items`` are the notes that were found, best first."""

    tag: ClassVar[str] = "memory_recalled"
    settles: ClassVar[str] = "recall"
    effect_id: EffectId
    items: tuple[str, ...] = ()
    tokens: Tokens = field(default=(), repr=False)
    """As in ``ToolReturned``, of the items, each on a line of its own."""
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
    """A worker made no progress and was given up."""

    tag: ClassVar[str] = "worker_stalled"
    settles: ClassVar[str] = "spawn_worker"
    effect_id: EffectId
    message: str = ""
    usage: Usage = field(factory=Usage)
    at: float = field(default=0.0, kw_only=True)


@frozen
class HookReturned:
    """The program's answer at a hook point.

    ``continue`` lets happen what the hook is about, and ``refuse`` stops it: the message, or the call. ``go_on`` (at
    ``stop``) asks for another model call in place of the turn's end.
    A hook that failed must be reported as a refusal where it guards something: hooks fail closed.
    """

    tag: ClassVar[str] = "hook_returned"
    settles: ClassVar[str] = "run_hook"
    effect_id: EffectId
    verdict: Literal["continue", "refuse", "go_on"] = "continue"
    reason: str = ""
    arguments_json: str | None = None
    """At ``before_tool``: arguments to run the tool with instead of the model's. They are judged again."""
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
    """Somebody wants the turn to stop."""

    tag: ClassVar[str] = "cancel_asked"
    reason: str = ""
    partial_text: str = ""
    """The part of the model's reply that the user has seen; it stays in history as an interrupted message."""
    usage: Usage = field(factory=Usage)
    """What the reply that was stopped had used, where it is known: tokens that nobody reads cost the same."""
    not_begun: tuple[EffectId, ...] = ()
    """Effects in flight that are known never to have begun. Of any other call the model is told that it may have
    happened."""
    returned: tuple[EffectId, ...] = ()
    """Effects in flight that are known to have ended, though their results are lost."""
    at: float = field(default=0.0, kw_only=True)


@frozen
class ModeChanged:
    """The user lets more or less happen without being asked."""

    tag: ClassVar[str] = "mode_changed"
    mode: Mode
    at: float = field(default=0.0, kw_only=True)


@frozen
class ModelChosen:
    """Somebody chooses the model that answers from the next call on."""

    tag: ClassVar[str] = "model_chosen"
    model: str
    """One of ``AgentConfig.models``, or empty for the agent's own."""
    at: float = field(default=0.0, kw_only=True)


@frozen
class ApprovalsForgotten:
    """The user takes back what was said "from now on"."""

    tag: ClassVar[str] = "approvals_forgotten"
    rules: tuple[str, ...] = ()
    """The patterns of the rules that hold no longer, refusals too; empty for all that are remembered."""
    at: float = field(default=0.0, kw_only=True)


@frozen
class CompactionAsked:
    """Somebody wants the conversation so far summarised, so that requests show the summary in its place."""

    tag: ClassVar[str] = "compaction_asked"
    at: float = field(default=0.0, kw_only=True)


@frozen
class SessionReset:
    """The conversation starts anew; ids go on counting."""

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
"""Every input there is; the transition table has a column for each."""
