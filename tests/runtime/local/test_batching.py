"""Many replies at once, with the shipped model on each backend: each is what it would be alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cognition import GenerationOptions, History, ModelRequest, UserMessage
from runtime import Done
from runtime.local.handles import LocalRuntime
from runtime.scheduling.plan import BatchPiece
from tests.runtime.conftest import BACKENDS, POOL, load_or_skip
from tests.runtime.watching import Batch, Look, following, watch

SYSTEM = "You are one of many agents. " * 12
TASKS = [
    "Add 2 and 3.",
    "What is 17 * 23?",
    "Name a colour.",
    "Hello!",
    "Count to ten.",
    "Why?",
    "List files.",
    "Stop.",
]


@pytest.fixture(scope="module", params=[*BACKENDS, POOL])
def model(request: pytest.FixtureRequest) -> Iterator[LocalRuntime]:
    with load_or_skip(request.param) as loaded:
        yield loaded


def asked(text: str, **options: Any) -> ModelRequest:
    return ModelRequest(SYSTEM, History((UserMessage("m1", text),)), (), GenerationOptions(**options))


def done(outputs: Any) -> Done:
    *_, last = outputs
    assert isinstance(last, Done)
    return last


def said(reply: Done) -> tuple[str, str]:
    return reply.reasoning, reply.text


class Batches:
    """Looks at what is evaluated."""

    def __init__(self, model: LocalRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
        self.engine = model._owner.call(lambda engine: engine)
        self.backend: Any = self.engine._backend
        self.seen: list[Batch] = []
        self.evaluate: Look = lambda _batch, evaluate: evaluate()
        """What is done in the place of the backend."""
        watch(self.backend, self._look, monkeypatch)

    def _look(self, batch: Batch, evaluate: Callable[[], bool]) -> bool:
        self.seen.append(batch)
        return self.evaluate(batch, evaluate)


@pytest.fixture
def batches(model: LocalRuntime, monkeypatch: pytest.MonkeyPatch) -> Batches:
    return Batches(model, monkeypatch)


def hold(model: LocalRuntime) -> threading.Event:
    """Keeps the owner's thread busy until the event is set: what is submitted meanwhile begins together."""
    gate = threading.Event()
    model._owner.put(lambda _engine: bool(gate.wait(60)))
    return gate


def test_eight_streams_are_what_each_is_alone(model: LocalRuntime, batches: Batches) -> None:
    """They share batches, and their greedy replies are the same token for token.

    Batching can change the last bits of logits (other kernels for other sizes), so a tie between two tokens could fall
    otherwise; with the shipped model on a CPU it does not, and ``test_logits_in_a_batch`` bounds the difference.
    """
    alone = [said(done(model.submit(asked(task, max_tokens=24)))) for task in TASKS]
    batches.seen.clear()
    gate = hold(model)
    generations = [model.submit(asked(task, max_tokens=24)) for task in TASKS]
    gate.set()
    together = [said(done(generation)) for generation in generations]

    assert together == alone
    assert max(len(batch) for batch in batches.seen) == len(TASKS)


def test_what_all_share_is_evaluated_once(model: LocalRuntime, batches: Batches) -> None:
    """Eight agents that begin together with a system prompt that no one has asked with before."""
    system = "A system prompt of this test alone, with tools and rules. " * 10
    gate = hold(model)
    requests = [
        ModelRequest(system, History((UserMessage("m1", task),)), (), GenerationOptions(max_tokens=1)) for task in TASKS
    ]
    generations = [model.submit(request) for request in requests]
    gate.set()
    replies = [done(generation) for generation in generations]
    evaluated = sum(len(piece.tokens) for batch in batches.seen for piece in batch)
    total = sum(reply.usage.input_tokens for reply in replies)
    own = total - 8 * min(reply.usage.reused_tokens for reply in replies[1:])

    assert total - sum(reply.usage.reused_tokens for reply in replies) == evaluated
    assert evaluated <= own + replies[0].usage.input_tokens
    assert evaluated < total / 2


