"""A call that failed in a way that may pass is run again, as its tool's plan says; else nothing runs twice."""

from __future__ import annotations

from typing import Any

import pytest

from cognition import (
    RETRY_PLAN,
    Acting,
    ApprovalGiven,
    ApprovalRefused,
    AskApproval,
    CallJudged,
    CallModel,
    CallTool,
    CancelAsked,
    CancelEffect,
    ConfigError,
    HookReturned,
    Idle,
    Input,
    LimitHit,
    LimitReached,
    Limits,
    ModeChanged,
    Policy,
    ProposedCall,
    RetryPlanned,
    Rule,
    RunHook,
    SessionReset,
    ShutdownAsked,
    StartTimer,
    TimerFired,
    ToolCall,
    ToolFailed,
    ToolMessage,
    ToolReturned,
    ToolSpec,
    TurnFinished,
    Usage,
    UserSpoke,
    WorkerFinished,
    fold,
    from_data,
    to_data,
)
from cognition.steps.phases import Retrying
from cognition.steps.state import AgentState
from tests.cognition.session import Session, calling, effect, engine_with, worker
from tests.cognition.told import HAD_FAILED, READING_HAD_FAILED

FETCH = ToolSpec("fetch", read_only=True, retries=RETRY_PLAN)
PUT = ToolSpec("put", idempotent=True, retries=(1.0, 4.0))
ASKED = ToolSpec("asked", idempotent=True, approval=True, retries=(1.0, 4.0))
PAY = ToolSpec("pay")


def session_with(*calls: str, **config: Any) -> Session:
    """A session in whose first turn these tools were called."""
    session = Session(engine_with(FETCH, PUT, ASKED, PAY, **config))
    calling(session, *(ProposedCall(name) for name in calls))
    return session


def failed(effect_id: str, message: str = "connection reset", at: float = 0.0) -> ToolFailed:
    return ToolFailed(effect(effect_id), message, transient=True, at=at)


def fired(effect_id: str, at: float = 0.0) -> TimerFired:
    return TimerFired(effect(effect_id), at=at)


def test_a_failure_that_may_pass_is_waited_out_and_the_call_runs_again_under_an_id_of_its_own() -> None:
    session = session_with("fetch")

    planned, timer = session(failed("1.1.1"))
    (again,) = session(fired("1.1.2"))
    session(ToolReturned(effect("1.1.3"), "391"))

    assert planned == RetryPlanned("transient", "connection reset", 2, 2.0, "call-1-1-1")
    assert timer == StartTimer(effect("1.1.2"), 2.0)
    assert isinstance(again, CallTool)
    assert (again.effect_id, again.call.id, again.call.name) == ("1.1.3", "call-1-1-1", "fetch")
    assert session.results == [("391", "ok")]


def test_after_the_last_attempt_the_result_says_how_often_it_was_tried() -> None:
    session = session_with("fetch")
    waits = []
    for number in (1, 3, 5):
        _, timer = session(failed(f"1.1.{number}", f"reset {number}"))
        assert isinstance(timer, StartTimer)
        waits.append(timer.seconds)
        session(fired(f"1.1.{number + 1}"))

    (asked,) = session(failed("1.1.7", "refused"))

    assert tuple(waits) == RETRY_PLAN == (2.0, 6.0, 18.0)
    assert session.results == [("Error: refused (tried 4 times)", "error")]
    assert isinstance(asked, CallModel)
    assert session.state.spent.tool_calls == 4


@pytest.mark.parametrize(
    ("tool", "event"),
    [
        ("fetch", ToolFailed(effect("1.1.1"), "no such page")),
        ("pay", failed("1.1.1")),
    ],
)
def test_what_does_not_pass_and_tools_without_a_plan_are_not_tried_again(tool: str, event: ToolFailed) -> None:
    session = session_with(tool)

    (asked,) = session(event)

    assert isinstance(asked, CallModel)
    assert session.results == [(f"Error: {event.message}", "error")]


def test_a_lasting_failure_of_a_further_attempt_ends_the_trying() -> None:
    session = session_with("put")
    session(failed("1.1.1"))
    session(fired("1.1.2"))

    session(ToolFailed(effect("1.1.3"), "it is gone"))

    assert session.results == [("Error: it is gone (tried 2 times)", "error")]


