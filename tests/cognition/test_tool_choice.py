"""What the core asks of a model's sampling: forced calls, none at all, answers of a schema."""

from typing import Any

import pytest
from attrs import evolve

from cognition import (
    AgentConfig,
    AgentState,
    CallModel,
    Completed,
    ConfigError,
    GenerationOptions,
    Limits,
    LLMEngine,
    ModelReplied,
    ModelRequest,
    ProposedCall,
    ToolReturned,
    ToolSpec,
    Transition,
    TurnFinished,
    Usage,
    UserMessage,
    UserSpoke,
    from_data,
    to_data,
)

LOOK = ToolSpec("look")
SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
SCHEMA_TEXT = '{"type": "object", "properties": {"ok": {"type": "boolean"}}}'


def request_of(transition: Transition) -> ModelRequest:
    (call,) = [decision for decision in transition.decisions if isinstance(decision, CallModel)]
    return call.request


def engine_with(**options: Any) -> LLMEngine:
    return LLMEngine(AgentConfig(tools=(LOOK,), options=GenerationOptions(**options), limits=Limits(steps=2)))


@pytest.mark.parametrize("choice", ["required", "look"])
def test_a_call_is_forced_until_the_turn_has_made_one(choice: str) -> None:
    """Else an agent could never answer. The next turn begins anew."""
    engine = engine_with(tool_choice=choice)
    asked = engine.step(AgentState(), UserSpoke("Go on."))
    assert request_of(asked).options.tool_choice == choice

    called = engine.step(asked.next_state, ModelReplied(asked.decisions[-1].effect_id, calls=(ProposedCall("look"),)))
    again = engine.step(called.next_state, ToolReturned(called.decisions[0].effect_id, "done"))
    assert request_of(again).options.tool_choice == "auto"
    assert engine.build_prompt(again.next_state) == request_of(again)

    answered = engine.step(again.next_state, ModelReplied(again.decisions[-1].effect_id, "Well."))
    assert request_of(engine.step(answered.next_state, UserSpoke("And now?"))).options.tool_choice == choice


def test_with_none_calls_mean_nothing() -> None:
    """Whatever the runtime makes of the wish, nothing runs."""
    engine = engine_with(tool_choice="none")
    asked = engine.step(AgentState(), UserSpoke("Go on."))
    reply = ModelReplied(asked.decisions[-1].effect_id, "Well.", calls=(ProposedCall("look"),))

    assert engine.step(asked.next_state, reply).decisions == (TurnFinished(Completed("Well."), Usage()),)


def test_a_final_answer_is_asked_for_without_calls() -> None:
    """At the limit of steps, sampling itself keeps the model from calling."""
    engine = engine_with()
    transition = engine.step(AgentState(), UserSpoke("Go on."))
    for _ in range(2):
        effect_id = transition.decisions[-1].effect_id
        called = engine.step(transition.next_state, ModelReplied(effect_id, calls=(ProposedCall("look"),)))
        transition = engine.step(called.next_state, ToolReturned(called.decisions[0].effect_id, "done"))

    assert (request_of(transition).tools, request_of(transition).options.tool_choice) == ((), "none")


def test_the_schema_of_an_answer_is_told_and_asked_for_throughout_its_turn() -> None:
    """The model reads it once, and every request of the turn carries it; the next turn is free."""
    engine = engine_with()
    asked = engine.step(AgentState(), UserSpoke("Go on.", SCHEMA))
    note = request_of(asked).messages[-1]
    assert isinstance(note, UserMessage)
    assert (note.origin, SCHEMA_TEXT in note.text) == ("engine", True)
    assert request_of(asked).options.response_format == SCHEMA_TEXT

    called = engine.step(asked.next_state, ModelReplied(asked.decisions[-1].effect_id, calls=(ProposedCall("look"),)))
    again = engine.step(called.next_state, ToolReturned(called.decisions[0].effect_id, "done"))
    assert request_of(again).options.response_format == SCHEMA_TEXT

    answered = engine.step(again.next_state, ModelReplied(again.decisions[-1].effect_id, "{}"))
    assert request_of(engine.step(answered.next_state, UserSpoke("And now?"))).options.response_format == ""


def test_requests_of_one_kind_share_their_options() -> None:
    """By which a recording knows, without a look at them, that nothing changed."""
    engine = engine_with()
    first, second = (request_of(engine.step(AgentState(), UserSpoke(text, SCHEMA))) for text in ("a", "b"))

    assert first.options is second.options

    usual = LLMEngine(AgentConfig(options=GenerationOptions(response_format=SCHEMA)))
    asked = request_of(usual.step(AgentState(), UserSpoke("c")))
    assert asked.options is usual.config.options


def test_a_schema_that_is_the_configurations_own_is_asked_for_as_the_configuration_says() -> None:
    """Whether it comes with the message too or not, and so too once the choice of tools has changed."""
    engine = engine_with(tool_choice="look", response_format=SCHEMA)
    asked = engine.step(AgentState(), UserSpoke("Go on.", SCHEMA))
    called = engine.step(asked.next_state, ModelReplied(asked.decisions[-1].effect_id, calls=(ProposedCall("look"),)))
    again = engine.step(called.next_state, ToolReturned(called.decisions[0].effect_id, "done"))

    assert request_of(asked).options == engine.config.options
    assert request_of(again).options == evolve(engine.config.options, tool_choice="auto")


@pytest.mark.parametrize(
    "make",
    [
        lambda: AgentConfig(options=GenerationOptions(tool_choice="required")),
        lambda: AgentConfig(options=GenerationOptions(tool_choice="look")),
        lambda: AgentConfig(tools=(LOOK,), options=GenerationOptions(tool_choice="look"), protocol="tool_tags"),
        lambda: AgentConfig(options=GenerationOptions(response_format=SCHEMA), protocol="short_keys"),
        lambda: GenerationOptions(response_format="[]"),
        lambda: GenerationOptions(response_format="{"),
        lambda: UserSpoke("x", returns="not json"),
        lambda: UserSpoke("x", returns="[]"),
        lambda: GenerationOptions(response_format={"a": {1}}),
    ],
)
def test_a_wish_that_can_not_be_fulfilled_is_a_config_error(make: Any) -> None:
    """Before anything runs."""
    with pytest.raises(ConfigError):
        make()


def test_the_options_survive_the_codec() -> None:
    """A schema is text in them, whether it was given as text or not."""
    options = GenerationOptions(tool_choice="look", parallel_calls=False, response_format=SCHEMA, constrain=False)

    assert from_data(to_data(options), GenerationOptions) == options
    assert options.response_format == SCHEMA_TEXT
