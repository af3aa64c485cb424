"""Replies that share too small a cache: who is pushed out waits, goes on, and says what it would have said alone."""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from attrs import define, evolve, field
from hypothesis import given, settings, strategies as st

from cognition import GenerationOptions, History, ModelRequest, UserMessage
from cognition.parsing import Output
from runtime import Done, LlamaOptions, load_model
from runtime.local.engine import FULL, LocalEngine
from runtime.local.handles import LocalRuntime
from runtime.protocol.backend import Metadata, Sampler, SpecialTokens
from runtime.scheduling.plan import BatchPiece, Limits, Schedule
from runtime.scheduling.reservation import evict
from tests.runtime.conftest import installed_or_skip
from tests.runtime.mlx_models import write_tiny_model

END, CONTEXT = 256, 90
TEMPLATE = "{% for message in messages %}{{ message.role[0] }}{{ message.content }}\n{% endfor %}a"
SAID = b"ab.\xc3\xa9"
"""Bytes that it may say: also halves of a letter."""


@define
class Dice:
    """A sampler with a state: what it has thrown, and what it chose."""

    random: Random
    chosen: int = 0

    def close(self) -> None:
        pass


@define(eq=False, slots=False)
class Pool:
    """Tokens are bytes; what it says follows from all that its sequence holds and from its sampler's state."""

    limits: Limits
    ends: int = 60
    """One token in so many ends a turn."""
    sequences: dict[int, list[int]] = field(factory=dict)
    evaluated: int = 0
    """Tokens computed so far."""
    metadata: Metadata = Metadata("pool", "test", "1", "", CONTEXT, 0, TEMPLATE)
    special: SpecialTokens = SpecialTokens({"<end>": END}, {})
    vocabulary: int = 257
    rows: list[list[int]] = field(factory=list)
    last: Sequence[BatchPiece] = ()

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        return list(text.encode())

    def piece(self, token: int) -> bytes:
        return b"<end>" if token == END else bytes([token])

    def is_end(self, token: int) -> bool:
        return token == END

    def drop(self, sequence: int) -> None:
        self.sequences.pop(sequence, None)

    def cut(self, sequence: int, length: int) -> bool:
        del self.sequences[sequence][length:]
        return True

    def copy(self, source: int, target: int, length: int) -> None:
        assert target not in self.sequences
        assert self.limits.can_cut or length == len(self.sequences[source])
        self.sequences[target] = self.sequences[source][:length]

    def reset(self) -> None:
        self.sequences.clear()

    def sampler(self, options: GenerationOptions) -> Sampler:
        return Dice(Random(options.seed))

    def evaluate(self, batch: Sequence[BatchPiece]) -> bool:
        self.rows, self.last = [], batch
        for piece in batch:
            held = self.sequences.setdefault(piece.sequence, [])
            assert piece.start == len(held)
            for place, token in enumerate(piece.tokens):
                held.append(token)
                if place >= len(piece.tokens) - piece.guesses - 1:
                    self.rows.append(held[:])
            self.evaluated += len(piece.tokens)
        if not self.limits.copies_share:
            assert sum(map(len, self.sequences.values())) <= self.limits.cells
        return True

    def append_tokens(self, tokens: Sequence[int]) -> bool:
        held = self.sequences
        pieces = zip(self.last, tokens, strict=True)
        return self.evaluate(
            [
                BatchPiece(one.request, one.sequence, len(held[one.sequence]), (token,), last=True)
                for one, token in pieces
            ]
        )

    def sample(self, row: int, sampler: Sampler, allowed: bytes | None = None) -> int:
        assert isinstance(sampler, Dice)
        sampler.chosen += 1
        thrown = zlib.crc32(bytes(self.rows[row])) + sampler.random.randrange(2) + sampler.chosen // 16
        return END if thrown % self.ends == 0 else SAID[thrown % len(SAID)]

    def ready(self) -> None:
        pass

    def interrupt(self) -> None:
        pass

    def close(self) -> None:
        pass


@define
class Asked:
    """One reply: its request, and what came of it."""

    request: ModelRequest
    owner: int
    patience: int | None
    """How many outputs it wants; None: all."""
    outputs: list[Output] = field(factory=list)
    dones: list[Done] = field(factory=list)
    impatient: bool = False

    def emit(self, output: Output) -> None:
        self.outputs.append(output)

    def stopped(self) -> bool:
        return self.impatient and self.patience is not None and len(self.outputs) >= self.patience


def ask(text: str, system: str = "", **options: Any) -> ModelRequest:
    return ModelRequest(system, History((UserMessage("m1", text),)), (), GenerationOptions(**options))