def test_calls_behind_it_wait_and_those_beside_it_do_not() -> None:
    session = session_with("fetch", "fetch", "put")

    session(failed("1.1.1"))
    assert session(ToolReturned(effect("1.1.2"), "second")) == ()
    session(fired("1.1.3"))
    (third,) = session(ToolReturned(effect("1.1.4"), "first"))
    assert isinstance(third, CallTool)
    session(ToolReturned(third.effect_id, "third"))

    assert [content for content, _ in session.results] == ["first", "second", "third"]


def test_two_calls_that_wait_are_told_apart_by_their_timers() -> None:
    session = session_with("fetch", "fetch")
    session(failed("1.1.1"))
    session(failed("1.1.2"))

    (second,) = session(fired("1.1.4"))
    (first,) = session(fired("1.1.3"))

    assert isinstance(second, CallTool)
    assert isinstance(first, CallTool)
    assert (second.call.id, first.call.id) == ("call-1-1-2", "call-1-1-1")
    assert [type(decision).__name__ for decision in session(fired("1.1.3"))] == ["Rejected"]


def test_the_user_is_asked_once_and_hooks_run_once() -> None:
    """Before the first attempt and after the last: the call is the same one."""
    session = session_with("asked", hooks=("before_tool", "after_tool"))
    (question,) = session(HookReturned(effect("1.1.1"), arguments_json='{"n": 3}'))
    assert isinstance(question, AskApproval)
    session(ApprovalGiven(question.effect_id))
    session(failed("1.1.3"))
    (again,) = session(fired("1.1.4"))
    (after,) = session(ToolReturned(effect("1.1.5"), "done"))

    assert isinstance(again, CallTool)
    assert again.call == question.call
    assert again.call.arguments == {"n": 3}
    assert isinstance(after, RunHook)
    assert (after.point, after.text) == ("after_tool", "done")


@pytest.mark.parametrize(
    ("meanwhile", "expected"),
    [
        (ModeChanged("plan"), "only read-only tools run while planning"),
        (ModeChanged("careful"), None),
    ],
)
def test_policy_judges_before_each_attempt(meanwhile: Input, expected: str | None) -> None:
    """A mode that was set meanwhile may forbid the call, or have the user asked who was not."""
    session = session_with("put")
    session(failed("1.1.1"))
    session(meanwhile)

    *judged, decision = session(fired("1.1.2"))

    assert judged == ([] if expected is None else [CallJudged("call-1-1-1", "deny", "", expected)])
    if expected is None:
        assert isinstance(decision, AskApproval)
        session(ApprovalRefused(decision.effect_id, "stop it"))
        said = "the user refused this call: stop it"
    else:
        said = f"this call is not permitted: {expected}"
    assert session.results == [(f"Error: {said} (before, it failed once)", "refused")]
    assert session.state.spent.refusals == 1


def test_who_agrees_when_asked_before_a_further_attempt_is_not_asked_again() -> None:
    session = session_with("put")
    session(failed("1.1.1"))
    session(ModeChanged("careful"))
    (question,) = session(fired("1.1.2"))
    assert isinstance(question, AskApproval)
    (second,) = session(ApprovalGiven(question.effect_id))
    assert isinstance(second, CallTool)
    _, timer = session(ToolFailed(second.effect_id, "reset", transient=True))
    assert isinstance(timer, StartTimer)
    assert timer.seconds == 4.0

    (third,) = session(TimerFired(timer.effect_id))

    assert isinstance(third, CallTool)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ('{"n": 2}', None),
        ("{", "Error: the user gave unusable arguments, and nothing ran: "),
    ],
)
def test_who_is_asked_before_a_further_attempt_may_edit_the_call(given: str, expected: str | None) -> None:
    """It is the call that was edited which is tried again from then on."""
    session = session_with("put")
    session(failed("1.1.1"))
    session(ModeChanged("careful"))
    (question,) = session(fired("1.1.2"))
    assert isinstance(question, AskApproval)

    (decision, *_) = session(ApprovalGiven(question.effect_id, arguments_json=given))

    if expected is not None:
        ((content, status),) = session.results
        assert content.startswith(expected)
        assert content.endswith(" (before, it failed once)")
        assert status == "error"
        return
    assert isinstance(decision, CallTool)
    assert decision.call.arguments_json == given
    _, timer = session(ToolFailed(decision.effect_id, "reset", transient=True))
    (again,) = session(fired(timer.effect_id))
    assert isinstance(again, CallTool)
    assert again.call == decision.call
    session(ToolReturned(again.effect_id, "put"))
    assert session.results == [(f"put\nThe user changed the arguments of this call to {given}", "ok")]


