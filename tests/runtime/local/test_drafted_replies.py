"""Drafting on a real model: every reply is the one that it is without, and takes fewer batches."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cognition import GenerationOptions, History, ModelRequest, ToolSpec, UserMessage
from runtime import Done, LlamaOptions, load_model
from runtime.local.handles import LocalRuntime
from tests.runtime.conftest import installed_or_skip
from tests.runtime.watching import Batch, watch

pytestmark = pytest.mark.llama

TEXTS = [
    "Say it again: one two three four, one two three four.",
    "Hello!",
    "The lazy dog jumps. The lazy dog jumps. The lazy",
    "abcabcabcabc",
    "Count 1 2 3 4 5 1 2 3 4 5 1 2",
]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random weights with wide logits: no two tokens are nearly tied, so that rounding decides nothing."""
    installed_or_skip("llama")
    models = pytest.importorskip("tests.runtime.tiny_models")
    written: Path = models.write_model(tmp_path_factory.mktemp("models") / "tiny.gguf")
    return written


@pytest.fixture(scope="module")
def plain(file: Path) -> Iterator[LocalRuntime]:
    with load_model(file, context_tokens=512, options=LlamaOptions(drafting=False)) as model:
        yield model


@pytest.fixture(scope="module")
def drafting(file: Path) -> Iterator[LocalRuntime]:
    with load_model(file, context_tokens=512, options=LlamaOptions(drafting=True)) as model:
        yield model


class Noted:
    """What was evaluated."""

    def __init__(self, model: LocalRuntime) -> None:
        self.model = model
        self.batches: list[Batch] = []

    def __enter__(self) -> Noted:
        backend: Any = self.model._owner.call(lambda engine: engine._backend)
        self._patch = pytest.MonkeyPatch()

        def noted(batch: Batch, evaluate: Callable[[], bool]) -> bool:
            self.batches.append(batch)
            return evaluate()

        watch(backend, noted, self._patch)
        return self

    def __exit__(self, *_exception: object) -> None:
        self._patch.undo()

    @property
    def guesses(self) -> int:
        return sum(piece.guesses for batch in self.batches for piece in batch)


def ask(text: str, tools: tuple[ToolSpec, ...] = (), **options: Any) -> ModelRequest:
    return ModelRequest("", History((UserMessage("m1", text),)), tools, GenerationOptions(**options))


def replies(model: LocalRuntime, requests: list[ModelRequest], *, together: bool = False) -> list[Done]:
    found: list[Done] = []
    gate = threading.Event()
    generations = []
    if together:
        model._owner.put(lambda _engine: bool(gate.wait(60)))
        generations = [model.submit(request) for request in requests]
        gate.set()
    for place, request in enumerate(requests):
        *_, last = generations[place] if together else model.submit(request)
        assert isinstance(last, Done)
        found.append(last)
    check_cache(model)
    return found


def check_cache(model: LocalRuntime) -> None:
    """What llama.cpp holds is what the plan believes."""
    import llama_cpp.llama_cpp as native

    def look(engine: Any) -> tuple[dict[int, int], dict[int, int]]:
        cache, memory = engine._schedule.cache, engine._backend._memory
        real = {n: native.llama_memory_seq_pos_max(memory, n) + 1 for n in range(engine._backend.limits.sequences + 1)}
        believed = {sequence: len(held.tokens) for sequence, held in cache.held.items()}
        return believed, {sequence: length for sequence, length in real.items() if length}

    believed, real = model._owner.call(look)
    assert believed == real


def said(dones: list[Done]) -> list[tuple[str, str, str, int]]:
    return [(done.text, done.reasoning, done.finish_reason, done.usage.output_tokens) for done in dones]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 1.0, "seed": 7},
        {"temperature": 2.0, "seed": 8, "top_k": 20, "min_p": 0.01},
        {"repeat_penalty": 1.3, "frequency_penalty": 0.2},
        {"stop": ("z", "q\x10")},
    ],
    ids=["greedy", "seeded", "seeded and shaped", "penalties", "stops"],
)
@pytest.mark.parametrize("together", [False, True], ids=["one after another", "at once"])
def test_replies_are_the_same(
    plain: LocalRuntime, drafting: LocalRuntime, options: dict[str, Any], together: bool
) -> None:
    """Whatever the options, alone and in company: text, reason and count of tokens."""
    requests = [ask(text, max_tokens=80, **options) for text in TEXTS]
    expected = said(replies(plain, requests, together=together))
    with Noted(drafting) as noted:
        assert said(replies(drafting, requests, together=together)) == expected
    assert noted.guesses > 0


