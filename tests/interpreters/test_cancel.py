"""Cancellation: in any phase, from anywhere, the turn ends at once with one truthful outcome, and the session goes on.

Nothing here sleeps: whoever cancels waits for a sign that the turn has come to the place that is tested.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any, get_args

import pytest

from cognition import Cancelled, Completed, Failure, Idle, ToolMessage, Usage
from cognition.values.features import HookPoint
from interpreters import Agent, ApprovalRequest, ToolContext, events, fakes, replay, tool
from interpreters.loop.clock import SystemClock
from interpreters.observing.events import Event
from interpreters.testing.fakes import Hold, Reply, ScriptedModel, call
from tests.cognition.told import MAY_HAVE_HAPPENED, NOT_RUN, STOPPED
from tests.interpreters.rich import FEATURES, PAGE, RichModel, open_files, strangers
from tests.interpreters.signs import PATIENCE, once


def results(agent: Agent) -> list[tuple[str, str]]:
    return [(m.content, m.status) for m in agent.state.history if isinstance(m, ToolMessage)]


# --------------------------------------------------------------------------------------------------- phase by phase


def test_cancel_in_the_model_s_stream() -> None:
    """What the user has read stays, in the outcome and in the history."""
    hold = Hold()
    with Agent(ScriptedModel([Reply("Once upon a ", hold=hold), "Hello again."])) as agent:
        with once(hold.reached, lambda: agent.cancel("enough")):
            result = agent.run("Tell me a story.")

        assert Cancelled("enough", "Once upon a ") == result.outcome
        assert ("", False, Idle()) == (result.text, result.ok, agent.state.phase)
        assert [getattr(m, "text", "") for m in result.messages] == ["Tell me a story.", "Once upon a "]
        assert agent.run("Hi!").text == "Hello again."


def test_cancel_in_a_signal_handler() -> None:
    """Ctrl-C: the handler interrupts the thread that waits for the model, and may take no lock that this one holds."""
    hold = Hold()
    with Agent(ScriptedModel([Reply("Once", hold=hold), "Hello again."])) as agent:
        before = signal.signal(signal.SIGINT, lambda number, frame: agent.cancel("Ctrl-C"))
        try:
            with once(hold.reached, lambda: os.kill(os.getpid(), signal.SIGINT)):
                assert Cancelled("Ctrl-C", "Once") == agent.run("Tell me a story.").outcome
        finally:
            signal.signal(signal.SIGINT, before)

        assert agent.run("Hi!").text == "Hello again."


def test_an_interrupt_that_nobody_handles_closes_the_turn_and_goes_on_up() -> None:
    """A script without a handler gets its ``KeyboardInterrupt``; the session is left in order, and the model stops."""
    hold = Hold()
    with Agent(ScriptedModel([Reply("Once", hold=hold), "Hello again."])) as agent:
        with (
            once(hold.reached, lambda: os.kill(os.getpid(), signal.SIGINT)),
            pytest.raises(KeyboardInterrupt),
        ):
            agent.run("Tell me a story.")

        assert Idle() == agent.state.phase
        assert agent.run("Hi!").text == "Hello again."


def test_cancel_in_a_tool_that_looks() -> None:
    """A tool that checks its context leaves at once."""
    running, left = threading.Event(), threading.Event()
    hints: SimpleQueue[None] = SimpleQueue()

    @tool
    def work(context: ToolContext[Any]) -> str:
        running.set()
        hints.get(timeout=PATIENCE)
        try:
            context.check()
        finally:
            left.set()
        return "done"

    with Agent(ScriptedModel([call("work"), "Hello again."]), tools=[work]) as agent:
        with once(running, lambda: (agent.cancel("stop"), hints.put(None))):
            assert Cancelled("stop") == agent.run("Work!").outcome
        assert results(agent) == [(MAY_HAVE_HAPPENED, "cancelled")]
        assert left.wait(PATIENCE)
        assert agent.run("Hi!").text == "Hello again."


def test_a_tool_that_ignores_a_cancellation_keeps_nobody_waiting() -> None:
    """The turn is over while the tool still runs; what it gives later changes nothing."""
    running, release = threading.Event(), threading.Event()

    @tool
    def stubborn() -> str:
        running.set()
        assert release.wait(PATIENCE)
        return "late"

    with Agent(ScriptedModel([call("stubborn"), "Hello again."]), tools=[stubborn]) as agent:
        with once(running, lambda: agent.cancel()):
            assert Cancelled() == agent.run("Work!").outcome
        assert not release.is_set()
        release.set()
        assert agent.run("Hi!").text == "Hello again."
        assert results(agent) == [(MAY_HAVE_HAPPENED, "cancelled")]


def test_cancel_from_inside_a_tool_on_the_session_s_thread() -> None:
    """A read-only call alone runs there; its context knows at once, and what it returns is not taken."""
    seen: list[bool] = []
    agents: list[Agent] = []

    @tool(read_only=True)
    def look(context: ToolContext[Any]) -> str:
        agents[0].cancel("seen enough")
        seen.append(context.cancelled)
        context.progress("nobody hears this")
        return "done"

    with Agent(ScriptedModel([call("look")]), tools=[look]) as agent:
        agents.append(agent)
        assert Cancelled("seen enough") == agent.run("Look!").outcome

    assert seen == [True]
    assert results(agent) == [(STOPPED, "cancelled")]


def test_cancel_while_calls_run_together() -> None:
    """Each open call gets its one result; one that was done keeps its own."""
    running = threading.Barrier(3, timeout=PATIENCE)
    ready, release = threading.Event(), threading.Event()
    finished: list[str] = []

    @tool(read_only=True)
    def look(n: int) -> int:
        running.wait()
        if n > 0:
            assert release.wait(PATIENCE)
        return n

    def watch(event: Event) -> None:
        if isinstance(event.value, events.ToolMessage):
            finished.append(event.value.status)
        elif isinstance(event.value, events.ToolReturned):
            ready.set()

    model = ScriptedModel([[call("look", n=n) for n in range(3)]])
    with Agent(model, tools=[look], observers=[watch]) as agent:
        with once(ready, lambda: agent.cancel()):
            assert Cancelled() == agent.run("Look!").outcome
        release.set()

    assert [("0", "ok"), *[(STOPPED, "cancelled")] * 2] == results(agent)
    assert finished == ["ok", "cancelled", "cancelled"]


def test_cancel_at_a_question_that_is_asked_elsewhere() -> None:
    """The turn ends without an answer; the question is withdrawn."""
    asked = threading.Event()
    questions: list[tuple[ApprovalRequest, Future[Any]]] = []

    @tool(approval=True)
    def pay() -> str:
        return "paid"

    def approve(request: ApprovalRequest) -> Future[Any]:
        questions.append((request, Future()))
        asked.set()
        return questions[0][1]

    with Agent(ScriptedModel([call("pay"), "Hello again."]), tools=[pay], approve=approve) as agent:
        with once(asked, lambda: agent.cancel()):
            assert Cancelled() == agent.run("Pay!").outcome
        assert (questions[0][0].cancelled, questions[0][1].cancelled()) == (True, True)
        assert agent.run("Hi!").text == "Hello again."
        assert results(agent) == [(NOT_RUN, "cancelled")]


def test_cancel_at_a_question_on_the_session_s_thread() -> None:
    """Whoever asks there may cancel instead of answering, as Ctrl-C at a prompt does; the call must not run."""
    agents: list[Agent] = []

    @tool(approval=True)
    def pay() -> str:
        raise AssertionError("this must not run")

    def approve(request: ApprovalRequest) -> bool:
        agents[0].cancel("Ctrl-C")
        return request.cancelled

    with Agent(ScriptedModel([call("pay")]), tools=[pay], approve=approve) as agent:
        agents.append(agent)
        assert Cancelled("Ctrl-C") == agent.run("Pay!").outcome


class PatientClock(fakes.FakeClock):
    """Time does not pass: whoever waits waits for a letter."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = threading.Event()

    def receive(self, mailbox: SimpleQueue[Any], seconds: float | None) -> Any:
        self.waiting.set()
        return SystemClock().receive(mailbox, None)