def test_a_rule_that_lets_a_call_run_is_told_of_each_attempt_and_the_user_s_own_word_is_not() -> None:
    ruled = session_with("put", policy=Policy((Rule("allow", "put"),)))
    ruled(failed("1.1.1"))
    assert [type(decision) for decision in ruled(fired("1.1.2"))] == [CallJudged, CallTool]

    asked = session_with("asked")
    asked(ApprovalGiven(effect("1.1.1"), always=True))
    asked(failed("1.1.2"))
    assert [type(decision) for decision in asked(fired("1.1.3"))] == [CallTool]


def test_an_engine_of_ones_own_that_asks_is_heard_before_a_further_attempt_and_asks_once() -> None:
    from cognition import AgentConfig, LLMEngine

    class Wary(LLMEngine):
        def requires_approval(self, call: ToolCall, state: AgentState | None = None) -> bool:
            return True

    session = Session(Wary(AgentConfig(tools=(PUT,))))
    (question,) = calling(session, ProposedCall("put"))
    assert isinstance(question, AskApproval)
    session(ApprovalGiven(question.effect_id))
    session(failed("1.1.2"))

    (again,) = session(fired("1.1.3"))

    assert isinstance(again, CallTool)


@pytest.mark.parametrize(
    ("tool", "event", "told"),
    [
        ("fetch", CancelAsked(), READING_HAD_FAILED),
        ("put", CancelAsked(), HAD_FAILED),
        ("put", ShutdownAsked(), HAD_FAILED),
    ],
)
def test_a_call_that_waits_is_cancelled_with_its_turn(tool: str, event: Input, told: str) -> None:
    session = session_with(tool)
    session(failed("1.1.1"))

    decisions = session(event)

    assert decisions[0] == CancelEffect(effect("1.1.2"))
    assert session.results == [(told, "cancelled")]


def test_a_further_attempt_that_had_not_begun_is_not_said_never_to_have_run() -> None:
    session = session_with("put")
    session(failed("1.1.1"))
    session(fired("1.1.2"))

    session(CancelAsked(not_begun=(effect("1.1.3"),)))

    assert session.results == [(HAD_FAILED, "cancelled")]


def test_a_reset_gives_it_up() -> None:
    session = session_with("put")
    session(failed("1.1.1"))

    decisions = session(SessionReset())

    assert decisions[0] == CancelEffect(effect("1.1.2"))
    assert isinstance(session.state.phase, Idle)


def test_each_attempt_counts_as_a_call_and_without_room_for_one_none_is_planned() -> None:
    session = session_with("put", limits=Limits(tool_calls=2))
    session(failed("1.1.1"))
    session(fired("1.1.2"))

    (asked,) = session(failed("1.1.3"))

    assert isinstance(asked, CallModel)
    assert session.results == [("Error: connection reset (tried 2 times)", "error")]


def test_a_limit_that_is_met_while_it_waits_leaves_it_with_its_failure() -> None:
    session = session_with("fetch", "fetch", limits=Limits(tool_calls=3))
    session(failed("1.1.1"))
    session(failed("1.1.2"))
    session(fired("1.1.4"))

    assert session(fired("1.1.3")) == ()
    session(ToolReturned(effect("1.1.5"), "second"))

    assert session.results == [("Error: connection reset", "error"), ("second", "ok")]


def test_the_turns_time_goes_on_while_it_waits() -> None:
    """A wait that would take all that is left is not begun; one in which the time runs out ends the turn."""
    limits = Limits(seconds=10.0)
    session = session_with("fetch", limits=limits)
    session(failed("1.1.1", at=3.0))
    session(fired("1.1.2", at=5.0))

    (asked,) = session(failed("1.1.3", at=5.0))

    assert isinstance(asked, CallModel)  # 6 seconds to wait, and 5 are left
    assert session.results == [("Error: connection reset (tried 2 times)", "error")]

    late = session_with("fetch", limits=limits)
    late(failed("1.1.1"))
    hit, end = late(fired("1.1.2", at=10.0))
    assert isinstance(hit, LimitHit)
    assert end == TurnFinished(LimitReached("seconds"), Usage())
    assert late.results == [("Error: connection reset", "error")]


