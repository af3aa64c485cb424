"""What requests say in each format."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings, strategies as st

from cognition import (
    AssistantMessage,
    GenerationOptions,
    Image,
    Message,
    ModelRequest,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from cognition.base.errors import ConfigError
from cognition.wire import QUIRKS, Dialect, Quirks, UnsupportedRequestError, encode
from cognition.wire._conversation import continuation_of
from cognition.wire._request_builder import fits_strict
from tests.cognition.samples import some
from tests.cognition.wire.sent import ADD, asked

DIALECTS: tuple[Dialect, ...] = ("openai", "responses", "anthropic", "ollama")
every_format = pytest.mark.parametrize("dialect", DIALECTS)
every_server = pytest.mark.parametrize("server", sorted(QUIRKS))

CALL = ToolCall("call-1-1-1", "add", '{"a": 1}')
FAR_CALL = ToolCall("call-1-1-2", "mcp.far.look", "{}")
PICTURE = Image.of(b"\x89PNG\r\n\x1a\n" + bytes(8))
CONVERSATION: tuple[Message, ...] = (
    UserMessage("m1", "Add."),
    AssistantMessage("m2", "Well:", "I had better add.", (CALL, FAR_CALL)),
    ToolMessage("m3", CALL.id, "add", "1"),
    ToolMessage("m4", FAR_CALL.id, "mcp.far.look", "Error: gone", "error"),
    UserMessage("m5", "Be quick.", "engine"),
)


def body_of(dialect: Dialect, request: ModelRequest, quirks: Quirks | None = None, **more: Any) -> dict[str, Any]:
    body = json.loads(encode(dialect, request, "m", quirks=quirks, **more).body)
    assert isinstance(body, dict)
    return body


def warnings_of(dialect: Dialect, request: ModelRequest, quirks: Quirks | None = None) -> tuple[str, ...]:
    return encode(dialect, request, "m", quirks=quirks).warnings


def test_chat_completions_have_a_conversation_as_messages() -> None:
    """Each result stands behind the reply that asked for it, under the id and name of the wire."""
    body = body_of("openai", asked(*CONVERSATION, system="Be brief.", temperature=0.5, max_tokens=9))

    def call(one: ToolCall, name: str) -> dict[str, Any]:
        return {"id": one.id, "type": "function", "function": {"name": name, "arguments": one.arguments_json}}

    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Add."},
        {"role": "assistant", "content": "Well:", "tool_calls": [call(CALL, "add"), call(FAR_CALL, "mcp_far_look")]},
        {"role": "tool", "tool_call_id": CALL.id, "content": "1"},
        {"role": "tool", "tool_call_id": FAR_CALL.id, "content": "Error: gone"},
        {"role": "user", "content": "Be quick."},
    ]
    assert [tool["function"]["name"] for tool in body["tools"]] == ["add", "weather", "mcp_far_look"]
    assert body["tools"][0]["function"]["parameters"] == ADD.parameters
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})
    assert (body["temperature"], body["max_completion_tokens"]) == (0.5, 9)
    assert "tool_choice" not in body


def test_responses_have_a_conversation_as_items() -> None:
    body = body_of("responses", asked(*CONVERSATION, system="Be brief.", max_tokens=9))

    assert (body["instructions"], body["store"], body["max_output_tokens"]) == ("Be brief.", False, 9)
    assert body["input"] == [
        {"role": "user", "content": [{"type": "input_text", "text": "Add."}]},
        {"type": "message", "role": "assistant", "content": "Well:"},
        {"type": "function_call", "call_id": CALL.id, "name": "add", "arguments": '{"a": 1}'},
        {"type": "function_call", "call_id": FAR_CALL.id, "name": "mcp_far_look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": CALL.id, "output": "1"},
        {"type": "function_call_output", "call_id": FAR_CALL.id, "output": "Error: gone"},
        {"role": "user", "content": [{"type": "input_text", "text": "Be quick."}]},
    ]
    assert body["tools"][0] == {
        "type": "function",
        "name": "add",
        "description": "Add two numbers.",
        "parameters": ADD.parameters,
        "strict": False,
    }


def test_anthropic_has_one_message_for_each_change_of_speaker() -> None:
    """Results stand first in the user's message, and say whether they are errors."""
    body = body_of("anthropic", asked(*CONVERSATION, system="Be brief."))

    assert (body["system"], body["max_tokens"]) == ("Be brief.", 32_000)
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Add."}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Well:"},
                {"type": "tool_use", "id": CALL.id, "name": "add", "input": {"a": 1}},
                {"type": "tool_use", "id": FAR_CALL.id, "name": "mcp_far_look", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": CALL.id, "content": "1"},
                {"type": "tool_result", "tool_use_id": FAR_CALL.id, "content": "Error: gone", "is_error": True},
                {"type": "text", "text": "Be quick."},
            ],
        },
    ]
    assert body["tools"][0] == {"name": "add", "description": "Add two numbers.", "input_schema": ADD.parameters}
    assert dict(encode("anthropic", asked(), "m").headers)["anthropic-version"] == "2023-06-01"


