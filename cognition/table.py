"""The transition table: for each phase and each input, what handles it, or why nothing does.

This is the whole shape of the agent's logic. Rows are phases, columns are inputs, and every cell is written out: a cell
is either a handler or ``Dead(reason)``, so that a missing row is visibly a bug. The diagrams in ``docs/`` are printed
from it. A handler may still reject an input that answers another effect than the one in flight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from cognition.draft import Setup
from cognition.handlers.answers import (
    on_memory_recalled,
    on_plan_reviewed,
    on_question_answered,
    on_worker_failed,
    on_worker_finished,
    on_worker_stalled,
)
from cognition.handlers.control import on_cancel, on_mode_changed, on_reset, on_shutdown, on_user_spoke
from cognition.handlers.hooks import on_hook_returned
from cognition.handlers.model import on_model_failed, on_model_interrupted, on_model_replied, on_timer_fired
from cognition.handlers.tools import on_approval_given, on_approval_refused, on_tool_failed, on_tool_returned
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
from cognition.phases import Acting, Closed, Hooked, Idle, Phase, Recalling, Thinking, Waiting
from cognition.state import AgentState
from cognition.transition import Transition

Handler = Callable[[Setup, AgentState, Any], Transition]
"""Takes the one input type of its column, which the type system can't say of a table."""


@frozen
class Dead:
    """A cell in which nothing can happen; the input is rejected with this detail."""

    detail: str


NO_MODEL_CALL = Dead("no model call is in flight")
NO_TOOL = Dead("no tool is running")
NO_APPROVAL = Dead("no call awaits an approval")
NO_QUESTION = Dead("no question awaits an answer")
NO_PLAN = Dead("no plan awaits a review")
NO_RECALL = Dead("nothing is being recalled")
NO_WORKER = Dead("no worker is at work")
NO_HOOK = Dead("no hook is running")
NO_TIMER = Dead("no timer is running")
NO_TURN = Dead("no turn is under way")
BUSY = Dead("a turn is under way; cancel it or wait for its end")
CLOSED = Dead("the session is closed")

