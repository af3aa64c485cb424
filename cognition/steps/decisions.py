"""Decisions of an engine, in the imperative. *Effects* need an answer and carry an id; *notices* need no answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, get_args

from attrs import field, frozen

from cognition.base.ids import EffectId
from cognition.policy import NO_RULES, AccessRules, Action, Rule
from cognition.steps.config import Limits
from cognition.steps.inputs import EffectAnswer
from cognition.steps.requests import ModelRequest, Purpose
from cognition.values.candidates import Choice, SectionUse
from cognition.values.features import HookPoint, Mode, Plan, Question, Task, WorkerSpec
from cognition.values.messages import ToolCall, Usage
from cognition.values.outcomes import ErrorKind, LimitKind, Outcome


@frozen
class CallModel:
    """Ask the model. Answered by ModelReplied, ModelFailed or ModelInterrupted."""

    tag: ClassVar[str] = "call_model"
    effect_id: EffectId
    purpose: Purpose
    request: ModelRequest
    seconds: float | None = None
    """The time limit of the call: the rest of ``Limits.seconds``. The interpreter then cancels the call and answers
    with ``ModelInterrupted(late=True)``.
    """
    model: str = ""
    """The name of the model in ``AgentConfig.models``; empty for the agent's own."""


@frozen
class CallTool:
    """Run a tool. Answered by ToolReturned or ToolFailed."""

    tag: ClassVar[str] = "call_tool"
    effect_id: EffectId
    call: ToolCall
    access: AccessRules = field(default=NO_RULES, repr=False)
    """Policy's rules for the files and programs that the tool reaches without naming them."""


@frozen
class AskApproval:
    """Ask the user whether a call may run. Answered by ApprovalGiven or ApprovalRefused."""

    tag: ClassVar[str] = "ask_approval"
    effect_id: EffectId
    call: ToolCall
    reason: str = ""
    access: AccessRules = field(default=NO_RULES, repr=False)
    """As in ``CallTool``: a preview of the call shows how they are enforced."""


@frozen
class StartTimer:
    """Wait. Answered by TimerFired."""

    tag: ClassVar[str] = "start_timer"
    effect_id: EffectId
    seconds: float


@frozen
class AskUser:
    """Ask the user the model's questions. Answered by QuestionAnswered."""

    tag: ClassVar[str] = "ask_user"
    effect_id: EffectId
    questions: tuple[Question, ...]


@frozen
class ReviewPlan:
    """Show the user a plan. Answered by PlanReviewed."""

    tag: ClassVar[str] = "review_plan"
    effect_id: EffectId
    plan: Plan


@frozen
class Recall:
    """Search the memory. Answered by MemoryRecalled."""

    tag: ClassVar[str] = "recall"
    effect_id: EffectId
    query: str


@frozen
class SpawnWorker:
    """Start an engine with its own state on a part of the work.

    Answered by WorkerFinished, WorkerFailed or WorkerStalled. The worker never has more rights than the parent: its
    policy is the parent's, with these rules added, in this mode.
    """

    tag: ClassVar[str] = "spawn_worker"
    effect_id: EffectId
    worker: WorkerSpec
    context: tuple[tuple[str, str], ...]
    """Name and result of each worker that this worker waited for."""
    limits: Limits
    """The rest of the parent's budgets."""
    remembered: tuple[Rule, ...]
    mode: Mode


@frozen
class RunHook:
    """Ask the program at a hook point. Answered by HookReturned."""

    tag: ClassVar[str] = "run_hook"
    effect_id: EffectId
    point: HookPoint
    text: str = ""
    """The user's message, the result, or the answer that the hook is about."""
    call: ToolCall | None = None
    """The call that the hook is about."""


Effect = CallModel | CallTool | AskApproval | AskUser | ReviewPlan | Recall | SpawnWorker | RunHook | StartTimer


@frozen
class CancelEffect:
    """Stop working on an effect; an answer that still arrives is rejected."""

    tag: ClassVar[str] = "cancel_effect"
    effect_id: EffectId


@frozen
class ContextAssembled:
    """The content of a request, and how much was left out."""

    tag: ClassVar[str] = "context_assembled"
    messages: int
    dropped: int
    """Messages of history that the request leaves out, oldest first."""
    tokens: int
    """The size of the prompt in tokens: an upper bound if ``counted``, else an estimate."""
    budget: int
    """The tokens meant for the prompt. A prompt that fits in no other way takes more."""
    shortened: int = 0
    """How many of its tool results, and of its replies with long arguments, are shortened to save room."""
    turns: int = 0
    """How many whole turns are in ``dropped``."""
    counted: bool = False
    """Whether sizes are sums of counts by the model's own tokenizer; otherwise they are estimates."""

    @property
    def remaining(self) -> int:
        """Tokens of the budget that are left; negative if the prompt takes more."""
        return self.budget - self.tokens


@frozen
class ContextChosen:
    """The decisions on the candidates for this turn's prompts."""

    tag: ClassVar[str] = "context_chosen"
    choices: tuple[Choice, ...]
    """An entry for each candidate, in the given order."""
    sections: tuple[SectionUse, ...]
    """The budget and use of each section, in prompt order."""