def test_a_wait_of_exactly_what_is_left_is_not_begun() -> None:
    session = session_with("fetch", limits=Limits(seconds=10.0))

    (asked,) = session(failed("1.1.1", at=8.0))

    assert isinstance(asked, CallModel)


def test_no_call_is_run_again_once_a_limit_has_ended_the_calls_of_its_reply() -> None:
    """The second call is not run for want of budget; the first one would have been tried again."""
    tools = (ToolSpec("fetch", read_only=True, retries=(2.0,)), ToolSpec("look", read_only=True))
    session = Session(engine_with(*tools, limits=Limits(tool_calls=1)))
    calling(session, ProposedCall("fetch"), ProposedCall("look"))

    session(failed("1.1.1"))

    assert session.results == [
        ("Error: connection reset", "error"),
        ("Not run: the limit of 1 tool calls is reached.", "error"),
    ]


def test_a_person_who_is_asked_beside_it_does_not_stop_the_time() -> None:
    """Something goes on: the timer."""
    tools = (FETCH, ToolSpec("peek", read_only=True, approval=True))
    session = Session(engine_with(*tools))
    calling(session, ProposedCall("fetch"), ProposedCall("peek"))

    session(failed("1.1.1", at=1.0))

    assert isinstance(session.state.phase, Acting)
    assert session.state.phase.asked_at is None


def test_a_rule_that_was_remembered_meanwhile_forbids_it() -> None:
    tools = (FETCH, ToolSpec("fetch_more", read_only=True, approval=True, retries=(1.0,)))
    session = Session(engine_with(*tools))
    calling(session, ProposedCall("fetch_more"), ProposedCall("fetch_more"))
    session(ApprovalGiven(effect("1.1.1")))
    session(failed("1.1.3"))
    session(ApprovalRefused(effect("1.1.2"), "enough", always=True))

    session(fired("1.1.4"))

    assert [status for _, status in session.results] == ["refused", "refused"]
    assert session.results[0][0].endswith("(before, it failed once)")


def test_a_state_that_waits_comes_back_from_its_recording_and_goes_on() -> None:
    session = session_with("put")
    session(failed("1.1.1"))

    stored = from_data(to_data(session.state), AgentState)

    assert stored == session.state
    assert isinstance(stored.phase, Acting)
    assert stored.phase.slots[0].status == Retrying(effect("1.1.2"), "connection reset")
    step = session.engine.step
    assert step(stored, fired("1.1.2")) == step(session.state, fired("1.1.2"))


def test_the_same_inputs_lead_to_the_same_attempts() -> None:
    session = session_with("put")
    events = [failed("1.1.1"), fired("1.1.2"), failed("1.1.3"), fired("1.1.4"), ToolReturned(effect("1.1.5"), "ok")]
    begun = session.state
    for event in events:
        session(event)

    assert fold(session.engine, events, begun) == session.state
    assert session.results == [("ok", "ok")]


def test_without_a_plan_the_policys_word_stands_as_before() -> None:
    session = session_with("asked", policy=Policy(default="deny"))

    assert session.results == [("Error: this call is not permitted", "refused")]


# ------------------------------------------------------------------------------------------------ what a tool may say


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        (
            {"retries": (1.0,)},
            "may do more than once; say read_only=True or idempotent=True if that is so, or leave retries out",
        ),
        ({"read_only": True, "retries": (-1.0,)}, r"retries are seconds from 0 on, not \(-1.0,\)"),
        ({"read_only": True, "retries": (float("inf"),)}, "retries are seconds from 0 on"),
        ({"read_only": True, "retries": (float("nan"),)}, "retries are seconds from 0 on"),
        ({"timeout": 0.0}, "timeout must be above 0 seconds, not 0.0"),
        ({"timeout": float("nan")}, "timeout must be above 0 seconds"),
        ({"timeout": float("inf")}, "timeout must be above 0 seconds"),
        ({"output_limit": 0}, "output_limit must be above 0 characters, not 0"),
        ({"parallel": "yes"}, "parallel"),
    ],
)
def test_a_specification_that_says_what_can_not_be_is_refused(said: dict[str, Any], wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong):
        ToolSpec("x", **said)


