"""What every runtime promises, held against the shipped model on each backend, in this process and in one of its own.

Where a test needs a certain reply, the sampler is made to choose its tokens (``steering.write``): the rest of the way,
from the template to the ``Done``, is the real one. Nothing here depends on what the present weights happen to write.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from attrs import evolve

from cognition import (
    AssistantMessage,
    CogstepError,
    Failure,
    Image,
    ModelRequest,
    ProposedCall,
    TextPart,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from cognition.parsing import ReasoningDelta, TextDelta
from runtime import Done, Runtime, RuntimeClosedError
from tests.runtime.asking import CHUNK, LONG, MULTIPLY, PLACES, QUESTION, ask, reply, rig_of
from tests.runtime.conftest import TINY_CONTEXT
from tests.runtime.steering import Rig

NUMBERS = count()
"""For what has to be new to a model, several runtimes of which may stand before one."""


@pytest.fixture(scope="module", params=PLACES)
def loaded(request: pytest.FixtureRequest) -> Iterator[Rig]:
    made = rig_of(request.param)
    yield made
    made.runtime.close()
    made.close()


@pytest.fixture
def rig(loaded: Rig) -> Iterator[Rig]:
    """One whose engine is as it was when the test has ended."""
    yield loaded
    loaded.order("restore")


@pytest.fixture
def runtime(rig: Rig) -> Runtime:
    return rig.runtime


@pytest.fixture(scope="module", params=PLACES)
def loaded_tiny(request: pytest.FixtureRequest) -> Iterator[Rig]:
    made = rig_of(request.param, TINY_CONTEXT)
    yield made
    made.runtime.close()
    made.close()


@pytest.fixture
def tiny_rig(loaded_tiny: Rig) -> Iterator[Rig]:
    yield loaded_tiny
    loaded_tiny.order("restore")


@pytest.fixture
def tiny_runtime(tiny_rig: Rig) -> Runtime:
    """One with a context of ``TINY_CONTEXT`` tokens."""
    return tiny_rig.runtime


@pytest.fixture(params=PLACES)
def own_runtime(request: pytest.FixtureRequest) -> Iterator[Runtime]:
    """One that a test may close."""
    made = rig_of(request.param)
    yield made.runtime
    made.runtime.close()
    made.close()


def sampled(rig: Rig, request: ModelRequest) -> list[int]:
    """The tokens of a reply."""
    rig.order("note")
    reply(rig.runtime, request)
    tokens: list[int] = rig.order("noted")
    rig.order("restore")
    return list(tokens)


@pytest.fixture
def script(rig: Rig) -> Callable[[str], None]:
    """Makes the next reply this text, then the end of the turn."""
    return lambda text: rig.order("write", text)


def test_it_is_a_runtime(runtime: Runtime) -> None:
    """Runtimes and their generations have the protocol's methods."""
    assert isinstance(runtime, Runtime)


class TestStream:
    def test_the_deltas_joined_are_the_text_and_the_reasoning(self, runtime: Runtime) -> None:
        """What was shown while it came is what the ``Done`` says."""
        *outputs, done = runtime.submit(ask(tools=(MULTIPLY,)))
        assert isinstance(done, Done)

        assert done.text == "".join(output.text for output in outputs if isinstance(output, TextDelta))
        assert done.reasoning == "".join(output.text for output in outputs if isinstance(output, ReasoningDelta))
        assert done.text + done.reasoning != ""

    def test_it_ends_with_one_done(self, runtime: Runtime) -> None:
        """After the ``Done`` there is nothing, however often one asks."""
        generation = runtime.submit(ask(max_tokens=3))
        outputs = list(generation)

        assert [isinstance(output, Done) for output in outputs] == [False] * (len(outputs) - 1) + [True]
        assert list(generation) == []

    @pytest.mark.parametrize(
        "text", ["naïve café", "日本語 and 한국어", "😀👩‍👩‍👧 done", "\u200b|\ufeff|", "ends in é"]
    )
    def test_characters_split_over_tokens_arrive_whole(
        self, runtime: Runtime, script: Callable[[str], None], text: str
    ) -> None:
        """Bytes of a character wait for each other: no delta holds a replacement character."""
        script(text)
        *outputs, done = runtime.submit(ask())
        assert isinstance(done, Done)

        assert done.text == text
        assert not any("\ufffd" in output.text for output in outputs if isinstance(output, TextDelta))