@frozen
class Compacted:
    """From now on requests show a summary in place of older messages, which stay in history."""

    tag: ClassVar[str] = "compacted"
    messages: int
    """How many messages the summary replaces, with those that had been left out since the summary before."""
    before: int
    """Estimated size in tokens of a prompt with all of these messages."""
    after: int
    """The same with the summary; always smaller."""


@frozen
class NotCompacted:
    """A requested summary failed; requests stay unchanged."""

    tag: ClassVar[str] = "not_compacted"
    reason: str


@frozen
class RetryPlanned:
    """A model call or a repeatable tool call has failed and will be repeated."""

    tag: ClassVar[str] = "retry_planned"
    kind: ErrorKind
    message: str
    attempt: int
    """The number of the next attempt, from 2."""
    seconds: float
    """How long the interpreter waits first; 0 means no wait."""
    call_id: str = ""
    """The id of the tool call; empty for a model call."""


@frozen
class FellBack:
    """A model call has failed and is repeated with another model."""

    tag: ClassVar[str] = "fell_back"
    model: str
    """The failed model, named as in ``CallModel``."""
    to: str
    kind: ErrorKind
    message: str


@frozen
class BreakerOpened:
    """A model has failed so often that calls to it pause, if there is another model."""

    tag: ClassVar[str] = "breaker_opened"
    model: str
    """As in ``CallModel``."""
    seconds: float
    kind: ErrorKind
    message: str


@frozen
class BreakerClosed:
    """A model with an open breaker has answered."""

    tag: ClassVar[str] = "breaker_closed"
    model: str


@frozen
class LimitHit:
    """A budget is used up; the turn ends, perhaps after one last answer."""

    tag: ClassVar[str] = "limit_hit"
    limit: LimitKind
    detail: str


@frozen
class TurnFinished:
    """The turn is over. The last decision of each turn, and only there."""

    tag: ClassVar[str] = "turn_finished"
    outcome: Outcome
    usage: Usage
    """The usage of all model calls of this turn and its workers."""


@frozen
class Remember:
    """Save a note."""

    tag: ClassVar[str] = "remember"
    text: str


@frozen
class TasksChanged:
    """The agent's list of tasks, whole."""

    tag: ClassVar[str] = "tasks_changed"
    tasks: tuple[Task, ...]


@frozen
class PlanChanged:
    """The plan under execution, or None when it has ended."""

    tag: ClassVar[str] = "plan_changed"
    plan: Plan | None


@frozen
class ModeSet:
    """The mode from now on. Send this to workers: they must never have more rights than their parent."""

    tag: ClassVar[str] = "mode_set"
    mode: Mode


@frozen
class RulesForgotten:
    """The user withdrew "from now on" rules. Send this to workers: they must never have more rights than the parent."""

    tag: ClassVar[str] = "rules_forgotten"
    rules: tuple[str, ...] = ()
    """The patterns as the user gave them; empty for all."""


@frozen
class CallJudged:
    """The policy's decision on a call, if a rule decided or the call is denied; plain permission gives no notice. The
    user's decision is in the user's answer.
    """

    tag: ClassVar[str] = "call_judged"
    call_id: str
    action: Action
    rule: str = ""
    """The pattern of the deciding rule; empty if no rule decided, for example if a mode denies the call."""
    reason: str = ""


@frozen
class SessionClosed:
    """The session is closed; every later input is rejected."""

    tag: ClassVar[str] = "session_closed"


RejectReason = Literal["stale", "foreign", "out_of_phase", "closed"]
"""Why an input changed nothing: its effect is over, its effect was never decided, the phase can't use it, or the
session is closed.
"""


@frozen
class Rejected:
    """An input that did not fit; the state is unchanged."""

    tag: ClassVar[str] = "rejected"
    reason: RejectReason
    input: str
    """The input's type name."""
    detail: str
    effect_id: EffectId | None = None


Notice = (
    CancelEffect
    | ContextAssembled
    | ContextChosen
    | Compacted
    | NotCompacted
    | RetryPlanned
    | FellBack
    | BreakerOpened
    | BreakerClosed
    | LimitHit
    | Remember
    | TasksChanged
    | PlanChanged
    | ModeSet
    | RulesForgotten
    | CallJudged
    | TurnFinished
    | SessionClosed
    | Rejected
)
Decision = Effect | Notice

EFFECT_TYPES: tuple[type[Effect], ...] = get_args(Effect)
NOTICE_TYPES: tuple[type[Notice], ...] = get_args(Notice)
DECISION_TYPES: tuple[type[Decision], ...] = get_args(Decision)

ANSWERS: Mapping[type[Effect], tuple[type[EffectAnswer], ...]] = {
    effect: tuple(answer for answer in get_args(EffectAnswer) if answer.settles == effect.tag)
    for effect in EFFECT_TYPES
}
"""For each effect, the inputs that answer it."""
