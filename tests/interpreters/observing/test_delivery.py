"""Observers that are slow, hang or fail: the run does not wait for them; what they get is whole, or they are given up.

Nothing here sleeps: an observer that is slow waits for a gate that the test opens.
"""

from __future__ import annotations

import asyncio
import threading
from queue import SimpleQueue
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from cognition import Completed, ConfigError, EffectId, ToolCall
from interpreters import Agent, ApprovalRequest, AsyncAgent, PlanRequest, QuestionRequest, events, tool
from interpreters.observing import _delivery as delivery
from interpreters.observing._delivery import Delivery, TooSlowError, join, on_threads
from interpreters.observing.events import Event
from interpreters.testing.fakes import Reply, ScriptedModel, call
from interpreters.tools.offloading import OBSERVER_THREADS, THREADS
from runtime.threads.pool import ThreadPool
from tests.interpreters.signs import PATIENCE
from tests.interpreters.ways import Way, every_way


class Gated:
    """An observer that waits for its gate before each event is seen."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.at_work: SimpleQueue[Event] = SimpleQueue()
        self.seen: SimpleQueue[Event] = SimpleQueue()

    def __call__(self, event: Event) -> None:
        self.at_work.put(event)
        assert self.gate.wait(PATIENCE)
        self.seen.put(event)


@pytest.fixture
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn's end waits for nobody."""
    monkeypatch.setattr(delivery, "PATIENCE", 0.0)
    monkeypatch.setattr("interpreters.observing.async_delivery.PATIENCE", 0.0)


@tool(read_only=True)
def look(n: int) -> int:
    """Look."""
    return n


# ---------------------------------------------------------------------------------------------------------- the run


@every_way
@pytest.mark.usefixtures("no_patience")
def test_an_observer_that_hangs_delays_nobody(talk: Way) -> None:
    """Neither the model nor a tool nor the others; once it goes on, it gets everything that it missed, in order."""
    hanging, others = Gated(), list[Event]()
    model = ScriptedModel([Reply("I look.", call("look", n=1), chunk=2), Reply("Seen.", chunk=2), "Bye."])
    done = talk(model, "Look!", "Bye!", tools=[look], observers=[hanging, events.Inline(others.append)])
    hanging.gate.set()

    assert [result.outcome for result in done.results] == [Completed("Seen."), Completed("Bye.")]
    assert [event.sequence for event in others] == list(range(1, len(others) + 1))
    assert others == [hanging.seen.get(timeout=PATIENCE) for _ in others]
    OBSERVER_THREADS.dismiss()
    THREADS.dismiss()


@every_way
def test_a_turn_ends_when_its_observers_have_seen_it(talk: Way) -> None:
    """Those that are not too slow: what ``run`` gives comes behind the last event."""
    told: list[Event] = []
    told_by: set[threading.Thread] = set()

    def watch(event: Event) -> None:
        told_by.add(threading.current_thread())
        told.append(event)

    def use(agent: Any) -> None:
        agents.append(agent)

    agents: list[Any] = []
    talk(ScriptedModel(["Hello!"]), "Hi!", observers=[watch], use=use)

    assert [type(event.value) for event in (told[0], told[-1])] == [events.UserSpoke, events.TurnFinished]
    assert threading.current_thread() not in told_by


@every_way
def test_who_is_asked_has_been_shown_what_led_to_it(talk: Way) -> None:
    """Approvals, questions and plans come behind the events before them, with observers on threads too."""
    told: list[str] = []
    asked: list[list[str]] = []

    def see(request: ApprovalRequest | QuestionRequest | PlanRequest) -> Any:
        asked.append(told[-1:])
        return ["red"] if isinstance(request, QuestionRequest) else True

    @tool(approval=True)
    def pay() -> str:
        return "paid"

    questions = [{"question": "Which colour?", "options": ["red", "blue"]}]
    model = ScriptedModel(
        [call("pay"), call("ask_user", questions=questions), call("submit_plan", steps=["look"]), "Done."]
    )
    talk(
        model,
        "Go!",
        tools=[pay],
        features=["questions", "plan"],
        approve=see,
        ask=see,
        review=see,
        observers=[lambda event: told.append(type(event.value).__name__)],
    )

    assert asked == [["AskApproval"], ["AskUser"], ["ReviewPlan"]]


