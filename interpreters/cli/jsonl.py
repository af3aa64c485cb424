"""Events as JSON, one a line: what ``--json`` prints. Tags are explicit texts and never change with a class's name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import fields, has

from cognition.codec import UNIONS
from cognition.outcomes import Outcome
from interpreters import events
from interpreters.cli.terminal import json_text
from interpreters.events import Event

TAGS: Mapping[type[Event], str] = {
    events.ToolWeakened: "tool_weakened",
    events.TurnStarted: "turn_started",
    events.StepStarted: "step_started",
    events.ModelCallStarted: "model_call_started",
    events.TextDelta: "text_delta",
    events.ReasoningDelta: "reasoning_delta",
    events.CallStarted: "call_started",
    events.ArgumentText: "argument_text",
    events.CallProposed: "call_proposed",
    events.CallMalformed: "call_malformed",
    events.ModelCallFinished: "model_call_finished",
    events.UsageUpdated: "usage_updated",
    events.ToolStarted: "tool_started",
    events.ToolProgress: "tool_progress",
    events.ToolFinished: "tool_finished",
    events.ApprovalAsked: "approval_asked",
    events.ApprovalAnswered: "approval_answered",
    events.QuestionsAsked: "questions_asked",
    events.QuestionsAnswered: "questions_answered",
    events.PlanProposed: "plan_proposed",
    events.PlanReviewed: "plan_reviewed",
    events.PlanChanged: "plan_changed",
    events.TasksChanged: "tasks_changed",
    events.HookStarted: "hook_started",
    events.HookFinished: "hook_finished",
    events.MemorySearched: "memory_searched",
    events.MemoryRecalled: "memory_recalled",
    events.NoteTaken: "note_taken",
    events.WorkerStarted: "worker_started",
    events.WorkerFinished: "worker_finished",
    events.ModeChanged: "mode_changed",
    events.RetryPlanned: "retry_planned",
    events.LimitHit: "limit_hit",
    events.ContextTrimmed: "context_trimmed",
    events.ContextCompacted: "context_compacted",
    events.WarningRaised: "warning_raised",
    events.TurnFinished: "turn_finished",
}
"""Every event there is; a test compares it with ``interpreters.events``."""

OUTCOME_TAGS: Mapping[type, str] = next(tags for union, tags in UNIONS if union == Outcome)
"""The same words as in recordings."""


def event_line(event: Event) -> str:
    """One event as one line without its end; ``type`` comes first, every field is there, defaults too."""
    data = {"type": TAGS[type(event)], **_fields(event)}
    return json_text(data, separators=(",", ":"))


def _fields(value: Any) -> dict[str, Any]:
    return {attribute.name: _data(getattr(value, attribute.name)) for attribute in fields(type(value))}


def _data(value: Any) -> Any:
    """Plain data with every field, so that who reads it needs no table of our defaults; outcomes carry their tag."""
    if type(value) in OUTCOME_TAGS:
        return {"type": OUTCOME_TAGS[type(value)], **_fields(value)}
    if has(type(value)):
        return _fields(value)
    if isinstance(value, tuple):
        return [_data(item) for item in value]
    return value
