"""Prompt-lookup drafting, on and off: what it brings where replies copy from their context, and costs where they don't.

    python benchmarks/drafting.py                   # the models with random weights, 0.1 and 0.6 billion parameters
    python benchmarks/drafting.py --model FILE      # any GGUF file

What the replies say is written beforehand, as agents say it: calls whose arguments stand in the question, answers that
quote a result, a file written again with one line changed, and an answer in words of its own. The model evaluates and
samples each token as always; only then the written one is put in its place. On and off take turns, round by round, and
the ratio is the median of the rounds'. Seconds are of CPU time with one thread, so that other work on the machine
counts little. Needs gguf for the first run.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python benchmarks/drafting.py`

from attrs import evolve, frozen

from benchmarks.random_model import LARGE, SMALL, cached_model
from benchmarks.table import Progress, machine, table
from cognition import GenerationOptions, History, ModelRequest, UserMessage
from runtime import Done, LlamaOptions, load_model
from runtime.local.handles import LocalRuntime

RESULT = """\
def area(shape):
    if shape.kind == "circle":
        return 3.14159 * shape.radius ** 2
    if shape.kind == "square":
        return shape.side * shape.side
    if shape.kind == "triangle":
        return 0.5 * shape.base * shape.height
    raise ValueError(f"no area is known for {shape.kind}")
"""

SCRIPTS = {
    "a call with the question's arguments": (
        "Please search /home/anna/projects/geometry/src/shapes/area.py for the text 'no area is known for'.",
        '{"name": "search", "arguments": {"path": "/home/anna/projects/geometry/src/shapes/area.py", '
        '"text": "no area is known for"}}',
    ),
    "an answer that quotes a result": (
        f"The file area.py holds:\n{RESULT}\nWhat does it do for a triangle?",
        'For a triangle, `if shape.kind == "triangle":` holds, and the function gives back '
        "`0.5 * shape.base * shape.height`, which is half of the base times the height.",
    ),
    "a file written again, one line changed": (
        f"The file area.py holds:\n{RESULT}\nWrite it again with pi from math.",
        RESULT.replace("3.14159", "math.pi"),
    ),
    "an answer in words of its own": (
        "Tell me something about rivers.",
        "Rivers begin as small streams in hills, join others on their way down, and grow until they reach a lake or an "
        "ocean. People settled along them for water, fish, trade, and soil that floods made rich every spring.",
    ),
}
"""What is asked, and what is said."""


HEADING = ("replies", "sessions", "off, tokens/s", "on", "ratio", "guesses that came true")


@frozen
class Drafted:
    """One line of the table."""

    script: str
    sessions: int
    """How many replies are made at once."""
    off: float
    """Tokens a second of CPU time, without drafting."""
    on: float
    ratio: float
    """The median of the rounds' ratios: on over off."""
    confirmed: float
    """Of the guesses that were evaluated, how many came true."""


def measure(file: Path, *, rounds: int = 3, sessions: tuple[int, ...] = (1, 4)) -> Iterator[Drafted]:
    """Each script with each number of sessions, on a model loaded for it."""
    with load_model(file, context_tokens=1024, threads=1, options=LlamaOptions(drafting=True)) as model:
        for name, (question, answer) in SCRIPTS.items():
            for count in sessions:
                times: dict[bool, list[float]] = {True: [], False: []}
                guessed = came_true = tokens = 0
                for round in range(rounds + 1):
                    for on in (round % 2 == 0, round % 2 == 1):
                        with _scripted(model, answer, drafting=on) as seen:
                            seconds, tokens = _run(model, question, count, seen["tokens"])
                        if round:  # the first one fills the cache with the prompts
                            times[on].append(seconds)
                        guessed, came_true = guessed + seen["guessed"], came_true + seen["confirmed"]
                yield Drafted(
                    name,
                    count,
                    tokens / statistics.median(times[False]),
                    tokens / statistics.median(times[True]),
                    statistics.median(off / on for off, on in zip(times[False], times[True], strict=True)),
                    came_true / guessed if guessed else 0.0,
                )


def _run(model: LocalRuntime, question: str, count: int, length: int) -> tuple[float, int]:
    """CPU seconds, and tokens of all replies."""
    requests = [
        ModelRequest("", History((UserMessage("m1", question),)), (), GenerationOptions(max_tokens=length))
        for _ in range(count)
    ]
    began = time.process_time()
    generations = [model.submit(request) for request in requests]
    tokens = 0
    for generation in generations:
        *_, done = generation
        assert isinstance(done, Done)
        tokens += done.usage.output_tokens
    return time.process_time() - began, tokens


@contextmanager
def _scripted(model: LocalRuntime, answer: str, *, drafting: bool) -> Iterator[dict[str, int]]:
    """Replies say this text; what was guessed, and how much of it came true, is counted."""
    engine: Any = model._owner.call(lambda engine: engine)
    backend = engine._backend
    script = model._owner.call(lambda _engine: backend.tokenize(answer, special=False))
    seen = {"tokens": len(script), "guessed": 0, "sampled": 0, "pieces": 0, "confirmed": 0}
    limits, schedule = backend.limits, engine._schedule
    sampler, sample, evaluate, go_on = backend.sampler, backend.sample, backend.evaluate, backend.append_tokens
    said: dict[Any, Iterator[int]] = {}

    def begin(options: GenerationOptions) -> Any:
        made = sampler(options)
        said[made] = iter(script)
        return made

    def written(row: int, made: Any, allowed: bytes | None = None) -> int:
        sample(row, made, allowed)
        seen["sampled"] += 1
        return next(said[made])

    def counted(batch: Any) -> bool:
        seen["guessed"] += sum(piece.guesses for piece in batch)
        seen["pieces"] += sum(piece.last for piece in batch)
        return bool(evaluate(batch))

    def counted_too(tokens: Any) -> bool:
        seen["pieces"] += len(tokens)
        return bool(go_on(tokens))

    def switch(guesses: int) -> None:
        backend.limits = evolve(limits, guesses=guesses)
        engine._schedule = evolve(engine._schedule, limits=backend.limits)

    backend.sampler, backend.sample, backend.evaluate, backend.append_tokens = begin, written, counted, counted_too
    model._owner.call(lambda _engine: switch(limits.guesses if drafting else 0))
    try:
        yield seen
    finally:
        backend.sampler, backend.sample, backend.evaluate, backend.append_tokens = sampler, sample, evaluate, go_on
        model._owner.call(lambda _engine: switch(schedule.limits.guesses))
        seen["confirmed"] = seen["sampled"] - seen["pieces"]


def main() -> int:
    """The command line."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument(
        "--model", type=Path, metavar="FILE", help="a GGUF file instead of the two with random weights"
    )
    options.add_argument("--rounds", type=int, default=3, help="of each comparison (default: 3)")
    chosen = options.parse_args()
    print(machine())
    for file in [chosen.model] if chosen.model else [cached_model(SMALL), cached_model(LARGE)]:
        say = Progress()
        rows = [HEADING]
        for row in measure(file, rounds=chosen.rounds):
            rate = (f"{row.off:.0f}", f"{row.on:.0f}", f"{row.ratio:.2f}", f"{row.confirmed:.0%}")
            rows.append((row.script, str(row.sessions), *rate))
            say(" ".join(rows[-1]))
        print(f"\n{file.parent.name}/{file.name}\n\n{table(rows)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
