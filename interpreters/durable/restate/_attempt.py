"""The connection of an attempt of an invocation, optimised for a step that runs alone.

    the SDK   ── a step begins ───▶  held back
    the step's work
    the SDK   ── what it gave ────▶  both, as one message
    what may be done meanwhile
    the SDK  ◀── it is kept ───────  the server

The SDK sends the two messages separately. If the work takes no time, the server stores them together in two thirds of
the time (0.9 ms instead of 1.3 ms on two cores). So the first message is sent alone only if the work waits for
something; until then the server does not need it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from restate.server_context import ServerInvocationContext


class Line:
    """A filter between a context of the SDK and its connection, in both directions.

    Args:
        context: its ``send`` and ``receive`` are replaced.
    """

    def __init__(self, context: ServerInvocationContext) -> None:
        replaced: Any = context
        self._send, self._channel = context.send, context.receive
        replaced.send, replaced.receive = self.send, self
        self._holds = False
        self._held = b""
        self._gave = False
        self._meanwhile: Callable[[], None] | None = None

    def begin(self, meanwhile: Callable[[], None] | None) -> None:
        """Start a step that runs alone.

        Args:
            meanwhile: called once the work's result is written to the connection.
        """
        self._holds, self._gave, self._meanwhile = True, False, meanwhile

    def gave(self) -> None:
        """Mark the step's work as done; its result is sent next."""
        self._gave = True

    def end(self) -> None:
        self._holds, self._meanwhile = False, None

    async def send(self, message: Any) -> None:
        """Replaces the SDK's ``send``."""
        if self._holds:
            self._held += message["body"]
            return
        if self._held:
            message = {**message, "body": self._held + message["body"]}
            self._held = b""
        await self._send(message)

    async def __call__(self) -> Any:
        """Replaces the SDK's ``receive``, called when it has sent everything."""
        if self._holds:
            await asyncio.sleep(0)  # the work begins, in a task of the SDK's
            self._holds = False
            if self._held and not self._gave:
                await self.send({"type": "http.response.body", "body": b"", "more_body": True})
        elif self._gave and self._meanwhile is not None:
            meanwhile, self._meanwhile = self._meanwhile, None
            await asyncio.sleep(0)  # the task that writes for all streams of the connection has been woken
            meanwhile()
        return await self._channel()

    async def enqueue_restate_event(self, what: Any) -> None:
        await self._channel.enqueue_restate_event(what)

    async def block_until_http_input_closed(self) -> None:
        await self._channel.block_until_http_input_closed()
