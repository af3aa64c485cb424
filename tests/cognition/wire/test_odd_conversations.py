"""Conversations as servers insist on them: what stands behind what, pictures of results, calls that are none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cognition import (
    AgentConfig,
    AgentState,
    AssistantMessage,
    CallModel,
    CancelAsked,
    Image,
    LLMEngine,
    ModelReplied,
    ModelRequest,
    ProposedCall,
    ToolCall,
    ToolMessage,
    ToolReturned,
    ToolSpec,
    UserMessage,
    UserSpoke,
)
from cognition.base.ids import effect_id
from cognition.wire import QUIRKS, UnsupportedRequestError, encode
from tests.cognition.wire.sent import asked

CALL = ToolCall("call-1-1-1", "add", '{"a": 1}')
DOT = Image.of(b"GIF89a" + bytes(8))
OBJECTS = ("anthropic", "ollama")
"""Formats that have arguments as objects."""
NOTE = "The images of the result of look (call-1-1-1):"
every_server = pytest.mark.parametrize("server", sorted(QUIRKS))


def body_of(server: str, request: ModelRequest) -> dict[str, Any]:
    quirks = QUIRKS[server]
    body: dict[str, Any] = json.loads(encode(quirks.dialect, request, "m", quirks=quirks).body)
    return body


@pytest.fixture(params=[False, True], ids=["whole", "cancelled"])
def pictured(request: pytest.FixtureRequest) -> ModelRequest:
    """What a model is asked behind a result with a picture, which the engine shows in a message of its own."""
    engine = LLMEngine(AgentConfig(tools=(ToolSpec("look", read_only=True),)))
    asking = engine.step(AgentState(), UserSpoke("Look."))
    proposed = (ProposedCall("look"),) * 2
    state = engine.step(asking.next_state, ModelReplied(asking.decisions[-1].effect_id, calls=proposed)).next_state
    state = engine.step(state, ToolReturned(effect_id(1, 1, 1), "a dot", images=(DOT,))).next_state
    if request.param:
        done = engine.step(engine.step(state, CancelAsked()).next_state, UserSpoke("Well?"))
    else:
        done = engine.step(state, ToolReturned(effect_id(1, 1, 2), "nothing"))
    decision = done.decisions[-1]
    assert isinstance(decision, CallModel)
    return decision.request


class TestPicturesOfResults:
    """They stand behind all results, each below the note that says whose they are, in every format."""

    def test_chat_completions(self, pictured: ModelRequest) -> None:
        messages = body_of("openai", pictured)["messages"]
        roles = [message["role"] for message in messages]

        assert roles[:5] == ["user", "assistant", "tool", "tool", "user"]
        assert messages[4]["content"] == [
            {"type": "text", "text": NOTE},
            {"type": "image_url", "image_url": {"url": f"data:image/gif;base64,{DOT.data}"}},
        ]

    def test_responses(self, pictured: ModelRequest) -> None:
        items = body_of("responses", pictured)["input"]

        assert [item.get("type") for item in items[1:5]] == ["function_call"] * 2 + ["function_call_output"] * 2
        assert items[5]["content"] == [
            {"type": "input_text", "text": NOTE},
            {"type": "input_image", "image_url": f"data:image/gif;base64,{DOT.data}", "detail": "auto"},
        ]

    def test_anthropic(self, pictured: ModelRequest) -> None:
        blocks = body_of("anthropic", pictured)["messages"][2]["content"]

        assert [block["type"] for block in blocks[:4]] == ["tool_result", "tool_result", "text", "image"]
        assert blocks[2]["text"] == NOTE
        assert blocks[3]["source"] == {"type": "base64", "media_type": "image/gif", "data": DOT.data}

    def test_ollama(self, pictured: ModelRequest) -> None:
        messages = body_of("ollama", pictured)["messages"]

        assert [message["role"] for message in messages[:5]] == ["user", "assistant", "tool", "tool", "user"]
        assert messages[4] == {"role": "user", "content": NOTE, "images": [DOT.data]}

    def test_a_server_that_takes_none_is_not_asked(self, pictured: ModelRequest) -> None:
        with pytest.raises(UnsupportedRequestError, match="takes text alone"):
            body_of("deepseek", pictured)


@every_server
def test_mistral_has_a_reply_between_results_and_the_user(server: str) -> None:
    """It refuses a message of the user right behind a result; no other server is told what the model has not said."""
    history = (
        AssistantMessage("m1", "", "", (CALL,)),
        ToolMessage("m2", CALL.id, "add", "1"),
        UserMessage("m3", "Stop."),
        UserMessage("m4", "Well?"),
        AssistantMessage("m5", "", "", (CALL,)),  # its result is lost
        UserMessage("m6", "Again."),
    )
    written = json.dumps(body_of(server, asked(*history)))
    assert written.count("(seen)") == (2 if server == "mistral" else 0)
    if server == "mistral":
        roles = [message["role"] for message in json.loads(written)["messages"]]
        assert roles == ["assistant", "tool", "assistant", "user", "user", "assistant", "tool", "assistant", "user"]


@every_server
@pytest.mark.parametrize("arguments", ["", "no JSON", "[1]", '{"a": NaN}', "[" * 100_000])
def test_arguments_that_are_no_object_are_sent_within_one(server: str, arguments: str) -> None:
    """Servers read them, and refuse a conversation that somebody else has recorded with others."""
    history = (AssistantMessage("m1", "", "", (ToolCall("c", "add", arguments),)), ToolMessage("m2", "c", "add", "1"))
    body = body_of(server, asked(*history))
    match QUIRKS[server].dialect:
        case "openai":
            told = json.loads(body["messages"][0]["tool_calls"][0]["function"]["arguments"])
        case "responses":
            told = json.loads(body["input"][0]["arguments"])
        case "anthropic":
            told = body["messages"][1]["content"][0]["input"]
        case "ollama":
            told = body["messages"][0]["tool_calls"][0]["function"]["arguments"]

    assert told == {"arguments": arguments}


@pytest.mark.parametrize("dialect", ["anthropic", "ollama", "openai", "responses"])
def test_what_is_nested_deeply_is_sent_or_can_t_be_said(dialect: str) -> None:
    """Wherever the interpreter's stack ends: nothing but an ``UnsupportedRequestError`` comes out."""
    arguments = f'{{"a": {"[" * 900}{"]" * 900}}}'
    history = (AssistantMessage("m1", "", "", (ToolCall("c", "add", arguments),)), ToolMessage("m2", "c", "add", "1"))
    request = asked(*history)

    def written(depth: int) -> bool:
        if depth:
            return written(depth - 1)
        try:
            return bool(body_of(dialect, request))
        except UnsupportedRequestError:
            return False

    assert {True} <= {written(depth) for depth in range(150)} <= ({True, False} if dialect in OBJECTS else {True})


def test_a_system_prompt_of_white_space_is_none_to_anthropic() -> None:
    """Which refuses it."""
    assert "system" not in body_of("anthropic", asked(system=" \n"))
    assert body_of("anthropic", asked(system="Hi"))["system"] == "Hi"