def test_ollama_has_arguments_as_objects_and_names_as_they_are() -> None:
    body = body_of("ollama", asked(*CONVERSATION, system="Be brief.", temperature=0.5, top_k=3, max_tokens=9))

    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Add."},
        {
            "role": "assistant",
            "content": "Well:",
            "thinking": "I had better add.",
            "tool_calls": [
                {"id": CALL.id, "function": {"name": "add", "arguments": {"a": 1}}},
                {"id": FAR_CALL.id, "function": {"name": "mcp.far.look", "arguments": {}}},
            ],
        },
        {"role": "tool", "tool_call_id": CALL.id, "tool_name": "add", "content": "1"},
        {"role": "tool", "tool_call_id": FAR_CALL.id, "tool_name": "mcp.far.look", "content": "Error: gone"},
        {"role": "user", "content": "Be quick."},
    ]
    assert body["options"] == {"temperature": 0.5, "top_k": 3, "num_predict": 9}
    assert (body["truncate"], body["shift"]) == (False, False), "a prompt that is too long is an error, not a cut one"


# --------------------------------------------------------------------------------------------------------- histories


@every_format
def test_a_history_that_was_cut_is_mended(dialect: Dialect) -> None:
    """A result without its call is told as text, and a call without its result gets one that says so."""
    history = (
        ToolMessage("m1", "gone", "add", "3"),
        AssistantMessage("m2", "", "", (CALL,)),
        UserMessage("m3", "And?"),
        AssistantMessage("m4", "", "", (evolve(CALL, id="call-2"), evolve(CALL, id="call-3"))),
        ToolMessage("m5", "call-3", "add", "5"),
    )
    written = encode(dialect, asked(*history), "m").body

    assert "Result of add:\\n3" in written
    assert written.count("(no result: the call was interrupted)") == 2
    assert written.index("call-3") < written.rindex("(no result")


@every_server
def test_a_conversation_may_begin_and_end_with_anybody(server: str) -> None:
    quirks = QUIRKS[server]
    for history in [(), (AssistantMessage("m", "Hi"),), (AssistantMessage("m"),), (UserMessage("m", " "),)]:
        body = body_of(quirks.dialect, evolve(asked(), messages=asked(UserMessage("x", "x")).messages.drop(1)), quirks)
        assert "model" in body
        body = body_of(quirks.dialect, asked(*history), quirks)
        if quirks.dialect == "anthropic":
            roles = [message["role"] for message in body["messages"]]
            assert roles[0] == roles[-1] == "user"
            assert all(one != other for one, other in pairwise(roles))
            texts = [block["text"] for message in body["messages"] for block in message["content"]]
            assert all(text.strip() for text in texts), "a block without text is refused"


