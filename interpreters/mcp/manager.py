"""All servers of a program on a separate event loop and thread, so that no server blocks a session's loop."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from concurrent.futures import Future
from functools import partial
from hashlib import sha256
from importlib.util import find_spec
from typing import Any, TypeVar

from attrs import evolve, frozen

from cognition import CogstepError, ConfigError, ToolSpec
from cognition.values.content import Part
from cognition.values.tools import NAME
from interpreters.mcp._connection import Connection
from interpreters.mcp._json_limits import TOO_DEEP
from interpreters.mcp._listing import (
    RESOURCE_TOOLS,
    ListedTool,
    MCPProblem,
    MCPPrompt,
    MCPResource,
    read_prompts,
    read_resources,
    resource_line,
)
from interpreters.mcp._tool_call import call_tool, format_result, parts_of, resource_parts
from interpreters.mcp.server_config import MCPServer, matches
from interpreters.tools.context import ToolContext, ToolError
from interpreters.tools.schema_check import OPEN, LeftOut, repair_schema
from interpreters.tools.tool import Tool
from runtime.models.installation import install_line

PREFIX = "mcp"
LONGEST = 64
"""Maximum characters of a tool's name, as in ``cognition.values.tools.NAME``."""
STRANGE = re.compile(r"[^A-Za-z0-9_.-]+")
MARK = 6
"""Number of hash characters that distinguish two similar names."""

LOG = logging.getLogger("cogstep")
Result = TypeVar("Result")

CLOSING_SECONDS = 10.0
"""Seconds to wait for the end of all servers; each has its own, shorter limits."""

RETRIES = (0.5, 2.0)
"""Seconds before further attempts at a repeatable call whose connection was lost."""

LONGEST_SCHEMA = 2000
"""Maximum characters of a schema shown to the model as text if sampling can't enforce any of it."""

MOST_SAID = 5
"""Maximum keywords of a schema named in a problem."""

Call = Callable[[ListedTool, dict[str, Any], ToolContext[Any]], Awaitable[Any]]
"""Calls a tool as it was listed when it was offered."""


class MCPServerError(CogstepError):
    """A server can't be reached, refused, or was lost.

    Attributes:
        servers: the names of the affected servers.
    """

    def __init__(self, message: str, *servers: str) -> None:
        super().__init__(message)
        self.servers = servers


@frozen
class ServerStatus:
    """The status of a server."""

    name: str
    where: str
    """Its program, or its URL without parts that may be a key."""
    connected: bool
    protocol: str
    """The negotiated version of the protocol; empty if not connected."""
    info: str
    """Its own name and version."""
    instructions: str
    """Its instructions for models. They are an untrusted text, and no model is shown them."""
    why: str
    """Why it is not connected; empty if it is."""
    tools: int
    """The number of offered tools in its newest list."""