def test_cancel_while_a_retry_waits() -> None:
    """The wait ends at once, and the model is not called again."""
    clock = PatientClock()
    with Agent(ScriptedModel([Failure("slow down", kind="rate_limit"), "Hello again."]), clock=clock) as agent:
        with once(clock.waiting, lambda: agent.cancel("no more")):
            assert Cancelled("no more") == agent.run("Hi?").outcome
        assert agent.run("Hi!").text == "Hello again."


# ------------------------------------------------------------------------------------------------- at the wrong time


def test_without_a_turn_there_is_nothing_to_cancel() -> None:
    """And nothing is kept for the next turn."""
    with Agent(ScriptedModel(["Hello!"])) as agent:
        assert agent.cancel() is False
        assert Completed("Hello!") == agent.run("Hi!").outcome
        assert agent.cancel() is False


def test_a_cancellation_that_comes_too_late_does_not_hit_the_next_turn() -> None:
    """It arrives with the end of its own turn."""
    agents: list[Agent] = []

    def late(event: Event) -> None:
        if isinstance(event.value, events.TurnFinished) and event.turn == 1:
            assert agents[0].cancel("too late")

    with Agent(ScriptedModel(["one", "two"]), observers=[events.Inline(late)]) as agent:
        agents.append(agent)
        assert [Completed("one"), Completed("two")] == [agent.run("hi").outcome, agent.run("hi").outcome]


def test_cancelling_twice_is_cancelling_once() -> None:
    hold = Hold()
    with Agent(ScriptedModel([Reply("Once", hold=hold), "Hello again."])) as agent:
        with once(hold.reached, lambda: (agent.cancel("first"), agent.cancel("second"))):
            assert Cancelled("first", "Once") == agent.run("Tell me a story.").outcome
        assert agent.run("Hi!").text == "Hello again."


