"""The conformance suite of all runtimes, held against remote models: the very same tests, by way of a server.

Behind servers of ours stands the shipped model with its engine in the test's hands, as behind local runtimes; other
people's servers can't be steered, so that tests which need a certain reply are left out there. What else is left out
says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from attrs import evolve

from cognition import Usage, UserMessage
from cognition.parsing import ReasoningDelta, TextDelta
from cognition.steps.retry import classify
from cognition.wire import QUIRKS
from runtime import Done, Runtime, RuntimeClosedError, load_model
from runtime.providers.backends import Backend
from tests.runtime import test_conformance as suite
from tests.runtime.asking import LONG, ask, reply
from tests.runtime.conftest import TINY_CONTEXT, load_or_skip
from tests.runtime.providers.conftest import KEY, PATHS, rig_of_server
from tests.runtime.providers.speaking import SpeakingServer
from tests.runtime.steering import Rig, Steering

OURS = [pytest.param(dialect, marks=pytest.mark.llama) for dialect in PATHS]
THEIRS = [
    *(
        pytest.param(name, marks=[pytest.mark.llama, pytest.mark.slow])
        for name in ("llama-server", "llama-server responses", "llama-server messages", "llama_cpp.server")
    ),
    pytest.param("mlx_lm.server", marks=[pytest.mark.mlx, pytest.mark.slow]),
]


def remote(dialect: Any, port: int, **options: Any) -> Runtime:
    """A runtime for a server of ours, which takes options of sampling, as Anthropic's older models do."""
    quirks = {"quirks": QUIRKS["anthropic-budget"]} if dialect == "anthropic" else {}
    url = f"http://127.0.0.1:{port}{PATHS[dialect]}"
    backend = Backend("ours", url, dialect, key_env="COGSTEP_TEST_KEY", **quirks)
    return load_model("ours/small", backends=[backend], **options)


def theirs(name: str, request: pytest.FixtureRequest) -> Runtime:
    """A runtime for another program's server.

    llama-server speaks the formats of responses and of messages too. What it is isn't asked in the latter, and so
    neither is that nobody has chosen its temperature.
    """
    if name == "llama_cpp.server":  # which doesn't tell its context
        return load_model(f"http://127.0.0.1:{request.getfixturevalue('llama_cpp_port')}/v1", context_tokens=2048)
    if name == "mlx_lm.server":
        return load_model(f"http://127.0.0.1:{request.getfixturevalue('mlx_port')}/v1")
    url = f"http://127.0.0.1:{request.getfixturevalue('llama_port')}/v1"
    match name:
        case "llama-server responses":
            quirks = QUIRKS["llama-server-responses"]
        case "llama-server messages":
            quirks = evolve(QUIRKS["anthropic-budget"], extra={"temperature": 0})
        case _:
            return load_model(f"{url}|small")
    return load_model("theirs/small", backends=[Backend("theirs", url, quirks.dialect, quirks=quirks)])


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COGSTEP_TEST_KEY", KEY)


@pytest.fixture
def rig(request: pytest.FixtureRequest, key: None) -> Iterator[Rig]:
    """A remote runtime, and orders to the engine behind it where it can be given any."""
    match request.param:
        case dialect if dialect in PATHS:
            server, steering = request.getfixturevalue("behind")(dialect)
            made = rig_of_server(server, steering, remote(dialect, server.port))
        case name:
            made = Rig(theirs(name, request), _unsteered)
    yield made
    made.runtime.close()
    if request.param in PATHS:
        made.order("restore")


def _unsteered(name: str, *_: Any) -> Any:
    pytest.skip(f"another program's server can't be told to {name}")


@pytest.fixture
def runtime(rig: Rig) -> Runtime:
    return rig.runtime


@pytest.fixture
def own_runtime(rig: Rig) -> Runtime:
    return rig.runtime


@pytest.fixture
def script(rig: Rig) -> Callable[[str], None]:
    return lambda text: rig.order("write", text)


def held(kind: type, places: Iterable[Any], only: str = "", leave_out: str = "") -> Any:
    """The tests of a class of the suite at these places: all of them, or ``only`` some, but for what is left out."""
    tests = [name for name in vars(kind) if name.startswith("test_")]
    unknown = {*only.split(), *leave_out.split()} - {*tests}
    assert not unknown, f"the suite has no {unknown}"
    away: dict[str, Any] = {name: None for name in tests if name in leave_out.split() or (only and name not in only)}
    return pytest.mark.parametrize("rig", [*places], indirect=True)(type(kind.__name__, (kind,), away))


