"""The loop that all local models share, on a backend of a few lines: no model, and every corner within reach."""

import threading
from collections.abc import Callable, Sequence

import pytest
from attrs import evolve
from hypothesis import example, given, strategies as st

from cognition import Failure, GenerationOptions, History, ModelRequest, UserMessage
from cognition.parsing import FormatSpec, Output, Parser, TextDelta
from runtime import Done
from runtime.local.engine import EMPTY, LocalEngine
from runtime.protocol.backend import BackendError, Metadata, Sampler, SpecialTokens
from runtime.protocol.model import Timings
from runtime.scheduling.plan import BatchPiece, Limits
from tests.runtime import chat_templates

END = 256
"""The token that ends a turn; the others are the bytes of UTF-8."""

TEMPLATE = "{% for message in messages %}{{ message.role[0] }}{{ message.content }}\n{% endfor %}a"


class NoSampler:
    """What is said is written down."""

    def close(self) -> None:
        pass


class ByteBackend:
    """Tokens are bytes; what it says next is written down beforehand."""

    def __init__(self, *, template: str | None = TEMPLATE, can_cut: bool = True, context: int = 100) -> None:
        self.metadata = Metadata("bytes", "test", "1", "", context, 0, template)
        self.special = SpecialTokens({"<end>": END}, {})
        self.limits = Limits(cells=context, sequences=1, batch=8, chunk=8, can_cut=can_cut)
        self.vocabulary = 257
        self.cuts = can_cut
        """Whether a cut succeeds, whatever ``limits`` promise."""
        self.cache: list[int] = []
        self.evaluated: list[int] = []
        """All tokens that were computed, in order."""
        self.says: list[int] = []
        self.interrupted = threading.Event()
        self.fail: Exception | None = None

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        return list(text.encode("utf-8"))

    def piece(self, token: int) -> bytes:
        return b"<end>" if token == END else bytes([token])

    def is_end(self, token: int) -> bool:
        return token == END

    def drop(self, sequence: int) -> None:
        self.cache.clear()

    def cut(self, sequence: int, length: int) -> bool:
        del self.cache[length if self.cuts else 0 :]
        return self.cuts

    def copy(self, source: int, target: int, length: int) -> None:
        raise AssertionError("there is one sequence")

    def reset(self) -> None:
        self.cache.clear()

    def ready(self) -> None:
        self.interrupted.clear()

    def sampler(self, options: GenerationOptions) -> Sampler:
        return NoSampler()

    def evaluate(self, batch: Sequence[BatchPiece]) -> bool:
        if self.fail is not None:
            raise self.fail
        if self.interrupted.is_set():
            return False
        (piece,) = batch
        assert piece.start == len(self.cache)
        self.cache += piece.tokens
        self.evaluated += piece.tokens
        return True

    def append_tokens(self, tokens: Sequence[int]) -> bool:
        return self.evaluate([BatchPiece(0, 0, len(self.cache), tuple(tokens), last=True)])

    def sample(self, row: int, sampler: Sampler, allowed: bytes | None = None) -> int:
        return self.says.pop(0)

    def interrupt(self) -> None:
        self.interrupted.set()

    def close(self) -> None:
        self.cache.clear()


def ask(text: str, **options: object) -> ModelRequest:
    return ModelRequest("", History((UserMessage("m1", text),)), (), GenerationOptions(**options))  # type: ignore[arg-type]


def run(
    backend: ByteBackend,
    engine: LocalEngine,
    text: str,
    says: str | bytes = "",
    stopped: Callable[[], bool] = lambda: False,
    wanted: Callable[[], bool] = lambda: True,
    **options: object,
) -> tuple[Done, list[Output]]:
    backend.says = [*(says.encode() if isinstance(says, str) else says), END]
    outputs: list[Output] = []
    done: list[Done] = []
    engine.submit(ask(text, **options), emit=outputs.append, finish=done.append, stopped=stopped, submitted=0.0)
    while engine.step(wanted):
        pass
    return done[0], outputs


def test_only_what_is_new_is_computed() -> None:
    """A prompt that goes on from the cache is evaluated from there."""
    backend = ByteBackend()
    engine = LocalEngine(backend)
    run(backend, engine, "one", "yes")
    backend.evaluated.clear()
    done, _ = run(backend, engine, "one two", "yes")

    assert bytes(backend.evaluated) == b" two\nayes"
    assert (done.usage.input_tokens, done.usage.reused_tokens) == (len("uone two\na"), len("uone"))


