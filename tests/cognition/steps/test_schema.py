"""The schemas accept what the codec writes and refuse what it refuses."""

from __future__ import annotations

import json
import re
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
    GenerationOptions,
    History,
    Input,
    LLMEngine,
    Message,
    ModelReplied,
    Outcome,
    Phase,
    ProposedCall,
    Question,
    ToolSpec,
    Usage,
    UserSpoke,
    from_data,
    json_schema,
    to_data,
    transitions,
)
from tests.cognition.steps.test_codec import CONFIG, INPUTS, JSON

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


def test_a_schema_is_written_as_the_draft_says() -> None:
    """Scalars, choices, arrays, objects that may leave out what has a default, and nothing beside the fields."""
    text, texts = {"type": "string"}, {"type": "array", "items": {"type": "string"}}
    draft = "https://json-schema.org/draft/2020-12/schema"

    assert json_schema(EffectId) == {"$schema": draft, "type": "string", "$defs": {}}
    assert json_schema(dict[str, Any]) == {"$schema": draft, "type": "object", "$defs": {}}
    assert json_schema(float | None) == {
        "$schema": draft,
        "anyOf": [{"type": "number"}, {"type": "null"}],
        "$defs": {},
    }
    assert json_schema(Question) == {
        "$schema": draft,
        "$ref": "#/$defs/Question",
        "$defs": {
            "Question": {
                "type": "object",
                "properties": {
                    "text": text,
                    "options": texts,
                    "multiple": {"type": "boolean"},
                    "header": text,
                    "descriptions": texts,
                },
                "required": ["text", "options"],
                "additionalProperties": False,
            }
        },
    }
    assert json_schema(History)["type"] == "array"
    assert json_schema(History)["items"] == {
        "oneOf": [{"$ref": f"#/$defs/{name}.tagged"} for name in ("UserMessage", "AssistantMessage", "ToolMessage")]
    }
    parts = {"oneOf": [{"$ref": "#/$defs/TextPart.tagged"}, {"$ref": "#/$defs/Image.tagged"}]}
    assert json_schema(Message)["$defs"]["UserMessage.tagged"] == {
        "type": "object",
        "properties": {
            "type": {"const": "user"},
            "id": text,
            "text": text,
            "origin": {"enum": ["user", "engine"]},
            "parts": {"type": "array", "items": parts},
            "tokens": {"type": "array", "items": {"type": "integer"}},
        },
        "required": ["type", "id", "text"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize("kind", KINDS)
def test_every_class_is_defined_once_and_every_reference_leads_somewhere(kind: Any) -> None:
    schema = json_schema(kind)
    definitions = schema["$defs"]

    references = set(re.findall(r'"#/\$defs/([^"]+)"', json.dumps(schema)))

    assert set(definitions) == references
    assert all(definition["additionalProperties"] is False for definition in definitions.values())


@pytest.mark.parametrize(
    ("pairs", "right"),
    [([], True), ([[3, 1.5]], True), ([[3]], False), ([[3, 1.5, 2]], False), ([["3", 1.5]], False), ([{}], False)],
)
def test_pairs_have_two_items_of_their_own_types(pairs: Any, right: bool) -> None:
    """The biases of tokens are the only ones so far."""
    assert right == VALIDATORS[AgentConfig].is_valid({"options": {"logit_bias": pairs}})


def test_a_row_of_values_has_a_type_at_each_place() -> None:
    """A tuple of a fixed length, as the biases of tokens are."""
    biases = json_schema(GenerationOptions)["$defs"]["GenerationOptions"]["properties"]["logit_bias"]

    row = [{"type": "integer"}, {"type": "number"}]
    assert biases == {
        "type": "array",
        "items": {"type": "array", "prefixItems": row, "items": False, "minItems": 2},
    }


def test_a_class_within_a_row_is_defined_beside_the_others() -> None:
    schema = json_schema(tuple[str, Usage])

    assert schema["prefixItems"] == [{"type": "string"}, {"$ref": "#/$defs/Usage"}]
    assert list(schema["$defs"]) == ["Usage"]