class TestFinish:
    def test_stop(self, rig: Rig, runtime: Runtime, script: Callable[[str], None]) -> None:
        """A reply that ends its turn ends with "stop", and the token that ends it counts as output."""
        script("Yes.")
        done = reply(runtime, ask())

        assert (done.text, done.finish_reason, done.failure) == ("Yes.", "stop", None)
        tokens = rig.order("tokenize", "Yes.", True)
        assert done.usage.output_tokens == len(tokens) + 1

    def test_tool_calls(self, runtime: Runtime, script: Callable[[str], None]) -> None:
        """A reply that ends its turn with calls ends with "tool_calls"."""
        script('<tool_call>\n{"name": "multiply", "arguments": {"a": 2, "b": 3}}\n</tool_call>')
        done = reply(runtime, ask(tools=(MULTIPLY,)))

        assert done.finish_reason == "tool_calls"
        assert done.calls == (ProposedCall("multiply", '{"a": 2, "b": 3}'),)

    def test_the_shipped_model_calls_a_tool(self, runtime: Runtime) -> None:
        """Pinned to what the shipped weights are trained for: the one question of the demo."""
        done = reply(runtime, ask(tools=(MULTIPLY,)))

        assert done.finish_reason == "tool_calls"
        assert [(call.name, call.arguments_json) for call in done.calls] == [("multiply", '{"a": 17, "b": 23}')]

    def test_a_broken_call_is_malformed_and_not_lost(self, runtime: Runtime, script: Callable[[str], None]) -> None:
        """What was meant as a call comes back whole, and does not count as one."""
        script('<tool_call>\n{"name": nothing at all\n</tool_call>')
        done = reply(runtime, ask(tools=(MULTIPLY,), constrain=False))

        assert (done.finish_reason, done.calls, len(done.malformed)) == ("stop", (), 1)
        assert "nothing at all" in done.malformed[0].raw

    def test_length(self, runtime: Runtime, script: Callable[[str], None]) -> None:
        """The token limit is to the token."""
        script("one two three four five six seven eight")
        done = reply(runtime, ask(max_tokens=5))

        assert (done.finish_reason, done.usage.output_tokens) == ("length", 5)

    def test_the_end_of_the_context_is_a_length_too(self, tiny_rig: Rig, tiny_runtime: Runtime) -> None:
        """Prompt and reply together never exceed the context."""
        tiny_rig.order("write", "word " * TINY_CONTEXT)
        request = ask(max_tokens=10 * TINY_CONTEXT)
        fits = TINY_CONTEXT - tiny_runtime.count_tokens(request)
        done = reply(tiny_runtime, request)

        assert (done.finish_reason, done.usage.output_tokens) == ("length", fits)

    @pytest.mark.parametrize("too_many", [0, 1, 1000])
    def test_context_overflow_states_needed_and_available(self, tiny_runtime: Runtime, too_many: int) -> None:
        """A prompt that leaves no room for a token is refused before anything is computed, with both numbers."""
        empty = tiny_runtime.count_tokens(ask(UserMessage("m1", "")))
        request = ask(UserMessage("m1", "5" * (TINY_CONTEXT - empty + too_many)))  # each digit is a token
        done = reply(tiny_runtime, request)

        needed = TINY_CONTEXT + too_many
        assert tiny_runtime.count_tokens(request) == needed
        assert done.failure is not None
        assert evolve(done.failure, message="") == Failure(
            "", "context_overflow", needed_tokens=needed, available_tokens=TINY_CONTEXT - 1
        )
        assert (done.finish_reason, done.usage) == ("error", Usage(needed, 0, 0))

    def test_a_prompt_that_just_fits_is_answered_with_one_token(self, tiny_runtime: Runtime) -> None:
        """The last token of the context is used."""
        empty = tiny_runtime.count_tokens(ask(UserMessage("m1", "")))
        done = reply(tiny_runtime, ask(UserMessage("m1", "5" * (TINY_CONTEXT - empty - 1))))

        assert (done.usage.input_tokens, done.usage.output_tokens) == (TINY_CONTEXT - 1, 1)

    @pytest.mark.parametrize("method", ["sample", "evaluate", "append_tokens"])
    def test_a_failing_backend_fails_one_reply(self, rig: Rig, runtime: Runtime, method: str) -> None:
        """What breaks ends the reply as an error; the next one is right, and reuses nothing of a cache in doubt."""
        before = reply(runtime, ask(max_tokens=8))
        rig.order("breaks", method)
        done = reply(runtime, ask(max_tokens=8))
        rig.order("restore")
        after = reply(runtime, ask(max_tokens=8))

        assert done.finish_reason == "error"
        assert done.failure == Failure("ArithmeticError: it is broken", kind="fatal")
        assert (after.text, after.reasoning) == (before.text, before.reasoning)
        if method != "sample":
            assert after.usage.reused_tokens == 0


