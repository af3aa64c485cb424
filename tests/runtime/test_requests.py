"""A registry of requests: what runs and what ran is told as it was, and what runs can be cancelled."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
from typing import Any

import pytest
from hypothesis import given, strategies as st

from cognition import ConfigError, Failure, GenerationOptions, History, ModelRequest, UserMessage
from interpreters import Agent, AsyncAgent
from interpreters.testing.fakes import FunctionModel, ScriptedModel
from runtime import RequestRegistry, RuntimeClosedError, TextCounter, load_model
from runtime.async_adapter import is_async
from runtime.protocol.model import Done


def request(text: str = "Hi!") -> ModelRequest:
    return ModelRequest("", History((UserMessage("m1", text),)), (), GenerationOptions())


def states(registry: RequestRegistry) -> list[str]:
    return [entry.state for entry in registry.list()]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_each_request_of_an_agent_is_known_with_how_it_ended(asynchronous: bool) -> None:
    registry = RequestRegistry()
    model = registry.watch(ScriptedModel(["Hello.", Failure("no", kind="fatal")]), "desk")
    texts = ["Hi! " + "é" * 200, "Again"]
    if asynchronous:

        async def main() -> None:
            async with AsyncAgent(model) as agent:
                for text in texts:
                    await agent.run(text)

        asyncio.run(main())
    else:
        with Agent(model) as agent:
            for text in texts:
                agent.run(text)

    first, second = registry.list()
    assert (first.state, first.error, first.preview) == ("completed", "", texts[0][:100])
    assert (second.state, second.error, second.origin) == ("failed", "no", "desk")
    assert first.ended is not None
    assert first.started <= first.ended <= second.started
    assert registry.get(first.id) == first
    assert registry.get("req-0-nobody") is None
    assert not registry.list(running=True)


def test_a_request_that_runs_is_cancelled_by_its_id_and_one_that_is_over_stays_what_it_was() -> None:
    registry, begun = RequestRegistry(), threading.Event()

    def write(asked: ModelRequest) -> Any:
        while True:
            begun.set()
            yield "on "

    generation = registry.watch(FunctionModel(write)).submit(request())
    (entry,) = registry.list(running=True)
    outputs: list[Any] = []
    reader = threading.Thread(target=lambda: outputs.extend(generation))
    reader.start()
    assert begun.wait(30)

    assert registry.cancel(entry.id)
    reader.join(30)

    assert outputs[-1].finish_reason == "cancelled"
    assert states(registry) == ["cancelled"]
    assert not registry.cancel(entry.id), "it is over"
    assert not registry.cancel("req-9-nobody")
    generation.cancel()
    assert states(registry) == ["cancelled"]


def test_a_reply_that_nobody_reads_any_more_does_not_run_for_ever() -> None:
    registry = RequestRegistry()
    generation = registry.watch(ScriptedModel(["Hello."])).submit(request())
    assert states(registry) == ["running"]

    del generation
    gc.collect()

    (entry,) = registry.list()
    assert (entry.state, entry.error) == ("cancelled", "nobody reads the reply")


def test_a_reply_may_be_collected_in_the_middle_of_anything() -> None:
    """The collector of garbage takes no lock, which the same thread may hold right then."""

    def now() -> float:
        gc.collect()
        return 0.0

    registry = RequestRegistry(now=now)
    model = registry.watch(ScriptedModel(["Hello."] * 3))

    def lose() -> None:
        lost: list[Any] = [model.submit(request())]
        lost.append(lost)  # so that only the collector finds it

    def work() -> None:
        gc.disable()
        lose()
        gc.enable()
        done.append(states(registry))

    done: list[list[str]] = []
    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    worker.join(30)

    assert len(done) == 1, "it waits for itself"
    assert states(registry) == ["cancelled"]


def test_a_watched_runtime_closes_what_it_watches() -> None:
    registry = RequestRegistry()
    with registry.watch(ScriptedModel(["Hello."])) as model:
        list(model.submit(request()))
    with pytest.raises(RuntimeClosedError):
        model.submit(request())


def test_a_runtime_that_breaks_off_or_raises_has_failed() -> None:
    class Broken:
        def __init__(self, error: BaseException) -> None:
            self.error = error

        def __iter__(self) -> Any:
            return self

        def __next__(self) -> Any:
            raise self.error

        def cancel(self) -> None:
            pass

    class Breaking(ScriptedModel):
        def submit(self, request: ModelRequest) -> Any:
            return Broken(self.error)

    registry = RequestRegistry()
    for error in (StopIteration(), ValueError("no"), KeyboardInterrupt()):
        model = Breaking([])
        model.error = error  # type: ignore[attr-defined]  # of this class
        generation = registry.watch(model).submit(request())
        with pytest.raises(type(error)):
            next(iter(generation))
    assert [(one.state, one.error) for one in registry.list()] == [
        ("failed", "StopIteration"),
        ("failed", "ValueError"),
        ("cancelled", "KeyboardInterrupt"),
    ]


@given(st.lists(st.floats(0, 100), max_size=12), st.integers(0, 5), st.floats(0, 300))
def test_what_is_over_is_forgotten_by_number_and_age_and_what_runs_never(
    waits: list[float], keep: int, max_age: float
) -> None:
    now = [1000.0]
    registry = RequestRegistry(keep=keep, max_age=max_age, now=lambda: now[0])
    model = registry.watch(ScriptedModel(["Hello."] * len(waits)))
    running = registry.watch(ScriptedModel(["Hello."])).submit(request())
    ended = []
    for wait in waits:
        now[0] += wait
        outputs = list(model.submit(request()))
        assert isinstance(outputs[-1], Done)
        ended.append(now[0])

    known = [entry.ended for entry in registry.list() if entry.state == "completed"]

    expected = [at for at in ended if at > now[0] - max_age]
    assert known == expected[max(0, len(expected) - keep) :]
    assert registry.clean() == len(known)
    assert states(registry) == ["running"]
    list(running)


def test_a_watched_runtime_is_the_runtime_with_all_that_it_has() -> None:
    registry = RequestRegistry()
    with load_model() as model:
        watched = registry.watch(model)
        assert isinstance(watched, TextCounter)
        assert not is_async(watched)
        assert watched.describe() == model.describe()
        assert watched.count_tokens(request()) == model.count_tokens(request())
        with Agent(watched) as agent:
            assert agent.run("What is 17 * 23?").text
        assert states(registry)[-1] == "completed"
        assert registry.list()[-1].usage.output_tokens > 0
        watched.close()
        with pytest.raises(RuntimeClosedError):
            watched.submit(request())
    fake = registry.watch(ScriptedModel(["Hello."]))
    assert is_async(fake)
    assert not isinstance(fake, TextCounter)
    assert fake.requests == []


@pytest.mark.parametrize("wrong", [{"keep": -1}, {"max_age": -1.0}, {"max_age": float("nan")}])
def test_numbers_that_mean_nothing_are_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="keep and max_age must be 0 or more"):
        RequestRegistry(**wrong)


def test_importing_the_runtime_brings_in_no_asyncio() -> None:
    """Some megabytes in each process that holds a model."""
    code = "import sys, runtime; print('asyncio' in sys.modules, 'RequestRegistry' in runtime.__all__)"

    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert said.split() == ["False", "True"]
