"""A call on a thread that has ended before whoever awaits it goes on, however often that one is cancelled."""

from __future__ import annotations

import asyncio
import threading

import pytest

from interpreters.tools.offloading import run_to_end


class OfTheCallError(Exception):
    pass


@pytest.mark.parametrize("cancels", [1, 3])
@pytest.mark.parametrize("fails", [False, True])
def test_a_cancellation_waits_for_the_call(cancels: int, fails: bool) -> None:
    """Its error is told by nobody then: the cancellation goes first, and asyncio logs nothing of it."""
    logged: list[object] = []
    ended: list[str] = []

    async def session() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: logged.append(context))
        begun, goes_on = asyncio.Event(), threading.Event()

        def call() -> None:
            loop.call_soon_threadsafe(begun.set)
            goes_on.wait()
            ended.append("call")
            if fails:
                raise OfTheCallError

        task = asyncio.create_task(run_to_end(call))
        await begun.wait()
        for _ in range(cancels):
            task.cancel()
            await asyncio.sleep(0)
            assert not task.done()
        goes_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        ended.append("task")

    asyncio.run(session())
    assert (ended, logged) == (["call", "task"], [])


def test_what_it_returns_or_raises_is_given() -> None:
    def fail() -> None:
        raise OfTheCallError

    async def session() -> int:
        with pytest.raises(OfTheCallError):
            await run_to_end(fail)
        return await run_to_end(lambda: 5)

    assert asyncio.run(session()) == 5


def test_who_cancels_itself_is_told_behind_the_call() -> None:
    ended: list[int] = []

    async def session() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await run_to_end(lambda: ended.append(1))

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(session())
    assert ended == [1]
