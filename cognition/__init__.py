"""The pure core of cogstep: an agent's logic as one function, ``step(state, input) -> Transition``.

Nothing in this package reads a clock, draws randomness, or does I/O, threads or async. Start with ``LLMEngine``.
"""

from cognition.codec import PROTOCOL_VERSION, from_data, to_data
from cognition.config import AgentConfig, GenerationOptions, Limits, RetryPolicy
from cognition.decisions import (
    AskApproval,
    CallModel,
    CallTool,
    CancelEffect,
    ContextAssembled,
    Decision,
    Effect,
    LimitHit,
    Notice,
    Rejected,
    RetryPlanned,
    SessionClosed,
    StartTimer,
    TurnFinished,
)
from cognition.echo import EchoEngine
from cognition.engine import CognitiveEngine, LLMEngine
from cognition.errors import CodecError, CogstepError, ConfigError
from cognition.fold import fold, transitions
from cognition.history import History
from cognition.ids import EffectId
from cognition.inputs import (
    ApprovalGiven,
    ApprovalRefused,
    CancelAsked,
    Input,
    ModelFailed,
    ModelInterrupted,
    ModelReplied,
    SessionReset,
    ShutdownAsked,
    TimerFired,
    ToolFailed,
    ToolReturned,
    UserSpoke,
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
from cognition.phases import Acting, Closed, Idle, Phase, Thinking, Waiting
from cognition.policy import Policy, Rule, Verdict
from cognition.requests import ModelRequest
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
    "Idle",
    "Input",
    "LLMEngine",
    "LimitHit",
    "LimitReached",
    "Limits",
    "MalformedToolCall",
    "Message",
    "ModelFailed",
    "ModelInterrupted",
    "ModelReplied",
    "ModelRequest",
    "Notice",
    "Outcome",
    "Phase",
    "Policy",
    "ProposedCall",
    "Rejected",
    "RetryPlanned",
    "RetryPolicy",
    "Rule",
    "SessionClosed",
    "SessionReset",
    "ShutdownAsked",
    "StartTimer",
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
    "fold",
    "from_data",
    "to_data",
    "transitions",
]
