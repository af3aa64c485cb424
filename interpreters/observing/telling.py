"""From a step of a session to what is told of it: pure, so that who watches and who reads a recording see the same."""

from __future__ import annotations

from collections.abc import Iterator

from cognition import AgentState, CallModel, Input, Rejected, Transition, Usage, UserSpoke
from interpreters.observing.events import ModelCalled, Told, UsageUpdated

NO_USAGE = Usage()


def told(before: AgentState, event: Input, transition: Transition) -> Iterator[tuple[AgentState, Told]]:
    """What a step is told as, in order: each value with the state in which the session stood.

    The input, each message that came to stand in the history by it, the turn's usage where that changed, and the
    decisions. Nothing of an input that was rejected: it changed nothing.
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
