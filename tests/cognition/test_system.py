"""A system prompt that comes with a message: from there on it stands in place of the configuration's."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from cognition import (
    AgentConfig,
    AgentState,
    CallModel,
    ContextAssembled,
    EffectId,
    Failure,
    Input,
    LLMEngine,
    ModelFailed,
    ModelReplied,
    SessionReset,
    ToolReturned,
    ToolSpec,
    TurnFinished,
    Usage,
    UserSpoke,
    fold,
    transitions,
)
from cognition.values.messages import ProposedCall

LOOK = ToolSpec("look", "Look.")


def asked(engine: LLMEngine, inputs: list[Input]) -> list[str]:
    """The system prompt of each model call."""
    steps = transitions(engine, inputs)
    return [one.request.system for step in steps for one in step.decisions if isinstance(one, CallModel)]


def test_it_holds_for_all_calls_from_its_message_on_until_another_comes() -> None:
    inputs: list[Input] = [
        UserSpoke("a"),
        ModelReplied(EffectId("1.1.0"), "A"),
        UserSpoke("b", system="Be kind."),
        ModelReplied(EffectId("2.1.0"), calls=(ProposedCall("look"),)),
        ToolReturned(EffectId("2.1.1"), "seen"),
        ModelReplied(EffectId("2.2.0"), "B"),
        UserSpoke("c"),
        ModelReplied(EffectId("3.1.0"), "C"),
        UserSpoke("d", system=""),
    ]
    engine = LLMEngine(AgentConfig(system="Be brief.", tools=(LOOK,)))

    assert asked(engine, inputs) == ["Be brief.", "Be kind.", "Be kind.", "Be kind.", ""]
    assert engine.build_prompt(fold(engine, inputs[:3])).system == "Be kind."


def test_a_reset_forgets_it() -> None:
    done = ModelReplied(EffectId("1.1.0"), "A")
    inputs: list[Input] = [UserSpoke("a", system="Be kind."), done, SessionReset(), UserSpoke("b")]

    assert asked(LLMEngine(AgentConfig("Be brief.")), inputs) == ["Be kind.", "Be brief."]


@pytest.mark.parametrize("protocol", ["native", "short_keys", "tool_tags"])
@pytest.mark.parametrize("own", ["", "Be brief."])
@pytest.mark.parametrize("new", ["", "Be kind."])
def test_tools_are_told_behind_it_as_behind_the_configurations_own(protocol: Any, own: str, new: str) -> None:
    config = AgentConfig(own, (LOOK,), protocol=protocol)
    there = evolve(config, system=new)

    assert asked(LLMEngine(config), [UserSpoke("a", system=new)]) == [there.prompt] == [config.prompt_with(new)]


@pytest.mark.parametrize("own", [0, 1500, 2200])
@pytest.mark.parametrize("new", [None, 0, 1500])
def test_the_request_of_a_state_is_the_one_that_was_made(own: int, new: int | None) -> None:
    """What is left out of it is found by the prompt that stands in it, however long the configuration's own is."""
    engine = LLMEngine(AgentConfig("x" * own, context_tokens=1000, reply_tokens=100))
    state, said = AgentState(), "word " * 60
    for turn in range(1, 6):
        asked = engine.step(state, UserSpoke(said, system=None if new is None else "y" * new))
        call = asked.decisions[-1]
        assert isinstance(call, CallModel)
        assert engine.build_prompt(asked.next_state) == call.request
        state = engine.step(asked.next_state, ModelReplied(EffectId(f"{turn}.1.0"), said)).next_state


def test_its_size_counts() -> None:
    def told(config: AgentConfig, event: UserSpoke) -> ContextAssembled:
        report, _ = LLMEngine(config).step(AgentState(), event).decisions
        assert isinstance(report, ContextAssembled)
        return report

    long = "x" * 3000
    assert told(AgentConfig(system="y"), UserSpoke("a", system=long)) == told(AgentConfig(system=long), UserSpoke("a"))


def test_one_that_does_not_fit_ends_the_turn_and_the_next_message_may_bring_a_shorter_one() -> None:
    engine = LLMEngine(AgentConfig(context_tokens=1000))
    first = engine.step(AgentState(), UserSpoke("a", system="x" * 9000))
    refused = Failure("too long", "context_overflow")
    ended = engine.step(first.next_state, ModelFailed(EffectId("1.1.0"), refused))
    second = engine.step(ended.next_state, UserSpoke("b", system="Be kind."))

    assert isinstance(first.decisions[-1], CallModel), "an estimate ends no turn"
    assert isinstance(ended.decisions[-1], TurnFinished)
    assert isinstance(second.decisions[-1], CallModel)


def test_what_the_runtime_counts_is_held_against_its_size() -> None:
    engine = LLMEngine(AgentConfig(context_tokens=8000))
    replied = ModelReplied(EffectId("1.1.0"), "A", usage=Usage(2000, 1))
    state = fold(engine, [UserSpoke("a", system="x" * 6000), replied])

    assert state.window.scale == pytest.approx(2000 / (2000 + 16 + 8 + 1 / 3))