OPENAI, ANTHROPIC, OLLAMA, RESPONSES = ([one] for one in OURS)
LLAMA_SERVER, LLAMA_SERVER_RESPONSES, _, LLAMA_CPP_SERVER, MLX_SERVER = ([one] for one in THEIRS)

TestStream = held(suite.TestStream, OURS)
TestStopTexts = held(suite.TestStopTexts, [*OPENAI, *ANTHROPIC, *OLLAMA])  # responses have no word for them
TestThreads = held(suite.TestThreads, [*OURS, *THEIRS])
TestFinish = held(
    suite.TestFinish,
    OURS,
    "test_stop test_tool_calls test_the_shipped_model_calls_a_tool test_length",
)
TestUsage = held(suite.TestUsage, OPENAI)
TestUsageOfAnthropic = held(
    suite.TestUsage,
    ANTHROPIC,
    # thoughts go back with the signature that came with them alone, so that the next prompt is another one
    leave_out="test_a_request_that_extends_another_reuses_it",
)
TestUsageOfResponses = held(
    suite.TestUsage,
    RESPONSES,
    # nobody counts; and thoughts don't go back, so that the next prompt is another one
    leave_out="test_count_tokens_is_what_a_reply_reports test_a_request_that_extends_another_reuses_it",
)
TestUsageOfOllama = held(suite.TestUsage, OLLAMA, "test_timings_add_up")  # it neither counts nor tells what it reused
TestSampling = held(
    suite.TestSampling,
    OPENAI,
    leave_out="test_typical_sampling_differs_by_seed_and_repeats_with_one",  # the API has no word for it
)
TestSamplingOfOllama = held(
    suite.TestSampling,
    OLLAMA,
    # there is no logit_bias, on which these stand
    leave_out="test_a_bias_forces_and_forbids test_penalties_keep_the_reply_from_saying_a_token_again",
)
TestSamplingElsewhere = held(suite.TestSampling, [*ANTHROPIC, *RESPONSES], "test_greedy_repeats")  # no seeds, no min_p
TestCancel = held(
    suite.TestCancel,
    OURS,
    leave_out="test_in_decode",  # what a reply that is cut has cost is not told
)
TestClose = held(
    suite.TestClose,
    OURS,
    "test_what_waits_and_what_runs_end_as_cancelled test_a_generation_keeps_its_runtime",
)
TestMedia = held(suite.TestMedia, OLLAMA)  # which tells what the model takes

TestStreamElsewhere = held(
    suite.TestStream,
    THEIRS,
    "test_the_deltas_joined_are_the_text_and_the_reasoning test_it_ends_with_one_done",
)
TestFinishElsewhere = held(suite.TestFinish, THEIRS, "test_the_shipped_model_calls_a_tool")
TestUsageOfLlamaServer = held(suite.TestUsage, LLAMA_SERVER)
TestCountsOfLlamaServer = held(suite.TestUsage, LLAMA_SERVER_RESPONSES, "test_count_tokens_is_what_a_reply_reports")
TestUsageOfMlxServer = held(suite.TestUsage, MLX_SERVER, "test_timings_add_up")
TestSamplingOfOthers = held(
    suite.TestSampling, THEIRS, "test_greedy_repeats test_options_that_leave_one_token_are_greedy"
)
TestSamplingOfLlamaCppServer = held(
    suite.TestSampling,
    LLAMA_CPP_SERVER,
    leave_out="test_typical_sampling_differs_by_seed_and_repeats_with_one",  # the API has no word for it
)
TestSeedsOfLlamaServer = held(suite.TestSampling, LLAMA_SERVER, "test_a_seed_repeats_and_no_seed_does_not")
TestCancelElsewhere = held(suite.TestCancel, THEIRS, "test_after_the_end_it_does_nothing")
TestCloseElsewhere = held(
    suite.TestClose,
    THEIRS,
    "test_what_waits_and_what_runs_end_as_cancelled test_a_generation_keeps_its_runtime",
)
TestMediaElsewhere = held(suite.TestMedia, LLAMA_SERVER)


# ---------------------------------------------------------------- what holds of remote models where others hold more


