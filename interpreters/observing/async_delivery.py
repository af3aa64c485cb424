"""Deliver events to observers in an event loop; see ``_delivery``."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import Any

from interpreters.observing._delivery import PATIENCE, Delivery, TooSlowError
from interpreters.observing.events import Event, Observer


class Tasks:
    """Calls ``async def`` observers. Each has a task while its queue contains events."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, delivery: Delivery) -> None:
        """Start a task that delivers an observer's events."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # something happened between two runs: it is told in the next one
            delivery.note_not_started()
            return
        task = loop.create_task(_work(delivery))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Cancel the running tasks and await their end."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


async def _work(delivery: Delivery) -> None:
    if not delivery.try_deliver():
        return
    while (found := delivery.next()) is not None:
        event, context = found
        try:
            if context is None:
                await _call(delivery.observer, event)
            else:
                await asyncio.get_running_loop().create_task(_call(delivery.observer, event), context=context)
        except asyncio.CancelledError:
            delivery.fail(event, TooSlowError("the session had ended"))
            raise
        except Exception as error:  # whatever it is, it is the observer's
            delivery.fail(event, error)


async def _call(observer: Observer, event: Event) -> None:
    answer: Any = observer(event)
    await answer


async def await_all(deliveries: Iterable[Delivery]) -> None:
    """``_delivery.wait_for`` under asyncio."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE
    for delivery in deliveries:
        idle: asyncio.Future[None] = loop.create_future()
        if delivery.when_idle(partial(_settle_from_anywhere, loop, idle)):
            await asyncio.wait([idle], timeout=max(0.0, deadline - loop.time()))
            if not idle.done():
                idle.cancel()
                delivery.note_late()


def _settle_from_anywhere(loop: asyncio.AbstractEventLoop, idle: asyncio.Future[None]) -> None:
    try:
        loop.call_soon_threadsafe(_settle, idle)
    except RuntimeError:  # the loop was closed over an observer that nobody waits for any more
        return


def _settle(idle: asyncio.Future[None]) -> None:
    if not idle.done():
        idle.set_result(None)
