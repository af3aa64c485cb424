"""The public names of ``cognition``: type checkers read this, and ``cognition.base.face`` loads each at its
first use.
"""

from cognition.base.errors import (
    CodecError as CodecError,
    CogstepError as CogstepError,
    ConfigError as ConfigError,
)
from cognition.base.ids import (
    EffectId as EffectId,
)
from cognition.engine.echo import (
    EchoEngine as EchoEngine,
)
from cognition.engine.folding import (
    fold as fold,
    transitions as transitions,
)
from cognition.engine.llm_engine import (
    CognitiveEngine as CognitiveEngine,
    LLMEngine as LLMEngine,
)
from cognition.parsing import FORMATS as FORMATS, HERMES as HERMES, Parser as Parser
from cognition.parsing.text_protocol import INSTRUCTIONS as INSTRUCTIONS, read_text as read_text
from cognition.policy import (
    NO_RULES as NO_RULES,
    SHELL_PROTECTIONS as SHELL_PROTECTIONS,
    AccessRules as AccessRules,
    Danger as Danger,
    Layer as Layer,
    PathAccess as PathAccess,
    Policy as Policy,
    Rule as Rule,
    Verdict as Verdict,
    danger_of as danger_of,
    danger_rules as danger_rules,
    proposed_rules as proposed_rules,
    shell_dangers as shell_dangers,
    shell_protections as shell_protections,
)
from cognition.steps.codec import (
    PROTOCOL_VERSION as PROTOCOL_VERSION,
    from_data as from_data,
    to_data as to_data,
)
from cognition.steps.config import (
    AgentConfig as AgentConfig,
    GenerationOptions as GenerationOptions,
    Limits as Limits,
    RetryPolicy as RetryPolicy,
)
from cognition.steps.decisions import (
    AskApproval as AskApproval,
    AskUser as AskUser,
    BreakerClosed as BreakerClosed,
    BreakerOpened as BreakerOpened,
    CallJudged as CallJudged,
    CallModel as CallModel,
    CallTool as CallTool,
    CancelEffect as CancelEffect,
    Compacted as Compacted,
    ContextAssembled as ContextAssembled,
    ContextChosen as ContextChosen,
    Decision as Decision,
    Effect as Effect,
    FellBack as FellBack,
    LimitHit as LimitHit,
    ModeSet as ModeSet,
    NotCompacted as NotCompacted,
    Notice as Notice,
    PlanChanged as PlanChanged,
    Recall as Recall,
    Rejected as Rejected,
    RejectReason as RejectReason,
    Remember as Remember,
    RetryPlanned as RetryPlanned,
    ReviewPlan as ReviewPlan,
    RulesForgotten as RulesForgotten,
    RunHook as RunHook,
    SessionClosed as SessionClosed,
    SpawnWorker as SpawnWorker,
    StartTimer as StartTimer,
    TasksChanged as TasksChanged,
    TurnFinished as TurnFinished,
)
from cognition.steps.inputs import (
    ApprovalGiven as ApprovalGiven,
    ApprovalRefused as ApprovalRefused,
    ApprovalsForgotten as ApprovalsForgotten,
    CancelAsked as CancelAsked,
    CompactionAsked as CompactionAsked,
    HookReturned as HookReturned,
    Input as Input,
    MemoryRecalled as MemoryRecalled,
    ModeChanged as ModeChanged,
    ModelChosen as ModelChosen,
    ModelFailed as ModelFailed,
    ModelInterrupted as ModelInterrupted,
    ModelReplied as ModelReplied,
    PlanReviewed as PlanReviewed,
    QuestionAnswered as QuestionAnswered,
    SessionReset as SessionReset,
    ShutdownAsked as ShutdownAsked,
    TimerFired as TimerFired,
    ToolFailed as ToolFailed,
    ToolReturned as ToolReturned,
    UserSpoke as UserSpoke,
    WorkerFailed as WorkerFailed,
    WorkerFinished as WorkerFinished,
    WorkerStalled as WorkerStalled,
)
from cognition.steps.phases import (
    FIRST_ATTEMPT as FIRST_ATTEMPT,
    Acting as Acting,
    Closed as Closed,
    Compacting as Compacting,
    Hooked as Hooked,
    Idle as Idle,
    Phase as Phase,
    Recalling as Recalling,
    Thinking as Thinking,
    Waiting as Waiting,
    in_flight as in_flight,
)
from cognition.steps.requests import (
    ModelRequest as ModelRequest,
)
from cognition.steps.retry import (
    classify as classify,
)
from cognition.steps.schema import (
    json_schema as json_schema,
)
from cognition.steps.state import (
    AgentState as AgentState,
)
from cognition.steps.transition import (
    Transition as Transition,
)
from cognition.values.candidates import (
    DEFAULT_SECTIONS as DEFAULT_SECTIONS,
    Candidate as Candidate,
    Section as Section,
)
from cognition.values.content import (
    Image as Image,
    Part as Part,
    TextPart as TextPart,
)
from cognition.values.counts import (
    TemplateCosts as TemplateCosts,
)
from cognition.values.features import (
    Plan as Plan,
    Question as Question,
    Task as Task,
    WorkerSpec as WorkerSpec,
)
from cognition.values.history import (
    History as History,
)
from cognition.values.messages import (
    AssistantMessage as AssistantMessage,
    MalformedToolCall as MalformedToolCall,
    Message as Message,
    ProposedCall as ProposedCall,
    ToolCall as ToolCall,
    ToolMessage as ToolMessage,
    ToolResult as ToolResult,
    Usage as Usage,
    UserMessage as UserMessage,
)
from cognition.values.outcomes import (
    Cancelled as Cancelled,
    Completed as Completed,
    Failed as Failed,
    Failure as Failure,
    FinishReason as FinishReason,
    LimitReached as LimitReached,
    Outcome as Outcome,
)
from cognition.values.routing import (
    Breaker as Breaker,
)
from cognition.values.tools import (
    RETRY_PLAN as RETRY_PLAN,
    ToolSpec as ToolSpec,
)
from cognition.wire import QUIRKS as QUIRKS, Decoder as Decoder, encode as encode
