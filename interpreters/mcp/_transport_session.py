"""A single connection to a server through the SDK, until it is lost. ``connection`` reconnects.

Our own code takes the raw lists and results from the dispatcher and parses them. The SDK would reject a whole list of
tools for one invalid entry, and the result of a completed call for one invalid block.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from contextvars import ContextVar
from typing import Any

import anyio
import mcp.types as types
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost, listen
from mcp.shared.dispatcher import CallOptions, ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.types import CONNECTION_CLOSED, INVALID_REQUEST, PARSE_ERROR, REQUEST_TIMEOUT, Implementation

from interpreters.mcp import _http_transport as web
from interpreters.mcp._json_limits import LONGEST_MESSAGE
from interpreters.mcp._listing import ListedTool, MCPProblem, read_tools
from interpreters.mcp._losses import LONGEST, LostError, RequestRefusedError
from interpreters.mcp._stdio_transport import LINGER, ServerProcess, UnstartableError, transport
from interpreters.mcp.server_config import Hider, MCPServer
from interpreters.tools.failures import describe

for _name in ("mcp", "client"):  # else Python would print what the SDK logs of strangers' mistakes where nobody listens
    logging.getLogger(_name).addHandler(logging.NullHandler())

METHODS: Mapping[str, tuple[Any, Any, dict[str, Any]]] = {
    "tools/list": (types.ListToolsRequest, types.ListToolsResult, {"tools": []}),
    "tools/call": (types.CallToolRequest, types.CallToolResult, {"content": []}),
    "resources/list": (types.ListResourcesRequest, types.ListResourcesResult, {"resources": []}),
    "resources/templates/list": (
        types.ListResourceTemplatesRequest,
        types.ListResourceTemplatesResult,
        {"resourceTemplates": []},
    ),
    "resources/read": (types.ReadResourceRequest, types.ReadResourceResult, {"contents": []}),
    "prompts/list": (types.ListPromptsRequest, types.ListPromptsResult, {"prompts": []}),
    "prompts/get": (types.GetPromptRequest, types.GetPromptResult, {"messages": []}),
}
"""For each method the SDK's types of its request and result, and a placeholder for the result, which we parse
ourselves.
"""

MODERN: Mapping[str, Any] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
"""Further fields that the SDK requires since protocol 2026-07-28."""

CLOSED = "Connection closed"
"""The SDK's error message for a closed connection."""

CUT_OFF = "SSE stream ended"
"""The start of its message for a truncated HTTP answer, which has the same error code as a closed connection."""

MOST_PAGES = 100
"""Maximum pages requested of a list: an endless list must not block the program."""

RAW: ContextVar[dict[str, Any]] = ContextVar("raw")


class _Dispatcher(JSONRPCDispatcher[Any]):
    """Stores each raw result for the caller, and passes the SDK a placeholder that it accepts."""

    def __init__(self, *streams: Any, server: MCPServer) -> None:
        super().__init__(*streams)
        self._server = server

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None, **more: Any
    ) -> dict[str, Any]:
        raw = await super().send_raw_request(method, params, opts, **more)
        if (kept := RAW.get(None)) is None:
            return raw
        kept.update(raw)
        if method == "tools/list":
            tools, _ = read_tools(self._server, raw.get("tools"))
            return {"tools": [tool.as_sent() for tool in tools], **MODERN}
        return {**METHODS[method][2], **MODERN} if method in METHODS else raw


