"""The smallest possible engine: it repeats the user's message. An example of the requirements for your own engine."""

from __future__ import annotations

from attrs import evolve

from cognition.steps.decisions import Rejected, RejectReason, TurnFinished
from cognition.steps.inputs import CancelAsked, Input, UserSpoke
from cognition.steps.state import AgentState
from cognition.steps.transition import Transition
from cognition.values.messages import AssistantMessage, Usage, UserMessage
from cognition.values.outcomes import Completed


class EchoEngine:
    """Answer each message with ``Echo: <message>``, without a model.

    The engine satisfies all ten laws. Between two inputs it has no running turn and no effect in flight. It therefore
    rejects cancellations and answers; other inputs change nothing.
    """

    def step(self, state: AgentState, input: Input | None) -> Transition:
        if isinstance(input, UserSpoke):
            number, answer = len(state.history), f"Echo: {input.text}"
            message, reply = UserMessage(f"m{number + 1}", input.text), AssistantMessage(f"m{number + 2}", answer)
            next_state = evolve(state, history=state.history.append(message, reply))
            return Transition(next_state, (TurnFinished(Completed(answer), Usage()),))
        effect_id = getattr(input, "effect_id", None)
        if effect_id is None and not isinstance(input, CancelAsked):
            return Transition(state)
        reason: RejectReason = "out_of_phase" if effect_id is None else "foreign"
        return Transition(state, (Rejected(reason, type(input).__name__, "nothing is under way", effect_id),))
