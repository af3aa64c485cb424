"""Real processes that misbehave: every reply ends truthfully, and nothing of a process is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve

from cognition import AssistantMessage, Failure, UserMessage
from cognition.parsing import TextDelta
from cognition.steps.retry import classify
from runtime import ModelFileError, ModelNotFoundError, ModelSpecError, load_model
from runtime.children.line_pipe import LineSplitter
from runtime.errors import ModelOptionsError
from runtime.programs import handles
from runtime.protocol.model import Done
from tests.runtime.asking import ask, reply
from tests.runtime.programs.installed import PROGRAMS, VARIABLES, Installed

BEGUN = {
    "claude": [
        {
            "type": "stream_event",
            "event": {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 9}}},
        },
        {
            "type": "stream_event",
            "event": {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hel"}},
        },
    ],
    "codex": [{"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": "Hel"}}],
}
"""The events of a reply that has begun."""


@pytest.fixture
def installed(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installed:
    """One of the programs: each for tests with ``EACH``, else the first, since all else is the same for both."""
    return Installed(getattr(request, "param", "claude"), tmp_path, monkeypatch)


EACH = pytest.mark.parametrize("installed", PROGRAMS, indirect=True)


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No file of ours, whatever a test does."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(handles.tempfile, "tempdir", str(tmp_path / "tmp"))
    yield
    assert list((tmp_path / "tmp").iterdir()) == []


def begun(installed: Installed) -> list[Any]:
    return ["events", *BEGUN[installed.program.name]]


def lives(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not reaped yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def failed(installed: Installed, *steps: list[Any], **options: Any) -> tuple[Done, Failure]:
    installed.plan(*steps)
    with installed.load(**options) as runtime:
        done = reply(runtime, ask())
    assert done.finish_reason == "error"
    assert done.failure is not None
    return done, done.failure


class TestEndsThatAreNone:
    @EACH
    def test_a_crash_within_the_reply(self, installed: Installed) -> None:
        """What had come is kept, and the signal is named."""
        done, failure = failed(installed, begun(installed), ["die", signal.SIGSEGV])

        assert done.text == "Hel"
        assert failure.kind == "transient"
        assert "was killed by SIGSEGV" in failure.message

    @EACH
    def test_a_code_with_words_on_stderr(self, installed: Installed) -> None:
        """The words tell the kind, not the code."""
        _, failure = failed(installed, ["error", "Error: unexpected status 401 Unauthorized"], ["exit", 1])

        assert (failure.kind, failure.status) == ("auth", 401)
        assert "ended with code 1; it said: Error: unexpected status 401" in failure.message
        assert installed.program.sign_in in failure.message

    def test_a_code_without_a_word(self, installed: Installed) -> None:
        _, failure = failed(installed, ["exit", 3])

        assert failure.message == f"{installed.program.name}: ended with code 3"
        assert classify(failure) == "fatal"

    @EACH
    def test_a_code_after_the_whole_reply(self, installed: Installed) -> None:
        """The reply is there, and something went wrong all the same."""
        done, failure = failed(installed, ["say", "Hello"], ["exit", 3])

        assert done.text == "Hello"
        assert (failure.kind, "ended with code 3 after its answer" in failure.message) == ("transient", True)

    def test_no_output_at_all(self, installed: Installed) -> None:
        _, failure = failed(installed, ["exit", 0])

        assert failure.kind == "bad_output"
        assert "said nothing" in failure.message

    def test_output_that_is_no_event(self, installed: Installed) -> None:
        """As of another program of that name."""
        _, failure = failed(installed, ["raw", "Hello, who are you?\n"])

        assert failure.kind == "bad_output"
        assert "Hello, who are you?" in failure.message

    @EACH
    def test_half_an_event_at_the_end(self, installed: Installed) -> None:
        """A reply that broke off is no success, though the code says so."""
        done, failure = failed(installed, begun(installed), ["raw", '{"type": "result", "subty'])

        assert (done.text, failure.kind) == ("Hel", "bad_output")

    def test_a_garbled_line_ends_it(self, installed: Installed) -> None:
        """It is killed: what it says next does not count."""
        started = time.monotonic()
        _, failure = failed(installed, ["raw", '{"type": \n'], ["ignore", "SIGINT", "SIGTERM"], ["hang"], grace=60.0)

        assert failure.kind == "bad_output"
        assert time.monotonic() - started < 30  # half of the grace that it was not given

    def test_the_longest_output_is_the_end(self, installed: Installed) -> None:
        """Claude Code would have its model go on."""
        event = {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}}
        installed.plan(begun(installed), ["events", {"type": "stream_event", "event": event}], ["hang"])
        with installed.load(grace=60.0) as runtime:
            done = reply(runtime, ask())

        assert (done.text, done.finish_reason, done.failure) == ("Hel", "length", None)

    def test_a_line_without_an_end(self, installed: Installed, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("runtime.programs._events.LineSplitter", lambda _longest: LineSplitter(100_000))
        _, failure = failed(installed, ["raw", "{"], ["flood", 1, 10_000_000])

        assert failure.kind == "bad_output"
        assert "more than 100,000 bytes" in failure.message

    def test_an_option_that_it_does_not_know(self, installed: Installed) -> None:
        """It says that it is too old."""
        _, failure = failed(installed, ["error", "error: unknown option '--tools'"], ["exit", 1])

        assert "update it" in failure.message

    def test_a_program_that_can_not_be_started(self, installed: Installed) -> None:
        """A file that is gone, or that is none, is told in a line that says what to do."""
        with installed.load() as runtime:
            installed.path.write_text("#!/nowhere\n", "utf-8")
            broken = reply(runtime, ask())
            installed.path.unlink()
            gone = reply(runtime, ask())

        for done in (broken, gone):
            assert done.failure is not None
            assert done.failure.kind == "fatal"
            assert installed.program.install in done.failure.message


class TestTime:
    def test_silence(self, installed: Installed) -> None:
        """What it said last is told."""
        done, failure = failed(installed, ["error", "retrying"], begun(installed), ["hang"], silence=0.5)

        assert (done.text, failure.kind, failure.code) == ("Hel", "transient", "silence")
        assert "its last words were: retrying" in failure.message

    def test_a_deadline_though_it_is_not_silent(self, installed: Installed) -> None:
        noise = [["raw", "x\n"], ["sleep", 0.1]] * 100
        _, failure = failed(installed, *noise, silence=0.5, deadline=0.8)

        assert (failure.kind, failure.code) == ("transient", "deadline")

    @EACH
    def test_one_that_does_not_end_after_its_answer_is_ended(self, installed: Installed) -> None:
        """The answer is whole, and a warning says so."""
        installed.plan(["ignore", "SIGINT"], ["say", "Hello"], ["hang"])
        with installed.load(grace=0.2) as runtime:
            done = reply(runtime, ask())

        assert (done.text, done.finish_reason, done.failure) == ("Hello", "stop", None)
        assert any("had to be ended" in warning for warning in done.warnings)

    def test_what_it_leaves_behind_holds_nobody_up(self, installed: Installed) -> None:
        """A process of its own that holds stdout open ends with it."""
        installed.plan(["leave"], ["say", "Hello"])
        with installed.load(grace=30.0) as runtime:
            done = reply(runtime, ask())

        assert (done.text, done.failure, done.warnings) == ("Hello", None, ())


class TestStderr:
    def test_it_is_read_to_its_end_and_kept_in_part(self, installed: Installed) -> None:
        """A program that fills it is not held up, nor is memory filled; the last words are kept."""
        installed.plan(["flood", 2, 3_000_000], ["error", "\nAPI Error: 529 overloaded"], ["exit", 1])
        with installed.load() as runtime:
            done = reply(runtime, ask())

        assert done.failure is not None
        assert done.failure.kind == "rate_limit"
        assert len(done.failure.message) < 1000

    def test_it_is_no_part_of_a_reply(self, installed: Installed) -> None:
        installed.plan(["flood", 2, 300_000], ["say", "Hello"])
        with installed.load() as runtime:
            done = reply(runtime, ask())

        assert (done.text, done.failure) == ("Hello", None)

    @EACH
    def test_secrets_that_it_repeats_are_hidden(self, installed: Installed, monkeypatch: pytest.MonkeyPatch) -> None:
        """Keys of its own, which it got by its environment."""
        name = next(one for one in installed.program.variables if one.endswith("API_KEY"))
        monkeypatch.setenv(name, "sk-very-secret")
        _, failure = failed(installed, ["error", "401 Unauthorized: sk-very-secret"], ["exit", 1])

        assert "sk-very-secret" not in repr(failure)
        assert "***" in failure.message


class TestCancel:
    @EACH
    def test_interrupts_and_then_kills_all_that_it_has_started(self, installed: Installed) -> None:
        """Whatever it ignores, and what had come is in the ``Done``."""
        installed.plan(
            begun(installed), ["ignore", "SIGINT", "SIGTERM"], ["leave"], ["meet", str(installed.meeting)], ["hang"]
        )
        with installed.load(grace=0.2) as runtime:
            generation = runtime.submit(ask())
            pid = installed.met()
            if installed.program.name == "claude":
                assert next(generation) == TextDelta("Hel")
            generation.cancel()
            generation.cancel()
            *_, done = generation

        assert isinstance(done, Done)
        assert done.finish_reason == "cancelled"
        assert not lives(pid)

    def test_an_interrupt_is_enough_for_one_that_heeds_it(self, installed: Installed) -> None:
        """It is not killed before its time."""
        installed.plan(["meet", str(installed.meeting)], ["hang"])
        with installed.load(grace=60.0) as runtime:
            generation = runtime.submit(ask())
            installed.met()
            started = time.monotonic()
            generation.cancel()
            (done,) = generation

        assert isinstance(done, Done)
        assert done.finish_reason == "cancelled"
        assert time.monotonic() - started < 30

    def test_a_failure_by_which_it_takes_an_interrupt_is_none(self, installed: Installed) -> None:
        """Claude Code says that its turn has failed when it is interrupted."""
        installed.plan(["meet", str(installed.meeting)], ["hang"])
        with installed.load(grace=60.0) as runtime, installed.load(grace=60.0, deadline=0.1) as hasty:
            generation = runtime.submit(ask())
            installed.met()
            generation.cancel()
            (done,) = generation
            late = reply(hasty, ask())

        assert isinstance(done, Done)
        assert (done.finish_reason, done.failure) == ("cancelled", None)
        assert late.failure is not None
        assert late.failure.code == "deadline"

    def test_what_waits_for_its_turn_never_starts(self, installed: Installed) -> None:
        installed.plan(["meet", str(installed.meeting)], ["hang"])
        with installed.load(at_once=1) as runtime:
            running, waiting = runtime.submit(ask()), runtime.submit(ask())
            installed.met()
            waiting.cancel()
            (done,) = waiting
            assert isinstance(done, Done)
            assert done.finish_reason == "cancelled"
            running.cancel()
            list(running)

        assert len(installed.calls) == 1

    def test_closing_ends_what_runs_and_what_waits(self, installed: Installed) -> None:
        installed.plan(["meet", str(installed.meeting)], ["hang"])
        runtime = installed.load(at_once=1)
        generations = [runtime.submit(ask()) for _ in range(3)]
        pid = installed.met()
        runtime.close()

        assert not lives(pid)
        assert [one.finish_reason for made in generations for one in made if isinstance(one, Done)] == ["cancelled"] * 3

    def test_after_the_last_word_it_changes_nothing(self, installed: Installed) -> None:
        """What was handed on whole is a whole reply, whether or not its process has ended."""
        installed.plan(["ignore", "SIGINT"], ["say", "Hello"], ["hang"])
        with installed.load(grace=0.3) as runtime:
            generation = runtime.submit(ask())
            outputs = [next(generation), next(generation)]
            time.sleep(0.05)  # its last event comes behind the last piece of its text
            generation.cancel()
            (done,) = generation

        assert outputs == [TextDelta("He"), TextDelta("llo")]
        assert isinstance(done, Done)
        assert (done.text, done.finish_reason) == ("Hello", "stop")

    @EACH
    def test_in_the_instant_of_the_last_event_it_counts_or_the_reply_does(
        self, installed: Installed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A reply of which a part was not handed on is never told as a whole one."""
        reader = installed.program.reader

        def cancelling(options: Any, structured: bool) -> Any:
            made = reader(options, structured)
            feed = made.feed

            def heard(data: bytes) -> Any:
                outputs = feed(data)
                if made.ended:
                    generation.cancel()
                return outputs

            made.feed = heard
            return made

        installed.plan(["say", "Hello"])
        with installed.load() as runtime:
            runtime.runner.program = evolve(installed.program, reader=cancelling)
            generation = runtime.submit(ask())
            *outputs, done = generation

        assert isinstance(done, Done)
        assert "".join(output.text for output in outputs if isinstance(output, TextDelta)) == done.text
        assert "Hello".startswith(done.text)
        assert done.finish_reason == ("stop" if done.text == "Hello" else "cancelled")

    @pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
    def test_it_ends_with_this_program(self, installed: Installed) -> None:
        """Even if that is killed."""
        installed.plan(["ignore", "SIGINT", "SIGTERM", "SIGPIPE"], ["meet", str(installed.meeting)], ["hang"])
        source = (
            "import sys; sys.path.insert(0, '.')\n"
            "from runtime import load_model, ClaudeOptions, CodexOptions\n"
            "name, path, names = sys.argv[1], sys.argv[2], tuple(sys.argv[3:])\n"
            "options = {'claude': ClaudeOptions, 'codex': CodexOptions}[name](program=path, variables=names)\n"
            "from tests.runtime.asking import ask\n"
            "list(load_model(name, options=options).submit(ask()))\n"
        )
        parent = subprocess.Popen(
            [sys.executable, "-c", source, installed.program.name, str(installed.path), *VARIABLES],
            env={**os.environ, "TMPDIR": str(installed.folder)},
        )
        pid = installed.met()
        parent.kill()
        parent.wait()
        deadline = time.monotonic() + 30
        while lives(pid) and time.monotonic() < deadline:
            time.sleep(0.01)

        assert not lives(pid)