class ServerManager:
    """The connections to all servers, usable from ``open`` to ``stop``. Its ``async`` methods run on its own loop."""

    def __init__(self, servers: Iterable[MCPServer], on_change: Callable[[str], object] | None) -> None:
        if find_spec("mcp") is None:
            raise ConfigError(f"MCP servers need the official SDK: {install_line('mcp')}")
        self.servers: tuple[MCPServer, ...] = tuple(servers)
        names = [server.name for server in self.servers]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ConfigError(f"two MCP servers are named {twice!r}; give one of them another name")
        self._on_change = on_change
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self.connections: dict[str, Connection] = {}
        self._offering: tuple[MCPProblem, ...] = ()
        self.changed: set[str] = set()
        self._stale: set[str] = set()
        """Servers whose lists have changed and are not read again yet."""

    # -------------------------------------------------------------------------------------------- from other threads

    def open(self) -> None:
        """Start the loop.

        Raises:
            ConfigError: it was started before.
        """
        if self._loop is not None:
            raise ConfigError("these MCP servers are open already, or were closed; make a new MCPServers")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, args=(self._loop,), name="cogstep mcp", daemon=True)
        self._thread.start()
        for server in self.servers:
            self.connections[server.name] = Connection(server, partial(self._note_change, server.name))

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    def submit(self, work: Coroutine[Any, Any, Result]) -> Future[Result]:
        """Run a coroutine of this hub on its loop.

        Raises:
            MCPServerError: the hub is not open.
        """
        loop = self._loop
        if loop is None or not self.is_open:
            work.close()
            raise MCPServerError("the MCP servers are not open; use them within their `with` block")
        return asyncio.run_coroutine_threadsafe(work, loop)

    @property
    def is_open(self) -> bool:
        return self._thread is not None

    def stop(self) -> None:
        loop, thread = self._loop, self._thread
        self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(CLOSING_SECONDS)

    # ----------------------------------------------------------------------------------------------- on its own loop

    async def connect(self) -> None:
        """Connect to all servers concurrently.

        Raises:
            MCPServerError: servers that are not ``optional`` can't be reached; it names all of them.
        """
        lost: list[tuple[str, str]] = []
        tried = await asyncio.gather(*(one.connect() for one in self.connections.values()), return_exceptions=True)
        for connection, error in zip(self.connections.values(), tried, strict=True):
            if isinstance(error, BaseException):
                why = connection.why or str(error)
                if connection.server.optional:
                    LOG.warning("the MCP server %s can't be reached: %s", connection.server.name, why)
                else:
                    lost.append((connection.server.name, why))
        if lost:
            told = "; ".join(f"{name}: {why}" for name, why in lost)
            many = "an MCP server" if len(lost) == 1 else f"{len(lost)} MCP servers"
            raise MCPServerError(f"{many} can't be reached: {told}", *(name for name, _ in lost))

    async def close(self) -> None:
        """End all connections and all calls that wait for them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*(one.close() for one in self.connections.values()), return_exceptions=True)

    async def call(self, server: str, listed: ListedTool, arguments: dict[str, Any], context: ToolContext[Any]) -> Any:
        """Carry a call out.

        Raises:
            ToolError: it failed.
        """
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            return await call_tool(self.connections[server], listed, arguments, context)
        finally:
            self._tasks.discard(task)

    def _note_change(self, server: str) -> None:
        """Read a server's lists again after it reported a change, and call ``on_change``.

        However often it reports changes, at most one read runs and one waits.
        """
        if server in self._stale:
            return
        self._stale.add(server)
        task = asyncio.ensure_future(self._reread(server))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reread(self, server: str) -> None:
        connection = self.connections[server]
        try:
            async with connection.rereading:
                self._stale.discard(server)
                await connection.refresh()
        except Exception as error:
            LOG.warning("the tools of the MCP server %s have changed, and can't be listed: %s", server, error)
            return
        self.changed.add(server)
        if self._on_change is not None:
            try:
                self._on_change(server)
            except Exception:
                LOG.exception("what was to be called when the tools of %s changed has failed", server)

    async def refresh(self) -> None:
        """Read the lists of all reachable servers again."""
        await asyncio.gather(*(one.refresh() for one in self.connections.values()), return_exceptions=True)

    # --------------------------------------------------------------------------------------------- what they offer

    def tools(self, recorded: Iterable[ToolSpec], *, resources: bool) -> tuple[Tool[..., Any], ...]:
        """Return the tools of all servers, as listed last; with ``resources`` also the tools that read resources."""
        specs = {spec.name: spec for spec in recorded if spec.name.startswith(f"{PREFIX}.")}
        made: list[Tool[..., Any]] = []
        problems: list[MCPProblem] = []
        for connection in self.connections.values():
            problems += connection.problems
            for name, listed, call in self._named_tools(connection, resources and connection.has("resources")):
                tool, problem = make_tool(connection.server, listed, name, call)
                if tool is not None:
                    made.append(tool)
                if problem is not None:
                    problems.append(problem)
            self.changed.discard(connection.server.name)
        self._offering = tuple(problems)
        for one in problems:
            LOG.warning("%s", one)
        if not specs:
            return tuple(made)
        there = {tool.spec.name: tool for tool in made}
        return tuple([self._restore_tool(spec, there) for spec in specs.values()])

    def _named_tools(self, connection: Connection, resources: bool) -> Iterator[tuple[str, ListedTool, Call]]:
        """Yield the tools of a server, each with its name here and the function that calls it."""
        server = connection.server.name
        names = tool_names(server, [one.name for one in connection.listed])
        for listed in connection.listed:
            yield names[listed.name], listed, partial(self.call_from_anywhere, server)
        for listed in RESOURCE_TOOLS if resources else ():
            if listed.name not in names:
                yield f"{PREFIX}.{server}.{listed.name}", listed, partial(self._look_up_and_call, server)

    def _restore_tool(self, spec: ToolSpec, there: dict[str, Tool[..., Any]]) -> Tool[..., Any]:
        """Return a tool with its recorded specification: the current tool, or a placeholder for a tool that may
        reappear.
        """
        _, server, _ = (*spec.name.split(".", 2), "", "")[:3]

        async def find_and_call(arguments: dict[str, Any], context: ToolContext[Any]) -> Any:
            if server not in self.connections:
                raise ToolError(f"there is no MCP server {server!r} any more")
            listed, call = await asyncio.wrap_future(self.submit(self._find_tool(server, spec.name)))
            return await call(listed, arguments, context)

        function = there[spec.name].function if spec.name in there else find_and_call
        tool = Tool.from_schema(name=spec.name, parameters=spec.parameters, function=function)
        tool.spec = evolve(spec)
        tool.prepare()
        return tool

    async def _find_tool(self, server: str, name: str) -> tuple[ListedTool, Call]:
        """Connect to the server, and return the tool with this name here and the function that calls it.

        Raises:
            ToolError: the server can't be reached, or has no such tool.
        """
        connection = self.connections[server]
        try:
            await connection.connect()
        except Exception as error:
            raise ToolError(f"the MCP server {server!r} can't be reached: {error}", transient=True) from error
        for found, listed, call in self._named_tools(connection, connection.has("resources")):
            if found == name:
                return listed, call
        raise ToolError(f"the MCP server {server!r} lists no tool any more that is {name} here")

    async def _look_up_and_call(
        self, server: str, listed: ListedTool, arguments: dict[str, Any], context: ToolContext[Any]
    ) -> str:
        try:
            if listed.name == "list_resources":
                found = await asyncio.wrap_future(self.submit(self.resources()))
                return "\n".join(resource_line(one) for one in found if one.server == server) or "there are none"
            parts = await asyncio.wrap_future(self.submit(self.read(server, arguments["uri"])))
        except CogstepError as error:
            raise ToolError(str(error)) from error
        return format_result(parts, self.connections[server].hide, context)

    async def call_from_anywhere(
        self, server: str, listed: ListedTool, arguments: dict[str, Any], context: ToolContext[Any]
    ) -> Any:
        """Carry a call out, from any event loop; cancelling it cancels the call."""
        try:
            work = self.submit(self.call(server, listed, arguments, context))
        except MCPServerError as error:
            raise ToolError(str(error)) from error
        try:
            return await asyncio.wrap_future(work)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():  # else it was the hub that ended it
                raise
            raise ToolError("the MCP servers were closed while the call ran; it may have happened") from None

    @property
    def problems(self) -> tuple[MCPProblem, ...]:
        """The unreachable servers, and the unusable entries of the newest lists."""
        lost = [one for one in self.connections.values() if one.why and one.link is None]
        gone = [MCPProblem(one.server.name, "", f"it can't be reached: {one.why}") for one in lost]
        return (*gone, *self._offering)

    def status(self) -> tuple[ServerStatus, ...]:
        return tuple([ServerStatus(**one.status()) for one in self.connections.values()])

    # ----------------------------------------------------------------------------------------- resources and prompts

    async def _ask(self, server: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if server not in self.connections:
            there = ", ".join(self.connections) or "none"
            raise ConfigError(f"there is no MCP server {server!r}; there are {there}")
        connection = self.connections[server]
        try:
            async with asyncio.timeout(connection.server.timeout):
                link = await connection.connect()
                return await link.request(method, params)
        except TimeoutError as error:
            seconds = connection.server.timeout
            raise MCPServerError(f"the MCP server {server!r} gave no answer within {seconds:g} s", server) from error
        except Exception as error:
            raise MCPServerError(f"the MCP server {server!r}: {connection.hide(str(error))}", server) from error

    async def resources(self) -> tuple[MCPResource, ...]:
        """Return the resources of all reachable servers."""
        found: list[MCPResource] = []
        for method, key, template in (
            ("resources/list", "resources", False),
            ("resources/templates/list", "resourceTemplates", True),
        ):
            for server, items in await self._lists("resources", method, key):
                found += read_resources(server, items, template=template)
        return tuple(found)

    async def prompts(self) -> tuple[MCPPrompt, ...]:
        lists = await self._lists("prompts", "prompts/list", "prompts")
        return tuple([one for server, items in lists for one in read_prompts(server, items)])

    async def _lists(self, kind: str, method: str, key: str) -> list[tuple[str, list[Any]]]:
        async def list_one(connection: Connection) -> tuple[str, list[Any]]:
            try:
                async with asyncio.timeout(connection.server.timeout):
                    link = await connection.connect()
                    items, more = await link.list(method, key) if kind in link.capabilities else ([], False)
            except Exception:
                LOG.warning("the MCP server %s did not list its %s", connection.server.name, kind)
                return connection.server.name, []
            if more:
                LOG.warning("the MCP server %s lists more %s than are read", connection.server.name, kind)
            return connection.server.name, items

        return list(await asyncio.gather(*map(list_one, self.connections.values())))

    async def read(self, server: str, uri: str) -> tuple[Part, ...]:
        contents = (await self._ask(server, "resources/read", {"uri": uri})).get("contents")
        blocks = [one for one in (contents if isinstance(contents, list) else ()) if isinstance(one, dict)]
        return tuple([part for one in blocks for part in resource_parts(one)])

    async def prompt(self, server: str, name: str, arguments: dict[str, str]) -> tuple[Part, ...]:
        """Return the content of a prompt: its messages in order."""
        result = await self._ask(server, "prompts/get", {"name": name, "arguments": arguments})
        messages = result.get("messages")
        found: list[Part] = []
        for message in messages if isinstance(messages, list) else ():
            content = message.get("content") if isinstance(message, dict) else None
            found += parts_of({"content": content if isinstance(content, list) else [content]})
        return tuple(found)


def tool_names(server: str, names: Iterable[str]) -> dict[str, str]:
    """Return the name here for each of a server's own tool names.

    A valid name is unchanged, independent of the other names. In all others, invalid characters become an underscore. A
    name that would be ambiguous or too long ends with a hash of the original name. So no name depends on the order of a
    list.
    """
    plain = {name: f"{PREFIX}.{server}.{name}" for name in names}
    found = {name: full for name, full in plain.items() if NAME.fullmatch(full)}
    changed = {name: STRANGE.sub("_", full) for name, full in plain.items() if name not in found}
    taken = list(changed.values())
    for name, full in changed.items():
        alike = taken.count(full) > 1 or full in found.values() or not STRANGE.sub("", name).strip("._-")
        if alike or len(full) > LONGEST:
            mark = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:MARK]
            full = f"{full[: LONGEST - MARK - 1]}-{mark}"
        found[name] = full
    return found


def make_tool(
    server: MCPServer, listed: ListedTool, name: str, call: Call
) -> tuple[Tool[..., Any] | None, MCPProblem | None]:
    """Return the tool, and a problem if it can't be offered or fully enforced.

    The server's annotations can only add restrictions: ``destructiveHint`` requires approval. Only the user can declare
    a tool read-only or repeatable.
    """
    read_only = matches(listed.name, server.read_only)
    repeatable = read_only or matches(listed.name, server.idempotent)
    asks = listed.is_destructive if server.approval is None else server.approval

    async def function(arguments: dict[str, Any], context: ToolContext[Any]) -> Any:
        return await call(listed, arguments, context)

    def build(parameters: dict[str, Any], left: tuple[LeftOut, ...]) -> tuple[Tool[..., Any], MCPProblem | None]:
        description = listed.description
        if parameters == OPEN and left and len(text := json.dumps(listed.parameters)) <= LONGEST_SCHEMA:
            description = f"{description}\n\nIts parameters, as a JSON Schema: {text}".strip()
        tool = Tool.from_schema(
            name=name,
            description=description,
            parameters=parameters,
            function=function,
            read_only=read_only,
            idempotent=repeatable,
            approval=asks and not read_only,
            retries=RETRIES if repeatable else (),
            output_limit=server.output_limit,
        )
        return tool, _describe_limits(server, listed, left)

    try:
        return build(*_parameters(listed))
    except ConfigError as error:  # it can be checked, and no model can be held to it, as where it goes in a circle
        left = (LeftOut("$", "the schema", str(error)),)
    try:
        return build(dict(OPEN), left)
    except ConfigError as error:
        return None, MCPProblem(server.name, listed.name[:80], str(error))


def _parameters(listed: ListedTool) -> tuple[dict[str, Any], tuple[LeftOut, ...]]:
    parameters = listed.parameters
    if TOO_DEEP in json.dumps(parameters):
        return dict(OPEN), (LeftOut("$", "the schema", "it is nested too deeply"),)
    if parameters.get("type", "object") != "object":
        return dict(OPEN), (LeftOut("$", "type", "parameters are an object"),)
    return repair_schema(parameters)


def _describe_limits(server: MCPServer, listed: ListedTool, left: tuple[LeftOut, ...]) -> MCPProblem | None:
    if not left:
        return None
    more = [f"and {len(left) - MOST_SAID} more"] if len(left) > MOST_SAID else []
    said = f"arguments are not held to all of its schema: {'; '.join([*map(str, left[:MOST_SAID]), *more])}"
    return MCPProblem(server.name, listed.name[:80], said, left_out=False)
