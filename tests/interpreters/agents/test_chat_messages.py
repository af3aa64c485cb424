"""Histories in the form of OpenAI's chat API: read by every rule of theirs, and written the same."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given, strategies as st

from cognition import (
    AgentConfig,
    AssistantMessage,
    ConfigError,
    Image,
    LLMEngine,
    TextPart,
    ToolMessage,
    UserMessage,
)
from interpreters import Agent, MessagesError, export_messages, import_messages, tool
from interpreters.testing.fakes import ScriptedModel, call
from tests.interpreters.test_later import ORDER


def asking(*ids: str, **more: Any) -> dict[str, Any]:
    function = {"name": "look", "arguments": '{"n": 1}'}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": one, "type": "function", "function": function} for one in ids],
        **more,
    }


def result(call_id: str, content: Any = "seen") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


USER = {"role": "user", "content": "Look!"}
ANSWER = {"role": "assistant", "content": "I see."}


def calling(**fields: Any) -> list[Any]:
    """A conversation whose one call has these fields, and which is right otherwise."""
    one = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}, **fields}
    return [USER, {"role": "assistant", "tool_calls": [one]}, result("a")]


@pytest.mark.behaviour("P16m")
@pytest.mark.parametrize(
    ("messages", "path", "told"),
    [
        ([USER, result("a")], "$[1].tool_call_id", "no call 'a' stands open"),
        ([USER, asking("a"), result("b"), result("a")], "$[2].tool_call_id", "no call 'b' stands open"),
        ([USER, asking("a"), result("a"), ANSWER, result("a")], "$[4].tool_call_id", "no call 'a' stands open"),
        ([USER, asking("a"), result("a"), result("a")], "$[3].tool_call_id", "has a result already"),
        ([USER, asking("a")], "$[1].tool_calls[0]", "the call 'a' has no result"),
        ([USER, asking("a", "b"), result("a"), ANSWER], "$[1].tool_calls[1]", "the call 'b' has no result"),
        ([USER, asking("a"), USER, result("a")], "$[1].tool_calls[0]", "the call 'a' has no result"),
        ([USER, asking("a", "a"), result("a")], "$[1].tool_calls[1].id", "two calls of this reply have the id 'a'"),
        ([USER, asking(""), result("")], "$[1].tool_calls[0].id", "expected a text, got ''"),
        ([USER, asking("a"), {"role": "tool", "content": "x"}], "$[2].tool_call_id", "the field is missing"),
        ([USER, asking("a"), result("a", None)], "$[2].content", "expected a text, got None"),
        (calling(id=None), "$[1].tool_calls[0].id", "got None"),
        (calling(id=7), "$[1].tool_calls[0].id", "got 7"),
        (calling(type="custom"), "$[1].tool_calls[0]", "only calls of functions"),
        (calling(function=None), "$[1].tool_calls[0]", "only calls of functions"),
        (calling(function={"arguments": "{}"}), "$[1].tool_calls[0].function.name", "the field is missing"),
        (calling(function={"name": ""}), "$[1].tool_calls[0].function.name", "expected a text, got ''"),
        (
            calling(function={"name": "x", "arguments": "[]"}),
            "$[1].tool_calls[0].function.arguments",
            "no JSON object",
        ),
        (calling(function={"name": "x", "arguments": "{"}), "$[1].tool_calls[0].function.arguments", "can't be read"),
        (
            calling(function={"name": "x", "arguments": '{"a": NaN}'}),
            "$[1].tool_calls[0].function.arguments",
            "can't be read",
        ),
        (
            calling(function={"name": "x", "arguments": '{"a":' * 9999}),
            "$[1].tool_calls[0].function.arguments",
            "can't be read",
        ),
        (
            calling(function={"name": "x", "arguments": {"a": float("nan")}}),
            "$[1].tool_calls[0].function.arguments",
            "no form in JSON",
        ),
        (calling(function={"name": "x", "arguments": 5}), "$[1].tool_calls[0].function.arguments", "got 5"),
        ([{"role": "assistant", "tool_calls": ["a"]}], "$[0].tool_calls[0]", "expected an object, got 'a'"),
        ([{"role": "assistant", "tool_calls": "a"}], "$[0].tool_calls", "expected an array, got 'a'"),
        ([{"role": "bot", "content": "x"}], "$[0].role", "unknown role 'bot'; expected one of: system, developer"),
        ([{"role": "function", "name": "x", "content": "x"}], "$[0].role", "unknown role 'function'"),
        ([{"role": ["user"], "content": "x"}], "$[0].role", "unknown role a list"),
        ([{"content": "x"}], "$[0].role", "the field is missing"),
        ([{"role": "user"}], "$[0].content", "the field is missing"),
        ([{"role": "user", "content": None}], "$[0].content", "got None"),
        ([{"role": "user", "content": 5}], "$[0].content", "expected a text or a list of parts, got 5"),
        ([{"role": "user", "content": ["x"]}], "$[0].content[0]", "expected a part"),
        ([{"role": "user", "content": [{"text": "x"}]}], "$[0].content[0]", "expected a part"),
        ([{"role": "user", "content": [{"type": "text"}]}], "$[0].content[0].text", "the field is missing"),
        ([{"role": "assistant"}], "$[0].content", "the field is missing"),
        ([{"role": "assistant", "content": None}], "$[0].content", "got None"),
        ([{"role": "assistant", "content": "x", "reasoning_content": 5}], "$[0].reasoning_content", "got 5"),
        ([{"role": "user", "content": "x", "tool_calls": [1]}], "$[0].tool_calls", "role 'user' can't have this"),
        (
            [{"role": "assistant", "content": "x", "function_call": {"name": "x"}}],
            "$[0].function_call",
            "write it as tool_calls",
        ),
        (["x"], "$[0]", "expected an object, got 'x'"),
        ([object()], "$[0]", "expected an object"),
        (json.dumps([USER]), "$", "decode it with json.loads"),
        (USER, "$", "expected a list of messages"),
        (5, "$", "expected a list of messages, got 5"),
    ],
)
def test_what_is_no_conversation_is_refused_with_its_place(messages: Any, path: str, told: str) -> None:
    with pytest.raises(MessagesError) as raised:
        import_messages(messages)

    assert [problem for at, problem in raised.value.problems if at == path and told in problem]


def test_every_problem_is_told_at_once() -> None:
    with pytest.raises(MessagesError) as raised:
        import_messages([{"role": "bot"}, {"role": "user"}, result("a")])

    assert [path for path, _ in raised.value.problems] == ["$[0].role", "$[1].content", "$[2].tool_call_id"]


def test_a_conversation_is_read_with_all_that_it_holds() -> None:
    parts = [{"type": "text", "text": "Look"}, {"type": "text", "text": "twice!"}]
    imported = import_messages(
        [
            {"role": "system", "content": "Be brief."},
            {"role": "developer", "content": [{"type": "text", "text": "Be kind."}]},
            {"role": "user", "content": parts},
            asking("x", "y", content="I look.", reasoning_content="Where?"),
            result("y", "second"),
            result("x", [{"type": "text", "text": "first"}]),
            ANSWER,
        ]
    )
    user, reply, first, second, answer = imported.state.history

    assert (imported.system, imported.left_out) == ("Be brief.\n\nBe kind.", ())
    assert isinstance(user, UserMessage)
    assert isinstance(reply, AssistantMessage)
    assert isinstance(first, ToolMessage)
    assert isinstance(second, ToolMessage)
    assert user.text == "Look\n\ntwice!"
    assert (reply.text, reply.reasoning) == ("I look.", "Where?")
    assert [one.arguments for one in reply.calls] == [{"n": 1}, {"n": 1}]
    assert [(one.call_id, one.name, one.content) for one in (first, second)] == [
        (reply.calls[0].id, "look", "first"),
        (reply.calls[1].id, "look", "second"),
    ]
    assert answer == AssistantMessage("m5", "I see.")


@pytest.mark.behaviour("P16m")
@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({"role": "user", "content": "x", "name": "Ann"}, ["the field 'name' can't be carried over @ $[1].name"]),
        ({"role": "user", "content": "x", "name": None}, []),
        (
            {"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]},
            ["a part of the type 'input_audio' can't be carried over @ $[1].content[0]"],
        ),
        (
            {"role": "system", "content": "x"},
            ["a system message amid the conversation is carried over as a note to the model @ $[1]"],
        ),
        (
            {"role": "assistant", "content": None, "refusal": "No."},
            ["a refusal is carried over as an answer @ $[1].refusal"],
        ),
        ({"role": "assistant", "content": "x", "annotations": [], "audio": None}, []),
        ({"role": "assistant", "content": "x", "tool_calls": None}, []),
        ({"role": "assistant", "content": ""}, []),
    ],
)
def test_what_can_not_be_carried_over_is_said(message: Any, said: list[str]) -> None:
    assert said == list(import_messages([USER, message]).left_out)


def with_picture(url: Any, role: str = "user") -> list[Any]:
    return [{"role": role, "content": [{"type": "text", "text": "Look!"}, {"type": "image_url", "image_url": url}]}]


PNG = b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()


PICTURE = f"data:image/png;base64,{PNG}"


@pytest.mark.parametrize("url", [{"url": PICTURE}, {"url": PICTURE, "detail": "auto"}, PICTURE])
def test_a_picture_in_a_users_message_is_carried_over(url: Any) -> None:
    imported = import_messages(with_picture(url))
    (message,) = imported.state.history

    assert isinstance(message, UserMessage)
    assert (message.text, message.parts) == ("Look!", (TextPart("Look!"), Image("image/png", PNG)))
    assert not imported.left_out


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        (with_picture({"url": "https://example.org/a.png"}), "whose URL does not hold it"),
        (with_picture({"url": "data:image/png,abc"}), "whose URL does not hold it"),
        (with_picture({"url": f"data:image/svg+xml;base64,{PNG}"}), "of the type 'image/svg+xml'"),
        (with_picture({"url": PICTURE}, "assistant"), "of the type 'image_url'"),
    ],
)
def test_a_picture_that_can_not_be_carried_over_is_said(messages: list[Any], said: str) -> None:
    imported = import_messages(messages)

    assert [said in one for one in imported.left_out] == [True]
    assert [getattr(message, "text", "") for message in imported.state.history] == ["Look!"]


def test_how_closely_a_picture_is_looked_at_is_not_carried_over() -> None:
    imported = import_messages(with_picture({"url": PICTURE, "detail": "low"}))
    assert imported.left_out == ("the field 'detail' can't be carried over @ $[0].content[1].image_url.detail",)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        (None, "expected an object with a 'url'"),
        ({"url": 5}, "expected an object with a 'url'"),
        ({"url": "data:image/png;base64,????"}, "no base64"),
        ({"url": f"data:image/jpeg;base64,{PNG}"}, "its bytes"),
    ],
)
def test_a_picture_that_is_none_is_refused(url: Any, told: str) -> None:
    with pytest.raises(MessagesError, match=told):
        import_messages(with_picture(url))


def test_a_call_without_arguments_has_none_in_any_writing() -> None:
    for written in ("", "{}", {}, " "):
        _, reply, _ = import_messages(calling(function={"name": "look", "arguments": written})).state.history
        assert isinstance(reply, AssistantMessage)
        assert reply.calls[0].arguments == {}


texts = st.text(max_size=8)
arguments = st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3) | st.none(), max_size=2)


@st.composite
def conversations(draw: st.DrawFn) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for _ in range(draw(st.integers(0, 4))):
        messages.append({"role": "user", "content": draw(texts)})
        for step in range(draw(st.integers(0, 2))):
            calls = [
                {
                    "id": f"call-{len(messages)}-{step}-{number}",
                    "type": "function",
                    "function": {"name": draw(st.sampled_from(["look", "pay"])), "arguments": json.dumps(one)},
                }
                for number, one in enumerate(draw(st.lists(arguments, min_size=1, max_size=3)))
            ]
            messages.append({"role": "assistant", "content": draw(texts) or None, "tool_calls": calls})
            messages += [{"role": "tool", "tool_call_id": one["id"], "content": draw(texts)} for one in calls]
        messages.append({"role": "assistant", "content": draw(texts)})
    return messages


def named_alike(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages with the ids of their calls numbered through."""
    numbers: dict[str, str] = {}
    for message in messages:
        for one in message.get("tool_calls", []):
            numbers[one["id"]] = f"c{len(numbers)}"
    told = json.dumps(messages)
    for given_id, number in numbers.items():
        told = told.replace(json.dumps(given_id), json.dumps(number))
    return json.loads(told)  # type: ignore[no-any-return]


