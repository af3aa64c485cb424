"""What is told by sessions in which everything happens: inputs, messages, decisions, pieces; and its lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TypeVar, get_args

import pytest

import cognition.parsing
from cognition import Completed, Failure, MalformedToolCall, Plan, Policy, Question, Rule, Usage, from_data
from cognition.values.features import Task, WorkerSpec
from interpreters import HookAnswer, HookRequest, PlanAnswer, Tool, ToolContext, events, fakes, tool
from interpreters.cli.screen.output import event_line
from interpreters.loop.program.approvals import Approval
from interpreters.observing.events import Event, worker_session
from interpreters.testing.fakes import Reply, ScriptedModel, call
from runtime import Notes
from tests.interpreters.test_workers import Cast
from tests.interpreters.ways import Way, every_way, in_sync

Value = TypeVar("Value")

COLOUR = {"question": "Which colour?", "options": ["red", "blue"]}


@tool(read_only=True)
def look(what: str, context: ToolContext[Any]) -> str:
    """Look."""
    context.progress(f"looking at {what}")
    return f"saw {what}"


@tool(approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


class Session:
    """What one session told, by kind."""

    def __init__(self, talk: Way, model: Any, *says: str, **options: Any) -> None:
        self.told: list[Event] = []
        given = {"clock": fakes.FakeClock(), "session": "s", "tools": [look, pay], **options}
        self.talk = talk(model, *says, observers=[self.told.append], **given)

    def of(self, kind: type[Value]) -> list[Value]:
        """The values of a kind."""
        return [event.value for event in self.told if isinstance(event.value, kind)]


def calls_and_approvals(talk: Way) -> Session:
    answers = iter([Approval(True, always=False), Approval(False, "too much"), Approval(False, always=True)])
    script = [
        Reply("I look.", [call("look", what="it")], reasoning="What?", usage=Usage(10, 2)),
        Reply(malformed=(MalformedToolCall("{", "cut"),)),
        call("pay", amount=1),
        call("pay", amount=1000),
        call("pay", amount=2),
        "Done.",
    ]
    return Session(talk, ScriptedModel(script), "Go!", approve=lambda request: next(answers))


def test_one_way_is_not_enough() -> None:
    """The scenes below are run by each."""
    assert len(every_way.args[1]) == 2


@every_way
def test_a_reply_is_told_as_it_is_written(talk: Way) -> None:
    """Call of the model, pieces, whole calls, and what it took."""
    told = calls_and_approvals(talk)

    assert [spoke.text for spoke in told.of(events.UserSpoke)] == ["Go!"]
    assert [(one.purpose, one.messages) for one in told.of(events.ModelCalled)] == [
        ("answer", 1),
        ("answer", 3),
        ("repair", 5),
        ("answer", 7),
        ("answer", 9),
        ("answer", 11),
    ]
    assert told.of(events.ReasoningDelta) == [events.ReasoningDelta("What?")]
    assert "".join(piece.text for piece in told.of(events.TextDelta)) == "I look.Done."
    assert told.of(events.CallStarted)[0] == events.CallStarted(0, "look")
    assert "".join(piece.text for piece in told.of(events.ArgumentsDelta))[:14] == '{"what": "it"}'
    assert [(one.index, one.call.name) for one in told.of(events.CallFinished)][:2] == [(0, "look"), (0, "pay")]
    assert told.of(events.CallMalformed) == [events.CallMalformed(0, MalformedToolCall("{", "cut"))]
    assert told.of(events.ModelReplied)[0].usage == Usage(10, 2)
    assert told.of(events.UsageUpdated) == [events.UsageUpdated(Usage(10, 2))]
    assert told.of(events.TurnFinished) == [events.TurnFinished(Completed("Done."), Usage(10, 2))]
    assert told.of(events.CallModel) == []


@every_way
def test_a_call_is_told_from_its_start_to_its_result(talk: Way) -> None:
    told = calls_and_approvals(talk)

    assert [one.call.name for one in told.of(events.CallTool)] == ["look", "pay"]
    assert [(one.effect_id, one.text) for one in told.of(events.ToolProgress)] == [
        (told.of(events.CallTool)[0].effect_id, "looking at it")
    ]
    assert [one.content for one in told.of(events.ToolReturned)] == ["saw it", "paid 1"]
    assert [(one.name, one.status) for one in told.of(events.ToolMessage)] == [
        ("look", "ok"),
        ("pay", "ok"),
        ("pay", "refused"),
        ("pay", "refused"),
    ]


@every_way
def test_approvals_are_told_with_their_answers(talk: Way) -> None:
    told = calls_and_approvals(talk)

    asked = told.of(events.AskApproval)
    assert [one.call.arguments for one in asked] == [{"amount": 1}, {"amount": 1000}, {"amount": 2}]
    assert [one.effect_id for one in told.of(events.ApprovalGiven)] == [asked[0].effect_id]
    assert [(one.effect_id, one.reason, one.always) for one in told.of(events.ApprovalRefused)] == [
        (asked[1].effect_id, "too much", False),
        (asked[2].effect_id, "", True),
    ]


@every_way
def test_every_message_of_the_history_is_told_once(talk: Way) -> None:
    """In its order, so that whoever is told from the beginning has the whole conversation."""
    for scene in SCENES:
        told = scene(talk)
        messages = [e.value for e in told.told if isinstance(e.value, get_args(events.Message)) and e.session == "s"]
        assert messages == list(told.talk.state.history)


def questions(talk: Way) -> Session:
    model = ScriptedModel([call("ask_user", questions=[COLOUR]), "Red."])
    return Session(talk, model, "Which?", features=["questions"], ask=lambda request: ["red"])


@every_way
def test_questions_are_told_with_their_answers(talk: Way) -> None:
    told, asked = questions(talk), (Question("Which colour?", ("red", "blue")),)

    assert [one.questions for one in told.of(events.AskUser)] == [asked]
    assert [one.answers for one in told.of(events.QuestionAnswered)] == [(("red",),)]


def plans(talk: Way) -> Session:
    answers = iter([PlanAnswer(False, "shorter"), PlanAnswer(True)])
    script = [
        call("enter_plan_mode"),
        call("submit_plan", steps=["look", "pay"]),
        call("submit_plan", steps=["look"]),
        call("finish_step"),
        call("update_tasks", tasks=[{"title": "rest", "status": "open"}]),
        "Done.",
    ]
    return Session(
        talk, ScriptedModel(script), "Plan!", features=["plan", "tasks"], review=lambda request: next(answers)
    )


@every_way
def test_plans_tasks_and_modes_are_told_as_they_change(talk: Way) -> None:
    told = plans(talk)
    long, short = Plan(("look", "pay")), Plan(("look",))

    assert [one.plan for one in told.of(events.ReviewPlan)] == [long, short]
    assert [(one.approved, one.feedback) for one in told.of(events.PlanReviewed)] == [(False, "shorter"), (True, "")]
    assert [one.plan for one in told.of(events.PlanChanged)] == [short, None]
    assert told.of(events.TasksChanged) == [events.TasksChanged((Task("rest"),))]
    assert told.of(events.ModeSet) == [events.ModeSet("plan"), events.ModeSet("default")]


def hooks_and_notes(talk: Way) -> Session:
    def guard(request: HookRequest) -> HookAnswer | None:
        assert request.call is not None
        return HookAnswer("refuse", "not that") if request.call.arguments.get("what") == "that" else None

    notes = Notes()
    notes.remember("Red is good.")
    script = [call("look", what="it"), call("look", what="that"), call("remember", text="Blue is bad."), "Done."]
    return Session(
        talk,
        ScriptedModel(script),
        "Red?",
        features=["memory"],
        memory=notes,
        recall_first=True,
        hooks={"before_tool": guard},
        tools=[look],
    )


@every_way
def test_hooks_are_told_with_their_verdicts(talk: Way) -> None:
    told = hooks_and_notes(talk)

    asked, answered = told.of(events.RunHook), told.of(events.HookReturned)
    assert [(one.point, one.call and one.call.name) for one in asked][:2] == [("before_tool", "look")] * 2
    assert [one.effect_id for one in asked] == [one.effect_id for one in answered]
    assert [(one.verdict, one.reason) for one in answered][:2] == [("continue", ""), ("refuse", "not that")]


@every_way
def test_notes_are_told_when_they_are_sought_found_and_taken(talk: Way) -> None:
    told = hooks_and_notes(talk)

    assert [one.query for one in told.of(events.Recall)] == ["Red?"]
    assert [one.items for one in told.of(events.MemoryRecalled)] == [("Red is good.",)]
    assert told.of(events.Remember) == [events.Remember("Blue is bad.")]


def workers(talk: Way) -> Session:
    model = Cast(
        Go=[[spawn("ann"), spawn("bob")], "Done."],
        ann=[Reply("Ann is done.", usage=Usage(5, 1))],
        bob=[Failure("no", kind="fatal")],
    )
    return Session(talk, model, "Go!", features=["workers"], worker_patience=None)  # the fake clock has none either


def spawn(name: str) -> Any:
    return call("spawn_worker", name=name, objective=f"{name} works")


@every_way
def test_workers_are_told_from_start_to_end_and_what_they_do_between(talk: Way) -> None:
    """Their own events carry their own session, each numbered from 1."""
    told = workers(talk)

    assert [(one.worker, worker_session("s", one)) for one in told.of(events.SpawnWorker)] == [
        (WorkerSpec("ann", "ann works", ("look", "pay")), "s/1.1.1"),
        (WorkerSpec("bob", "bob works", ("look", "pay")), "s/1.1.2"),
    ]
    assert [(one.effect_id, one.text, one.usage) for one in told.of(events.WorkerFinished)] == [
        ("1.1.1", "Ann is done.", Usage(5, 1))
    ]
    assert [(one.effect_id, one.message, one.usage) for one in told.of(events.WorkerFailed)] == [
        ("1.1.2", "no", Usage())
    ]
    for session in ("s", "s/1.1.1", "s/1.1.2"):
        numbers = [event.sequence for event in told.told if event.session == session]
        assert numbers == list(range(1, len(numbers) + 1))
    assert events.UsageUpdated(Usage(5, 1)) in told.of(events.UsageUpdated)


def troubles(talk: Way) -> Session:
    long = "word " * 300
    script = [
        Failure("slow down", status=429, retry_after=2.0),
        *[long] * 6,
        *[call("look", what="it")] * 3,
        "I stop.",
    ]
    return Session(talk, ScriptedModel(script, context_tokens=2048), *[long] * 6, "Look!")


def overflow(talk: Way) -> Session:
    long = "word " * 300
    failure = Failure("too long", kind="context_overflow", needed_tokens=4200, available_tokens=3000)
    script = [*["Fine."] * 6, failure, "Short."]
    return Session(talk, ScriptedModel(script, context_tokens=8192), *[long] * 6, "And now?")


@every_way
def test_retries_limits_and_cuts_of_the_context_are_told(talk: Way) -> None:
    told = troubles(talk)

    assert told.of(events.RetryPlanned)[0] == events.RetryPlanned("rate_limit", "slow down", 2, 2.0)
    assert told.of(events.StartTimer)[0].seconds == 2.0
    cuts = [(one.dropped > 0, one.tokens <= one.budget) for one in told.of(events.ContextAssembled)]
    assert (cuts[0], cuts[-1]) == ((False, True), (True, True))
    *before, last = overflow(talk).of(events.ContextAssembled)
    assert ({one.dropped for one in before}, last.dropped > 0) == ({0}, True)
    assert [one.limit for one in told.of(events.LimitHit)] == ["loop"]
    first, second = [event for event in told.told if isinstance(event.value, events.ModelCalled)][:2]
    assert (first.turn, first.step, first.attempt) == (1, 1, 1)
    assert (second.turn, second.step, second.attempt) == (1, 1, 2)
    (of_next_turn,) = [e for e in told.told if isinstance(e.value, events.UserSpoke) and e.turn == 2]
    assert (of_next_turn.step, of_next_turn.attempt) == (1, 1)


def warnings(talk: Way) -> Session:
    class Broken(Notes):
        def remember(self, text: str) -> None:
            raise OSError("the disk is full")

    script = ScriptedModel([call("remember", text="x"), "Done."])
    return Session(talk, script, "Hi!", features=["memory"], memory=Broken())


@every_way
def test_warnings_are_told(talk: Way) -> None:
    assert warnings(talk).of(events.WarningRaised) == [
        events.WarningRaised("a note could not be saved: the disk is full")
    ]


def strangers(talk: Way) -> Session:
    tags = {"type": "object", "properties": {"tags": {"type": "array", "uniqueItems": True}}}
    return Session(
        talk, ScriptedModel(["Hi."]), "Hi!", tools=[Tool.from_schema(name="tag", parameters=tags, function=print)]
    )


SCENES = (calls_and_approvals, questions, plans, hooks_and_notes, workers, troubles, overflow, warnings, strangers)


@every_way
def test_whatever_is_told_has_its_line_of_json(talk: Way) -> None:
    """So that who reads ``--json`` sees what an observer sees."""
    told = [event for scene in SCENES for event in scene(talk).told]

    assert {type(event.value) for event in told} >= {*get_args(events.OwnEvent), *get_args(events.Message)}
    for event in told:
        assert event == from_data(json.loads(event_line(event)), Event)


def test_a_match_finds_what_it_needs_in_one_module() -> None:
    """Every class that may be told is there under its name, and is the core's own."""
    for kind in get_args(events.EventValue):
        assert getattr(events, kind.__name__) is kind
    assert events.TurnFinished is cognition.TurnFinished
    assert events.TextDelta is cognition.parsing.TextDelta


