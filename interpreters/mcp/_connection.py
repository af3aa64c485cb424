"""The connection to a server while a program uses it: opened on demand, and reopened after a loss."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import ceil
from time import monotonic
from typing import TYPE_CHECKING, Any

from interpreters.mcp._listing import ListedTool, MCPProblem
from interpreters.mcp._losses import LostError, wait_after
from interpreters.mcp.server_config import Hider, MCPServer

if TYPE_CHECKING:
    from interpreters.mcp._transport_session import TransportSession


class Connection:
    """A reconnecting connection. It belongs to one event loop.

    Args:
        server: the server to connect to.
        changed: called without arguments when the server reports that its lists have changed.
        now: a clock, in seconds.
    """

    def __init__(self, server: MCPServer, changed: Callable[[], object], now: Callable[[], float] = monotonic) -> None:
        self.server = server
        self.hide = Hider(server)
        self.listed: tuple[ListedTool, ...] = ()
        self.problems: tuple[MCPProblem, ...] = ()
        self.why = ""
        """Why it is not connected; empty if it is, or if no connection was requested yet."""
        self._changed = changed
        self._now = now
        self._link: TransportSession | None = None
        self._holder: asyncio.Task[None] | None = None
        self._gate = asyncio.Lock()
        self.rereading = asyncio.Lock()
        """Held while the lists are read again after a change."""
        self._failures = 0
        self._not_before = 0.0
        self._closed = False

    @property
    def link(self) -> TransportSession | None:
        link = self._link
        return None if link is None or link.is_lost else link

    def has(self, capability: str) -> bool:
        """Whether the server reports a capability: ``tools``, ``resources``, ``prompts``."""
        return self.link is not None and capability in self.link.capabilities

    async def connect(self) -> TransportSession:
        """Return the connection; connect first if needed.

        Raises:
            LostError: there is no connection: the attempt failed, or the next attempt is not due.
        """
        async with self._gate:
            if self._closed:
                raise LostError("the servers were closed", sent=False)
            if (link := self.link) is not None:
                return link
            wait = self._not_before - self._now()
            if wait > 0:
                raise LostError(f"{self.why}; it is tried again in {ceil(wait)} s", sent=False)
            await self._drop()
            try:
                async with asyncio.timeout(self.server.connect_timeout):
                    link = await self._open_link()
                    self.listed, self.problems = await link.tools()
            except Exception as error:
                self.why = self.hide(str(error) or type(error).__name__)
                if isinstance(error, TimeoutError):
                    self.why = f"it was not there within {self.server.connect_timeout:g} s"
                self.note_failure()
                await self._drop()
                raise LostError(self.why, sent=False) from error
            self.why = ""
            return link

    def note_failure(self) -> None:
        """Count a failed attempt or a lost call, so that the next attempt may have to wait."""
        self._failures += 1
        self._not_before = self._now() + wait_after(self._failures)

    def note_success(self) -> None:
        """Reset the failures: a call was answered."""
        self._failures = 0

    async def _open_link(self) -> TransportSession:
        made: asyncio.Future[TransportSession] = asyncio.get_running_loop().create_future()
        self._holder = asyncio.create_task(self._hold(made))
        try:
            self._link = link = await made
        except asyncio.CancelledError:
            self._holder.cancel()
            raise
        return link

    async def _hold(self, made: asyncio.Future[TransportSession]) -> None:
        """Keep a connection open in a single task, as the SDK requires, until it is lost or the task is cancelled."""
        from interpreters.mcp._transport_session import open_session

        link: TransportSession | None = None
        try:
            async with open_session(self.server, self.hide, self._changed) as link:
                if not made.done():
                    made.set_result(link)
                watching = asyncio.create_task(link.watch(self._changed))
                try:
                    self.why = await asyncio.shield(link.lost)
                finally:
                    watching.cancel()
                    await asyncio.wait([watching])
        except asyncio.CancelledError:
            if not made.done():
                made.set_exception(LostError("it was given up", sent=False))
            raise
        except Exception as error:
            why = self.hide(str(error) or type(error).__name__)
            if not made.done():
                made.set_exception(error if isinstance(error, LostError) else LostError(why, sent=False))
            elif link is not None and not link.lost.done():
                self.why = why
                link.lost.set_result(why)

    async def _drop(self) -> None:
        holder, self._holder, self._link = self._holder, None, None
        if holder is not None:
            holder.cancel()
            await asyncio.wait([holder])  # not awaited itself: whoever is cancelled here must not go on

    async def refresh(self) -> None:
        """Read the tool list again; raises as ``connect`` and ``TransportSession.tools``."""
        link = await self.connect()
        self.listed, self.problems = await link.tools()

    async def close(self) -> None:
        self._closed = True
        await self._drop()

    def status(self) -> dict[str, Any]:
        """Return the fields of ``ServerStatus``."""
        link = self.link
        return {
            "name": self.server.name,
            "where": self.server.where,
            "tools": len(self.listed),
            "connected": link is not None,
            "protocol": "" if link is None else link.protocol,
            "info": "" if link is None else link.info,
            "instructions": "" if link is None else self.hide(link.instructions),
            "why": "" if link is not None else self.why,
        }
