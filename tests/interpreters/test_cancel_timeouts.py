"""A cancellation beside a tool's own timeout: whichever comes first, there is one truthful end and nothing is left."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from cognition import Cancelled, Completed, ToolReturned
from interpreters import Tool, ToolContext, events, fakes, replay, tool
from interpreters.observing.events import Event
from interpreters.testing.fakes import ScriptedModel, call
from tests.cognition.told import MAY_HAVE_HAPPENED
from tests.interpreters.signs import PATIENCE
from tests.interpreters.ways import Way, in_asyncio, in_sync

SECONDS = 5.0
LATE = ("Error: work took longer than 5 seconds", "error")
STOPPED = (MAY_HAVE_HAPPENED, "cancelled")


class Striking(fakes.FakeClock):
    """Something is done at the moment when a tool's time is up: just before it has passed, or just after."""

    def __init__(self, when: str) -> None:
        super().__init__()
        self.when = when
        self.strike: Callable[[], object] = lambda: None
        self.begun = threading.Event()
        """The tool is at work: time does not pass before."""

    def _pass(self, seconds: float) -> None:
        assert self.begun.wait(PATIENCE)
        strike, self.strike = self.strike, lambda: None
        if self.when == "before":
            strike()
        super()._pass(seconds)
        if self.when == "after":
            strike()


class Sleeper:
    """A tool that never comes to its end by itself, and what became of it."""

    def __init__(self, begun: threading.Event) -> None:
        self.begun = begun
        self.told = threading.Event()
        self.release = threading.Event()
        self.finished = threading.Event()

    def plain(self) -> Tool[..., Any]:
        @tool(timeout=SECONDS)
        def work(context: ToolContext[Any]) -> str:
            self.begun.set()
            assert self.release.wait(PATIENCE)
            if context.cancelled:
                self.told.set()
            self.finished.set()
            return "late"

        return work

    def native(self) -> Tool[..., Any]:
        @tool(timeout=SECONDS)
        async def work(context: ToolContext[Any]) -> str:
            self.begun.set()
            try:
                await asyncio.to_thread(self.release.wait, PATIENCE)
            finally:
                if context.cancelled:
                    self.told.set()
                self.finished.set()
            return "late"

        return work


def from_another_thread(agent: Any) -> None:
    """As a user does, whose click comes from elsewhere; it has come when this returns."""
    thread = threading.Thread(target=agent.cancel, args=("enough",))
    thread.start()
    thread.join(PATIENCE)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("cancel", [lambda agent: agent.cancel("enough"), from_another_thread], ids=["here", "there"])
@pytest.mark.parametrize(
    ("talk", "kind"), [(in_sync, "plain"), (in_sync, "native"), (in_asyncio, "plain"), (in_asyncio, "native")]
)
def test_a_cancellation_at_the_moment_when_a_tool_s_time_is_up(
    talk: Way,
    kind: str,
    cancel: Callable[[Any], object],
    when: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The turn is cancelled; the call has one result, which says what happened; the tool is told; a message works."""
    monkeypatch.setattr("runtime.threads.pool.KEEP_IDLE", 0.01)  # threads of tools are seen to go
    clock = Striking(when)
    sleeper = Sleeper(clock.begun)
    told: list[Event] = []
    before = set(threading.enumerate())

    def use(agent: Any) -> None:
        clock.strike = lambda: cancel(agent)

    def watch(event: Event) -> None:
        told.append(event)
        if isinstance(event.value, events.TurnFinished):
            sleeper.release.set()

    said = talk(
        ScriptedModel(iter([call("work"), *["Hello again."] * 2])),
        "Work!",
        "Hi!",
        tools=[getattr(sleeper, kind)()],
        use=use,
        observers=[events.Inline(watch)],
        clock=clock,
        journal=tmp_path / "s.jsonl",
        fsync="never",
    )
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE)

    assert [Cancelled("enough"), Completed("Hello again.")] == [result.outcome for result in said.results]
    assert said.tool_results in ([LATE], [STOPPED])
    assert len([event for event in told if isinstance(event.value, events.TurnFinished)]) == 2
    assert [event.value.status for event in told if isinstance(event.value, events.ToolMessage)] == [
        said.tool_results[0][1]
    ]
    assert (sleeper.finished.is_set(), sleeper.told.is_set()) == (True, True)
    assert set(threading.enumerate()) <= before
    report = replay(tmp_path / "s.jsonl").raise_for_divergence()
    assert (said.state, 2) == (report.state, report.turns)


class Patient(fakes.FakeClock):
    """Time passes when the test says so."""

    def receive(self, mailbox: SimpleQueue[Any], seconds: float | None) -> Any:
        return super().receive(mailbox, None)


class Watched:
    """A mailbox that says when an answer has come."""

    def __init__(self, mailbox: SimpleQueue[Any], answered: threading.Event) -> None:
        self._mailbox = mailbox
        self._answered = answered

    def put(self, letter: Any) -> None:
        self._mailbox.put(letter)
        if isinstance(letter, ToolReturned):
            self._answered.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._mailbox, name)


def test_an_answer_that_was_there_in_time_counts_also_where_nobody_looked() -> None:
    """The session was held up by an observer until the time was over; what came by then is no lie of the clock's."""
    answered = threading.Event()
    clock = Patient()

    @tool(timeout=SECONDS)
    def work(context: ToolContext[Any]) -> str:
        context.progress("at it")
        return "done"

    def hold_up(event: Event) -> None:
        if isinstance(event.value, events.ToolProgress):
            assert answered.wait(PATIENCE)
            clock.advance(60)

    def use(agent: Any) -> None:
        agent._interpreter._mailbox = Watched(agent._interpreter._mailbox, answered)

    model = ScriptedModel([call("work"), "Done."])
    said = in_sync(model, "Work!", tools=[work], use=use, observers=[events.Inline(hold_up)], clock=clock)

    assert said.tool_results == [("done", "ok")]
