"""What the model reads: the text and status of each result that the engine itself writes, and the notes beside them."""

from __future__ import annotations

from typing import Any

import pytest

from cognition import (
    ApprovalGiven,
    ApprovalRefused,
    AskApproval,
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
    Policy,
    ProposedCall,
    QuestionAnswered,
    Rejected,
    Remember,
    Rule,
    SessionReset,
    ShutdownAsked,
    SpawnWorker,
    TasksChanged,
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
from cognition.handlers.answers import APPROVED
from cognition.handlers.engine_calls import PLANNING
from cognition.handlers.model import NUDGE_NOTE
from cognition.phases import Acting, Settled
from tests.cognition.session import DELETE, MULTIPLY, WRITE, Session, effect, engine_with, replied

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
        (ProposedCall("delete"), CancelAsked(), ("The call was cancelled.", "cancelled")),
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

    assert UserMessage("m2", "From your notes:\ntea\nat 5", "engine") == session.state.history[-1]


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

    assert AssistantMessage("m2", '{"t": "inside", "f": "Done."}', "beside\ninside") == session.state.history[-1]


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
    assert AssistantMessage("m2", "Well.", "Hmm.") == native.state.history[1]

    textual = Session(engine_with(WRITE, protocol="short_keys"))
    textual(UserSpoke("Go"))
    textual(replied("1.1.0", '{"a": "write", "i": 5}'))
    reason = "the input of 'write' must be a JSON object, not int"
    note = f"Your reply could not be read: {reason}. Reply again in the agreed form."
    assert [UserMessage("m1", "Go"), UserMessage("m2", note, "engine")] == list(textual.state.history)


def test_what_had_arrived_of_an_interrupted_reply_is_kept() -> None:
    session = Session(engine_with())
    session(UserSpoke("Go"))

    session(ModelInterrupted(effect("1.1.0"), "Once upon"))

    assert AssistantMessage("m2", "Once upon", interrupted=True) == session.state.history[-1]


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


def test_a_turn_that_does_not_fit_says_how_much_it_needs() -> None:
    session = Session(engine_with(context_tokens=200, options=GenerationOptions(max_tokens=100)))

    (end,) = session(UserSpoke("x" * 3000))

    message = (
        "this turn needs about 1024 tokens and the prompt may have 100; "
        "ask for less at once, or use a model with a longer context"
    )
    assert TurnFinished(Failed("context_overflow", message), Usage()) == end


# ----------------------------------------------------------------------------------------------------- around one call


def test_what_hooks_say_before_and_after_a_call_stands_under_its_result() -> None:
    session = calling({"hooks": ("before_tool", "after_tool")}, ProposedCall("write"))
    session(HookReturned(FIRST, context="Only in tmp."))
    session(ToolReturned(effect("1.1.2"), "ok"))

    session(HookReturned(effect("1.1.3"), context="One file."))

    assert session.results == [("ok\nOnly in tmp.\nOne file.", "ok")]


def test_what_a_hook_said_is_read_although_the_user_refused() -> None:
    session = calling({"hooks": ("before_tool",)}, ProposedCall("delete"))
    session(HookReturned(FIRST, context="It is the last copy."))

    session(ApprovalRefused(effect("1.1.2"), "keep it"))

    assert session.results == [("Error: the user refused this call: keep it\nIt is the last copy.", "refused")]


@pytest.mark.parametrize("changed", [None, '{"n": 2}'])
def test_a_model_that_wants_the_user_asked_is_heard_behind_a_hook_too(changed: str | None) -> None:
    session = calling({"hooks": ("before_tool",)}, ProposedCall("write", {"n": 1}, confirm=True))

    (ask,) = session(HookReturned(FIRST, arguments_json=changed))

    assert AskApproval(effect("1.1.2"), ToolCall("call-1-1-1", "write", changed or {"n": 1})) == ask


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [("[]", "the arguments of 'write' are no JSON object"), ('{"n": ' * 100_000, "")],
)
def test_a_hook_that_spoils_the_arguments_is_an_error_that_the_model_reads(arguments: str, problem: str) -> None:
    session = calling({"hooks": ("before_tool",)}, ProposedCall("write"))

    session(HookReturned(FIRST, arguments_json=arguments))

    ((content, status),) = session.results
    assert content.startswith(f"Error: a hook gave unusable arguments: {problem}")
    assert status == "error"


def test_what_the_engine_does_within_the_conversation_asks_nobody() -> None:
    """A policy that asks about everything asks about notes, which outlive the conversation, and not about tasks."""
    config = {"features": FEATURES, "policy": Policy(default="ask")}
    session = calling(config, ProposedCall("update_tasks", {"tasks": []}), ProposedCall("remember", {"text": "tea"}))

    assert [TasksChanged, AskApproval] == [type(decision) for decision in session.decisions]


def test_a_call_that_ran_ends_a_row_of_refusals() -> None:
    config = {"limits": Limits(refusals=2), "policy": Policy((Rule("deny", "delete"),))}

    session = calling(config, ProposedCall("delete"), ProposedCall("write"), ProposedCall("delete", {"n": 2}))
    (again, *_) = session(ToolReturned(FIRST, "ok"))[-1:]

    assert isinstance(again, CallModel)
    assert again.purpose == "answer"
    assert session.state.spent.refusals == 1


def test_a_model_that_is_to_mend_a_call_beside_others_is_asked_for_that() -> None:
    for malformed, purpose in (((MalformedToolCall("{", "cut"),), "repair"), ((), "answer")):
        session = Session(engine_with(WRITE))
        session(UserSpoke("Go"))
        session(replied("1.1.0", "", ProposedCall("write"), malformed=malformed))

        (again,) = session(ToolReturned(FIRST, "ok"))

        assert isinstance(again, CallModel)
        assert purpose == again.purpose