@pytest.mark.parametrize(("stops", "said"), [(("<halt>",), "yes"), ((), "yes\x01no"), (("<other>",), "yes\x01no")])
def test_a_token_that_ends_a_turn_by_the_format_ends_the_reply(stops: tuple[str, ...], said: str) -> None:
    """A model's files may name another one: then only the template has the end of a turn."""
    backend = ByteBackend()
    backend.special = SpecialTokens({"<end>": END, "<halt>": 1}, {})
    engine = LocalEngine(backend, FormatSpec("halting", stops=stops))

    done, outputs = run(backend, engine, "one", b"yes\x01no")

    assert "".join(output.text for output in outputs if isinstance(output, TextDelta)) == said
    assert (done.finish_reason, done.usage.output_tokens) == ("stop", len(said) + 1)


@pytest.mark.parametrize("prompt", ["one two", "other"])
def test_a_cache_that_can_not_be_cut_starts_afresh_and_says_so(prompt: str) -> None:
    """Nothing is reused wrongly, usage says that nothing was, and the description warns of it."""
    backend = ByteBackend(can_cut=False)
    engine = LocalEngine(backend)
    run(backend, engine, "one", "yes")
    backend.evaluated.clear()
    done, _ = run(backend, engine, prompt, "yes")

    assert bytes(backend.evaluated) == f"u{prompt}\nayes".encode()
    assert done.usage.reused_tokens == 0
    assert any("can't be cut" in warning for warning in engine.info.warnings)
    assert "prefix_reuse" not in engine.info.features


@given(st.text("ab.", max_size=20), st.booleans(), st.integers(1, 20), st.lists(st.booleans(), max_size=20))
@example("abab", False, 20, [])
@example("ab.b", True, 20, [False, True])
@example("abab", False, 3, [True])
def test_how_many_batches_are_a_step_changes_nothing(says: str, stop: bool, most: int, wanted: list[bool]) -> None:
    """What is computed, said and kept is the same; a step of many batches ends as soon as the thread is wanted."""
    pauses = iter(wanted)
    steps: list[tuple[object, ...]] = []
    for ask_first in (lambda: True, lambda: next(pauses, False)):
        backend = ByteBackend()
        engine = LocalEngine(backend)
        done, outputs = run(backend, engine, "x", says, wanted=ask_first, max_tokens=most, stop=(".",) if stop else ())
        again, _ = run(backend, engine, "x", "b", wanted=ask_first)
        schedule = engine._schedule
        held = {sequence: (held.tokens[:], held.writes) for sequence, held in schedule.cache.held.items()}
        text = "".join(output.text for output in outputs if isinstance(output, TextDelta))
        steps.append((evolve(done, timings=Timings()), text, again.usage, backend.evaluated, backend.cache, held))
        assert held == {0: (backend.cache, True)}
        assert schedule.running == {}

    assert steps[0] == steps[1]


def test_a_step_asks_before_each_batch_but_its_first() -> None:
    """So what else the thread is wanted for waits for one batch at the most."""
    backend = ByteBackend()
    engine = LocalEngine(backend)
    backend.says = [*b"abcdef", END]
    done: list[Done] = []
    engine.submit(ask("x"), emit=lambda _output: None, finish=done.append, stopped=lambda: False, submitted=0.0)
    computed: list[int] = []

    def wanted() -> bool:
        computed.append(len(backend.evaluated))
        return len(computed) == 3

    assert engine.step(wanted)
    prompt = len("ux\na")
    assert computed == [prompt, prompt + 1, prompt + 2]
    assert len(backend.evaluated) == prompt + 2
    assert engine._schedule.cache.length(0) == prompt + 2
    assert not engine.step(lambda: False)
    assert [reply.text for reply in done] == ["abcdef"]


@pytest.mark.parametrize(("every", "shown"), [(0.0, ["a", "ab", "abc"]), (3600.0, ["a", "a", "a"])])
def test_what_is_said_is_shown_in_time(monkeypatch: pytest.MonkeyPatch, every: float, shown: list[str]) -> None:
    """The first token at once, the others when something was shown long enough ago, and all when the step is over."""
    monkeypatch.setattr("runtime.local.engine.SHOWN_EVERY", every)
    backend = ByteBackend()
    engine = LocalEngine(backend)
    backend.says = [*b"abcd", END]
    outputs: list[Output] = []
    looks: list[str] = []

    def text() -> str:
        return "".join(output.text for output in outputs if isinstance(output, TextDelta))

    def wanted() -> bool:
        looks.append(text())
        return len(looks) == 3

    engine.submit(ask("x"), emit=outputs.append, finish=lambda _: None, stopped=lambda: False, submitted=0.0)
    assert engine.step(wanted)

    assert looks == shown
    assert text() == "abc"


