"""Our messages as templates expect them."""

from __future__ import annotations

from typing import Any

from cognition import (
    AssistantMessage,
    GenerationOptions,
    History,
    ModelRequest,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from runtime.templates._conversation import REMEMBERED_TOOLS, OfferedTools, Shape, entries, tool_entries
from runtime.templates._protection import Shield
from runtime.templates.markers import Markers

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


def offering(value: Any) -> tuple[ToolSpec, ...]:
    return (ToolSpec("ls", "Lists.", {"type": "object", "properties": {"all": {"enum": [value]}}}),)


def test_entries_of_tools_are_made_once_for_all_steps_of_a_session() -> None:
    offered = OfferedTools(Shield(Markers(["<end>"])))
    tools = offering("<end>")

    assert offered.entries(tools) is offered.entries(tuple(tools))
    assert offered.entries(tools) == tool_entries(tools, Shield(Markers(["<end>"])))


def test_entries_of_tools_are_never_those_of_others_that_are_only_equal_to_them() -> None:
    offered = OfferedTools(Shield(Markers()))

    for value in (1, True, 1.0):
        entry = offered.entries(offering(value))[0]
        assert repr(entry["function"]["parameters"]["properties"]["all"]["enum"]) == f"[{value!r}]"


def test_entries_are_kept_of_a_bounded_number_of_sets_of_tools_and_right_for_each() -> None:
    offered = OfferedTools(Shield(Markers()))
    kept = [offered.entries(offering(0))]

    for number in range(1, 10 * REMEMBERED_TOOLS):  # each is freed at once, so that the next may have its id
        kept.append(offered.entries(offering(number)))

    enums = [made[0]["function"]["parameters"]["properties"]["all"]["enum"] for made in kept]
    assert enums == [[number] for number in range(len(kept))]
    assert offered._entries.cache_info().currsize == REMEMBERED_TOOLS
