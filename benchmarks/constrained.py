"""Constrained calls: are they all valid, and what do they cost?

    python benchmarks/constrained.py                       # both, on every backend that is installed
    python benchmarks/constrained.py --calls 100 --backend llama
    python benchmarks/constrained.py --calls 0 --rounds 20 # only the cost

*Valid*: for each of so many random schemas, a tool with these parameters is offered to the shipped model, and a call of
it is sampled at temperature 1.5, at which the model writes little that makes sense. The arguments are checked by
``jsonschema``, formats included. A call that the token limit cut short is no call (the model babbles in a string
without end); another seed is tried, and the cut ones are counted.

*Cost*: tokens per second with and without constraint, on a model of 100 million parameters with random weights that is
written here. Both sides take as many steps behind the same prompt, in turns, so that other work on the machine counts
for both; the ratio is the median over the rounds. Masks are computed for each token: every row is a call from its first
token to its last, which is the most that a reply can hold of it. Writing the model takes gguf and safetensors.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

from attrs import frozen
from jsonschema import Draft202012Validator

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python benchmarks/constrained.py`

from benchmarks.random_schemas import random_parameters
from benchmarks.table import Progress, digits, machine, table
from cognition import GenerationOptions, History, ModelRequest, ToolSpec, UserMessage
from runtime import load_model
from runtime.local.handles import LocalRuntime
from runtime.models.specs import PACKAGES, BackendName, is_installed
from runtime.protocol.model import Done

TEMPERATURE = 1.5
CALL_TOKENS = 150
SEEDS = 6
"""So many are tried until a call is complete; after every third, twice as many tokens are let through."""

STEPS = 64
TEXT = {"type": "string", "minLength": 2000}
COSTS: dict[str, dict[str, Any]] = {
    "one long text": {"text": TEXT},
    "rows of numbers and choices": {
        "rows": {
            "type": "array",
            "minItems": 60,
            "items": {
                "type": "object",
                "properties": {
                    "id": {"type": "integer", "minimum": 0, "maximum": 99999},
                    "kind": {"enum": ["apple", "pear", "plum"]},
                    "price": {"type": "number", "minimum": 0, "maximum": 1000},
                    "ok": {"type": "boolean"},
                },
                "required": ["id", "kind", "price", "ok"],
            },
        }
    },
    "dates, addresses, patterns": {
        "rows": {
            "type": "array",
            "minItems": 60,
            "items": {
                "type": "object",
                "properties": {
                    "when": {"type": "string", "format": "date-time"},
                    "who": {"type": "string", "format": "email"},
                    "code": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{4}$"},
                },
                "required": ["when", "who", "code"],
            },
        }
    },
}


def ask(
    model: LocalRuntime, tool: ToolSpec, *, seed: int, max_tokens: int, choice: str = "", constrain: bool = True
) -> Done:
    """A reply, which has to call the tool unless ``choice`` says otherwise."""
    question = UserMessage("m1", f"Call {tool.name} with something that fits.")
    options = GenerationOptions(
        temperature=TEMPERATURE,
        seed=seed,
        max_tokens=max_tokens,
        thinking=False,
        tool_choice=choice or tool.name,
        parallel_calls=False,
        constrain=constrain,
    )
    request = ModelRequest("", History((question,)), (tool,), options)
    *_, done = model.submit(request)
    assert isinstance(done, Done)
    if done.failure is not None:
        raise SystemExit(f"{tool.parameters}\n{done.failure.message}")
    return done


# ------------------------------------------------------------------------------------------------------------- validity


@frozen
class Sampled:
    """What came of one schema."""

    cut: int
    """Calls that the token limit cut short."""
    call: str | None
    """The arguments of the first one that was complete; None where there was none."""
    problem: str
    """What is wrong with it; empty for a valid one."""


def sampled(backend: BackendName, count: int, seed: int, at_once: int, progress: Progress) -> list[str]:
    """One row: how many schemas, calls, cut ones, invalid ones."""
    found: list[Sampled] = []
    began = time.monotonic()
    with load_model(backend=backend) as model, ThreadPoolExecutor(at_once) as pool:
        for one in pool.map(lambda number: _sample(model, number, seed), range(count)):
            if one.problem:
                print(f"{backend}, schema {len(found)}: {one.problem}", file=sys.stderr)
            found.append(one)
            if len(found) % 25 == 0 or len(found) == count:
                complete, cut, invalid, _ = _counted(found)
                progress(f"{backend}: {len(found)} of {count} schemas, {complete} calls, {cut} cut, {invalid} invalid")
    progress.clear()
    complete, cut, invalid, given_up = _counted(found)
    seconds = f"{time.monotonic() - began:.0f} s"
    return [backend, str(count), str(complete), str(complete - invalid), str(invalid), str(cut), str(given_up), seconds]


def _sample(model: LocalRuntime, number: int, seed: int) -> Sampled:
    schema = random_parameters(Random(seed * 1_000_000 + number))
    check = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    tool = ToolSpec("record", "Record something.", schema)
    for attempt in range(SEEDS):
        done = ask(model, tool, seed=number * SEEDS + attempt, max_tokens=CALL_TOKENS * 2 ** (attempt // 3))
        if done.finish_reason != "length":
            problem = _problem(done, check)
            return Sampled(
                attempt,
                done.calls[0].arguments_json if done.calls else "",
                f"attempt {attempt}: {problem}\n{json.dumps(schema)}" if problem else "",
            )
    return Sampled(SEEDS, None, "")


def _counted(found: list[Sampled]) -> tuple[int, int, int, int]:
    """Complete calls, cut ones, invalid ones, and schemas that were given up."""
    complete = sum(one.call is not None for one in found)
    return complete, sum(one.cut for one in found), sum(bool(one.problem) for one in found), len(found) - complete


def _problem(done: Done, check: Draft202012Validator) -> str:
    if len(done.calls) != 1 or done.malformed or done.text.strip():
        return f"not exactly one call: {done!r}"
    call = done.calls[0]
    if call.name != "record" or call.repairs:
        return f"it is not as it should be: {call!r}"
    return "; ".join(error.message for error in check.iter_errors(json.loads(call.arguments_json)))


# ----------------------------------------------------------------------------------------------------------------- cost


def costs(
    backend: BackendName, path: Path, rounds: int, threads: int | None, progress: Progress
) -> Iterator[list[str]]:
    """Rows: tokens per second free and constrained, and the ratios of wall time and of CPU time."""
    with load_model(path, backend=backend, threads=threads) as model:
        for name, properties in COSTS.items():
            parameters = {"type": "object", "properties": properties, "required": list(properties)}
            tool = ToolSpec("record", "Record something.", parameters)
            wall: dict[bool, list[float]] = {True: [], False: []}
            cpu: dict[bool, list[float]] = {True: [], False: []}
            for number in range(rounds + 1):
                for constrained in (True, False) if number % 2 else (False, True):
                    seconds, used = _decoding(model, tool, number, constrained=constrained)
                    if number:  # the first round only warms up: prompt, grammar, caches
                        wall[constrained].append(seconds)
                        cpu[constrained].append(used)
                progress.detail(f"{backend}: {name}, round {number} of {rounds}")
            ratios = [free / held for free, held in zip(wall[False], wall[True], strict=True)]
            work = [free / held for free, held in zip(cpu[False], cpu[True], strict=True)]
            yield [
                f"{backend}: {name}",
                digits(STEPS / statistics.median(wall[False])),
                digits(STEPS / statistics.median(wall[True])),
                f"{statistics.median(ratios):.3f}",
                f"{statistics.median(work):.3f}",
            ]
    progress.clear()


def _decoding(model: LocalRuntime, tool: ToolSpec, seed: int, *, constrained: bool) -> tuple[float, float]:
    """Seconds for ``STEPS`` tokens, by the clock and of the processor. The prompt is in the cache but for one token."""
    choice = tool.name if constrained else "auto"
    used = time.process_time()
    done = _steps(model, tool, seed, choice=choice, constrain=constrained)
    return done.timings.decode_seconds * STEPS / done.usage.output_tokens, time.process_time() - used


def _steps(model: LocalRuntime, tool: ToolSpec, seed: int, *, choice: str, constrain: bool) -> Done:
    for attempt in range(100):  # free sampling may end the reply early
        done = ask(model, tool, seed=seed * 100 + attempt, max_tokens=STEPS, choice=choice, constrain=constrain)
        if done.usage.output_tokens == STEPS:
            return done
    raise SystemExit("no reply reached its token limit")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1000, help="random schemas for each backend (default: 1000)")
    parser.add_argument("--at-once", type=int, default=16, help="requests under way (default: 16)")
    parser.add_argument("--rounds", type=int, default=10, help="rounds of the cost (default: 10)")
    parser.add_argument("--backend", choices=tuple(PACKAGES), action="append", help="default: all that are installed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=None, help="of llama.cpp, for the cost")
    options = parser.parse_args()
    backends = [name for name in options.backend or PACKAGES if is_installed(name)]
    progress = Progress()
    print(machine())
    if options.calls:
        rows = [sampled(backend, options.calls, options.seed, options.at_once, progress) for backend in backends]
        print(f"\nCalls of the shipped model at temperature {TEMPERATURE}, one for each random schema:\n")
        print(table([["", "schemas", "calls", "valid", "invalid", "cut", "given up", "took"], *rows]), flush=True)
        if any(row[4] != "0" for row in rows):
            sys.exit(1)
    if options.rounds:
        with tempfile.TemporaryDirectory() as folder:
            from benchmarks.random_model import write_random_model  # only here: it needs more packages than the rest

            gguf, mlx, parameters = write_random_model(Path(folder))
            paths = {"llama": gguf, "mlx": mlx}
            made = [
                row
                for backend in backends
                for row in costs(backend, paths[backend], options.rounds, options.threads, progress)
            ]
        size = f"{parameters / 1e6:.0f} million random parameters"
        print(f"\nTokens per second, {size}, medians of {options.rounds} rounds:\n")
        print(table([["", "free", "constrained", "ratio", "by CPU time"], *made]))


if __name__ == "__main__":
    main()
