"""The ``async def`` tools of a session without an event loop share one, and all code of the program its contextvars."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from interpreters import Agent, AsyncAgent, ToolContext, fakes, tool
from interpreters.hosting import AgentHost
from runtime.threads.event_loop import EventLoopThread
from tests.interpreters.hosting.common import host_of

TENANT = contextvars.ContextVar("tenant", default="nobody")


@tool
async def work(number: int, context: ToolContext[dict[str, Any]]) -> str:
    """Work, one at a time."""
    shared = context.deps
    async with shared.setdefault("lock", asyncio.Lock()):
        await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        shared.setdefault("tasks", []).append(loop.create_task(asyncio.sleep(60)))
        shared.setdefault("loops", set()).add(loop)
    return f"page {number}"


PARALLEL = [
    [fakes.call("work", number=1), fakes.call("work", number=2)],
    "Done.",
    fakes.call("work", number=3),
    "Done.",
]


@pytest.fixture
def host() -> Iterator[AgentHost]:
    with host_of(*PARALLEL) as host:
        yield host


def check(shared: dict[str, Any], contents: list[str]) -> None:
    assert contents == ["page 1", "page 2", "page 3"]
    assert len(shared["loops"]) == 1
    assert not any(task.done() for task in shared["tasks"])  # the tools' own tasks go on


def test_calls_of_an_agent_share_one_event_loop_for_its_life() -> None:
    shared: dict[str, Any] = {}
    with Agent(fakes.ScriptedModel(PARALLEL), [work], deps=shared) as agent:
        calls = [*agent.run("Go!").calls, *agent.run("Once more!").calls]
        check(shared, [call.content for call in calls])
        (loop,) = shared["loops"]
    assert loop.is_closed()
    assert all(task.cancelled() for task in shared["tasks"])


def test_calls_of_a_handle_share_one_event_loop(host: AgentHost) -> None:
    shared: dict[str, Any] = {}
    with host.open("a", tools=[work], deps=shared) as handle:
        calls = [*handle.run("Go!").calls, *handle.run("Once more!").calls]
        check(shared, [call.content for call in calls])


def test_a_host_ends_the_event_loops_of_its_handles() -> None:
    shared: dict[str, Any] = {}
    with host_of(*PARALLEL) as host:
        host.open("a", tools=[work], deps=shared).run("Go!")
    (loop,) = shared["loops"]
    assert loop.is_closed()


def test_a_task_that_ends_the_program_does_not_end_the_loop() -> None:
    loop = EventLoopThread()

    async def leave() -> None:
        raise SystemExit(3)

    async def begin() -> str:
        asyncio.get_running_loop().create_task(leave())
        await asyncio.sleep(0)
        return "begun"

    with pytest.raises(SystemExit):
        loop.run(leave())
    assert loop.run(begin()) == "begun"
    assert loop.run(begin()) == "begun"
    loop.close(10.0)
    assert loop.run(begin()) == "begun"  # another loop
    loop.close(10.0)


def test_a_coroutine_ends_with_its_loop() -> None:
    loop, begun = EventLoopThread(), threading.Event()
    ended: list[BaseException] = []

    async def wait() -> None:
        begun.set()
        await asyncio.Event().wait()

    def run() -> None:
        try:
            loop.run(wait())
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert begun.wait(10.0)
    loop.close(10.0)
    thread.join(10.0)
    assert [type(error) for error in ended] == [asyncio.CancelledError]


# ---------------------------------------------------------------------------------------------------------- contextvars


@tool
def who(number: int) -> str:
    """Say whose call this is."""
    return TENANT.get()


@tool(read_only=True)
def look(number: int) -> str:
    """Look whose call this is."""
    return TENANT.get()


@tool(timeout=60.0)
async def ask(number: int) -> str:
    """Ask whose call this is."""
    return TENANT.get()


SCRIPT = [
    fakes.call("look", number=1),
    [fakes.call("look", number=1), fakes.call("who", number=2), fakes.call("ask", number=3)],
    fakes.call("who", number=1),
    "Done.",
]
EXPECTED = ["acme"] * 5


class Seen:
    """An observer, and a system prompt, that note the tenant."""

    def __init__(self) -> None:
        self.observed: set[str] = set()
        self.prompted: list[str] = []

    def __call__(self, event: object) -> None:
        self.observed.add(TENANT.get())

    def system(self) -> str:
        self.prompted.append(TENANT.get())
        return "Help."


@pytest.fixture(autouse=True)
def _tenant() -> Iterator[None]:
    token = TENANT.set("acme")
    yield
    TENANT.reset(token)


@pytest.mark.parametrize("streamed", [False, True])
def test_an_agent_s_code_runs_in_the_caller_s_context(streamed: bool) -> None:
    seen = Seen()
    tools = [who, look, ask]
    with Agent(fakes.ScriptedModel(SCRIPT), tools, system=seen.system, observers=[seen]) as agent:
        if streamed:
            stream = agent.stream("Go!")
            list(stream)
            result = stream.result
        else:
            result = agent.run("Go!")
    assert [call.content for call in result.calls] == EXPECTED
    assert (seen.observed, set(seen.prompted)) == ({"acme"}, {"acme"})


def test_an_async_agent_s_code_runs_in_the_caller_s_context() -> None:
    async def run() -> list[str]:
        async with AsyncAgent(fakes.ScriptedModel(SCRIPT), [who, look, ask]) as agent:
            return [call.content for call in (await agent.run("Go!")).calls]

    assert asyncio.run(run()) == EXPECTED


def test_a_handle_s_tools_run_in_the_caller_s_context() -> None:
    with host_of(*SCRIPT) as host, host.open("a", tools=[who, look, ask]) as handle:
        assert [call.content for call in handle.run("Go!").calls] == EXPECTED


def test_a_worker_s_tools_run_in_the_caller_s_context() -> None:
    noted: list[str] = []

    @tool
    def note() -> str:
        """Note whose call this is."""
        noted.append(TENANT.get())
        return "noted"

    script = [
        fakes.call("spawn_worker", name="clerk", objective="Note it.", tools=["note"]),
        fakes.call("note"),
        "Noted.",
        "Done.",
    ]
    with Agent(fakes.ScriptedModel(script), [note], features=["workers"]) as agent:
        agent.run("Go!")
    assert noted == ["acme"]
