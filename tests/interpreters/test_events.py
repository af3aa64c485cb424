"""Every event there is, told by a session in which it happens: with its fields, its tags, and its line of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from attrs import fields

from cognition import Completed, Failure, MalformedToolCall, Plan, Policy, Question, Rule, Usage
from cognition.features import Task, WorkerSpec
from interpreters import HookAnswer, HookRequest, PlanAnswer, Tool, ToolContext, events, fakes, tool
from interpreters.approvals import Approval
from interpreters.cli.jsonl import TAGS, event_line
from interpreters.events import Event
from interpreters.fakes import Reply, ScriptedModel, call
from runtime import Notes
from tests.interpreters.test_workers import Cast
from tests.interpreters.ways import Way, every_way

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

    def of(self, kind: type[Event]) -> list[dict[str, Any]]:
        """The fields of its own of each event of a kind."""
        tags = {field.name for field in fields(Event)}
        return [
            {field.name: getattr(event, field.name) for field in fields(kind) if field.name not in tags}
            for event in self.told
            if type(event) is kind
        ]


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
    """Step, call of the model, pieces, whole calls, and what it took."""
    told = calls_and_approvals(talk)

    assert told.of(events.TurnStarted) == [{"text": "Go!"}]
    assert len(told.of(events.StepStarted)) == 6
    assert told.of(events.ModelCallStarted)[:3] == [
        {"purpose": "answer", "messages": 1},
        {"purpose": "answer", "messages": 3},
        {"purpose": "repair", "messages": 5},
    ]
    assert told.of(events.ReasoningDelta) == [{"text": "What?"}]
    assert "".join(piece["text"] for piece in told.of(events.TextDelta)) == "I look.Done."
    assert told.of(events.CallStarted)[0] == {"index": 0, "name": "look"}
    assert "".join(piece["text"] for piece in told.of(events.ArgumentText))[:14] == '{"what": "it"}'
    assert [(one["index"], one["call"].name) for one in told.of(events.CallProposed)][:2] == [(0, "look"), (0, "pay")]
    assert told.of(events.CallMalformed) == [{"index": 0, "malformed": MalformedToolCall("{", "cut")}]
    assert told.of(events.ModelCallFinished)[0]["usage"] == Usage(10, 2)
    assert told.of(events.UsageUpdated) == [{"used": Usage(10, 2)}]
    assert told.of(events.TurnFinished) == [{"outcome": Completed("Done."), "usage": Usage(10, 2)}]


@every_way
def test_a_call_is_told_from_its_start_to_its_result(talk: Way) -> None:
    told = calls_and_approvals(talk)

    assert [one["call"].name for one in told.of(events.ToolStarted)] == ["look", "pay"]
    assert [one["text"] for one in told.of(events.ToolProgress)] == ["looking at it"]
    assert [(one["name"], one["status"], one["content"]) for one in told.of(events.ToolFinished)] == [
        ("look", "ok", "saw it"),
        ("pay", "ok", "paid 1"),
        ("pay", "refused", "the user refused this call: too much"),
        ("pay", "refused", told.of(events.ToolFinished)[3]["content"]),
    ]


@every_way
def test_approvals_are_told_with_their_answers(talk: Way) -> None:
    told = calls_and_approvals(talk)

    assert [one["call"].arguments for one in told.of(events.ApprovalAsked)] == [
        {"amount": 1},
        {"amount": 1000},
        {"amount": 2},
    ]
    assert [
        (one["call"].name, one["approved"], one["reason"], one["always"]) for one in told.of(events.ApprovalAnswered)
    ] == [("pay", True, "", False), ("pay", False, "too much", False), ("pay", False, "", True)]


def questions(talk: Way) -> Session:
    model = ScriptedModel([call("ask_user", questions=[COLOUR]), "Red."])
    return Session(talk, model, "Which?", features=["questions"], ask=lambda request: ["red"])


@every_way
def test_questions_are_told_with_their_answers(talk: Way) -> None:
    told, asked = questions(talk), (Question("Which colour?", ("red", "blue")),)

    assert told.of(events.QuestionsAsked) == [{"questions": asked}]
    assert told.of(events.QuestionsAnswered) == [{"questions": asked, "answers": (("red",),)}]


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

    assert told.of(events.PlanProposed) == [{"plan": long}, {"plan": short}]
    assert told.of(events.PlanReviewed) == [
        {"plan": long, "approved": False, "feedback": "shorter"},
        {"plan": short, "approved": True, "feedback": ""},
    ]
    assert [one["plan"] for one in told.of(events.PlanChanged)] == [short, None]
    assert told.of(events.TasksChanged) == [{"tasks": (Task("rest"),)}]
    assert [one["mode"] for one in told.of(events.ModeChanged)] == ["plan", "default"]


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

    started, finished = told.of(events.HookStarted), told.of(events.HookFinished)
    assert [(one["point"], one["call"].name) for one in started][:2] == [("before_tool", "look")] * 2
    assert [(one["point"], one["call"].name, one["verdict"], one["reason"]) for one in finished][:2] == [
        ("before_tool", "look", "continue", ""),
        ("before_tool", "look", "refuse", "not that"),
    ]


@every_way
def test_notes_are_told_when_they_are_sought_found_and_taken(talk: Way) -> None:
    told = hooks_and_notes(talk)

    assert told.of(events.MemorySearched) == [{"query": "Red?"}]
    assert [(one["query"], one["items"]) for one in told.of(events.MemoryRecalled)] == [("Red?", ("Red is good.",))]
    assert told.of(events.NoteTaken) == [{"text": "Blue is bad."}]


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

    assert told.of(events.WorkerStarted) == [
        {"worker": WorkerSpec("ann", "ann works", ("look", "pay")), "worker_session": "s/1.1.1"},
        {"worker": WorkerSpec("bob", "bob works", ("look", "pay")), "worker_session": "s/1.1.2"},
    ]
    ends = sorted(told.of(events.WorkerFinished), key=lambda one: str(one["name"]))
    assert [(one["name"], one["worker_session"], one["status"], one["text"], one["usage"]) for one in ends] == [
        ("ann", "s/1.1.1", "finished", "Ann is done.", Usage(5, 1)),
        ("bob", "s/1.1.2", "failed", "no", Usage()),
    ]
    for session in ("s", "s/1.1.1", "s/1.1.2"):
        numbers = [event.sequence for event in told.told if event.session == session]
        assert numbers == list(range(1, len(numbers) + 1))
    assert {"used": Usage(5, 1)} in told.of(events.UsageUpdated)


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

    assert told.of(events.RetryPlanned)[0] == {
        "kind": "rate_limit",
        "message": "slow down",
        "number": 2,
        "seconds": 2.0,
    }
    assert told.of(events.ContextTrimmed)
    compacted = overflow(talk)
    assert (len(compacted.of(events.ContextTrimmed)), len(compacted.of(events.ContextCompacted))) == (0, 1)
    for cut in (*told.of(events.ContextTrimmed), *compacted.of(events.ContextCompacted)):
        assert cut["dropped"] > 0
        assert cut["tokens"] <= cut["budget"]
    assert [one["limit"] for one in told.of(events.LimitHit)] == ["loop"]
    second = [event for event in told.told if isinstance(event, events.ModelCallStarted)][1]
    assert (second.turn, second.step, second.attempt) == (1, 1, 2)
    assert sum(isinstance(event, events.StepStarted) and event.turn == 1 for event in told.told) == 1


def warnings(talk: Way) -> Session:
    class Broken(Notes):
        def remember(self, text: str) -> None:
            raise OSError("the disk is full")

    script = ScriptedModel([call("remember", text="x"), "Done."])
    return Session(talk, script, "Hi!", features=["memory"], memory=Broken())


@every_way
def test_warnings_are_told(talk: Way) -> None:
    assert warnings(talk).of(events.WarningRaised) == [{"message": "a note could not be saved: the disk is full"}]


def strangers(talk: Way) -> Session:
    tags = {"type": "object", "properties": {"tags": {"type": "array", "uniqueItems": True}}}
    return Session(
        talk, ScriptedModel(["Hi."]), "Hi!", tools=[Tool.from_schema(name="tag", parameters=tags, function=print)]
    )


SCENES = (calls_and_approvals, questions, plans, hooks_and_notes, workers, troubles, overflow, warnings, strangers)


@every_way
def test_every_event_there_is_was_told_and_has_a_line_of_json(talk: Way) -> None:
    """The line holds each field by its name, so that who reads ``--json`` sees what an observer sees."""
    told = [event for scene in SCENES for event in scene(talk).told]

    assert set(TAGS) == {type(event) for event in told}
    for event in told:
        line = json.loads(event_line(event))
        assert ["type", *(field.name for field in fields(type(event)))] == list(line)
        assert (TAGS[type(event)], event.session, event.turn) == (line["type"], line["session"], line["turn"])


@every_way
def test_the_policy_s_refusals_are_results_and_no_questions(talk: Way) -> None:
    """A call that was never asked about is told as refused."""
    policy = Policy(rules=(Rule("deny", "pay", "not today"),))
    told = Session(talk, ScriptedModel([call("pay", amount=1), "Done."]), "Pay!", policy=policy)

    assert [one["status"] for one in told.of(events.ToolFinished)] == ["refused"]
    assert told.of(events.ApprovalAsked) == []


@every_way
def test_an_input_that_is_rejected_tells_nothing(talk: Way) -> None:
    """Such as a mode that is set twice: the second one changes nothing."""
    told = Session(talk, ScriptedModel(["one"]), "Hi!", use=lambda agent: agent.set_mode("default"))

    assert [type(event) for event in told.told][:1] in ([events.ModeChanged], [events.TurnStarted])


@pytest.fixture(autouse=True)
def _no_threads_left() -> Iterator[None]:
    yield
    from interpreters.threads import OBSERVER_THREADS, THREADS

    OBSERVER_THREADS.dismiss()
    THREADS.dismiss()