class TransportSession:
    """An open connection. Call its methods only in the event loop that opened it."""

    def __init__(self, server: MCPServer, session: ClientSession, hide: Hider, child: ServerProcess | None) -> None:
        self._server = server
        self._session = session
        self._hide = hide
        self._child = child
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        capabilities = session.server_capabilities
        self.capabilities: Mapping[str, Any] = (
            {} if capabilities is None else capabilities.model_dump(mode="json", exclude_none=True)
        )
        self.protocol = session.protocol_version or ""
        info = session.server_info
        self.info = "" if info is None else f"{info.name} {info.version}".strip()
        self.instructions = session.instructions or ""

    @property
    def is_lost(self) -> bool:
        """Whether no data can arrive any more. The reason in ``lost`` follows a moment later."""
        return self.lost.done() or (self._child is not None and self._child.quiet.is_set())

    async def request(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        meta: Mapping[str, Any] | None = None,
        progress: ProgressFnT | None = None,
    ) -> dict[str, Any]:
        """Send a request and return its raw result. Cancelling it notifies the server.

        Raises:
            LostError: the connection was lost, before or after it was sent.
            RefusedError: the server answered with an error.
        """
        if self.is_lost:
            raise LostError(await self._why(), sent=False)
        kept: dict[str, Any] = {}
        request, result, _ = METHODS[method]
        given = {**params, **({"_meta": dict(meta)} if meta else {})}
        token = RAW.set(kept)
        try:
            made = request.model_validate({"method": method, "params": given}, by_name=False, by_alias=True)
            await self._session.send_request(made, result, progress_callback=progress)
        except MCPError as error:
            raise await self._failure(error) from error
        except (anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            raise LostError(await self._why(), sent=True) from error
        finally:
            RAW.reset(token)
        return kept

    async def _failure(self, error: MCPError) -> Exception:
        data = error.data if isinstance(error.data, dict) else {}
        said = self._hide(error.message[:1000])
        fate, status = data.get(web.KEY), data.get("status")
        if fate == web.REFUSED:
            barred = "; look at its headers, or whether the key is right" if status in (401, 403) else ""
            return RequestRefusedError(f"{said}{barred}", code=error.code, transient=status in web.BUSY)
        if fate is not None:
            return LostError(said, sent=fate != web.NOT_SENT)
        # Many live servers have chosen this code for themselves: it is the first one that servers may choose.
        if error.code == CONNECTION_CLOSED and (
            self.is_lost or error.message == CLOSED or error.message.startswith(CUT_OFF)
        ):
            return LostError(await self._why(said), sent=True)
        if error.code == PARSE_ERROR:
            return LostError("its answer can't be read", sent=True)
        if error.code == REQUEST_TIMEOUT:
            return LostError("it did not answer in time", sent=True)
        if error.code == INVALID_REQUEST and said == "Session terminated":  # an older server that was started anew
            self.lose(said)
            return LostError("it has forgotten this session", sent=False)
        return RequestRefusedError(said or "it gave no reason", code=error.code)

    async def _why(self, otherwise: str = "the connection was closed") -> str:
        """Return why the connection was lost; for a process this is known a moment later."""
        if self._child is not None:
            with suppress(TimeoutError):
                return await asyncio.wait_for(asyncio.shield(self.lost), 2.0)
        return otherwise

    def lose(self, why: str) -> None:
        """Mark the connection as lost. The first reason counts."""
        if not self.lost.done():
            self.lost.set_result(why)

    async def list(self, method: str, key: str) -> tuple[list[Any], bool]:
        """Return all entries of a list, page by page, and whether there are further pages that were not read.

        Raises:
            LostError, RefusedError: as ``request``.
        """
        found: list[Any] = []
        cursors = [""]
        for _ in range(MOST_PAGES):
            result = await self.request(method, {"cursor": cursors[-1]} if cursors[-1] else {})
            items = result.get(key)
            found += items if isinstance(items, list) else [items]  # what can't be read is told by who reads it
            cursor = result.get("nextCursor")
            if not isinstance(cursor, str) or cursor in cursors:
                return found, False
            cursors.append(cursor)
        return found, True

    async def tools(self) -> tuple[tuple[ListedTool, ...], tuple[MCPProblem, ...]]:
        """Return the usable tools of the server's list, and the problems of the list; raises as ``list``."""
        if "tools" not in self.capabilities:
            return (), ()
        items, more = await self.list("tools/list", "tools")
        tools, problems = read_tools(self._server, items)
        if more:
            said = f"its list of tools has more than {MOST_PAGES} pages, of which the first {MOST_PAGES} are read"
            problems += (MCPProblem(self._server.name, "", said),)
        return tools, problems

    async def watch(self, changed: Callable[[], object]) -> None:
        """Call ``changed`` whenever the server reports changed lists, in the protocol since 2026-07-28.

        Older servers send notifications instead, which ``open_session`` handles.
        """
        wait = 1.0
        while not self.lost.done():
            try:
                async with listen(
                    self._session, tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True
                ) as subscription:
                    wait = 1.0
                    async for _ in subscription:
                        changed()
                return  # the server has ended it, and has nothing more to tell
            except SubscriptionLost:
                changed()  # what was told meanwhile nobody heard
                await asyncio.sleep(wait)
                wait = min(2 * wait, LONGEST)
            except (ListenNotSupportedError, MCPError, TimeoutError):
                return  # it tells nothing, or is not there any more


LISTS_CHANGED = (
    types.ToolListChangedNotification,
    types.ResourceListChangedNotification,
    types.PromptListChangedNotification,
)


@asynccontextmanager
async def open_session(
    server: MCPServer, hide: Hider, changed: Callable[[], object]
) -> AsyncIterator[TransportSession]:
    """Open a connection for the duration of the block. It may be lost before: see ``lost``.

    Raises:
        LostError: the server can't be reached or started, or has no protocol version in common with the SDK; never
            ``sent``.
    """

    async def receive(message: Any) -> None:
        if isinstance(message, LISTS_CHANGED):
            changed()

    child: ServerProcess | None = None
    try:
        async with AsyncExitStack() as stack:
            if server.url:
                client = await stack.enter_async_context(web.client_for(server))
                streams: Any = await stack.enter_async_context(
                    streamable_http_client(server.url, http_client=client, max_sse_event_size=LONGEST_MESSAGE)
                )
            else:
                child = await ServerProcess.start(server, hide)
                stack.push_async_callback(child.end)
                streams = await stack.enter_async_context(transport(child))
            dispatcher = _Dispatcher(*streams, server=server)
            ours = Implementation(name="cogstep", version="")
            session = ClientSession(dispatcher=dispatcher, message_handler=receive, client_info=ours)
            await stack.enter_async_context(session)
            try:
                await session.discover()
            except (MCPError, RuntimeError, ValueError):  # an older server, with none of our versions, or an odd answer
                await session.initialize()
            link = TransportSession(server, session, hide, child)
            noticing = asyncio.create_task(_notice_end(link, child))
            try:
                yield link
            finally:
                noticing.cancel()
    except Exception as error:
        reason: BaseException = error
        while isinstance(reason, BaseExceptionGroup):  # the SDK's task groups wrap whatever passes through them
            reason = reason.exceptions[0]
        if isinstance(reason, UnstartableError):
            raise LostError(hide(str(reason)), sent=False) from error
        raise LostError(_explain_failure(reason, child, hide), sent=False) from error


async def _notice_end(link: TransportSession, child: ServerProcess | None) -> None:
    if child is not None:
        await child.quiet.wait()
        with suppress(TimeoutError):  # for how it ended, and for its last words
            await asyncio.wait_for(child.ended.wait(), LINGER)
            await asyncio.sleep(LINGER / 4)
        link.lose(child.exit_description or "it has closed its output")


def _explain_failure(reason: BaseException, child: ServerProcess | None, hide: Hider) -> str:
    """Return why no connection was opened. If the server has answered, use its own message, since then we ended its
    process.
    """
    match reason:
        case MCPError(code=types.PARSE_ERROR):
            said = "its answer to the first request can't be read"
        case MCPError() if child is None or reason.message != CLOSED:
            said = hide(reason.message[:1000]) or "it refused, and gave no reason"
        case RuntimeError() if child is not None:  # there is no version of the protocol that both speak
            said = hide(describe(reason))
        case ValueError() if child is not None:
            said = "its answer to the first request can't be read"
        case _:
            return (child.exit_description if child is not None else "") or hide(describe(reason))
    return said if child is None else f"{said}{child.last_words}"
