"""Our tools and an agent, served to the SDK's own client: in this process, over pipes, and over HTTP."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import mcp.types as types
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from cognition import ConfigError, Failure, Image, Policy, Rule, ToolSpec
from interpreters import Agent, MCPServer, MCPServers, MCPService, ToolContext, agent_tool, fakes, tool
from interpreters.mcp._tool_call import KEY
from tests.interpreters.mcp.parts import serving
from tests.interpreters.mcp.plain_server import PNG

RUNS: list[str] = []


@tool(read_only=True)
def multiply(a: int, b: int, context: ToolContext[Any]) -> int:
    """Multiply two whole numbers."""
    context.progress("multiplying")
    return a * b


@tool
def pay(to: str) -> str:
    """Pay somebody."""
    RUNS.append(to)
    return f"paid {to}"


@tool(approval=True)
async def delete(name: str) -> str:
    """Delete a file."""
    return f"deleted {name}"


def one_answer() -> Agent:
    return Agent(fakes.ScriptedModel([fakes.call("multiply", a=17, b=23), "It is 391."]), [multiply])


def failing() -> Agent:
    return Agent(fakes.ScriptedModel([Failure("the model is gone", "fatal")]))


def service(**more: Any) -> MCPService:
    rules = Policy((Rule("deny", "pay(mallory)", "nobody pays mallory"),))
    tools = [multiply, pay, delete, agent_tool(one_answer), agent_tool(failing, name="ask_failing")]
    return MCPService(tools, policy=rules, **more)


def text_of(result: types.CallToolResult) -> tuple[str, bool]:
    (part,) = result.content
    assert isinstance(part, types.TextContent)
    return part.text, bool(result.is_error)


async def what_a_client_sees(client: Client) -> dict[str, Any]:
    progress: list[str | None] = []

    async def note(_done: float, _total: float | None, message: str | None) -> None:
        progress.append(message)

    async def call(name: str, /, **arguments: Any) -> tuple[str, bool]:
        return text_of(await client.call_tool(name, arguments, progress_callback=note))

    listed = (await client.list_tools()).tools
    return {
        "tools": [one.name for one in listed],
        "hints": [one.annotations.read_only_hint for one in listed if one.annotations],
        "product": await call("multiply", a=17, b=23),
        "wrong": await call("multiply", a="x", b=23),
        "paid": await call("pay", to="ann"),
        "denied": await call("pay", to="mallory"),
        "asked": await call("delete", name="a"),
        "unknown": await call("nothing"),
        "agent": await call("ask_agent", message="What is 17 * 23?"),
        "failing": await call("ask_failing", message="What?"),
        "progress": progress,
    }


SEEN = {
    "tools": ["multiply", "pay", "delete", "ask_agent", "ask_failing"],
    "hints": [True, False, False, False, False],
    "product": ("391", False),
    "wrong": ('wrong arguments for multiply: a must be a whole number, not "x"', True),
    "paid": ("paid ann", False),
    "denied": ("this call is not permitted: nobody pays mallory", True),
    "asked": (
        "it needs an approval, and nobody is there who could give one (the tool asks for approval)",
        True,
    ),
    "unknown": ("there is no tool 'nothing'", True),
    "agent": ("It is 391.", False),
    "failing": ("the turn failed (fatal): the model is gone", True),
    "progress": ["multiplying", "calls multiply"],
}


@asynccontextmanager
async def in_process(mode: str) -> Any:
    async with Client(service().server(), mode=mode) as client:
        yield client


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_sdks_own_client_is_served_in_each_era_of_the_protocol(mode: str) -> None:
    async def main() -> dict[str, Any]:
        async with in_process(mode) as client:
            return await what_a_client_sees(client)

    assert asyncio.run(main()) == SEEN


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving(service().app(token="open-sesame")) as url:
        yield f"{url}/mcp"


def test_the_sdks_own_client_is_served_over_http(address: str) -> None:
    async def main() -> dict[str, Any]:
        headers = {"Authorization": "Bearer open-sesame"}
        async with (
            httpx2.AsyncClient(headers=headers, trust_env=False) as http,
            Client(streamable_http_client(address, http_client=http)) as client,
        ):
            return await what_a_client_sees(client)

    assert asyncio.run(main()) == SEEN


def test_nobody_is_served_without_the_token_or_from_a_page_of_another_site(address: str) -> None:
    headers = {"Authorization": "Bearer open-sesame", "Accept": "application/json, text/event-stream"}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    with httpx2.Client(trust_env=False) as client:
        wrong = client.post(address, json=asked, headers={**headers, "Authorization": "Bearer open-sesam"})
        page = client.post(address, json=asked, headers={**headers, "Origin": "https://evil.example"})
        rebound = client.post(address, json=asked, headers={**headers, "Host": "evil.example"})

    assert (wrong.status_code, page.status_code, rebound.status_code) == (401, 403, 421)


def test_our_own_client_is_served_over_pipes_by_the_command() -> None:
    """And it sees what the tools print nowhere but on stderr."""
    args = ("-m", "interpreters.cli.main", "mcp", "serve", "--tools", "tests.interpreters.mcp.test_service:SERVED")
    with MCPServers([MCPServer("ours", command=sys.executable, args=args)]) as servers:
        tools = {one.spec.name: one for one in servers.tools()}
        assert tools["mcp.ours.chatty"].call({}, ToolContext(None)) == "said"
        assert servers.status()[0].info.startswith("cogstep")


def chatty() -> str:
    """Print something."""
    print("this is no message")
    return "said"


SERVED = [multiply, chatty]


def test_a_call_that_comes_twice_under_one_key_runs_once() -> None:
    async def main() -> list[str]:
        async with Client(service().server()) as client:
            calls = [client.call_tool("pay", {"to": "bob"}, meta={KEY: "k1"}) for _ in range(2)]
            found = [text_of(one)[0] for one in await asyncio.gather(*calls)]
            return [*found, text_of(await client.call_tool("pay", {"to": "bob"}, meta={KEY: "k2"}))[0]]

    RUNS.clear()
    assert asyncio.run(main()) == ["paid bob"] * 3
    assert RUNS == ["bob", "bob"]


def test_who_approves_is_asked() -> None:
    asked: list[str] = []

    def approve(request: Any) -> bool:
        asked.append(request.call.arguments["name"])
        return request.call.arguments["name"] == "a"

    async def main() -> list[tuple[str, bool]]:
        async with Client(service(approve=approve).server()) as client:
            return [text_of(await client.call_tool("delete", {"name": name})) for name in ("a", "b")]

    assert asyncio.run(main()) == [("deleted a", False), ("the user refused this call", True)]
    assert asked == ["a", "b"]


def test_images_of_a_tool_are_sent() -> None:
    @tool
    def look(context: ToolContext[Any]) -> str:
        """Look."""
        context.show(Image("image/png", PNG))
        return "a dot"

    async def main() -> list[str]:
        async with Client(MCPService([look]).server()) as client:
            return [part.type for part in (await client.call_tool("look", {})).content]

    assert asyncio.run(main()) == ["text", "image"]


def test_a_cancelled_call_ends_its_tool() -> None:
    began, ended = threading.Event(), threading.Event()

    @tool
    def wait(context: ToolContext[Any]) -> str:
        """Wait."""
        context.when_cancelled(ended.set)
        began.set()
        ended.wait(20)
        return "waited"

    async def main() -> None:
        async with Client(MCPService([wait]).server()) as client:
            call = asyncio.create_task(client.call_tool("wait", {}))
            await asyncio.to_thread(began.wait, 20)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            assert await asyncio.to_thread(ended.wait, 20)

    asyncio.run(main())


def test_a_turn_that_waits_for_an_answer_is_a_failed_call() -> None:
    def make() -> Agent:
        return Agent(fakes.ScriptedModel([fakes.call("sign", name="a")]), [ToolSpec("sign")])

    async def main() -> tuple[str, bool]:
        async with Client(MCPService([agent_tool(make)]).server()) as client:
            return text_of(await client.call_tool("ask_agent", {"message": "Sign!"}))

    said, failed = asyncio.run(main())
    assert failed
    assert "the turn waits for answers" in said


def test_what_can_not_be_served_is_refused() -> None:
    with pytest.raises(ConfigError, match="nothing that could run"):
        MCPService([ToolSpec("sign")])
    with pytest.raises(ConfigError, match="two tools are named 'pay'"):
        MCPService([pay, pay])
    with pytest.raises(ConfigError, match="can't be listened at"), serving(service().app()) as url:
        service().serve_http(int(url.rpartition(":")[2]))


def test_the_official_example_of_a_client_starts_ours(tmp_path: Any) -> None:
    """The SDK's own way to start a server."""
    args = ["-m", "interpreters.cli.main", "mcp", "serve", "--tools", "calculate"]

    async def main() -> tuple[str, bool]:
        async with Client(StdioServerParameters(command=sys.executable, args=args)) as client:
            return text_of(await client.call_tool("calculate", {"expression": "17 * 23"}))

    assert asyncio.run(main()) == ("391", False)


@pytest.mark.mlx
@pytest.mark.slow
def test_the_shipped_model_is_served_as_a_tool_by_the_command() -> None:
    """An agent of ours asks an agent of ours, through MCP."""
    progress: list[str] = []
    command = "-m interpreters.cli.main mcp serve --as-agent clerk --tools calculate --backend mlx"
    with MCPServers([MCPServer("ours", command=sys.executable, args=tuple(command.split()))]) as servers:
        (clerk,) = servers.tools()
        answer = clerk.call({"message": "What is 17 * 23?"}, ToolContext(None, report=progress.append))

    assert (answer, progress) == ("17 * 23 is 391.", ["1: calls calculate"])
