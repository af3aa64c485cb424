"""Recurrent and hybrid models, whose cache can't be cut, go back to snapshots. On real files with random weights."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cognition import AssistantMessage, GenerationOptions, History, Message, ModelRequest, UserMessage
from runtime import Done, LlamaOptions, load_model
from runtime.local.handles import LocalRuntime
from runtime.scheduling.plan import Schedule
from tests.runtime.conftest import installed_or_skip
from tests.runtime.mlx_models import write_tiny_model

MODELS = [
    *(pytest.param(("llama", kind), marks=pytest.mark.llama, id=f"llama-{kind}") for kind in ("mamba", "jamba")),
    *(
        pytest.param(("mlx", kind), marks=pytest.mark.mlx, id=f"mlx-{kind}")
        for kind in ("recurrent", "hybrid", "windows")
    ),
]

SYSTEM = "A system prompt with tools and rules. " * 4


@pytest.fixture(scope="module", params=MODELS)
def file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    backend, kind = request.param
    installed_or_skip(backend)
    folder = tmp_path_factory.mktemp("models")
    if backend == "mlx":
        return write_tiny_model(folder, kind)
    models = pytest.importorskip("tests.runtime.tiny_models")
    written: Path = models.write_model(folder / f"{kind}.gguf", kind)
    return written


def load_with(sequences: int, file: Path, context_tokens: int, patch: pytest.MonkeyPatch) -> LocalRuntime:
    """A runtime that tells so many sequences apart."""
    if file.is_file():
        return load_model(file, context_tokens=context_tokens, options=LlamaOptions(sequences=sequences))
    patch.setattr("runtime.mlx.backend.SEQUENCES", sequences)
    return load_model(file, context_tokens=context_tokens)


@pytest.fixture(scope="module")
def loaded(file: Path) -> Iterator[LocalRuntime]:
    with load_model(file, context_tokens=1024) as model:
        yield model


@pytest.fixture
def model(loaded: LocalRuntime) -> LocalRuntime:
    """With an empty cache."""
    loaded._owner.call(forget)
    return loaded


def forget(engine: Any) -> None:
    engine._backend.reset()
    engine._schedule = Schedule(engine._schedule.limits)


def ask(*texts: str, system: str = SYSTEM, max_tokens: int = 8) -> ModelRequest:
    """A conversation: what the user and the model said in turns."""
    messages: list[Message] = [
        AssistantMessage(f"m{place}", text) if place % 2 else UserMessage(f"m{place}", text)
        for place, text in enumerate(texts)
    ]
    return ModelRequest(system, History(tuple(messages)), (), GenerationOptions(max_tokens=max_tokens))


def done(model: LocalRuntime, request: ModelRequest) -> Done:
    *_, last = model.submit(request)
    assert isinstance(last, Done)
    assert last.failure is None
    return last


def tokens_of(model: LocalRuntime, text: str) -> int:
    return model._owner.call(lambda engine: len(engine._backend.tokenize(text, special=True)))


def test_a_second_turn_goes_on_from_the_end_of_the_last_message(model: LocalRuntime) -> None:
    """Also where the template writes the reply in other words than the model's: all up to there is reused."""
    first = done(model, ask("Hello"))
    second = done(model, ask("Hello", "Not what it said.", "And now?"))
    opening = tokens_of(model, "<|im_start|>assistant\n")

    assert first.usage.reused_tokens == 0
    assert second.usage.reused_tokens == first.usage.input_tokens - opening


def test_what_is_reused_says_the_same(model: LocalRuntime) -> None:
    """As when all of it is computed."""
    requests = [ask("Hello"), ask("Hello", "Hi.", "And now?"), ask("Hello", "Hi.", "Or so?"), ask("Other")]
    afresh = []
    for request in requests:
        model._owner.call(forget)
        afresh.append(done(model, request))
    model._owner.call(forget)
    reusing = [done(model, request) for request in requests]

    assert [reply.text for reply in reusing] == [reply.text for reply in afresh]
    assert {reply.usage.reused_tokens for reply in afresh} == {0}
    assert all(reply.usage.reused_tokens > tokens_of(model, SYSTEM) for reply in reusing[1:])


