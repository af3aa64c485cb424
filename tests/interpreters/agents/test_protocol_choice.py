"""A model whose template has no place for tools: it gets a text protocol by itself, which is told and recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from cognition import ConfigError, GenerationOptions
from interpreters import Agent, tool
from interpreters.observing.events import Event, Inline, WarningRaised
from interpreters.recording.journal import JournalReader
from interpreters.testing.fakes import ScriptedModel
from runtime.protocol.model import ModelInfo
from tests.interpreters.ways import Way, in_asyncio, in_sync

CALL = '<tool>read</tool><args>{"path": "x"}</args>'
ways = pytest.mark.parametrize("way", [in_sync, in_asyncio])


@tool
def read(path: str) -> str:
    """Read a file."""
    return path * 2


class Featured(ScriptedModel):
    """A model that tells of these features."""

    def __init__(self, replies: list[Any], *features: str) -> None:
        super().__init__(replies)
        self.features = features

    def describe(self) -> ModelInfo:
        return evolve(super().describe(), features=self.features)


def toolless(*replies: Any) -> Featured:
    return Featured(list(replies), "system", "prefix_reuse")


def warnings(seen: list[Event]) -> list[str]:
    return [event.value.message for event in seen if isinstance(event.value, WarningRaised)]


@ways
def test_a_model_without_a_place_for_tools_writes_its_calls_as_text_and_a_warning_says_so(way: Way) -> None:
    model = toolless(CALL, "It is xx.")
    seen: list[Event] = []

    talk = way(model, "Read x", tools=[read], observers=[Inline(seen.append)])

    assert talk.texts == ["It is xx."]
    assert talk.tool_results == [("xx", "ok")]
    (request, _) = model.requests
    assert (request.protocol, request.tools) == ("tool_tags", ())
    assert "<tool>name</tool>" in request.system
    assert "- read: Read a file." in request.system
    (warning,) = warnings(seen)
    assert "no place for tools" in warning
    assert "protocol=" in warning


@ways
@pytest.mark.parametrize(
    ("features", "options"),
    [
        (("tools", "system"), {"tools": [read]}),
        ((), {"tools": [read]}),  # a runtime that tells of nothing
        (("system",), {}),
        (("system",), {"tools": [read], "options": GenerationOptions(tool_choice="none")}),
    ],
)
def test_any_other_session_is_native_and_nobody_is_warned(
    way: Way, features: tuple[str, ...], options: dict[str, Any]
) -> None:
    model, seen = Featured(["Hi"], *features), list[Event]()

    way(model, "Hello", observers=[Inline(seen.append)], **options)

    assert model.requests[0].protocol == "native"
    assert warnings(seen) == []


def test_the_tools_of_features_need_a_place_too() -> None:
    with Agent(toolless(), features=["tasks"]) as agent:
        assert agent.config.protocol == "tool_tags"


@pytest.mark.parametrize(("protocol", "told"), [("short_keys", 0), ("tool_tags", 0), ("native", 1)])
def test_a_protocol_that_was_chosen_is_kept(protocol: Any, told: int) -> None:
    """With ``native`` the tools are left out, and the warning says what to do."""
    seen: list[Event] = []
    with Agent(toolless("Hi"), [read], protocol=protocol, observers=[Inline(seen.append)]) as agent:
        agent.run("Hello")

        assert agent.config.protocol == protocol
    assert len(warnings(seen)) == told
    assert all("protocol='tool_tags'" in warning for warning in warnings(seen))


@pytest.mark.parametrize(
    "options", [GenerationOptions(tool_choice="read"), GenerationOptions(response_format='{"type": "string"}')]
)
def test_options_that_a_text_protocol_can_not_keep_are_refused_with_the_reason(options: GenerationOptions) -> None:
    with pytest.raises(ConfigError, match=r"has no place for tools.*template="):
        Agent(toolless(), [read], options=options)


def test_what_was_chosen_by_itself_is_recorded_and_kept_by_resume_and_fork(tmp_path: Path) -> None:
    """Whatever model goes on with it."""
    path = tmp_path / "s.jsonl"
    with Agent(toolless(CALL, "It is xx."), [read], journal=path) as agent:
        agent.run("Read x")
    with JournalReader(path) as reader:
        assert reader.header.config is not None
        assert reader.header.config.protocol == "tool_tags"

    able = ScriptedModel(["Yes."])
    with Agent.fork(path, able, [read]) as fork:
        fork.run("Sure?")
    with Agent.resume(path, ScriptedModel(["Yes."]), [read]) as resumed:
        assert resumed.run("Sure?").text == "Yes."
        assert resumed.config.protocol == "tool_tags"

    assert able.requests[0].protocol == "tool_tags"
    with Agent.fork(path, ScriptedModel([]), [read], protocol="native") as other:
        assert other.config.protocol == "native"


def test_a_session_of_native_calls_is_forked_to_a_model_without_them(tmp_path: Path) -> None:
    path, seen = tmp_path / "s.jsonl", list[Event]()
    with Agent(ScriptedModel(["Hi"]), [read], journal=path) as agent:
        agent.run("Hello")

    with Agent.fork(path, toolless(), [read]) as fork:
        assert fork.config.protocol == "tool_tags"
    with Agent.resume(path, toolless("Hi"), [read], observers=[Inline(seen.append)]) as resumed:
        resumed.run("Hello")

    assert len(warnings(seen)) == 1
    assert "fork the session with protocol=" in warnings(seen)[0]
