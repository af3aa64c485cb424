"""What sessions cost: turns of long ones beside other libraries, thousands at once, recordings, and going on.

- **A turn** (``turn.py`` says what that is) at 10 and at 3,000 turns: the interpreter without an event loop, the one
  for asyncio, both with a journal (without fsync, which waits for the disk), and the other libraries, in rounds.
- **At once**: the wall and CPU time of a thousand conversations of one turn that all wait for a model of 10 ms on one
  event loop, beside a floor that awaits the same sleeps and does nothing else.
- **Resuming**: bytes a turn of a recorded session, and the time until it goes on; what it knows then is compared with
  what it knew.

The last table holds it all against its goals: medians over all rounds, and CPU time in the best round, which is what it
takes when nothing else slows the machine down.

    python benchmarks/interpreters.py                 everything: some minutes; the first run installs the peers
    python benchmarks/interpreters.py --peers none    cogstep alone: a minute, installs nothing
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

from benchmarks import environment
from benchmarks.children import Row
from benchmarks.comparison import COGSTEP, FLOOR, JOURNAL, LOOP, LOOP_JOURNAL, PEERS, STEP, Comparison
from benchmarks.peers.cogstep import model, multiply
from benchmarks.peers.protocol import ANSWER, question
from benchmarks.sessions import CONTEXT
from benchmarks.table import Progress, digits, machine, table
from cognition import AgentState, ModelRequest
from cognition.parsing import TextDelta
from interpreters import Agent, AsyncAgent, fakes, tool
from runtime.protocol.model import Done

MODEL_SECONDS = 0.010
ROUNDS = 5


class Sleepy(fakes.ScriptedModel):
    """A model that takes 10 ms and awaits them."""

    def stream(self, request: ModelRequest) -> SleepyReply:  # type: ignore[override]  # another generation
        return SleepyReply()


class SleepyReply:
    def __init__(self) -> None:
        self._left: list[TextDelta | Done] = [TextDelta(ANSWER), fakes.Reply(ANSWER).done]

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


def recorded(turns: int, path: Path) -> AgentState:
    """Record a session; what it knows at its end."""
    look = tool(read_only=True)(multiply)
    script = fakes.ScriptedModel(repeat(model), context_tokens=CONTEXT)
    with Agent(script, [look], journal=path, fsync="never") as agent:
        for turn in range(turns):
            agent.run(question(turn))
        return agent.state


def resumed(path: Path, known: AgentState) -> tuple[float, float]:
    """Wall and CPU seconds until a recorded session can go on."""
    wall, cpu = time.perf_counter(), time.process_time()
    again = Agent.resume(path, fakes.ScriptedModel(repeat(model)), [tool(read_only=True)(multiply)])
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    if again.state != known:
        raise RuntimeError("the resumed session knows something else than the recorded one did")
    again.close()
    return wall, cpu


def figures(runs: list[tuple[float, float]]) -> tuple[float, float, float]:
    """Of rounds: the median of wall and CPU seconds, and the least CPU seconds."""
    return median(wall for wall, _ in runs), median(cpu for _, cpu in runs), min(cpu for _, cpu in runs)


def turns_table(peers: list[Row], turns: int, timed: int, say: Progress) -> Comparison:
    """The cost of a turn at the beginning and at the end of a long session, beside the peers."""
    rows = [FLOOR, STEP, COGSTEP, LOOP, JOURNAL, LOOP_JOURNAL, *peers]
    missing = environment.prepare({row.name: row.distributions for row in peers}, say)
    comparison = Comparison([row for row in rows if row.name not in missing], [10, turns], say)
    comparison.failures.update(missing)
    comparison.run(timed)
    return comparison


def main() -> int:
    names = {row.name: row for row in PEERS}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conversations", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=3000, help="of the long session (default: %(default)s)")
    parser.add_argument("--timed", type=int, default=15, help="turns timed of each row (default: %(default)s)")
    parser.add_argument("--peers", default="all", help=f"all, none, or names with commas between: {', '.join(names)}")
    options = parser.parse_args()
    chosen = {"all": list(names), "none": []}.get(options.peers, options.peers.split(","))
    if unknown := [name for name in chosen if name not in names]:
        parser.error(f"there is no peer {', '.join(unknown)}")
    before, say = machine(), Progress()

    comparison = turns_table([names[name] for name in chosen], options.turns, options.timed, say)
    say.clear()
    print("One turn (user, tool call, result, answer) in ms, by the turns that the conversation already has\n")
    print(comparison.table())
    for name, reason in comparison.failures.items():
        print(f"\n{name} {reason}")

    rows, together = [["", "wall s", "CPU s", "least CPU s"]], (0.0, 0.0, 0.0)
    for name, one in (("floor (the sleeps alone)", floor), ("cogstep, one turn each", conversation)):
        together = figures([at_once(one, options.conversations) for _ in range(ROUNDS)])
        rows.append([name, *map(digits, together)])
    print(f"\n{options.conversations} conversations with a model of {MODEL_SECONDS * 1000:g} ms, on one loop\n")
    print(table(rows))

    with TemporaryDirectory(prefix="cogstep-sessions-") as folder:
        path = Path(folder, "session.jsonl")
        known = recorded(options.turns, path)
        size = path.stat().st_size / options.turns
        again = figures([resumed(path, known) for _ in range(ROUNDS)])
    print(f"\na session of {options.turns} turns: {size:.0f} bytes a turn, resumed in {again[0]:.2f} s\n")

    def dearest(row: Row) -> tuple[float, float, float]:
        ends = [comparison.figures[row.name, length] for length in comparison.lengths]
        return (
            max(end.median("wall") for end in ends),
            max(end.median("cpu") for end in ends),
            max(end.best() for end in ends),
        )

    goals = [
        ("a turn, sync, ms", *dearest(COGSTEP), 0.1),
        ("a turn, asyncio, ms", *dearest(LOOP), 0.2),
        ("a turn, journal on, ms", *dearest(JOURNAL), 0.3),
        (f"{options.conversations} conversations, s", *together, 0.15),
        (f"resuming {options.turns} turns, s", *again, 0.5),
    ]
    lines = [[name, *map(digits, measured), f"<= {goal:g}"] for name, *measured, goal in goals]
    print(table([["the dearer end of each", "wall", "CPU", "best round", "goal"], *lines]))
    print(f"\n{before} at the start, {os.getloadavg()[0]:.1f} at the end")
    return 1 if comparison.failures else 0


if __name__ == "__main__":
    sys.exit(main())
