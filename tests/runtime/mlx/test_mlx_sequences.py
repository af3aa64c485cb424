"""Sequences on MLX, on tiny models of each kind of cache: whatever is done in any order, each is what it is alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from cognition import AssistantMessage, GenerationOptions, History, ModelRequest, UserMessage
from runtime import Done, SavedCacheError, load_model
from runtime.local.handles import LocalRuntime
from runtime.models.saved_cache import SavedPrefix, read, write
from runtime.scheduling.plan import BatchPiece, Schedule
from tests.runtime.conftest import installed_or_skip
from tests.runtime.mlx_models import KINDS, write_tiny_model

pytestmark = pytest.mark.mlx

SEQUENCES = st.integers(0, 3)
APPENDED = st.dictionaries(
    SEQUENCES, st.tuples(st.lists(st.integers(0, 255), min_size=1, max_size=6), st.booleans()), min_size=1
)
STEPS = st.lists(
    st.tuples(st.just("append"), APPENDED, st.integers(0, 3))
    | st.tuples(st.just("say"), st.sets(SEQUENCES, min_size=2), st.integers(0, 255))
    | st.tuples(st.sampled_from(["cut", "copy", "drop"]), st.tuples(SEQUENCES, SEQUENCES), st.integers(0, 9)),
    min_size=1,
    max_size=10,
)


@pytest.fixture(scope="module", params=KINDS)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalRuntime]:
    installed_or_skip("mlx")
    folder = write_tiny_model(tmp_path_factory.mktemp("tiny"), request.param)
    with load_model(folder, backend="mlx") as loaded:
        yield loaded


class Bench:
    """A backend and what its sequences should hold; on the owner's thread."""

    def __init__(self, backend: Any) -> None:
        self.backend = backend
        self.held: dict[int, list[int]] = {}

    def append(self, more: dict[int, tuple[list[int], bool]]) -> None:
        batch = [
            BatchPiece(number, sequence, len(self.held.get(sequence, [])), tuple(tokens), last=last)
            for number, (sequence, (tokens, last)) in enumerate(more.items())
        ]
        assert self.backend.evaluate(batch)
        for sequence, (tokens, _) in more.items():
            self.held[sequence] = self.held.get(sequence, []) + tokens
        for row, piece in enumerate(batch):
            if piece.last:
                self.check(row, self.held[piece.sequence])

    def check(self, row: int, tokens: list[int]) -> None:
        """What the model says is what it says after the same tokens alone, evaluated at once."""
        import mlx.core as mx
        import numpy
        from mlx_lm.models.cache import make_prompt_cache

        model = self.backend._model
        alone = model(mx.array([tokens]), cache=make_prompt_cache(model))[0, -1]

        assert self.backend._logits[row] == pytest.approx(numpy.array(alone), rel=1e-3, abs=2e-3)

    def change(self, what: str, source: int, target: int, number: int) -> None:
        if source not in self.held:
            return
        tokens = self.held[source]
        length = 1 + number % len(tokens)
        if what == "drop":
            self.backend.drop(source)
            del self.held[source]
        elif what == "cut":
            done = self.backend.cut(source, length)
            assert done == (self.backend.limits.can_cut or length == len(tokens))
            self.held[source] = tokens[:length]
            if not done:
                del self.held[source]
        elif target not in self.held:
            length = length if self.backend.limits.can_cut else len(tokens)
            self.backend.copy(source, target, length)
            self.held[target] = tokens[:length]


@settings(max_examples=10)
@given(steps=STEPS)
def test_sequences_do_not_know_of_each_other(model: LocalRuntime, steps: list[Any]) -> None:
    """Appended to together and apart, cut, copied and dropped: logits are those of each sequence alone."""

    def run(engine: Any) -> None:
        bench = Bench(engine._backend)
        bench.backend.reset()
        for what, which, number in steps:
            if what == "append":
                bench.append(which)
            elif what == "say":
                bench.append({sequence: ([number], True) for sequence in sorted(which)})
            else:
                bench.change(what, *which, number)
        bench.backend.reset()

    model._owner.call(run)


