"""What many and long sessions cost: a thousand conversations on one loop, and a resume of thousands of turns.

What one turn costs, beside other libraries, is in ``turn.py``. Here: the wall and CPU time of conversations that all
wait for a model of 10 ms at the same time, beside a floor that awaits the same sleeps and does nothing else; and of a
recorded session its bytes a turn and the time until it goes on.

    python benchmarks/interpreters.py
    python benchmarks/interpreters.py --conversations 100 --turns 300
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from itertools import repeat
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python benchmarks/interpreters.py`

from benchmarks.peers.cogstep import model, multiply
from benchmarks.peers.protocol import ANSWER, question
from benchmarks.sessions import CONTEXT
from benchmarks.table import digits, machine, table
from cognition import ModelRequest
from cognition.parsing import TextDelta
from interpreters import Agent, AsyncAgent, fakes, tool
from runtime.protocol import Done

MODEL_SECONDS = 0.010
ROUNDS = 5


class Sleepy(fakes.ScriptedModel):
    """A model that takes 10 ms and awaits them."""

    def stream(self, request: ModelRequest) -> SleepyReply:  # type: ignore[override]  # another generation
        return SleepyReply()


class SleepyReply:
    def __init__(self) -> None:
        self._left = [TextDelta(ANSWER), fakes.Reply(ANSWER).done]

    def __aiter__(self) -> SleepyReply:
        return self

    async def __anext__(self) -> TextDelta | Done:
        if not self._left:
            raise StopAsyncIteration
        if len(self._left) == 2:
            await asyncio.sleep(MODEL_SECONDS)
        return self._left.pop(0)

    def cancel(self) -> None: ...


async def conversation(number: int) -> None:
    agent = AsyncAgent(Sleepy(()), context_tokens=CONTEXT)
    await agent.run(question(number))
    await agent.close()


async def floor(number: int) -> None:
    await asyncio.sleep(MODEL_SECONDS)


def at_once(one: Callable[[int], Awaitable[None]], count: int) -> tuple[float, float]:
    """Wall and CPU seconds of so many at the same time."""

    async def main() -> None:
        await asyncio.gather(*(one(number) for number in range(count)))

    wall, cpu = time.perf_counter(), time.process_time()
    asyncio.run(main())
    return time.perf_counter() - wall, time.process_time() - cpu


def resumed(turns: int) -> tuple[int, float, float]:
    """Bytes a turn of a recorded session, and wall and CPU seconds until it can go on."""
    look = tool(read_only=True)(multiply)
    with TemporaryDirectory(prefix="cogstep-sessions-") as folder:
        path = Path(folder, "session.jsonl")
        script = fakes.ScriptedModel(repeat(model), context_tokens=CONTEXT)
        with Agent(script, [look], journal=path, fsync="never") as agent:
            for turn in range(turns):
                agent.run(question(turn))
        size = path.stat().st_size
        wall, cpu = time.perf_counter(), time.process_time()
        again = Agent.resume(path, fakes.ScriptedModel(repeat(model)), [look])
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        again.close()
    return size // turns, wall, cpu


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conversations", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=3000, help="of the session that is resumed (default: 3000)")
    options = parser.parse_args()
    before = machine()
    rows = [["", "wall s", "CPU s"]]
    for name, one in (("floor (the sleeps alone)", floor), ("cogstep, one turn each", conversation)):
        runs = [at_once(one, options.conversations) for _ in range(ROUNDS)]
        rows.append([name, *(digits(median(run[column] for run in runs)) for column in (0, 1))])
    print(f"{options.conversations} conversations with a model of {MODEL_SECONDS * 1000:g} ms, on one loop\n")
    print(table(rows))
    size, wall, cpu = resumed(options.turns)
    print(f"\na session of {options.turns} turns: {size} bytes a turn, resumed in {wall:.2f} s (CPU {cpu:.2f} s)")
    print(f"\n{before} at the start, {os.getloadavg()[0]:.1f} at the end")
    return 0


if __name__ == "__main__":
    sys.exit(main())