def test_calls_of_a_text_protocol_are_text() -> None:
    """They stand in the reply's text; a result is the user's, and no tool is offered."""
    said = AssistantMessage("m2", '{"a": "add"}', "", (CALL,))
    untold = AssistantMessage("m4", "", "", (CALL,))
    history = (UserMessage("m1", "Add."), said, ToolMessage("m3", CALL.id, "add", "1"), untold)
    body = body_of("openai", asked(*history, protocol="short_keys"))

    assert body["messages"] == [
        {"role": "user", "content": "Add."},
        {"role": "assistant", "content": '{"a": "add"}'},
        {"role": "user", "content": "Result of add:\n1"},
        {"role": "assistant", "content": 'Call of add: {"a": 1}'},
    ]
    assert "tools" not in body


def test_a_system_prompt_goes_where_the_server_has_a_place_for_it() -> None:
    def messages(quirks: Quirks, *history: Message) -> Any:
        return body_of("openai", asked(*history, system="Be brief."), quirks)["messages"]

    assert messages(Quirks(system_role="developer"))[0] == {"role": "developer", "content": "Be brief."}
    folded = Quirks(system_role="user")
    assert messages(folded) == [{"role": "user", "content": "Be brief.\n\nHello"}]
    assert messages(folded, AssistantMessage("m", "Hi"))[0] == {"role": "user", "content": "Be brief."}


def test_ids_and_names_are_those_that_a_server_takes() -> None:
    """Mistral's ids have nine letters and digits; two calls never share one, nor do two tools a name."""
    ids = ["call-1", "call00002", "call00001", "ünfit", "x" * 50, "abcdefghi", "call00003"]
    calls = tuple(ToolCall(one, "add") for one in ids)
    results = tuple(ToolMessage(f"r{one}", one, "add", one) for one in ids)
    again = (AssistantMessage("n", "", "", calls[:1]), results[0])
    body = body_of("openai", asked(AssistantMessage("m", "", "", calls), *results, *again), QUIRKS["mistral"])
    given = [call["id"] for call in body["messages"][0]["tool_calls"]]
    assert len(set(given)) == len(ids)
    assert all(len(one) == 9 and one.isalnum() for one in given)
    assert [message["tool_call_id"] for message in body["messages"] if "tool_call_id" in message] == [*given, given[0]]

    tools = [ToolSpec(name) for name in ("a.b", "a_b", "a-b", "a_b-2", "x" * 63 + ".", "x" * 63 + "_", "...")]
    names = [tool["function"]["name"] for tool in body_of("openai", asked(tools=tools))["tools"]]
    assert names == ["a_b-3", "a_b", "a-b", "a_b-2", "x" * 62 + "-2", "x" * 63 + "_", "___"]


# ----------------------------------------------------------------------------------------------------------- options

OPTIONS: dict[str, Any] = {
    "temperature": 0.5, "top_p": 0.5, "seed": 7, "top_k": 3, "min_p": 0.1, "typical_p": 0.9, "repeat_penalty": 1.1,
    "frequency_penalty": 0.5, "presence_penalty": 0.5, "logit_bias": ((7, 1.5), (8, -100)), "max_tokens": 9,
    "stop": ("a", "b"),
}  # fmt: skip


@every_server
@pytest.mark.parametrize("option", sorted(OPTIONS))
def test_every_option_is_sent_or_a_warning_names_it(server: str, option: str) -> None:
    quirks = QUIRKS[server]
    plain = encode(quirks.dialect, asked(), "m", quirks=quirks)
    made = encode(quirks.dialect, asked(**{option: OPTIONS[option]}), "m", quirks=quirks)

    assert (made.body == plain.body) == any(option in warning for warning in made.warnings)
    assert plain.warnings == ()


def test_stop_texts_and_biases_are_sent_as_servers_take_them() -> None:
    request = asked(stop=tuple("abcdef"), logit_bias=((7, 1.5), (8, -100)))
    made = encode("openai", request, "m")

    body = json.loads(made.body)
    assert body["stop"] == ["a", "b", "c", "d"]
    assert "4 stop texts" in made.warnings[0]
    assert body["logit_bias"] == {"7": 1.5, "8": -100}


