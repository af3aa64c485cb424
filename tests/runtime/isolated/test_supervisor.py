"""A child that ends, hangs, stops or goes mad costs what it was working on, and nothing else.

The child is a real process, with an engine of a few lines that does as it is told (``obedient.py``).
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from cognition import CogstepError, Failure, GenerationOptions, History, ModelRequest, UserMessage
from cognition.parsing import TextDelta
from runtime import Done, LoadCancelledError, ModelProcessError, RuntimeClosedError, TemplateError
from runtime.errors import ExtraMissingError, ModelLoadError
from runtime.isolated import wire
from runtime.isolated.handles import IsolatedRuntime
from runtime.isolated.settings import Isolation
from runtime.isolated.supervisor import PROCESS_ENDED, Supervisor
from runtime.protocol.model import Runtime

MODULE = "tests.runtime.isolated.obedient"
QUICK = Isolation(silence=2.0, deadline=60.0, backoff=0.0)
"""Two seconds without a sign of life are long for a child of two pulses a second, and short for a test."""
SHORT = Isolation(silence=2.0, deadline=2.0, backoff=0.0)


def supervise(path: str = "", settings: Isolation = QUICK, progress: Callable[[float], bool] = bool) -> Supervisor:
    return Supervisor(
        lambda: wire.Load("llama", path, settings.silence / 4),
        settings,
        name="obedient",
        on_progress=progress,
        module=MODULE,
    )


@pytest.fixture
def start() -> Iterator[Callable[..., IsolatedRuntime]]:
    """Makes runtimes, and closes them."""
    made: list[IsolatedRuntime] = []

    def begin(path: str = "", settings: Isolation = QUICK) -> IsolatedRuntime:
        made.append(IsolatedRuntime(supervise(path, settings)))
        return made[-1]

    yield begin
    for runtime in made:
        runtime.close()


def ask(text: str) -> ModelRequest:
    return ModelRequest("", History((UserMessage("m1", text),)), (), GenerationOptions())


def reply(runtime: Runtime, text: str) -> Done:
    *_, done = runtime.submit(ask(text))
    assert isinstance(done, Done)
    return done


def begun(generation: Any) -> Any:
    """A generation of which the first word has come."""
    assert next(generation) == TextDelta("first")
    return generation


def test_it_is_a_runtime(start: Callable[..., IsolatedRuntime]) -> None:
    """With the protocol's methods."""
    assert isinstance(start(), Runtime)


def test_what_it_says_comes_in_order(start: Callable[..., IsolatedRuntime]) -> None:
    """Of many replies at once, each gets its own."""
    runtime = start()
    texts = [f"{name} b c d" for name in "uvwxyz"]
    generations = [runtime.submit(ask(text)) for text in texts]

    for text, generation in zip(texts, generations, strict=True):
        *pieces, done = generation
        assert [piece.text for piece in pieces if isinstance(piece, TextDelta)] == text.split()
        assert isinstance(done, Done)
        assert (done.finish_reason, done.text) == ("stop", text.replace(" ", ""))


@pytest.mark.parametrize(
    ("end", "what"),
    [
        ("SIGKILL", "was killed by SIGKILL, as the system does when memory runs out"),
        ("SIGSEGV", "was killed by SIGSEGV"),
        ("shout SIGABRT", "was killed by SIGABRT; it said: Assertion `false' failed"),
        ("exit", "ended with code 3"),
        ("rubbish", "said what can't be right"),
        ("SIGSTOP", "gave no sign of life for 2 s and was killed"),
        ("hang", "came no further for 2 s and was killed"),
    ],
)
def test_an_end_fails_what_was_on_its_way_and_the_next_one_is_answered(
    start: Callable[..., IsolatedRuntime], end: str, what: str
) -> None:
    """It fails as transient, with what had come of it; the next process makes the next reply."""
    runtime = start(settings=SHORT if end == "hang" else QUICK)
    beside = runtime.submit(ask("first " + "word " * 100_000))
    done = reply(runtime, f"first second {end} third")
    *_, other = beside

    assert (done.finish_reason, done.text) == ("error", "firstsecond")
    assert done.failure is not None
    assert (done.failure.kind, done.failure.code) == ("transient", PROCESS_ENDED)
    assert what in done.failure.message
    assert done.failure.message.endswith("; it is started again")
    assert isinstance(other, Done)
    assert other.failure == done.failure
    assert other.text.startswith("first")
    assert reply(runtime, "again").text == "again"
    assert runtime.starts == 2


def test_what_is_asked_while_it_starts_waits_for_it(start: Callable[..., IsolatedRuntime]) -> None:
    """The next process gets it."""
    runtime = start()
    dying = runtime.submit(ask("SIGKILL"))
    assert [output.finish_reason for output in dying if isinstance(output, Done)] == ["error"]
    later = [runtime.submit(ask(f"later {number}")) for number in range(3)]
    later[1].cancel()
    ends = [next(output for output in generation if isinstance(output, Done)) for generation in later]

    assert [done.finish_reason for done in ends] == ["stop", "cancelled", "stop"]
    assert [done.text for done in ends][::2] == ["later0", "later2"]


