"""One server for as long as a program wants it: connected when it is needed, and again after it was lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from math import ceil
from time import monotonic
from typing import TYPE_CHECKING, Any

from interpreters.mcp.backoff import wait_after
from interpreters.mcp.hiding import Hider
from interpreters.mcp.listing import ListedTool, MCPProblem
from interpreters.mcp.servers import MCPServer

if TYPE_CHECKING:
    from interpreters.mcp.link import Link


class Connection:
    """Belongs to one event loop.

    Args:
        server: whom to connect to.
        changed: called with no argument where the server says that its lists are others now.
        now: a clock, in seconds.
    """

    def __init__(self, server: MCPServer, changed: Callable[[], object], now: Callable[[], float] = monotonic) -> None:
        self.server = server
        self.hide = Hider(server)
        self.listed: tuple[ListedTool, ...] = ()
        """The tools of the newest list."""
        self.problems: tuple[MCPProblem, ...] = ()
        self.why = ""
        """Why it is not connected; empty where it is, or was not wanted yet."""
        self._changed = changed
        self._now = now
        self._link: Link | None = None
        self._holder: asyncio.Task[None] | None = None
        self._gate = asyncio.Lock()
        self.rereading = asyncio.Lock()
        """Held by who reads the lists anew because they have changed."""
        self._failures = 0
        self._not_before = 0.0
        self._closed = False

    @property
    def link(self) -> Link | None:
        """The connection, if there is one."""
        link = self._link
        return None if link is None or link.is_lost else link

    def has(self, capability: str) -> bool:
        """Whether the server says that it has something: ``tools``, ``resources``, ``prompts``."""
        return self.link is not None and capability in self.link.capabilities

    async def connected(self) -> Link:
        """The connection; made now if there is none.

        Raises:
            LostError: there is none to be had: the attempt failed, or the next one is not due.
        """
        from interpreters.mcp.link import LostError

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
                    link = await self._connect()
                    self.listed, self.problems = await link.tools()
            except TimeoutError:
                raise await self._failed(f"it was not there within {self.server.connect_timeout:g} s") from None
            except Exception as error:
                raise await self._failed(self.hide(str(error) or type(error).__name__)) from error
            self.why = ""
            return link

    async def _failed(self, why: str) -> Exception:
        from interpreters.mcp.link import LostError

        self.why = why
        self.note_failure()
        await self._drop()
        return LostError(why, sent=False)

    def note_failure(self) -> None:
        """Count an attempt or a call that a loss ended, so that the next attempt may have to wait."""
        self._failures += 1
        self._not_before = self._now() + wait_after(self._failures)

    def note_success(self) -> None:
        """A call was answered: whatever was before is over."""
        self._failures = 0

    async def _connect(self) -> Link:
        made: asyncio.Future[Link] = asyncio.get_running_loop().create_future()
        self._holder = asyncio.create_task(self._hold(made))
        try:
            self._link = link = await made
        except asyncio.CancelledError:
            self._holder.cancel()
            raise
        return link

    async def _hold(self, made: asyncio.Future[Link]) -> None:
        """Keep a connection open in one task, as the SDK wants it, until it is lost or the task is cancelled."""
        from interpreters.mcp.link import LostError, open_link

        link: Link | None = None
        try:
            async with open_link(self.server, self.hide, self._changed) as link:
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
        """Read the list of tools anew; raises as ``connected`` and ``Link.tools``."""
        link = await self.connected()
        self.listed, self.problems = await link.tools()

    async def close(self) -> None:
        """End it for good."""
        self._closed = True
        await self._drop()

    def status(self) -> Mapping[str, Any]:
        """What is known of it, for people."""
        link = self.link
        return {
            "connected": link is not None,
            "protocol": "" if link is None else link.protocol,
            "info": "" if link is None else link.info,
            "instructions": "" if link is None else self.hide(link.instructions),
            "why": "" if link is not None else self.why,
        }
