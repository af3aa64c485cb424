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
from cognition.handlers.control import on_cancel, on_reset, on_shutdown, on_user_spoke
from cognition.handlers.model import on_model_failed, on_model_interrupted, on_model_replied, on_timer_fired
from cognition.handlers.tools import on_approval_given, on_approval_refused, on_tool_failed, on_tool_returned
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
from cognition.phases import Acting, Closed, Idle, Phase, Thinking, Waiting
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
        TimerFired: NO_TIMER,
        CancelAsked: NO_TURN,
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
        TimerFired: NO_TIMER,
        CancelAsked: on_cancel,
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
        TimerFired: on_timer_fired,
        CancelAsked: on_cancel,
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
        TimerFired: NO_TIMER,
        CancelAsked: on_cancel,
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
        TimerFired: CLOSED,
        CancelAsked: CLOSED,
        SessionReset: CLOSED,
        ShutdownAsked: CLOSED,
    },
}
