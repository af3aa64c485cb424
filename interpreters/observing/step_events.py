"""Derive the events of a step. Pure, so that observers and readers of a recording see the same events."""

from __future__ import annotations

from collections.abc import Iterator

from cognition import AgentState, CallModel, Input, Rejected, Transition, Usage, UserSpoke
from interpreters.observing.events import EventValue, ModelCalled, UsageUpdated

NO_USAGE = Usage()


def events_of(before: AgentState, event: Input, transition: Transition) -> Iterator[tuple[AgentState, EventValue]]:
    """Yield the values of a step in order, each with the state that it belongs to.

    The order is: the input, each message that the step added to the history, the turn's usage if it changed, and the
    decisions. A rejected input yields nothing, since it changed nothing.
    """
    after, decisions = transition.next_state, transition.decisions
    if decisions and isinstance(decisions[0], Rejected):
        return
    here = after if isinstance(event, UserSpoke) else before  # the first of a turn belongs to it already
    yield here, event
    known = len(before.history) if len(before.history) <= len(after.history) else 0  # else it was emptied
    for position in range(known, len(after.history)):
        yield here, after.history[position]
    used = after.spent.usage
    if used not in (before.spent.usage, NO_USAGE):
        yield here, UsageUpdated(used)
    for decision in decisions:
        if isinstance(decision, CallModel):
            messages = len(decision.request.messages)
            yield after, ModelCalled(decision.effect_id, decision.purpose, messages, decision.model)
        else:
            yield after, decision
