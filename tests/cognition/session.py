"""Driving an engine by hand: what the tests of turns share."""

from __future__ import annotations

from functools import cache
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from attrs import fields, has

from cognition import (
    AgentConfig,
    AgentState,
    CallModel,
    ContextAssembled,
    Decision,
    EffectId,
    History,
    Input,
    LLMEngine,
    Message,
    ModelReplied,
    ProposedCall,
    ToolMessage,
    ToolSpec,
    Transition,
    UserMessage,
    UserSpoke,
)
from cognition.context import before_window, message_size, prompt_budget, visible_messages
from cognition.context.sections import briefing_size
from cognition.engine._setup import Setup

MULTIPLY = ToolSpec("multiply", read_only=True)
WRITE = ToolSpec("write")
DELETE = ToolSpec("delete", approval=True)


def effect(text: str) -> EffectId:
    return EffectId(text)


def engine_with(*tools: ToolSpec, **config: object) -> LLMEngine:
    return LLMEngine(AgentConfig(tools=tools, **config))  # type: ignore[arg-type]  # keywords of the test's own


def replied(effect_id: str, text: str = "", *calls: ProposedCall, **more: object) -> ModelReplied:
    return ModelReplied(effect(effect_id), text, calls=calls, **more)  # type: ignore[arg-type]  # as above


@cache
def fields_of(kind: type) -> tuple[tuple[str, Any], ...]:
    hints = get_type_hints(kind)
    return tuple((field.name, hints[field.name]) for field in fields(kind))  # type: ignore[arg-type]  # an attrs class


def has_type(value: Any, kind: Any) -> bool:
    """Whether a value of the core is, through and through, what its type says. Knows nothing of the codec."""
    kind = getattr(kind, "__supertype__", kind)  # a NewType is what it renames
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return value in arguments
    if origin in (Union, UnionType):
        return any(has_type(value, member) for member in arguments)
    if origin is tuple and arguments[-1] is ...:
        return isinstance(value, tuple) and all(has_type(item, arguments[0]) for item in value)
    if origin is tuple:
        return isinstance(value, tuple) and all(map(has_type, value, arguments))
    if kind is History:
        return isinstance(value, History) and all(has_type(message, Message) for message in value)
    if has(kind):
        return type(value) is kind and all(has_type(getattr(value, name), of) for name, of in fields_of(kind))
    return type(value) in (float, int) if kind is float else type(value) is (origin or kind)


def _is_users(message: Message) -> bool:
    return isinstance(message, UserMessage) and message.origin == "user"


def check(config: AgentConfig, transition: Transition) -> None:
    """What holds after every step of an ``LLMEngine``, whatever was decided."""
    state, decisions = transition.next_state, transition.decisions
    assert has_type(state, AgentState)
    assert all(has_type(decision, Decision) for decision in decisions)
    ids, newest = [message.id for message in state.history], state.counters.messages
    assert ids == [f"m{number}" for number in range(newest - len(ids) + 1, newest + 1)]
    setup, costs = Setup(config), state.costs
    messages = visible_messages(state.history, state.window, setup.note_with(costs))
    assert sum(message_size(message) for message in messages) == pytest.approx(state.window.size)
    reports = [decision for decision in decisions if isinstance(decision, ContextAssembled)]
    asked = [decision for decision in decisions if isinstance(decision, CallModel)]
    requests = [decision.request for decision in asked if decision.purpose != "summary"]
    fixed = setup.fixed_size_with(state.system, costs) + briefing_size(state.briefing)
    tokens = (fixed + state.window.size - state.window.slack) * state.window.scale
    summary = state.window.summary
    for report, request in zip(reports, requests, strict=True):
        shown_messages, budget, first = len(request.messages), prompt_budget(config), state.window.first
        front = len(before_window(state.history, state.window))
        assert state.briefing is not None or request.messages == messages
        dropped = len(state.history) - (shown_messages - bool(summary.text) - bool(summary.skipped))
        turns = sum(_is_users(message) for message in state.history[:first]) - (summary.asked is not None)
        short = sum(one != whole for one, whole in zip(request.messages[front:], state.history[first:], strict=True))
        assert report == ContextAssembled(shown_messages, dropped, int(tokens), budget, short, turns, costs is not None)


class Session:
    """Drives an engine by hand, checks each step, and keeps what it decided last."""

    def __init__(self, engine: LLMEngine) -> None:
        self.engine, self.state = engine, AgentState()
        self.decisions: tuple[Decision, ...] = ()

    def __call__(self, event: Input) -> tuple[Decision, ...]:
        transition = self.engine.step(self.state, event)
        check(self.engine.config, transition)
        self.state, self.decisions = transition.next_state, transition.decisions
        return tuple(d for d in self.decisions if not isinstance(d, ContextAssembled))

    @property
    def results(self) -> list[tuple[str, str]]:
        return [(m.content, m.status) for m in self.state.history if isinstance(m, ToolMessage)]


def calling(session: Session, *calls: ProposedCall, text: str = "Go") -> tuple[object, ...]:
    """A turn up to the reply with these calls; what was decided on it."""
    session(UserSpoke(text))
    turn = session.state.counters.turn
    return session(replied(f"{turn}.1.0", "", *calls))


def worker(name: str, *after: str, **more: object) -> ProposedCall:
    return ProposedCall("spawn_worker", {"name": name, "objective": f"do {name}", "after": list(after), **more})
