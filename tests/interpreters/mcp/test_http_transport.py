"""Servers over HTTP: one of the SDK's own class, and bad ones on the same loopback."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from cognition import Policy, Rule
from interpreters import Agent, MCPServer, MCPServerError, MCPServers, ToolContext, ToolError, fakes
from interpreters.mcp import _http_transport as web
from interpreters.recording.replay import replay
from tests.interpreters.mcp.parts import notes, plain, serving, web_server

KEY = "key-of-the-wiki"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(web_server().streamable_http_app()) as address:
        yield f"{address}/mcp"


def test_a_server_of_the_sdks_own_over_http(url: str) -> None:
    progress: list[str] = []
    with MCPServers([MCPServer("wiki", url=url, headers={"Authorization": f"Bearer {KEY}"})]) as servers:
        tools = {tool.spec.name: tool for tool in servers.tools()}
        context: ToolContext[None] = ToolContext(None, report=progress.append)

        assert tools["mcp.wiki.add"].call({"a": 2, "b": 3}, context) == "5"
        assert tools["mcp.wiki.tell"].call({}, context) == "told"
        with pytest.raises(ToolError, match="Error executing tool fail"):
            tools["mcp.wiki.fail"].call({}, context)
        (resource,), (prompt,) = servers.resources(), servers.prompts()
        assert servers.read_resource("wiki", resource.uri) == ["[wiki://page]", "It is a page."]
        assert servers.prompt("wiki", prompt.name, {"text": "this"}) == ["Summarise: this"]
        with pytest.raises(MCPServerError, match="the MCP server 'wiki': "):
            servers.read_resource("wiki", "wiki://nothing")
        assert servers.status()[0].protocol == "2026-07-28"
        more = {tool.spec.name: tool for tool in servers.tools(resources=True)}
        assert set(more) - set(tools) == {"mcp.wiki.list_resources", "mcp.wiki.read_resource"}
        assert more["mcp.wiki.list_resources"].call({}, context) == "wiki://page  page  The page."
        assert more["mcp.wiki.read_resource"].call({"uri": "wiki://page"}, context) == "[wiki://page]\nIt is a page."
        with pytest.raises(ToolError, match="the MCP server 'wiki': "):
            more["mcp.wiki.read_resource"].call({"uri": "wiki://nothing"}, context)

    assert progress == ["1 of 2: half"]


def test_a_server_of_the_newest_protocol_says_that_its_list_has_changed() -> None:
    changed = threading.Event()
    with (
        serving(web_server().streamable_http_app()) as address,
        MCPServers([MCPServer("wiki", url=f"{address}/mcp")], on_change=lambda _: changed.set()) as servers,
    ):
        before = {tool.spec.name: tool for tool in servers.tools()}
        # It listens a moment after it has connected: until then nobody is told of a change.
        while not changed.wait(0.1):
            before["mcp.wiki.grow"].call({}, ToolContext(None))
        after = {tool.spec.name for tool in servers.tools()}

    assert after - set(before) == {"mcp.wiki.grown"}


def test_an_agent_uses_three_servers_at_once_under_policy_and_the_session_replays(url: str, tmp_path: Path) -> None:
    """On pipes, over HTTP, and one that dies and comes back; with a rule that denies one tool of one of them."""
    journal = tmp_path / "session.jsonl"
    listed = [
        plain("files", tmp_path, env={"API_TOKEN": KEY}),
        MCPServer("wiki", url=url, headers={"X-Key": KEY}),
        plain("mortal", tmp_path),
    ]
    replies = [
        [fakes.call("mcp.files.echo", text="one"), fakes.call("mcp.wiki.add", a=1, b=2), fakes.call("mcp.mortal.die")],
        [fakes.call("mcp.mortal.count"), fakes.call("mcp.files.env", name="API_TOKEN"), fakes.call("mcp.wiki.tell")],
        "Done.",
    ]
    policy = Policy((Rule("deny", "mcp.wiki.tell", "nobody is told"), Rule("ask", "mcp.files.echo")))
    asked: list[str] = []

    def approve(request: Any) -> bool:
        asked.append(request.call.name)
        return True

    with MCPServers(listed) as servers:
        given: dict[str, Any] = {"policy": policy, "approve": approve, "journal": journal}
        with Agent(fakes.ScriptedModel(replies), servers.tools(), **given) as agent:
            result = agent.run("Go.")

    echoed, added, died, counted, shown, told = (one.content for one in result.calls)
    assert (echoed, added, counted, shown) == ("one", "3", "1", "[hidden]")
    assert "nobody knows whether the call happened" in died
    assert "nobody is told" in told
    assert asked == ["mcp.files.echo"]
    assert replay(journal).same
    assert KEY not in journal.read_text()
    assert notes(tmp_path, "mortal") == ["counted"]


def test_a_session_goes_on_with_the_tools_that_it_was_recorded_with(tmp_path: Path) -> None:
    """Whatever their server lists by then, and whether it is there or not."""
    journal = tmp_path / "session.jsonl"
    with MCPServers([plain("files", tmp_path)]) as servers:
        model = fakes.ScriptedModel([fakes.call("mcp.files.echo", text="one"), "Done."])
        with Agent(model, servers.tools(), journal=journal) as agent:
            agent.run("Go.")
            specs = agent.config.tools

    gone = MCPServer("files", command="no-such-program", optional=True)
    for server, told in (
        (plain("files", tmp_path, "odd tools"), "two"),
        (gone, "there is no program 'no-such-program'"),
    ):
        with MCPServers([server]) as servers:
            model = fakes.ScriptedModel([fakes.call("mcp.files.echo", text="two"), "Done."])
            with Agent.resume(journal, model, servers.tools(recorded=specs)) as agent:
                assert told in agent.run("Go on.").calls[-1].content


# ------------------------------------------------------------------------------------------------------------ bad ones


DEEP = ("well", "deep events")
"""Those that list a tool with a deep schema."""


async def bad(request: Request) -> Response:
    """Behaves as its path says."""
    way = request.path_params["way"]
    if request.method != "POST":
        while request.method == "DELETE" and not await request.is_disconnected():
            await asyncio.sleep(0.01)
        return Response(status_code=405)
    message = json.loads(await request.body())
    method, number = message["method"], message.get("id")
    if way.startswith("locked"):
        return JSONResponse({"error": "no"}, 401) if way == "locked in JSON" else PlainTextResponse("no", 401)
    if way == "nonsense":
        return Response("<html>", media_type="application/json")
    if number is None:
        return Response(status_code=202)
    if method == "server/discover":
        error = {"code": -32601, "message": "no such method"}
        return JSONResponse({"jsonrpc": "2.0", "id": number, "error": error}, 400)
    if method == "initialize":
        info = {"name": "bad", "version": "1"}
        given = {"protocolVersion": "2025-06-18", "serverInfo": info, "capabilities": {"tools": {}}}
        begun = {"mcp-session-id": "1"} if way == "no parting" else None
        return JSONResponse({"jsonrpc": "2.0", "id": number, "result": given}, headers=begun)
    if method == "tools/list":
        tools = [{"name": "go", "inputSchema": {"type": "object"}}]
        if way in DEEP:
            return Deep(number, tools, way == "deep events")
        return JSONResponse({"jsonrpc": "2.0", "id": number, "result": {"tools": tools}})
    if way == "busy":
        return PlainTextResponse("later", 503)
    if way == "busy in JSON":
        return JSONResponse({"error": "later"}, 503)
    if way == "limited":
        return PlainTextResponse("slowly", 429)
    if way == "limited in JSON":
        return JSONResponse({"error": "slowly"}, 429)
    if way == "failing":
        return JSONResponse({"jsonrpc": "2.0", "id": number, "error": {"code": -32000, "message": "bad luck"}}, 500)
    if way == "a page":
        return Response("<html>", media_type="text/html")
    if way == "later":
        return Response(status_code=202, media_type="application/json")
    if way.startswith("compressed"):
        return compressed(number, way)
    if way == "cut":
        return StreamingResponse(cut_off(), media_type="application/json", headers={"content-length": "1000"})
    if way == "cut events":
        return StreamingResponse(cut_off(), media_type="text/event-stream")
    if way == "no json":
        return Response("<html>", media_type="application/json")
    if way == "elsewhere":
        return Response(status_code=307, headers={"location": "http://127.0.0.1:1/mcp"})
    if way == "huge":
        return StreamingResponse(huge(), media_type="application/json")
    return JSONResponse({"jsonrpc": "2.0", "id": number, "result": {"content": [{"type": "text", "text": "went"}]}})


class Deep(Response):
    """A list of tools, one of which has a schema of 10,000 levels."""

    def __init__(self, number: int, tools: list[Any], events: bool) -> None:
        deep = '{"type":"object","properties":{"a":' * 5_000 + "{}" + "}}" * 5_000
        listed = json.dumps({"jsonrpc": "2.0", "id": number, "result": {"tools": [*tools, "DEEP"]}})
        text = listed.replace('"DEEP"', '{"name": "deep", "inputSchema": ' + deep + "}")
        super().__init__(f"event: message\ndata: {text}\n\n" if events else text)
        self.headers["content-type"] = "text/event-stream" if events else "application/json"


def compressed(number: int, way: str) -> Response:
    """An answer as a proxy compresses it; one that is a thousand times as long then; one that only says that it is."""
    went = {"jsonrpc": "2.0", "id": number, "result": {"content": [{"type": "text", "text": "went"}]}}
    body = json.dumps(went).encode()
    if way != "compressed badly":
        body = gzip.compress(b" " * 2**25 if way == "compressed much" else body)
    return Response(body, media_type="application/json", headers={"content-encoding": "gzip"})


async def cut_off() -> AsyncIterator[bytes]:
    yield b'data: {"jsonrpc": "2.0", '


async def huge() -> AsyncIterator[bytes]:
    for _ in range(20):
        yield b" " * 2**20


@pytest.fixture(scope="module")
def bad_url() -> Iterator[str]:
    with serving(Starlette(routes=[Route("/{way}", bad, methods=["GET", "POST", "DELETE"])])) as address:
        yield address


WAYS = {
    "well": "went",
    "deep events": "went",
    "busy": "the MCP server 'bad' was lost: it answered with HTTP 503 Service Unavailable; nobody knows",
    "limited": "the MCP server 'bad' refused: it answered with HTTP 429 Too Many Requests",
    "cut": "the MCP server 'bad' was lost: ",
    "cut events": "the MCP server 'bad' was lost: ",
    "no json": "the MCP server 'bad' was lost: its answer can't be read",
    "elsewhere": "the MCP server 'bad' refused: Redirect to http://127.0.0.1:1/mcp not followed",
    "huge": "the MCP server 'bad' was lost: its answer can't be read",
    "busy in JSON": "the MCP server 'bad' was lost: it answered with HTTP 503 Service Unavailable; nobody knows",
    "limited in JSON": "the MCP server 'bad' refused: it answered with HTTP 429 Too Many Requests",
    "failing": "the MCP server 'bad' refused: bad luck",
    "a page": "the MCP server 'bad' was lost: it answered with HTTP 200 OK and text/html; charset=utf-8, which is no",
    "later": "the MCP server 'bad' was lost: it answered with HTTP 202 Accepted and application/json, which is no",
    "compressed": "went",
    "compressed much": "the MCP server 'bad' was lost: its answer can't be read",
    "compressed badly": "the MCP server 'bad' was lost: its answer can't be read",
}


def test_whatever_comes_back_is_the_end_of_that_call_alone(bad_url: str) -> None:
    said: dict[str, str] = {}
    names = {way: way.replace(" ", "-") for way in WAYS}
    urls = {way: f"{bad_url}/{way.replace(' ', '%20')}" for way in WAYS}
    with MCPServers([MCPServer(name, url=urls[way], timeout=20) for way, name in names.items()]) as servers:
        tools = {tool.spec.name: tool for tool in servers.tools()}
        deep = {f"mcp.{names[way]}.deep" for way in DEEP}
        assert set(tools) == {f"mcp.{name}.go" for name in names.values()} | deep
        for way, name in [*names.items()] * 2:
            try:
                said[way] = tools[f"mcp.{name}.go"].call({}, ToolContext(None))
            except ToolError as error:
                said[way] = str(error).replace(f"'{name}'", "'bad'")

    assert {way: text[: len(WAYS[way])] for way, text in said.items()} == WAYS


@pytest.mark.parametrize("way", ["locked", "locked%20in%20JSON"])
def test_a_server_that_lets_nobody_in_says_so_without_the_key(bad_url: str, way: str) -> None:
    server = MCPServer("bad", url=f"{bad_url}/{way}?key={KEY}", headers={"Authorization": f"Bearer {KEY}"})
    with pytest.raises(MCPServerError) as caught, MCPServers([server]):
        pass

    assert "it answered with HTTP 401 Unauthorized" in str(caught.value)
    assert KEY not in str(caught.value)


def test_what_can_not_be_read_is_told_in_plain_words(bad_url: str) -> None:
    with (
        pytest.raises(MCPServerError, match="bad: its answer to the first request can't be read"),
        MCPServers([MCPServer("bad", url=f"{bad_url}/nonsense")]),
    ):
        pass


def test_a_server_that_answers_no_parting_holds_nobody_up(bad_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "PARTING_SECONDS", 0.05)
    monkeypatch.setattr("interpreters.mcp.client.CLOSING_SECONDS", 1.0)
    with MCPServers([MCPServer("bad", url=f"{bad_url}/no%20parting")]) as servers:
        assert len(servers.tools()) == 1


def test_what_is_compressed_is_inflated_bit_by_bit() -> None:
    """A small answer may be a thousand times as long, and must not be held whole before anybody counts."""

    class Small(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield gzip.compress(b" " * 2**20)

    async def main() -> list[int]:
        return [len(part) async for part in web.InflatedBody(Small())]

    lengths = asyncio.run(main())
    assert sum(lengths) == 2**20
    assert max(lengths) <= web.INFLATED_AT_ONCE


def test_a_server_that_is_not_there_did_not_run_anything(url: str) -> None:
    with serving(web_server().streamable_http_app()) as address:
        servers = MCPServers([MCPServer("wiki", url=f"{address}/mcp", timeout=20)])
        servers.__enter__()
        add = next(tool for tool in servers.tools() if tool.spec.name == "mcp.wiki.add")
    try:
        with pytest.raises(ToolError, match="the MCP server 'wiki' can't be reached: ") as caught:
            add.call({"a": 1, "b": 2}, ToolContext(None))
    finally:
        servers.close()
    assert "nobody knows" not in str(caught.value)
