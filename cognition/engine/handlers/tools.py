"""The tools' side: results, and the user's approvals and refusals of calls."""

from __future__ import annotations

from attrs import evolve

from cognition.base.errors import ConfigError
from cognition.context.tool_results import EDITED_NOTE
from cognition.context.window import shorten
from cognition.engine.draft import Draft, Setup
from cognition.engine.handlers._batch import (
    Found,
    advance,
    call_at,
    draft_for_person,
    find,
    reached_limit,
    refuse,
    refuse_over_limit,
    report_verdict,
    run,
    settle,
    with_slot,
)
from cognition.engine.handlers.rejection import reject
from cognition.engine.handlers.retries import after_failing, fail
from cognition.policy import Action, remembered_rule
from cognition.steps.inputs import ApprovalGiven, ApprovalRefused, ToolFailed, ToolReturned
from cognition.steps.phases import AwaitingApproval, CallSlot, CallStatus, Running, Settled
from cognition.steps.state import AgentState
from cognition.steps.transition import Transition
from cognition.values.messages import ToolCall, ToolResult, find_unusable

NO_TOOL_RUNS = "no tool runs under this id"


def on_tool_returned(setup: Setup, state: AgentState, event: ToolReturned) -> Transition:
    found = _find_running(setup, state, event)
    if found is None:
        return reject(state, event, NO_TOOL_RUNS)
    draft = Draft(setup, state)
    settle(draft, *found, ToolResult(event.content, tokens=event.tokens, images=event.images), event.at)
    return draft.seal()


def on_tool_failed(setup: Setup, state: AgentState, event: ToolFailed) -> Transition:
    found = _find_running(setup, state, event)
    if found is None:
        return reject(state, event, NO_TOOL_RUNS)
    draft = Draft(setup, state)
    fail(draft, *found, event)
    return draft.seal()


def on_approval_given(setup: Setup, state: AgentState, event: ApprovalGiven) -> Transition:
    found = find(state.phase, AwaitingApproval, event.effect_id)
    if found is None:
        return reject(state, event, "no call awaits this approval")
    phase, position = found
    draft, slot = draft_for_person(setup, state, phase, event.at), phase.slots[position]
    problem, draft.refusals = "", 0
    if event.arguments_json is not None and event.arguments_json != slot.call.arguments_json:
        edited = ToolCall(slot.call.id, slot.call.name, event.arguments_json)
        problem = find_unusable(edited)
        if not problem:
            slot = _apply_edits(draft, slot, edited)
            phase = with_slot(phase, position, slot)
    slot = evolve(slot, approved=True)
    if event.always and not problem:
        _remember(draft, "allow", event.rule, slot.call)
    limit = reached_limit(draft, slot.call, event.at)
    if limit is not None:
        status: CallStatus = refuse_over_limit(draft, limit)
    elif problem:
        status = Settled(ToolResult(f"Error: the user gave unusable arguments, and nothing ran: {problem}", "error"))
    else:
        status = _run_as_approved(draft, phase.slots, position)
    if slot.failed and isinstance(status, Settled):
        status = Settled(after_failing(slot, status.result))
    advance(draft, with_slot(phase, position, slot.now(status), limit), event.at)
    return draft.seal()


def on_approval_refused(setup: Setup, state: AgentState, event: ApprovalRefused) -> Transition:
    found = find(state.phase, AwaitingApproval, event.effect_id)
    if found is None:
        return reject(state, event, "no call awaits this approval")
    phase, position = found
    draft, slot = draft_for_person(setup, state, phase, event.at), phase.slots[position]
    if event.failed:
        status = Settled(ToolResult(f"Error: {event.reason}", "error"))
    else:
        status = refuse(draft, "the user refused this call", event.reason)
        if event.always:
            _remember(draft, "deny", event.rule, slot.call, event.reason)
    if slot.failed:
        status = Settled(after_failing(slot, status.result))
    advance(draft, with_slot(phase, position, slot.now(status)), event.at)
    return draft.seal()


def _apply_edits(draft: Draft, slot: CallSlot, call: ToolCall) -> CallSlot:
    """Return the call with the user's arguments, and a note to the model, since its reply shows its own arguments."""
    note = EDITED_NOTE.format(arguments=shorten(call.arguments_json, draft.setup.result_limit))
    return evolve(slot, call=call, context="\n".join(part for part in (slot.context, note) if part))


def _remember(draft: Draft, action: Action, pattern: str, call: ToolCall, reason: str = "") -> None:
    """Remember a "from now on" answer, unless its pattern does not fit this call: any other rule would exceed the
    answer.
    """
    try:
        rule = remembered_rule(action, pattern, call, draft.setup.tools[call.name], reason)
    except ConfigError:
        return
    draft.remembered = (*draft.remembered, rule)


def _run_as_approved(draft: Draft, slots: tuple[CallSlot, ...], position: int) -> CallStatus:
    """Start an approved call, unless it has been forbidden since, or is forbidden with the user's changes."""
    call = slots[position].call
    verdict = draft.setup.config.policy.judge(call, draft.setup.tools[call.name], draft.remembered, draft.mode)
    if verdict.action == "deny":
        report_verdict(draft, call, verdict)
        return refuse(draft, "this call is not permitted any more", verdict.reason)
    return run(draft, slots, position)


def _find_running(setup: Setup, state: AgentState, event: ToolReturned | ToolFailed) -> Found | None:
    """Return the running call of a program's tool with this effect id, or None."""
    found = find(state.phase, Running, event.effect_id)
    if found is None or not setup.engine_tools:
        return found
    return None if call_at(found).name in setup.engine_tools else found
