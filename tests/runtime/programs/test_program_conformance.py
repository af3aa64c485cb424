"""What every runtime promises, held against both programs, as far as a program of others can promise it.

The suite of local models is ``tests/runtime/test_conformance.py``. What it says of tokens, sampling and caches is
theirs alone: nobody but a program's provider counts, samples and caches there.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import evolve

from cognition import CogstepError, Image, TextPart, Usage, UserMessage
from cognition.parsing import ReasoningDelta, TextDelta
from runtime import Done, Runtime, RuntimeClosedError
from runtime.async_adapter import start_async
from runtime.local.real_model_guard import BLOCKED, VARIABLE, RealModelBlockedError
from runtime.programs.handles import ProgramRuntime
from tests.runtime.asking import MULTIPLY, ask, reply
from tests.runtime.programs.installed import PROGRAMS, Installed


@pytest.fixture(scope="module", params=PROGRAMS)
def loaded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Installed, ProgramRuntime]]:
    with pytest.MonkeyPatch.context() as patch:
        installed = Installed(request.param, tmp_path_factory.mktemp(request.param), patch)
        with installed.load() as runtime:
            yield installed, runtime


@pytest.fixture
def installed(loaded: tuple[Installed, ProgramRuntime]) -> Installed:
    loaded[0].echo()
    return loaded[0]


@pytest.fixture
def runtime(loaded: tuple[Installed, ProgramRuntime], installed: Installed) -> ProgramRuntime:
    return loaded[1]


def test_it_is_a_runtime(runtime: ProgramRuntime) -> None:
    """Runtimes and their generations have the protocol's methods."""
    assert isinstance(runtime, Runtime)


class TestStream:
    @pytest.mark.parametrize("text", ["naïve café 日本語 😀👩‍👩‍👧 done \u200b|\ufeff|", "Two\n\nparagraphs.\n", "{}"])
    def test_the_deltas_joined_are_the_text_and_the_reasoning(
        self, installed: Installed, runtime: ProgramRuntime, text: str
    ) -> None:
        """What was shown while it came is what the ``Done`` says, and the ``Done`` is the last."""
        installed.plan(["say", text])
        generation = runtime.submit(ask())
        *outputs, done = generation
        assert isinstance(done, Done)

        assert (done.text, done.finish_reason, done.failure) == (text, "stop", None)
        assert "".join(output.text for output in outputs if isinstance(output, TextDelta)) == text
        assert "".join(output.text for output in outputs if isinstance(output, ReasoningDelta)) == done.reasoning
        assert list(generation) == []
        assert generation.session.startswith("session-")

    def test_an_event_loop_may_read_it(self, runtime: ProgramRuntime) -> None:
        """As it does any runtime that blocks."""

        async def read() -> list[object]:
            return [output async for output in start_async(runtime, ask())]

        *_, done = asyncio.run(read())
        assert isinstance(done, Done)
        assert done.text == "You said: What is 17 * 23?"


class TestStopTexts:
    @pytest.mark.parametrize("stop", ["quick", " over ", "dog.", "The"])
    def test_they_end_the_reply(self, installed: Installed, runtime: ProgramRuntime, stop: str) -> None:
        """The reply ends where the stop text begins, wherever events cut it, and so does the program."""
        text = "The quick brown fox jumps over the lazy dog."
        installed.plan(["say", text], ["hang"])
        *outputs, done = runtime.submit(ask(stop=(stop,)))
        assert isinstance(done, Done)

        assert (done.text, done.finish_reason) == (text.partition(stop)[0], "stop")
        assert "".join(output.text for output in outputs if isinstance(output, TextDelta)) == done.text

    def test_what_only_begins_like_one_is_shown(self, runtime: ProgramRuntime) -> None:
        """Text that was held back comes when it turns out to be none, and at the end."""
        done = reply(runtime, ask(stop=("17 * 24", "23?!")))

        assert done.text == "You said: What is 17 * 23?"


class TestUsage:
    def test_tokens_are_what_the_program_says(self, installed: Installed, runtime: ProgramRuntime) -> None:
        """Those of a cache are part of the prompt's."""
        cost = {"claude": 0.25, "codex": 0.0}[installed.program.name]

        assert reply(runtime, ask()).usage == Usage(20, 7, 5, cost)

    def test_timings_add_up(self, runtime: ProgramRuntime) -> None:
        timings = reply(runtime, ask()).timings

        assert timings.time_to_first_token is not None
        assert timings.time_to_first_token >= timings.prefill_seconds > 0

    def test_tokens_are_estimated_from_the_text(self, runtime: ProgramRuntime) -> None:
        """More text, more tokens."""
        short, long = (runtime.count_tokens(ask(UserMessage("m1", "word " * times))) for times in (1, 1000))

        assert 0 < short < long < 3000


