"""What a request and an account keep over failures, cancels and resets: each line has caught a change of one word."""

import pytest
from attrs import evolve

from cognition import (
    AgentConfig,
    AgentState,
    CallModel,
    CancelAsked,
    ConfigError,
    Failure,
    GenerationOptions,
    LLMEngine,
    ModelFailed,
    ModelReplied,
    ProposedCall,
    SessionReset,
    ToolSpec,
    Transition,
    TurnFinished,
    Usage,
    UserSpoke,
)
from cognition.steps.state import Window
from cognition.values.messages import schema_text

SCHEMA = '{"type": "integer"}'


def asked(transition: Transition) -> CallModel:
    (call,) = [decision for decision in transition.decisions if isinstance(decision, CallModel)]
    return call


def test_a_forced_call_stays_forced_where_the_answer_has_a_schema() -> None:
    engine = LLMEngine(AgentConfig(tools=(ToolSpec("look"),), options=GenerationOptions(tool_choice="required")))
    transition = engine.step(AgentState(), UserSpoke("Hello", SCHEMA))
    request = asked(transition).request

    assert (request.options.tool_choice, request.options.response_format) == ("required", SCHEMA)
    assert engine.build_prompt(transition.next_state) == request


def test_a_cancelled_reply_is_counted_beside_the_ones_before() -> None:
    engine = LLMEngine(AgentConfig(tools=(ToolSpec("look", approval=True),)))
    began = engine.step(AgentState(), UserSpoke("Hello"))
    replied = ModelReplied(asked(began).effect_id, calls=(ProposedCall("look", {}),), usage=Usage(3, 4))
    cancelled = engine.step(engine.step(began.next_state, replied).next_state, CancelAsked(usage=Usage(10, 20)))

    assert isinstance(cancelled.decisions[-1], TurnFinished)
    assert cancelled.decisions[-1].usage == Usage(13, 24)


def test_a_reset_forgets_how_wrong_the_estimates_were() -> None:
    state = evolve(AgentState(), window=Window(scale=3.0))

    assert LLMEngine(AgentConfig()).step(state, SessionReset()).next_state.window.scale == 1.0


def test_in_edition_1_a_second_overflow_takes_the_first_one_s_measure_back() -> None:
    engine, state = LLMEngine(AgentConfig(context_tokens=2000, edition=1)), AgentState()
    for _ in range(4):
        began = engine.step(state, UserSpoke("word " * 150))
        state = engine.step(began.next_state, ModelReplied(asked(began).effect_id, "Yes.")).next_state
    began = engine.step(state, UserSpoke("Hello"))
    failure = Failure("too long", "context_overflow", needed_tokens=2200, available_tokens=2000)
    again = engine.step(began.next_state, ModelFailed(asked(began).effect_id, failure))
    assert again.next_state.window.scale > 1.0

    failed = engine.step(again.next_state, ModelFailed(asked(again).effect_id, failure))

    assert failed.next_state.window.scale == 1.0


def test_a_schema_s_text_is_readable_and_json() -> None:
    assert schema_text({"title": "ü"}) == '{"title": "ü"}'
    with pytest.raises(ConfigError, match="not JSON compliant"):
        schema_text({"minimum": float("nan")})