def test_what_repeats_takes_fewer_batches(plain: LocalRuntime, drafting: LocalRuntime) -> None:
    """A greedy model with random weights soon goes in circles, and is then guessed right."""
    requests = [ask(text, max_tokens=200) for text in TEXTS]
    counts = []
    for model in (plain, drafting):
        with Noted(model) as noted:
            dones = replies(model, requests)
        counts.append(len(noted.batches))

    assert sum(done.usage.output_tokens for done in dones) > 500
    assert counts[1] < 0.75 * counts[0]


def test_a_reply_ends_where_its_tokens_do(plain: LocalRuntime, drafting: LocalRuntime) -> None:
    """Not with the guesses that came true behind the last one that it may have."""
    for limit in range(1, 40, 3):
        requests = [ask(text, max_tokens=limit) for text in TEXTS[:3]]
        assert said(replies(drafting, requests)) == said(replies(plain, requests))


def test_a_full_context_is_not_exceeded(file: Path) -> None:
    """Guesses take the cells that the reply was promised, and no others."""
    requests = [ask(text, max_tokens=1000) for text in TEXTS]
    found = []
    for drafting in (False, True):
        options = LlamaOptions(drafting=drafting, cells=130, sequences=3)
        with load_model(file, context_tokens=130, options=options) as small, Noted(small) as noted:
            found.append(said(replies(small, requests, together=True)))
            used = small._owner.call(lambda engine: engine._schedule.cache.cells)
            assert used <= 130
            assert (noted.guesses > 0) == drafting

    assert found[0] == found[1]


def test_a_batch_has_no_more_guesses_than_are_allowed(drafting: LocalRuntime) -> None:
    """All replies together."""
    limits = drafting._owner.call(lambda engine: engine._backend.limits)
    with Noted(drafting) as noted:
        replies(drafting, [ask(text, max_tokens=60) for text in TEXTS * 4], together=True)

    assert max(sum(piece.guesses for piece in batch) for batch in noted.batches) <= limits.guesses
    assert max(len(batch) for batch in noted.batches) > 8


def test_cancelled_with_guesses_under_way(plain: LocalRuntime, drafting: LocalRuntime) -> None:
    """What was guessed for it stays in the cache as what it is, and is of no harm to others."""
    requests = [ask(text, max_tokens=80) for text in TEXTS]
    expected = said(replies(plain, requests))
    for patience in (1, 5, 20, 40):
        generations = [drafting.submit(request) for request in requests]
        for generation in generations:
            for _ in range(patience):
                if isinstance(next(generation, None), Done | None):
                    break
            generation.cancel()
        for generation in generations:
            list(generation)
        check_cache(drafting)

    assert said(replies(drafting, requests)) == expected


SCHEMA = {
    "type": "object",
    "properties": {"items": {"type": "array", "items": {"enum": ["one two three", "two"]}, "minItems": 6}},
    "required": ["items"],
    "additionalProperties": False,
}


def test_a_grammar_is_kept_with_guesses(plain: LocalRuntime, drafting: LocalRuntime) -> None:
    """Each token is held to it as it is sampled, guessed or not; several at once."""
    pytest.importorskip("llguidance")
    requests = [
        ask(text, max_tokens=200, response_format=json.dumps(SCHEMA), temperature=1.0, seed=seed)
        for seed, text in enumerate(TEXTS)
    ]
    expected = replies(plain, requests)
    with Noted(drafting) as noted:
        assert said(replies(drafting, requests, together=True)) == said(expected)
    assert noted.guesses > 0
    assert any(done.finish_reason == "stop" for done in expected)
    for done in expected:
        if done.finish_reason == "stop":
            assert len(json.loads(done.text)["items"]) >= 6


def test_recurrent_models_have_none(tmp_path: Path) -> None:
    """A guess could not be taken back."""
    models = pytest.importorskip("tests.runtime.tiny_models")
    file = models.write_model(tmp_path / "mamba.gguf", "mamba")
    with load_model(file, context_tokens=512, options=LlamaOptions(drafting=True)) as model, Noted(model) as noted:
        replies(model, [ask(TEXTS[0], max_tokens=60)])
        assert noted.guesses == 0