class TestStopTexts:
    TEXT = "The quick brown fox jumps over the lazy dog."

    @pytest.mark.parametrize("stop", ["quick", "ck br", "x jum", " over ", "e lazy d", "dog.", "The", "T"])
    def test_they_end_the_reply_wherever_tokens_cut_them(
        self, runtime: Runtime, script: Callable[[str], None], stop: str
    ) -> None:
        """The reply ends where the stop text begins; nothing of it is ever shown."""
        script(self.TEXT)
        *outputs, done = runtime.submit(ask(stop=(stop,)))
        assert isinstance(done, Done)

        expected = self.TEXT.partition(stop)[0]
        assert (done.text.rstrip(), done.finish_reason) == (expected.rstrip(), "stop")
        assert "".join(output.text for output in outputs if isinstance(output, TextDelta)) == done.text

    def test_what_only_begins_like_one_is_shown(self, runtime: Runtime, script: Callable[[str], None]) -> None:
        """Text that was held back comes when it turns out to be none, and at the end."""
        script(self.TEXT)
        done = reply(runtime, ask(stop=("quick red", "dog. And")))

        assert done.text == self.TEXT


class TestUsage:
    def test_count_tokens_is_what_a_reply_reports(self, runtime: Runtime) -> None:
        """The count before and the usage after are the same number."""
        request = ask(system="You are terse.", tools=(MULTIPLY,), max_tokens=1)

        assert runtime.count_tokens(request) == reply(runtime, request).usage.input_tokens

    def test_a_request_that_extends_another_reuses_it(self, runtime: Runtime) -> None:
        """In a tool loop only what is new is computed: the call's text as it was written, and the result."""
        first = reply(runtime, ask(UserMessage("m0", "Hello"), max_tokens=1))  # something else in the cache
        request = ask(QUESTION, tools=(MULTIPLY,))
        first = reply(runtime, request)
        call = ToolCall("call-1-1-1", first.calls[0].name, first.calls[0].arguments_json)
        second = reply(
            runtime,
            ask(
                QUESTION,
                AssistantMessage("m2", first.text, first.reasoning, (call,)),
                ToolMessage("m3", call.id, call.name, "391"),
                tools=(MULTIPLY,),
            ),
        )

        assert first.usage.reused_tokens < first.usage.input_tokens
        assert first.usage.input_tokens <= second.usage.reused_tokens < second.usage.input_tokens

    def test_the_same_prompt_again_computes_one_token(self, runtime: Runtime) -> None:
        """All is reused but the last token, after which the model has to say something."""
        done = [reply(runtime, ask(max_tokens=4)) for _ in range(2)][1]

        assert done.usage.reused_tokens == done.usage.input_tokens - 1

    def test_timings_add_up(self, runtime: Runtime) -> None:
        """All times are there, and the first token comes after prefill."""
        timings = reply(runtime, ask(UserMessage("m1", "Something else"), max_tokens=4)).timings

        assert timings.prefill_seconds > 0
        assert timings.decode_seconds > 0
        assert timings.time_to_first_token is not None
        assert timings.time_to_first_token >= timings.prefill_seconds