def test_retries_of_nothing_are_at_once_and_either_word_will_do() -> None:
    assert ToolSpec("x", read_only=True, retries=(0.0,)).repeatable
    assert ToolSpec("x", idempotent=True, retries=(0.0,)).repeatable
    assert not ToolSpec("x").repeatable
    assert ToolSpec("x", output_limit=1).output_limit == 1


@pytest.mark.parametrize(
    ("spec", "beside"),
    [
        (ToolSpec("x"), False),
        (ToolSpec("x", read_only=True), True),
        (ToolSpec("x", parallel=True), True),
        (ToolSpec("x", read_only=True, parallel=False), False),
    ],
)
def test_what_may_run_beside_its_neighbours_is_what_says_so_or_only_reads(spec: ToolSpec, beside: bool) -> None:
    session = Session(engine_with(spec))

    begun = calling(session, ProposedCall("x"), ProposedCall("x"))

    assert spec.runs_beside is beside
    assert len(begun) == 1 + beside


def test_a_call_runs_beside_another_only_where_both_may() -> None:
    session = Session(engine_with(ToolSpec("alone", read_only=True, parallel=False), ToolSpec("look", read_only=True)))

    begun = calling(session, ProposedCall("look"), ProposedCall("alone"), ProposedCall("look"))

    assert len(begun) == 1


def test_a_result_is_cut_at_its_tools_own_limit_and_what_a_hook_says_with_it_is_not() -> None:
    session = Session(engine_with(ToolSpec("say", output_limit=40), hooks=("after_tool",)))
    calling(session, ProposedCall("say"))
    session(ToolReturned(effect("1.1.1"), "0123456789" * 9))
    session(HookReturned(effect("1.1.2"), context="from the program"))

    head = "0123456789" * 3
    assert session.results == [(f"{head}\n[... 50 characters left out ...]\n0123456789\nfrom the program", "ok")]


def test_a_tools_limit_is_never_above_the_sessions_own() -> None:
    session = Session(engine_with(ToolSpec("say", output_limit=10**6), context_tokens=600))
    calling(session, ProposedCall("say"))

    session(ToolReturned(effect("1.1.1"), "x" * 5000))

    ((content, _),) = session.results
    assert len(content) < 300
    assert "characters left out" in content


def test_what_a_tool_says_of_these_comes_back_from_a_recording() -> None:
    spec = ToolSpec("x", idempotent=True, parallel=True, timeout=5.0, retries=RETRY_PLAN, output_limit=100)

    assert from_data(to_data(spec), ToolSpec) == spec


def test_a_new_turn_begins_with_no_failures() -> None:
    session = session_with("fetch")
    session(failed("1.1.1"))
    session(CancelAsked())
    session(UserSpoke("Again"))

    assert isinstance(session.decisions[-1], CallModel)


def test_while_the_user_is_asked_before_a_further_attempt_the_turns_time_stands() -> None:
    session = session_with("put")
    session(failed("1.1.1", at=1.0))
    session(ModeChanged("careful", at=2.0))

    session(fired("1.1.2", at=3.0))

    assert isinstance(session.state.phase, Acting)
    assert session.state.phase.asked_at == 3.0


def test_a_call_of_a_tool_that_is_there_no_longer_ends_with_its_failure() -> None:
    """A state may be gone on with by an agent of other tools."""
    session = session_with("put")

    state = engine_with().step(session.state, failed("1.1.1")).next_state

    assert [m.content for m in state.history if isinstance(m, ToolMessage)] == ["Error: connection reset"]


def test_a_call_is_run_again_though_no_worker_may_begin_any_more() -> None:
    """That limit is for calls that start workers."""
    session = Session(engine_with(PUT, features=("workers",), limits=Limits(workers=1)))
    calling(session, worker("a"), ProposedCall("put"))
    session(WorkerFinished(effect("1.1.1"), "A"))
    session(failed("1.1.2"))

    (again,) = session(fired("1.1.3"))

    assert again == CallTool(effect("1.1.4"), ToolCall("call-1-1-2", "put"))
