"""``ToolContext.show``: images beside a result, on every way of running, for models that take them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cognition import CallTool, Image, ToolReturned, UserMessage
from cognition.values.content import LARGEST_IMAGE
from interpreters import Agent, AgentHost, AsyncAgent, ToolContext, ToolError, fakes, tool
from interpreters.recording.replay import replay

DOT = Image.of(b"GIF89a\x01\x00\x01\x00\x00\x00\x00;")


@tool
def look(context: ToolContext[Any]) -> str:
    """Look."""
    context.show(DOT)
    return "a dot"


@tool
async def stare(context: ToolContext[Any]) -> str:
    """Look for longer."""
    context.show(DOT)
    return "a dot"


def with_agent(model: fakes.ScriptedModel, journal: Path, **more: Any) -> None:
    with Agent(model, [look, stare], journal=journal, **more) as agent:
        agent.run("Go.")


def with_async_agent(model: fakes.ScriptedModel, journal: Path, **more: Any) -> None:
    async def main() -> None:
        async with AsyncAgent(model, [look, stare], journal=journal, **more) as agent:
            await agent.run("Go.")

    asyncio.run(main())


def with_host(model: fakes.ScriptedModel, journal: Path) -> None:
    with AgentHost.in_thread(model) as host:
        host.open("s", [look, stare], journal=journal).run("Go.")


@pytest.mark.parametrize("way", [with_agent, with_async_agent, with_host])
@pytest.mark.parametrize(("media", "seen"), [(("image/gif",), 2), (("image/png",), 0), ((), 0)])
def test_a_model_is_shown_what_it_takes_and_the_session_replays(
    tmp_path: Path, way: Callable[..., None], media: tuple[Any, ...], seen: int
) -> None:
    model = fakes.ScriptedModel([[fakes.call("look"), fakes.call("stare")], "Seen."], media=media)
    way(model, tmp_path / "s.jsonl")
    messages = [message for message in model.requests[1].messages if isinstance(message, UserMessage)]

    assert [message.parts[1:] for message in messages if message.parts] == [(DOT,)] * seen
    assert replay(tmp_path / "s.jsonl").same


def test_a_programs_own_performer_may_bring_images(tmp_path: Path) -> None:
    model = fakes.ScriptedModel([fakes.call("look"), "Seen."], media=("image/gif",))

    def perform(effect: CallTool, _scope: Any) -> ToolReturned:
        return ToolReturned(effect.effect_id, "two dots", images=(DOT, DOT))

    with_agent(model, tmp_path / "s.jsonl", performers={CallTool: perform})
    newest = model.requests[1].messages[-1]

    assert isinstance(newest, UserMessage)
    assert newest.parts[1:] == (DOT, DOT)


def test_the_images_of_a_result_have_a_bound() -> None:
    context: ToolContext[None] = ToolContext(None)
    large = Image.of(b"GIF89a" + bytes(LARGEST_IMAGE - 6))
    context.show(large)
    context.show(large)

    with pytest.raises(ToolError, match=r"may have 20\.0 MB together"):
        context.show(DOT)
    assert len(context.images) == 2
