"""Runtimes under asyncio: one way to await a reply, from blocking and async runtimes alike.

A runtime with a local model delivers its outputs by blocking. ``start_async`` adds a bridge: a thread per reply waits
for outputs and wakes the event loop for each. At most ``ROOM`` outputs are buffered. So a slow reader slows the thread
down, nothing polls, and the loop never blocks.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

from cognition import ModelRequest
from cognition.base.protocols import AttributeProtocolMeta
from runtime.protocol.model import Done, Generation, Runtime
from runtime.threads.workers import WORKERS

if TYPE_CHECKING:
    from cognition.parsing import Output

ROOM = 64
"""Maximum outputs buffered between thread and reader: a few seconds of a fast model, a few kilobytes."""

LOOK_SECONDS = 0.5
"""A thread that waits for room checks this often (seconds) that event loop and reader still exist."""


class AsyncGeneration(Protocol):
    """One reply in progress, awaited. Like ``Generation``, it always ends with exactly one ``Done``."""

    def __aiter__(self) -> AsyncGeneration: ...

    async def __anext__(self) -> Output | Done: ...

    def cancel(self) -> None:
        """Stop as soon as possible; the ``Done`` has the reason ``"cancelled"``. After the end it does nothing."""


@runtime_checkable
class AsyncRuntime(Protocol, metaclass=AttributeProtocolMeta):
    """A runtime that is async natively, such as a remote model or a fake. It needs no thread."""

    def stream(self, request: ModelRequest) -> AsyncGeneration:
        """Start a reply and return immediately. Call it in the event loop.

        Raises:
            RuntimeClosedError: after ``close()``.
        """


def is_async(runtime: Runtime) -> bool:
    """Return whether a runtime is an ``AsyncRuntime``, 100 times faster than the 40 microseconds of ``isinstance``."""
    return callable(getattr(runtime, "stream", None))


def start_async(runtime: Runtime, request: ModelRequest) -> AsyncGeneration:
    """Start a reply of any runtime for the running event loop. Raises the errors of ``submit``."""
    if is_async(runtime):
        generation: AsyncGeneration = cast("AsyncRuntime", runtime).stream(request)
        return generation
    return Bridge(runtime.submit(request))


class Bridge:
    """A blocking reply, awaited. Iterate it in the event loop that created it.

    It is cancelled when garbage collected, for example after its loop was closed early: its thread references only the
    ``_BridgeState``.
    """

    def __init__(self, generation: Generation) -> None:
        self._way = _BridgeState(generation, asyncio.get_running_loop())
        self._ended = False
        WORKERS.run(self._way.pump)

    def __aiter__(self) -> Bridge:
        return self

    async def __anext__(self) -> Output | Done:
        if self._ended:
            raise StopAsyncIteration
        way = self._way
        while not way.arrived:
            way.wake = way.loop.create_future()
            try:
                await way.wake
            except asyncio.CancelledError:
                way.leave()
                way.room.set()
                raise
            finally:
                way.wake = None
        output = way.arrived.popleft()
        if len(way.arrived) == ROOM // 2:
            way.room.set()
        if isinstance(output, BaseException):
            self._ended = True
            raise output
        self._ended = isinstance(output, Done)
        return output

    def cancel(self) -> None:
        self._way.generation.cancel()

    def __del__(self) -> None:
        if not getattr(self, "_ended", True):
            self._way.leave()


class _BridgeState:
    """State shared by a bridge and its thread."""

    def __init__(self, generation: Generation, loop: asyncio.AbstractEventLoop) -> None:
        self.generation = generation
        self.loop = loop
        self.arrived: deque[Output | Done | BaseException] = deque()
        self.wake: asyncio.Future[None] | None = None
        self.room = threading.Event()
        """Set when a thread that waits for room may continue."""
        self._wake_scheduled = False
        """Whether a wake-up of the loop is already scheduled: scheduling is the most expensive part."""
        self._left = False

    def leave(self) -> None:
        """Stop the model and let the thread run out after the reader is gone.

        A garbage collection may call this at any point of other code. So it takes no lock that this thread may already
        hold, such as the lock inside ``room``.
        """
        self._left = True
        self.generation.cancel()

    def pump(self) -> None:
        try:
            for output in self.generation:
                self._hand_over(output)
            self._hand_over(StopAsyncIteration())
        except BaseException as error:  # whatever it is, it is the reader's
            self._hand_over(error)

    def _hand_over(self, output: Output | Done | BaseException) -> None:
        self._wait_for_room()
        self.arrived.append(output)
        if self._wake_scheduled and not self.loop.is_closed():
            return
        self._wake_scheduled = True
        try:
            self.loop.call_soon_threadsafe(self._look)
        except RuntimeError:  # the loop was closed over a reply that nobody awaited to its end
            self.leave()

    def _wait_for_room(self) -> None:
        if len(self.arrived) < ROOM or self._has_unread():
            return
        self.room.clear()
        # Again, now that whoever makes room says so.
        while len(self.arrived) > ROOM // 2 and not (self._has_unread() or self.room.wait(LOOK_SECONDS)):
            pass

    def _has_unread(self) -> bool:
        return self._left or self.loop.is_closed()

    def _look(self) -> None:
        self._wake_scheduled = False  # first: what arrives from here on is told of again
        if self.wake is not None and not self.wake.done():
            self.wake.set_result(None)