def carried_out(backend: Pool, asked: Sequence[Asked], engine: LocalEngine | None = None) -> None:
    engine = engine or LocalEngine(backend)
    for one in asked:
        engine.submit(
            one.request, emit=one.emit, finish=one.dones.append, stopped=one.stopped, submitted=0.0, owner=one.owner
        )
    while engine.step(lambda: bool(backend.evaluated % 3)):
        engine.interrupt()  # so that whoever wants no more is found
    assert all(len(one.dones) == 1 for one in asked)
    held = {sequence: held.tokens[:] for sequence, held in engine._schedule.cache.held.items()}
    assert held == backend.sequences


def what_was_said(done: Done) -> tuple[object, ...]:
    return done.text, done.finish_reason, done.usage.input_tokens, done.usage.output_tokens, done.warnings


class PushedOut:
    """Counts who is pushed out, with less room promised than in earnest."""

    def __init__(self, patch: pytest.MonkeyPatch, at_first: int, more: int) -> None:
        self.times = 0
        self.now: Callable[[int], None] = lambda _request: None
        for module in ("runtime.local.engine", "runtime.scheduling.reservation"):
            patch.setattr(f"{module}.AT_FIRST", at_first)
        patch.setattr("runtime.scheduling.reservation.MORE", more)
        patch.setattr("runtime.local.engine.evict", self._push_out)

    def _push_out(self, schedule: Schedule, request: int) -> Schedule:
        self.times += 1
        self.now(request)
        return evict(schedule, request)


REQUESTS = st.lists(
    st.builds(
        Asked,
        st.builds(
            ask,
            st.text("abcé", max_size=20),
            st.sampled_from(["", "the same beginning"]),
            seed=st.integers(0, 9),
            stop=st.sampled_from([(), (), ("aa.", "b.b")]),
            max_tokens=st.sampled_from([None, None, None, 30]),
        ),
        st.integers(0, 2),
        st.one_of(st.none(), st.none(), st.integers(0, 30)),
    ),
    min_size=1,
    max_size=7,
)


@settings(max_examples=80, deadline=None)
@given(
    REQUESTS,
    st.integers(CONTEXT, 3 * CONTEXT),
    st.tuples(st.integers(1, 20), st.integers(1, 10)),
    st.tuples(st.booleans(), st.booleans(), st.sampled_from([0, 0, 6])),
    st.sampled_from([10, 60, 10_000]),
)
def test_each_says_what_it_would_have_said_alone(
    asked: list[Asked], cells: int, promised: tuple[int, int], layout: tuple[bool, bool, int], ends: int
) -> None:
    """With a sampler's state, stop texts, guesses and snapshots, whoever is pushed out and whoever is cancelled."""
    copies_share, can_cut, guesses = layout
    limits = Limits(cells, 4, 16, 8, can_cut, copies_share, guesses if can_cut else 0)
    with pytest.MonkeyPatch.context() as patch:
        pushed_out = PushedOut(patch, *promised)
        alone = [Asked(one.request, 0, None) for one in asked]
        roomy = Pool(limits, ends)
        engine = LocalEngine(roomy)
        for one in alone:
            carried_out(roomy, [one], engine)
        assert pushed_out.times == 0
        for one in asked:
            one.impatient = True
        carried_out(Pool(limits, ends), asked)

    for one, undisturbed in zip(asked, alone, strict=True):
        ((done,), (expected,)) = one.dones, undisturbed.dones
        if done.finish_reason == "cancelled":
            assert one.patience is not None
            assert expected.text.startswith(done.text.rstrip("\N{REPLACEMENT CHARACTER}"))
            assert done.usage.input_tokens in (0, expected.usage.input_tokens)
        else:
            assert what_was_said(done) == what_was_said(expected)