def ask(*texts: str, **options: Any) -> ModelRequest:
    """A conversation, whose answers are every second text."""
    messages = [
        UserMessage(f"m{n}", text) if n % 2 == 0 else AssistantMessage(f"m{n}", text, "", ())
        for n, text in enumerate(texts)
    ]
    return ModelRequest("", History(tuple(messages)), (), GenerationOptions(**options))


def finished(generation: Any) -> Done:
    *_, done = generation
    assert isinstance(done, Done)
    assert done.failure is None
    return done


def test_agents_at_once_say_what_each_says_alone(model: LocalRuntime) -> None:
    """Greedy, through the whole runtime: more agents than one, twice, and prompts of many lengths."""
    requests = [ask(f"{n} " * (5 + 9 * n), max_tokens=12) for n in range(5)]
    alone = [finished(model.submit(request)) for request in requests]
    together = [finished(one) for one in [model.submit(request) for request in requests * 2]]

    assert [(one.reasoning, one.text) for one in together] == [(one.reasoning, one.text) for one in alone] * 2


def test_usage_says_what_was_evaluated(model: LocalRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not reused is evaluated; what the last prompt is the beginning of goes on from it, whatever the cache."""
    backend = model._owner.call(lambda engine: engine._backend)
    evaluate, evaluated = backend.evaluate, list[int]()

    def noted(batch: Any) -> bool:
        evaluated.append(sum(len(piece.tokens) for piece in batch))
        return bool(evaluate(batch))

    monkeypatch.setattr(backend, "evaluate", noted)
    first, goes_on, other = (
        ask("Hello", max_tokens=1),
        ask("Hello", "Hi", "More", max_tokens=1),
        ask("Hi", max_tokens=1),
    )
    replies = []
    for request in (first, goes_on, other):
        evaluated.clear()
        reply = finished(model.submit(request))
        replies.append(reply.usage)
        assert sum(evaluated) == reply.usage.input_tokens - reply.usage.reused_tokens

    begins = model._owner.call(lambda engine: engine.prompt(first))
    assert model._owner.call(lambda engine: engine.prompt(goes_on))[: len(begins)] == begins
    assert replies[1].reused_tokens == len(begins)


def test_a_saved_cache_goes_on_in_another_process(model: LocalRuntime, tmp_path: Path) -> None:
    """It says what the first would have said, and reuses what that one held; a damaged state is refused."""
    first, goes_on = ask("Hello", max_tokens=1), ask("Hello", "Hi", "More", max_tokens=12)
    model._owner.call(forget)
    finished(model.submit(first))
    saved = model.save_cache(first, tmp_path / "cache")
    there = finished(model.submit(goes_on))
    with load_model(model.describe().path, backend="mlx") as other:
        assert other.restore_cache(tmp_path / "cache") == saved
        here = finished(other.submit(goes_on))

        assert saved == here.usage.reused_tokens == first_tokens(other, first)
        assert (here.reasoning, here.text) == (there.reasoning, there.text)
        other._owner.call(forget)
        identity = other._owner.call(lambda engine: engine.identity())
        good = read(tmp_path / "cache", identity)
        write(SavedPrefix(good.tokens, good.state[: len(good.state) // 2], identity), tmp_path / "cache")
        with pytest.raises(SavedCacheError, match="can't take back a state"):
            other.restore_cache(tmp_path / "cache")
        assert finished(other.submit(first)).usage.reused_tokens == 0


def forget(engine: Any) -> None:
    engine._backend.reset()
    engine._schedule = Schedule(engine._schedule.limits)


def first_tokens(model: LocalRuntime, request: ModelRequest) -> int:
    return len(model._owner.call(lambda engine: engine.prompt(request)))