@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize("every", [0.0, 3600.0])
@pytest.mark.parametrize("broken", ["c", "e"])
def test_a_parser_that_fails_ends_its_reply(
    monkeypatch: pytest.MonkeyPatch, wanted: bool, every: float, broken: str
) -> None:
    """Wherever it does, be it at the last token; what came before it has been shown, and the next reply is right."""
    feed = Parser.feed

    def fails(parser: Parser, text: str) -> tuple[Output, ...]:
        if broken in text:
            raise ArithmeticError("it is broken")
        return feed(parser, text)

    monkeypatch.setattr("runtime.local.engine.SHOWN_EVERY", every)
    backend = ByteBackend()
    engine = LocalEngine(backend)
    with monkeypatch.context() as patch:
        patch.setattr(Parser, "feed", fails)
        failed, outputs = run(backend, engine, "x", "abcde", wanted=lambda: wanted)
    done, _ = run(backend, engine, "x", "abcde", wanted=lambda: wanted)

    assert failed.failure == Failure("ArithmeticError: it is broken", kind="fatal")
    assert (failed.finish_reason, failed.calls) == ("error", ())
    assert "abcde".startswith(failed.text)
    assert broken not in failed.text
    assert failed.text == "".join(output.text for output in outputs if isinstance(output, TextDelta))
    assert (done.finish_reason, done.text) == ("stop", "abcde")


def test_an_error_and_a_cancel_in_the_middle_of_a_step() -> None:
    """They end the reply as they do between two steps, and the cache is right afterwards."""
    backend = ByteBackend()
    engine = LocalEngine(backend)

    def stopped() -> bool:
        return len(backend.says) == 4

    def cancel() -> bool:
        if stopped():
            engine.interrupt()
        return False

    cancelled, _ = run(backend, engine, "x", "abcdef", stopped=stopped, wanted=cancel)
    kept = bytes(backend.cache)

    def fail() -> bool:
        backend.fail = BackendError("llama_decode returned -3") if len(backend.says) == 4 else None
        return False

    failed, _ = run(backend, engine, "x", "abcdef", wanted=fail)
    backend.fail = None
    done, _ = run(backend, engine, "x", "abcdef", wanted=lambda: False)

    assert (cancelled.finish_reason, cancelled.text, kept) == ("cancelled", "abc", b"ux\naab")
    assert (failed.finish_reason, failed.text) == ("error", "abc")
    assert (done.text, done.usage.reused_tokens) == ("abcdef", 0)


