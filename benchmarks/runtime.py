"""Many agents on one model: what batching, shared prefixes and chunked prompts bring.

    python benchmarks/runtime.py                 # all of it, on a model of 0.1 billion parameters that is written here
    python benchmarks/runtime.py --rounds 1 --agents 4 --tokens 16

The model has random weights in Qwen3's shape, and runs exactly as a trained one does. Every comparison takes both
sides in turns, round by round, and gives the median of the rounds' ratios: other work on the machine counts for both.

*One stream*: a reply through the runtime, beside a bare loop over the same bindings that decodes the same tokens.
*Agents at once*: as many replies at the same time, beside the same ones one after another, on the same runtime; prompts
have a part of their own only, so nothing is shared.
*One system prompt*: agents that begin with the same long prompt, at once; and what of it was evaluated.
*A long prompt arrives*: the longest pause between two tokens of a stream meanwhile, in times of one chunk.
*Cancel*: from the call to the ``Done``, for a reply in the company of others, in times of one batch.

Writing the model takes gguf and safetensors.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `python benchmarks/runtime.py`

from attrs import frozen

from benchmarks.random_model import write_random_model
from benchmarks.table import Progress, digits, machine, table
from cognition import GenerationOptions, History, ModelRequest, UserMessage
from runtime import load_model
from runtime.handles import LocalGeneration, LocalRuntime
from runtime.protocol import Done

WORDS = "the agent reads a file and writes what it found into the next one "


@frozen
class Work:
    """What is measured with."""

    agents: int
    tokens: int
    """Of each reply."""
    prompt: int
    """Characters of each agent's own prompt, about."""
    system: int
    """Characters of the prompt that all share, about."""


def request(text: str, tokens: int, system: str = "") -> ModelRequest:
    return ModelRequest(system, History((UserMessage("m1", text),)), (), GenerationOptions(max_tokens=tokens))