def test_an_agent_leaves_no_observer_s_thread_behind() -> None:
    before = set(threading.enumerate())
    with Agent(ScriptedModel(["Hello!"]), observers=[lambda event: None, lambda event: None]) as agent:
        agent.run("Hi!")

    assert set() == set(threading.enumerate()) - before


# --------------------------------------------------------------------------------------------------------- async def


def test_an_async_observer_is_awaited_beside_the_turn() -> None:
    """In the session's own loop, one event at a time; the turn's end waits for it."""

    async def main() -> Any:
        told: list[Event] = []
        inside = 0

        async def watch(event: Event) -> None:
            nonlocal inside
            inside += 1
            assert inside == 1
            await asyncio.sleep(0)
            told.append(event)
            inside -= 1

        plain: list[Event] = []
        model = ScriptedModel([call("look", n=1), Reply("Seen.", chunk=1)])
        async with AsyncAgent(model, [look], observers=[watch, events.Inline(plain.append)]) as agent:
            await agent.run("Look!")
            return told, plain

    told, plain = asyncio.run(main())
    assert told == plain
    THREADS.dismiss()


@pytest.mark.usefixtures("no_patience")
def test_an_async_observer_that_hangs_is_stopped_with_its_session() -> None:
    """Turns end without it, and no task is left when the agent is closed."""

    async def main() -> Any:
        told: list[Event] = []

        async def hang(event: Event) -> None:
            told.append(event)
            await asyncio.Event().wait()

        async with AsyncAgent(ScriptedModel(["one", "two"]), observers=[hang]) as agent:
            texts = [(await agent.run("Hi!")).text for _ in range(2)]
        return texts, len(told), asyncio.all_tasks() - {asyncio.current_task()}

    assert (["one", "two"], 1, set()) == asyncio.run(main())


def test_an_async_observer_that_fails_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(event: Event) -> None:
        raise OSError("the window is gone")

    async def main() -> Any:
        told: list[Event] = []
        async with AsyncAgent(ScriptedModel(["one"]), observers=[broken, events.Inline(told.append)]) as agent:
            return (await agent.run("Hi!")).text, [
                e.value.message for e in told if isinstance(e.value, events.WarningRaised)
            ]

    text, warnings = asyncio.run(main())
    assert text == "one"
    assert warnings == ["an observer was dropped because it failed on UserSpoke: OSError: the window is gone"]
    assert warnings == [record.getMessage() for record in caplog.records]


def test_what_happens_between_two_runs_is_told_in_the_next_one() -> None:
    """Outside of the event loop nobody can await an observer."""
    told: list[str] = []

    async def watch(event: Event) -> None:
        told.append(type(event.value).__name__)

    async def make() -> AsyncAgent:
        return AsyncAgent(ScriptedModel(["one"]), observers=[watch])

    async def go_on(agent: AsyncAgent) -> None:
        async with agent:
            await agent.run("Hi!")

    agent = asyncio.run(make())
    agent.set_mode("careful")
    asyncio.run(go_on(agent))

    assert told[:2] == ["ModeChanged", "ModeSet"]


def test_without_an_event_loop_an_async_observer_is_refused() -> None:
    async def watch(event: Event) -> None: ...

    with pytest.raises(ConfigError, match="needs an AsyncAgent"):
        Agent(ScriptedModel([]), observers=[watch])


# -------------------------------------------------------------------------------------------------------- the queue


def at(sequence: int, value: events.EventValue, **place: int) -> Event:
    return Event("s", **{"turn": 1, "step": 1, "attempt": 1, **place}, sequence=sequence, value=value)


def text_delta(sequence: int, text: str, **place: int) -> Event:
    return at(sequence, events.TextDelta(text), **place)


