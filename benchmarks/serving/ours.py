"""This library's side: a runtime whose replies are as long as the work says, and where its batches can be watched."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from attrs import evolve

from cognition import GenerationOptions, History, Message, ModelRequest, ToolSpec, UserMessage
from runtime import load_model
from runtime.local.handles import LocalGeneration
from runtime.protocol.model import Done
from runtime.scheduling.cache import Cache

WORDS = "the agent reads a file and writes what it found into the next one ".split()
FILLERS = (" the", " and", " of", " in", "a", "e")
"""What a forced reply consists of: the first one that is one token, and stays one when it is repeated."""


class Ours:
    """A loaded model.

    Every reply is one token, again and again, by its bias: random weights would end at random, and what is said has to
    be tokenised as it was sampled, or nothing of it could be reused.
    """

    def __init__(self, file: Path, *, context: int, threads: int | None = None) -> None:
        self.file = file
        self.context = context
        self._load(threads)
        self.threads = int(self._call(_threads))
        self.filler, self.token = self._call(_filler)

    def _load(self, threads: int | None) -> None:
        self.model = load_model(self.file, backend="llama", context_tokens=self.context, threads=threads)
        self.backend: Any = self._call(lambda engine: engine._backend)

    def _call(self, function: Callable[[Any], Any]) -> Any:
        """Something on the thread that owns the model: what a benchmark may know and a program need not."""
        return self.model._owner.call(function)

    def said(self, tokens: int) -> str:
        """The text of a reply of so many tokens."""
        return str(self.filler) * tokens

    def request(
        self, messages: Sequence[Message] | str, tokens: int, *, system: str = "", tools: tuple[ToolSpec, ...] = ()
    ) -> ModelRequest:
        """For a reply of exactly so many tokens."""
        if isinstance(messages, str):
            messages = (UserMessage("m1", messages),)
        options = GenerationOptions(max_tokens=tokens, logit_bias=((self.token, 100.0),))
        return ModelRequest(system, History(tuple(messages)), tools, options)

    def text(self, label: str, tokens: int) -> str:
        """A text of about so many tokens that begins with the label, so that nothing of it is in a cache."""
        words = [label, *(WORDS[place % len(WORDS)] for place in range(tokens))]
        return self._call(lambda engine: _cut(engine._backend, words, tokens))  # type: ignore[no-any-return]

    def prompt(self, request: ModelRequest) -> list[int]:
        """The tokens that the model is given, for those who are to be given the same."""
        return list(self._call(lambda engine: engine.prompt(request)))

    def submit(self, request: ModelRequest) -> LocalGeneration:
        return self.model.submit(request)

    def run(self, request: ModelRequest) -> Done:
        """One reply to its end."""
        return finished(self.model.submit(request))

    def bare_loop(self, request: ModelRequest, tokens: int) -> float:
        """Seconds of decoding so many tokens with nothing but ``llama_decode`` and a greedy sampler."""
        return float(self._call(lambda engine: _bare_loop(engine, request, tokens)))

    @contextmanager
    def batches(self) -> Iterator[list[tuple[int, float]]]:
        """The tokens and the seconds of each batch meanwhile."""
        evaluate, go_on = self.backend.evaluate, self.backend.append_tokens
        noted: list[tuple[int, float]] = []

        def watched(method: Any, size: Callable[[Any], int], batch: Any) -> Any:
            began = time.perf_counter()
            result = method(batch)
            noted.append((size(batch), time.perf_counter() - began))
            return result

        self.backend.evaluate = partial(watched, evaluate, lambda batch: sum(len(piece.tokens) for piece in batch))
        self.backend.append_tokens = partial(watched, go_on, len)
        try:
            yield noted
        finally:
            self.backend.evaluate, self.backend.append_tokens = evaluate, go_on

    def warm_up(self, tools: tuple[ToolSpec, ...]) -> None:
        """What happens once: pages of the weights, masks of the vocabulary, the derivation of the format."""
        self.run(self.request("warm up " * min(200, self.context // 8), 8, system="warm", tools=tools))

    def forget(self) -> None:
        """Empty the cache: every batch skips the cells of idle conversations (docs/concepts/scheduler.md)."""
        self._call(_forget)

    def renew(self) -> None:
        """Load the model again: where its memory lies makes it one or two hundredths faster or slower."""
        self.model.close()
        self._load(self.threads)
        self.warm_up(())

    def close(self) -> None:
        self.model.close()


def finished(generation: LocalGeneration) -> Done:
    """The end of a reply that has to be whole."""
    *_, done = generation
    assert isinstance(done, Done), done
    assert done.failure is None, done.failure
    return done


class Listener:
    """A thread that notes when each part of a stream comes."""

    def __init__(self, stream: LocalGeneration) -> None:
        self.stream = stream
        self.times: list[float] = []
        self.begun = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        for _ in self.stream:
            self.times.append(time.perf_counter())
            self.begun.set()
        self.begun.set()

    def stop(self) -> None:
        """End the stream, and come back when it has."""
        self.stream.cancel()
        self._thread.join()

    def pauses(self, since: float, until: float) -> list[float]:
        """Seconds between neighbouring tokens, of pauses that touch this stretch of time."""
        pairs = zip(self.times, self.times[1:], strict=False)
        return [after - before for before, after in pairs if after > since and before < until]


def _forget(engine: Any) -> None:
    assert not engine._replies
    engine._schedule = evolve(engine._schedule, cache=Cache())
    engine._backend.reset()


def _threads(engine: Any) -> int:
    import llama_cpp.llama_cpp as native

    return int(native.llama_n_threads(engine._backend._context))


def _filler(engine: Any) -> tuple[str, int]:
    for text in FILLERS:
        tokens = engine._backend.tokenize(text * 40, special=False)
        if len(tokens) == 40 and len(set(tokens)) == 1:
            return text, tokens[0]
    raise AssertionError("this tokenizer has none of the fillers")


def _cut(backend: Any, words: list[str], tokens: int) -> str:
    low, high = 1, len(words)
    while low < high:
        middle = (low + high + 1) // 2
        if len(backend.tokenize(" ".join(words[:middle]), special=False)) <= tokens:
            low = middle
        else:
            high = middle - 1
    return " ".join(words[:low])


def _bare_loop(engine: Any, request: ModelRequest, tokens: int) -> float:
    import llama_cpp.llama_cpp as native

    backend = engine._backend
    prompt = engine.prompt(request)
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

    backend.ready()
    for start in range(0, len(prompt), backend.limits.batch):
        decode(prompt[start : start + backend.limits.batch], start)
    native.llama_sampler_sample(chain, backend._context, -1)
    began = time.perf_counter()
    for place in range(tokens - 1):
        decode([prompt[-1]], len(prompt) + place)
        native.llama_sampler_sample(chain, backend._context, -1)
    seconds = time.perf_counter() - began
    backend.drop(sequence)
    native.llama_sampler_free(chain)
    native.llama_batch_free(batch)
    return seconds