class TestThreads:
    def test_several_at_once_get_their_own_replies(self, runtime: ProgramRuntime) -> None:
        """More than may run at a time: the others wait for their turn."""
        texts = [f"Number {number}" for number in range(6)]
        replies: dict[str, str] = {}

        def work(text: str) -> None:
            replies[text] = reply(runtime, ask(UserMessage("m1", text))).text

        threads = [threading.Thread(target=work, args=(text,)) for text in texts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

        assert replies == {text: f"You said: {text}" for text in texts}


class TestDescribe:
    def test_it_says_what_the_model_is(self, installed: Installed, runtime: ProgramRuntime) -> None:
        """It has no place for tools, so agents tell it of theirs in the system prompt."""
        info = runtime.describe()

        assert (info.name, info.backend, info.format.name) == (installed.program.name, installed.program.name, "plain")
        assert (info.path, info.media, info.warnings) == ("", (), ())
        assert "tools" not in info.features
        assert info.features


class TestClose:
    def test_use_after_close(self, installed: Installed) -> None:
        """The second close does nothing, its description stays, and use is an error that says so."""
        runtime = installed.load()
        runtime.close()
        runtime.close()

        assert runtime.describe().name == installed.program.name
        with pytest.raises(RuntimeClosedError, match=r"closed; load it again with load_model\(\)"):
            runtime.submit(ask())
        with pytest.raises(RuntimeClosedError):
            runtime.count_tokens(ask())

    def test_a_generation_keeps_its_runtime(self, installed: Installed) -> None:
        """Nothing is closed under a running reply."""
        done = reply(installed.load(), ask())

        assert done.text == "You said: What is 17 * 23?"


class TestRefusals:
    def test_pictures_are_refused_before_anything_is_asked(self, installed: Installed, runtime: ProgramRuntime) -> None:
        image = Image.of(b"GIF89a" + bytes(100))
        request = ask(UserMessage("m1", "", parts=(TextPart("What is this?"), image)))
        before = len(installed.calls)
        done = reply(runtime, request)

        assert done.failure is not None
        assert (done.failure.kind, done.usage) == ("modality", Usage())
        assert "[image image/gif, 106 bytes]" in done.failure.message
        with pytest.raises(CogstepError, match="takes text alone"):
            runtime.count_tokens(request)
        assert len(installed.calls) == before

    def test_tools_that_it_is_not_told_of_are_a_warning(self, installed: Installed, runtime: ProgramRuntime) -> None:
        """And nothing of them reaches it, unless a text protocol has put them into the system prompt."""
        native = ask(tools=(MULTIPLY,), temperature=0.5)
        warned, told = reply(runtime, native), reply(runtime, evolve(native, protocol="tool_tags"))

        assert [("tool_tags" in one, "temperature=0.5" in one) for one in warned.warnings] == [
            (True, False),
            (False, True),
        ]
        assert len(told.warnings) == 1
        assert "multiply" not in installed.calls[-2]["stdin"]

    def test_a_full_queue_is_a_rate_limit(self, installed: Installed) -> None:
        """The core tries it again."""
        runtime = ProgramRuntime(installed.program, "", installed.program.options(program=str(installed.path)), 1)
        with runtime:
            first, second = runtime.submit(ask()), runtime.submit(ask())
            (full,) = second
            first.cancel()

        assert isinstance(full, Done)
        assert full.failure is not None
        assert (full.failure.kind, full.failure.code) == ("rate_limit", "queue_full")

    def test_real_models_may_be_blocked(self, runtime: ProgramRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
        """Programs are real models: a test run that keeps those out keeps them out too."""
        monkeypatch.setenv(VARIABLE, BLOCKED)

        with pytest.raises(RealModelBlockedError):
            runtime.submit(ask())


class TestStructuredReplies:
    def test_the_schema_reaches_the_program(self, installed: Installed, runtime: ProgramRuntime) -> None:
        """Claude Code gives its structured output, and Codex writes it as its message."""
        value = '{"a": 1}'
        installed.plan(["say", value])
        done = reply(runtime, ask(response_format='{"type": "object"}'))

        assert (done.text, done.failure) == (value, None)
        told = installed.calls[-1]
        given = [told["options"].get("--json-schema"), told["files"].get("--output-schema")]
        assert ['{"type": "object"}'] in given or ["0o600", '{"type": "object"}'] in given


def test_the_place_of_a_runtime_is_gone_when_it_is_closed(installed: Installed) -> None:
    with installed.load() as runtime:
        place: Path = runtime.runner._place
        assert place.stat().st_mode & 0o777 == 0o700

    assert not place.exists()
