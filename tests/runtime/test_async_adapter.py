"""A blocking reply under asyncio: whole, in order, never far ahead of its reader, and cancelled when nobody reads."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator

import pytest

from cognition import ModelRequest, Usage
from cognition.parsing import Output, TextDelta
from runtime.async_adapter import ROOM, Bridge, start_async
from runtime.protocol.model import Done, Timings
from runtime.threads.workers import Workers
from tests.runtime.asking import ask

PATIENCE = 20.0
"""Seconds after which a test that waits in vain fails."""


class Counting:
    """A reply of so many pieces, which blocks for ``pauses`` between them."""

    def __init__(self, pieces: int, pauses: Iterable[float] = ()) -> None:
        self.pieces = pieces
        self.pauses = iter(pauses)
        self.given = 0
        self.cancelled = threading.Event()

    def __iter__(self) -> Iterator[Output | Done]:
        for number in range(self.pieces):
            if self.cancelled.wait(next(self.pauses, 0.0)):
                break
            self.given += 1
            yield TextDelta(str(number))
        yield Done("", "", (), (), "cancelled" if self.cancelled.is_set() else "stop", Usage(), Timings())

    def cancel(self) -> None:
        self.cancelled.set()


class Runtime:
    """Gives one reply."""

    def __init__(self, reply: Counting) -> None:
        self.reply = reply

    def submit(self, request: ModelRequest) -> Counting:
        return self.reply


def bridge(reply: Counting) -> Bridge:
    made = start_async(Runtime(reply), ask())  # type: ignore[arg-type]  # all that is used of one
    assert isinstance(made, Bridge)
    return made


def pauses(seed: int) -> Iterator[float]:
    """Seconds: mostly none, now and then some that let the other side go ahead."""
    chance = random.Random(seed)
    while True:
        yield chance.choice((0.0,) * 8 + (0.0001, 0.001))


@pytest.mark.parametrize("seed", range(6))
def test_all_comes_in_order_whoever_is_slow(seed: int) -> None:
    reply = Counting(5 * ROOM, pauses(seed) if seed % 2 else ())
    slow = pauses(seed + 100) if seed % 3 else iter([])

    async def read() -> list[Output | Done]:
        outputs = []
        async for output in bridge(reply):
            outputs.append(output)
            await asyncio.sleep(next(slow, 0.0))
        return outputs

    *outputs, done = asyncio.run(asyncio.wait_for(read(), PATIENCE))

    assert outputs == [TextDelta(str(number)) for number in range(5 * ROOM)]
    assert isinstance(done, Done)
    assert done.finish_reason == "stop"


def test_the_model_is_held_up_by_a_reader_that_is_behind() -> None:
    reply = Counting(10 * ROOM)

    async def read() -> None:
        number = 0
        async for output in bridge(reply):
            assert reply.given <= number + ROOM + 2, "one at the reader, one at the thread"
            number += isinstance(output, TextDelta)
            if number % ROOM == 1:
                await asyncio.sleep(0.02)

    asyncio.run(asyncio.wait_for(read(), PATIENCE))

    assert reply.given == 10 * ROOM


def test_a_loop_that_is_gone_cancels_the_reply() -> None:
    """Also where the thread waits for room, which nobody makes any more."""
    replies = [Counting(10 * ROOM), Counting(4, [0.0, 0.2])]

    async def begin() -> list[Bridge]:
        made = [bridge(reply) for reply in replies]
        for one in made:
            await anext(aiter(one))
        return made

    left = asyncio.run(begin())

    assert [reply.cancelled.wait(PATIENCE) for reply in replies] == [True, True]
    assert len(left) == 2


def test_a_reader_that_is_cancelled_cancels_the_reply() -> None:
    reply = Counting(2, [0.0, PATIENCE])

    async def read() -> None:
        async for _ in bridge(reply):
            pass

    async def leave() -> None:
        task = asyncio.create_task(read())
        while not reply.given:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(leave(), PATIENCE))

    assert reply.cancelled.wait(PATIENCE)


def test_replies_one_after_another_share_a_thread() -> None:
    """To start one for each takes longer than all else that a short reply costs."""
    names = set[int]()

    class Named(Counting):
        def __iter__(self) -> Iterator[Output | Done]:
            names.add(threading.get_ident())
            return super().__iter__()

    async def read() -> None:
        for _ in range(20):
            async for _ in bridge(Named(1)):
                pass
            await asyncio.to_thread(time.sleep, 0.002)  # by then the thread is idle

    asyncio.run(asyncio.wait_for(read(), PATIENCE))

    assert len(names) < 20


@pytest.mark.parametrize("pieces", [2, 10 * ROOM])
def test_a_reply_that_nobody_holds_is_cancelled(pieces: int) -> None:
    """Its thread, which waits for the model or for room, does not keep it."""
    reply = Counting(pieces, [0.0, PATIENCE] if pieces == 2 else ())

    async def read() -> bool:
        async for _ in bridge(reply):
            break
        return await asyncio.to_thread(reply.cancelled.wait, PATIENCE)

    assert asyncio.run(read())


def test_what_is_left_to_others_for_a_moment_is_done_once() -> None:
    """By whoever takes it, or by a thread; also after a while, when the one that watched has ended."""
    done = list[int]()
    workers = Workers()

    def leave(number: int) -> list[int]:
        untaken = [number]

        def work() -> None:
            with contextlib.suppress(IndexError):
                done.append(untaken.pop())

        workers.run_unless_taken(untaken, work)
        return untaken

    for number in range(200):
        untaken = leave(number)
        if number % 3:
            with contextlib.suppress(IndexError):
                done.append(untaken.pop())
        if number % 50 == 49:
            until(lambda: not workers._watching)

    until(lambda: len(done) == 200)
    assert sorted(done) == list(range(200))


def until(true: Callable[[], bool]) -> None:
    due = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < due
        time.sleep(0.001)
