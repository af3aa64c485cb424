"""The transition table: for each input, the phases that handle it, the handler, and the phases that may follow.

This is the whole shape of the agent's logic. Each input has one row. In a phase missing from its row, the input is
rejected, for the single reason in the row. A handler may also reject an answer to an effect that is not in flight.
``docs/concepts/state-machine.md`` is generated from this table. Exploration tests fail for an undeclared following
phase, and for a declared phase that never follows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from cognition.engine.draft import Setup
from cognition.engine.handlers.answers import (
    on_memory_recalled,
    on_plan_reviewed,
    on_question_answered,
    on_worker_failed,
    on_worker_finished,
    on_worker_stalled,
)
from cognition.engine.handlers.compaction import (
    on_compaction_asked,
    on_summary,
    on_summary_due,
    on_summary_failed,
    on_summary_interrupted,
)
from cognition.engine.handlers.control import (
    on_approvals_forgotten,
    on_cancel,
    on_mode_changed,
    on_model_chosen,
    on_reset,
    on_shutdown,
    on_user_spoke,
)
from cognition.engine.handlers.hooks import on_hook_returned
from cognition.engine.handlers.model import on_model_failed, on_model_interrupted, on_model_replied, on_timer_fired
from cognition.engine.handlers.retries import on_retry_due
from cognition.engine.handlers.tools import on_approval_given, on_approval_refused, on_tool_failed, on_tool_returned
from cognition.steps.inputs import (
    ApprovalGiven,
    ApprovalRefused,
    ApprovalsForgotten,
    CancelAsked,
    CompactionAsked,
    HookReturned,
    Input,
    MemoryRecalled,
    ModeChanged,
    ModelChosen,
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
from cognition.steps.phases import Acting, Closed, Compacting, Hooked, Idle, Phase, Recalling, Thinking, Waiting
from cognition.steps.state import AgentState
from cognition.steps.transition import Transition

Handler = Callable[[Setup, AgentState, Any], Transition]
"""Takes the input type of its row; the type system can't express that for a table."""


@frozen
class Live:
    """An input in one phase."""

    handler: Handler
    to: tuple[type[Phase], ...]
    """The phases that may follow. A rejected input leaves the phase as it is."""


@frozen
class Row:
    """An input in every phase."""

    otherwise: str
    """The reason for rejection in an open phase missing from ``live``."""
    live: Mapping[type[Phase], Live]


NO_MODEL_CALL = "no model call is in flight"
NO_TOOL = "no tool is running"
NO_APPROVAL = "no call awaits an approval"
NO_WORKER = "no worker is at work"
NO_TURN = "no turn is under way"
BUSY = "a turn is under way; cancel it or wait for its end"
CLOSED = "the session is closed"

OPEN: tuple[type[Phase], ...] = (Idle, Hooked, Recalling, Thinking, Waiting, Acting, Compacting)
IN_A_TURN = OPEN[1:]
AFTER_A_CALL: tuple[type[Phase], ...] = (Idle, Thinking, Acting, Compacting)
"""The turn ends, the model is called with all results, or other calls of the same reply are still running. A summary
may come before any further model call.
"""

TABLE: Mapping[type[Input], Row] = {
    UserSpoke: Row(BUSY, {Idle: Live(on_user_spoke, (Idle, Hooked, Recalling, Thinking, Compacting))}),
    ModelReplied: Row(
        NO_MODEL_CALL,
        {
            Thinking: Live(on_model_replied, (Idle, Hooked, Thinking, Acting, Compacting)),
            Compacting: Live(on_summary, (Idle, Thinking, Compacting)),
        },
    ),
    ModelFailed: Row(
        NO_MODEL_CALL,
        {
            Thinking: Live(on_model_failed, (Idle, Thinking, Waiting, Compacting)),
            Compacting: Live(on_summary_failed, (Idle, Thinking, Compacting)),
        },
    ),
    ModelInterrupted: Row(
        NO_MODEL_CALL,
        {Thinking: Live(on_model_interrupted, (Idle,)), Compacting: Live(on_summary_interrupted, (Idle,))},
    ),
    ToolReturned: Row(NO_TOOL, {Acting: Live(on_tool_returned, AFTER_A_CALL)}),
    ToolFailed: Row(NO_TOOL, {Acting: Live(on_tool_failed, AFTER_A_CALL)}),
    ApprovalGiven: Row(NO_APPROVAL, {Acting: Live(on_approval_given, AFTER_A_CALL)}),
    ApprovalRefused: Row(NO_APPROVAL, {Acting: Live(on_approval_refused, AFTER_A_CALL)}),
    QuestionAnswered: Row("no question awaits an answer", {Acting: Live(on_question_answered, AFTER_A_CALL)}),
    PlanReviewed: Row("no plan awaits a review", {Acting: Live(on_plan_reviewed, AFTER_A_CALL)}),
    MemoryRecalled: Row(
        "nothing is being recalled",
        {
            Recalling: Live(on_memory_recalled, (Idle, Thinking, Compacting)),
            Acting: Live(on_memory_recalled, AFTER_A_CALL),
        },
    ),
    WorkerFinished: Row(NO_WORKER, {Acting: Live(on_worker_finished, AFTER_A_CALL)}),
    WorkerFailed: Row(NO_WORKER, {Acting: Live(on_worker_failed, AFTER_A_CALL)}),
    WorkerStalled: Row(NO_WORKER, {Acting: Live(on_worker_stalled, AFTER_A_CALL)}),
    HookReturned: Row(
        "no hook is running",
        {
            Hooked: Live(on_hook_returned, (Idle, Recalling, Thinking, Compacting)),
            Acting: Live(on_hook_returned, AFTER_A_CALL),
        },
    ),
    TimerFired: Row(
        "no timer is running",
        {
            Waiting: Live(on_timer_fired, (Idle, Thinking)),
            Acting: Live(on_retry_due, AFTER_A_CALL),
            Compacting: Live(on_summary_due, (Idle, Compacting)),
        },
    ),
    CancelAsked: Row(NO_TURN, {phase: Live(on_cancel, (Idle,)) for phase in IN_A_TURN}),
    ModeChanged: Row(CLOSED, {phase: Live(on_mode_changed, (phase,)) for phase in OPEN}),
    ModelChosen: Row(CLOSED, {phase: Live(on_model_chosen, (phase,)) for phase in OPEN}),
    ApprovalsForgotten: Row(CLOSED, {phase: Live(on_approvals_forgotten, (phase,)) for phase in OPEN}),
    CompactionAsked: Row(BUSY, {Idle: Live(on_compaction_asked, (Idle, Compacting))}),
    SessionReset: Row(CLOSED, {phase: Live(on_reset, (Idle,)) for phase in OPEN}),
    ShutdownAsked: Row(CLOSED, {phase: Live(on_shutdown, (Closed,)) for phase in OPEN}),
}

HANDLERS: Mapping[tuple[type[Input], type[Phase]], Handler] = {
    (kind, phase): live.handler for kind, row in TABLE.items() for phase, live in row.live.items()
}
"""The live cells in the form a step looks them up."""
