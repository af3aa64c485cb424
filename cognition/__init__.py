"""The pure core of cogstep: an agent's logic as one function, ``step(state, input) -> Transition``.

Nothing in this package reads a clock, draws randomness, or does I/O, threads or async. Start with ``LLMEngine``. A
module loads when one of its names is first used: importing all of them takes half of the 0.3 s allowed for ``--help``.
Each name is therefore listed twice, for type checkers and for the first use; a test compares the lists.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cognition.candidates import (
        DEFAULT_SECTIONS as DEFAULT_SECTIONS,
        Candidate as Candidate,
        Section as Section,
    )
    from cognition.codec import PROTOCOL_VERSION as PROTOCOL_VERSION, from_data as from_data, to_data as to_data
    from cognition.config import (
        AgentConfig as AgentConfig,
        GenerationOptions as GenerationOptions,
        Limits as Limits,
        RetryPolicy as RetryPolicy,
    )
    from cognition.content import Image as Image, Part as Part, TextPart as TextPart
    from cognition.counts import TemplateCosts as TemplateCosts
    from cognition.decisions import (
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
    from cognition.echo import EchoEngine as EchoEngine
    from cognition.engine import CognitiveEngine as CognitiveEngine, LLMEngine as LLMEngine
    from cognition.errors import CodecError as CodecError, CogstepError as CogstepError, ConfigError as ConfigError
    from cognition.features import Plan as Plan, Question as Question, Task as Task, WorkerSpec as WorkerSpec
    from cognition.folding import fold as fold, transitions as transitions
    from cognition.history import History as History
    from cognition.ids import EffectId as EffectId
    from cognition.inputs import (
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
    from cognition.messages import (
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
    from cognition.outcomes import (
        Cancelled as Cancelled,
        Completed as Completed,
        Failed as Failed,
        Failure as Failure,
        FinishReason as FinishReason,
        LimitReached as LimitReached,
        Outcome as Outcome,
    )
    from cognition.phases import (
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
    from cognition.policy import (
        SHELL_PROTECTIONS as SHELL_PROTECTIONS,
        Layer as Layer,
        Policy as Policy,
        Rule as Rule,
        Verdict as Verdict,
        shell_protections as shell_protections,
    )
    from cognition.requests import ModelRequest as ModelRequest
    from cognition.routing import Breaker as Breaker
    from cognition.schema import json_schema as json_schema
    from cognition.state import AgentState as AgentState
    from cognition.tools import RETRY_PLAN as RETRY_PLAN, ToolSpec as ToolSpec
    from cognition.transition import Transition as Transition

HOMES: dict[str, str] = {
    "candidates": "Candidate DEFAULT_SECTIONS Section",
    "codec": "PROTOCOL_VERSION from_data to_data",
    "config": "AgentConfig GenerationOptions Limits RetryPolicy",
    "content": "Image Part TextPart",
    "counts": "TemplateCosts",
    "decisions": (
        "AskApproval AskUser BreakerClosed BreakerOpened CallJudged CallModel CallTool CancelEffect Compacted "
        "ContextAssembled ContextChosen Decision Effect FellBack LimitHit ModeSet NotCompacted Notice PlanChanged "
        "Recall Rejected Remember RetryPlanned ReviewPlan RulesForgotten RunHook SessionClosed SpawnWorker StartTimer "
        "TasksChanged TurnFinished"
    ),
    "echo": "EchoEngine",
    "engine": "CognitiveEngine LLMEngine",
    "errors": "CodecError CogstepError ConfigError",
    "features": "Plan Question Task WorkerSpec",
    "folding": "fold transitions",
    "history": "History",
    "ids": "EffectId",
    "inputs": (
        "ApprovalGiven ApprovalRefused ApprovalsForgotten CancelAsked CompactionAsked HookReturned Input "
        "MemoryRecalled ModeChanged ModelChosen ModelFailed ModelInterrupted ModelReplied PlanReviewed "
        "QuestionAnswered SessionReset ShutdownAsked TimerFired ToolFailed ToolReturned UserSpoke WorkerFailed "
        "WorkerFinished WorkerStalled"
    ),
    "messages": (
        "AssistantMessage MalformedToolCall Message ProposedCall ToolCall ToolMessage ToolResult Usage UserMessage"
    ),
    "outcomes": "Cancelled Completed Failed Failure FinishReason LimitReached Outcome",
    "phases": "Acting Closed Compacting Hooked Idle Phase Recalling Thinking Waiting in_flight",
    "policy": "SHELL_PROTECTIONS Layer Policy Rule Verdict shell_protections",
    "requests": "ModelRequest",
    "routing": "Breaker",
    "schema": "json_schema",
    "state": "AgentState",
    "tools": "RETRY_PLAN ToolSpec",
    "transition": "Transition",
}
"""The public names of each module. A public name must not equal a module's name: it would replace the module."""

_MODULES = {name: module for module, names in HOMES.items() for name in names.split()}

if not TYPE_CHECKING:  # a type checker can't compute it, and takes the names from the imports above
    __all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"cognition.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
