"""The pure core of cogstep: an agent's logic as one function, ``step(state, input) -> Transition``.

Nothing in this package reads a clock, draws randomness, or does I/O, threads or async. Start with ``LLMEngine``.
A name's module is loaded when the name is first used: all of them take longer than a command's ``--help`` may.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cognition.codec import PROTOCOL_VERSION, from_data, to_data
    from cognition.config import AgentConfig, GenerationOptions, Limits, RetryPolicy
    from cognition.decisions import (
        AskApproval,
        AskUser,
        CallModel,
        CallTool,
        CancelEffect,
        ContextAssembled,
        Decision,
        Effect,
        LimitHit,
        ModeSet,
        Notice,
        PlanChanged,
        Recall,
        Rejected,
        Remember,
        RetryPlanned,
        ReviewPlan,
        RunHook,
        SessionClosed,
        SpawnWorker,
        StartTimer,
        TasksChanged,
        TurnFinished,
    )
    from cognition.echo import EchoEngine
    from cognition.engine import CognitiveEngine, LLMEngine
    from cognition.errors import CodecError, CogstepError, ConfigError
    from cognition.features import (
        Plan,
        Question,
        Task,
        WorkerSpec,
    )
    from cognition.folding import fold, transitions
    from cognition.history import History
    from cognition.ids import EffectId
    from cognition.inputs import (
        ApprovalGiven,
        ApprovalRefused,
        CancelAsked,
        HookReturned,
        Input,
        MemoryRecalled,
        ModeChanged,
        ModelFailed,
        ModelInterrupted,
        ModelReplied,
        PlanReviewed,
        QuestionAnswered,
        SessionReset,
        ShutdownAsked,
        TimerFired,
        ToolFailed,
        ToolReturned,
        UserSpoke,
        WorkerFailed,
        WorkerFinished,
        WorkerStalled,
    )
    from cognition.messages import (
        AssistantMessage,
        MalformedToolCall,
        Message,
        ProposedCall,
        ToolCall,
        ToolMessage,
        ToolResult,
        Usage,
        UserMessage,
    )
    from cognition.outcomes import Cancelled, Completed, Failed, Failure, FinishReason, LimitReached, Outcome
    from cognition.phases import (
        Acting,
        Closed,
        Hooked,
        Idle,
        Phase,
        Recalling,
        Thinking,
        Waiting,
        in_flight,
    )
    from cognition.policy import Policy, Rule, Verdict
    from cognition.requests import ModelRequest
    from cognition.schema import json_schema
    from cognition.state import AgentState
    from cognition.tools import ToolSpec
    from cognition.transition import Transition

__all__ = [
    "PROTOCOL_VERSION",
    "Acting",
    "AgentConfig",
    "AgentState",
    "ApprovalGiven",
    "ApprovalRefused",
    "AskApproval",
    "AskUser",
    "AssistantMessage",
    "CallModel",
    "CallTool",
    "CancelAsked",
    "CancelEffect",
    "Cancelled",
    "Closed",
    "CodecError",
    "CognitiveEngine",
    "CogstepError",
    "Completed",
    "ConfigError",
    "ContextAssembled",
    "Decision",
    "EchoEngine",
    "Effect",
    "EffectId",
    "Failed",
    "Failure",
    "FinishReason",
    "GenerationOptions",
    "History",
    "HookReturned",
    "Hooked",
    "Idle",
    "Input",
    "LLMEngine",
    "LimitHit",
    "LimitReached",
    "Limits",
    "MalformedToolCall",
    "MemoryRecalled",
    "Message",
    "ModeChanged",
    "ModeSet",
    "ModelFailed",
    "ModelInterrupted",
    "ModelReplied",
    "ModelRequest",
    "Notice",
    "Outcome",
    "Phase",
    "Plan",
    "PlanChanged",
    "PlanReviewed",
    "Policy",
    "ProposedCall",
    "Question",
    "QuestionAnswered",
    "Recall",
    "Recalling",
    "Rejected",
    "Remember",
    "RetryPlanned",
    "RetryPolicy",
    "ReviewPlan",
    "Rule",
    "RunHook",
    "SessionClosed",
    "SessionReset",
    "ShutdownAsked",
    "SpawnWorker",
    "StartTimer",
    "Task",
    "TasksChanged",
    "Thinking",
    "TimerFired",
    "ToolCall",
    "ToolFailed",
    "ToolMessage",
    "ToolResult",
    "ToolReturned",
    "ToolSpec",
    "Transition",
    "TurnFinished",
    "Usage",
    "UserMessage",
    "UserSpoke",
    "Verdict",
    "Waiting",
    "WorkerFailed",
    "WorkerFinished",
    "WorkerSpec",
    "WorkerStalled",
    "fold",
    "from_data",
    "in_flight",
    "json_schema",
    "to_data",
    "transitions",
]

HOMES: dict[str, tuple[str, ...]] = {
    "codec": (
        "PROTOCOL_VERSION",
        "from_data",
        "to_data",
    ),
    "config": (
        "AgentConfig",
        "GenerationOptions",
        "Limits",
        "RetryPolicy",
    ),
    "decisions": (
        "AskApproval",
        "AskUser",
        "CallModel",
        "CallTool",
        "CancelEffect",
        "ContextAssembled",
        "Decision",
        "Effect",
        "LimitHit",
        "ModeSet",
        "Notice",
        "PlanChanged",
        "Recall",
        "Rejected",
        "Remember",
        "RetryPlanned",
        "ReviewPlan",
        "RunHook",
        "SessionClosed",
        "SpawnWorker",
        "StartTimer",
        "TasksChanged",
        "TurnFinished",
    ),
    "echo": ("EchoEngine",),
    "engine": (
        "CognitiveEngine",
        "LLMEngine",
    ),
    "errors": (
        "CodecError",
        "CogstepError",
        "ConfigError",
    ),
    "features": (
        "Plan",
        "Question",
        "Task",
        "WorkerSpec",
    ),
    "folding": (
        "fold",
        "transitions",
    ),
    "history": ("History",),
    "ids": ("EffectId",),
    "inputs": (
        "ApprovalGiven",
        "ApprovalRefused",
        "CancelAsked",
        "HookReturned",
        "Input",
        "MemoryRecalled",
        "ModeChanged",
        "ModelFailed",
        "ModelInterrupted",
        "ModelReplied",
        "PlanReviewed",
        "QuestionAnswered",
        "SessionReset",
        "ShutdownAsked",
        "TimerFired",
        "ToolFailed",
        "ToolReturned",
        "UserSpoke",
        "WorkerFailed",
        "WorkerFinished",
        "WorkerStalled",
    ),
    "messages": (
        "AssistantMessage",
        "MalformedToolCall",
        "Message",
        "ProposedCall",
        "ToolCall",
        "ToolMessage",
        "ToolResult",
        "Usage",
        "UserMessage",
    ),
    "outcomes": (
        "Cancelled",
        "Completed",
        "Failed",
        "Failure",
        "FinishReason",
        "LimitReached",
        "Outcome",
    ),
    "phases": (
        "Acting",
        "Closed",
        "Hooked",
        "Idle",
        "Phase",
        "Recalling",
        "Thinking",
        "Waiting",
        "in_flight",
    ),
    "policy": (
        "Policy",
        "Rule",
        "Verdict",
    ),
    "requests": ("ModelRequest",),
    "schema": ("json_schema",),
    "state": ("AgentState",),
    "tools": ("ToolSpec",),
    "transition": ("Transition",),
}
"""The public names of each module. No name here may be that of a module, which would take its place."""

_MODULES = {name: module for module, names in HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """A public name, at its first use."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"cognition.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
