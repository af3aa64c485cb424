"""Real servers on pipes: good ones, those that die and come back, and those that mean harm."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cognition import Image, Limits, ToolSpec
from interpreters import Agent, AsyncAgent, AsyncMCPServers, MCPServer, MCPServerError, MCPServers, Tool, fakes
from interpreters.mcp._connection import Connection
from interpreters.mcp.manager import tool_names
from interpreters.recording.replay import replay
from interpreters.tools.context import ToolContext
from interpreters.tools.tool import ToolError
from tests.interpreters.mcp.parts import PLAIN, notes, notes_of, plain


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("servers")


@pytest.fixture(scope="module")
def servers(folder: Path) -> Iterator[MCPServers]:
    """Good and bad ones side by side, as a program would have them."""
    odd = ("garbage", "odd tools", "deep", "chatty", "huge")
    with MCPServers(
        [
            plain("good", folder, env={"API_TOKEN": "hunter22-secret"}),
            *(plain(fault.replace(" ", "-"), folder, fault) for fault in odd),
            plain("endless", folder, "endless list"),
            plain("late", folder, timeout=0.3),
            plain("never", folder, "mute", connect_timeout=1.0, optional=True),
        ]
    ) as opened:
        yield opened


@pytest.fixture(scope="module")
def tools(servers: MCPServers) -> dict[str, Tool[..., Any]]:
    return {tool.spec.name: tool for tool in servers.tools()}


def called(tool: Tool[..., Any], **arguments: Any) -> str:
    """What one call gives, without an agent."""
    return tool.call(arguments, ToolContext(None, session="s", call_id="call-1-1-1", effect_id="1.1.1"))


def failure(tool: Tool[..., Any], **arguments: Any) -> str:
    with pytest.raises(ToolError) as caught:
        called(tool, **arguments)
    return str(caught.value)


def test_each_server_is_there_but_the_one_that_never_answers(servers: MCPServers) -> None:
    status = {one.name: one for one in servers.status()}

    assert [name for name, one in status.items() if not one.connected] == ["never"]
    assert status["never"].why == "it was not there within 1 s"
    assert (status["good"].info, status["good"].tools) == ("plain 1", 12)
    assert status["endless"].tools == 0
    servers.tools()
    told = "MCP server endless: its list of tools has more than 100 pages, of which the first 100 are read"
    assert told in map(str, servers.problems)
    assert "MCP server never: it can't be reached: it was not there within 1 s" in map(str, servers.problems)


@pytest.mark.parametrize("server", ["good", "garbage", "odd-tools", "deep", "chatty", "late"])
def test_a_tool_works_whatever_else_its_server_does(tools: dict[str, Tool[..., Any]], server: str) -> None:
    assert called(tools[f"mcp.{server}.echo"], text="äöü\n\u2028{") == "äöü\n\u2028{"


def test_one_odd_tool_takes_no_other_with_it(servers: MCPServers, tools: dict[str, Tool[..., Any]]) -> None:
    odd = {name.removeprefix("mcp.odd-tools.") for name in tools if name.startswith("mcp.odd-tools.")}

    assert {"echo", "no_schema", "bad_schema", "pattern", "elsewhere", "strange", "list", "wordy"} <= odd
    assert {"no_properties", "circle"} <= odd
    assert sum(name.startswith("read_file-") for name in odd) == 2
    assert tools["mcp.deep.deep"].spec.parameters == {"type": "object"}
    assert called(tools[next(name for name in tools if name.endswith("-121414"))]) == "no text"


def test_a_schema_holds_in_what_can_be_held_of_it(servers: MCPServers, tools: dict[str, Tool[..., Any]]) -> None:
    said = failure(tools["mcp.odd-tools.elsewhere"], x=1, y="one")
    told = [str(one) for one in servers.problems if "elsewhere" in str(one)]

    assert said == "wrong arguments for mcp.odd-tools.elsewhere: y: 'one' is not of type 'integer'"
    assert told == [
        "MCP server odd-tools tool elsewhere: arguments are not held to all of its schema: "
        "$ref @ $.properties.x: it leads nowhere in the schema, and nothing is fetched"
    ]


def test_an_answer_that_is_too_long_is_a_failure_of_its_call(tools: dict[str, Tool[..., Any]]) -> None:
    assert "more than 16 MiB, and was not read" in failure(tools["mcp.huge.echo"], text="a")
    assert called(tools["mcp.huge.env"], name="HOME") == os.environ["HOME"]


def test_a_server_has_no_keys_of_ours_and_its_own_are_hidden(
    tools: dict[str, Tool[..., Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-program")

    assert called(tools["mcp.good.env"], name="OPENAI_API_KEY") == "there is no such variable"
    assert called(tools["mcp.good.env"], name="API_TOKEN") == "[hidden]"


def test_a_call_names_itself(tools: dict[str, Tool[..., Any]]) -> None:
    """The same call has the same key in each attempt, and another call another one."""

    def meta(call_id: str, effect_id: str) -> str:
        context: ToolContext[None] = ToolContext(None, session="s", call_id=call_id, effect_id=effect_id)
        return tools["mcp.good.meta"].call({}, context)

    first, again, other = meta("call-1-1-1", "1.1.1"), meta("call-1-1-1", "1.1.3"), meta("call-1-2-1", "1.2.1")
    key = first.partition('"cogstep/idempotency-key": "')[2][:32]
    assert key in again
    assert key not in other
    assert '"cogstep/effect-id": "1.1.1"' in first


def test_images_and_progress_come_through(tools: dict[str, Tool[..., Any]]) -> None:
    progress: list[str] = []
    context: ToolContext[None] = ToolContext(None, report=progress.append)

    assert tools["mcp.good.progress"].call({}, context) == "done"
    assert progress == ["1 of 2: counting", "2 of 2: counting"]
    assert called(tools["mcp.good.picture"]).splitlines()[1] == "[image image/png, 70 bytes]"


@pytest.mark.parametrize(("media", "seen"), [(("image/png",), 1), (("image/gif",), 0), ((), 0)])
def test_a_model_is_shown_the_images_that_it_takes(
    tools: dict[str, Tool[..., Any]], tmp_path: Path, media: tuple[Any, ...], seen: int
) -> None:
    """The text of the result names them in any case, and the session replays."""
    model = fakes.ScriptedModel([fakes.call("mcp.good.picture"), "Seen."], media=media)
    with Agent(model, [tools["mcp.good.picture"]], journal=tmp_path / "s.jsonl") as agent:
        (call,) = agent.run("Look.").calls
    newest = model.requests[1].messages[-1]
    shown = [part for part in getattr(newest, "parts", ()) if isinstance(part, Image)]

    assert "[image image/png, 70 bytes]" in call.content
    assert len(shown) == seen
    assert replay(tmp_path / "s.jsonl").same


def test_no_answer_in_time_is_told_to_both(tools: dict[str, Tool[..., Any]], folder: Path) -> None:
    said = failure(tools["mcp.late.silent"])

    assert said.startswith("the MCP server 'late' gave no answer within 0.3 s, and was told to stop; nobody knows")
    assert called(tools["mcp.late.echo"], text="still there") == "still there"
    assert notes_of(folder, "late", 2) == ["asked", "cancelled"]


@pytest.mark.parametrize("kind", [Agent, AsyncAgent])
def test_a_cancelled_turn_reaches_the_server(
    tools: dict[str, Tool[..., Any]], folder: Path, kind: type[Agent] | type[AsyncAgent]
) -> None:
    before = len(notes(folder, "good"))

    def cancel_once_asked(agent: Any) -> None:
        while len(notes(folder, "good")) == before:
            pass
        agent.cancel("enough")

    silent = [tools["mcp.good.silent"], tools["mcp.good.echo"]]
    model = fakes.ScriptedModel([fakes.call("mcp.good.silent"), fakes.call("mcp.good.echo", text="on"), "Done."])

    async def run_async() -> tuple[Any, Any]:
        async with AsyncAgent(model, silent) as agent:
            threading.Thread(target=cancel_once_asked, args=(agent,)).start()
            return await agent.run("Wait."), await agent.run("Go on.")

    def run_sync() -> tuple[Any, Any]:
        with Agent(model, silent) as agent:
            threading.Thread(target=cancel_once_asked, args=(agent,)).start()
            return agent.run("Wait."), agent.run("Go on.")

    cancelled, after = run_sync() if kind is Agent else asyncio.run(run_async())
    assert cancelled.outcome.reason == "enough"
    assert after.calls[-1].content == "on"
    assert notes_of(folder, "good", before + 2)[before:] == ["asked", "cancelled"]


def test_a_dead_server_is_a_failed_result_and_is_there_for_the_next_call(folder: Path) -> None:
    """A call whose fate nobody knows is said to be one, and is not made again."""
    with MCPServers([plain("mortal", folder)]) as servers:
        model = fakes.ScriptedModel(
            [fakes.call("mcp.mortal.die"), fakes.call("mcp.mortal.count"), fakes.call("mcp.mortal.count"), "Done."]
        )
        with Agent(model, servers.tools()) as agent:
            died, first, second = (one.content for one in agent.run("Go.").calls)

    assert died == (
        "Error: the MCP server 'mortal' was lost: it ended with exit code 9; it said last: out of memory; "
        "nobody knows whether the call happened; look before you call it again"
    )
    assert (first, second) == ("1", "2")


@pytest.mark.parametrize(("words", "times"), [({}, 1), ({"idempotent": ("ec*",)}, 2)])
def test_only_a_call_that_may_happen_twice_is_made_again(
    tmp_path: Path, words: dict[str, Any], times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once after the first loss; after the second, the server is left alone for a while, and no call reaches it."""
    monkeypatch.setattr(
        "interpreters.mcp.manager.Connection", partial(Connection, now=lambda: 1000.0)
    )  # which doesn't end
    with MCPServers([plain("mortal", tmp_path, "dies", **words)]) as servers:
        model = fakes.ScriptedModel([fakes.call("mcp.mortal.echo", text="a"), "Done."])
        with Agent(model, servers.tools(), clock=fakes.FakeClock()) as agent:
            (call,) = agent.run("Go.").calls

    assert len(notes(tmp_path, "mortal")) == times
    assert call.content.endswith("look before you call it again" if times == 1 else "again in 1 s (tried 3 times)")


