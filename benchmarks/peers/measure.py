"""The child process of one row: measures one peer when it is told to, and is quiet in between.

It reads one JSON object a line, ``{"length": 100, "turns": 5}``, and answers each with one: the history that was really
there, and for each timed turn the milliseconds of process CPU and of the wall clock. To ``{"idle": 1000}`` it answers
with the bytes of each of so many conversations that are kept.

    python -m benchmarks.peers.measure benchmarks.peers.floor peer pydantic-ai-slim
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import importlib.metadata
import inspect
import json
import os
import sys
import tracemalloc
import warnings
from collections.abc import Coroutine
from math import inf
from statistics import median
from time import perf_counter, process_time
from typing import Any

from benchmarks.peers.protocol import ANSWER, Peer, question

WALK_SECONDS = 20.0
"""A peer whose history can't be seeded takes every turn of it; after so long it is measured where it has got to."""
WARM_TURNS = 3
"""Turns just before the timed ones, part of the history: they warm up what a new history has made cold."""
WARM_SECONDS = 0.02
"""How long turns are taken in another conversation first: the process has slept while the others had their round."""
TIMED_SECONDS = 0.01
"""How long turns are timed in a round, so that fast ones don't hang on one moment of a busy machine. A history may grow
by a tenth meanwhile; then another conversation is begun."""
CONVERSATIONS = 20


class Measure:
    """Measures one peer; its conversation is made anew for each request."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.waits = inspect.iscoroutinefunction(peer.turn)
        self.overhead = self._overhead()

    async def batch(self, length: int, turns: int) -> dict[str, Any]:
        """At least so many timed turns on histories of ``length`` turns; more of them where they are fast."""
        await self._warm_up()
        gc.collect()
        samples: list[tuple[float, float]] = []
        timed, reached = 0.0, 0
        for _ in range(CONVERSATIONS):
            reached = await self._begin_at(length)
            for number in range(max(turns, length // 10)):
                samples.append(await self._turn(reached + number))
                timed += samples[-1][1]
                if timed > TIMED_SECONDS and number + 1 >= turns:
                    break
            if timed > TIMED_SECONDS or reached < length:
                break
        cpu, wall = self.overhead
        return {
            "length": reached,
            "cpu": [1000 * max(sample[0] - cpu, 0.0) for sample in samples],
            "wall": [1000 * max(sample[1] - wall, 0.0) for sample in samples],
        }

    async def idle(self, count: int) -> dict[str, Any]:
        """Bytes of each of so many conversations that have taken one turn and are all kept, or of as many as in time.

        What they share was there before the first of them is counted. ``tracemalloc`` counts what Python allocates.
        """
        await self._warm_up()
        kept: list[object] = []
        gc.collect()
        tracemalloc.start()
        try:
            await self._keep(kept, 1, WALK_SECONDS)
            gc.collect()
            before = tracemalloc.get_traced_memory()[0]
            await self._keep(kept, count, WALK_SECONDS)
            gc.collect()
            after = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        return {"count": len(kept), "bytes": (after - before) / (len(kept) - 1)}

    async def _keep(self, kept: list[object], more: int, seconds: float) -> None:
        end = perf_counter() + seconds
        for number in range(more):
            if number and perf_counter() > end:
                break
            self.peer.begin()
            await self._turn(0)
            keep = getattr(self.peer, "keep", None)
            kept.append(keep() if keep else list(vars(self.peer).values()))  # ``begin`` makes those that differ anew

    async def _warm_up(self) -> None:
        self.peer.begin()
        await self._walk(0, WARM_TURNS, None)
        await self._walk(WARM_TURNS, 10_000, WARM_SECONDS)

    async def _begin_at(self, length: int) -> int:
        """A new conversation that has so many turns, or as many as there was time for; how many it has."""
        self.peer.begin()
        taken, target = 0, max(length - WARM_TURNS, 0)
        if hasattr(self.peer, "lengthen") and target > 1:
            await self._turn(0)
            copying: Any = self.peer.lengthen(target - 1)
            if self.waits:
                await copying
            taken = target
        taken = await self._walk(taken, target, WALK_SECONDS)
        return await self._walk(taken, taken + length - target, None)

    async def _walk(self, taken: int, target: int, seconds: float | None) -> int:
        """Take turns, untimed, until there are ``target`` or the time is over; how many there are then."""
        end = perf_counter() + seconds if seconds is not None else inf
        while taken < target and perf_counter() < end:
            await self._turn(taken)
            taken += 1
        return taken

    async def _turn(self, number: int) -> tuple[float, float]:
        text, turn = question(number), self.peer.turn
        wall, cpu = perf_counter(), process_time()
        answer: Any = turn(text)
        if self.waits:
            answer = await answer
        cpu, wall = process_time() - cpu, perf_counter() - wall
        if answer != ANSWER:
            raise RuntimeError(f"the turn gave {answer!r}, not {ANSWER!r}")
        return cpu, wall

    @staticmethod
    def _overhead() -> tuple[float, float]:
        """What reading the two clocks costs itself; a turn of the floor is only ten times as long."""
        samples = []
        for _ in range(2000):
            wall, cpu = perf_counter(), process_time()
            cpu, wall = process_time() - cpu, perf_counter() - wall
            samples.append((cpu, wall))
        return median(cpu for cpu, _ in samples), median(wall for _, wall in samples)


def run_without_loop(work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    """Drive a coroutine that never really waits: a synchronous peer must not find itself inside an event loop."""
    try:
        work.send(None)
    except StopIteration as end:
        result: dict[str, Any] = end.value
        return result
    raise RuntimeError("a synchronous peer waited for something")


def version(distribution: str) -> str:
    """The installed version; empty when it runs from a checkout that is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def main(module: str, maker: str, distribution: str) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints goes to stderr
    warnings.simplefilter("ignore")
    measure = Measure(getattr(importlib.import_module(module), maker)())
    with asyncio.Runner() as runner:

        def reply(answer: dict[str, Any]) -> None:
            answers.write(json.dumps(answer) + "\n")
            answers.flush()

        reply({"version": version(distribution)})
        for line in sys.stdin:
            asked = json.loads(line)
            work = measure.idle(asked["idle"]) if "idle" in asked else measure.batch(**asked)
            reply(runner.run(work) if measure.waits else run_without_loop(work))


if __name__ == "__main__":
    main(*sys.argv[1:])
