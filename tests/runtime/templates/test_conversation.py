"""Our messages as templates expect them."""

from __future__ import annotations

from typing import Any

from cognition import AssistantMessage, GenerationOptions, History, ModelRequest, ToolCall, ToolMessage, UserMessage
from runtime.templates.conversation import Shape, entries
from runtime.templates.markers import Markers
from runtime.templates.protection import Shield

HISTORY = History(
    [
        UserMessage("m1", "List"),
        AssistantMessage("m2", '{"a": "ls"}', calls=(ToolCall("call-1-1-1", "ls"),)),
        ToolMessage("m3", "call-1-1-1", "ls", "a.txt"),
    ]
)


def made(**protocol: Any) -> list[dict[str, Any]]:
    request = ModelRequest("", HISTORY, (), GenerationOptions(), **protocol)
    return entries(request, Shield(Markers()), Shape())


def test_native_calls_and_results_have_roles_of_their_own() -> None:
    user, assistant, result = made()

    assert [user["role"], assistant["role"], result["role"]] == ["user", "assistant", "tool"]
    assert assistant["tool_calls"][0]["function"]["name"] == "ls"
    assert result["tool_call_id"] == "call-1-1-1"


def test_with_a_text_protocol_calls_stand_in_the_text_and_results_are_the_users() -> None:
    _, assistant, result = made(protocol="short_keys")

    assert assistant == {"role": "assistant", "content": '{"a": "ls"}'}
    assert result == {"role": "user", "content": "Result of ls:\na.txt"}
