"""Driving an engine by hand: what the tests of turns share."""

from __future__ import annotations

from cognition import (
    AgentConfig,
    AgentState,
    ContextAssembled,
    Decision,
    EffectId,
    Input,
    LLMEngine,
    ModelReplied,
    ProposedCall,
    ToolMessage,
    ToolSpec,
)

MULTIPLY = ToolSpec("multiply", read_only=True)
WRITE = ToolSpec("write")
DELETE = ToolSpec("delete", approval=True)


def effect(text: str) -> EffectId:
    return EffectId(text)


def engine_with(*tools: ToolSpec, **config: object) -> LLMEngine:
    return LLMEngine(AgentConfig(tools=tools, **config))  # type: ignore[arg-type]  # keywords of the test's own


def replied(identity: str, text: str = "", *calls: ProposedCall, **more: object) -> ModelReplied:
    return ModelReplied(effect(identity), text, calls=calls, **more)  # type: ignore[arg-type]  # as above


class Session:
    """Drives an engine by hand and keeps what it decided last."""

    def __init__(self, engine: LLMEngine) -> None:
        self.engine, self.state = engine, AgentState()
        self.decisions: tuple[Decision, ...] = ()

    def __call__(self, event: Input) -> tuple[Decision, ...]:
        transition = self.engine.step(self.state, event)
        self.state, self.decisions = transition.next_state, transition.decisions
        return tuple(d for d in self.decisions if not isinstance(d, ContextAssembled))

    @property
    def results(self) -> list[tuple[str, str]]:
        return [(m.content, m.status) for m in self.state.history if isinstance(m, ToolMessage)]
