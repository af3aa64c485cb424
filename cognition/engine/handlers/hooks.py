"""The program's hooks: before the first turn, on a message, around a call, and before a turn completes."""

from __future__ import annotations

from attrs import evolve

from cognition.engine.draft import Draft, Setup
from cognition.engine.handlers._batch import advance, find, judge, reached_limit, refuse, refuse_over_limit, with_slot
from cognition.engine.handlers.rejection import reject
from cognition.steps.decisions import Recall, RunHook
from cognition.steps.inputs import HookReturned
from cognition.steps.phases import (
    FIRST_ATTEMPT,
    PROPOSED,
    Acting,
    AwaitingHook,
    CallSlot,
    CallStatus,
    Hooked,
    Recalling,
    Settled,
)
from cognition.steps.state import AgentState
from cognition.steps.transition import Transition
from cognition.values.features import HookPoint
from cognition.values.messages import ToolCall, ToolResult, UserMessage, find_unusable
from cognition.values.outcomes import Cancelled, Completed, LimitKind

OPENING: tuple[HookPoint, ...] = ("session_start", "user_message")
"""The hooks that run, in this order, before the model is called for a message."""


def open_turn(draft: Draft, text: str, now: float, passed: HookPoint | None = None) -> None:
    """Run the next opening hook after ``passed``; after the last, recall and answer."""
    config = draft.setup.config
    after = 0 if passed is None else OPENING.index(passed) + 1
    for point in OPENING[after:] if config.hooks else ():
        if point in config.hooks and (point != "session_start" or draft.turn == 1):
            effect_id = draft.new_effect()
            draft.decide(RunHook(effect_id, point, text))
            draft.phase = Hooked(effect_id, point)
            return
    if config.recall_first:
        effect_id = draft.new_effect()
        draft.decide(Recall(effect_id, text))
        draft.phase = Recalling(effect_id)
        return
    draft.next_model_call(now, FIRST_ATTEMPT)


def on_hook_returned(setup: Setup, state: AgentState, event: HookReturned) -> Transition:
    phase = state.phase
    if isinstance(phase, Hooked) and phase.effect_id == event.effect_id:
        draft = Draft(setup, state)
        if phase.outcome is not None:
            _before_completion(draft, phase.outcome, event)
        else:
            _before_answer(draft, phase.point, event)
        return draft.seal()
    found = find(phase, AwaitingHook, event.effect_id)
    if found is None:
        return reject(state, event, "no hook runs under this id")
    draft = Draft(setup, state)
    _around_call(draft, *found, event)
    return draft.seal()


def _before_answer(draft: Draft, point: HookPoint, event: HookReturned) -> None:
    if event.verdict == "refuse":
        draft.finish(Cancelled(f"a hook refused the message: {event.reason}"))
        return
    if event.context:
        draft.note(event.context)
    open_turn(draft, _newest_user_text(draft), event.at, passed=point)


def _before_completion(draft: Draft, outcome: Completed, event: HookReturned) -> None:
    if event.verdict == "go_on" and draft.hook_continuations < draft.setup.config.limits.hook_continuations:
        draft.hook_continuations += 1
        draft.note("\n".join(part for part in (event.reason, event.context) if part) or "Go on.")
        draft.next_model_call(event.at, FIRST_ATTEMPT)
    else:
        draft.finish(outcome)


def _around_call(draft: Draft, phase: Acting, position: int, event: HookReturned) -> None:
    draft.now, slot = event.at, phase.slots[position]
    before = isinstance(slot.status, AwaitingHook) and slot.status.result is None
    context = "\n".join(part for part in (slot.context, event.context) if part)
    limit: LimitKind | None = None
    if before:
        changed, limit, problem = slot.call, reached_limit(draft, slot.call, event.at), ""
        if event.arguments_json is not None:
            given = ToolCall(changed.id, changed.name, event.arguments_json)
            problem = find_unusable(given)  # such a call stands nowhere: others may look at its arguments
            changed = changed if problem else given
        left = evolve(slot, call=changed, context=context)
        phase = with_slot(phase, position, left.now(PROPOSED))
        status = (
            refuse_over_limit(draft, limit)
            if limit is not None
            else _before_call(draft, phase, position, event, problem)
        )
    else:
        left, status = evolve(slot, context=context), _after_call(slot, event)
    advance(draft, with_slot(phase, position, left.now(status), limit), event.at)


def _before_call(draft: Draft, phase: Acting, position: int, event: HookReturned, problem: str) -> CallStatus:
    """Judge the call as changed by the hook; ``problem`` is the error in its arguments, if any."""
    if event.verdict == "refuse":
        return refuse(draft, "a hook refused this call", event.reason)
    if problem:
        return Settled(ToolResult(f"Error: a hook gave unusable arguments: {problem}", "error"))
    return judge(draft, phase.slots, position)


def _after_call(slot: CallSlot, event: HookReturned) -> CallStatus:
    result = slot.status.result if isinstance(slot.status, AwaitingHook) else None
    if event.verdict == "refuse" or result is None:
        return Settled(ToolResult(f"Error: a hook withheld the result: {event.reason}", "refused"))
    return Settled(result)


def _newest_user_text(draft: Draft) -> str:
    return next(m.text for m in reversed(draft.history) if isinstance(m, UserMessage) and m.origin == "user")