def test_a_long_prompt_does_not_stop_a_stream(
    model: LocalRuntime, batches: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two chunks of it comes a token of the stream, which waits for the prompt to be there."""
    (token,) = batches.backend.tokenize("a", special=False)
    monkeypatch.setattr(batches.backend, "sample", lambda *_: token)  # a stream that does not end by itself
    arrived = threading.Event()

    def once_it_arrived(batch: Batch, evaluate: Callable[[], bool]) -> bool:
        if len(batch[0].tokens) == 1:
            assert arrived.wait(60)
        return evaluate()

    batches.evaluate = once_it_arrived
    stream = model.submit(asked("Tell me", max_tokens=1000))
    next(stream)
    prompt = model.submit(asked("far too long " * 100, max_tokens=1))
    arrived.set()
    reply = done(prompt)
    stream.cancel()
    list(stream)

    chunk = batches.backend.limits.chunk
    pieces = [(piece.request, len(piece.tokens)) for batch in batches.seen for piece in batch]
    streaming, long = sorted({request for request, _ in pieces})
    places = [place for place, (request, _) in enumerate(pieces) if request == long]
    order = pieces[places[0] : places[-1] + 1]
    chunks = order[::2]
    assert reply.finish_reason == "length"
    assert len(chunks) >= 3
    assert chunks[:-1] == [(long, chunk)] * (len(chunks) - 1)
    assert chunks[-1][0] == long
    assert order[1::2] == [(streaming, 1)] * (len(chunks) - 1)


def test_cancelling_one_of_many_leaves_the_others_alone(
    model: LocalRuntime, batches: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends with the batch, which is aborted only if nobody else has a part in it; the others' tokens are what they
    would have been.
    """
    alone = [said(done(model.submit(asked(task, max_tokens=16)))) for task in TASKS[:3]]
    gate = hold(model)
    generations = [model.submit(asked(task, max_tokens=16)) for task in TASKS[:3]]
    victim = model.submit(asked("Write " + "on and on " * 100, max_tokens=16))
    aborted: list[set[int]] = []
    behind: list[int] = []

    def cancelling(batch: Batch, evaluate: Callable[[], bool]) -> bool:
        if any(len(piece.tokens) > 64 for piece in batch):
            victim.cancel()
            behind.append(len(batches.seen))
        whole = evaluate()
        if not whole:
            aborted.append({piece.request for piece in batch})
        return whole

    batches.evaluate = cancelling
    gate.set()
    together = [said(done(generation)) for generation in generations]
    cancelled = done(victim)

    assert together == alone
    assert (cancelled.finish_reason, cancelled.usage.output_tokens) == ("cancelled", 0)
    assert len(behind) == 1  # no second batch with it
    assert all(len(requests) == 1 for requests in aborted)
    check_cache(model)


def test_a_batch_that_nobody_wants_is_aborted(model: LocalRuntime, batches: Batches) -> None:
    """Cancelled in prefill, alone: llama.cpp returns before it is done, and the cache is as before.

    MLX can't be aborted: there the batch is evaluated, and nothing after it.
    """
    victim: list[Any] = []
    results: list[bool] = []

    def cancelling(batch: Batch, evaluate: Callable[[], bool]) -> bool:
        if len(batch[0].tokens) > 64:
            victim[0].cancel()
        results.append(evaluate())
        return results[-1]

    batches.evaluate = cancelling
    gate = hold(model)
    victim.append(model.submit(asked("Nobody wants " + "this text " * 100)))
    gate.set()
    cancelled = done(victim[0])

    assert cancelled.finish_reason == "cancelled"
    assert results == [model.describe().backend == "mlx"]
    check_cache(model)


@pytest.mark.llama
def test_of_an_aborted_batch_nothing_stays() -> None:
    """Also where llama.cpp evaluates it in parts, and was through with the first."""
    import llama_cpp.llama_cpp as native

    def look(engine: Any) -> list[tuple[bool, dict[int, int]]]:
        backend = engine._backend
        backend.ready()
        assert backend.evaluate([BatchPiece(0, 0, 0, (1, 2, 3), last=True)])
        calls, most, seen = 0, 1_000_000, list[tuple[bool, dict[int, int]]]()

        @native.ggml_abort_callback
        def abort(_data: Any) -> bool:
            nonlocal calls
            calls += 1
            return calls > most

        native.llama_set_abort_callback(backend._context, abort, None)
        unequal = [BatchPiece(0, 0, 3, (4,) * 20, last=True), BatchPiece(1, 1, 0, (5,) * 10, last=True)]
        assert backend.evaluate(unequal)
        assert backend.cut(0, 3)
        backend.drop(1)
        whole, parts = calls, range(0, calls, calls // 20)
        for part in parts:
            calls, most = 0, part
            seen.append((backend.evaluate(unequal), lengths(backend)))
            most = 1_000_000
            assert backend.evaluate([BatchPiece(0, 0, 3, (4,), last=True), BatchPiece(1, 1, 0, (5,), last=True)])
            calls, most = 0, min(part, 20)
            seen.append((backend.append_tokens([4, 5]), lengths(backend)))
            assert backend.cut(0, 3)
            backend.drop(1)
        assert whole > 20
        return seen

    with load_or_skip("llama", 512) as model:
        assert set(map(repr, model._owner.call(look))) == {repr((False, {0: 3})), repr((False, {0: 4, 1: 1}))}


@pytest.mark.parametrize("backend", BACKENDS)
def test_going_on_is_to_evaluate_the_next_pieces(backend: str) -> None:
    """Given the tokens alone, the backend says what it says behind whole pieces."""

    def look(engine: Any) -> list[list[list[int]]]:
        backend, said = engine._backend, list[list[list[int]]]()
        for whole in (True, False):
            backend.reset()
            backend.ready()
            samplers = [backend.sampler(GenerationOptions(temperature=1.0, seed=seed)) for seed in range(3)]
            sizes = (5, 40, 2)
            for place, size in enumerate(sizes):
                assert backend.evaluate([BatchPiece(place, place, 0, tuple(range(10, 10 + size)), last=True)])
            batch: Batch = tuple(BatchPiece(place, place, size, (7,), last=True) for place, size in enumerate(sizes))
            assert backend.evaluate(batch)
            said.append([])
            for _ in range(8):
                tokens = [backend.sample(row, sampler) for row, sampler in enumerate(samplers)]
                said[-1].append(tokens)
                batch = following(batch, tokens)
                assert backend.evaluate(batch) if whole else backend.append_tokens(tokens)
            for sampler in samplers:
                sampler.close()
        return said

    with load_or_skip(backend, 512) as model:
        evaluated, gone_on = model._owner.call(look)

    assert gone_on == evaluated
    assert len(set(map(tuple, evaluated))) > 4


def check_cache(model: LocalRuntime) -> None:
    """What the backend holds is what the plan believes: every sequence to its last position, and nobody runs."""

    def look(engine: Any) -> tuple[dict[int, int], dict[int, int]]:
        cache = engine._schedule.cache
        assert engine._replies == {}
        assert engine._schedule.running == {}
        assert engine._schedule.waiting == ()
        return {sequence: len(held.tokens) for sequence, held in cache.held.items()}, lengths(engine._backend)

    believed, real = model._owner.call(look)
    assert believed == real


def lengths(backend: Any) -> dict[int, int]:
    """How many tokens native code holds of each sequence."""
    if backend.metadata.backend == "mlx":
        sequences = backend._sequences
        alone = {sequence: layers[0].offset for sequence, layers in sequences._alone.items()}
        rows = {row: sequences._batch[0].offset.tolist()[n] for n, row in enumerate(sequences._rows) if row is not None}
        return {**alone, **rows}
    import llama_cpp.llama_cpp as native

    real = {n: native.llama_memory_seq_pos_max(backend._memory, n) + 1 for n in range(backend.limits.sequences)}
    return {sequence: length for sequence, length in real.items() if length}


@pytest.mark.parametrize("backend", [*BACKENDS, POOL])
def test_more_conversations_than_the_cache_holds(backend: str) -> None:
    """Old ones are evicted; every reply is right, whatever had to go for it."""
    texts = [f"Question {n}: " + "why " * (10 + 7 * n) for n in range(9)]
    with load_or_skip(backend, 160) as small:
        limits = small._owner.call(lambda engine: engine._schedule.limits)
        requests = [
            ModelRequest("", History((UserMessage("m", text),)), (), GenerationOptions(max_tokens=8)) for text in texts
        ]
        alone = [said(done(small.submit(request))) for request in requests]
        for _ in range(2):
            generations = [small.submit(request) for request in requests * 3]
            together = [said(done(generation)) for generation in generations]
            assert together == alone * 3
        check_cache(small)
        used = small._owner.call(lambda engine: engine._schedule.cache.cells)

        assert used <= limits.cells


def test_logits_in_a_batch(model: LocalRuntime) -> None:
    """Beside seven others, a token's logits differ from those alone by rounding only: by less than a hundredth.

    Two tokens closer than that could change places in a batch; the shipped model's choices differ by far more.
    """
    import numpy

    def logits(engine: Any, company: int) -> Any:
        backend = engine._backend
        backend.reset()
        backend.ready()
        tokens = tuple(backend.tokenize(SYSTEM, special=False)[:64])
        others = [tuple(backend.tokenize(task * 5, special=False)) for task in TASKS[:company]]
        for start in range(len(tokens)):
            piece = BatchPiece(0, 0, start, tokens[start : start + 1], last=True)
            rest = [
                BatchPiece(n, n, start, other[start : start + 1], last=True)
                for n, other in enumerate(others, 1)
                if start < len(other)
            ]
            assert backend.evaluate([*rest, piece])
            last = logits_behind(backend, len(rest))
        backend.reset()
        engine._schedule = type(engine._schedule)(engine._schedule.limits)
        return last

    alone = model._owner.call(lambda engine: logits(engine, 0))
    beside = model._owner.call(lambda engine: logits(engine, 7))

    assert numpy.abs(alone - beside).max() < 0.01


def test_a_row_is_its_pieces_own(model: LocalRuntime) -> None:
    """Also behind a piece in which nothing is said, and whatever order the backend evaluates them in."""

    def sample(engine: Any) -> tuple[list[int], list[int]]:
        backend = engine._backend
        prompts = [tuple(backend.tokenize(task, special=False)) for task in TASKS[:4]]
        sampler = backend.sampler(GenerationOptions(temperature=0))

        def next_tokens(pieces: list[BatchPiece]) -> list[int]:
            backend.reset()
            backend.ready()
            assert backend.evaluate(pieces)
            return [backend.sample(row, sampler) for row, piece in enumerate(pieces) if piece.last]

        alone = [next_tokens([BatchPiece(n, n, 0, prompt, last=True)])[0] for n, prompt in enumerate(prompts)]
        beginning = [BatchPiece(n, n, 0, prompts[0][:n], last=False) for n in (4, 5)]
        whole = [BatchPiece(n, n, 0, prompt, last=True) for n, prompt in enumerate(prompts)]
        together = next_tokens([beginning[0], whole[2], beginning[1], whole[0], whole[3], whole[1]])
        backend.reset()
        engine._schedule = type(engine._schedule)(engine._schedule.limits)
        sampler.close()
        return [alone[place] for place in (2, 0, 3, 1)], together

    alone, together = model._owner.call(sample)

    assert together == alone
    assert len(set(alone)) > 1


def logits_behind(backend: Any, row: int) -> Any:
    """What the model says behind a piece of the last batch."""
    import numpy

    if backend.metadata.backend == "mlx":
        return backend._logits[row].copy()
    import llama_cpp.llama_cpp as native

    pointer = native.llama_get_logits_ith(backend._context, backend._rows[row])
    return numpy.ctypeslib.as_array(pointer, shape=(backend.vocabulary,)).copy()
