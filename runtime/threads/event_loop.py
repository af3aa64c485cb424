"""An event loop on a thread of its own, for coroutines that blocking code runs."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Awaitable
from concurrent.futures import Future, wait
from typing import Any

LOG = logging.getLogger("cogstep")

LOOK = 1.0
"""Seconds between looks at whether the loop still runs."""


class EventLoopThread:
    """An event loop that starts with the first coroutine and lives until ``close``; the next one starts another.

    What a coroutine leaves behind goes on: its tasks, its connections, its locks. Each coroutine runs in a copy of its
    caller's ``contextvars`` context. After a fork, the new process has a loop of its own.
    """

    def __init__(self) -> None:
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._process = 0

    def run(self, work: Awaitable[Any]) -> Any:
        """Run a coroutine on the loop and wait for its result. An exception here, such as Ctrl-C, cancels it.

        Raises:
            RuntimeError: the loop was closed meanwhile.
            BaseException: whatever the coroutine raises.
        """
        return run_on(self._started(), work)

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None or self._process != os.getpid():
                self._loop, self._process = asyncio.new_event_loop(), os.getpid()
                self._thread = threading.Thread(target=_serve, args=(self._loop,), name="cogstep loop", daemon=True)
                self._thread.start()
            return self._loop

    def close(self, seconds: float) -> None:
        """Cancel what still runs, and wait at most ``seconds`` for its end."""
        with self._starting:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None and self._process == os.getpid() and not loop.is_closed():
            loop.call_soon_threadsafe(loop.stop)
            if thread is not threading.current_thread():
                thread.join(seconds)

    def __del__(self) -> None:
        if self._loop is not None:
            self.close(0.0)


def run_on(loop: asyncio.AbstractEventLoop, work: Awaitable[Any]) -> Any:
    """As ``EventLoopThread.run``, on a loop that runs on another thread."""
    answer: Future[tuple[Any, BaseException | None]] = asyncio.run_coroutine_threadsafe(_settled(work), loop)
    try:
        while not wait([answer], LOOK).done:
            if loop.is_closed():
                raise RuntimeError("the event loop of the tools was closed")
        result, error = answer.result()
    except BaseException:
        answer.cancel()
        raise
    if error is not None:
        raise error
    return result


async def _settled(work: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    """Return the result or the exception. An event loop would end at a ``SystemExit`` of a task."""
    try:
        return await work, None
    except BaseException as error:
        return None, error


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    while True:
        try:
            loop.run_forever()
            break
        except BaseException:  # a task in the background has raised SystemExit, say; the others go on
            LOG.exception("a task in the event loop of the tools ended its loop")
    while left := asyncio.all_tasks(loop):
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.wait(left))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
