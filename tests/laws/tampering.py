"""A small session to tamper with, and the ways in which a step of it is changed so that a law is broken."""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve

from cognition import (
    AgentConfig,
    CallModel,
    Decision,
    EffectId,
    History,
    Input,
    Limits,
    LLMEngine,
    ModelReplied,
    ProposedCall,
    ToolCall,
    ToolMessage,
    ToolReturned,
    ToolSpec,
    Transition,
    Usage,
    UserSpoke,
)
from cognition.testing import Edge, World
from cognition.testing._world import after, take

LOOK, WRITE, SORT = ToolSpec("look", read_only=True), ToolSpec("write", approval=True), ToolSpec("sort")
CONFIG = AgentConfig(
    system="Be brief.",
    tools=(LOOK, WRITE, SORT),
    limits=Limits(steps=2, tool_calls=2, refusals=2, output_tokens=100, workers=1, hook_continuations=1),
)
ENGINE = LLMEngine(CONFIG)
RETRYING = LLMEngine(
    evolve(CONFIG, tools=(ToolSpec("fetch", read_only=True, retries=(2.0,)), SORT), limits=Limits(), hooks=())
)
WORKERS = LLMEngine(evolve(CONFIG, features=("workers", "memory"), hooks=("before_tool", "stop")))


def effect(text: str) -> EffectId:
    return EffectId(text)


def calling(effect_id: str, *names: str, arguments: str = "{}") -> ModelReplied:
    return ModelReplied(effect(effect_id), calls=tuple(ProposedCall(name, arguments) for name in names))


HELLO = UserSpoke("Hello")
ANSWERED = ModelReplied(effect("1.1.0"), "Done.", usage=Usage(0, 5))
LOOKED = (HELLO, calling("1.1.0", "look"), ToolReturned(effect("1.1.1"), "ok"))
READ = (HELLO, calling("1.1.0", "look"), ToolReturned(effect("1.1.1"), "ok" * 100))
READ_LATER = (HELLO, ANSWERED, HELLO, calling("2.1.0", "look"), ToolReturned(effect("2.1.1"), "ok" * 100))
SPAWN = calling("1.1.0", "spawn_worker", arguments='{"name": "w", "objective": "look"}')

Change = Callable[[Transition], Transition]


def add(*decisions: Decision) -> Change:
    return lambda transition: evolve(transition, decisions=transition.decisions + decisions)


def only(*decisions: Decision) -> Change:
    return lambda transition: evolve(transition, decisions=decisions)


def without(kind: type[Decision]) -> Change:
    return lambda t: evolve(t, decisions=tuple(d for d in t.decisions if not isinstance(d, kind)))


def state(**changes: object) -> Change:
    return lambda t: evolve(t, next_state=evolve(t.next_state, **changes))  # type: ignore[arg-type]  # by the test


def request(change: Callable[[History], History], **more: object) -> Change:
    def changed(decision: Decision) -> Decision:
        if not isinstance(decision, CallModel):
            return decision
        messages = change(decision.request.messages)
        return evolve(decision, request=evolve(decision.request, messages=messages, **more))  # type: ignore[arg-type]

    return lambda t: evolve(t, decisions=tuple(map(changed, t.decisions)))


def same(messages: History) -> History:
    return messages


def cut(messages: History, content: str, left_out: int = 196) -> History:
    """The messages with this as the newest one's content."""
    newest = messages[-1]
    assert isinstance(newest, ToolMessage)
    return History([*messages[:-1], evolve(newest, content=content, left_out=left_out)])


def call(number: int, name: str, arguments: str = "{}") -> ToolCall:
    return ToolCall(f"call-1-1-{number}", name, arguments)


def edge_after(engine: LLMEngine, inputs: tuple[Input, ...], change: Change) -> Edge:
    """The last of these steps, with its transition changed."""
    world = World()
    for event in inputs[:-1]:
        world = take(engine, world, event).after
    edge = take(engine, world, inputs[-1])
    transition = change(edge.transition)
    return Edge(world, inputs[-1], transition, after(world, inputs[-1], transition))
