"""Repeat calls of tools with failures that may pass, following each tool's retry plan."""

from __future__ import annotations

from attrs import evolve

from cognition.engine.draft import Draft, Setup
from cognition.engine.handlers._batch import advance, find, judge, reached_limit, settle, with_slot
from cognition.engine.handlers.rejection import reject
from cognition.steps.decisions import RetryPlanned, StartTimer
from cognition.steps.inputs import TimerFired, ToolFailed, error_text
from cognition.steps.phases import Acting, CallSlot, Retrying, Settled
from cognition.steps.state import AgentState
from cognition.steps.transition import Transition
from cognition.values.counts import Tokens
from cognition.values.messages import ToolResult


def fail(draft: Draft, phase: Acting, position: int, event: ToolFailed) -> None:
    """Plan another attempt at a failed call, or give it the failure as its result."""
    slot = phase.slots[position]
    seconds = _wait(draft, phase, slot, event)
    if seconds is None:
        settle(draft, phase, position, _failure(event.message, slot.failed + 1, event.tokens), event.at)
        return
    effect_id = draft.new_effect()
    draft.decide(RetryPlanned("transient", event.message, slot.failed + 2, seconds, slot.call.id))
    draft.decide(StartTimer(effect_id, seconds))
    waiting = evolve(slot, status=Retrying(effect_id, event.message), failed=slot.failed + 1)
    advance(draft, with_slot(phase, position, waiting), event.at)


def on_retry_due(setup: Setup, state: AgentState, event: TimerFired) -> Transition:
    """Run the call again, unless it is forbidden by now or a limit was reached; ask the user again if required."""
    found = find(state.phase, Retrying, event.effect_id)
    if found is None:
        return reject(state, event, "another timer is running")
    phase, position = found
    slot = phase.slots[position]
    draft = Draft(setup, state)
    draft.now = event.at
    limit = phase.limit or reached_limit(draft, slot.call, event.at)
    if limit is None:
        status = judge(draft, phase.slots, position)
        if isinstance(status, Settled):
            status = Settled(after_failing(slot, status.result))
        advance(draft, with_slot(phase, position, slot.now(status)), event.at)
    else:
        assert isinstance(slot.status, Retrying)  # as it was found
        settle(draft, phase, position, _failure(slot.status.message, slot.failed), event.at)
    return draft.seal()


def after_failing(slot: CallSlot, result: ToolResult) -> ToolResult:
    """Return the result of a call that is not repeated. It mentions earlier attempts, which may have had effects."""
    return ToolResult(f"{result.content} (before, it failed {_times(slot.failed)})", result.status)


def _wait(draft: Draft, phase: Acting, slot: CallSlot, event: ToolFailed) -> float | None:
    """Return the seconds until the next attempt; None if no attempt is left, or the turn would be over by then."""
    tool = draft.setup.tools.get(slot.call.name)
    plan = () if tool is None else tool.retries
    if not event.transient or slot.failed >= len(plan) or (phase.limit or reached_limit(draft, slot.call, event.at)):
        return None
    seconds, left = plan[slot.failed], draft.seconds_left(event.at)
    return seconds if left is None or seconds < left else None


def _failure(message: str, times: int, tokens: Tokens = ()) -> ToolResult:
    """Return the failure as a result; ``tokens`` are valid for the message of a single attempt."""
    if times > 1:
        return ToolResult(f"{error_text(message)} (tried {_times(times)})", "error")
    return ToolResult(error_text(message), "error", tokens)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
