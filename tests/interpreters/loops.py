"""What the tests of asyncio have in common: a loop with a limit, a model that blocks, a tool that awaits."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from cognition import ModelRequest
from interpreters import tool
from interpreters.testing.fakes import ScriptedModel
from runtime.protocol.model import Generation, ModelInfo
from tests.interpreters.signs import PATIENCE


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """``asyncio.run`` with a limit, and nothing may be left behind in the loop."""

    async def bounded() -> Any:
        async with asyncio.timeout(PATIENCE):
            result = await main
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return result

    return asyncio.run(bounded())


class Blocking:
    """A runtime that blocks, as those do which hold a model: nothing but ``Runtime``, and the end of its script."""

    ends_with_agent = True

    def __init__(self, *replies: Any) -> None:
        self.scripted = ScriptedModel(list(replies))

    def submit(self, request: ModelRequest) -> Generation:
        return self.scripted.submit(request)

    def count_tokens(self, request: ModelRequest) -> int:
        return self.scripted.count_tokens(request)

    def describe(self) -> ModelInfo:
        return self.scripted.describe()

    def close(self) -> None:
        self.scripted.close()


@tool
async def double(n: int) -> int:
    """Double."""
    await asyncio.sleep(0)
    return 2 * n