def test_a_refusal_from_now_on_keeps_its_reason() -> None:
    session = calling({}, ProposedCall("delete"), ProposedCall("delete", {"n": 2}))

    session(ApprovalRefused(FIRST, "never", always=True))

    assert (Rule("deny", "delete", "never"),) == session.state.remembered
    assert session.results == [
        ("Error: the user refused this call: never", "refused"),
        ("Error: this call is not permitted: never", "refused"),
    ]


# ------------------------------------------------------------------------------------------------------------- workers


def worker(name: Any, **more: Any) -> ProposedCall:
    return ProposedCall("spawn_worker", {"name": name, "objective": "x", **more})


def test_a_worker_always_has_something_left_to_work_with() -> None:
    """The last of a budget may be gone; a limit of nothing can't be built."""
    limits = Limits(tool_calls=1, workers=1, cost=1.0, input_tokens=10, output_tokens=10)
    session = Session(engine_with(features=("workers",), limits=limits))
    session(UserSpoke("Go"))

    (spawn,) = session(replied("1.1.0", "", WORKER, usage=Usage(9, 9, cost=0.75)))

    assert isinstance(spawn, SpawnWorker)
    assert Limits(tool_calls=1, workers=1, cost=0.25, input_tokens=1, output_tokens=1) == spawn.limits


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_workers_of_one_reply_count_one_by_one(limit: int) -> None:
    session = calling({"features": ("workers",), "limits": Limits(workers=limit)}, *(worker(name) for name in "abcd"))
    for number in range(1, limit + 1):
        session(WorkerFinished(effect(f"1.1.{number}"), "found"))

    refused = (f"Not run: the limit of {limit} workers is reached.", "error")
    assert [("found", "ok")] * limit + [refused] * (4 - limit) == session.results


def test_a_worker_may_only_have_tools_of_its_parent() -> None:
    for tools, may in (((WRITE, DELETE), "write, delete"), ((), "no tools")):
        session = calling({"features": ("workers",)}, worker("a", tools=["rm", "write", "dd"]), tools=tools)

        wanted = "rm, dd" if tools else "rm, write, dd"
        assert [(f"Error: a worker can't have {wanted}; it may have {may}", "error")] == session.results


def test_two_workers_that_were_asked_about_count_when_they_start() -> None:
    confirmed = [ProposedCall("spawn_worker", {"name": n, "objective": "x"}, confirm=True) for n in "ab"]
    session = calling({"features": ("workers",), "limits": Limits(workers=1)}, *confirmed)

    (spawn,) = session(ApprovalGiven(effect("1.1.2")))
    session(ApprovalGiven(effect("1.1.1")))
    session(WorkerFinished(effect("1.1.3"), "B"))

    assert isinstance(spawn, SpawnWorker)
    assert spawn.worker.name == "b"
    assert session.results == [("Not run: the limit of 1 workers is reached.", "error"), ("B", "ok")]


def test_a_note_is_saved_in_its_turn_and_not_beside_what_still_runs() -> None:
    """Of the engine's own tools only workers run beside others without being read-only (law L4)."""
    session = calling(
        {"features": ("memory",)}, ProposedCall("multiply"), ProposedCall("remember", {"text": "6"}), tools=(MULTIPLY,)
    )
    assert (CallTool(FIRST, ToolCall("call-1-1-1", "multiply")),) == session.decisions

    remember, *_ = session(ToolReturned(FIRST, "6"))

    assert Remember("6") == remember


def test_a_worker_that_needs_nobody_starts_although_one_before_it_waits() -> None:
    session = calling({"features": ("workers",)}, worker("a"), worker("b", after=["a"]), worker("c"))

    assert [spawn.worker.name for spawn in session.decisions if isinstance(spawn, SpawnWorker)] == ["a", "c"]


def test_a_programs_own_tool_may_be_named_like_a_workers_and_is_none() -> None:
    tools = (ToolSpec("spawn_worker"),)
    session = calling({"hooks": ("worker_stop",)}, worker("a"), worker("b"), tools=tools)
    assert len(session.decisions) == 1

    session(ToolReturned(FIRST, "ok"))
    session(ToolReturned(effect("1.1.2"), "ok"))

    assert session.results == [("ok", "ok"), ("ok", "ok")]


def test_workers_that_a_hook_looked_at_count_when_they_start() -> None:
    config = {"features": ("workers",), "limits": Limits(workers=1), "hooks": ("before_tool",)}
    session = calling(config, worker("a"), worker("b"))

    session(HookReturned(FIRST))
    session(HookReturned(effect("1.1.2")))
    session(WorkerFinished(effect("1.1.3"), "A"))

    assert session.results == [("A", "ok"), ("Not run: the limit of 1 workers is reached.", "error")]


def test_a_worker_whose_needs_can_not_be_read_is_settled_while_others_work() -> None:
    session = calling({"features": ("workers",)}, worker("a"), worker("b", after="a"))

    phase = session.state.phase
    assert isinstance(phase, Acting)
    assert isinstance(phase.slots[1].status, Settled)


@pytest.mark.parametrize("name", [["a"], {"a": 1}, 5, None])
def test_a_worker_with_an_unreadable_name_disturbs_no_other(name: object) -> None:
    session = calling({"features": ("workers",)}, worker(name), worker("b"), worker("c", after=["b"]))
    session(WorkerFinished(FIRST, "B"))
    session(WorkerFinished(effect("1.1.2"), "C"))

    assert session.results[0][0] == "Error: 'name' must be a text that is not empty"
    assert session.results[1:] == [("B", "ok"), ("C", "ok")]