def arguments(sequence: int, index: int, text: str) -> Event:
    return at(sequence, events.ArgumentsDelta(index, text))


def progress(sequence: int, effect: str, text: str) -> Event:
    return at(sequence, events.ToolProgress(EffectId(effect), ToolCall("c", "look", {}), text))


def warning(sequence: int) -> Event:
    return at(sequence, events.WarningRaised(str(sequence)))


def test_pieces_of_the_same_thing_can_be_joined() -> None:
    """Text, reasoning and arguments grow, progress is replaced; unlike things stay apart."""
    reasoning = at(1, events.ReasoningDelta("a"))

    assert text_delta(2, "ab") == join(text_delta(1, "a"), text_delta(2, "b"))
    assert at(2, events.ReasoningDelta("ab")) == join(reasoning, at(2, events.ReasoningDelta("b")))
    assert arguments(2, 0, "ab") == join(arguments(1, 0, "a"), arguments(2, 0, "b"))
    assert progress(2, "c", "all") == join(progress(1, "c", "half"), progress(2, "c", "all"))

    assert join(text_delta(1, "a"), text_delta(2, "b", step=2)) is None
    assert join(text_delta(1, "a"), text_delta(2, "b", attempt=2)) is None
    assert join(text_delta(1, "a"), text_delta(2, "b", turn=2)) is None
    assert join(text_delta(1, "a"), evolve(text_delta(2, "b"), session="s/1.1.1")) is None
    assert join(text_delta(1, "a"), reasoning) is None
    assert join(arguments(1, 0, "a"), arguments(2, 1, "b")) is None
    assert join(progress(1, "c", "half"), progress(2, "d", "all")) is None
    assert join(warning(1), warning(2)) is None


pieces = st.lists(
    st.one_of(
        st.builds(lambda text: ("text", text), st.text(max_size=3)),
        st.builds(lambda text: ("arguments", text), st.text(max_size=3)),
        st.just(("warning", "")),
    ),
    max_size=40,
)