def test_counting_is_begun_again(start: Callable[..., IsolatedRuntime], tmp_path: Path) -> None:
    """To count twice does no harm, so nobody hears of the end."""
    runtime = start(settings=Isolation(restarts=2, backoff=0.0))

    assert runtime.count_tokens(ask("a b c")) == 3
    with pytest.raises(TemplateError, match="no such conversation"):
        runtime.count_tokens(ask("refuse"))
    # It ends at this count, each time that it is asked; after the last time the caller hears of it.
    with pytest.raises(ModelProcessError, match=r"SIGKILL.*, the 3th time in a row; it is not started again"):
        runtime.count_tokens(ask("SIGKILL"))
    assert runtime.starts == 3


def test_a_process_that_ends_again_and_again_is_not_started_for_ever(start: Callable[..., IsolatedRuntime]) -> None:
    """After so many times in a row everything fails, and not as transient; a reply in between counts anew."""
    runtime = start(settings=Isolation(restarts=2, backoff=0.0))
    kinds = [reply(runtime, text) for text in ("SIGSEGV", "SIGSEGV", "fine", "SIGSEGV", "SIGSEGV", "SIGSEGV", "fine")]

    assert [done.failure.kind if done.failure else "" for done in kinds] == [
        "transient",
        "transient",
        "",
        "transient",
        "transient",
        "fatal",
        "fatal",
    ]
    assert runtime.pid is None
    assert runtime.starts == 5
    with pytest.raises(ModelProcessError, match="it is not started again"):
        runtime.count_tokens(ask("a"))
    cancelled = runtime.submit(ask("a"))
    cancelled.cancel()
    assert [type(output) for output in cancelled] == [Done]


def test_a_model_that_has_gone_can_not_be_loaded_again(start: Callable[..., IsolatedRuntime], tmp_path: Path) -> None:
    """The reason is in the failure."""
    model = tmp_path / "model"
    model.write_text("fine")
    runtime = start(str(model), Isolation(restarts=1, backoff=0.0))
    dying = begun(runtime.submit(ask("first " + "word " * 100_000)))
    model.unlink()
    assert runtime.pid is not None
    os.kill(runtime.pid, signal.SIGKILL)

    assert [*dying][-1].failure.kind == "transient"
    assert reply(runtime, "again").failure == Failure(
        f"the model can't be loaded again (there is no {model}), the 2th time in a row; it is not started again",
        kind="fatal",
        code=PROCESS_ENDED,
    )


class TestCancel:
    def test_in_the_middle(self, start: Callable[..., IsolatedRuntime]) -> None:
        """It ends as cancelled, with what had come; the others go on."""
        runtime = start()
        other = runtime.submit(ask("some other words"))
        generation = begun(runtime.submit(ask("first " + "word " * 100_000)))
        generation.cancel()
        generation.cancel()
        *_, done = generation

        assert done.finish_reason == "cancelled"
        assert done.text.startswith("first")
        assert [output.text for output in other if isinstance(output, Done)] == ["someotherwords"]
        assert runtime.starts == 1

    def test_of_a_process_that_hangs(self, start: Callable[..., IsolatedRuntime]) -> None:
        """Who cancelled gets what was asked for, when the process has been ended."""
        runtime = start()
        generation = begun(runtime.submit(ask("first SIGSTOP")))
        generation.cancel()

        assert [output.finish_reason for output in generation if isinstance(output, Done)] == ["cancelled"]
        assert reply(runtime, "again").text == "again"

    def test_after_the_end(self, start: Callable[..., IsolatedRuntime]) -> None:
        """Nothing happens, also where the end is on its way."""
        runtime = start()
        for _ in range(20):
            generation = runtime.submit(ask("a"))
            list(generation)
            generation.cancel()

        assert reply(runtime, "again").text == "again"


