"""Law R1, still: after ``cancel()`` has returned nothing of the turn begins, wherever it was called from."""

from __future__ import annotations

import asyncio
import itertools
import threading
from pathlib import Path
from typing import Any

import pytest

from cognition import CallTool, Cancelled, Completed, EffectId, Input, ToolMessage, Transition
from interpreters import Agent, ApprovalRequest, replay, tool
from interpreters.loop.mailbox_messages import NotBegun, Turn
from interpreters.observing.events import ApprovalGiven, Event, Inline, SpawnWorker, ToolReturned
from interpreters.recording.journal import Journal
from interpreters.testing.fakes import ScriptedModel, call
from tests.cognition.told import NOT_RUN
from tests.interpreters.signs import PATIENCE
from tests.interpreters.stillness import HOWS, KINDS, How, Kind, Watch, run
from tests.interpreters.ways import Way, every_way


def cancelled_at(stop: int | None, how: How, kind: Kind, journal: Path, *, native: bool) -> int:
    """Cancel a turn at one place, and hold what came of it against the law; how many places there were."""
    watch = Watch(stop, how)
    where = f"cancelled at place {stop} by {how}, {kind}"

    course = run(kind, watch, journal, native=native)

    assert watch.late() == [], where
    assert (course.ends, course.next) == (1, "Hello again."), where
    either = kind == "handle" or watch.in_time is None  # a host runs ahead of what is read
    in_time = Cancelled | Completed if either else Cancelled
    assert isinstance(course.outcome, Completed if watch.in_time is False else in_time), where
    report = replay(journal).raise_for_divergence()
    assert report.turns == 2, where
    if course.state is not None:
        assert course.state == report.state, where
    assert watch.told_falsely(report.state) == [], where
    return watch.places


@pytest.mark.slow
@pytest.mark.behaviour("C13b")
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("native", [False, True])
def test_nothing_begins_after_a_cancellation_at_any_place(how: How, kind: Kind, native: bool, tmp_path: Path) -> None:
    """In every observer, callback, tool, model and record, on every way of running; each place by one of the three."""
    before = set(threading.enumerate())
    total = cancelled_at(None, how, kind, tmp_path / "whole.jsonl", native=native)
    assert total > 100
    for stop in range(1 + HOWS.index(how), total + 1, len(HOWS)):
        cancelled_at(stop, how, kind, tmp_path / f"{stop}.jsonl", native=native)
    for thread in set(threading.enumerate()) - before:
        thread.join(20)


@pytest.mark.behaviour("C13b")
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_begins_after_a_cancellation_at_some_places(how: How, kind: Kind, tmp_path: Path) -> None:
    """As above, at every ninth place."""
    total = cancelled_at(None, how, kind, tmp_path / "whole.jsonl", native=True)
    for stop in range(1 + HOWS.index(how), total + 1, 9):
        cancelled_at(stop, how, kind, tmp_path / f"{stop}.jsonl", native=True)


# ---------------------------------------------------------------------------------------------- what was found, by name


@pytest.mark.behaviour("C13b")
@pytest.mark.parametrize(
    ("place", "threaded"),
    [
        (ToolReturned, True),
        *itertools.product([ApprovalGiven, CallTool, "approve", "record"], [False, True]),
    ],
)
@every_way
def test_a_tool_whose_turn_was_cancelled_before_it_began_never_runs(
    talk: Way, place: Any, threaded: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Decided, on file, and told of: it does not begin all the same, and the history says so."""
    ran: list[str] = []
    agents: list[Any] = []

    @tool(read_only=True)
    def look() -> str:
        return "seen"

    @tool(approval=True, read_only=not threaded)
    def wipe() -> str:
        ran.append("wipe")
        return "wiped"

    def cancel() -> None:
        assert agents[0].cancel("enough")

    def watch(event: Event) -> None:
        about = event.value.call.name if isinstance(event.value, CallTool) else "wipe"
        if type(event.value) is place and about == "wipe":
            cancel()

    def approve(request: ApprovalRequest) -> bool:
        if place == "approve":
            cancel()
        return True

    write = Journal.write

    def held(journal: Journal, event: Input, transition: Transition, *rest: Any) -> None:
        if place == "record" and any(isinstance(d, CallTool) and d.call.name == "wipe" for d in transition.decisions):
            thread = threading.Thread(target=cancel)  # while the disk takes its time
            thread.start()
            thread.join(PATIENCE)
        write(journal, event, transition, *rest)

    monkeypatch.setattr(Journal, "write", held)
    calls = [[call("look"), call("wipe")]] if threaded else [call("look"), call("wipe")]
    said = talk(
        ScriptedModel([*calls, "Hello again."]),
        "Wipe!",
        "Hi!",
        tools=[look, wipe],
        approve=approve,
        observers=[Inline(watch)],
        use=agents.append,
        journal=tmp_path / "s.jsonl",
        fsync="record",
    )

    assert [Cancelled("enough"), Completed("Hello again.")] == [result.outcome for result in said.results]
    assert (ran, said.tool_results) == ([], [("seen", "ok"), (NOT_RUN, "cancelled")])
    assert replay(tmp_path / "s.jsonl").raise_for_divergence().state == said.state


@pytest.mark.behaviour("C13b")
@every_way
def test_a_worker_that_was_decided_before_a_cancellation_does_nothing(talk: Way) -> None:
    agents: list[Any] = []
    model = ScriptedModel([call("spawn_worker", name="ann", objective="work"), "Hello again."])

    def watch(event: Event) -> None:
        if isinstance(event.value, SpawnWorker):
            agents[0].cancel("enough")

    said = talk(model, "Go!", "Hi!", features=["workers"], observers=[Inline(watch)], use=agents.append)

    assert (said.tool_results, len(model.requests)) == ([(NOT_RUN, "cancelled")], 2)


@pytest.mark.behaviour("C13b")
def test_an_async_tool_of_a_thread_begins_when_its_loop_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """An event loop takes its time to start; the call has not begun before."""
    ran: list[str] = []
    run_in = asyncio.run_coroutine_threadsafe

    @tool
    async def wipe() -> None:
        ran.append("wipe")

    with Agent(ScriptedModel([call("wipe"), "Hello again."]), [wipe]) as agent:

        def slow(main: Any, loop: asyncio.AbstractEventLoop) -> Any:
            assert agent.cancel("enough")
            return run_in(main, loop)

        monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", slow)
        assert Cancelled("enough") == agent.run("Wipe!").outcome
        assert agent.run("Hi!").text == "Hello again."
        assert [m.content for m in agent.state.history if isinstance(m, ToolMessage)] == [NOT_RUN]
    assert ran == []


def test_a_beginning_and_a_cancellation_have_one_order() -> None:
    """Whoever comes first: what begins later does not, is said not to have, and stays so."""
    turn, first, second = Turn(), EffectId("1.1.1"), EffectId("1.1.2")

    assert (turn.try_begin(first), turn.is_over()) == (True, False)
    assert (turn.cancel(), turn.cancel(), turn.is_cancelled(), turn.is_over()) == (True, False, True, True)
    assert (turn.try_begin(second), turn.try_begin(first)) == (False, True)
    assert (turn.has_begun(first), turn.has_begun(second)) == (True, False)
    with pytest.raises(NotBegun):
        turn.begin(second, list)
    assert Turn(ended=True).try_begin(first) is False
    assert Turn(inherited=[first]).may_have_begun(first)
