"""The schemas accept what the codec writes and refuse what it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from jsonschema import Draft202012Validator

from cognition import (
    AgentConfig,
    AgentState,
    CodecError,
    ConfigError,
    Decision,
    EffectId,
    Input,
    LLMEngine,
    Message,
    ModelReplied,
    Outcome,
    Phase,
    ProposedCall,
    ToolSpec,
    Usage,
    UserSpoke,
    from_data,
    json_schema,
    to_data,
    transitions,
)
from tests.cognition.test_codec import CONFIG, INPUTS, JSON

KINDS: list[Any] = [Input, Decision, Phase, Message, Outcome, AgentState, AgentConfig, ToolSpec, Usage]
VALIDATORS = {kind: Draft202012Validator(json_schema(kind)) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_is_a_valid_schema(kind: Any) -> None:
    Draft202012Validator.check_schema(json_schema(kind))
    assert json_schema(kind) == json.loads(json.dumps(json_schema(kind)))


@given(INPUTS)
def test_every_written_input_is_valid(value: Input) -> None:
    data = json.loads(json.dumps(to_data(value)))

    assert list(VALIDATORS[Input].iter_errors(data)) == []


def test_every_state_and_decision_of_a_run_is_valid() -> None:
    inputs = [UserSpoke("Hello"), ModelReplied(EffectId("1.1.0"), calls=(ProposedCall("work", {"n": 1}),))]
    for transition in transitions(LLMEngine(CONFIG), inputs):
        VALIDATORS[AgentState].validate(json.loads(json.dumps(to_data(transition.next_state))))
        for decision in transition.decisions:
            VALIDATORS[Decision].validate(json.loads(json.dumps(to_data(decision))))
    VALIDATORS[AgentConfig].validate(json.loads(json.dumps(to_data(CONFIG))))


@given(JSON)
def test_what_the_schema_refuses_the_codec_refuses_too(data: Any) -> None:
    """The codec is never more lenient than the schema says."""
    for kind in (Input, AgentState, Usage):
        try:
            from_data(data, kind)
        except CodecError:
            continue
        assert VALIDATORS[kind].is_valid(data)


@pytest.mark.parametrize("kind", [object, bytes, list[int]])
def test_a_type_that_is_not_written_has_no_schema(kind: Any) -> None:
    with pytest.raises(ConfigError, match="no type that the codec writes"):
        json_schema(kind)