class TestClose:
    def test_everything_ends_as_cancelled_and_the_process_with_it(self, start: Callable[..., IsolatedRuntime]) -> None:
        """No process, thread or file is left."""
        before, files = set(threading.enumerate()), open_files()
        runtime = start()
        pid = runtime.pid
        assert pid is not None
        running = begun(runtime.submit(ask("first " + "word " * 100_000)))
        runtime.close()
        runtime.close()

        assert [output.finish_reason for output in running if isinstance(output, Done)] == ["cancelled"]
        assert not exists(pid)
        assert set(threading.enumerate()) <= before
        assert open_files() == files
        assert runtime.describe().name == "obedient"
        with pytest.raises(RuntimeClosedError):
            runtime.submit(ask("a"))
        with pytest.raises(RuntimeClosedError):
            runtime.count_tokens(ask("a"))
        running.cancel()

    def test_of_a_process_that_does_not_listen(self, start: Callable[..., IsolatedRuntime]) -> None:
        """It is killed after its time."""
        runtime = start(settings=SHORT)
        pid = runtime.pid
        assert pid is not None
        running = begun(runtime.submit(ask("first hang")))
        runtime.close()

        assert [output.finish_reason for output in running if isinstance(output, Done)] == ["cancelled"]
        assert not exists(pid)

    def test_between_two_processes(self, start: Callable[..., IsolatedRuntime]) -> None:
        """It does not wait for the next one."""
        runtime = start(settings=Isolation(backoff=1000.0))
        for _ in range(2):
            waiting = runtime.submit(ask("SIGKILL"))
            assert [output.finish_reason for output in waiting if isinstance(output, Done)] == ["error"]
        waiting = runtime.submit(ask("a"))
        runtime.close()

        assert [output.finish_reason for output in waiting if isinstance(output, Done)] == ["cancelled"]

    def test_while_somebody_counts(self, start: Callable[..., IsolatedRuntime]) -> None:
        """The caller hears that it was closed."""
        runtime = start(settings=evolve(SHORT, deadline=15.0))  # a busy machine must not let it end before the close
        heard: list[type[BaseException]] = []
        going = begun(runtime.submit(ask("first hang")))

        def count() -> None:
            try:
                runtime.count_tokens(ask("a"))
            except CogstepError as error:
                heard.append(type(error))

        thread = threading.Thread(target=count)
        thread.start()
        runtime.close()
        thread.join(60)
        list(going)

        assert heard == [RuntimeClosedError]


class TestLoading:
    @pytest.mark.parametrize("kind", ["ExtraMissingError", "ModelFileError", "TemplateError"])  # the rest: test_wire
    def test_errors_come_through_as_they_are(self, kind: str) -> None:
        """Type, text, fields; and no process is left."""
        supervisor = supervise(f"{kind}:what to do")

        with pytest.raises(ModelLoadError) as caught:
            supervisor.ready.result(60)
        supervisor.close()
        assert (type(caught.value).__name__, str(caught.value), caught.value.spec) == (kind, "what to do", "a spec")
        assert not isinstance(caught.value, ExtraMissingError) or caught.value.extra == "llama"
        assert supervisor.pid is None

    def test_other_errors_are_named(self) -> None:
        """As ``ModelLoadError``."""
        supervisor = supervise("ValueError:no good")

        with pytest.raises(ModelLoadError, match="ValueError: no good"):
            supervisor.ready.result(60)

    @pytest.mark.parametrize("end", ["SIGSEGV", "exit", "hang"])
    def test_a_process_that_ends_while_it_loads(self, end: str) -> None:
        """One error, and no second try: nothing has ever worked."""
        supervisor = supervise(end, SHORT)

        with pytest.raises(ModelProcessError, match=r"the model's process .* while it loaded obedient"):
            supervisor.ready.result(60)
        supervisor.close()
        assert supervisor.starts == 1

    def test_false_cancels(self) -> None:
        """The process is ended, whatever it is doing."""
        supervisor = supervise("hang", progress=lambda _fraction: False)

        with pytest.raises(LoadCancelledError, match="loading obedient was cancelled"):
            supervisor.ready.result(60)

    def test_a_program_that_waits_no_longer_ends_it(self) -> None:
        """Also where native code gives no progress."""
        loading = threading.Event()

        def progress(_fraction: float) -> bool:
            loading.set()
            return True

        supervisor = supervise("hang", progress=progress)
        loading.wait(60)
        supervisor.close()

        with pytest.raises(LoadCancelledError):
            supervisor.ready.result(60)

    def test_no_process_can_be_started(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The system's reason is told."""
        monkeypatch.setattr("runtime.children.start.spawn.get_executable", lambda: "/no/python")
        supervisor = supervise()

        with pytest.raises(ModelProcessError, match=r"no process can be started \(No such file or directory\)"):
            supervisor.ready.result(60)


def test_large_requests_and_many_words_pass(start: Callable[..., IsolatedRuntime]) -> None:
    """Larger than what the connection holds at once, both ways at the same time."""
    runtime = start()
    words = [f"word{number}" for number in range(20_000)]
    generations = [runtime.submit(ask(" ".join(words))) for _ in range(3)]

    assert {reply.text for generation in generations for reply in generation if isinstance(reply, Done)} == {
        "".join(words)
    }


def test_what_a_library_prints_is_not_on_the_terminal(
    start: Callable[..., IsolatedRuntime], capfd: pytest.CaptureFixture[str]
) -> None:
    """It is no part of the conversation either."""
    assert reply(start(), "a shout b").text == "ab"
    assert capfd.readouterr() == ("", "")


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def open_files() -> int:
    return len(os.listdir("/dev/fd"))