@every_server
@pytest.mark.parametrize("wish", [True, False])
def test_thinking_is_asked_for_where_there_is_a_word_for_it(server: str, wish: bool) -> None:
    quirks = QUIRKS[server]
    made = encode(quirks.dialect, asked(thinking=wish), "m", quirks=quirks)
    said = json.loads(quirks.thinking_on if wish else quirks.thinking_off)

    assert said.items() <= json.loads(made.body).items()
    assert bool(said) != any("thinking" in warning for warning in made.warnings)


@every_server
@pytest.mark.parametrize("choice", ["auto", "none", "required", "add", "mcp.far.look"])
@pytest.mark.parametrize("one", [True, False])
def test_a_choice_of_tools_is_said_or_a_warning_names_it(server: str, choice: str, one: bool) -> None:
    """Where names can't be said, only the tool to call is offered; where nothing can, none is if none may be called."""
    quirks = QUIRKS[server]
    made = encode(quirks.dialect, asked(tool_choice=choice, parallel_calls=not one), "m", quirks=quirks)
    body = json.loads(made.body)

    forced = any("forced" in warning for warning in made.warnings)
    unsayable = quirks.tool_choice == "none" or (quirks.tool_choice == "names" and choice == "required")
    assert forced == (choice not in ("auto", "none") and unsayable)
    offered = len(body.get("tools", ()))
    named = choice not in ("auto", "none", "required")
    if choice == "none" and quirks.tool_choice in ("names", "none"):
        assert (offered, made.warnings) == (0, ())
    else:
        assert offered == (1 if named and quirks.tool_choice in ("words", "none") else 3)
        assert ("parallel_calls=False" in str(made.warnings)) == (one and not quirks.parallel_field)
    told = json.dumps(body.get("tool_choice"))
    if offered and choice != "auto" and not unsayable:
        wire = choice if quirks.any_names else choice.replace(".", "_")
        wanted = {"none": "none", "required": "any" if quirks.dialect == "anthropic" else "required"}.get(choice, wire)
        assert ("required" if named and quirks.tool_choice == "words" else wanted) in told


def test_a_call_is_not_forced_while_the_model_thinks() -> None:
    """Anthropic refuses that, and older models of theirs any temperature, then."""
    request = asked(thinking=True, tool_choice="add", temperature=0.5)
    made = encode("anthropic", request, "m", quirks=QUIRKS["anthropic-budget"])

    assert "tool_choice" not in json.loads(made.body)
    assert "temperature" not in json.loads(made.body)
    assert len(made.warnings) == 2


def test_tools_that_a_server_does_not_take_are_left_out() -> None:
    made = encode("openai", asked(), "m", quirks=Quirks(tools=False))

    assert "tools" not in json.loads(made.body)
    assert "takes no tools" in made.warnings[0]
    assert "tools" not in body_of("openai", asked(tools=()))


def test_anthropic_is_told_of_tools_that_were_called_and_are_offered_no_more() -> None:
    """A conversation with calls and without tools is refused there."""
    body = body_of("anthropic", asked(*CONVERSATION, tools=()))

    assert [tool["name"] for tool in body["tools"]] == ["add", "mcp.far.look".replace(".", "_")]
    assert body["tool_choice"] == {"type": "none"}
    assert "tools" not in body_of("anthropic", asked(tools=()))


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


@every_server
def test_a_reply_is_held_to_a_schema_as_far_as_the_server_can(server: str) -> None:
    quirks = QUIRKS[server]
    made = encode(quirks.dialect, asked(response_format=SCHEMA), "m", quirks=quirks)
    held = json.dumps(SCHEMA, separators=(",", ":")) in made.body

    assert held == (quirks.response_format in ("schema", "object_schema"))
    assert held != any("response_format" in warning for warning in made.warnings)


