"""An ``async def`` is cancelled when nobody waits for its call any more, whoever runs it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from cognition import Cancelled, Completed
from interpreters import Agent, AgentHost, AsyncAgent, RunResult, Tool, ToolContext, fakes, tool
from interpreters.testing.fakes import call
from interpreters.tools.context import ToolCancelled
from tests.interpreters.signs import PATIENCE


class Clock(fakes.FakeClock):
    """Time passes only once the tool is at work."""

    def __init__(self, begun: threading.Event) -> None:
        super().__init__()
        self._begun = begun

    def _pass(self, seconds: float) -> None:
        assert self._begun.wait(PATIENCE)
        super()._pass(seconds)


class Waiting:
    """A tool that awaits what never comes, and what became of it."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.ended = threading.Event()

    def tool(self, timeout: float | None = None, *, read_only: bool = False) -> Tool[..., Any]:
        @tool(timeout=timeout, read_only=read_only)
        async def work() -> str:
            self.begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.ended.set()
                raise
            return "never"

        return work


def by_agent(waiting: Waiting, work: Tool[..., Any], use: Callable[[Any], object]) -> RunResult:
    with Agent(fakes.ScriptedModel(iter([call("work"), "Oh."])), [work], clock=Clock(waiting.begun)) as agent:
        use(agent)
        return agent.run("Go!")


def by_async_agent(waiting: Waiting, work: Tool[..., Any], use: Callable[[Any], object]) -> RunResult:
    async def main() -> RunResult:
        model = fakes.ScriptedModel(iter([call("work"), "Oh."]))
        async with AsyncAgent(model, [work], clock=Clock(waiting.begun)) as agent:
            use(agent)
            return await agent.run("Go!")

    return asyncio.run(main())


def by_handle(waiting: Waiting, work: Tool[..., Any], use: Callable[[Any], object]) -> RunResult:
    model = fakes.ScriptedModel(iter([call("work"), "Oh."]))
    with AgentHost.in_thread(model, clock=Clock(waiting.begun)) as host:
        handle = host.open("a", [work])
        use(handle)
        return handle.run("Go!")


def leave_it(_agent: Any) -> None:
    """Nobody ends the turn."""


every_way = pytest.mark.parametrize("run", [by_agent, by_async_agent, by_handle])


@every_way
def test_one_whose_time_is_up_is_cancelled(run: Any) -> None:
    waiting = Waiting()
    result = run(waiting, waiting.tool(5.0), leave_it)

    assert (result.outcome, [made.content for made in result.calls]) == (
        Completed("Oh."),
        ["Error: work took longer than 5 seconds"],
    )
    assert waiting.ended.wait(PATIENCE)


@every_way
@pytest.mark.parametrize("read_only", [False, True])
def test_one_whose_turn_is_cancelled_is_cancelled(run: Any, read_only: bool) -> None:
    """A call that only reads runs on the thread of the turn itself, and is ended all the same."""
    waiting = Waiting()

    def use(agent: Any) -> None:
        def cancel() -> None:
            assert waiting.begun.wait(PATIENCE)
            agent.cancel("enough")

        threading.Thread(target=cancel).start()

    result = run(waiting, waiting.tool(read_only=read_only), use)

    assert result.outcome == Cancelled("enough")
    assert waiting.ended.wait(PATIENCE)


def test_the_host_hears_of_a_cancellation_before_the_tools_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a tool that ends at once is an ordinary failure to the host, and the turn goes on."""
    begun, contexts, told = threading.Event(), [], []

    @tool
    async def work(context: ToolContext[None]) -> str:
        contexts.append(context)
        begun.set()
        await asyncio.Event().wait()
        return "never"

    model = fakes.ScriptedModel(iter([call("work"), "Oh."]))
    with AgentHost.in_thread(model) as host:
        handle = host.open("a", [work])
        tell = handle.cancel_turn

        def cancel_turn(number: int, reason: str, keep: bool) -> None:
            told.append(contexts[0].cancelled)
            tell(number, reason, keep)

        monkeypatch.setattr(handle, "cancel_turn", cancel_turn)

        def cancel() -> None:
            assert begun.wait(PATIENCE)
            handle.cancel("enough")

        threading.Thread(target=cancel).start()
        result = handle.run("Go!")

    assert told == [False]
    assert result.outcome == Cancelled("enough")


def test_one_that_ends_at_the_moment_of_its_cancellation_has_one_result() -> None:
    """Of many that end by themselves just then, each gives its result or is cancelled, and nothing else is raised."""

    @tool
    async def quick(context: ToolContext[None]) -> str:
        threading.Thread(target=context.cancel).start()
        for _ in range(3):
            await asyncio.sleep(0)
        return "done"

    came = set()
    for _ in range(200):
        try:
            came.add(quick.call({}, ToolContext(None)))
        except ToolCancelled:
            came.add("cancelled")

    assert came <= {"done", "cancelled"}


def test_one_that_was_cancelled_before_does_not_begin() -> None:
    waiting, context = Waiting(), ToolContext(None)
    context.cancel()

    with pytest.raises(ToolCancelled):
        waiting.tool().call({}, context)

    assert not waiting.begun.is_set()


def test_one_that_cancels_itself_has_failed_where_nobody_else_did() -> None:
    """Its own ``CancelledError`` is its own fault."""

    @tool
    async def odd() -> str:
        raise asyncio.CancelledError("mine")

    with pytest.raises(asyncio.CancelledError, match="mine"):
        odd.call({}, ToolContext(None))