def text(label: str, characters: int) -> str:
    """Text that begins with the label, so that nothing before it can be taken from a cache."""
    return (f"{label} " + WORDS * (characters // len(WORDS) + 1))[:characters]


def finished(generation: LocalGeneration) -> Done:
    *_, done = generation
    assert isinstance(done, Done), done
    assert done.failure is None, done.failure
    return done


def backend_of(model: LocalRuntime) -> Any:
    return model._owner.call(lambda engine: engine._backend)


def never_ending(model: LocalRuntime) -> None:
    """Random weights end a reply at random; here none does, so that all sides do the same work."""
    backend = backend_of(model)
    sample = backend.sample
    (token,) = backend.tokenize("a", special=False)
    backend.sample = lambda *arguments: (sample(*arguments), token)[1]


@contextmanager
def batches_of(model: LocalRuntime) -> Iterator[list[tuple[int, float]]]:
    """The tokens and the seconds of each batch meanwhile."""
    backend, evaluate = backend_of(model), backend_of(model).evaluate
    batches: list[tuple[int, float]] = []

    def noted(batch: Any) -> Any:
        began = time.perf_counter()
        result = evaluate(batch)
        batches.append((sum(len(piece.tokens) for piece in batch), time.perf_counter() - began))
        return result

    backend.evaluate = noted
    yield batches
    backend.evaluate = evaluate


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


# -------------------------------------------------------------------------------------------------------- measurements


def one_stream(model: LocalRuntime, work: Work, number: int) -> tuple[float, float]:
    """Seconds of decoding a reply, through the runtime and in a bare loop."""
    asked = request(text(f"one stream {number}", work.prompt), work.tokens)
    ours = finished(model.submit(asked)).timings.decode_seconds
    return ours, model._owner.call(lambda engine: bare_loop(engine, asked, work.tokens))


def bare_loop(engine: Any, asked: ModelRequest, tokens: int) -> float:
    """Seconds of decoding so many tokens with nothing but ``llama_decode`` and a greedy sampler."""
    import llama_cpp.llama_cpp as native

    backend = engine._backend
    prompt = engine.prompt(asked)
    sequence = backend.limits.sequences - 1  # one that nobody has come to yet
    chain = native.llama_sampler_chain_init(native.llama_sampler_chain_default_params())
    native.llama_sampler_chain_add(chain, native.llama_sampler_init_greedy())
    batch = native.llama_batch_init(backend.limits.batch, 0, 1)

    def decode(row: Sequence[int], start: int) -> None:
        batch.n_tokens = len(row)
        for place, token in enumerate(row):
            batch.token[place], batch.pos[place] = token, start + place
            batch.n_seq_id[place], batch.seq_id[place][0], batch.logits[place] = 1, sequence, 0
        batch.logits[len(row) - 1] = 1
        assert native.llama_decode(backend._context, batch) == 0

    for start in range(0, len(prompt), backend.limits.batch):
        decode(prompt[start : start + backend.limits.batch], start)
    began = time.perf_counter()
    for place in range(tokens - 1):
        native.llama_sampler_sample(chain, backend._context, -1)
        decode([prompt[-1]], len(prompt) + place)
    native.llama_sampler_sample(chain, backend._context, -1)
    seconds = time.perf_counter() - began
    backend.drop(sequence)
    native.llama_sampler_free(chain)
    native.llama_batch_free(batch)
    return seconds


def at_once(model: LocalRuntime, work: Work, number: int) -> tuple[float, float]:
    """Seconds of all agents' replies together, and one after another."""

    def asked(kind: str) -> list[ModelRequest]:
        return [request(text(f"{agent} {kind} {number}", work.prompt), work.tokens) for agent in range(work.agents)]

    together = timed(lambda: [finished(one) for one in [model.submit(each) for each in asked("together")]])
    apart = timed(lambda: [finished(model.submit(each)) for each in asked("apart")])
    return together, apart


def shared_prompt(model: LocalRuntime, work: Work, number: int) -> tuple[int, int, float, float]:
    """Prompt tokens of all agents, those that were evaluated, and seconds of all agents and of one."""
    system = text(f"system {number}", work.system)
    alone = timed(lambda: finished(model.submit(request("Agent 0, begin.", 1, text(f"alone {number}", work.system)))))
    replies: list[Done] = []

    def all_at_once() -> None:
        asked = [request(f"Agent {agent}, begin.", 1, system) for agent in range(work.agents)]
        replies.extend(finished(one) for one in [model.submit(each) for each in asked])

    together = timed(all_at_once)
    total = sum(reply.usage.input_tokens for reply in replies)
    return total, total - sum(reply.usage.reused_tokens for reply in replies), together, alone


def long_prompt_arrives(model: LocalRuntime, work: Work, number: int) -> tuple[float, float, float]:
    """The longest and the median pause of a stream while a prompt is evaluated, and the longest batch with a chunk."""
    streams = [
        model.submit(request(text(f"{agent} streams {number}", work.prompt), 100_000))
        for agent in range(work.agents - 1)
    ]
    for stream in streams:
        next(stream)
    pauses: list[float] = []
    over = threading.Event()

    def listen() -> None:
        last = time.perf_counter()
        for _ in streams[0]:
            now = time.perf_counter()
            pauses.append(now - last)
            last = now
            if over.is_set():
                break

    listener = threading.Thread(target=listen)
    listener.start()
    with batches_of(model) as batches:
        finished(model.submit(request(text(f"long {number}", work.system * 2), 1)))
    over.set()
    listener.join()
    for stream in streams:
        stream.cancel()
    for stream in streams:
        list(stream)
    chunk = backend_of(model).limits.chunk
    with_chunk = [seconds for size, seconds in batches if size > chunk / 2]
    return max(pauses), median(pauses), max(with_chunk)


def cancelled(model: LocalRuntime, work: Work, number: int) -> tuple[float, float]:
    """Seconds from ``cancel`` to the ``Done``, in the company of others, and of the median batch."""
    company = [
        model.submit(request(text(f"{agent} company {number}", work.prompt), 100_000))
        for agent in range(work.agents - 1)
    ]
    victim = model.submit(request(text(f"victim {number}", work.prompt), 100_000))
    next(victim)
    for stream in company:
        next(stream)
    with batches_of(model) as batches:
        while len(batches) < 4:
            time.sleep(0.001)
        began = time.perf_counter()
        victim.cancel()
        *_, done = victim
        took = time.perf_counter() - began
    assert isinstance(done, Done)
    for stream in company:
        stream.cancel()
    for stream in company:
        list(stream)
    return took, median(seconds for _, seconds in batches)


# --------------------------------------------------------------------------------------------------------------- report


def measure(model: LocalRuntime, work: Work, rounds: int, say: Progress) -> list[list[str]]:
    """The rows of the table."""
    never_ending(model)
    numbers = range(rounds)
    rows = [["what", "measured", "ratio (median)", "worst"]]

    def add(what: str, measured: str, ratios: list[float], worst: float) -> None:
        rows.append([what, measured, digits(median(ratios)), digits(worst)])

    say("one stream")
    streams = [one_stream(model, work, number) for number in numbers]
    rate = work.tokens / median(ours for ours, _ in streams)
    ratios = [bare / ours for ours, bare in streams]
    add("one stream / bare loop", f"{digits(rate)} tokens/s", ratios, min(ratios))

    say("agents at once")
    agents = [at_once(model, work, number) for number in numbers]
    rate = work.agents * work.tokens / median(together for together, _ in agents)
    ratios = [apart / together for together, apart in agents]
    add(f"{work.agents} at once / one after another", f"{digits(rate)} tokens/s", ratios, min(ratios))

    say("one system prompt")
    shared = [shared_prompt(model, work, number) for number in numbers]
    total, evaluated = shared[0][:2]
    ratios = [together / alone for *_, together, alone in shared]
    add(
        f"{work.agents} with one system prompt / one of them",
        f"{evaluated} of {total} tokens evaluated",
        ratios,
        max(ratios),
    )

    say("a long prompt arrives")
    pauses = [long_prompt_arrives(model, work, number) for number in numbers]
    ratios = [longest / chunk for longest, _, chunk in pauses]
    add(
        "longest pause of a stream / longest chunk",
        f"{digits(1000 * max(longest for longest, *_ in pauses))} ms",
        ratios,
        max(ratios),
    )

    say("cancel")
    cancels = [cancelled(model, work, number) for number in range(4 * rounds)]
    ratios = [took / batch for took, batch in cancels]
    add("cancel / one batch", f"{digits(1000 * median(took for took, _ in cancels))} ms", ratios, max(ratios))
    return rows


def main() -> None:
    """The command line."""
    options = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n\n")[0],
        epilog=(__doc__ or "").partition("\n\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_argument("--agents", type=int, default=8, help="at once (default: 8)")
    options.add_argument("--tokens", type=int, default=64, help="of each reply (default: 64)")
    options.add_argument("--prompt", type=int, default=300, help="characters of each own prompt (default: 300)")
    options.add_argument("--system", type=int, default=3000, help="characters of the shared prompt (default: 3000)")
    options.add_argument("--rounds", type=int, default=5, help="of each comparison (default: 5)")
    options.add_argument("--threads", type=int, help="of llama.cpp (default: what the runtime takes)")
    options.add_argument("--model", type=Path, help="a GGUF file instead of the random one")
    chosen = options.parse_args()
    work = Work(chosen.agents, chosen.tokens, chosen.prompt, chosen.system)
    say = Progress()
    with tempfile.TemporaryDirectory() as folder:
        say("writing the model")
        file = chosen.model or write_random_model(Path(folder))[0]
        with load_model(file, backend="llama", context_tokens=4096, threads=chosen.threads) as model:
            rows = measure(model, work, chosen.rounds, say)
    say.clear()
    print(table(rows))
    print(machine())


if __name__ == "__main__":
    main()