@given(pieces, st.integers(1, 10))
def test_an_observer_that_is_behind_gets_the_same_text_in_fewer_pieces(given: list[tuple[str, str]], room: int) -> None:
    """Joined in order it is the same, nothing is lost, and no more than there is room for waits joinable."""
    told: list[Event] = []
    start: list[Delivery] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delivery, "ROOM", room)
        late = Delivery(told.append, start.append)
        for sequence, (kind, text) in enumerate(given, 1):
            match kind:
                case "text":
                    late.put(text_delta(sequence, text))
                case "arguments":
                    late.put(arguments(sequence, 0, text))
                case _:
                    late.put(warning(sequence))
    assert len(start) == bool(given)
    late.work()

    def runs(parts: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """Neighbours of one kind as one, as a reader puts them together."""
        joined: list[tuple[str, str]] = []
        for kind, text in parts:
            if joined and joined[-1][0] == kind != "warning":
                joined[-1] = kind, joined[-1][1] + text
            else:
                joined.append((kind, text))
        return joined

    kinds = {events.TextDelta: "text", events.ArgumentsDelta: "arguments", events.WarningRaised: "warning"}
    assert runs(given) == runs([(kinds[type(event.value)], getattr(event.value, "text", "")) for event in told])
    assert [event.sequence for event in told] == sorted(event.sequence for event in told)
    assert len(told) <= max(room, 0) + len(runs(given[room:]))


def test_an_observer_that_is_far_behind_is_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The memory for it is bounded; it is told so, and so are the others and the log."""
    monkeypatch.setattr(delivery, "PATIENCE", 0.0)
    monkeypatch.setattr(delivery, "ROOM", 3)
    monkeypatch.setattr(delivery, "FAR_BEHIND", 5)
    hanging, others = Gated(), list[Event]()
    script = ScriptedModel([[call("look", n=n) for n in range(9)], "Done.", "Bye."])
    with Agent(script, tools=[look], observers=[hanging, events.Inline(others.append)]) as agent:
        assert agent.run("Look!").text == "Done."
        hanging.gate.set()
        assert agent.run("Bye!").text == "Bye."

    expected = "an observer was dropped because it failed on CallFinished: TooSlowError: it is 5 events behind"
    assert [e.value.message for e in others if isinstance(e.value, events.WarningRaised)] == [expected]
    assert [record.getMessage() for record in caplog.records] == [expected]
    assert hanging.at_work.qsize() == 1


def test_an_observer_is_told_nothing_after_it_failed() -> None:
    """Whatever it raised, and whatever still waited."""
    told: list[Event] = []
    start: list[Delivery] = []

    def leave(event: Event) -> None:
        told.append(event)
        raise SystemExit

    broken = Delivery(leave, start.append)
    broken.put(text_delta(1, "a"))
    broken.put(warning(2))
    start.pop().work()
    broken.put(warning(3))

    assert ([text_delta(1, "a")], []) == (told, start)
    assert broken.failure is not None
    assert (text_delta(1, "a"), SystemExit) == (broken.failure[0], type(broken.failure[1]))
    assert not broken.when_idle(lambda: None)


def test_one_that_was_too_slow_is_not_waited_for_until_it_has_caught_up() -> None:
    start: list[Delivery] = []
    told: list[Event] = []
    slow = Delivery(told.append, start.append)
    slow.put(warning(1))
    idle: list[int] = []
    assert slow.when_idle(lambda: idle.append(1))
    slow.note_late()

    assert slow.is_late
    assert not slow.when_idle(lambda: idle.append(2))
    start.pop().work()
    slow.put(warning(2))
    assert slow.when_idle(lambda: idle.append(3))
    assert not slow.is_late
    start.pop().work()
    assert idle == [1, 3]


# ------------------------------------------------------------------------------------------------------- lingering


class Lingering:
    """A delivery on a thread that lingers without end, and a sign that it does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(delivery, "LINGER", PATIENCE)
        self.told: list[Event] = []
        self.starts = 0
        self.lingers: SimpleQueue[None] = SimpleQueue()
        self.idle: SimpleQueue[int] = SimpleQueue()
        self.pool = ThreadPool()
        self.delivery = Delivery(self.told.append, self.start)

    def start(self, one: Delivery) -> None:
        self.starts += 1
        self.pool.start(lambda: one.work(self.may_linger))

    def may_linger(self) -> bool:
        self.lingers.put(None)
        return True

    def call_when_idle(self) -> bool:
        return self.delivery.when_idle(lambda: self.idle.put(len(self.told)))


@pytest.fixture
def lingering(monkeypatch: pytest.MonkeyPatch) -> Lingering:
    """One whose thread was told of one event, and waits for others."""
    one = Lingering(monkeypatch)
    one.delivery.put(warning(1))
    one.lingers.get(timeout=PATIENCE)
    return one


def test_a_thread_that_lingers_hands_over_what_comes_meanwhile_once_somebody_waits(lingering: Lingering) -> None:
    """It is woken by whoever waits, and does not linger while they do; the next event starts it again."""
    for sequence in (2, 3):
        lingering.delivery.put(warning(sequence))

    assert lingering.call_when_idle()
    assert lingering.idle.get(timeout=PATIENCE) == 3
    assert lingering.told == [warning(sequence) for sequence in (1, 2, 3)]
    assert lingering.starts == 1
    assert lingering.pool.close(PATIENCE) == 0
    assert not lingering.call_when_idle()


def test_many_events_wake_a_thread_that_lingers(lingering: Lingering) -> None:
    """Long before there is no room for them as they are."""
    for sequence in range(2, delivery.ENOUGH + 2):
        lingering.delivery.put(warning(sequence))
    lingering.lingers.get(timeout=PATIENCE)

    assert lingering.told == [warning(sequence) for sequence in range(1, delivery.ENOUGH + 2)]
    assert lingering.starts == 1
    lingering.delivery.dismiss()
    assert lingering.pool.close(PATIENCE) == 0


def test_a_thread_for_which_jobs_wait_does_not_linger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "LINGER", 10 * PATIENCE)
    pool, told, others = ThreadPool(at_most=1), SimpleQueue[Event](), SimpleQueue[Event]()
    first, second = Delivery(told.put, on_threads(pool)), Delivery(others.put, on_threads(pool))
    gate = threading.Event()
    pool.start(lambda: gate.wait(PATIENCE))
    first.put(warning(1))
    second.put(warning(1))
    gate.set()

    assert told.get(timeout=PATIENCE) == others.get(timeout=PATIENCE) == warning(1)
    second.dismiss()
    assert pool.close(PATIENCE) == 0