class TestSampling:
    def test_greedy_repeats(self, runtime: Runtime) -> None:
        """At temperature 0 the same request gives the same reply, whatever was asked in between."""
        first = reply(runtime, ask(max_tokens=24))
        reply(runtime, ask(UserMessage("m1", "Hello"), max_tokens=4))
        second = reply(runtime, ask(max_tokens=24))

        assert (first.text, first.reasoning) == (second.text, second.reasoning)

    def test_a_seed_repeats_and_no_seed_does_not(self, runtime: Runtime) -> None:
        """With a seed sampling repeats; without one each reply draws its own."""

        def written(**options: Any) -> str:
            done = reply(runtime, ask(UserMessage("m1", "Tell me"), temperature=2.0, max_tokens=16, **options))
            return f"{done.reasoning}|{done.text}|{done.calls}|{done.malformed}"

        first = written(seed=1)

        assert written(seed=1) == first
        # Half of all draws are the same on the shipped model: four alike are nothing rare, and forty are.
        assert any(written(seed=seed) != first for seed in range(2, 42))
        assert any(written() != first for _ in range(40))

    def test_a_bias_forces_and_forbids(self, rig: Rig, runtime: Runtime) -> None:
        """Its ends do, whatever the model would say."""
        (token,) = rig.order("tokenize", "a", False)
        forced = reply(runtime, ask(max_tokens=4, logit_bias=((token, 100.0),)))
        mixed = ask(max_tokens=4, logit_bias=((token, -100.0),), temperature=2.0, seed=1)

        assert forced.reasoning + forced.text == "aaaa"
        assert "a" not in [rig.order("piece", one) for one in sampled(rig, mixed)]

    @pytest.mark.parametrize("options", [{"top_k": 1}, {"top_p": 1e-6}, {"min_p": 1.0}])
    def test_options_that_leave_one_token_are_greedy(self, runtime: Runtime, options: dict[str, Any]) -> None:
        """At any temperature."""
        greedy = reply(runtime, ask(max_tokens=12))
        narrow = reply(runtime, ask(max_tokens=12, temperature=2.0, **options))

        assert (narrow.reasoning, narrow.text) == (greedy.reasoning, greedy.text)

    def test_typical_sampling_differs_by_seed_and_repeats_with_one(
        self, rig: Rig, runtime: Runtime, request: pytest.FixtureRequest
    ) -> None:
        """It is random, and no accident."""

        def drawn(seed: int) -> tuple[int, ...]:
            # It looks at the distribution before temperature does, which of a sure model leaves one token: nearly all.
            asked = ask(UserMessage("m1", "Tell me"), max_tokens=16, temperature=2.0, typical_p=0.999999, seed=seed)
            return tuple(sampled(rig, asked))

        # In a pool a reply's cells lie elsewhere from draw to draw, and the last bits of a logit change with that: of
        # tokens that are equally typical but for those, another one is the next. What is drawn first holds there.
        first = 1 if "pool" in request.node.name else 16
        same = Counter(drawn(1)[:first] for _ in range(6)).most_common(1)[0][1]

        assert same >= (4 if first == 1 else 6)
        assert len({drawn(seed) for seed in range(4)}) > 1

    def test_penalties_keep_the_reply_from_saying_a_token_again(self, rig: Rig, runtime: Runtime) -> None:
        """A bias would say it all the time; with the penalty the others get their turn."""
        (token,) = rig.order("tokenize", "a", False)
        bias = {"max_tokens": 6, "logit_bias": ((token, 100.0),)}
        often = sampled(rig, ask(**bias))
        once = sampled(rig, ask(**bias, repeat_penalty=10.0, presence_penalty=2.0, frequency_penalty=2.0))

        assert often == [token] * 6
        assert once.count(token) < 6


class TestCancel:
    def expect_normal_replies(self, runtime: Runtime) -> None:
        first, second = (reply(runtime, ask(max_tokens=8)) for _ in range(2))
        assert (first.text, first.reasoning) == (second.text, second.reasoning)
        assert second.finish_reason in ("length", "stop")

    def test_before_it_begins(self, rig: Rig, runtime: Runtime) -> None:
        """What waits for its turn is cancelled without being computed."""
        rig.order("hold")
        generation = runtime.submit(ask())
        rig.order("arrive")
        generation.cancel()
        rig.order("go_on")
        (done,) = generation

        assert isinstance(done, Done)
        assert (done.finish_reason, done.text, done.usage) == ("cancelled", "", Usage())
        self.expect_normal_replies(runtime)

    @pytest.mark.parametrize("chunk", [1, 2])
    def test_in_prefill(self, rig: Rig, runtime: Runtime, chunk: int) -> None:
        """A long prompt is left within a chunk; what was computed of it may be reused, and is right."""
        long = UserMessage("m1", f"{next(NUMBERS)} {LONG.text}")  # nothing of it is in the cache
        rig.order("limit", CHUNK)
        rig.order("pause", "evaluate", chunk)
        generation = runtime.submit(ask(long))
        rig.order("wait")
        generation.cancel()
        rig.order("go_on")
        (done,) = generation

        assert isinstance(done, Done)
        assert (done.finish_reason, done.usage.output_tokens) == ("cancelled", 0)
        assert done.timings.time_to_first_token is None
        assert rig.order("calls") == chunk
        rig.order("restore")
        again = reply(runtime, ask(long, max_tokens=2))
        assert again.usage.reused_tokens < again.usage.input_tokens - 1
        self.expect_normal_replies(runtime)

    def test_in_decode(self, rig: Rig, runtime: Runtime) -> None:
        """It stops at the next token; what had come is in the ``Done``, and the rest of the cache is reused."""
        (token,) = rig.order("tokenize", "a", False)
        rig.order("pause", "sample", 5, token)
        generation = runtime.submit(ask())
        rig.order("wait")
        generation.cancel()
        rig.order("go_on")
        *_, done = generation
        rig.order("restore")

        assert isinstance(done, Done)
        assert (done.finish_reason, done.text, done.usage.output_tokens) == ("cancelled", "aaaaa", 5)
        self.expect_normal_replies(runtime)

    def test_after_the_end_it_does_nothing(self, runtime: Runtime) -> None:
        """A late cancel changes neither this reply nor the next."""
        generation = runtime.submit(ask(max_tokens=2))
        list(generation)
        generation.cancel()
        generation.cancel()

        self.expect_normal_replies(runtime)


