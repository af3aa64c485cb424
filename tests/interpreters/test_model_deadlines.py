"""A model call that takes longer than the turn may is cancelled; what it had said is kept, and the limit is named."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from cognition import AssistantMessage, Completed, LimitReached, Limits, ModelInterrupted, ModelRequest, Usage
from cognition.parsing import Output, TextDelta
from interpreters import Agent, AgentHost, AsyncAgent, TurnFailedError, events, replay, tool
from interpreters.testing import fakes
from interpreters.testing.fakes import FunctionModel, call
from runtime.protocol.done import done_of
from runtime.protocol.model import Done
from tests.interpreters.ways import Way, in_asyncio, in_sync

MOMENT = 0.05
"""Seconds that a model which says nothing is given: it is cancelled then, however busy the machine."""
BOTH = pytest.mark.parametrize("way", [in_sync, in_asyncio])


class Mute(FunctionModel):
    """Says something, or nothing, and then goes on until it is cancelled, as a runtime has to let itself be."""

    def __init__(self, *said: str) -> None:
        super().__init__(lambda request: "")
        self.said = said

    def submit(self, request: ModelRequest) -> Any:
        self.requests.append(request)
        return Going(self.said)

    def __getattribute__(self, name: str) -> Any:
        if name == "stream":  # it blocks
            raise AttributeError(name)
        return super().__getattribute__(name)


class Going:
    def __init__(self, said: tuple[str, ...]) -> None:
        self.cancelled = threading.Event()
        self.items = self._items(said)

    def _items(self, said: tuple[str, ...]) -> Iterator[Output | Done]:
        outputs = [TextDelta(text) for text in said]
        yield from outputs
        assert self.cancelled.wait(60.0)
        yield done_of(outputs, "cancelled", usage=Usage(7, len(said)))

    def __iter__(self) -> Iterator[Output | Done]:
        return self.items

    def __next__(self) -> Output | Done:
        return next(self.items)

    def cancel(self) -> None:
        self.cancelled.set()


@BOTH
@pytest.mark.parametrize("said", [(), ("It is", " three")])
def test_a_model_that_says_nothing_more_is_cancelled_when_the_turn_s_time_is_over(
    way: Way, said: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "s.jsonl"

    talk = way(Mute(*said), "How many?", limits=Limits(seconds=MOMENT), journal=path)

    (result,) = talk.results
    text = "".join(said)
    assert result.outcome == LimitReached("seconds", text)
    assert result.usage == Usage(7, len(said))
    assert (result.ok, result.text) == (False, text)
    with pytest.raises(TurnFailedError, match="the limit of seconds ended the turn"):
        result.raise_for_failure()
    kept = [one for one in talk.state.history if isinstance(one, AssistantMessage)]
    assert [one.text for one in kept] == ([text] if text else [])
    report = replay(path)
    assert report.same
    assert report.state == talk.state


class Slow(FunctionModel):
    """Each piece takes as long as it says, by a clock that nobody waits for."""

    def __init__(self, clock: fakes.FakeClock, *pieces: tuple[float, str]) -> None:
        def say(request: ModelRequest) -> Iterator[Any]:
            for seconds, text in pieces:
                clock.advance(seconds)
                yield text

        super().__init__(say)


@BOTH
@pytest.mark.parametrize(
    ("pieces", "outcome"),
    [
        (((1.0, "It "), (3.0, "is "), (0.9, "three.")), Completed("It is three.")),
        (((1.0, "It "), (3.0, "is "), (1.0, "three."), (0.0, " Or four.")), LimitReached("seconds", "It is three.")),
        (((6.0, "It "), (3.0, "is "), (1.0, "three.")), LimitReached("seconds", "It ")),
    ],
)
def test_the_time_of_a_call_is_that_of_the_agent_s_clock(
    way: Way, pieces: tuple[tuple[float, str], ...], outcome: object
) -> None:
    """To the piece: so that a test of it needs no waiting."""
    clock = fakes.FakeClock()

    talk = way(Slow(clock, *pieces), "How many?", limits=Limits(seconds=5.0), clock=clock)

    assert [result.outcome for result in talk.results] == [outcome]


@BOTH
def test_the_time_of_a_tool_is_the_turn_s_and_the_next_turn_has_its_own(way: Way) -> None:
    clock = fakes.FakeClock()

    @tool(read_only=True)
    def work() -> str:
        clock.advance(4.0)
        return "done"

    def say(request: ModelRequest) -> Iterator[Any]:
        if len(request.messages) == 1:
            yield call("work")
            return
        clock.advance(2.0)
        yield "So"
        yield " it is."

    talk = way(FunctionModel(say), "Work", "Again", tools=[work], limits=Limits(seconds=5.0), clock=clock)

    assert [one.outcome for one in talk.results] == [LimitReached("seconds", "So"), Completed("So it is.")]


def test_an_async_model_that_never_answers_is_left() -> None:
    async def never(request: ModelRequest) -> AsyncIterator[Any]:
        yield "It is"
        await asyncio.Event().wait()

    async def main() -> Any:
        async with AsyncAgent(FunctionModel(never), limits=Limits(seconds=MOMENT)) as agent:
            return await agent.run("How many?")

    assert asyncio.run(main()).outcome == LimitReached("seconds", "It is")


def test_a_model_that_can_not_be_cancelled_at_once_is_waited_for_and_its_answer_is_one() -> None:
    """It was whole, only late."""
    clock = fakes.FakeClock()

    class Deaf(Mute):
        def submit(self, request: ModelRequest) -> Any:
            outputs = [TextDelta("It is"), TextDelta(" three.")]

            def items() -> Iterator[Output | Done]:
                clock.advance(9.0)
                yield from outputs
                yield done_of(outputs, "stop")

            generation = Going(())
            generation.items = items()
            return generation

    with Agent(Deaf(), limits=Limits(seconds=5.0), clock=clock) as agent:
        assert agent.run("How many?").outcome == Completed("It is three.")


@pytest.mark.parametrize("reason", ["stop", "cancelled"])
def test_what_is_said_between_the_expiry_and_the_end_is_shown_as_well(reason: Any) -> None:
    """It is a part of the answer, so whoever reads the stream has to get it."""
    clock, shown = fakes.FakeClock(), list[str]()

    def show(event: events.Event) -> None:
        if isinstance(event.value, TextDelta):
            shown.append(event.value.text)

    class Deaf(Mute):
        def submit(self, request: ModelRequest) -> Any:
            outputs = [TextDelta("It "), TextDelta("is"), TextDelta(" three"), TextDelta(".")]

            def items() -> Iterator[Output | Done]:
                yield outputs[0]
                clock.advance(5.0)
                yield from outputs[1:]
                yield done_of(outputs, reason)

            generation = Going(())
            generation.items = items()
            return generation

    with Agent(Deaf(), limits=Limits(seconds=5.0), clock=clock, observers=[events.Inline(show)]) as agent:
        assert agent.run("How many?").text == "It is three."
    assert shown == ["It ", "is", " three."]


def test_a_model_that_does_not_stop_at_all_is_left_some_seconds_later() -> None:
    clock = fakes.FakeClock()

    class Endless(Mute):
        def submit(self, request: ModelRequest) -> Any:
            def items() -> Iterator[Output | Done]:
                while True:
                    clock.advance(1.0)
                    yield TextDelta("la")

            generation = Going(())
            generation.items = items()
            return generation

    with Agent(Endless(), limits=Limits(seconds=3.0), clock=clock) as agent:
        result = agent.run("Sing")

    assert result.outcome == LimitReached("seconds", "lalala")
    assert clock.now < 10.0


def test_a_session_of_a_host_has_its_time_too() -> None:
    with AgentHost.in_thread(Mute("It is")) as host:
        agent = host.open("a", limits=Limits(seconds=MOMENT))
        result = agent.run("How many?")

    assert result.outcome == LimitReached("seconds", "It is")


def test_a_worker_has_what_is_left_of_its_parent_s_time() -> None:
    """And its parent hears what became of it."""
    clock = fakes.FakeClock()
    heard: list[ModelRequest] = []

    def say(request: ModelRequest) -> Iterator[Any]:
        heard.append(request)
        if len(heard) == 1:
            yield call("spawn_worker", name="w", objective="count")
        elif len(heard) == 2:
            clock.advance(4.0)
            yield "One, two"
            clock.advance(2.0)
            yield ", three"
            yield ", four"

    options: dict[str, Any] = {"limits": Limits(seconds=5.0), "worker_patience": None, "clock": clock}
    with Agent(FunctionModel(say), features=("workers",), **options) as agent:
        result = agent.run("Count")

    assert result.outcome == LimitReached("seconds")
    (told,) = result.calls
    assert told.content.endswith("its limit of seconds cut its answer, which began: One, two, three")


def test_without_a_limit_no_thread_watches() -> None:
    new: list[set[threading.Thread]] = []
    model = FunctionModel(lambda request: new.append({*threading.enumerate()} - before) or "fine")
    before = {*threading.enumerate()}

    with Agent(model) as agent:
        agent.run("Hello")

    assert new == [set()]


def test_the_end_of_a_call_that_was_late_is_recorded_as_one_input(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    with Agent(Mute("It is"), limits=Limits(seconds=MOMENT), journal=path) as agent:
        agent.run("How many?")

    ends = [line for line in path.read_text("utf-8").splitlines() if '"model_interrupted"' in line]
    assert len(ends) == 1
    assert '"late":true' in ends[0]
    assert ModelInterrupted.tag in ends[0]
