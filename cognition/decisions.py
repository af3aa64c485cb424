"""What to do, in the imperative. *Effects* want an answer and carry an id; *notices* want none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, get_args

from attrs import frozen

from cognition.candidates import Choice, SectionUse
from cognition.config import Limits
from cognition.features import HookPoint, Mode, Plan, Question, Task, WorkerSpec
from cognition.ids import EffectId
from cognition.inputs import EffectAnswer
from cognition.messages import ToolCall, Usage
from cognition.outcomes import ErrorKind, LimitKind, Outcome
from cognition.policy import Action, Rule
from cognition.requests import ModelRequest, Purpose


@frozen
class CallModel:
    """Ask the model. Answered by ModelReplied, ModelFailed or ModelInterrupted."""

    tag: ClassVar[str] = "call_model"
    effect_id: EffectId
    purpose: Purpose
    request: ModelRequest
    seconds: float | None = None
    """How long it may take: what is left of ``Limits.seconds``. Whoever carries it out cancels it then, and answers
    with ``ModelInterrupted(late=True)``."""
    model: str = ""
    """Which of ``AgentConfig.models`` it is; empty for the agent's own."""


@frozen
class CallTool:
    """Run a tool. Answered by ToolReturned or ToolFailed."""

    tag: ClassVar[str] = "call_tool"
    effect_id: EffectId
    call: ToolCall


@frozen
class AskApproval:
    """Ask the user whether a call may run. Answered by ApprovalGiven or ApprovalRefused."""

    tag: ClassVar[str] = "ask_approval"
    effect_id: EffectId
    call: ToolCall
    reason: str = ""


@frozen
class StartTimer:
    """Wait. Answered by TimerFired."""

    tag: ClassVar[str] = "start_timer"
    effect_id: EffectId
    seconds: float


@frozen
class AskUser:
    """Ask the user what the model wants to know. Answered by QuestionAnswered."""

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
    """Start an engine and a state of their own on a part of the work.

    Answered by WorkerFinished, WorkerFailed or WorkerStalled. The worker may do no more than the parent: its policy is
    the parent's, with these rules on top, in this mode.
    """

    tag: ClassVar[str] = "spawn_worker"
    effect_id: EffectId
    worker: WorkerSpec
    context: tuple[tuple[str, str], ...]
    """Name and result of each worker that this one waited for."""
    limits: Limits
    """What is left of the parent's budgets."""
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
    """What went into a request and what had to be left out."""

    tag: ClassVar[str] = "context_assembled"
    messages: int
    """Messages in the request."""
    dropped: int
    """Messages of history that are not in it, oldest first."""
    tokens: int
    """The size of the prompt in tokens: at most, where they are ``counted``, else estimated."""
    budget: int
    """How many tokens the prompt may have."""
    shortened: int = 0
    """How many tool results in it are shown shortened, for want of room."""
    turns: int = 0
    """How many whole turns are ``dropped``."""
    counted: bool = False
    """Whether sizes are added up from counts of the model's own tokenizer; else they are estimated."""

    @property
    def remaining(self) -> int:
        """Tokens of the budget that are left."""
        return self.budget - self.tokens


@frozen
class ContextChosen:
    """What became of the candidates for this turn's prompts."""

    tag: ClassVar[str] = "context_chosen"
    choices: tuple[Choice, ...]
    """One for each candidate, in the order in which they were given."""
    sections: tuple[SectionUse, ...]
    """What each section was dealt, and what it uses, in the order in which they stand."""


@frozen
class Compacted:
    """From now on requests show a summary in place of older messages, which stay in history."""

    tag: ClassVar[str] = "compacted"
    messages: int
    """How many messages, which requests have shown until now, the summary takes the place of."""
    before: int
    """Estimated size of a prompt in tokens until now."""
    after: int
    """The same with the summary, which is always less."""


@frozen
class NotCompacted:
    """A summary was asked for and nothing came of it: requests show what they did."""

    tag: ClassVar[str] = "not_compacted"
    reason: str


@frozen
class RetryPlanned:
    """A model call, or a call of a tool that may be run again, has failed and will be made again."""

    tag: ClassVar[str] = "retry_planned"
    kind: ErrorKind
    message: str
    attempt: int
    """The number of the attempt to come, from 2."""
    seconds: float
    """How long the interpreter waits before it; 0 for not at all."""
    call_id: str = ""
    """The call of a tool; empty for a model call."""


@frozen
class FellBack:
    """A model call has failed and is made again, with another model."""

    tag: ClassVar[str] = "fell_back"
    model: str
    """The one that failed; names as in ``CallModel``."""
    to: str
    kind: ErrorKind
    message: str


@frozen
class BreakerOpened:
    """A model has failed so often that no call goes to it for a while, if there is another one."""

    tag: ClassVar[str] = "breaker_opened"
    model: str
    """As in ``CallModel``."""
    seconds: float
    kind: ErrorKind
    message: str


@frozen
class BreakerClosed:
    """A model has answered whose breaker had opened."""

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
    """What all model calls of this turn and its workers used."""


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
    """The plan under execution, or None when there is none any more."""

    tag: ClassVar[str] = "plan_changed"
    plan: Plan | None


@frozen
class ModeSet:
    """The mode that holds from now on. Workers must be told: they may never do more than their parent."""

    tag: ClassVar[str] = "mode_set"
    mode: Mode


@frozen
class RulesForgotten:
    """The user took back what was said "from now on". Workers must be told: they may do no more than their parent."""

    tag: ClassVar[str] = "rules_forgotten"
    rules: tuple[str, ...] = ()
    """The patterns, as they were said; empty for all."""


@frozen
class CallJudged:
    """What policy says of a call, where that is more than that nothing speaks against it: a rule decided, or the call
    is denied. What the user says of a call stands in the user's answer.
    """

    tag: ClassVar[str] = "call_judged"
    call_id: str
    action: Action
    rule: str = ""
    """The pattern of the rule that decided; empty where none did, such as for what a mode denies."""
    reason: str = ""


@frozen
class SessionClosed:
    """Nothing will be decided any more."""

    tag: ClassVar[str] = "session_closed"


RejectReason = Literal["stale", "foreign", "out_of_phase", "closed"]
"""Why an input changed nothing: its effect is over, was never decided, the phase has no use for it, or all is over."""


@frozen
class Rejected:
    """An input that did not belong; the state is unchanged."""

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