def test_a_server_that_can_not_start_says_why_and_not_its_key(tmp_path: Path) -> None:
    broken = plain("broken", tmp_path, "no start", env={"DB_PASSWORD": "hunter22"})
    with pytest.raises(MCPServerError) as caught, MCPServers([plain("good", tmp_path), broken]):
        pass

    assert str(caught.value) == (
        "an MCP server can't be reached: broken: it ended with exit code 3; it said last: "
        "cannot open the database with the password [hidden]"
    )
    assert caught.value.servers == ("broken",)
    assert "hunter22" not in repr(caught.value)


def printed(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout


def test_no_process_is_left_behind() -> None:
    """Not even one that ignores the end of its input, nor what it has begun itself and in a session of its own."""
    script = "import os, signal, time; signal.signal(15, signal.SIG_IGN); os.fork() or os.setsid(); time.sleep(600)"
    args = ("-S", "-c", script, "cogstep-stubborn")
    never = MCPServer("stubborn", command=sys.executable, args=args, connect_timeout=0.5, optional=True)
    with MCPServers([never]) as servers:
        assert servers.status()[0].connected is False

    assert printed("pgrep", "-f", "cogstep-stubborn") == ""


def test_a_server_ends_with_its_program(tmp_path: Path) -> None:
    """Also where that is killed, and though the server has begun others, as those that are started by npx have."""
    mark = f"cogstep-{tmp_path.name}-{os.getpid()}"
    server = f"import os, time; os.fork() or os.fork() or os.setsid(); print(flush=True); time.sleep(600) # {mark}"
    code = f"""
import sys, threading, time
from interpreters import MCPServer, MCPServers
servers = MCPServers([MCPServer("forking", command=sys.executable, args=("-S", "-c", {server!r}))])
threading.Thread(target=servers.__enter__, daemon=True).start()
time.sleep(600)
"""
    program = subprocess.Popen([sys.executable, "-c", code])
    while len(printed("pgrep", "-f", f"^[^ ]*python[^ ]* -S .*{mark}").split()) < 3:
        pass
    program.send_signal(signal.SIGKILL)
    program.wait()

    while printed("pgrep", "-f", mark):
        pass


def test_a_server_that_refuses_the_connection_says_why_in_its_own_words(tmp_path: Path) -> None:
    with pytest.raises(MCPServerError, match=r"^an MCP server can't be reached: strict: the licence has ended$"):
        MCPServers([plain("strict", tmp_path, "no licence")]).__enter__()


def test_a_list_that_leads_back_to_itself_is_read_once(tmp_path: Path) -> None:
    with MCPServers([plain("turning", tmp_path, "same cursor"), plain("none", tmp_path, "no list")]) as servers:
        assert len(servers.tools()) == 12
        told = [str(one) for one in servers.problems if one.server == "none"]

    assert notes(tmp_path, "turning", listings=True) == ["listed", "listed"]
    assert told == ["MCP server none: an entry of its list of tools is no object"]


def test_a_flood_of_changes_is_read_once_and_once_more(tmp_path: Path) -> None:
    with MCPServers([plain("flooding", tmp_path)]) as servers:
        flood = next(tool for tool in servers.tools() if tool.spec.name == "mcp.flooding.flood")
        assert called(flood) == "flooded"
        while len(notes(tmp_path, "flooding", listings=True)) < 3:
            pass
        assert called(flood) == "flooded"  # by when all that the first one caused has come

    assert len(notes(tmp_path, "flooding", listings=True)) <= 5


def test_a_tool_that_is_said_to_destroy_by_now_is_not_called_unasked(tmp_path: Path) -> None:
    changed = threading.Event()
    with MCPServers([plain("worse", tmp_path)], on_change=lambda _: changed.set()) as servers:
        tools = {tool.spec.name: tool for tool in servers.tools()}
        assert called(tools["mcp.worse.worsen"]) == "worse"
        assert changed.wait(20)
        said = failure(tools["mcp.worse.count"])
        after = {tool.spec.name: tool.spec.approval for tool in servers.tools()}

    assert said.endswith("which it did not say when this session was given it; it was not called")
    assert "counted" not in notes(tmp_path, "worse")
    assert after["mcp.worse.count"] is True


def test_a_recorded_tool_is_the_same_one_when_its_server_comes_later(tmp_path: Path) -> None:
    """Though its name here is not its own, and is another tool's own name there."""
    server = plain("late", tmp_path, "waits for a file", "odd tools", optional=True)
    (name,) = [one for one in tool_names("late", ["read file", "read/file"]).values() if one.endswith("-121414")]
    with MCPServers([server]) as servers:
        (recorded,) = servers.tools(recorded=[ToolSpec(name)])
        (tmp_path / "late" / "there").touch()

        assert called(recorded) == "no text"
        (gone,) = servers.tools(recorded=[ToolSpec("mcp.late.gone")])
        assert "lists no tool any more that is mcp.late.gone here" in failure(gone)


def test_a_changed_list_is_told_and_an_agent_keeps_what_it_was_given(folder: Path) -> None:
    told: list[str] = []
    changed = threading.Event()

    def note(server: str) -> None:
        told.append(server)
        changed.set()

    with MCPServers([plain("changing", folder)], on_change=note) as servers:
        before = servers.tools()
        model = fakes.ScriptedModel([fakes.call("mcp.changing.change"), "Done."])
        with Agent(model, before, approve=lambda _: True) as agent:
            assert [one.content for one in agent.run("Go.").calls] == ["changed"]
        assert changed.wait(20)
        assert (told, servers.changed) == (["changing"], {"changing"})
        after = servers.tools()

    assert {one.spec.name for one in after} - {one.spec.name for one in before} == {"mcp.changing.new"}
    assert servers.changed == frozenset()


def test_a_closed_server_is_a_failed_call(tools: dict[str, Tool[..., Any]], tmp_path: Path) -> None:
    with MCPServers([plain("good", tmp_path)]) as servers:
        (echo, *_) = servers.tools()
        servers.close()
        servers.close()

    assert "are not open" in failure(echo, text="a")


def test_closing_ends_calls_that_are_under_way(tmp_path: Path) -> None:
    with MCPServers([plain("good", tmp_path)]) as servers:
        silent = next(tool for tool in servers.tools() if tool.spec.name == "mcp.good.silent")
        said: list[str] = []
        thread = threading.Thread(target=lambda: said.append(failure(silent)))
        thread.start()
        while not notes(tmp_path, "good"):
            pass
    thread.join(20)

    assert said == ["the MCP servers were closed while the call ran; it may have happened"]


def test_a_close_that_is_cancelled_leaves_no_process_behind(tmp_path: Path) -> None:
    """The server stays when its input ends, so that it is there still when the close is cancelled."""
    script = f"import sys, time; sys.path.insert(0, {str(PLAIN.parent)!r}); import plain_server as served"
    script = f"{script}; served.main(); served.note('ended'); time.sleep(600)"
    (tmp_path / "reluctant").mkdir()
    args = ("-S", "-c", script, str(tmp_path / "reluctant"), "cogstep-reluctant")

    async def main() -> None:
        servers = AsyncMCPServers([MCPServer("reluctant", command=sys.executable, args=args)])
        await servers.__aenter__()
        closing = asyncio.ensure_future(servers.close())
        while not notes(tmp_path, "reluctant"):
            await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing

    asyncio.run(main())

    assert printed("pgrep", "-f", "cogstep-reluctant") == ""


def test_async_programs_have_the_same(tmp_path: Path) -> None:
    async def main() -> tuple[list[str], tuple[Any, ...]]:
        async with AsyncMCPServers([plain("one", tmp_path), plain("two", tmp_path, read_only=("echo",))]) as servers:
            await servers.refresh()
            calls = [fakes.call(f"mcp.{name}.echo", text=name) for name in ("one", "two")]
            model = fakes.ScriptedModel([[*calls], "Done."])
            async with AsyncAgent(model, servers.tools(), limits=Limits(tool_calls=5)) as agent:
                result = await agent.run("Go.")
            return [one.content for one in result.calls], await servers.resources()

    assert asyncio.run(main()) == (["one", "two"], ())
