"""Hooks: the program looks at messages, calls, results and ends, and may change or refuse them."""

from __future__ import annotations

import pytest

from cognition import (
    ApprovalGiven,
    AskApproval,
    AssistantMessage,
    CallModel,
    CallTool,
    CancelAsked,
    CancelEffect,
    Cancelled,
    Completed,
    HookReturned,
    LimitHit,
    LimitReached,
    Limits,
    ProposedCall,
    RunHook,
    ToolCall,
    ToolReturned,
    TurnFinished,
    Usage,
    UserMessage,
    UserSpoke,
    WorkerFinished,
)
from tests.cognition.session import DELETE, WRITE, Session, calling, effect, engine_with, replied, worker


def test_hooks_before_a_turn_run_in_order_and_may_add_context() -> None:
    session = Session(engine_with(hooks=("user_message", "session_start")))

    (first,) = session(UserSpoke("Hello"))
    (second,) = session(HookReturned(effect("1.0.0"), context="It is Monday."))
    (ask,) = session(HookReturned(effect("1.0.1")))

    assert RunHook(effect("1.0.0"), "session_start", "Hello") == first
    assert RunHook(effect("1.0.1"), "user_message", "Hello") == second
    assert isinstance(ask, CallModel)
    assert list(ask.request.messages) == [UserMessage("m1", "Hello"), UserMessage("m2", "It is Monday.", "engine")]
    session(replied("1.1.0", "Hi."))
    (only,) = session(UserSpoke("Again"))
    assert RunHook(effect("2.0.0"), "user_message", "Again") == only


def test_a_hook_may_refuse_a_message() -> None:
    session = Session(engine_with(hooks=("user_message",)))
    session(UserSpoke("Hello"))

    (end,) = session(HookReturned(effect("1.0.0"), "refuse", "not now"))

    assert end == TurnFinished(Cancelled("a hook refused the message: not now"), Usage())


def test_a_turn_whose_time_ran_out_in_a_hook_ends_there() -> None:
    session = Session(engine_with(hooks=("user_message",), limits=Limits(seconds=5)))
    session(UserSpoke("Hello", at=1.0))

    hit, end = session(HookReturned(effect("1.0.0"), at=6.0))

    assert isinstance(hit, LimitHit)
    assert end == TurnFinished(LimitReached("seconds"), Usage())


@pytest.mark.behaviour("B11")
def test_arguments_that_a_hook_changed_are_judged_again() -> None:
    """Policy sees what will run, and the user approves that."""
    session = Session(engine_with(DELETE, hooks=("before_tool",)))
    (hook,) = calling(session, ProposedCall("delete", {"path": "/"}))
    assert RunHook(effect("1.1.1"), "before_tool", "", ToolCall("call-1-1-1", "delete", {"path": "/"})) == hook

    (ask,) = session(HookReturned(effect("1.1.1"), arguments_json='{"path": "tmp"}', context="Only tmp."))
    (run,) = session(ApprovalGiven(effect("1.1.2")))

    changed = ToolCall("call-1-1-1", "delete", '{"path": "tmp"}')
    assert AskApproval(effect("1.1.2"), changed, "the tool asks for approval") == ask
    assert CallTool(effect("1.1.3"), changed) == run
    session(ToolReturned(effect("1.1.3"), "gone"))
    assert session.results == [("gone\nOnly tmp.", "ok")]


def test_a_hook_may_refuse_a_call_or_spoil_it() -> None:
    for event, expected in (
        (HookReturned(effect("1.1.1"), "refuse", "no"), ("Error: a hook refused this call: no", "refused")),
        (HookReturned(effect("1.1.1"), arguments_json="["), None),
        (HookReturned(effect("1.1.1"), arguments_json="[]"), None),
        (HookReturned(effect("1.1.1"), arguments_json='{"path": "a", "path": "b"}'), None),
    ):
        session = Session(engine_with(WRITE, hooks=("before_tool",)))
        calling(session, ProposedCall("write"))

        (again,) = session(event)

        assert isinstance(again, CallModel)
        (result,) = session.results
        assert result == expected or result[0].startswith("Error: a hook gave unusable arguments")


def test_a_hook_after_a_call_may_add_to_its_result_or_withhold_it() -> None:
    for event, expected in (
        (HookReturned(effect("1.1.2"), context="Mind the gap."), ("ok\nMind the gap.", "ok")),
        (HookReturned(effect("1.1.2"), "refuse", "secret"), ("Error: a hook withheld the result: secret", "refused")),
    ):
        session = Session(engine_with(WRITE, hooks=("after_tool",)))
        calling(session, ProposedCall("write"))
        (hook,) = session(ToolReturned(effect("1.1.1"), "ok"))
        assert RunHook(effect("1.1.2"), "after_tool", "ok", ToolCall("call-1-1-1", "write")) == hook

        session(event)

        assert [expected] == session.results


def test_a_hook_sees_what_a_worker_found() -> None:
    session = Session(engine_with(features=("workers",), hooks=("worker_stop",)))
    calling(session, worker("a"))

    (hook,) = session(WorkerFinished(effect("1.1.1"), "A"))

    assert isinstance(hook, RunHook)
    assert (hook.point, hook.text) == ("worker_stop", "A")
    session(HookReturned(effect("1.1.2")))
    assert session.results == [("A", "ok")]


def test_a_hook_may_ask_a_turn_to_go_on_a_limited_number_of_times() -> None:
    session = Session(engine_with(hooks=("stop",), limits=Limits(hook_continuations=2)))
    session(UserSpoke("Work"))
    for step in (1, 2):
        (hook,) = session(replied(f"1.{step}.0", "Done."))
        assert RunHook(effect(f"1.{step}.1"), "stop", "Done.") == hook
        (ask,) = session(HookReturned(effect(f"1.{step}.1"), "go_on", "The tests fail.", context="See log."))
        assert isinstance(ask, CallModel)
        assert ask.request.messages[-1].text == "The tests fail.\nSee log."  # type: ignore[union-attr]  # a note
    session(replied("1.3.0", "Really done."))

    (end,) = session(HookReturned(effect("1.3.1"), "go_on", "Again!"))

    assert end == TurnFinished(Completed("Really done."), Usage())
    assert isinstance(session.state.history[-1], AssistantMessage)


def test_cancel_while_a_hook_runs() -> None:
    for hooks, name in ((("user_message",), "1.0.0"), (("stop",), "1.1.1")):
        session = Session(engine_with(hooks=hooks))
        session(UserSpoke("Work"))
        if hooks == ("stop",):
            session(replied("1.1.0", "Done."))

        decisions = session(CancelAsked())

        assert (CancelEffect(effect(name)), TurnFinished(Cancelled(""), Usage())) == decisions