TABLE: Mapping[type[Phase], Mapping[type[Input], Handler | Dead]] = {
    Idle: {
        UserSpoke: on_user_spoke,
        ModelReplied: NO_MODEL_CALL,
        ModelFailed: NO_MODEL_CALL,
        ModelInterrupted: NO_MODEL_CALL,
        ToolReturned: NO_TOOL,
        ToolFailed: NO_TOOL,
        ApprovalGiven: NO_APPROVAL,
        ApprovalRefused: NO_APPROVAL,
        QuestionAnswered: NO_QUESTION,
        PlanReviewed: NO_PLAN,
        MemoryRecalled: NO_RECALL,
        WorkerFinished: NO_WORKER,
        WorkerFailed: NO_WORKER,
        WorkerStalled: NO_WORKER,
        HookReturned: NO_HOOK,
        TimerFired: NO_TIMER,
        CancelAsked: NO_TURN,
        ModeChanged: on_mode_changed,
        SessionReset: on_reset,
        ShutdownAsked: on_shutdown,
    },
    Hooked: {
        UserSpoke: BUSY,
        ModelReplied: NO_MODEL_CALL,
        ModelFailed: NO_MODEL_CALL,
        ModelInterrupted: NO_MODEL_CALL,
        ToolReturned: NO_TOOL,
        ToolFailed: NO_TOOL,
        ApprovalGiven: NO_APPROVAL,
        ApprovalRefused: NO_APPROVAL,
        QuestionAnswered: NO_QUESTION,
        PlanReviewed: NO_PLAN,
        MemoryRecalled: NO_RECALL,
        WorkerFinished: NO_WORKER,
        WorkerFailed: NO_WORKER,
        WorkerStalled: NO_WORKER,
        HookReturned: on_hook_returned,
        TimerFired: NO_TIMER,
        CancelAsked: on_cancel,
        ModeChanged: on_mode_changed,
        SessionReset: on_reset,
        ShutdownAsked: on_shutdown,
    },
    Recalling: {
        UserSpoke: BUSY,
        ModelReplied: NO_MODEL_CALL,
        ModelFailed: NO_MODEL_CALL,
        ModelInterrupted: NO_MODEL_CALL,
        ToolReturned: NO_TOOL,
        ToolFailed: NO_TOOL,
        ApprovalGiven: NO_APPROVAL,
        ApprovalRefused: NO_APPROVAL,
        QuestionAnswered: NO_QUESTION,
        PlanReviewed: NO_PLAN,
        MemoryRecalled: on_memory_recalled,
        WorkerFinished: NO_WORKER,
        WorkerFailed: NO_WORKER,
        WorkerStalled: NO_WORKER,
        HookReturned: NO_HOOK,
        TimerFired: NO_TIMER,
        CancelAsked: on_cancel,
        ModeChanged: on_mode_changed,
        SessionReset: on_reset,
        ShutdownAsked: on_shutdown,
    },
    Thinking: {
        UserSpoke: BUSY,
        ModelReplied: on_model_replied,
        ModelFailed: on_model_failed,
        ModelInterrupted: on_model_interrupted,
        ToolReturned: NO_TOOL,
        ToolFailed: NO_TOOL,
        ApprovalGiven: NO_APPROVAL,
        ApprovalRefused: NO_APPROVAL,
        QuestionAnswered: NO_QUESTION,
        PlanReviewed: NO_PLAN,
        MemoryRecalled: NO_RECALL,
        WorkerFinished: NO_WORKER,
        WorkerFailed: NO_WORKER,
        WorkerStalled: NO_WORKER,
        HookReturned: NO_HOOK,
        TimerFired: NO_TIMER,
        CancelAsked: on_cancel,
        ModeChanged: on_mode_changed,
        SessionReset: on_reset,
        ShutdownAsked: on_shutdown,
    },
    Waiting: {
        UserSpoke: BUSY,
        ModelReplied: NO_MODEL_CALL,
        ModelFailed: NO_MODEL_CALL,
        ModelInterrupted: NO_MODEL_CALL,
        ToolReturned: NO_TOOL,
        ToolFailed: NO_TOOL,
        ApprovalGiven: NO_APPROVAL,
        ApprovalRefused: NO_APPROVAL,
        QuestionAnswered: NO_QUESTION,
        PlanReviewed: NO_PLAN,
        MemoryRecalled: NO_RECALL,
        WorkerFinished: NO_WORKER,
        WorkerFailed: NO_WORKER,
        WorkerStalled: NO_WORKER,
        HookReturned: NO_HOOK,
        TimerFired: on_timer_fired,
        CancelAsked: on_cancel,
        ModeChanged: on_mode_changed,
        SessionReset: on_reset,
        ShutdownAsked: on_shutdown,
    },
    Acting: {
        UserSpoke: BUSY,
        ModelReplied: NO_MODEL_CALL,
        ModelFailed: NO_MODEL_CALL,
        ModelInterrupted: NO_MODEL_CALL,
        ToolReturned: on_tool_returned,
        ToolFailed: on_tool_failed,
        ApprovalGiven: on_approval_given,
        ApprovalRefused: on_approval_refused,
        QuestionAnswered: on_question_answered,
        PlanReviewed: on_plan_reviewed,
        MemoryRecalled: on_memory_recalled,
        WorkerFinished: on_worker_finished,
        WorkerFailed: on_worker_failed,
        WorkerStalled: on_worker_stalled,
        HookReturned: on_hook_returned,
        TimerFired: NO_TIMER,
        CancelAsked: on_cancel,
        ModeChanged: on_mode_changed,
        SessionReset: on_reset,
        ShutdownAsked: on_shutdown,
    },
    Closed: {
        UserSpoke: CLOSED,
        ModelReplied: CLOSED,
        ModelFailed: CLOSED,
        ModelInterrupted: CLOSED,
        ToolReturned: CLOSED,
        ToolFailed: CLOSED,
        ApprovalGiven: CLOSED,
        ApprovalRefused: CLOSED,
        QuestionAnswered: CLOSED,
        PlanReviewed: CLOSED,
        MemoryRecalled: CLOSED,
        WorkerFinished: CLOSED,
        WorkerFailed: CLOSED,
        WorkerStalled: CLOSED,
        HookReturned: CLOSED,
        TimerFired: CLOSED,
        CancelAsked: CLOSED,
        ModeChanged: CLOSED,
        SessionReset: CLOSED,
        ShutdownAsked: CLOSED,
    },
}