def test_of_a_batch_that_came_too_late_nothing_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cancel that comes when the batch is nearly done ends the reply with what was said before it."""
    backend = ByteBackend()
    engine = LocalEngine(backend)
    cancelled = threading.Event()
    append_tokens = backend.append_tokens

    def cancel(tokens: Sequence[int]) -> bool:
        whole = append_tokens(tokens)
        cancelled.set()
        engine.interrupt()
        return whole

    monkeypatch.setattr(backend, "append_tokens", cancel)
    done, _ = run(backend, engine, "x", "abcdef", stopped=cancelled.is_set, wanted=lambda: False)

    assert (done.finish_reason, done.text, done.usage.output_tokens) == ("cancelled", "ab", 2)
    assert bytes(backend.cache) == b"ux\naab"


def test_broken_bytes_are_shown_as_such_and_end_with_the_reply() -> None:
    """A character that never gets whole becomes a replacement character, at the latest at the end."""
    backend = ByteBackend()
    done, outputs = run(backend, LocalEngine(backend), "x", b"a\xf0\x9fb\xc3")

    assert done.text == "a\ufffdb\ufffd"
    assert "".join(output.text for output in outputs if isinstance(output, TextDelta)) == done.text


def test_a_stop_text_leaves_its_tokens_in_the_cache() -> None:
    """They were said and evaluated, so that a prompt which holds them reuses them."""
    backend = ByteBackend()
    done, _ = run(backend, LocalEngine(backend), "x", "one. two", stop=(". t",))

    assert (done.text, done.finish_reason) == ("one", "stop")
    assert bytes(backend.cache) == b"ux\naone. "


def test_a_backend_that_fails_starts_afresh() -> None:
    """After an error nothing is known of the cache, so nothing of it is used."""
    backend = ByteBackend()
    engine = LocalEngine(backend)
    run(backend, engine, "one", "yes")
    backend.fail = BackendError("llama_decode returned -3")
    failed, _ = run(backend, engine, "one two", "yes")
    backend.fail = None
    backend.evaluated.clear()
    done, _ = run(backend, engine, "one two", "yes")

    assert failed.failure == Failure("BackendError: llama_decode returned -3", kind="fatal")
    assert (failed.finish_reason, failed.usage.output_tokens) == ("error", 0)
    assert (done.finish_reason, done.usage.reused_tokens) == ("stop", 0)
    assert bytes(backend.evaluated) == b"uone two\nayes"


def test_a_template_that_refuses_fails_the_reply() -> None:
    """The refusal is told; nothing is computed."""
    backend = ByteBackend(template=TEMPLATE + "{{ raise_exception('no x') if messages[-1].content == 'x' }}")
    done, _ = run(backend, LocalEngine(backend), "x")

    assert done.finish_reason == "error"
    assert done.failure is not None
    assert "no x" in done.failure.message
    assert backend.evaluated == []


def test_interrupted_while_it_decodes() -> None:
    """An interruption within a step ends the reply with what had come."""
    backend = ByteBackend()
    done, _ = run(
        backend, LocalEngine(backend), "x", "yes", stopped=lambda: len(backend.says) == 2 and not backend.interrupt()
    )

    assert (done.finish_reason, done.text) == ("cancelled", "ye")


def test_an_interruption_from_before_is_no_interruption() -> None:
    """``start`` wipes out what was meant for the reply before."""
    backend = ByteBackend()
    backend.interrupt()
    done, _ = run(backend, LocalEngine(backend), "x", "yes")

    assert (done.finish_reason, done.text) == ("stop", "yes")


def test_a_cancel_between_queue_and_start_is_not_lost() -> None:
    """The flag is looked at again after ``start`` has wiped out the interruption."""
    backend = ByteBackend()
    asked: list[bool] = []

    def stopped() -> bool:
        asked.append(True)
        if len(asked) == 1:
            backend.interrupt()  # the caller's cancel: flag and interruption, just after the first look
            return False
        return True

    done, _ = run(backend, LocalEngine(backend), "x", "yes", stopped=stopped)

    assert (done.finish_reason, backend.evaluated) == ("cancelled", [])


def test_without_a_template_the_fallback_is_used_and_said() -> None:
    """The description warns, and the prompt is ChatML."""
    backend = ByteBackend(template=None)
    engine = LocalEngine(backend)

    assert any("no chat template" in warning for warning in engine.info.warnings)
    assert bytes(engine.prompt(ask("Hi"))) == b"<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"


def test_a_missing_first_token_is_put_in_front() -> None:
    """Where the backend names one, and the template does not write it itself."""
    backend = ByteBackend()
    backend.metadata = Metadata("bytes", "test", "1", "", 100, 0, TEMPLATE, leading_bos=7)

    assert LocalEngine(backend).prompt(ask("x")) == [7, *b"ux\na"]


def test_a_cache_that_can_not_be_cut_after_all_starts_afresh() -> None:
    """What a backend promised and does not keep, such as a sliding window that is full, costs time and nothing else."""
    backend = ByteBackend()
    engine = LocalEngine(backend)
    run(backend, engine, "one", "yes")
    backend.cuts = False
    backend.evaluated.clear()
    done, _ = run(backend, engine, "other", "yes")

    assert bytes(backend.evaluated) == b"uother\nayes"
    assert (done.text, done.usage.reused_tokens) == ("yes", 0)


def test_an_empty_prompt_is_an_error() -> None:
    """There is nothing that the model could answer."""
    backend = ByteBackend(template="{% if messages %}{% endif %}")
    done, _ = run(backend, LocalEngine(backend), "x")

    assert done.failure == EMPTY


def test_what_waits_goes_on_after_a_failure() -> None:
    """A batch that fails ends the replies in it; the next one begins with an empty cache."""
    backend = ByteBackend()
    engine = LocalEngine(backend)
    done: list[Done] = []
    for text in ("one", "two"):
        engine.submit(ask(text), emit=lambda _output: None, finish=done.append, stopped=lambda: False, submitted=0.0)
    backend.says = [*b"yes", END]
    backend.fail = BackendError("llama_decode returned -3")
    engine.step()
    backend.fail = None
    while engine.step():
        pass

    assert [(reply.finish_reason, reply.text) for reply in done] == [("error", ""), ("stop", "yes")]


def test_a_parser_that_breaks_still_ends_its_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller gets a ``Done``, and the engine goes on."""
    backend = ByteBackend()
    engine = LocalEngine(backend)

    def broken(*_: object) -> None:
        raise ArithmeticError("no parser")

    with monkeypatch.context() as patch:
        patch.setattr("runtime.local._running_reply.Parser.finish", broken)
        failed, _ = run(backend, engine, "x", "yes")
    done, _ = run(backend, engine, "x", "yes")

    assert failed.failure == Failure("ArithmeticError: no parser", kind="fatal")
    assert (done.finish_reason, done.text) == ("stop", "yes")


@pytest.mark.behaviour("T13_3")
def test_what_was_asked_for_and_not_got_is_told_with_the_reply() -> None:
    """A template that opens the reasoning has no switch for it; who did not ask for none is told nothing."""
    backend = ByteBackend(template=chat_templates.OPENS_REASONING, context=500)
    engine = LocalEngine(backend)
    said = {}
    for thinking in (None, False):
        done, _ = run(backend, engine, "Hi", "x", thinking=thinking)
        said[thinking] = done.warnings

    assert said[None] == ()
    assert "thinking=False changes nothing" in " ".join(said[False])
