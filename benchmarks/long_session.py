"""What a step of a whole agent costs after 100, 1,000 and 3,000 turns, and which of its parts grows.

No real model, nothing to install. The agent is what ``cogstep chat --memory FOLDER --record FILE`` makes: it is
recorded, its memory is searched for each message before the model is asked, an episode is written for each turn and a
line for each call, and its prompt is kept within 4,096 tokens. A scripted model calls a tool and answers, so that a
turn is five steps of the engine. All turns are of one day, whose files grow with each.

Three sessions are walked to their lengths, and then go on by turns, a turn of each in each round, so that a busy
machine is busy for all. A figure is the median over rounds, of the processor's time but for the last row: episodes wait
for the disk. The goal is that nothing takes more than 1.3 times at the last length what it takes at the first one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import datetime
from itertools import repeat
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python benchmarks/long_session.py`

from attrs import define, field

from benchmarks.peers.cogstep import model, multiply
from benchmarks.peers.protocol import question
from benchmarks.table import Progress, digits, show, table
from cognition import AgentConfig, AgentState, Input, LLMEngine, Transition
from interpreters import Agent, EpisodeWriter, fakes, tool
from interpreters.observing.events import Event, Inline
from runtime import MemoryFolder

CONTEXT = 4096
"""Tokens, prompt and reply together: the smallest context that people run agents in."""
GOAL = 1.3
"""How much more a part may take at the last length than at the first one."""
NOON = datetime(2026, 11, 25, 12)
STEPS, RECALL, WRITING, REST = "engine", "memory: searching", "memory: episodes and outcomes", "driver and recording"
PARTS = (STEPS, RECALL, WRITING, REST)

R = TypeVar("R")


@define
class Session:
    """An agent at work, and what its parts took of the turn that runs."""

    directory: Path
    agent: Agent = field(init=False)
    memory: MemoryFolder = field(init=False)
    writer: EpisodeWriter = field(init=False)
    steps: int = 0
    turns: int = 0
    taken: dict[str, float] = field(factory=dict)
    """Milliseconds of the processor, by part."""

    def __attrs_post_init__(self) -> None:
        self.memory = MemoryFolder(self.directory / "memory", now=lambda: NOON)
        self.writer = EpisodeWriter(self.memory)
        self.agent = Agent(
            fakes.ScriptedModel(repeat(model), context_tokens=CONTEXT),
            [tool(read_only=True)(multiply)],
            features=["memory"],
            memory=self,
            recall_first=True,
            observers=[Inline(self.note)],
            journal=self.directory / "session.jsonl",
            fsync="never",
            engine=lambda config: Timed(config, self),
        )

    def timed(self, part: str, act: Callable[[], R]) -> R:
        began = process_time()
        try:
            return act()
        finally:
            self.taken[part] = self.taken.get(part, 0.0) + 1e3 * (process_time() - began)

    def remember(self, text: str) -> object:
        return self.memory.remember(text)

    def recall(self, query: str) -> Sequence[str]:
        return self.timed(RECALL, lambda: self.memory.recall(query))

    def note(self, event: Event) -> None:
        self.timed(WRITING, lambda: self.writer(event))

    def turn(self) -> dict[str, float]:
        """Take one: the milliseconds of a step of it, by part, of the whole of it, and those on the clock."""
        self.taken.clear()
        self.turns += 1
        before, began, used = self.steps, perf_counter(), process_time()
        self.agent.run(question(self.turns))
        whole, wall = 1e3 * (process_time() - used), 1e3 * (perf_counter() - began)
        parts = {part: self.taken.get(part, 0.0) for part in PARTS}
        parts |= {REST: whole - sum(parts.values()), "a step": whole, "a step, on the clock": wall}
        return {part: value / (self.steps - before) for part, value in parts.items()}

    def close(self) -> None:
        self.agent.close()
        self.memory.close()


class Timed(LLMEngine):
    """The usual engine, which says what its steps took."""

    def __init__(self, config: AgentConfig, session: Session) -> None:
        super().__init__(config)
        self._session = session

    def step(self, state: AgentState, input: Input | None) -> Transition:
        self._session.steps += 1
        return self._session.timed(STEPS, lambda: super(Timed, self).step(state, input))


def measured(lengths: Sequence[int], rounds: int, place: Path, say: Progress) -> str:
    """The table, and what is over the goal."""
    with ExitStack() as at_the_end:
        sessions = [Session(place / str(length)) for length in lengths]
        for session, length in zip(sessions, lengths, strict=True):
            at_the_end.callback(session.close)
            say(f"walking {length} turns")
            for number in range(length):
                session.turn()
                if number % 100 == 0:
                    say.detail(f"turn {number} of {length}")
        taken: dict[str, list[list[float]]] = {}
        for number in range(rounds):
            say.detail(f"measuring, round {number + 1} of {rounds}")
            for at, session in enumerate(sessions):
                for part, value in session.turn().items():
                    taken.setdefault(part, [[] for _ in sessions])[at].append(value)
        size = max(path.stat().st_size for path in (place / str(lengths[-1]) / "memory").rglob("*.md"))
    lines = [["milliseconds a step", *(f"{length:,} turns" for length in lengths), "ratio", "goal"]]
    for part, at_lengths in taken.items():
        medians = [median(one) for one in at_lengths]
        lines.append([part, *map(digits, medians), f"{medians[-1] / medians[0]:.2f}", f"<= {GOAL}"])
    return f"{table(lines)}\n\nThe longest file of the last one's memory has {size:,} bytes at the end."


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", default="100,1000,3000", help="lengths of sessions (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=40, help="of one turn of each (default: %(default)s)")
    options = parser.parse_args()
    say = Progress()
    lengths = [int(one) for one in options.turns.split(",")]
    with TemporaryDirectory(prefix="cogstep-long-") as place:
        return show([("a long session", lambda: measured(lengths, options.rounds, Path(place), say))], say)


if __name__ == "__main__":
    sys.exit(main())
