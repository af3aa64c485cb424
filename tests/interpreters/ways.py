"""The ways of running a session: what is told of one has to hold for all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest
from attrs import frozen

from cognition import AgentState, ToolMessage
from interpreters import Agent, AsyncAgent, RunResult, Tool
from runtime import Runtime


@frozen
class Talk:
    """What came of a conversation."""

    results: tuple[RunResult, ...]
    state: AgentState

    @property
    def texts(self) -> list[str]:
        return [result.text for result in self.results]

    @property
    def tool_results(self) -> list[tuple[str, str]]:
        return [(m.content, m.status) for m in self.state.history if isinstance(m, ToolMessage)]


class Way(Protocol):
    def __call__(
        self,
        model: Runtime,
        *says: str,
        tools: Sequence[Tool[..., Any]] = (),
        use: Callable[[Any], object] | None = None,
        **options: Any,
    ) -> Talk: ...


def in_sync(
    model: Runtime,
    *says: str,
    tools: Sequence[Tool[..., Any]] = (),
    use: Callable[[Any], object] | None = None,
    **options: Any,
) -> Talk:
    """Say these things to an ``Agent``, one after another; ``use`` is given it first."""
    with Agent(model, tools, **options) as agent:
        if use is not None:
            use(agent)
        results = tuple(agent.run(text) for text in says)
        return Talk(results, agent.state)


def in_asyncio(
    model: Runtime,
    *says: str,
    tools: Sequence[Tool[..., Any]] = (),
    use: Callable[[Any], object] | None = None,
    **options: Any,
) -> Talk:
    """Say these things to an ``AsyncAgent``."""

    async def main() -> Talk:
        async with AsyncAgent(model, tools, **options) as agent:
            if use is not None:
                use(agent)
            results = [await agent.run(text) for text in says]
            return Talk(tuple(results), agent.state)

    return asyncio.run(main())


def resumed_in_sync(
    path: Path, model: Runtime, *says: str, tools: Sequence[Tool[..., Any]] = (), **options: Any
) -> Talk:
    """Go on with a recorded session by saying these things."""
    with Agent.resume(path, model, tools, **options) as agent:
        return Talk(tuple(agent.run(text) for text in says), agent.state)


def resumed_in_asyncio(
    path: Path, model: Runtime, *says: str, tools: Sequence[Tool[..., Any]] = (), **options: Any
) -> Talk:
    """As above."""

    async def main() -> Talk:
        async with AsyncAgent.resume(path, model, tools, **options) as agent:
            return Talk(tuple([await agent.run(text) for text in says]), agent.state)

    return asyncio.run(main())


every_way = pytest.mark.parametrize("talk", [in_sync, in_asyncio])
