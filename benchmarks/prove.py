"""The laws, proved by exhaustive exploration: every situation within reach of the beginning, every law, every step.

    python benchmarks/prove.py                 1,250,000 situations, all cores; ``make prove`` is the same
    python benchmarks/prove.py --states 20000 --processes 1
    python benchmarks/prove.py --only text     one configuration, with all the situations that ``--states`` says

Eight configurations share the situations. Four have every feature and every hook on: with small limits, with room, in a
text protocol, and without a recall before each turn; the fifth has tools alone, which is how it gets further with them.
In the sixth a conversation is summarised after a few messages, the seventh has texts for sections and counts tokens,
and the last has three models that fail and come back.

Prints for each how many distinct situations were seen, the steps taken from them, the depth and the time; at the end
how often the laws' premises were reached, in all of them together. A broken law
ends the search with a shortest story; Ctrl-C ends it with what was seen so far. Exit status: 0 all laws hold, 1 one is
broken, 130 interrupted.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import get_args

from attrs import evolve

from cognition import AgentConfig, Breaker, GenerationOptions, Limits, LLMEngine, RetryPolicy, Section, ToolSpec
from cognition.testing import Exploration, explore
from cognition.testing._breadth import Chunk, Spread
from cognition.values.features import Feature, HookPoint

TOOLS_ALONE = AgentConfig(
    system="Be brief.",
    tools=(
        ToolSpec("look", "Looks something up.", read_only=True, retries=(2.0,)),
        ToolSpec("write", "Changes something.", idempotent=True, approval=True, retries=(2.0,)),
    ),
    limits=Limits(steps=3, tool_calls=3, refusals=2, output_tokens=25),
    retry=RetryPolicy(attempts=2),
    context_tokens=600,
    options=GenerationOptions(max_tokens=100),
)
"""Small limits, so that a search of few inputs meets all of them; a tool that may run beside others and one that asks,
both of which may be run again; a context that holds a few turns, so that trimming is met too."""

EVERYTHING = evolve(
    TOOLS_ALONE, features=get_args(Feature), hooks=get_args(HookPoint), recall_first=True, context_tokens=1400
)
"""The tools of the features take some 900 tokens of the context: as much room is left for the turns as above."""

SUMMARIES = evolve(
    TOOLS_ALONE,
    tools=TOOLS_ALONE.tools[:1],
    limits=Limits(steps=8, tool_calls=3, refusals=2, output_tokens=25),
    context_tokens=1200,
    compact_at=0.2,
)
"""A long message and its answer are enough, and there are steps left for what follows."""

CONTEXT = evolve(
    TOOLS_ALONE,
    tools=TOOLS_ALONE.tools[:1],
    sections=(Section("identity", 0.2, mandatory=True, changes="seldom"), Section("memory", 0.4)),
    context_tokens=800,
    compact_at=0.5,
)
"""Messages with texts for sections, sessions that begin to count tokens, and summaries of both."""

MODELS = evolve(
    TOOLS_ALONE,
    tools=TOOLS_ALONE.tools[:1],
    models=("b", "c"),
    fallback=("b", ""),
    routes=(("summary", "c"),),
    breaker=Breaker(failures=2),
    retry=RetryPolicy(attempts=2),
    context_tokens=1200,
    compact_at=0.5,
)
"""Three models that fail, are turned away from, chosen, and come back."""

ROOM = Limits(steps=6, tool_calls=6, refusals=2, workers=2, hook_continuations=1)

CONFIGURATIONS = {
    "everything": EVERYTHING,
    "room": evolve(EVERYTHING, limits=ROOM, context_tokens=4096),
    "text": evolve(EVERYTHING, protocol="short_keys", recall_first=False, hooks=("before_tool", "after_tool", "stop")),
    "no-recall": evolve(EVERYTHING, recall_first=False, tools=TOOLS_ALONE.tools[1:]),
    "tools": TOOLS_ALONE,
    "summaries": SUMMARIES,
    "context": CONTEXT,
    "models": MODELS,
}
"""Where a hook comes before each turn, many situations are its answers; so one leaves these hooks out."""

EVERY = 5.0
"""Seconds between two lines of progress."""

WORK: list[Callable[[range], Chunk]] = []
"""What the forked processes apply: a function with all that was seen so far, inherited rather than sent."""


def _apply(part: range) -> Chunk:
    return WORK[0](part)


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process ends the others


def forked(processes: int) -> Spread:
    """A ``map`` over processes that are forked for each level of the search, with all that is known by then."""
    fork = multiprocessing.get_context("fork")

    def spread(function: Callable[[range], Chunk], parts: Sequence[range]) -> Iterator[Chunk]:
        if len(parts) < 2 * processes:
            yield from map(function, parts)
            return
        WORK[:] = [function]
        gc.freeze()  # what is there stays there: the processes need not look through it
        with fork.Pool(processes, _ignore_interrupts) as pool:
            yield from pool.imap(_apply, parts)

    return spread


class Progress:
    """Prints a line now and then, and keeps the latest figures."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.began = self.printed = time.perf_counter()
        self.seen = Exploration(0, 0, 0, False)

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.began

    def __call__(self, seen: Exploration) -> None:
        self.seen = seen
        now = time.perf_counter()
        if now - self.printed >= EVERY:
            self.printed = now
            print(self.line(), file=sys.stderr, flush=True)

    def line(self) -> str:
        seen = self.seen
        return (
            f"{self.name:<10}  {seen.states:>9,} states  {seen.transitions:>11,} transitions  depth {seen.depth:>2}  "
            f"{self.seconds:>6.0f} s  {seen.states / max(self.seconds, 1e-9):>6,.0f} states/s"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description="Hold LLMEngine to all laws in every situation within reach.")
    parser.add_argument(
        "--states", type=int, default=1_250_000, help="distinct situations, of all runs (default: %(default)s)"
    )
    parser.add_argument("--only", choices=CONFIGURATIONS, help="one configuration, which gets all of them")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="default: all cores (%(default)s)")
    arguments = parser.parse_args()
    can_fork = "fork" in multiprocessing.get_all_start_methods()
    spread: Spread = forked(arguments.processes) if arguments.processes > 1 and can_fork else map
    gc.disable()  # nothing here is a cycle; looking through millions of values for one takes half of the time
    names = [arguments.only] if arguments.only else list(CONFIGURATIONS)
    complete, counts = True, Counter[str]()
    for name in names:
        engine, progress = LLMEngine(CONFIGURATIONS[name]), Progress(name)
        try:
            found = explore(engine, limit=arguments.states // len(names), on_progress=progress, spread=spread)
        except KeyboardInterrupt:
            print(f"interrupted after\n{progress.line()}")
            return 130
        progress.seen = found
        print(progress.line(), flush=True)
        if found.violation is not None:
            print(f"\n{found.violation}")
            return 1
        complete = complete and found.complete
        for report in found.reports:
            for premise, count in zip(report.law.premises, report.counts, strict=True):
                counts[f"{report.law.name}: {premise.text}"] += count
    for text, times in counts.items():
        print(f"{times:>12,}  {text}")
    print("every law holds in every one of them" + (", and there are no others" if complete else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
