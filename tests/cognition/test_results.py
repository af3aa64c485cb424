"""What the model reads: the text and status of each result that the engine itself writes, and the notes beside them."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from cognition import (
    ApprovalRefused,
    AssistantMessage,
    CallModel,
    CallTool,
    CancelAsked,
    Cancelled,
    Failed,
    GenerationOptions,
    HookReturned,
    Input,
    Limits,
    MalformedToolCall,
    MemoryRecalled,
    ModelInterrupted,
    PlanReviewed,
    ProposedCall,
    QuestionAnswered,
    Rejected,
    SessionReset,
    ShutdownAsked,
    ToolCall,
    ToolReturned,
    ToolSpec,
    TurnFinished,
    Usage,
    UserMessage,
    UserSpoke,
    WorkerFailed,
    WorkerFinished,
    WorkerStalled,
)
from cognition.engine.handlers.answers import APPROVED
from cognition.engine.handlers.engine_calls import PLANNING
from cognition.engine.handlers.model import NUDGE_NOTE
from cognition.steps.state import Window
from tests.cognition.session import DELETE, WRITE, Session, effect, engine_with, replied

FIRST = effect("1.1.1")
FEATURES = ("questions", "tasks", "plan", "memory", "workers")
WORKER = ProposedCall("spawn_worker", {"name": "a", "objective": "x"})
PLAN = ProposedCall("submit_plan", {"steps": ["look"]})
QUESTION = ProposedCall("ask_user", {"questions": [{"question": "Which?", "options": ["a", "b"]}]})


def calling(engine_of: dict[str, Any], *calls: ProposedCall, tools: tuple[ToolSpec, ...] = (WRITE, DELETE)) -> Session:
    session = Session(engine_with(*tools, **engine_of))
    session(UserSpoke("Go"))
    session(replied("1.1.0", "", *calls))
    return session


@pytest.mark.parametrize(
    ("call", "event", "expected"),
    [
        (ProposedCall("update_tasks", {"tasks": []}), None, ("The list of tasks is updated.", "ok")),
        (ProposedCall("enter_plan_mode"), None, (PLANNING, "ok")),
        (ProposedCall("remember", {"text": "tea"}), None, ("Saved.", "ok")),
        (ProposedCall("finish_step"), None, ("Error: there is no plan under execution", "error")),
        (ProposedCall("wriet"), None, ("Error: there is no tool 'wriet'; did you mean write?", "error")),
        (WORKER, WorkerFinished(FIRST, "found"), ("found", "ok")),
        (WORKER, WorkerFailed(FIRST, "lost"), ("Error: the worker failed: lost", "error")),
        (WORKER, WorkerStalled(FIRST, "asleep"), ("Error: the worker stalled: asleep", "error")),
        (WORKER, WorkerStalled(FIRST), ("Error: the worker stalled: it made no progress", "error")),
        (PLAN, PlanReviewed(FIRST, True), (APPROVED, "ok")),
        (PLAN, PlanReviewed(FIRST, True, "Quickly."), (f"{APPROVED} Quickly.", "ok")),
        (PLAN, PlanReviewed(FIRST, False, "smaller"), ("The user wants another plan: smaller", "refused")),
        (PLAN, PlanReviewed(FIRST, False), ("The user wants another plan: no reason given", "refused")),
        (QUESTION, QuestionAnswered(FIRST, (("b",),)), ("Which? b", "ok")),
        (ProposedCall("recall", {"query": "a"}), MemoryRecalled(FIRST, ("1", "2")), ("1\n2", "ok")),
        (ProposedCall("recall", {"query": "a"}), MemoryRecalled(FIRST), ("Nothing found.", "ok")),
        (ProposedCall("delete"), ApprovalRefused(FIRST), ("Error: the user refused this call", "refused")),
        (ProposedCall("delete"), CancelAsked(), ("The call was cancelled before it ran.", "cancelled")),
    ],
)
def test_each_call_has_its_one_result(call: ProposedCall, event: Input | None, expected: tuple[str, str]) -> None:
    session = calling({"features": FEATURES}, call)
    if event is not None:
        session(event)

    assert [expected] == session.results


def test_the_nearest_names_are_three_at_most() -> None:
    tools = tuple(ToolSpec(name) for name in ("read_a", "read_b", "read_c", "read_d", "write"))

    session = calling({}, ProposedCall("read_"), tools=tools)

    ((content, _),) = session.results
    names = content.removeprefix("Error: there is no tool 'read_'; did you mean ").removesuffix("?").split(" or ")
    assert len(names) == len(set(names)) == 3
    assert set(names) <= {tool.name for tool in tools[:4]}


@pytest.mark.parametrize("event", [SessionReset(), ShutdownAsked()])
def test_a_turn_that_the_program_ends_says_by_what(event: Input) -> None:
    session = Session(engine_with())
    session(UserSpoke("Go"))

    decisions = session(event)

    reason = "the session was reset" if isinstance(event, SessionReset) else "the session was closed"
    assert TurnFinished(Cancelled(reason), Usage()) in decisions
    expected = [] if isinstance(event, SessionReset) else [UserMessage("m1", "Go")]
    assert expected == list(session.state.history)


def test_an_answer_that_does_not_fit_is_rejected_with_what_would() -> None:
    session = calling({"features": FEATURES}, QUESTION)

    (no,) = session(QuestionAnswered(FIRST, (("a", "b"),)))

    assert isinstance(no, Rejected)
    assert (no.input, no.effect_id) == ("QuestionAnswered", FIRST)
    assert no.detail == "1 answers are expected, one choice each unless several are allowed"


def test_notes_of_the_memory_stand_in_lines() -> None:
    session = Session(engine_with(recall_first=True))
    session(UserSpoke("Go"))

    session(MemoryRecalled(effect("1.0.0"), ("tea", "at 5")))

    assert session.state.history[-1] == UserMessage("m2", "From your notes:\ntea\nat 5", "engine")


@pytest.mark.behaviour("B6")
def test_a_reply_with_only_reasoning_is_kept_and_nudged() -> None:
    session = Session(engine_with())
    session(UserSpoke("Go"))

    session(replied("1.1.0", "", reasoning="Hmm."))

    assert [
        UserMessage("m1", "Go"),
        AssistantMessage("m2", "", "Hmm."),
        UserMessage("m3", NUDGE_NOTE, "engine"),
    ] == list(session.state.history)


def test_reasoning_beside_and_inside_a_text_protocol_is_kept_together() -> None:
    session = Session(engine_with(WRITE, protocol="short_keys"))
    session(UserSpoke("Go"))

    session(replied("1.1.0", '{"t": "inside", "f": "Done."}', reasoning="beside"))

    assert session.state.history[-1] == AssistantMessage("m2", '{"t": "inside", "f": "Done."}', "beside\ninside")


def test_each_text_protocol_is_read_as_what_it_is() -> None:
    for protocol, text in (
        ("short_keys", '{"a": "write", "i": {"n": 1}}'),
        ("tool_tags", '<tool>write</tool><args>{"n": 1}</args>'),
    ):
        session = Session(engine_with(WRITE, protocol=protocol))
        session(UserSpoke("Go"))

        assert (CallTool(FIRST, ToolCall("call-1-1-1", "write", {"n": 1})),) == session(replied("1.1.0", text))


def test_at_a_limit_the_model_is_told_which_and_what_to_do() -> None:
    session = Session(engine_with(WRITE, limits=Limits(steps=1)))
    session(UserSpoke("Go"))
    session(replied("1.1.0", "", ProposedCall("write")))

    session(ToolReturned(FIRST, "ok"))

    note = "Stop calling tools now (the limit of 1 steps is reached). Answer with what you know."
    assert UserMessage("m4", note, "engine") == session.state.history[-1]


def test_a_call_that_can_not_be_read_is_shown_with_the_reason_and_shortened_if_need_be() -> None:
    session = Session(engine_with(WRITE, context_tokens=700))
    session(UserSpoke("Go"))

    session(replied("1.1.0", "", malformed=(MalformedToolCall("{" + "x" * 1000, "cut"), MalformedToolCall("[", "odd"))))

    first, second = session.state.history[-2:]
    assert isinstance(first, UserMessage)
    assert first.text.startswith("This tool call could not be read: cut\n{xxx")
    assert "characters left out" in first.text
    assert first.text.endswith("x\nSend it again, well-formed.")
    expected = "This tool call could not be read: odd\n[\nSend it again, well-formed."
    assert UserMessage("m4", expected, "engine") == second


def test_a_reply_that_stays_unreadable_ends_the_turn_with_the_first_reason() -> None:
    for protocol, bad in (("native", "Well."), ("short_keys", '{"a": "write", "i": {"n')):
        session = Session(engine_with(WRITE, protocol=protocol))
        session(UserSpoke("Go"))
        malformed = (MalformedToolCall("{", "cut"), MalformedToolCall("[", "odd")) if protocol == "native" else ()
        for step in (1, 2):
            session(replied(f"1.{step}.0", bad, malformed=malformed, reasoning="Hmm."))

        (end,) = session(replied("1.3.0", bad, malformed=malformed, reasoning="Hmm."))

        reason = "cut" if protocol == "native" else "it begins like a call and is no complete JSON"
        assert isinstance(end, TurnFinished)
        assert isinstance(end.outcome, Failed)
        assert end.outcome.message == f"the model's tool calls stayed unreadable: {reason}"
        last = session.state.history[-1]
        assert isinstance(last, AssistantMessage)
        assert last.reasoning == "Hmm."


def test_an_unreadable_reply_is_answered_with_the_reason_and_its_reasoning_kept() -> None:
    """Natively the model sees what it wrote; in a text protocol only what is wrong with it."""
    native = Session(engine_with(WRITE))
    native(UserSpoke("Go"))
    native(replied("1.1.0", "Well.", malformed=(MalformedToolCall("{", "cut"),), reasoning="Hmm."))
    assert native.state.history[1] == AssistantMessage("m2", "Well.", "Hmm.")

    textual = Session(engine_with(WRITE, protocol="short_keys"))
    textual(UserSpoke("Go"))
    textual(replied("1.1.0", '{"a": "write", "i": 5}'))
    reason = "the input of 'write' must be a JSON object, not int"
    note = f"Your reply could not be read: {reason}. Reply again in the agreed form."
    assert [UserMessage("m1", "Go"), UserMessage("m2", note, "engine")] == list(textual.state.history)


def test_text_beside_native_calls_is_no_answer() -> None:
    """Natively a model says what it is about to do; only a text protocol marks an answer beside a call."""
    session = Session(engine_with(WRITE))
    session(UserSpoke("Go"))
    session(replied("1.1.0", "I will write.", ProposedCall("write"), reasoning="Hmm."))

    (again,) = session(ToolReturned(FIRST, "ok"))

    assert isinstance(again, CallModel)
    call = ToolCall("call-1-1-1", "write")
    assert AssistantMessage("m2", "I will write.", "Hmm.", (call,)) == session.state.history[1]


def test_a_final_answer_is_kept_as_it_was_said() -> None:
    session = Session(engine_with(WRITE, limits=Limits(steps=1)))
    session(UserSpoke("Go"))
    session(replied("1.1.0", "", ProposedCall("write")))
    session(ToolReturned(FIRST, "ok"))

    session(replied("1.2.0", "Half done.", reasoning="Hmm."))

    assert session.state.history[-1] == AssistantMessage("m5", "Half done.", "Hmm.")


def test_a_readable_call_ends_a_row_of_unreadable_ones() -> None:
    bad = (MalformedToolCall("{", "cut"),)
    session = Session(engine_with(WRITE))
    session(UserSpoke("Go"))
    session(replied("1.1.0", malformed=bad))
    session(replied("1.2.0", "", ProposedCall("write")))
    session(ToolReturned(effect("1.2.1"), "ok"))
    session(replied("1.3.0", malformed=bad))

    (again,) = session(replied("1.4.0", malformed=bad))

    assert isinstance(again, CallModel)
    assert session.state.spent.repairs == 2


def test_arguments_that_are_no_object_go_back_with_name_and_reason() -> None:
    session = Session(engine_with(WRITE))
    session(UserSpoke("Go"))

    session(replied("1.1.0", "", ProposedCall("write", "[1]")))

    reason = "the arguments of 'write' are no JSON object"
    note = f"This tool call could not be read: {reason}\nwrite [1]\nSend it again, well-formed."
    assert UserMessage("m3", note, "engine") == session.state.history[-1]


def test_what_had_arrived_of_an_interrupted_reply_is_kept() -> None:
    session = Session(engine_with())
    session(UserSpoke("Go"))

    session(ModelInterrupted(effect("1.1.0"), "Once upon"))

    assert session.state.history[-1] == AssistantMessage("m2", "Once upon", interrupted=True)


@pytest.mark.parametrize(
    ("answer", "note"),
    [
        (HookReturned(FIRST, "go_on"), "Go on."),
        (HookReturned(FIRST, "go_on", "Tests fail."), "Tests fail."),
        (HookReturned(FIRST, "go_on", context="See log."), "See log."),
    ],
)
def test_a_hook_that_asks_to_go_on_is_heard_with_or_without_a_reason(answer: HookReturned, note: str) -> None:
    session = Session(engine_with(hooks=("stop",)))
    session(UserSpoke("Go"))
    session(replied("1.1.0", "Done."))

    session(answer)

    assert UserMessage("m3", note, "engine") == session.state.history[-1]


@pytest.mark.parametrize(("scale", "needed"), [(1.0, 1024), (2.0, 2048)])
def test_a_turn_that_does_not_fit_says_how_much_it_needs(scale: float, needed: int) -> None:
    session = Session(engine_with(context_tokens=200, options=GenerationOptions(max_tokens=100), edition=1))
    session.state = evolve(session.state, window=Window(scale=scale))

    (end,) = session(UserSpoke("x" * 3000))

    message = (
        f"this turn needs about {needed} tokens and the prompt may have 100; "
        "ask for less at once, or use a model with a longer context"
    )
    assert TurnFinished(Failed("context_overflow", message), Usage()) == end
