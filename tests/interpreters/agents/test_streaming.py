"""A turn's events without an event loop: ``for event in agent.stream(text)``."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from cognition import Cancelled, CogstepError, Completed, Idle, ToolSpec
from interpreters import Agent, BusyError, events, tool
from interpreters.agents.agent import BEHIND
from interpreters.testing.fakes import ScriptedModel, call
from tests.interpreters.signs import PATIENCE


@tool(read_only=True)
def look(x: int) -> str:
    """Look."""
    return str(x)


def agent_with(*replies: Any, **given: Any) -> Agent:
    return Agent(ScriptedModel(list(replies)), [look], **given)


def long(_request: Any) -> Any:
    return "word " * 20 * BEHIND


@pytest.mark.behaviour("P16b")
def test_events_come_in_order_and_the_result_is_that_of_run() -> None:
    told: list[events.Event] = []
    with agent_with(call("look", x=1), "Done.", observers=[events.Inline(told.append)]) as agent:
        stream = agent.stream("Go!")
        read = list(stream)

    assert told == read
    assert Completed("Done.") == stream.result.outcome
    assert "".join(one.value.text for one in read if isinstance(one.value, events.TextDelta)) == "Done."


@pytest.mark.behaviour("P16b")
def test_a_loop_that_is_left_early_cancels_the_turn_and_the_next_one_works() -> None:
    with agent_with(long, "Hello.") as agent:
        for event in agent.stream("Go!"):
            if isinstance(event.value, events.TextDelta):
                break
        assert Idle() == agent.state.phase
        assert agent.run("Hi!").text == "Hello."


def test_a_block_that_is_left_while_the_turn_waits_gives_that_up_and_its_result_says_so() -> None:
    external = ToolSpec("order")
    with Agent(ScriptedModel([call("order")]), [external]) as agent:
        with agent.stream("Go!") as stream:
            for event in stream:
                if isinstance(event.value, events.CallTool):
                    break
        assert (agent.pending, stream.result.pending) == ((), ())
        assert isinstance(stream.result.outcome, Cancelled)


def test_a_block_that_is_left_early_cancels_the_turn() -> None:
    with agent_with(long, "Hello.") as agent:
        with agent.stream("Go!") as stream:
            next(stream)
        assert Idle() == agent.state.phase
        assert agent.run("Hi!").text == "Hello."


def test_nothing_begins_before_the_first_event_is_asked_for() -> None:
    with agent_with("Hello.") as agent:
        stream = agent.stream("Never said.")
        with pytest.raises(CogstepError, match="not ended yet"):
            stream.result  # noqa: B018 - it raises
        stream.close()
        assert list(stream) == []
        assert agent.run("Hi!").text == "Hello."


def test_a_slow_reader_holds_the_model_up() -> None:
    with agent_with(long) as agent:
        stream = agent.stream("Go!")
        first = next(stream)
        release = threading.Event()
        threading.Timer(0.05, release.set).start()
        assert release.wait(PATIENCE)
        unread = stream._turn._events.qsize()
        rest = list(stream)

    assert unread <= BEHIND
    assert [1 + number for number in range(1 + len(rest))] == [one.sequence for one in (first, *rest)]


def test_what_run_raises_is_raised_where_the_events_are_read() -> None:
    with waiting_agent() as (agent, release), agent.stream("Go!") as first:
        next(first)
        second = agent.stream("And this?")
        with pytest.raises(BusyError):
            list(second)
        with pytest.raises(BusyError):
            second.result  # noqa: B018 - it raises
        release.set()


def test_the_turn_can_be_cancelled_by_its_reader() -> None:
    with waiting_agent() as (agent, release):
        stream = agent.stream("Go!")
        next(stream)
        assert agent.cancel("enough")
        release.set()
        assert isinstance([one.value for one in stream][-1], events.TurnFinished)
        assert Cancelled("enough") == stream.result.outcome


@contextmanager
def waiting_agent() -> Iterator[tuple[Agent, threading.Event]]:
    """An agent whose tool waits until the test lets it go on."""
    release = threading.Event()

    @tool
    def wait() -> str:
        """Wait."""
        assert release.wait(PATIENCE)
        return "waited"

    def answer(_request: Any) -> Any:
        return "Done."

    with Agent(ScriptedModel(iter([call("wait"), answer])), [wait]) as agent:
        try:
            yield agent, release
        finally:
            release.set()


def test_no_thread_is_left() -> None:
    before = set(threading.enumerate())
    with agent_with(long, "Hello.", long) as agent:
        for _event in agent.stream("Go!"):
            break
        list(agent.stream("Hi!"))
        stream: Any = agent.stream("Go!")
        next(stream)
        stream = None
        gc.collect()
        assert Idle() == agent.state.phase
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE)
        assert not thread.is_alive()