def test_cancelled_while_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends at once, with what it has said, and the other goes on."""
    pushed_out = PushedOut(monkeypatch, 10, 5)
    both = [Asked(ask("one", seed=1), 0, None), Asked(ask("two", seed=2), 0, None)]

    def give_up(request: int) -> None:
        assert request == 2  # the younger
        both[1].impatient, both[1].patience = True, 0

    pushed_out.now = give_up
    backend = Pool(Limits(CONTEXT, 4, 16, 8), ends=10_000)
    carried_out(backend, both)
    (first,), (second,) = both[0].dones, both[1].dones

    assert pushed_out.times == 1
    assert (second.finish_reason, second.usage.input_tokens) == ("cancelled", len("utwo\na"))
    assert second.usage.output_tokens > 10
    assert (first.finish_reason, first.usage.output_tokens) == ("length", CONTEXT - len("uone\na"))
    assert first.warnings == ()


def test_one_that_fills_the_whole_cache_alone_is_cut_and_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a cache holds less than one conversation of full length: nothing is gained by waiting."""
    pushed_out = PushedOut(monkeypatch, 10, 5)
    both = [Asked(ask("one", seed=1), 0, None), Asked(ask("two", seed=2), 0, None)]
    carried_out(Pool(Limits(CONTEXT // 2, 4, 16, 8), ends=10_000), both)

    assert pushed_out.times >= 1
    for one in both:
        (done,) = one.dones
        # The last token of a reply takes no cell.
        assert (done.finish_reason, done.usage.output_tokens) == ("length", CONTEXT // 2 - len("uone\na") + 1)
        assert done.warnings == (FULL,)


def test_an_error_ends_those_that_run_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits goes on, though the cache is empty then."""
    pushed_out = PushedOut(monkeypatch, 10, 5)
    backend = Pool(Limits(CONTEXT, 4, 16, 8), ends=10_000)
    alone = Asked(ask("two", seed=2), 0, None)
    carried_out(Pool(backend.limits, backend.ends), [alone])
    both = [Asked(ask("one", seed=1), 0, None), Asked(ask("two", seed=2), 0, None)]
    evaluate = backend.evaluate

    def fail(batch: Sequence[BatchPiece]) -> bool:
        monkeypatch.setattr(backend, "evaluate", evaluate)
        raise RuntimeError("broken")

    pushed_out.now = lambda _request: monkeypatch.setattr(backend, "evaluate", fail)
    carried_out(backend, both)

    assert pushed_out.times == 1
    assert both[0].dones[0].finish_reason == "error"
    assert what_was_said(both[1].dones[0]) == what_was_said(alone.dones[0])


MODELS = [
    *(
        pytest.param(("llama", kind, drafting), marks=pytest.mark.llama, id=f"llama-{kind}{'-drafting' * drafting}")
        for kind, drafting in (("qwen3", False), ("qwen3", True), ("jamba", False))
    ),
    *(pytest.param(("mlx", kind, False), marks=pytest.mark.mlx, id=f"mlx-{kind}") for kind in ("attention", "hybrid")),
]
ROOM = 256
TEXTS = ["Say it again: one two three four.", "Hello!", "The lazy dog jumps. The lazy", "abcabcabcabc"]
SCHEMA = {
    "type": "object",
    "properties": {"words": {"type": "array", "items": {"type": "string"}, "minItems": 30}},
    "required": ["words"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalRuntime]:
    """Random weights in a cache that has room for one conversation of full length, and four sequences."""
    backend, kind, drafting = request.param
    installed_or_skip(backend)
    folder: Path = tmp_path_factory.mktemp("models")
    if backend == "mlx":
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("runtime.mlx.backend.CACHE_BYTES", 1)
            loaded = load_model(write_tiny_model(folder, kind), context_tokens=ROOM)
    else:
        file = pytest.importorskip("tests.runtime.tiny_models").write_model(folder / f"{kind}.gguf", kind)
        # Exact numbers: what is evaluated again comes in other batches, and rounding must not decide between tokens.
        exact = LlamaOptions(key_type="f32", flash_attention=False)
        options = evolve(exact, unified=True, cells=ROOM, sequences=4, drafting=drafting)
        loaded = load_model(file, context_tokens=ROOM, options=options)
    with loaded:
        limits = loaded._owner.call(lambda engine: engine._schedule.limits)
        assert (limits.cells, limits.sequences) == (ROOM, 4)
        yield loaded


def replies(model: LocalRuntime, requests: Sequence[ModelRequest], *, together: bool) -> list[Done]:
    gate = threading.Event()
    if together:
        model._owner.put(lambda _engine: bool(gate.wait(60)))
    dones = list[Done]()
    generations = []
    for request in requests:
        generations.append(model.submit(request))
        if not together:
            dones += [one for one in generations.pop() if isinstance(one, Done)]
    gate.set()
    return [*dones, *(one for generation in generations for one in generation if isinstance(one, Done))]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 1.0, "seed": 7},
        {"repeat_penalty": 1.3, "frequency_penalty": 0.2},
        {"response_format": json.dumps(SCHEMA), "temperature": 1.0, "seed": 3},
    ],
    ids=["greedy", "seeded", "penalties", "constrained"],
)
def test_on_a_real_model(model: LocalRuntime, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reply, up to the end of its own context, is what it is alone."""
    if "response_format" in options:
        pytest.importorskip("llguidance")
    pushed_out = PushedOut(monkeypatch, 48, 24)
    requests = [ask(text, **options) for text in TEXTS]
    alone = [what_was_said(done) for done in replies(model, requests, together=False)]
    assert pushed_out.times == 0
    together = [what_was_said(done) for done in replies(model, requests, together=True)]

    assert together == alone
    assert pushed_out.times > 0
