"""What observers are told: what happens in its order, with its place, and never at the run's expense."""

import threading
from typing import Any

import pytest
from attrs import evolve

from cognition import (
    Completed,
    EffectId,
    Failure,
    MalformedToolCall,
    ModelRequest,
    Policy,
    Rule,
    ToolCall,
    ToolMessage,
    Usage,
)
from interpreters import Agent, ToolContext, events, fakes, tool
from interpreters.loop.mailbox_messages import Progress, Turn, WorkerEvent
from interpreters.observing.events import Event
from interpreters.testing.fakes import Reply, ScriptedModel, call
from runtime.protocol.model import Done
from tests.interpreters.ways import Way, every_way


@tool(read_only=True)
def multiply(a: int, b: int) -> int:
    """Multiply two whole numbers."""
    return a * b


def names(told: list[Event]) -> list[str]:
    return [type(event.value).__name__ for event in told]


def test_a_turn_is_told_in_order() -> None:
    """From the user's message to the outcome, deltas included."""
    told: list[Event] = []
    model = ScriptedModel(
        [
            Reply("I multiply.", call("multiply", a=17, b=23), reasoning="Two numbers.", usage=Usage(20, 9)),
            Reply("It is 391.", chunk=5),
        ]
    )

    with Agent(model, tools=[multiply], observers=[told.append], session="s1") as agent:
        agent.run("What is 17 * 23?")

    expected = (
        "UserSpoke UserMessage ContextAssembled ModelCalled "
        "ReasoningDelta TextDelta CallStarted ArgumentsDelta CallFinished "
        "ModelReplied AssistantMessage UsageUpdated CallTool "
        "ToolReturned ToolMessage ContextAssembled ModelCalled "
        "TextDelta TextDelta ModelReplied AssistantMessage TurnFinished"
    )
    assert expected.split() == names(told)
    assert list(range(1, 23)) == [event.sequence for event in told]
    assert {(event.session, event.turn, event.attempt) for event in told} == {("s1", 1, 1)}
    assert [event.step for event in told] == [1] * 15 + [2] * 7
    result = told[14].value
    assert isinstance(result, events.ToolMessage)
    assert (result.call_id, result.name, result.status, result.content) == ("call-1-1-1", "multiply", "ok", "391")
    assert told[3].value == events.ModelCalled(EffectId("1.1.0"), "answer", 1)
    assert told[-1].value == events.TurnFinished(Completed("It is 391."), Usage(20, 9))


def test_deltas_join_to_the_reply_and_the_arguments() -> None:
    """What is streamed is what stands in the history."""
    told: list[Event] = []
    reply = Reply("I multiply these.", call("multiply", a=17, b=23), reasoning="Two numbers.", chunk=4)

    with Agent(ScriptedModel([reply, "Done."]), tools=[multiply], observers=[told.append]) as agent:
        agent.run("What is 17 * 23?")

    assert "".join(e.value.text for e in told if isinstance(e.value, events.TextDelta)) == "I multiply these.Done."
    assert "".join(e.value.text for e in told if isinstance(e.value, events.ArgumentsDelta)) == '{"a": 17, "b": 23}'


def test_every_call_is_finished_once_also_one_that_never_ran() -> None:
    """Refused by policy, unknown, wrong: each with the status and the words that the model gets."""
    told: list[Event] = []
    policy = Policy(rules=(Rule("deny", "pay", "not today"),))

    @tool
    def pay() -> str:
        raise AssertionError

    calls = [call("pay"), call("multply", a=1, b=1), call("multiply", a="1", b=1), call("multiply", a=2, b=1)]
    model = ScriptedModel([calls, "Done."])
    with Agent(model, tools=[multiply, pay], policy=policy, observers=[told.append]) as agent:
        agent.run("Go!")
        results = [m for m in agent.state.history if isinstance(m, ToolMessage)]

    assert results == [e.value for e in told if isinstance(e.value, events.ToolMessage)]
    assert [m.status for m in results] == ["refused", "error", "error", "ok"]
    assert sum(isinstance(e.value, events.CallTool) for e in told) == 2


def test_retries_limits_approvals_and_unreadable_calls_are_told() -> None:
    """Each of the rarer events, with what it is about."""
    told: list[Event] = []

    @tool(approval=True)
    def pay(amount: int) -> str:
        return "paid"

    model = ScriptedModel(
        [
            Failure("slow down", status=429, retry_after=2.0),
            Reply(malformed=(MalformedToolCall("{", "unclosed"),)),
            call("pay", amount=1),
            call("pay", amount=1),
            call("pay", amount=1),
            "I stop.",
        ]
    )
    with Agent(
        model, tools=[pay], approve=lambda request: True, observers=[told.append], clock=fakes.FakeClock()
    ) as agent:
        agent.run("Pay!")

    def only(kind: type) -> list[Any]:
        return [event.value for event in told if isinstance(event.value, kind)]

    assert [(e.kind, e.attempt, e.seconds) for e in only(events.RetryPlanned)] == [("rate_limit", 2, 2.0)]
    asked = [(e.attempt, e.value.purpose) for e in told if isinstance(e.value, events.ModelCalled)]
    assert asked[1:3] == [(2, "answer"), (1, "repair")]
    assert [e.malformed.reason for e in only(events.CallMalformed)] == ["unclosed"]
    assert [e.call.name for e in only(events.AskApproval)] == ["pay", "pay", "pay"]
    assert [e.limit for e in only(events.LimitHit)] == ["loop"]