@pytest.mark.parametrize("rig", [*OURS, *THEIRS], indirect=True)
class TestRemote:
    def test_it_is_a_runtime(self, runtime: Runtime) -> None:
        assert isinstance(runtime, Runtime)

    def test_it_says_what_the_model_is(self, runtime: Runtime) -> None:
        """The context is what the server says; where it doesn't, one is assumed, and that is said."""
        info = runtime.describe()

        assert {"tools", "system"} <= {*info.features}
        assert (info.context_tokens == 2048) != any("context" in one for one in info.warnings)

    def test_closed_is_closed(self, own_runtime: Runtime) -> None:
        """A second close does nothing; a closed runtime says so, and still says what it was."""
        own_runtime.close()
        own_runtime.close()

        with pytest.raises(RuntimeClosedError, match=r"closed; load it again with load_model\(\)"):
            own_runtime.submit(ask())
        with pytest.raises(RuntimeClosedError):
            own_runtime.count_tokens(ask())
        assert own_runtime.describe().name != ""

    def test_cancelled_in_the_middle_it_ends_with_what_had_come(self, runtime: Runtime) -> None:
        """The text of the ``Done`` is that of the deltas; the next reply is as ever."""
        for _ in range(20):  # where no seed holds, a reply may be short, and over before it is cancelled
            generation = runtime.submit(ask(LONG, max_tokens=1900, temperature=2.0, seed=1, stop=("never",)))
            shown = [next(generation)]
            generation.cancel()
            *rest, done = generation
            if done.finish_reason == "cancelled":
                break
        text = "".join(one.text for one in (*shown, *rest) if isinstance(one, TextDelta))
        reasoning = "".join(one.text for one in (*shown, *rest) if isinstance(one, ReasoningDelta))

        assert isinstance(done, Done)
        assert (done.finish_reason, done.failure) == ("cancelled", None)
        assert (done.reasoning, done.text) == (reasoning, text)
        assert reply(runtime, ask(max_tokens=4)).failure is None

    def test_a_summary_of_many_cancels_in_a_row(self, runtime: Runtime) -> None:
        """Cancelled at once, wherever that finds them: one ``Done`` each, and no connection is left in doubt."""
        for _ in range(10):
            generation = runtime.submit(ask(max_tokens=8))
            generation.cancel()
            (done,) = [one for one in generation if isinstance(one, Done)]
            assert done.finish_reason in ("cancelled", "length", "stop")

        assert reply(runtime, ask(max_tokens=4)).failure is None


@pytest.fixture(scope="module")
def tiny() -> Iterator[tuple[SpeakingServer, Steering]]:
    """A server whose model has a context of ``TINY_CONTEXT`` tokens."""
    with load_or_skip("llama", TINY_CONTEXT) as local:
        server = SpeakingServer(local, key=KEY)
        yield server, Steering(local._owner, server.cancelled, server.submitted)
        server.close()


@pytest.fixture
def tiny_rig(request: pytest.FixtureRequest, tiny: tuple[SpeakingServer, Steering]) -> Iterator[Rig]:
    made = rig_of_server(*tiny, remote(request.param, tiny[0].port))
    yield made
    made.runtime.close()
    made.order("restore")


@pytest.fixture
def tiny_runtime(tiny_rig: Rig) -> Runtime:
    return tiny_rig.runtime


@pytest.mark.parametrize("tiny_rig", OURS, indirect=True)
class TestContext:
    def test_the_end_of_the_context_is_a_length_too(self, tiny_rig: Rig, tiny_runtime: Runtime) -> None:
        tiny_rig.order("write", "word " * TINY_CONTEXT)
        done = reply(tiny_runtime, ask(max_tokens=10 * TINY_CONTEXT))

        assert done.finish_reason == "length"
        assert done.usage.input_tokens + done.usage.output_tokens == TINY_CONTEXT

    def test_an_overflow_is_one(self, tiny_runtime: Runtime, request: pytest.FixtureRequest) -> None:
        """With both numbers, where the server tells them."""
        done = reply(tiny_runtime, ask(UserMessage("m1", "5" * 200)))

        assert done.failure is not None
        assert (done.finish_reason, classify(done.failure), done.usage) == ("error", "context_overflow", Usage())
        if tiny_runtime.describe().backend == "ours" and "estimated_counts" not in tiny_runtime.describe().features:
            assert done.failure.available_tokens == TINY_CONTEXT - 1
            assert done.failure.needed_tokens == tiny_runtime.count_tokens(ask(UserMessage("m1", "5" * 200)))


@pytest.mark.parametrize("rig", OURS, indirect=True)
def test_a_server_that_fails_fails_one_reply(rig: Rig, runtime: Runtime) -> None:
    """Its error is a failure and no exception; the next reply is right."""
    before = reply(runtime, ask(max_tokens=8))
    rig.order("breaks", "sample")
    done = reply(runtime, ask(max_tokens=8))
    rig.order("restore")
    after = reply(runtime, ask(max_tokens=8))

    assert done.finish_reason == "error"
    assert done.failure is not None
    assert "it is broken" in done.failure.message
    assert (after.text, after.reasoning, after.failure) == (before.text, before.reasoning, None)