@pytest.mark.parametrize("dialect", ["responses", "anthropic", "ollama"])
def test_a_format_without_schemas_says_so(dialect: Dialect) -> None:
    quirks = evolve(QUIRKS[dialect], response_format="none")

    assert "response_format" in warnings_of(dialect, asked(response_format=SCHEMA), quirks)[0]


def test_only_schemas_of_the_strict_kind_are_called_strict() -> None:
    tool = ToolSpec("t", parameters=SCHEMA)
    body = body_of("openai", asked(tools=[tool, ADD], response_format=SCHEMA))
    assert [one["function"].get("strict") for one in body["tools"]] == [True, None]
    assert body["response_format"]["json_schema"]["strict"] is True
    free = body_of("openai", asked(tools=[tool], response_format=SCHEMA, constrain=False))
    assert "strict" not in json.dumps(free)
    answer = body_of("responses", asked(tools=[tool, ADD], response_format=SCHEMA))
    assert [one["strict"] for one in answer["tools"]] == [True, False]
    assert answer["text"]["format"]["strict"] is True


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "fits"),
    [
        (closed(), True),
        (closed(a={"type": "array", "items": {"enum": [1, 2]}}, b=closed(c={"type": "string"})), True),
        (closed(a={"anyOf": [{"type": "string"}, {"type": "null"}], "description": "d"}), True),
        ({**closed(a={"type": "string"}), "required": []}, False),
        ({**closed(), "additionalProperties": True}, False),
        ({**closed(), "required": "a"}, False),
        ({**closed(), "properties": []}, False),
        ({**closed(), "patternProperties": {}}, False),
        (closed(a={"type": "string", "format": "uri"}), False),
        (closed(a={"type": "array", "items": {"type": "object"}}), False),
        (closed(a={"anyOf": "x"}), False),
        (closed(a={"anyOf": [{"type": "object"}]}), False),
        (closed(a={"properties": {}}), False),
        (closed(a=True), False),
        ({"anyOf": [closed()]}, False),
        ({"type": "string"}, False),
        (closed(a=closed(a=closed(a=closed(a=closed(a=closed(a=closed(a=closed()))))))), False),
    ],
)
def test_the_strict_kind_of_schema_is_told_from_others(schema: dict[str, Any], fits: bool) -> None:
    """Closed objects, all of whose properties are required, of few keywords, not nested deeply."""
    assert fits_strict(schema) == fits


# ---------------------------------------------------------------------------------------------------------- pictures

IN_PARTS = UserMessage("m1", "", parts=(TextPart("Look: "), PICTURE, TextPart("?")))


def test_pictures_are_sent_where_they_stand() -> None:
    data = PICTURE.data
    url = f"data:image/png;base64,{data}"
    assert body_of("openai", asked(IN_PARTS))["messages"][0]["content"] == [
        {"type": "text", "text": "Look: "},
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "text", "text": "?"},
    ]
    picture = {"type": "input_image", "image_url": url, "detail": "auto"}
    assert body_of("responses", asked(IN_PARTS))["input"][0]["content"][1] == picture
    source = {"type": "base64", "media_type": "image/png", "data": data}
    assert body_of("anthropic", asked(IN_PARTS))["messages"][0]["content"][1] == {"type": "image", "source": source}
    assert body_of("ollama", asked(IN_PARTS))["messages"][0]["images"] == [data]


@every_format
def test_a_picture_that_a_server_can_t_take_is_no_request(dialect: Dialect) -> None:
    """The failure is of the kind that a local model without pictures gives."""
    with pytest.raises(UnsupportedRequestError, match="takes text alone") as caught:
        encode(dialect, asked(IN_PARTS), "m", quirks=evolve(QUIRKS[dialect], images=False))

    assert caught.value.failure.kind == "modality"


# --------------------------------------------------------------------------------------------------------- reasoning