def test_an_agent_that_is_closed_waits_for_nobody_who_lingers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "LINGER", 10 * PATIENCE)
    before = set(threading.enumerate())
    with Agent(ScriptedModel(["Hello!"]), observers=[lambda event: None]) as agent:
        agent.run("Hi!")
        agent._interpreter.observers.warn("something happens between two turns")

    assert set() == set(threading.enumerate()) - before


@pytest.mark.parametrize("seconds", [0.0, 0.0001])
def test_who_waits_has_been_told_everything_however_threads_come_and_go(
    seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "LINGER", seconds)
    told: list[Event] = []
    pool = ThreadPool()
    watched = Delivery(told.append, on_threads(pool))
    for sequence in range(1, 601):
        watched.put(warning(sequence))
        if sequence % 3 == 0:
            idle: SimpleQueue[int] = SimpleQueue()
            if watched.when_idle(lambda idle=idle: idle.put(len(told))):  # type: ignore[misc]  # with a default
                assert idle.get(timeout=PATIENCE) == sequence
            assert len(told) == sequence

    assert [event.sequence for event in told] == list(range(1, 601))
    assert pool.close(PATIENCE) == 0


def test_errors_name_what_they_are() -> None:
    assert issubclass(TooSlowError, Exception)


# ------------------------------------------------------------------------------------------------------- the threads


def test_a_bounded_pool_runs_every_job_on_few_threads() -> None:
    """Jobs that come while all are busy wait for one to be free; none is lost."""
    pool, most, inside, lock = ThreadPool(at_most=3), 0, 0, threading.Lock()
    done: SimpleQueue[int] = SimpleQueue()
    threads: set[threading.Thread] = set()
    full = threading.Barrier(3, timeout=PATIENCE)

    def job(number: int) -> None:
        nonlocal most, inside
        with lock:
            inside += 1
            most = max(most, inside)
            threads.add(threading.current_thread())
        if number < 3:
            full.wait()
        with lock:
            inside -= 1
        done.put(number)

    for number in range(200):
        pool.start(lambda number=number: job(number))  # type: ignore[misc]  # a lambda with a default

    assert sorted(done.get(timeout=PATIENCE) for _ in range(200)) == list(range(200))
    assert (most, len(threads)) == (3, 3)
    assert pool.close(PATIENCE) == 0


def test_a_pool_that_is_closed_ends_what_waits() -> None:
    """Jobs that were promised a thread still get one."""
    pool, gate = ThreadPool(at_most=1), threading.Event()
    done: SimpleQueue[int] = SimpleQueue()
    pool.start(lambda: gate.wait(PATIENCE))
    pool.start(lambda: done.put(1))
    pool.dismiss()
    gate.set()

    assert pool.close(PATIENCE) == 0
    assert done.get_nowait() == 1


def test_deliveries_on_threads_see_the_context_of_the_session() -> None:
    """A context variable that the program has set is there for its observers."""
    import contextvars

    name = contextvars.ContextVar("name", default="")
    seen: SimpleQueue[str] = SimpleQueue()
    pool = ThreadPool()
    watched = Delivery(lambda event: seen.put(name.get()), on_threads(pool))
    name.set("ours")
    watched.put(warning(1))

    assert seen.get(timeout=PATIENCE) == "ours"
    pool.close(PATIENCE)