class TestElsewhere:
    """Where a process can't be tied to its parent, and its end is looked for instead of told: as on macOS."""

    @pytest.fixture(autouse=True)
    def no_linux(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("runtime.programs._process.sys", SimpleNamespace(platform="darwin"))
        monkeypatch.setattr("runtime.programs._process.command_of", lambda path, arguments: [path, *arguments])

    def test_a_reply(self, installed: Installed) -> None:
        installed.plan(["leave"], ["say", "Hello"])
        with installed.load(grace=30.0) as runtime:
            done = reply(runtime, ask())

        assert (done.text, done.failure) == ("Hello", None)

    def test_a_cancelled_one(self, installed: Installed) -> None:
        installed.plan(["ignore", "SIGINT", "SIGTERM"], ["meet", str(installed.meeting)], ["hang"])
        with installed.load(grace=0.1) as runtime:
            generation = runtime.submit(ask())
            pid = installed.met()
            generation.cancel()
            (done,) = generation

        assert isinstance(done, Done)
        assert (done.finish_reason, lives(pid)) == ("cancelled", False)

    def test_one_that_can_not_be_started(self, installed: Installed) -> None:
        with installed.load() as runtime:
            installed.path.write_text("#!/nowhere\n", "utf-8")
            done = reply(runtime, ask())

        assert done.failure is not None
        assert done.failure.kind == "fatal"
        assert installed.program.install in done.failure.message


class TestWhatItGets:
    @EACH
    def test_the_environment_is_trimmed(self, installed: Installed, monkeypatch: pytest.MonkeyPatch) -> None:
        """What it needs, its own keys, and what is named; nothing else of this program's."""
        own = installed.program.variables[0]
        for name in (own, "OTHER_API_KEY", "AWS_SECRET_ACCESS_KEY", "CLAUDECODE", "PYTHONPATH", "HF_TOKEN"):
            monkeypatch.setenv(name, "value-of-it")
        monkeypatch.setenv("https_proxy", "http://proxy")
        with installed.load() as runtime:
            reply(runtime, ask())
        (call,) = installed.calls

        got = call["environ"]
        assert (got[own], got["https_proxy"], "PATH" in got, "HOME" in got) == (
            "value-of-it",
            "http://proxy",
            True,
            True,
        )
        assert not {"OTHER_API_KEY", "AWS_SECRET_ACCESS_KEY", "CLAUDECODE", "PYTHONPATH", "HF_TOKEN"} & got.keys()

    def test_a_prompt_of_any_length_comes_by_stdin(self, installed: Installed) -> None:
        """While it is written, what the program says is read."""
        text = "word " * 400_000
        installed.plan(["flood", 2, 300_000], ["say", "Hello"])
        with installed.load() as runtime:
            done = reply(runtime, ask(UserMessage("m1", text)))
        (call,) = installed.calls

        assert done.failure is None
        assert text in call["stdin"]

    def test_a_program_that_reads_nothing_tells_why(self, installed: Installed) -> None:
        """A closed pipe is no failure of its own."""
        installed.path.write_text("#!/bin/sh\nexec 0<&-\necho '401 Unauthorized' >&2\nexit 1\n", "utf-8")
        with installed.load() as runtime:
            done = reply(runtime, ask(UserMessage("m1", "word " * 400_000)))

        assert done.failure is not None
        assert done.failure.kind == "auth"

    @EACH
    def test_files_are_for_this_user_alone_and_go_with_the_reply(self, installed: Installed) -> None:
        with installed.load() as runtime:
            reply(runtime, ask(system="Be brief.", response_format='{"type": "object"}'))
            left = list(runtime.runner._place.rglob("*"))
        (call,) = installed.calls

        files = call["files"]
        assert {mode for mode, _ in files.values()} == {"0o600"}
        assert [path.name for path in left] == ["empty"]
        assert call["folder"].endswith("empty")

    def test_it_may_run_in_a_folder_of_the_program(self, installed: Installed) -> None:
        with installed.load(folder=str(installed.folder)) as runtime:
            reply(runtime, ask())
        with pytest.raises(ModelOptionsError, match="no directory"):
            installed.load(folder="/nowhere")

        assert installed.calls[0]["folder"] == str(installed.folder)


class TestSessions:
    @EACH
    def test_a_conversation_goes_on_with_what_is_new_of_it(self, installed: Installed) -> None:
        """The program has the rest."""
        first = UserMessage("m1", "Hello")
        with installed.load(sessions=True) as runtime:
            generation = runtime.submit(ask(first))
            *_, done = generation
            assert isinstance(done, Done)
            said = AssistantMessage("m2", done.text)
            again = reply(runtime, ask(first, said, UserMessage("m3", "And now?")))
            other = reply(runtime, ask(first, AssistantMessage("m2", "Otherwise"), UserMessage("m3", "And now?")))
        opened, resumed, new = installed.calls

        assert (again.text, other.text) == ("You said: And now?", "You said: And now?")
        assert again.usage.output_tokens == done.usage.output_tokens
        assert generation.session in " ".join(resumed["arguments"])
        assert "Hello" in opened["stdin"]
        assert "Hello" not in resumed["stdin"]
        assert "Hello" in new["stdin"]
        assert generation.session not in " ".join(new["arguments"])

    @EACH
    def test_a_session_that_is_gone_fails_once(self, installed: Installed) -> None:
        """As what may pass, so it is tried again, and then with the whole conversation."""
        with installed.load(sessions=True, resume="gone") as runtime:
            first, second = reply(runtime, ask()), reply(runtime, ask())

        assert first.failure is not None
        assert (first.failure.kind, first.failure.code) == ("transient", "session_gone")
        assert second.text == "You said: What is 17 * 23?"

    @EACH
    def test_by_default_nothing_is_kept(self, installed: Installed) -> None:
        with installed.load() as runtime:
            reply(runtime, ask())

        assert list((installed.folder / "sessions").iterdir()) == []


class TestNames:
    @EACH
    def test_models_are_named_by_their_program(self, installed: Installed) -> None:
        options = installed.program.options(program=str(installed.path), variables=VARIABLES)
        name = installed.program.name
        with load_model(f"{name.upper()}:m-1", options=options, context_tokens=5000) as runtime:
            reply(runtime, ask())
            info = runtime.describe()

        assert (info.name, info.backend, info.context_tokens) == (f"{name}:m-1", name, 5000)
        assert "--model=m-1" in installed.calls[0]["arguments"]

    @EACH
    def test_a_program_that_is_missing_says_what_to_install(
        self, installed: Installed, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", str(installed.folder / "log"))
        with pytest.raises(ModelNotFoundError, match="npm install -g"):
            load_model(installed.program.name)

    @pytest.mark.parametrize("model", ["", "--all", "a b", "x" * 200])
    def test_what_is_no_name_of_a_model_is_refused(self, installed: Installed, model: str) -> None:
        """Above all what would be an option."""
        with pytest.raises(ModelSpecError, match="is no name of a model"):
            load_model(f"{installed.program.name}:{model}")

    @EACH
    def test_options_of_others_are_refused(self, installed: Installed) -> None:
        other = next(one for one in PROGRAMS.values() if one is not installed.program)
        with pytest.raises(ModelOptionsError, match="options of"):
            load_model(installed.program.name, options=other.options())
        with pytest.raises(ModelOptionsError, match="leave out threads"):
            load_model(installed.program.name, threads=2)
        with pytest.raises(ModelOptionsError, match="command line"):
            load_model(options=installed.program.options())

    def test_a_file_of_that_name_is_a_model(self, installed: Installed, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(installed.folder)
        with pytest.raises(ModelFileError, match="no GGUF file"):
            load_model(installed.path.name)


def test_permissions_that_are_skipped_are_told_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the runtime and of each reply."""
    installed = Installed("codex", tmp_path, monkeypatch)
    with installed.load(dangerously_skip_permissions=True) as runtime:
        done = reply(runtime, ask())
        warned = runtime.describe().warnings

    assert done.warnings == warned
    assert "dangerously_skip_permissions" in warned[0]


def test_replies_that_nobody_reads_end_with_their_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A runtime that nobody holds any more is closed."""
    installed = Installed("claude", tmp_path, monkeypatch)
    installed.plan(["meet", str(installed.meeting)], ["hang"])
    runtime = installed.load()
    generation = runtime.submit(ask())
    pid = installed.met()
    del runtime, generation

    assert not lives(pid)
    assert not [one for one in threading.enumerate() if one.name == "cogstep claude"]
