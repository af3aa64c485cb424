"""One call with its hooks, approvals and rules, and workers beside each other: what runs, when, and what is counted."""

from __future__ import annotations

from typing import Any

import pytest

from cognition import (
    ApprovalGiven,
    ApprovalRefused,
    AskApproval,
    CallModel,
    CallTool,
    HookReturned,
    Limits,
    MalformedToolCall,
    Policy,
    ProposedCall,
    Remember,
    Rule,
    SpawnWorker,
    TasksChanged,
    ToolCall,
    ToolReturned,
    ToolSpec,
    Usage,
    UserMessage,
    UserSpoke,
    WorkerFinished,
)
from cognition.parsing import HERMES, parse_reply
from cognition.steps.phases import Acting, Settled
from tests.cognition.session import DELETE, MULTIPLY, WRITE, Session, effect, engine_with, replied
from tests.cognition.test_results import FEATURES, FIRST, WORKER, calling

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
    [
        ("[]", "the arguments of 'write' are no JSON object"),
        ('{"n": ' * 100_000, ""),
        ('{"n": "\\ud800"}', "they hold half a character"),
    ],
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


@pytest.mark.parametrize("allowed", [(), (Rule("allow", "write"),)])
def test_a_call_that_ran_ends_a_row_of_refusals(allowed: tuple[Rule, ...]) -> None:
    config = {"limits": Limits(refusals=2), "policy": Policy((Rule("deny", "delete"), *allowed))}

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


@pytest.mark.behaviour("P13a")
def test_of_a_reply_that_was_cut_the_whole_calls_run_and_the_cut_one_is_told() -> None:
    """At the token limit: what was written is carried out, and before its next reply the model learns what was not."""
    raw = '<tool_call>{"name": "write", "arguments": {}}</tool_call><tool_call>{"name": "write", "argum'
    reply = parse_reply(HERMES, raw, finish_reason="length")
    session = Session(engine_with(WRITE))
    session(UserSpoke("Go"))
    (run,) = session(replied("1.1.0", "", *reply.tool_calls, malformed=reply.malformed, finish_reason="length"))
    session(ToolReturned(FIRST, "ok"))
    note = session.state.history[-1]

    assert isinstance(run, CallTool)
    assert isinstance(note, UserMessage)
    assert "the reply reached the token limit inside the call" in note.text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"a": 1, "a": 2}', "the key 'a' is given twice"),
        ('{"a": {"b": 1, "b": 1}}', "the key 'b' is given twice"),
        ('{"a": NaN}', "NaN is no JSON number"),
        ('{"a": -Infinity}', "-Infinity is no JSON number"),
    ],
)
@pytest.mark.behaviour("P13d")
def test_a_call_that_gives_a_key_twice_is_told_whoever_proposed_it(text: str, told: str) -> None:
    """Which value counts differs from reader to reader; what is no JSON number is none."""
    session = Session(engine_with(WRITE))
    session(UserSpoke("Go"))
    (*_, again) = session(replied("1.1.0", "", ProposedCall("write", text)))

    assert isinstance(again, CallModel)
    assert again.purpose == "repair"
    note = again.request.messages[-1]
    assert isinstance(note, UserMessage)
    assert told in note.text


def test_a_refusal_from_now_on_keeps_its_reason() -> None:
    session = calling({}, ProposedCall("delete"), ProposedCall("delete", {"n": 2}))

    session(ApprovalRefused(FIRST, "never", always=True))

    assert session.state.remembered == (Rule("deny", "delete", "never"),)
    assert session.results == [
        ("Error: the user refused this call: never", "refused"),
        ("Error: this call is not permitted: never", "refused"),
    ]


def test_what_was_refused_from_now_on_does_not_run_where_it_was_asked_about_before() -> None:
    """Calls that only read are asked about together; who forbids the one and approves the other has forbidden both."""
    peek = ToolSpec("peek", read_only=True, approval=True)
    session = calling({}, ProposedCall("peek"), ProposedCall("peek", {"n": 2}), tools=(peek,))

    session(ApprovalRefused(FIRST, "never", always=True))
    (*_, again) = session(ApprovalGiven(effect("1.1.2")))

    assert isinstance(again, CallModel)
    assert session.results == [
        ("Error: the user refused this call: never", "refused"),
        ("Error: this call is not permitted any more: never", "refused"),
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
    assert spawn.limits == Limits(tool_calls=1, workers=1, cost=0.25, input_tokens=1, output_tokens=1)


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_workers_of_one_reply_count_one_by_one(limit: int) -> None:
    session = calling({"features": ("workers",), "limits": Limits(workers=limit)}, *(worker(name) for name in "abcd"))
    for number in range(1, limit + 1):
        session(WorkerFinished(effect(f"1.1.{number}"), "found"))

    refused = (f"Not run: the limit of {limit} workers is reached.", "error")
    assert [("found", "ok")] * limit + [refused] * (4 - limit) == session.results


@pytest.mark.behaviour("B23")
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

    assert remember == Remember("6")


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
