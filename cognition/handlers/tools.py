"""The tools' side: results, and the user's approvals and refusals of calls."""

from __future__ import annotations

from attrs import evolve

from cognition.draft import Draft, Setup
from cognition.handlers.batch import (
    Found,
    advance,
    call_found,
    find,
    not_run,
    reached,
    refuse,
    run,
    settle,
    take_up,
    with_slot,
)
from cognition.handlers.rejection import reject
from cognition.handlers.retries import after_failing, fail
from cognition.inputs import ApprovalGiven, ApprovalRefused, ToolFailed, ToolReturned
from cognition.messages import ToolResult
from cognition.phases import AwaitingApproval, CallSlot, CallStatus, Running, Settled
from cognition.policy import Rule
from cognition.state import AgentState
from cognition.transition import Transition

NO_TOOL_RUNS = "no tool runs under this id"


def on_tool_returned(setup: Setup, state: AgentState, event: ToolReturned) -> Transition:
    found = _find_running(setup, state, event)
    if found is None:
        return reject(state, event, NO_TOOL_RUNS)
    draft = Draft(setup, state)
    settle(draft, *found, ToolResult(event.content), event.at)
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
    draft, slot = take_up(setup, state, phase, event.at), phase.slots[position]
    if event.always:
        draft.remembered = (*draft.remembered, Rule("allow", slot.call.name))
    draft.refusals = 0
    slot = evolve(slot, approved=True)
    limit = reached(draft, slot.call, event.at)
    status = _run_as_approved(draft, phase.slots, position) if limit is None else not_run(draft, limit)
    advance(draft, with_slot(phase, position, slot.now(status), limit), event.at)
    return draft.seal()


def on_approval_refused(setup: Setup, state: AgentState, event: ApprovalRefused) -> Transition:
    found = find(state.phase, AwaitingApproval, event.effect_id)
    if found is None:
        return reject(state, event, "no call awaits this approval")
    phase, position = found
    draft, slot = take_up(setup, state, phase, event.at), phase.slots[position]
    if event.always:
        draft.remembered = (*draft.remembered, Rule("deny", slot.call.name, event.reason))
    status = refuse(draft, "the user refused this call", event.reason)
    if slot.failed:
        status = Settled(after_failing(slot, status.result))
    advance(draft, with_slot(phase, position, slot.now(status)), event.at)
    return draft.seal()


def _run_as_approved(draft: Draft, slots: tuple[CallSlot, ...], position: int) -> CallStatus:
    """Start an approved call, unless it has been forbidden since it was asked about."""
    call = slots[position].call
    verdict = draft.setup.config.policy.judge(call, draft.setup.tools[call.name], draft.remembered, draft.mode)
    if verdict.action == "deny":
        return refuse(draft, "this call is not permitted any more", verdict.reason)
    return run(draft, slots, position)


def _find_running(setup: Setup, state: AgentState, event: ToolReturned | ToolFailed) -> Found | None:
    """The call of a tool of the program's that runs under this id, if one does."""
    found = find(state.phase, Running, event.effect_id)
    return None if found is None or call_found(found).name in setup.engine_tools else found