def test_reasoning_goes_back_to_servers_that_want_it() -> None:
    """DeepSeek refuses a reply with calls without it, even where there was none."""
    thought = (AssistantMessage("m1", "a", "Hm", (CALL,)), AssistantMessage("m2", "b", "Hm"), UserMessage("m3", "c"))
    unthought = (AssistantMessage("m1", "a", "", (CALL,)),)

    def fields(server: str, history: tuple[Message, ...]) -> list[Any]:
        quirks = QUIRKS[server]
        messages = body_of("openai", asked(*history), quirks)["messages"]
        return [message.get(quirks.reasoning_field) for message in messages if message["role"] == "assistant"]

    assert fields("openai", thought) == [None, None]
    assert fields("deepseek", thought) == ["Hm", None]
    assert fields("deepseek", unthought) == [""]
    assert fields("llama-server", thought) == ["Hm", "Hm"]
    assert fields("llama-server", unthought) == [None]
    ollama = evolve(QUIRKS["ollama"], reasoning_back="never")
    assert "Hm" not in encode("ollama", asked(*thought), "m", quirks=ollama).body


# ------------------------------------------------------------------------------------------------------------ bodies


def test_what_a_server_wants_besides_stands_in_every_body() -> None:
    quirks = evolve(QUIRKS["ollama"], extra='{"options": {"num_ctx": 8192}, "keep_alive": "30m"}')
    body = body_of("ollama", asked(top_k=3), quirks, stream=False)

    assert (body["options"], body["keep_alive"], body["stream"]) == ({"top_k": 3, "num_ctx": 8192}, "30m", False)
    assert dict(encode("ollama", asked(), "m", stream=False).headers)["accept"] == "application/json"


@pytest.mark.parametrize("extra", ["[]", "{", "3", {"a": object()}, {"a": float("nan")}])
def test_what_it_wants_has_to_be_an_object(extra: Any) -> None:
    with pytest.raises(ConfigError, match="JSON object"):
        Quirks(extra=extra)


@every_format
def test_a_body_may_be_wanted_at_once(dialect: Dialect) -> None:
    body = body_of(dialect, asked(), stream=False)

    assert body.get("stream", False) is False
    assert "stream_options" not in body


def test_signatures_of_another_history_are_read_over() -> None:
    """A continuation may come from anywhere, and name a place that the reply does not have."""
    kept = continuation_of("openai", "m", [(0, {"extra_content": {"g": 1}}), (9, {"extra_content": {"g": 2}})])
    said = AssistantMessage("m", "", "", (CALL,), False, (), kept)

    assert "extra_content" not in encode("openai", asked(said), "m").body


@every_format
def test_half_characters_are_sent_as_none(dialect: Dialect) -> None:
    """They have no form in UTF-8, and servers refuse them in any."""
    history = (
        UserMessage("m1", "a\ud800b"),
        AssistantMessage("m2", "", "", (ToolCall("c", "add", r'{"a": "\ud800"}'),)),
    )

    body = encode(dialect, asked(*history), "m").body.encode()
    assert "a\ufffdb".encode() in body


@every_format
def test_arguments_that_are_none_do_not_keep_a_request_from_being_made(dialect: Dialect) -> None:
    """A history of somebody else's may hold any text there."""
    history = (AssistantMessage("m", "", "", (ToolCall("c", "add", "[" * 100_000), ToolCall("d", "add", "?"))),)

    assert "?" in encode(dialect, asked(*history), "m").body


@every_server
@given(st.data())
@settings(max_examples=8)
def test_any_request_is_said_and_the_same_one_always_in_the_same_way(server: str, data: Any) -> None:
    quirks = evolve(QUIRKS[server], images=True)
    messages = data.draw(st.lists(some(Message), max_size=4))
    options = data.draw(some(GenerationOptions))
    tools = data.draw(st.lists(some(ToolSpec), max_size=2, unique_by=lambda tool: tool.name))
    request = evolve(asked(*messages, tools=tools, system=data.draw(st.sampled_from(["", "s"]))), options=options)
    made = encode(quirks.dialect, request, "m", quirks=quirks)

    assert made == encode(quirks.dialect, request, "m", quirks=quirks)
    assert json.loads(made.body.encode())["model"] == "m"
