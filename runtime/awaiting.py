"""Runtimes under asyncio: one way to await a reply, whether its runtime blocks or awaits itself.

A runtime that holds a model hands its outputs over by blocking. ``reading`` puts a bridge before it: a thread of the
reply's own waits for outputs and wakes the event loop for each, and at most ``ROOM`` of them lie between the two. So a
reader that is slow holds the thread up, nothing polls, and the loop is never blocked.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

from cognition import ModelRequest
from runtime.protocol import Done, Generation, Runtime
from runtime.workers import WORKERS

if TYPE_CHECKING:
    from cognition.parsing import Output

ROOM = 64
"""The most outputs between the thread and the reader: some seconds of a fast model, some kilobytes."""

LOOK_SECONDS = 0.5
"""How often a thread that waits for room looks whether the event loop and the reader are still there."""


class AsyncGeneration(Protocol):
    """One reply on its way, awaited. As ``Generation``: it ends with exactly one ``Done``, whatever happens."""

    def __aiter__(self) -> AsyncGeneration: ...

    async def __anext__(self) -> Output | Done: ...

    def cancel(self) -> None:
        """Stop as soon as possible; the ``Done`` says ``"cancelled"``. After the end it does nothing."""


@runtime_checkable
class AsyncRuntime(Protocol):
    """A runtime that awaits by itself, such as one that asks a provider, or a fake. It is asked without a thread."""

    def stream(self, request: ModelRequest) -> AsyncGeneration:
        """Start a reply; called in the event loop, returns at once.

        Raises:
            RuntimeClosedError: after ``close()``.
        """


def awaits(runtime: Runtime) -> bool:
    """Whether a runtime is an ``AsyncRuntime``, in a hundredth of the 40 microseconds that ``isinstance`` takes."""
    return callable(getattr(runtime, "stream", None))


def reading(runtime: Runtime, request: ModelRequest) -> AsyncGeneration:
    """A reply of any runtime, for the event loop that runs here; raises what ``submit`` raises."""
    if awaits(runtime):
        generation: AsyncGeneration = cast("AsyncRuntime", runtime).stream(request)
        return generation
    return Bridge(runtime.submit(request))


class Bridge:
    """A blocking reply, awaited. To be iterated in the event loop that made it.

    One that nobody holds any more is cancelled, as where its loop was closed in the middle: its thread holds its way
    alone.
    """

    def __init__(self, generation: Generation) -> None:
        self._way = _Way(generation, asyncio.get_running_loop())
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


class _Way:
    """What a bridge and its thread share."""

    def __init__(self, generation: Generation, loop: asyncio.AbstractEventLoop) -> None:
        self.generation = generation
        self.loop = loop
        self.arrived: deque[Output | Done | BaseException] = deque()
        self.wake: asyncio.Future[None] | None = None
        self.room = threading.Event()
        """Set when a thread that has waited for room may go on."""
        self._told = False
        """Whether the loop will look for what has arrived: to tell it takes longer than all else here."""
        self._left = False
        """Whether nobody reads any more."""

    def leave(self) -> None:
        """Stop the model and let the thread run out, since nobody reads.

        A garbage collection may call it in the middle of anything, so it takes no lock that this thread may hold:
        ``room`` has one.
        """
        self._left = True
        self.generation.cancel()

    def pump(self) -> None:
        """Read the blocking reply, on a thread of its own."""
        try:
            for output in self.generation:
                self._hand_over(output)
            self._hand_over(StopAsyncIteration())
        except BaseException as error:  # whatever it is, it is the reader's
            self._hand_over(error)

    def _hand_over(self, output: Output | Done | BaseException) -> None:
        self._wait_for_room()
        self.arrived.append(output)
        if self._told and not self.loop.is_closed():
            return
        self._told = True
        try:
            self.loop.call_soon_threadsafe(self._look)
        except RuntimeError:  # the loop was closed over a reply that nobody awaited to its end
            self.leave()

    def _wait_for_room(self) -> None:
        """Hold the model up while the reader is ``ROOM`` outputs behind."""
        if len(self.arrived) < ROOM or self._unread():
            return
        self.room.clear()
        # Again, now that whoever makes room says so.
        if len(self.arrived) > ROOM // 2 and not self._unread():
            while not (self.room.wait(LOOK_SECONDS) or self._unread()):
                pass

    def _unread(self) -> bool:
        return self._left or self.loop.is_closed()

    def _look(self) -> None:
        """In the loop: wake the reader, if it waits."""
        self._told = False  # first: what arrives from here on is told of again
        if self.wake is not None and not self.wake.done():
            self.wake.set_result(None)