@pytest.mark.behaviour("P16m")
@given(conversations(), texts)
def test_what_was_read_is_written_the_same(messages: list[dict[str, Any]], system: str) -> None:
    first = [{"role": "system", "content": system}] if system else []
    imported = import_messages([*first, *messages])

    written = export_messages(imported.state, system=imported.system)

    assert named_alike([*first, *messages]) == named_alike(json.loads(json.dumps(written)))
    assert imported.state == import_messages(written).state
    assert not imported.left_out
    assert LLMEngine(AgentConfig()).build_prompt(imported.state).messages == imported.state.history


@pytest.mark.behaviour("P16m")
def test_a_session_goes_on_from_messages_and_is_written_as_messages() -> None:
    @tool
    def look(n: int) -> str:
        return "a cat"

    imported = import_messages([{"role": "system", "content": "Be brief."}, USER, asking("x"), result("x"), ANSWER])
    with Agent(ScriptedModel([call("look", n=2), "A cat."]), [look], imported.system, state=imported.state) as agent:
        assert agent.run("And now?").text == "A cat."
        written = export_messages(agent.state, system=agent.config.system)

    assert [message["role"] for message in written] == [
        *("system", "user", "assistant", "tool", "assistant"),
        *("user", "assistant", "tool", "assistant"),
    ]
    assert [message.id for message in agent.state.history] == [f"m{number}" for number in range(1, 9)]
    assert named_alike(written) == named_alike(export_messages(import_messages(written).state, system="Be brief."))


@pytest.mark.parametrize("given", [5, [5], [USER]])
def test_what_is_no_message_of_the_core_is_not_written(given: Any) -> None:
    with pytest.raises(ConfigError, match="export_messages takes a state or messages"):
        export_messages(given)


def test_an_open_turn_is_written_with_what_is_known_of_its_calls() -> None:
    @tool
    def look() -> str:
        return "a cat"

    with Agent(ScriptedModel([[call("look"), call("order", pieces=1)]]), [look, ORDER]) as agent:
        agent.run("Go!")
        *_, seen, waiting = export_messages(agent.state)

    assert (seen["content"], waiting["content"]) == ("a cat", "(no result: the session was interrupted)")
    assert len(import_messages(export_messages(agent.state)).state.history) == 4
