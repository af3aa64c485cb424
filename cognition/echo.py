"""The smallest engine there is: it repeats the user's message. An example of what an engine of your own needs."""

from __future__ import annotations

from attrs import evolve

from cognition.decisions import TurnFinished
from cognition.inputs import Input, UserSpoke
from cognition.messages import AssistantMessage, Usage, UserMessage
from cognition.outcomes import Completed
from cognition.state import AgentState
from cognition.transition import Transition


class EchoEngine:
    """Answers each message with ``Echo: <message>`` and needs no model."""

    def step(self, state: AgentState, input: Input | None) -> Transition:
        if not isinstance(input, UserSpoke):
            return Transition(state)
        number, answer = len(state.history), f"Echo: {input.text}"
        message, reply = UserMessage(f"m{number + 1}", input.text), AssistantMessage(f"m{number + 2}", answer)
        next_state = evolve(state, history=state.history.append(message, reply))
        return Transition(next_state, (TurnFinished(Completed(answer), Usage()),))