def test_another_conversation_shares_the_system_prompt(model: LocalRuntime) -> None:
    """Up to where the conversations begin."""
    done(model, ask("Hello"))
    other = done(model, ask("Something else"))
    shared = tokens_of(model, f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\n")

    assert other.usage.reused_tokens == shared


def test_where_nothing_can_be_reused_usage_says_so(model: LocalRuntime) -> None:
    """A conversation that begins otherwise shares no snapshot."""
    done(model, ask("Hello"))

    assert done(model, ask("Hello", system="Another prompt.")).usage.reused_tokens == 0
    assert "snapshots" in model.describe().features
    assert "prefix_reuse" not in model.describe().features


def test_agents_that_begin_together_pay_once(model: LocalRuntime) -> None:
    """The others wait for the first one's snapshot; and each says what it says alone."""
    requests = [ask(f"Agent {number}") for number in range(6)]
    alone = []
    for request in requests:
        model._owner.call(forget)
        alone.append(done(model, request).text)
    model._owner.call(forget)
    gate = threading.Event()
    model._owner.put(lambda _engine: bool(gate.wait(60)))
    generations = [model.submit(request) for request in requests]
    gate.set()
    together = [[*generation][-1] for generation in generations]

    assert [reply.text for reply in together if isinstance(reply, Done)] == alone
    reused = sorted(reply.usage.reused_tokens for reply in together if isinstance(reply, Done))
    assert reused[0] == 0
    assert reused[1] > tokens_of(model, SYSTEM)


def test_a_cancel_in_a_prompt_leaves_the_others_as_they_are(model: LocalRuntime) -> None:
    """A batch of such a model is not aborted: states that it has half changed would be those of others too."""
    requests = [ask("Hello"), ask("Hello", "Hi.", "And now?")]
    alone = [done(model, request).text for request in requests]
    backend = model._owner.call(lambda engine: engine._backend)
    evaluate = backend.evaluate
    results: list[bool] = []
    victims: list[Any] = []

    def cancelling(batch: Any) -> bool:
        if len(batch[0].tokens) > 64 and victims:
            victims[0].cancel()
        results.append(evaluate(batch))
        return results[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend, "evaluate", cancelling)
        gate = threading.Event()
        model._owner.put(lambda _engine: bool(gate.wait(60)))
        victims.append(model.submit(ask("Nobody wants " + "this text " * 60, system="")))
        gate.set()
        *_, cancelled = victims[0]

    assert isinstance(cancelled, Done)
    assert (cancelled.finish_reason, cancelled.usage.output_tokens) == ("cancelled", 0)
    assert all(results)
    assert [done(model, request).text for request in requests] == alone


def test_with_one_sequence_there_are_none(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nowhere to put them: everything or nothing, and a warning says so."""
    with load_with(1, file, 1024, monkeypatch) as model:
        first = done(model, ask("Hello"))
        other = done(model, ask("Hello", "Not what it said.", "And now?"))

        assert (first.usage.reused_tokens, other.usage.reused_tokens) == (0, 0)
        assert any("can't be cut" in warning for warning in model.describe().warnings)


def test_conversations_take_turns_in_few_sequences(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots give way to conversations and to each other; every reply is what it is alone."""
    with load_with(3, file, 512, monkeypatch) as model:
        requests = [ask(f"Agent {number}", *more) for number in range(3) for more in ((), ("Hi.", "Go on."))]
        alone = []
        for request in requests:
            model._owner.call(forget)
            alone.append(done(model, request).text)
        generations = [model.submit(request) for request in requests * 3]
        together = [[*generation][-1] for generation in generations]

        assert [reply.text for reply in together if isinstance(reply, Done)] == alone * 3