def test_every_value_has_a_tag_of_its_own() -> None:
    assert set(events.TAGS) == set(get_args(events.EventValue))
    assert len(events.TAGS) == len(set(events.TAGS.values()))


def test_what_is_told_does_not_grow_with_the_square_of_the_session() -> None:
    """No event holds the history: a conversation of twice the length tells twice as much."""

    def size(turns: int) -> int:
        told = Session(in_sync, ScriptedModel(["Fine."] * turns), *["Hi!"] * turns).told
        return sum(len(event_line(event)) for event in told)

    assert size(40) < 2.2 * size(20)


@every_way
def test_the_policy_s_refusals_are_results_and_no_questions(talk: Way) -> None:
    """A call that was never asked about is told as refused."""
    policy = Policy(rules=(Rule("deny", "pay", "not today"),))
    told = Session(talk, ScriptedModel([call("pay", amount=1), "Done."]), "Pay!", policy=policy)

    assert [one.status for one in told.of(events.ToolMessage)] == ["refused"]
    assert told.of(events.AskApproval) == []


@every_way
def test_an_input_that_is_rejected_tells_nothing(talk: Way) -> None:
    """Such as a mode that is set twice: the second one changes nothing."""
    told = Session(talk, ScriptedModel(["one"]), "Hi!", use=lambda agent: agent.set_mode("default"))

    kinds = [type(event.value) for event in told.told]
    assert kinds[:1] in ([events.ModeChanged], [events.UserSpoke])
    assert events.Rejected not in kinds


@pytest.fixture(autouse=True)
def _no_threads_left() -> Iterator[None]:
    yield
    from interpreters.tools.offloading import OBSERVER_THREADS, THREADS

    OBSERVER_THREADS.dismiss()
    THREADS.dismiss()
