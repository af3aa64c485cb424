"""``MCPServers`` and ``AsyncMCPServers``: connections of a program to many servers.

with MCPServers([MCPServer("files", command="some-server")]) as servers, Agent(model, servers.tools()) as agent:
    ...
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Self, TypeVar

from cognition import ConfigError, ToolSpec
from cognition.values.content import Image, TextPart
from interpreters.mcp._listing import MCPProblem, MCPPrompt, MCPResource
from interpreters.mcp.manager import CLOSING_SECONDS, LOG, ServerManager, ServerStatus
from interpreters.mcp.server_config import MCPServer, read_servers
from interpreters.tools.tool import Tool

Result = TypeVar("Result")

Contents = list[str | Image]
"""The content of a user message, as accepted by ``agent.run``."""


class _Servers:
    """Connects to all servers and offers their tools.

    Args:
        servers: each with a unique name; or the file that lists them (see ``read_servers``).
        on_change: called with a server's name, on a separate thread, when it reports that its tools have changed. Tools
            that an agent already has stay unchanged; ``tools()`` returns the new ones.

    Raises:
        ConfigError: two have the same name, the file can't be read, or the extra ``mcp`` is not installed.
    """

    def __init__(
        self, servers: Iterable[MCPServer] | str | os.PathLike[str], on_change: Callable[[str], object] | None = None
    ) -> None:
        given = read_servers(servers) if isinstance(servers, str | os.PathLike) else tuple(servers)
        for one in given:
            if not isinstance(one, MCPServer):
                raise ConfigError(f"servers must be MCPServer values, and {type(one).__name__} is among them")
        self._hub = ServerManager(given, on_change)

    def tools(self, recorded: Iterable[ToolSpec] = (), *, resources: bool = False) -> tuple[Tool[..., Any], ...]:
        """Return the tools of all servers, for an agent. Tools that can't be offered are logged and listed in
        ``problems``.

        Args:
            resources: whether the model may read the servers' resources: adds ``mcp.SERVER.list_resources`` and
                ``read_resource`` for each server that has resources.
            recorded: for a resumed session: the tools of its recording. The result then has exactly their MCP
                specifications, even if a server has changed them or is unreachable.
        """
        return self._hub.tools(recorded, resources=resources)

    @property
    def problems(self) -> tuple[MCPProblem, ...]:
        """The unreachable servers, and the tools that the newest ``tools()`` omitted or can't fully enforce."""
        return self._hub.problems

    @property
    def changed(self) -> frozenset[str]:
        """The servers that have changed their tools since the newest ``tools()``."""
        return frozenset(self._hub.changed)

    def status(self) -> tuple[ServerStatus, ...]:
        """Return the status of each server."""
        return self._hub.status()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {', '.join(server.name for server in self._hub.servers)}>"


class MCPServers(_Servers):
    __doc__ = f"""Servers of tools, from ``with`` to its end. {_Servers.__doc__}"""

    def _wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        asked = self._hub.submit(work)
        try:
            return asked.result()
        except BaseException:
            asked.cancel()
            raise

    def __enter__(self) -> Self:
        """Connect to all servers concurrently.

        Raises:
            MCPServerError: a server that is not ``optional`` can't be reached.
        """
        self._hub.open()
        try:
            self._wait(self._hub.connect())
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End all connections and started programs. A second call does nothing."""
        _close(self._hub)

    def refresh(self) -> None:
        """Request the tool lists of all servers again, for ``tools()``."""
        self._wait(self._hub.refresh())

    def resources(self) -> tuple[MCPResource, ...]:
        """Return the readable resources of the servers, including URI templates."""
        return self._wait(self._hub.resources())

    def read_resource(self, server: str, uri: str) -> Contents:
        """Return the content of a resource: texts and images, for ``agent.run``.

        Raises:
            MCPServerError: the server can't be reached, or refuses.
            ConfigError: there is no such server.
        """
        return _contents(self._wait(self._hub.read(server, uri)))

    def prompts(self) -> tuple[MCPPrompt, ...]:
        """Return the prompts that the servers offer to their user."""
        return self._wait(self._hub.prompts())

    def prompt(self, server: str, name: str, arguments: Mapping[str, str] | None = None) -> Contents:
        """Return the content of a prompt, for ``agent.run``; raises as ``read_resource``."""
        return _contents(self._wait(self._hub.prompt(server, name, dict(arguments or {}))))


class AsyncMCPServers(_Servers):
    __doc__ = f"""Servers of tools, from ``async with`` to its end. {_Servers.__doc__}"""

    async def _wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        return await asyncio.wrap_future(self._hub.submit(work))

    async def __aenter__(self) -> Self:
        """As ``MCPServers``."""
        self._hub.open()
        try:
            await self._wait(self._hub.connect())
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """As ``MCPServers.close``."""
        closing = asyncio.ensure_future(asyncio.to_thread(_close, self._hub))
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:  # what was begun is ended nevertheless: a process must not be left behind
            await asyncio.wait([closing])
            raise

    async def refresh(self) -> None:
        """As ``MCPServers.refresh``."""
        await self._wait(self._hub.refresh())

    async def resources(self) -> tuple[MCPResource, ...]:
        """As ``MCPServers.resources``."""
        return await self._wait(self._hub.resources())

    async def read_resource(self, server: str, uri: str) -> Contents:
        """As ``MCPServers.read_resource``."""
        return _contents(await self._wait(self._hub.read(server, uri)))

    async def prompts(self) -> tuple[MCPPrompt, ...]:
        """As ``MCPServers.prompts``."""
        return await self._wait(self._hub.prompts())

    async def prompt(self, server: str, name: str, arguments: Mapping[str, str] | None = None) -> Contents:
        """As ``MCPServers.prompt``."""
        return _contents(await self._wait(self._hub.prompt(server, name, dict(arguments or {}))))


def _close(hub: ServerManager) -> None:
    """End all connections and the loop. A server that takes too long to end raises no error."""
    try:
        if hub.is_open:
            hub.submit(hub.close()).result(CLOSING_SECONDS)
    except TimeoutError:
        LOG.warning("not all MCP servers ended within %g s", CLOSING_SECONDS)
    finally:
        hub.stop()


def _contents(parts: Iterable[TextPart | Image]) -> Contents:
    return [part.text if isinstance(part, TextPart) else part for part in parts]
