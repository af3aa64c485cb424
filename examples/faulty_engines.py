"""Ten engines with one fault each, and the law that finds it.

Each is ``LLMEngine`` with a mistake that is easy to make in your own engine. Run this file to see every law find its
fault and report it as a story::

    python examples/faulty_engines.py
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from attrs import evolve

from cognition import (
    AgentConfig,
    AgentState,
    ApprovalRefused,
    AskApproval,
    CallModel,
    CallTool,
    CancelAsked,
    CancelEffect,
    CognitiveEngine,
    Decision,
    EffectId,
    GenerationOptions,
    Input,
    Limits,
    LLMEngine,
    ModelReplied,
    Rejected,
    RetryPolicy,
    ToolMessage,
    ToolSpec,
    Transition,
)

LOOK = ToolSpec("look", "Looks something up.", read_only=True)
WRITE = ToolSpec("write", "Changes something.", approval=True)
SORT = ToolSpec("sort", "Changes something and does not ask.")

CONFIG = AgentConfig(
    system="Be brief.",
    tools=(LOOK, WRITE, SORT),
    limits=Limits(steps=3, tool_calls=4),
    retry=RetryPolicy(attempts=2),
    context_tokens=1000,
    options=GenerationOptions(max_tokens=100),
)


class Faulty(LLMEngine):
    """An ``LLMEngine`` with a hook for its transitions, where a subclass makes its mistake."""

    def __init__(self, config: AgentConfig = CONFIG) -> None:
        super().__init__(config)

    def step(self, state: AgentState, input: Input | None) -> Transition:
        transition = super().step(state, input)
        return transition if input is None else self.spoil(state, input, transition)

    def spoil(self, state: AgentState, input: Input, transition: Transition) -> Transition:
        raise NotImplementedError


class Counting(Faulty):
    """L1: has a counter of its own, so equal arguments give different transitions."""

    def __init__(self, config: AgentConfig = CONFIG) -> None:
        super().__init__(config)
        self.numbers = count(1)

    def spoil(self, state: AgentState, input: Input, transition: Transition) -> Transition:
        def renamed(decision: Decision) -> Decision:
            if isinstance(decision, Rejected):
                return evolve(decision, detail=f"{decision.detail} (number {next(self.numbers)})")
            return decision

        return evolve(transition, decisions=tuple(map(renamed, transition.decisions)))


class Trusting(Faulty):
    """L2: assumes that every answer is expected, and raises on a stale one."""

    def spoil(self, state: AgentState, input: Input, transition: Transition) -> Transition:
        if any(isinstance(decision, Rejected) for decision in transition.decisions):
            raise KeyError(getattr(input, "effect_id", type(input).__name__))
        return transition


class Forgetful(Faulty):
    """L3: forgets the result of the second of two calls."""

    def spoil(self, state: AgentState, input: Input, transition: Transition) -> Transition:
        def without(decision: Decision) -> Decision:
            if isinstance(decision, CallModel):
                messages = [
                    message
                    for message in decision.request.messages
                    if not (isinstance(message, ToolMessage) and message.call_id.endswith("-2"))
                ]
                return evolve(decision, request=evolve(decision.request, messages=type(state.history)(messages)))
            return decision

        return evolve(transition, decisions=tuple(map(without, transition.decisions)))


class Hasty(Faulty):
    """L4: treats every tool as read-only and runs all calls of a reply in parallel."""

    def __init__(self, config: AgentConfig = CONFIG) -> None:
        super().__init__(evolve(config, tools=tuple(evolve(tool, read_only=True) for tool in config.tools)))
        self.config = config

    def spoil(self, state: AgentState, input: Input, transition: Transition) -> Transition:
        return transition


class Bold(Faulty):
    """L5: runs a call while the user is still being asked about it."""

    def spoil(self, state: AgentState, input: Input, transition: Transition) -> Transition:
        asked = [decision for decision in transition.decisions if isinstance(decision, AskApproval)]
        early = tuple(CallTool(EffectId(f"{question.effect_id}.now"), question.call) for question in asked)
        return evolve(transition, decisions=transition.decisions + early)


class Endless(Faulty):
    """L6: never reports that a turn is finished."""

    def spoil(self, state: AgentState, input: Input, transition: Transition) -> Transition:
        kept = tuple(decision for decision in transition.decisions if type(decision).__name__ != "TurnFinished")
        return evolve(transition, decisions=kept)


class Deaf(Faulty):
    """L7: on cancel it goes to idle and leaves the running tool at work."""

    def spoil(self, state: AgentState, input: Input, transition: Transition) -> Transition:
        if isinstance(input, CancelAsked):
            kept = tuple(decision for decision in transition.decisions if not isinstance(decision, CancelEffect))
            return evolve(transition, decisions=kept)
        return transition


class Secretive(Faulty):
    """L8: puts a value into its state that a journal can't store."""

    def spoil(self, state: AgentState, input: Input, transition: Transition) -> Transition:
        if isinstance(input, ApprovalRefused):
            spent = evolve(transition.next_state.spent, recent=(frozenset({"no"}),))  # type: ignore[arg-type]  # the fault
            return evolve(transition, next_state=evolve(transition.next_state, spent=spent))
        return transition


class Cramming(Faulty):
    """L9: shows the model only the last three messages, wherever that cuts."""

    def spoil(self, state: AgentState, input: Input, transition: Transition) -> Transition:
        def cut(decision: Decision) -> Decision:
            if isinstance(decision, CallModel):
                messages = decision.request.messages
                shown = messages.drop(max(len(messages) - 3, 0))
                return evolve(decision, request=evolve(decision.request, messages=shown))
            return decision

        return evolve(transition, decisions=tuple(map(cut, transition.decisions)))


class Patient(Faulty):
    """L10: answers a reply without text with nothing, and waits for ever."""

    def spoil(self, state: AgentState, input: Input, transition: Transition) -> Transition:
        if isinstance(input, ModelReplied) and not input.text and not input.calls:
            decisions = tuple(decision for decision in transition.decisions if isinstance(decision, Rejected))
            return evolve(transition, decisions=decisions)
        return transition


FAULTY: dict[str, Callable[[], CognitiveEngine]] = {
    "L1": Counting,
    "L2": Trusting,
    "L3": Forgetful,
    "L4": Hasty,
    "L5": Bold,
    "L6": Endless,
    "L7": Deaf,
    "L8": Secretive,
    "L9": Cramming,
    "L10": Patient,
}
"""An engine that breaks it, for each law."""


def main() -> None:
    from cognition.testing import LawViolation, laws

    for name, engine in FAULTY.items():
        law = next(law for law in laws(engine()) if law.name == name)
        try:
            law.check()
        except LawViolation as violation:
            print(f"{engine.__doc__}\n\n{violation}\n\n{'-' * 100}\n")


if __name__ == "__main__":
    main()