def test_a_context_that_is_cut_is_told() -> None:
    """Each request says how much of the history it leaves out; a reader compares it with the one before."""
    told: list[Event] = []
    long = "word " * 300
    with Agent(ScriptedModel([long] * 6, context_tokens=2048), observers=[told.append]) as agent:
        for _ in range(6):
            agent.run(long)

    contexts = [event.value for event in told if isinstance(event.value, events.ContextAssembled)]
    assert [context.dropped for context in contexts] == sorted(context.dropped for context in contexts)
    assert (contexts[0].dropped, contexts[-1].dropped > 0) == (0, True)
    assert all(context.tokens <= context.budget for context in contexts)


@pytest.mark.parametrize("read_only", [True, False])
def test_progress_comes_on_the_session_s_thread(read_only: bool) -> None:
    """Of an observer that asks for it, wherever the tool runs; and the progress comes before the result."""
    told: list[tuple[str, bool]] = []
    main = threading.current_thread()

    @tool(read_only=read_only)
    def work(context: ToolContext[Any]) -> str:
        context.progress("half")
        context.progress("all")
        return "done"

    def watch(event: Event) -> None:
        if isinstance(event.value, events.ToolProgress | events.ToolReturned):
            text = event.value.text if isinstance(event.value, events.ToolProgress) else event.value.content
            told.append((text, threading.current_thread() is main))

    with Agent(ScriptedModel([call("work"), "Done."]), tools=[work], observers=[events.Inline(watch)]) as agent:
        agent.run("Go!")

    assert told == [("half", True), ("all", True), ("done", True)]


def test_an_observer_that_fails_is_dropped_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """The others hear of it and go on hearing; the turn is as if it had never been there."""
    told: list[Event] = []
    calls: list[Event] = []

    def broken(event: Event) -> None:
        calls.append(event)
        raise OSError("the window is gone")

    with Agent(ScriptedModel(["Hello!", "Again!"]), observers=[broken, told.append]) as agent:
        assert agent.run("Hi!").text == "Hello!"
        assert agent.run("Hi!").text == "Again!"

    warnings = [event.value.message for event in told if isinstance(event.value, events.WarningRaised)]
    assert len(calls) == 1
    assert warnings == ["an observer was dropped because it failed on UserSpoke: OSError: the window is gone"]
    assert warnings == [record.getMessage() for record in caplog.records]
    assert {"UserSpoke", "TextDelta", "TurnFinished"} <= set(names(told))


@every_way
def test_nothing_of_an_ended_turn_is_told_in_the_next_one(talk: Way) -> None:
    """What a tool or a worker said, and nobody had read when its turn was over."""
    told: list[Event] = []
    agents: list[Any] = []
    worker = Event("s/1.1.1", 1, 1, 1, 9, events.WarningRaised("late"))
    progress = events.ToolProgress(EffectId("1.1.2"), ToolCall("c", "multiply", {}), "half")

    def late(request: ModelRequest) -> str:
        interpreter = agents[0]._interpreter
        turn = interpreter._turn if len(request.messages) == 1 else Turn()  # of the first turn: its own, then another
        for letter in (
            Progress(turn, progress),
            WorkerEvent(turn, EffectId("1.1.1"), worker),
        ):
            interpreter._send(letter)
        return call("multiply", a=1, b=1) if not isinstance(request.messages[-1], ToolMessage) else "Done."

    model = ScriptedModel([late] * 4)
    talk(model, "One!", "Two!", tools=[multiply], observers=[events.Inline(told.append)], use=agents.append)

    assert [e.turn for e in told if isinstance(e.value, events.ToolProgress)] == [1]
    assert [e.value.message for e in told if isinstance(e.value, events.WarningRaised)] == ["late"]


def test_observers_that_all_fail_harm_nothing() -> None:
    """Also not in the middle of the warning about one of them."""

    def broken(event: Event) -> None:
        raise ValueError

    def broken_by_warnings(event: Event) -> None:
        if isinstance(event.value, events.WarningRaised):
            raise ValueError

    with Agent(ScriptedModel(["Hello!"]), observers=[broken, broken_by_warnings]) as agent:
        assert agent.run("Hi!").text == "Hello!"


class Unheard(ScriptedModel):
    """A model whose replies say what was asked for in vain."""

    def submit(self, request: ModelRequest) -> Any:
        for output in super().submit(request):
            yield evolve(output, warnings=("no switch", "no place")) if isinstance(output, Done) else output


@pytest.mark.behaviour("T13_3")
def test_what_a_model_was_asked_for_in_vain_is_told_once() -> None:
    """With the first reply of a session that says so, however many follow."""
    told: list[Event] = []
    with Agent(Unheard(["One.", "Two."]), observers=[told.append]) as agent:
        agent.run("Hello")
        agent.run("Again")

    assert [event.value.message for event in told if isinstance(event.value, events.WarningRaised)] == [
        "no switch",
        "no place",
    ]