def test_closing_an_agent_ends_its_turn() -> None:
    """From another thread, while the model writes."""
    hold = Hold()
    agent = Agent(ScriptedModel([Reply("Once", hold=hold)]))
    with once(hold.reached, agent.close):
        assert Cancelled("the agent was closed", "Once") == agent.run("Tell me a story.").outcome


def test_a_runtime_that_stops_by_itself_is_told_apart() -> None:
    """Nobody cancelled: the outcome says that the model call was interrupted."""
    stopped = Reply("Once", finish_reason="cancelled", usage=Usage(5, 1))
    with Agent(ScriptedModel([stopped])) as agent:
        result = agent.run("Tell me a story.")

    assert (Cancelled("the model call was interrupted", "Once"), Usage(5, 1)) == (result.outcome, result.usage)


# ---------------------------------------------------------------------------------------------------- systematically


class Points:
    """The places of a turn where something else may happen: each event, each wait, each call of the program's."""

    def __init__(self, stop: int | None) -> None:
        self.passed = 0
        self.strike: Callable[[], object] = lambda: None
        self._stop = stop
        self._lock = threading.Lock()

    def mark(self) -> None:
        with self._lock:  # a worker has a thread of its own
            self.passed += 1
            if self.passed != self._stop:
                return
        self.strike()


class WatchedClock(fakes.FakeClock):
    """Each wait is a place."""

    def __init__(self, points: Points) -> None:
        super().__init__()
        self._points = points

    def receive(self, mailbox: SimpleQueue[Any], seconds: float | None) -> Any:
        self._points.mark()
        letter = super().receive(mailbox, seconds)
        self._points.mark()
        return letter


@contextmanager
def rich_session(points: Points, told: list[Event], journal: Path) -> Iterator[Agent]:
    """Everything in one turn: see ``rich_script``; and each hook."""
    slept = threading.Event()

    @tool(read_only=True)
    def look(n: int, context: ToolContext[Any]) -> int | str:
        context.progress(f"looking at {n}")
        return PAGE if n == 3 else n

    @tool(read_only=True)
    def double(n: int) -> int:
        return 2 * n

    @tool(read_only=True, timeout=5)
    def doze() -> None:
        assert slept.wait(PATIENCE)

    @tool(read_only=True, timeout=7)
    def doze_on_a_thread() -> None:
        assert slept.wait(PATIENCE)

    @tool(approval=True)
    def pay(amount: int, context: ToolContext[Any]) -> str:
        context.progress("paying")
        return f"paid {amount}"

    def always(answer: Any) -> Callable[[Any], Any]:
        def ask(request: Any) -> Any:
            points.mark()
            return answer

        return ask

    class WatchedNotes:
        def remember(self, text: str) -> None:
            points.mark()

        def recall(self, query: str) -> list[str]:
            points.mark()
            return ["Miu"]

    def watch(event: Event) -> None:
        told.append(event)
        points.mark()

    with Agent(
        RichModel(),
        [look, double, doze, doze_on_a_thread, pay],
        features=FEATURES,
        ask=always(["a"]),
        review=always(True),
        approve=always(True),
        memory=WatchedNotes(),
        recall_first=True,
        hooks={point: always(None) for point in get_args(HookPoint)},
        observers=[events.Inline(watch)],
        clock=WatchedClock(points),
        worker_patience=None,
        journal=journal,
        session="s",
        fsync="never",
    ) as agent:
        try:
            yield agent
        finally:
            slept.set()


@pytest.mark.slow
def test_cancel_at_every_place_of_a_turn(tmp_path: Path) -> None:
    """Wherever it comes, there is one end, no thread and no open call is left, and the journal tells the same."""

    def turn(stop: int | None, journal: Path) -> int:
        told: list[Event] = []
        points = Points(stop)

        def ends() -> list[Event]:
            return [event for event in told if isinstance(event.value, events.TurnFinished) and event.session == "s"]

        with rich_session(points, told, journal) as agent:
            in_time = False

            def strike() -> None:
                nonlocal in_time
                in_time = b'"turn_finished"' not in journal.read_bytes()  # else the end was decided, and stands on file
                agent.cancel("enough")

            points.strike = strike
            outcome = agent.run("Go!").outcome
            total = points.passed
            points.strike = lambda: None
            assert (1, Idle()) == (len(ends()), agent.state.phase), f"cancelled at {stop}"
            assert isinstance(outcome, Cancelled if in_time else Completed), f"cancelled at {stop}"
            if stop is None:
                late = [content for content, _ in results(agent) if "took longer than" in content]
                assert (Completed("All is done."), 2) == (outcome, len(late))
            assert agent.run("Hi!").text == "Hello again."
            state = agent.state
        report = replay(journal).raise_for_divergence()
        assert (state, 2) == (report.state, report.turns)
        return total

    total = turn(None, tmp_path / "whole.jsonl")
    assert total > 100
    before, files = set(threading.enumerate()), open_files()
    for stop in range(1, total + 1):
        turn(stop, tmp_path / f"{stop}.jsonl")
    assert set() == set(threading.enumerate()) - before
    assert (strangers(tmp_path), any(tmp_path.glob("*.payloads/*")), open_files() <= files) == ([], True, True)
