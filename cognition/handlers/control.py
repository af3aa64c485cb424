"""The user's side: a message, a cancellation, a reset, the end."""

from __future__ import annotations

from cognition.decisions import CancelEffect, SessionClosed
from cognition.draft import Draft, Setup
from cognition.history import History
from cognition.inputs import CancelAsked, SessionReset, ShutdownAsked, UserSpoke
from cognition.messages import ToolResult, UserMessage
from cognition.outcomes import Cancelled
from cognition.phases import Acting, AwaitingApproval, Closed, Idle, ModelAttempt, Running, Settled, Thinking, Waiting
from cognition.state import AgentState, Spent
from cognition.transition import Transition

CANCELLED = ToolResult("The call was cancelled.", "cancelled")


def on_user_spoke(setup: Setup, state: AgentState, event: UserSpoke) -> Transition:
    draft = Draft(setup, state)
    draft.begin_turn()
    draft.restore(Spent(started_at=event.at))
    draft.append(UserMessage(draft.new_message_id(), event.text))
    draft.ask_model(ModelAttempt(), new_step=True)
    return draft.seal()


def on_cancel(setup: Setup, state: AgentState, event: CancelAsked) -> Transition:
    draft = Draft(setup, state)
    _stop(draft, Cancelled(event.reason, event.partial_text), event.partial_text)
    return draft.seal()


def on_reset(setup: Setup, state: AgentState, event: SessionReset) -> Transition:
    draft = Draft(setup, state)
    if not isinstance(draft.phase, Idle):
        _stop(draft, Cancelled("the session was reset"), "")
    draft.history, draft.first, draft.size = History(), 0, 0.0
    draft.restore(Spent())
    return draft.seal()


def on_shutdown(setup: Setup, state: AgentState, event: ShutdownAsked) -> Transition:
    draft = Draft(setup, state)
    if not isinstance(draft.phase, Idle):
        _stop(draft, Cancelled("the session was closed"), "")
    draft.decide(SessionClosed())
    draft.phase = Closed()
    return draft.seal()


def _stop(draft: Draft, outcome: Cancelled, partial_text: str) -> None:
    """End the turn now: cancel what is in flight, give every open call a result, keep what the user has seen."""
    phase = draft.phase
    if isinstance(phase, Thinking | Waiting):
        draft.decide(CancelEffect(phase.effect_id))
        draft.keep_partial(partial_text)
    elif isinstance(phase, Acting):
        for slot in phase.slots:
            if isinstance(slot.status, Running | AwaitingApproval):
                draft.decide(CancelEffect(slot.status.effect_id))
        for slot in phase.slots:
            draft.record_result(slot.call, slot.status.result if isinstance(slot.status, Settled) else CANCELLED)
    draft.finish(outcome)