class TestThreads:
    def test_two_at_once_get_their_own_replies(self, runtime: Runtime) -> None:
        """Submitted together, each reply is what it would have been alone."""
        requests = [ask(max_tokens=12), ask(UserMessage("m1", "Hello there"), max_tokens=12)]
        alone = [reply(runtime, request) for request in requests]
        together: dict[int, Done] = {}
        start = threading.Barrier(2)

        def work(index: int) -> None:
            start.wait(60)
            together[index] = reply(runtime, requests[index])

        threads = [threading.Thread(target=work, args=(index,)) for index in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

        assert [(together[i].text, together[i].reasoning) for i in range(2)] == [
            (done.text, done.reasoning) for done in alone
        ]


class TestDescribe:
    def test_it_says_what_the_model_is(self, runtime: Runtime) -> None:
        """Of the shipped model: the Hermes format, derived from its template, and nothing to warn of."""
        info = runtime.describe()

        assert info.backend in ("llama.cpp", "mlx")
        assert (info.format.name, info.context_tokens, info.warnings) == ("hermes", 2048, ())
        always = {"system", "thinking", "thinking_option", "tools", "prefix_reuse", "constrained_calls"}
        assert set(info.features) - {"saved_cache"} == always
        assert 0 < info.weight_bytes < 8 * 1024 * 1024
        assert info.backend_version != ""


class TestClose:
    def test_twice(self, own_runtime: Runtime) -> None:
        """The second close does nothing, and its description stays."""
        own_runtime.close()
        own_runtime.close()

        assert own_runtime.describe().format.name == "hermes"

    def test_use_after_close(self, own_runtime: Runtime) -> None:
        """A closed runtime says that it is closed, and what to do."""
        own_runtime.close()

        with pytest.raises(RuntimeClosedError, match=r"closed; load it again with load_model\(\)"):
            own_runtime.submit(ask())
        with pytest.raises(RuntimeClosedError):
            own_runtime.count_tokens(ask())
        with pytest.raises(RuntimeClosedError):
            own_runtime.count_texts(["Hello"])  # type: ignore[attr-defined]  # local models have it

    def test_what_waits_and_what_runs_end_as_cancelled(self, own_runtime: Runtime) -> None:
        """Closing ends every generation with its ``Done``; nobody waits for ever."""
        running = own_runtime.submit(ask(LONG, max_tokens=1900, stop=("never",), temperature=2.0, seed=1))
        waiting = own_runtime.submit(ask())
        own_runtime.close()
        done = [[output for output in generation if isinstance(output, Done)] for generation in (running, waiting)]

        assert [[one.finish_reason for one in outputs] for outputs in done] == [["cancelled"], ["cancelled"]]

    def test_a_generation_keeps_its_runtime(self, own_runtime: Runtime) -> None:
        """``for output in load_model().submit(...)`` works: nothing is closed under a running reply."""
        generation = own_runtime.submit(ask(max_tokens=4))

        assert generation._runtime is own_runtime  # type: ignore[attr-defined]  # of both kinds


class TestMedia:
    def test_what_the_model_does_not_take_is_refused_before_anything_is_computed(self, runtime: Runtime) -> None:
        image = Image.of(b"GIF89a" + bytes(100))
        request = ask(UserMessage("m1", "", parts=(TextPart("What is this?"), image)))

        assert runtime.describe().media == ()
        done = reply(runtime, request)
        assert done.failure is not None
        assert (done.failure.kind, done.usage) == ("modality", Usage())
        assert "[image image/gif, 106 bytes]" in done.failure.message
        assert "takes text alone" in done.failure.message
        with pytest.raises(CogstepError, match="takes text alone"):
            runtime.count_tokens(request)
        assert reply(runtime, ask(max_tokens=5)).failure is None
